// Links to sections arrive, Run All leaves the reader's place, tabs say their chapter, nothing is marked as changed that nobody changed,
// and what is done has a tick.
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
      const now = section.getBoundingClientRect().top;
      still = now === last ? still + 1 : 0;
      if (!still) await widget.setFragment(fragment);
      last = section.getBoundingClientRect().top;
      if (busy) widget.content.activeCellIndex = widget.content.widgets.findIndex((cell) => cell.node.contains(section)); // Shift+Enter is here
    }
  };

  // JupyterLab goes to the last cell when it runs all, where nobody has read yet: back to where the last key or click found the reader.
  const top = ({ node }) => node.getBoundingClientRect().top;
  const look = (panel) => {
    const cell = panel.content.widgets?.find(({ node }) => node.getBoundingClientRect().bottom > top(panel.content));
    return cell && { panel, cell, top: top(cell), active: panel.content.activeCellIndex };
  };
  const stay = async ({ panel, cell, top: before, active }) => {
    panel.content.activeCellIndex = active;
    for (let step = 0; step < STILL; step++) {
      (panel.content.node.querySelector(".jp-WindowedPanel-outer") ?? panel.content.node).scrollTop += top(cell) - before;
      await new Promise((done) => setTimeout(done, STEP));
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

  // What is done has a tick at its heading. A section is read once its end was seen and it was in the middle of the notebook for a fifth
  // of the time that its words take, as on the site (book/_static/record.js); own_work/record_route.py keeps it.
  const ticks = document.head.appendChild(document.createElement("style"));
  const anchor = (name) => `:is([data-jupyter-id="${name}"], [id="${name}"])`;
  const done = new Set();
  let kept = true; // not where a teacher's JupyterLab has no such address
  const ask = async (app, sections) => {
    if (!kept) return;
    const { baseUrl, token } = app.serviceManager.serverSettings;
    const xsrf = /\b_xsrf=([^;]*)/.exec(document.cookie)?.[1];
    const headers = { ...(token && { Authorization: `token ${token}` }), ...(xsrf && { "X-XSRFToken": xsrf }) };
    const post = sections && { method: "POST", body: JSON.stringify({ sections }) };
    const answer = await fetch(`${baseUrl}course/record`, { headers, ...post }).catch(() => null); // the server was stopped
    kept = answer?.status !== 404;
    if (!answer?.ok) return;
    const state = await answer.json();
    for (const name of state.done) done.add(name);
    const heads = [...done].map((name) => `.jp-RenderedMarkdown:has(${anchor(CSS.escape(name))}) :is(h1, h2, h3)::after`);
    ticks.textContent = heads.length ? `${heads.join(",\n")} { content: " ✓"; color: #1a7f37; }` : "";
    return state;
  };

  const reading = new Map(); // label -> seconds in view, and whether its end was seen
  const watch = (app) => {
    const panel = app.shell.currentWidget;
    if (document.hidden || !/^work\/ch\d+_\w+\/(reading|further_\w+)\.ipynb$/.test(panel?.context?.path ?? "")) return;
    const view = panel.content.node.getBoundingClientRect();
    const cells = [...panel.content.node.querySelectorAll(".jp-Cell")];
    const parts = [];
    for (const cell of cells) {
      const label = cell.querySelector('[data-jupyter-id^="sec-"], [data-jupyter-id^="ch-"], [id^="sec-"], [id^="ch-"]');
      if (label) parts.push({ name: label.dataset.jupyterId || label.id, top: cell.getBoundingClientRect().top, words: 0 });
      if (parts.length) parts.at(-1).words += (cell.querySelector(".jp-RenderedMarkdown")?.textContent ?? "").split(/\s+/).length;
    }
    const here = parts.findLastIndex(({ top }) => top < (view.top + view.bottom) / 2);
    if (here < 0 || done.has(parts[here].name)) return;
    const { name, words } = parts[here];
    const state = reading.get(name) ?? { seconds: 0, end: false };
    const end = parts[here + 1]?.top ?? cells.at(-1).getBoundingClientRect().bottom;
    state.seconds += 1;
    state.end ||= end < view.bottom;
    reading.set(name, state);
    if (state.end && state.seconds >= Math.max(5, (words / 125) * 60 / 5)) ask(app, [name]);
  };

  // `course` opens the notebook of what is next; JupyterLab's addresses know no sections.
  const first = decodeURIComponent(location.pathname);
  let next; // where that is, "ch01_rooflines/reading.ipynb#sec-bounds"
  const seen = new WeakSet();
  const meet = async (widget) => {
    if (!widget.context?.path.endsWith(".ipynb") || seen.has(widget)) return;
    seen.add(widget);
    name(widget);
    settle(widget);
    const [path, section] = ((await next) ?? "").split("#");
    if (section && widget.context.path === `work/${path}` && first.endsWith(`/tree/work/${path}`)) lead(widget, `#${section}`);
  };

  const plugin = {
    id: "links-to-sections:plugin",
    autoStart: true,
    activate: (app) => {
      next = ask(app).then((state) => state?.next?.link);
      setInterval(() => watch(app), 1000);
      setInterval(() => document.hidden || ask(app), 5000); // a check that passes writes it from a kernel
      app.shell.layoutModified.connect(() => [...app.shell.widgets("main")].forEach(meet));
      let place;
      for (const kind of ["pointerdown", "keydown"])
        addEventListener(kind, () => (place = app.shell.currentWidget?.content?.widgets && look(app.shell.currentWidget)), true);
      // The start page on the disk has moved on since its tab was made.
      app.shell.currentChanged?.connect((_, { newValue }) => newValue?.context?.path === "work/README.md" && newValue.context.revert());
      app.commands.commandExecuted.connect(async (_, { id, args, result }) => {
        if (id === "notebook:run-all-cells" && place?.panel === app.shell.currentWidget) stay(place);
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
