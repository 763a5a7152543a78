// What a reader types as a number, in questions and exercises.
// 1e5, 100,000, 1,5 and 1.5×10^5, 2^20, 1/3, inf: what is typed as a number, NaN if it is none.
const typedNumber = typed => {
  const text = typed.trim().replace(/[\s\u2009\u202f_]/g, "").replace(/\u2212/g, "-");
  const parts = text.split("/");
  if (parts.length === 2) return typedNumber(parts[0]) / typedNumber(parts[1]);
  const sign = /^-/.test(text) ? -1 : 1, size = text.replace(/^[-+]/, "");
  if (/^(inf|infinity|math\.inf|np\.inf|∞)$/i.test(size)) return sign * Infinity;
  const power = /^(\d+)(?:\^|\*\*)(-?\d+)$/.exec(size);
  if (power) return sign * power[1] ** power[2];
  const plain = size.replace(/[×x·*]10(?:\^|\*\*)\(?([-+]?\d+)\)?$/i, "e$1")
    .replace(/^[1-9]\d{0,2}(,\d{3})+(?!\d)/, whole => whole.replace(/,/g, "")).replace(",", ".");
  return /^(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(plain) ? sign * Number(plain) : NaN;
};
