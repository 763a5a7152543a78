// JupyterLab asks a notebook for a section as soon as its tab is made, when no cell is there yet. So this asks again: until the
// section stays where it is, since cells above it are drawn later and push it down, or until the reader does something.
(() => {
  const STEP = 200; // milliseconds
  const LONGEST = 300; // steps: a minute, since cells are drawn when nothing else is to do
  const STILL = 8; // steps after which nothing is expected to move any more

  const lead = async (widget, fragment) => {
    const panel = widget.content.node;
    const id = CSS.escape(decodeURIComponent(fragment.slice(1)));
    let busy = true;
    for (const kind of ["wheel", "pointerdown", "keydown"])
      panel.addEventListener(kind, () => (busy = false), { once: true, capture: true });
    for (let step = 0, still = 0, last = null; busy && step < LONGEST && still < STILL; step++) {
      await new Promise((done) => setTimeout(done, STEP));
      const section = panel.querySelector(`[data-jupyter-id="${id}"], [id="${id}"]`);
      if (!section) continue;
      const top = section.getBoundingClientRect().top;
      still = top === last ? still + 1 : 0;
      if (!still) await widget.setFragment(fragment);
      last = section.getBoundingClientRect().top;
    }
  };

  const plugin = {
    id: "links-to-sections:plugin",
    autoStart: true,
    activate: (app) => {
      app.commands.commandExecuted.connect(async (_, { id, args, result }) => {
        if (id !== "rendermime:handle-local-link" || !args.id || !args.path.endsWith(".ipynb")) return;
        await result;
        const opened = [...app.shell.widgets("main")].find((widget) => widget.context?.path === args.path);
        if (opened) lead(opened, args.id);
      });
    },
  };

  // What a bundler would write: JupyterLab loads plugins as a module of this name.
  window._JUPYTERLAB = window._JUPYTERLAB || {};
  window._JUPYTERLAB["links-to-sections"] = {
    init: () => {},
    get: () => Promise.resolve(() => ({ __esModule: true, default: plugin })),
  };
})();
