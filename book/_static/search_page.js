// The page that searches: what is typed is looked for at once, and stands in the address.
addEventListener("DOMContentLoaded", () => {
  const form = document.querySelector(".bd-search-container form"), field = form.elements.q;
  const status = document.getElementById("search-status"), list = document.getElementById("search-results");

  const element = (tag, className, ...inside) => {
    const made = document.createElement(tag);
    if (className) made.className = className;
    made.append(...inside);
    return made;
  };

  // A text with what was asked marked in it.
  function marked(text, asked) {
    const pieces = [];
    let end = 0;
    for (const found of text.matchAll(Search.marks(asked))) {
      pieces.push(text.slice(end, found.index), element("mark", "", found[0]));
      end = found.index + found[0].length;
    }
    return [...pieces, text.slice(end)];
  }

  function item({ title, address, trail, term, says }, asked) {
    const heading = element("a", "", ...marked(title, asked));
    heading.href = address;
    const made = element("li", "", heading);
    if (trail.length) made.append(element("p", "search-trail", trail.join(" › ")));
    if (term) {
      const entry = element("a", "", "Glossary");
      entry.href = `book/glossary.html#${term.anchor}`;
      entry.setAttribute("aria-label", `Glossary: ${term.term}`);
      const name = element("span", "", ` (${term.name})`);
      if (/[\uac00-\ud7af]/.test(term.name)) name.lang = "ko";
      else if (/[\u4e00-\u9fff]/.test(term.name)) name.lang = "zh";
      made.append(element("p", "", element("strong", "", term.term), ...(term.name === term.term ? [] : [name]), `: ${term.says} `, entry));
    }
    if (says) made.append(element("p", "", ...marked(says, asked)));
    return made;
  }

  function show() {
    const text = field.value.trim(), found = text ? Search.find(text) : [], asked = Search.mended(text);
    list.replaceChildren(...found.slice(0, Search.MOST).map(one => item(one, asked)));
    const many = found.length > Search.MOST ? `The best ${Search.MOST} of ${found.length} places` : `${found.length} ${found.length === 1 ? "place" : "places"}`;
    const short = text.length > 60 ? `${text.slice(0, 60)}…` : text;
    const instead = asked.swapped.map(([typed, shown]) => `Nothing for “${typed.slice(0, 60)}”; shown: “${shown}”. `).join("");
    status.textContent = !text ? "" : found.length ? `${instead}${many} for “${short}”.` : `Nothing for “${short}”. Try one word of it, or look into the glossary, which is in the order of the alphabet.`;
    document.title = `${text ? `${short} – ` : ""}${document.title.replace(/^.* – /, "")}`;
  }

  field.value = new URLSearchParams(location.search).get("q") ?? "";
  field.addEventListener("input", () => {
    history.replaceState(null, "", field.value.trim() ? `?q=${encodeURIComponent(field.value.trim())}` : location.pathname);
    show();
  });
  form.addEventListener("submit", event => event.preventDefault());
  show();
});
