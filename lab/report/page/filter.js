// The filter of the table of variants: words to tests of rows, and what is wrong with words that make no test. Pure functions.
const rowFilter = (() => {
  const OPERATORS = {
    "=": (a, b) => a === b, "!=": (a, b) => a !== b, "<": (a, b) => a < b, "<=": (a, b) => a <= b, ">": (a, b) => a > b, ">=": (a, b) => a >= b,
  };
  const COMPARISON = /^([^<>=!]+)(<=|>=|!=|=|<|>)(.*)$/;

  /** How many letters must change to make one word of the other. */
  function distance(a, b) {
    let row = Array.from({ length: b.length + 1 }, (_, j) => j);
    for (let i = 1; i <= a.length; i++) {
      const next = [i];
      for (let j = 1; j <= b.length; j++) next[j] = Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1));
      row = next;
    }
    return row[b.length];
  }

  /** The known name that a word was probably meant to be, or null. */
  function meant(word, names) {
    const alike = (name) => name.includes(word) || (name.length > 2 && word.includes(name)) || (word.length > 2 && name.startsWith(word.slice(0, 3)));
    const near = names.map((name) => [name, Math.min(distance(word, name), alike(name) ? 1 : Infinity)]).sort((x, y) => x[1] - y[1] || x[0].length - y[0].length)[0];
    return near && near[1] <= Math.max(1, Math.floor(word.length / 3)) ? near[0] : null;
  }

  /** What a filter calls a column: its name in records.csv, and a parameter also without `p.`. */
  const nameOf = (column) => column.name.replace(/^p\./, "");

  /** A word as `{ passes }`, or as `{ passes, problem }` where it cannot be read: then every row passes. */
  function test(word, columns) {
    const everything = () => true;
    const parts = COMPARISON.exec(word);
    if (!parts) return { passes: (row) => row.some((value) => String(value ?? "").toLowerCase().includes(word)) };
    const [, name, operator, value] = parts;
    const place = columns.findIndex((column) => [column.name, column.title].some((one) => [name, `p.${name}`].includes(one.toLowerCase())));
    if (place < 0) {
      const names = columns.filter((column) => !column.empty).map(nameOf);
      const near = meant(name, names.map((one) => one.toLowerCase()));
      const known = columns.filter((column) => column.shown && !column.empty).map(nameOf).slice(0, 12).join(", ");
      return { passes: everything, problem: `There is no column “${name}”.${near ? ` Did you mean ${near}?` : ""} Columns are ${known} and those of records.csv.` };
    }
    const column = columns[place];
    if (value === "") return { passes: everything, problem: `Write a value behind ${name}${operator}` };
    const number = Number(value.replace(/%$/, "")) / (value.endsWith("%") ? 100 : 1); // shares are fractions of 1
    if (column.numeric && Number.isNaN(number)) return { passes: everything, problem: `${nameOf(column)} holds numbers, and “${value}” is none.` };
    if (!column.numeric && operator !== "=" && operator !== "!=") return { passes: everything, problem: `${nameOf(column)} holds text, which is compared by = or !=.` };
    const wanted = column.numeric ? number : value;
    return { passes: (row) => row[place] !== null && OPERATORS[operator](column.numeric ? row[place] : String(row[place]).toLowerCase(), wanted) };
  }

  /** Every word of a filter read: a test of rows, and the problems to tell. */
  function read(text, columns) {
    const tests = text.toLowerCase().split(/\s+/).filter(Boolean).map((word) => test(word, columns));
    return { passes: (row) => tests.every((one) => one.passes(row)), problems: tests.map((one) => one.problem).filter(Boolean) };
  }

  /** Rows as CSV, with the columns' names above them. */
  function csv(columns, rows) {
    const cell = (value) => {
      const text = value === null || value === undefined ? "" : String(value);
      return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    };
    return [columns.map((column) => column.name), ...rows].map((row) => `${row.map(cell).join(",")}\n`).join("");
  }

  return { read, csv };
})();
