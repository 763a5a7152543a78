// A reader's numbers against the salted hashes of ours, on pages of exercises: three digits count.
(() => {
  const rounds = 10000, near = 1e-3; // as in helpers/check/questions.py; as checks compare
  const bytes = text => new TextEncoder().encode(text);

  const canonical = x => x === 0 ? "0" : Math.abs(x) === Infinity ? (x > 0 ? "inf" : "-inf") : x.toExponential(2).replace("e+", "e");

  const hashed = async (text, salt) => {
    const key = await crypto.subtle.importKey("raw", bytes(text), "PBKDF2", false, ["deriveBits"]);
    const bits = await crypto.subtle.deriveBits({ name: "PBKDF2", hash: "SHA-256", salt: bytes(salt), iterations: rounds }, key, 128);
    return [...new Uint8Array(bits)].map(byte => byte.toString(16).padStart(2, "0")).join("");
  };

  const right = async (x, cell) => {
    for (const text of new Set([x, x * (1 - near), x * (1 + near)].map(canonical)))
      if (await hashed(text, cell.dataset.salt) === cell.dataset.hash) return true;
    return false;
  };

  const judged = async (typed, cell) => {
    const x = typedNumber(typed);
    if (Number.isNaN(x)) return ["?", "not a number, as 1.5e5 would be"];
    return await right(x, cell) ? ["✓", "right"] : ["✗", "not this"];
  };

  const prepare = form => {
    const asked = [...form.querySelectorAll("[data-hash]")];
    if (!asked.length) return;
    const heads = [...form.querySelectorAll("thead th")].map(head => head.textContent);
    const fields = asked.map(cell => {
      const field = document.createElement("input"), mark = document.createElement("span");
      const name = `${heads[cell.cellIndex - 1]}, ${cell.parentNode.cells[0].textContent}`;
      Object.assign(field, { type: "text", autocomplete: "off", spellcheck: false, size: 8 });
      field.setAttribute("aria-label", name);
      field.addEventListener("input", () => { mark.textContent = ""; field.removeAttribute("aria-invalid"); });
      mark.className = "cases-mark";
      cell.replaceChildren(field, mark);
      return { field, mark, name, cell };
    });
    const button = document.createElement("button"), said = document.createElement("p");
    button.textContent = "Compare";
    said.setAttribute("role", "status");
    const foot = document.createElement("div");
    foot.className = "cases-foot";
    foot.append(button, said);
    form.append(foot);
    form.addEventListener("submit", async event => {
      event.preventDefault();
      const told = [];
      for (const { field, mark, name, cell } of fields) {
        if (!field.value.trim()) continue;
        const typed = field.value, [sign, words] = await judged(typed, cell);
        if (field.value !== typed) continue; // typed on meanwhile
        mark.textContent = sign;
        if (sign === "✓") field.removeAttribute("aria-invalid");
        else field.setAttribute("aria-invalid", "true");
        told.push(`${name}: ${words}.`);
      }
      said.textContent = told.join(" ") || "Type a number into a field first.";
    });
  };

  globalThis.matchesHash = right; // for review.js

  if (globalThis.crypto?.subtle) document.querySelectorAll("form.cases").forEach(prepare);
  else if (document.getElementById("cannot-try")) document.getElementById("cannot-try").textContent = " Here it cannot: browsers compare on pages that come over https or from a file.";
})();
