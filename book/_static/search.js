// Search among the sections that _ext/section_search.py lists in SECTIONS: names before prose, phrases before words, and words
// that are nowhere by the nearest that is somewhere. Korean and Chinese are found by what stands in them, without words.
const Search = (() => {
  const CJK = /[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]/;
  const MOST = 30;

  // A word as its relatives are written, too: plurals, -ing, -ism, -ation; British as American.
  const SAME = { bfloat16: "bf16", float32: "f32", float16: "fp16", eq: "equation", eqn: "equation" };
  const spelt = word => word.replace(/is(e|ed|er|ers|es|ing|ation|ations|aton)$/, "iz$1").replace(/tre(s?)$/, "ter$1");
  function stem(word) {
    word = SAME[word] ?? spelt(word);
    for (const end of ["ations", "ation", "isms", "ism", "ings", "ing", "ies", "ed", "es", "s", "e"])
      if (word.endsWith(end) && word.length - end.length >= (end === "s" ? 3 : 4) && !/(ss|us|is)$/.test(word)) return word.slice(0, -end.length);
    return word;
  }
  const written = text => text.normalize("NFKC").toLowerCase().match(/[\p{L}\p{N}_]+(?:\.\d+)*/gu) ?? [];
  const words = text => written(text).map(stem);
  const squeeze = text => words(text).join("");

  // Letters to change, add, drop or swap until one word is the other; more than `most` count as many.
  function apart(a, b, most) {
    if (Math.abs(a.length - b.length) > most) return 9;
    let older = [], old = [...Array(b.length + 1).keys()];
    for (let i = 1; i <= a.length; i++) {
      const now = [i];
      for (let j = 1; j <= b.length; j++) {
        now[j] = Math.min(old[j] + 1, now[j - 1] + 1, old[j - 1] + (a[i - 1] !== b[j - 1]));
        if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) now[j] = Math.min(now[j], older[j - 2] + 1);
      }
      if (Math.min(...now) > most) return 9;
      [older, old] = [old, now];
    }
    return old[b.length];
  }

  // How well a name is what was asked, from 0 to 1.
  function fits(asked, name) {
    if (asked.squeezed === name.squeezed || asked.whole === name.squeezed) return 1;
    const share = Math.min(asked.squeezed.length / name.squeezed.length, name.squeezed.length / asked.squeezed.length);
    const foreign = CJK.test(asked.squeezed);
    if (name.squeezed.startsWith(asked.squeezed) && asked.squeezed.length > 1) return .5 + .4 * share;
    if (foreign && name.squeezed.includes(asked.squeezed)) return .45 + .4 * share;
    if (foreign && name.squeezed.length > 1 && asked.squeezed.includes(name.squeezed)) return .35 + .5 * share;
    if (!foreign && asked.words.every(w => name.words.some(n => n.startsWith(w) && (w.length > 2 || n === w)))) return .45 + .4 * share;
    if (!foreign && ` ${asked.words.join(" ")} `.includes(` ${name.words.join(" ")} `)) return .1 + .7 * share;
    const most = asked.squeezed.length > 8 ? 2 : 1;
    if (!foreign && asked.squeezed.length > 5 && asked.squeezed[0] === name.squeezed[0] && apart(asked.squeezed, name.squeezed, most) <= most) return .7;
    return foreign ? .5 * pairs(asked.squeezed, name.squeezed) : 0;
  }

  // The share of pairs of letters that two words of Korean or Chinese have in common, if it is half or more.
  function pairs(a, b) {
    const of = s => new Set([...s].slice(1).map((c, i) => s[i] + c)), one = of(a), other = of(b);
    const both = [...one].filter(p => other.has(p)).length;
    const share = 2 * both / (one.size + other.size);
    return share >= .5 ? share : 0;
  }

  const named = (text, weight) => ({ text, weight, words: words(text), squeezed: squeeze(text) });

  let sections, terms, things, known, forms; // made of SECTIONS when the first word is asked; a word's form as it is written, its stem
  function prepare() {
    const { pages, sections: all } = SECTIONS, often = new Map();
    forms = new Map();
    sections = all.map(([page, anchor, title, parent, text, names, code]) => {
      const tokens = written(`${title} ${text} ${names.join(" ")} ${code}`), own = tokens.map(stem);
      tokens.forEach((word, n) => forms.set(word, own[n]));
      for (const word of new Set(own)) often.set(word, (often.get(word) ?? 0) + 1);
      const short = title.match(/^(?:\d+\.|Exercise [\d.]+ —|[A-Z\d-]+:) (.+)/)?.[1];
      const kind = pages[page].startsWith("notebooks/") ? .85 : /instructor|errata|bibliography|runs/.test(pages[page]) ? .75 : 1;
      return {
        page: pages[page], anchor, title, text, parent, kind, size: own.length, prose: ` ${own.join(" ")} `, head: ` ${words(title).join(" ")} `,
        names: [named(title, .95), ...(short ? [named(short, .95)] : []), ...names.map(name => named(name, .85))],
      };
    });
    terms = SECTIONS.terms.map(([anchor, term, says, names, section]) => ({ anchor, term, says, section, names: [term, ...names].map(name => named(name)) }));
    things = SECTIONS.things.map(([title, address, names, says]) => ({ title, address, says, names: [title, ...names].map(name => named(name)) }));
    for (const { names } of [...terms, ...things]) for (const { text, words } of names) {
      for (const w of words) if (!often.has(w)) often.set(w, 1);
      written(text).forEach((word, n) => forms.set(word, words[n]));
    }
    known = often;
  }

  // What was asked without the small words, and each word that is nowhere replaced by the nearest that is: a letter or two off,
  // never the first, and none of a short word, which would be another word.
  const SMALL = new Set(words("a an and are at by can do does for from how i in is it many much of on or per the to what when where which why with you"));
  function mended(text) {
    if (!known) prepare();
    const all = written(text), large = all.filter(word => !SMALL.has(stem(word))), swapped = [];
    const asked = (large.length ? large : all).map(typed => {
      const word = stem(typed), close = typed.length > 8 ? 2 : 1;
      if (typed.length < 6 || CJK.test(word) || /\d/.test(word) || known.has(word)) return word;
      if ([...known.keys()].some(other => other.startsWith(word))) return word;
      let best = null, least = close + 1, most = 0;
      for (const [form, other] of forms) {
        if (form[0] !== typed[0]) continue;
        const far = apart(spelt(typed), spelt(form), close), times = known.get(other) ?? 0;
        if (far < least || (far === least && far <= close && times > most)) [best, least, most] = [form, far, times];
      }
      if (best) swapped.push([typed, best]);
      return best ? forms.get(best) : word;
    });
    return { words: asked, squeezed: asked.join(""), whole: all.map(stem).join(""), swapped };
  }

  // The best of some names: how well it is what was asked, and which it is.
  const best = (asked, names) => names.reduce((most, name) => {
    const fit = (name.weight ?? 1) * fits(asked, name);
    return fit > most.fit ? { fit, name: name.text } : most;
  }, { fit: 0 });

  // How much of what was asked stands in a section's heading and prose, from 0 to 1.
  function says(asked, section, weights) {
    let here = 0, all = 0;
    for (const [n, word] of asked.words.entries()) {
      const foreign = CJK.test(word), times = section.prose.split(foreign ? word : ` ${word} `).length - 1;
      const begun = !times && word.length > 2 && section.prose.includes(` ${word}`) ? .4 : 0;
      const head = section.head.includes(` ${word} `) ? 1 : 0;
      here += weights[n] * Math.max(begun, times && .4 + .3 * times / (times + 1 + section.size / 300), head * .9);
      all += weights[n];
    }
    const phrase = asked.words.length > 1 && section.prose.includes(` ${asked.words.join(" ")} `) ? .25 : 0;
    return all ? .75 * here / all + phrase : 0;
  }

  // The sections, chips and models for what somebody typed, best first.
  function find(text) {
    const asked = mended(text);
    if (!asked.squeezed) return [];
    const chapter = /^\s*(?:ch(?:ap(?:ter)?)?\.?\s*(\d)|(\d)\s*장|第\s*(\d)\s*章)\s*$/i.exec(text)?.slice(1).find(n => n);
    const letter = /^[A-Za-z]$/.test(text.trim()) && new RegExp(`(?:^| )${text.trim().toUpperCase()}(?:=|,? [A-Za-z]{2})`); // as a row of the notation begins
    const weights = asked.words.map(w => Math.log(1 + sections.length / (1 + (known.get(w) ?? 0))));
    const found = new Map(), add = (key, score, more) => {
      if (score > (found.get(key)?.score ?? 0)) found.set(key, { ...found.get(key), ...more, score });
    };
    const said = sections.map(section => says(asked, section, weights));
    sections.forEach((section, n) => {
      const { fit } = best(asked, section.names);
      if (chapter && section.parent < 0 && section.title.startsWith(`${chapter}. `)) add(n, 200, { section });
      if (letter && section.page === "book/notation.html" && letter.test(section.text)) add(n, 100, { section });
      if (fit > .3 || said[n] > .3) add(n, section.kind * (100 * fit + 40 * said[n]), { section });
    });
    for (const term of terms) {
      const { fit, name } = best(asked, term.names), n = term.section;
      if (fit > .3) add(n, 100 * fit + 40 * said[n] + 5, { section: sections[n], term: { ...term, name } });
    }
    for (const thing of things) {
      const { fit } = best(asked, thing.names);
      if (fit > .4) add(thing, 105 * fit + (thing.says ? 2 : 0), { thing });
    }
    if (!found.size && /[a-z]\d/i.test(text)) return find(text.replace(/([a-z])(?=\d)/gi, "$1-")); // GPT2
    return [...found.values()].sort((a, b) => b.score - a.score).map(f => result(f, asked));
  }

  function result({ section, term, thing, score }, asked) {
    if (thing) {
      const whole = sections.find(s => s.parent < 0 && thing.address.startsWith(s.page));
      return { title: thing.title, address: thing.address, trail: [whole.title], says: thing.says, score };
    }
    const trail = [];
    for (let above = section.parent; above >= 0; above = SECTIONS.sections[above][3]) trail.unshift(SECTIONS.sections[above][2]);
    const address = `${section.page}${section.anchor ? `#${section.anchor}` : ""}`;
    return { title: section.title, address, trail, term, says: excerpt(section.text, asked), score };
  }

  // Some 200 letters around the place with the most of what was asked.
  const marks = asked => new RegExp(asked.words.map(w => CJK.test(w) ? w : `(?<![\\p{L}\\p{N}])${w.replaceAll(".", "\\.").replace(/iz$/, "i[sz]")}[\\p{L}\\p{N}]*`).join("|"), "giu");
  function excerpt(text, asked) {
    const at = [...text.matchAll(marks(asked))].slice(0, 200).map(m => [m.index, m[0].toLowerCase()]);
    let start = 0, most = 0;
    for (const [n, [here]] of at.entries()) {
      const many = new Set(at.slice(n).filter(([i]) => i < here + 180).map(([, w]) => w)).size;
      if (many > most) [start, most] = [here, many];
    }
    if (most < new Set(asked.words).size) start = 0; // no place has all of it: how the section begins says more
    const from = start < 60 ? 0 : text.indexOf(" ", start - 60) + 1;
    let to = text.length <= from + 220 ? text.length : text.lastIndexOf(" ", from + 220);
    if (to <= from) to = from + 220;
    return `${from ? "… " : ""}${text.slice(from, to)}${to < text.length ? " …" : ""}`;
  }

  return { find, mended, marks, MOST };
})();
