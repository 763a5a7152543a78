// The index of methods shows those with all words that are typed, or that begin so, of all chapters or of one. What is asked stands
// in the address. All-reduce is AllReduce and all_reduce, and reduce is in it; quantise is quantize.
addEventListener("DOMContentLoaded", () => {
  const form = document.getElementById("methods-filter"), status = form.querySelector("[role=status]");
  const plain = text => ` ${text.toLowerCase().replaceAll("z", "s").replace(/[^\p{L}\p{N}.]+|\.(?!\d)/gu, " ").trim()}`;
  const apart = text => plain(text.replace(/([a-z])(?=[A-Z])/g, "$1 ")), joined = text => plain(text.replace(/[-‐–_]/g, ""));
  const rows = [...document.querySelectorAll("table[id^=of-] tbody tr")].map(row => {
    const text = [...row.cells].map(cell => cell.textContent).join(" "), one = apart(text), other = joined(text);
    return [row, row.closest("table"), word => one.includes(apart(word)) || other.includes(joined(word))];
  });
  const tables = [...new Set(rows.map(([, table]) => table))];

  function show() {
    const words = form.elements.q.value.split(/\s+/), menu = form.elements.chapter, chapter = menu.value;
    let many = 0, elsewhere = 0;
    for (const [row, table, says] of rows) {
      const found = words.every(says), here = chapter === "" || table.id === chapter;
      row.hidden = !found || !here;
      many += found && here;
      elsewhere += found && !here;
    }
    for (const table of tables) (table.closest(".pst-scrollable-table-container") ?? table).hidden = ![...table.tBodies[0].rows].some(row => !row.hidden);
    form.parentElement.querySelector("ul").hidden = many < rows.length; // the list of chapters, most of which are not there
    status.textContent = many ? `${many} of ${rows.length} methods`
      : elsewhere ? `None of ${menu.selectedOptions[0].textContent.toLowerCase()}’s has all these words; ${elsewhere} elsewhere.`
        : `None of ${rows.length} methods has all these words; the search of the book looks further.`;
  }

  function read() {
    const asked = new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : "");
    form.elements.q.value = asked.get("q") ?? "";
    const number = /^(?:of-)?(?:ch(?:apter)? ?)?0?(\d)(?:_|$)/i.exec(asked.get("chapter") ?? "")?.[1], { options } = form.elements.chapter;
    options.selectedIndex = Math.max(0, [...options].findIndex(option => option.textContent === `Chapter ${number}`));
    show();
  }

  form.addEventListener("input", () => {
    const asked = new URLSearchParams([...new FormData(form)].filter(([, value]) => value.trim()));
    history.replaceState(null, "", `#${asked}`);
    show();
  });
  form.addEventListener("submit", event => event.preventDefault());
  addEventListener("hashchange", read);
  read();
});
