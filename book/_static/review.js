// Review on the page: which cards are due, with which numbers, and how they move, as helpers/check/review.py decides (a test holds the
// two together). The cards are in review_cards.js, what is known in this browser's record (record.js); nothing is asked of another host.
const courseReview = (() => {
  const SPANS = [1, 3, 7, 21], A_DAY = 300, QUESTION = 25, EXERCISE = 100, SLOT = "\x01";
  const since = (card, record) => {
    const names = [`e:${card.name}`, `q:${card.name}`, `s:${card.name.replace(/\.[^.]*$/, "")}`];
    const days = names.map(name => record.get(name)?.[0]).filter(day => day !== undefined);
    return days.length ? Math.min(...days) : null;
  };
  const due = (card, record) => {
    const entry = record.get(`r:${card.name}`);
    if (entry) return entry[1] < SPANS.length ? entry[0] + SPANS[entry[1]] : null;
    const day = since(card, record);
    return day === null ? null : day + SPANS[0];
  };
  const seconds = card => card.call ? EXERCISE : QUESTION;
  const waiting = (cards, record, today) => {
    let spent = cards.reduce((sum, card) => sum + (record.get(`r:${card.name}`)?.[0] === today ? seconds(card) : 0), 0);
    return cards.map((card, i) => [due(card, record), i]).filter(([day]) => day !== null && day <= today)
      .sort(([a, i], [b, j]) => a - b || i - j).map(([, i]) => cards[i]).filter(card => (spent += seconds(card)) <= A_DAY);
  };
  const step = (record, name, known) => known ? Math.min((record.get(`r:${name}`)?.[1] ?? 0) + 1, SPANS.length) : 0;
  const times = (record, name) => record.get(`r:${name}`)?.[2] ?? 0;
  const setting = (card, asked) => (asked + [...card.name].reduce((n, c) => n + c.charCodeAt(), 0)) % card.fills.length;

  // A card with its numbers: {text, replies: [[value, told]], right, hash, salt}.
  const shown = (card, asked) => {
    const index = setting(card, asked), fills = [...card.fills[index]];
    if (card.call) {
      const [statement, doc] = card.texts, [hash, salt] = card.hashes[index];
      return { text: statement, doc, call: `${card.call}(${card.given.map((name, i) => `${name}=${fills[i]}`).join(", ")})`, replies: [], hash, salt };
    }
    const [text, ...said] = card.texts.map(part => [...part].map(c => c === SLOT ? fills.shift() : c).join(""));
    let replies = said.flatMap((value, i) => i % 2 ? [] : [[value, said[i + 1]]]);
    const right = replies[card.right[index]], turn = "unit" in card ? 0 : asked % replies.length;
    replies = [...replies.slice(turn), ...replies.slice(0, turn)];
    return { text, replies, right: replies.indexOf(right) };
  };
  return { due, waiting, step, times, shown };
})();

if (globalThis.document) addEventListener("DOMContentLoaded", () => {
  const box = document.getElementById("review-cards"), today = courseRecord.today();
  const add = (parent, tag, props = {}, ...children) => {
    const element = Object.assign(document.createElement(tag), props);
    element.append(...children);
    parent?.append(element);
    return element;
  };

  const asked = (card, { text, doc, call, replies, right, hash, salt }) => {
    const holder = add(null, "div", { className: "ask docutils container" }), form = add(holder, "form");
    const fields = add(form, "fieldset");
    add(fields, "legend", {}, text);
    if (doc) add(add(form, "details"), "summary", {}, "What the parameters mean").after(add(null, "pre", {}, doc));
    if (call) { add(fields, "code", { className: "call" }, call); form.dataset.call = ""; }
    if (replies.length && !("unit" in card))
      replies.forEach(([value], i) => {
        const radio = add(null, "input", { type: "radio", name: "review", value: i });
        if (i === right) radio.dataset.right = "";
        add(fields, "label", {}, radio, ` ${value}`);
      });
    else {
      add(fields, "label", {}, `${call ? card.asks : "Your answer"} `, add(null, "input", { autocomplete: "off", size: 9 }), ` ${card.unit ?? ""}`);
      if (!call) Object.assign(form.dataset, { right: typedNumber(replies[right][0]), within: card.within, unit: card.unit });
    }
    add(fields, "button", {}, "Check");
    add(fields, "button", { type: "button", className: "unknown" }, "I do not know");
    add(fields, "output");
    replies.forEach(([value, told], i) => {
      if (i !== right) add(form, "p", { hidden: true }, told).dataset.for = "unit" in card ? typedNumber(value) : i;
    });
    const details = add(form, "details", { className: "answer" });
    add(details, "summary", {}, call ? "Where it is from" : "Answer");
    const link = add(null, "a", { href: card.page }, card.where);
    add(details, "p", {}, call ? "" : `${[replies[right][0], card.unit].filter(Boolean).join(" ")}: ${replies[right][1]} `, link);
    if (!call) askIn(form);
    else form.addEventListener("submit", async event => {
      event.preventDefault();
      const x = typedNumber(form.querySelector("input").value), out = form.querySelector("output");
      if (Number.isNaN(x)) return void (out.textContent = "Write a number, such as 100, 1e5 or 1/6.");
      const cell = { dataset: { hash, salt } }, known = await matchesHash(x, cell);
      out.textContent = known ? "Right." : "Not this.";
      form.dispatchEvent(new CustomEvent("answered", { detail: known }));
    });
    if (call) form.classList.add("on");
    return { holder, form, details };
  };

  const next = (done = 0, known = 0) => {
    const record = courseRecord.read(), left = courseReview.waiting(reviewCards, record, today);
    if (!left.length) {
      const days = reviewCards.map(card => courseReview.due(card, record)).filter(day => day !== null && day > today);
      const first = Math.min(...days), date = () => new Date(Date.UTC(2026, 0, 1 + first)).toISOString().slice(0, 10);
      box.replaceChildren(add(null, "p", {}, done ? `${known} of ${done} known. ` : "",
        days.length ? `Next review: ${date()}, ${days.filter(day => day === first).length} of them.` : "Nothing waits: what you read comes the next day."));
      return;
    }
    const card = left[0], { holder, form, details } = asked(card, courseReview.shown(card, courseReview.times(record, card.name)));
    const answer = right => {
      if (form.dataset.done) return;
      form.dataset.done = "";
      const now = courseRecord.read();
      courseRecord.note(`r:${card.name}`, courseReview.step(now, card.name, right), courseReview.times(now, card.name) + 1);
      details.open = true;
      form.querySelector(".unknown").remove();
      const on = add(holder, "button", { type: "button", className: "on-with-it" }, right ? "Next" : "Next; this one comes tomorrow");
      on.addEventListener("click", () => next(done + 1, known + right));
      on.focus();
    };
    form.addEventListener("answered", ({ detail }) => answer(detail));
    form.querySelector(".unknown").addEventListener("click", () => answer(false));
    box.replaceChildren(add(null, "p", {}, `${left.length} left today · ${card.where}`), holder);
  };
  next();

  const line = document.getElementById("record-line"), said = document.getElementById("record-said");
  const show = () => { if (document.activeElement !== line) line.value = courseRecord.line(courseRecord.read()); };
  show();
  addEventListener("course-record", show);
  line.addEventListener("focus", () => line.select());
  document.getElementById("record-take").addEventListener("click", () => {
    try {
      const news = courseRecord.bring(courseRecord.parse(line.value));
      said.textContent = news ? `${news} words were news, and are kept.` : "All of it was known here.";
      line.value = courseRecord.line(courseRecord.read());
      next();
    } catch (error) { said.textContent = error.message; }
  });
});
