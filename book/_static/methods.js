// The index of methods shows those with all words that are typed, of all chapters or of one. What is asked stands in the address.
addEventListener("DOMContentLoaded", () => {
  const form = document.getElementById("methods-filter"), status = form.querySelector("[role=status]");
  const plain = text => text.toLowerCase().replace(/[-‐–\s]+/g, " ");
  const rows = [...document.querySelectorAll("table[id^=of-] tbody tr")].map(row => [row, plain(row.textContent), row.closest("table")]);
  const tables = [...new Set(rows.map(([, , table]) => table))];

  function show() {
    const words = plain(form.elements.q.value).split(" "), chapter = form.elements.chapter.value;
    let many = 0;
    for (const [row, text, table] of rows) {
      row.hidden = !words.every(word => text.includes(word)) || (chapter !== "" && table.id !== chapter);
      many += !row.hidden;
    }
    for (const table of tables) (table.closest(".pst-scrollable-table-container") ?? table).hidden = ![...table.tBodies[0].rows].some(row => !row.hidden);
    form.parentElement.querySelector("ul").hidden = many < rows.length; // the list of chapters, most of which are not there
    status.textContent = many ? `${many} of ${rows.length} methods` : `None of ${rows.length} methods has all these words; the search of the book looks further.`;
  }

  function read() {
    const asked = new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : "");
    form.elements.q.value = asked.get("q") ?? "";
    form.elements.chapter.value = asked.get("chapter") ?? "";
    if (form.elements.chapter.selectedIndex < 0) form.elements.chapter.value = "";
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
