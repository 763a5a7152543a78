// What a reader has read and answered, kept in this browser and carried to the laptop and back as one line of text, which
// helpers/check/record.py writes and reads alike (a test holds the two together). Nothing of it leaves the page by itself.
const courseRecord = (() => {
  const KEY = "r2r", WORD = /^([sqer]):([\w.:-]{1,80})=(\d{1,5})([+-]|@\d(?:\.\d{1,3})?)?$/;
  const FITS = { s: /^$/, q: /^[+-]$/, e: /^$/, r: /^@[\d.]+$/ };
  let unkept = ""; // where a browser keeps nothing, the page does
  const stored = () => { try { return localStorage.getItem(KEY) ?? unkept; } catch { return unkept; } };
  const store = text => { unkept = text; try { localStorage.setItem(KEY, text); } catch { /* full, or forbidden */ } };

  const today = (now = new Date()) =>
    Math.max(0, Math.round((Date.UTC(now.getFullYear(), now.getMonth(), now.getDate()) - Date.UTC(2026, 0, 1)) / 864e5));
  // [day, state] of one name: the first day of a reading or a pass, the last of an answer or a review, of one day the lower step; of a
  // review also how often it was asked.
  const later = (kind, [day, state, asked], [other, its, times]) => {
    if (kind === "s" || kind === "e") return [Math.min(day, other), 0];
    if (kind === "q") return [Math.max(day, other), Math.max(state, its)];
    const stays = day - other || its - state || asked - times;
    return stays >= 0 ? [day, state, asked] : [other, its, times];
  };
  const put = (record, name, entry) => record.set(name, record.has(name) ? later(name[0], record.get(name), entry) : entry);

  const parse = line => {
    const [head, count, ...words] = line.trim().split(/\s+/), record = new Map();
    if (head !== "r2r1" || !/^\d+$/.test(count ?? "")) throw Error('This is no line of the course: it begins with "r2r1" and a number.');
    if (words.length !== +count) throw Error(`The line is cut short: it says that it has ${+count} words, and ${words.length} ${words.length === 1 ? "is" : "are"} here. Copy all of it.`);
    for (const text of words) {
      const [, kind, name, day, end = ""] = WORD.exec(text) ?? [];
      if (!kind || !FITS[kind].test(end)) throw Error(`The line has a word that says nothing: '${text.slice(0, 40)}'. Copy it again.`);
      put(record, `${kind}:${name}`, kind === "r" ? [+day, +end[1], +end.slice(3)] : [+day, +(end === "+")]);
    }
    return record;
  };
  const ends = { s: () => "", e: () => "", q: state => "-+"[state], r: (state, asked) => `@${state}.${asked}` };
  const line = record => {
    const words = [...record].map(([name, [day, ...state]]) => `${name}=${day}${ends[name[0]](...state)}`).sort();
    return ["r2r1", words.length, ...words].join(" ");
  };
  const read = () => { try { return parse(stored()); } catch { return new Map(); } };
  // Read again before each change, for another page may have written meanwhile. A browser may tell of that late, and then the
  // other's line lacks what was brought here: once it does tell, this page brings that again.
  const brought = new Map();
  const heard = text => text === null ? brought.clear() : bring(brought);
  const bring = other => {
    const record = read(), before = new Set(line(record).split(" ").slice(2));
    for (const [name, entry] of other) { put(record, name, entry); put(brought, name, entry); }
    store(line(record));
    globalThis.dispatchEvent?.(new Event("course-record"));
    return line(record).split(" ").slice(2).filter(word => !before.has(word)).length;
  };
  return { today, parse, line, read, bring, heard, note: (name, ...state) => bring(new Map([[name, [today(), ...state]]])) };
})();

if (globalThis.document) addEventListener("DOMContentLoaded", () => {
  const labels = [...document.querySelectorAll('.bd-article [id^="sec-"], .bd-article [id^="ch-"]')].map(place => {
    const section = place.closest("section");
    return { name: place.id, section, heading: section?.querySelector("h1, h2, h3, h4") };
  }).filter(({ section, heading }) => section && heading);
  const key = name => /^ex-\d+-\d+$/.test(name) ? `e:${name.slice(3).replace("-", ".")}` : `s:${name}`;

  // Ticks at headings of what is done, and at links to it in lists of paths; there, too, where the path goes on.
  const tick = (element, is, first) => {
    const there = element.querySelector(":scope > .done");
    if (!is || there) return is || there?.remove();
    const mark = Object.assign(document.createElement("span"), { className: "done", textContent: first ? "✓ " : " ✓", title: "done" });
    element[first ? "prepend" : "append"](mark);
  };
  const paths = document.getElementById("sec-paths")?.closest("section");
  const steps = [...(paths?.querySelectorAll("li a[href*='#']") ?? [])];
  const stepName = a => a.hash.slice(1);
  const show = () => {
    const record = courseRecord.read(), is = name => record.has(key(name));
    for (const { name, heading } of labels) tick(heading, is(name), false);
    for (const heading of document.querySelectorAll(".bd-article h3")) {
      const number = /^Exercise (\d+)\.(\d+) /.exec(heading.textContent);
      if (number) tick(heading, is(`ex-${number[1]}-${number[2]}`), false);
    }
    for (const a of steps) tick(a, is(stepName(a)), true);
    const days = steps.map(a => (record.get(key(stepName(a))) ?? [-1])[0]);
    const last = days.lastIndexOf(Math.max(-1, ...days.filter(day => day >= 0))); // of that day the furthest
    document.querySelector(".go-on")?.remove();
    if (!days.some(day => day >= 0)) return;
    const next = [...steps.slice(last + 1), ...steps].find(a => !is(stepName(a)));
    const box = Object.assign(document.createElement("p"), { className: "go-on" });
    const read = new Set(steps.map(stepName).filter(is)).size, all = new Set(steps.map(stepName)).size;
    box.textContent = next ? "Go on: " : "All of these paths is done. ";
    if (next) box.append(/^\d/.test(next.textContent) ? "exercise " : "", Object.assign(next.cloneNode(true), { className: "reference internal" }));
    box.append(` (${read} of ${all} steps of the paths below)`);
    document.querySelector(".doors")?.before(box);
  };
  show();
  addEventListener("course-record", show);
  addEventListener("storage", ({ key, newValue }) => { if (key === "r2r") { courseRecord.heard(newValue); show(); } });

  // A section is read once its end was seen and it was in the middle of the screen for a fifth of the time that its words take.
  const words = ({ section }) => section.textContent.split(/\s+/).length
    - [...section.querySelectorAll(":scope > section")].filter(s => labels.some(l => l.section === s)).reduce((n, s) => n + s.textContent.split(/\s+/).length, 0);
  const seen = new Map();
  if (labels.length) setInterval(() => {
    if (document.hidden) return;
    const tops = labels.map(({ heading }) => heading.getBoundingClientRect().top);
    const here = tops.findLastIndex(top => top < innerHeight / 2), label = labels[here];
    if (!label || courseRecord.read().has(`s:${label.name}`)) return;
    const state = seen.get(label) ?? { seconds: 0, needs: Math.max(5, (words(label) / 125 * 60) / 5), end: false };
    const end = tops[here + 1] ?? label.section.getBoundingClientRect().bottom;
    state.seconds++;
    state.end ||= end < innerHeight;
    seen.set(label, state);
    if (state.end && state.seconds >= state.needs) courseRecord.note(`s:${label.name}`);
  }, 1000);

  // Questions of the text remember that they were answered (ask.js says so when they are).
  for (const form of document.querySelectorAll(".ask form[data-name]"))
    if (courseRecord.read().get(`q:${form.dataset.name}`)?.[1]) form.querySelector("output").textContent = "You have answered this one right.";
});
