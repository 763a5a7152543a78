// Links to sections arrive, tabs say their chapter, and nothing is marked as changed that nobody changed.
//
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

  // "4 · exercises.ipynb": every chapter's notebooks have the same names. A changed label would rename the file, so this stands before it.
  const name = (widget) => {
    const [, chapter] = widget.context.path.match(/ch0?(\d+)_\w+\/\w+\.ipynb$/) || [];
    if (chapter) widget.title.dataset = { ...widget.title.dataset, chapter };
  };
  const rule = (n) => `.lm-TabBar-tab[data-chapter="${n}"] .lm-TabBar-tabLabel::before { content: "${n} · "; }`;
  const style = document.createElement("style");
  style.textContent = [1, 2, 3, 4, 5, 6, 7, 8, 9].map(rule).join("\n");
  document.head.append(style);

  // JupyterLab writes the kernel's version into a notebook as it opens, and would ask whether to save that.
  const settle = async (widget) => {
    const { context } = widget;
    await context.ready;
    let edited = context.model.dirty;
    for (const kind of ["keydown", "drop", "paste"])
      widget.node.addEventListener(kind, () => (edited = true), { once: true, capture: true });
    await context.sessionContext.ready;
    await context.sessionContext.session?.kernel?.info;
    await new Promise((done) => setTimeout(done, STEP)); // what waits for the same two comes first
    if (!edited) context.model.dirty = false;
  };

  const seen = new WeakSet();
  const meet = (widget) => {
    if (!widget.context?.path.endsWith(".ipynb") || seen.has(widget)) return;
    seen.add(widget);
    name(widget);
    settle(widget);
  };

  const plugin = {
    id: "links-to-sections:plugin",
    autoStart: true,
    activate: (app) => {
      app.shell.layoutModified.connect(() => [...app.shell.widgets("main")].forEach(meet));
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
