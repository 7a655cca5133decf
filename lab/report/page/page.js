// All that the page does: it draws charts from the embedded specifications, the table, and the code of one variant or two.
// Text reaches the page through textContent; only the CUDA source and the access maps are HTML, which lab made and escaped.
(() => {
  const $ = (id) => document.getElementById(id);
  const data = JSON.parse($("data").textContent);
  const columns = data.columns;
  const at = Object.fromEntries(columns.map((column, i) => [column.name, i]));
  const records = data.rows.map((row) => Object.fromEntries(columns.map((column, i) => [column.key, row[i]])));
  const byVariant = new Map(data.rows.map((row) => [row[at.variant], row]));
  const shortNames = new Map(data.rows.map((row, i) => [row[at.variant], data.names[i]]));
  const filesBeside = new Map(data.rows.map((row, i) => [row[at.variant], data.beside.sets[data.beside.of[i]]]));
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const broad = matchMedia("(min-width: 900px)");

  /** An element with properties and children; strings become text. */
  function make(tag, properties = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) {
      if (name === "class") element.className = value;
      else if (name in element) element[name] = value;
      else element.setAttribute(name, value);
    }
    element.append(...children.filter((child) => child !== null && child !== undefined));
    return element;
  }

  async function inflate(base64) {
    const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  }

  /** A number in one of the format specifications that columns use: [,].Nf, .N%, .Ng and d. */
  function format(value, spec) {
    if (value === null || value === undefined) return "";
    const parts = /^(,?)(?:\.(\d+))?([f%gd])$/.exec(spec);
    if (!parts || typeof value !== "number") return String(value);
    const digits = Number(parts[2] ?? 0);
    if (parts[3] === "g") return String(Number(value.toPrecision(digits)));
    const scaled = parts[3] === "%" ? value * 100 : value;
    const text = scaled.toLocaleString("en-US", {
      minimumFractionDigits: digits, maximumFractionDigits: digits, useGrouping: parts[1] === ",",
    });
    return parts[3] === "%" ? `${text} %` : text;
  }

  // ---- charts

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const shownChoice = {};
  const mixRows = data.mix.parts.map(([variant, cls, mix, hot, count, share]) => ({
    name: data.mix.variants[variant][0], variant: data.mix.variants[variant][1], cls: data.mix.classes[cls], order: cls, mix: data.mix.mixes[mix], hot, count, share,
  }));
  const explainRows = data.explain.map(([place, figure, kind, value]) => ({ ...data.datasets.curve[place], figure, kind, value }));

  function config(id, width) {
    const beside = broad.matches && $(`chart-${id}`).closest("[data-beside]"); // its left neighbour names the rows
    const [ink, soft, line] = ["--ink", "--soft", "--line"].map(colour);
    const font = getComputedStyle(document.body).fontFamily;
    const label = { labelColor: ink, titleColor: ink, labelFont: font, titleFont: font, titleFontWeight: 500, labelFontSize: 12, titleFontSize: 12 };
    return {
      background: "transparent", font, view: { stroke: null },
      axis: { ...label, gridColor: line, domainColor: line, tickColor: line, titlePadding: 8 },
      axisX: { titleAnchor: broad.matches ? "middle" : "end" },
      axisY: { labels: !beside, labelLimit: width * (width < 500 ? 0.48 : 0.45), labelFontSize: width < 500 ? 10 : 11 },
      legend: { ...label, labelLimit: 180, titleLimit: 360, symbolType: "circle" },
      text: { color: ink, font, fontSize: 12 }, rule: { color: ink }, tick: { color: soft },
    };
  }

  const AXIS_ROOM = 96; // pixels beside a plot for its axis

  // Vega-Lite fits a single plot to its container, but not plots below each other.
  function sized(choice, width) {
    if (!choice.spec.vconcat) return choice;
    const vconcat = choice.spec.vconcat.map((part) => ({ ...part, width: Math.max(width - AXIS_ROOM, 160) }));
    return { ...choice, spec: { ...choice.spec, vconcat } };
  }

  async function drawChart(element) {
    const id = element.dataset.chart;
    if (element.closest("details:not([open])")) return; // it has no width before it is unfolded
    const { spec } = sized(data.charts[id][shownChoice[id] ?? 0], element.clientWidth);
    const datasets = { ...spec.datasets, ...data.datasets, mix: mixRows, explain: explainRows, records };
    const { view } = await vegaEmbed(element, { ...spec, description: data.labels[id], datasets }, {
      ast: true, // expressions are interpreted: the page's policy forbids to compile them
      actions: false, mode: "vega-lite", renderer: records.length > 1000 ? "canvas" : "svg",
      config: config(id, element.clientWidth), defaultStyle: false, tooltip: { disableDefaultStyle: true },
    });
    view.addEventListener("click", (event, item) => {
      const variant = item?.datum?.variant ?? data.rows[item?.datum?.record]?.[at.variant]; // of a record's number
      if (!variant) return;
      if (opened && opened !== variant && (event.shiftKey || event.ctrlKey || event.metaKey)) visit({ variant: opened, other: variant });
      else visit({ variant });
    });
  }

  async function drawCharts() {
    try {
      if (!window.vegaEmbed) document.head.append(make("script", { textContent: await inflate($("vega").textContent) }));
      for (const element of document.querySelectorAll("[data-chart]")) await drawChart(element);
    } catch (error) {
      console.error(error);
      for (const element of document.querySelectorAll(".chart:empty")) if (!element.closest("details:not([open])")) element.textContent = `This chart could not be drawn: ${error.message}`;
    }
  }

  /** Show one of the choices of a switch; its charts are drawn by whoever calls. */
  function choose(group, choice) {
    for (const button of group.children) button.setAttribute("aria-pressed", String(Number(button.dataset.choice) === choice));
    for (const id of group.dataset.switch.split(" ")) shownChoice[id] = choice;
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-choice]");
    if (!button) return;
    const group = button.closest("[data-switch]");
    choose(group, Number(button.dataset.choice));
    for (const id of group.dataset.switch.split(" ")) drawChart($(`chart-${id}`));
    writeAddress();
  });
  document.addEventListener("toggle", (event) => {
    if (event.target.open && window.vegaEmbed) for (const element of event.target.querySelectorAll("[data-chart]:empty")) drawChart(element);
  }, true);
  for (const query of [dark, broad]) query.addEventListener("change", drawCharts);

  // ---- tables

  /** The order of two cells; empty ones come last in either direction. */
  function compare(a, b, ascending) {
    if (a === b) return 0;
    if (a === null) return 1;
    if (b === null) return -1;
    const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
    return ascending ? order : -order;
  }

  /** Say which page is shown, counted from 0, and enable the buttons that lead to others. */
  function showPager(pager, page, pages) {
    pager.hidden = pages === 1;
    pager.querySelector("span").textContent = `page ${page + 1} of ${pages}`;
    const [previous, next] = pager.querySelectorAll("button");
    const used = document.activeElement;
    previous.disabled = page === 0;
    next.disabled = page === pages - 1;
    if (used === previous && previous.disabled) next.focus(); // a disabled button loses the focus
    if (used === next && next.disabled) previous.focus();
  }

  /** Make the headers of a table of the HTML sort its rows, and show the rows page by page. */
  function paged(table) {
    const body = table.tBodies[0], pager = $(table.dataset.pager), size = Number(table.dataset.paged);
    const rows = [...body.rows], state = { page: 0, size };
    const heads = [...table.tHead.rows[0].cells];
    const value = (row, column) => {
      const cell = row.cells[column];
      if (cell.dataset.value === undefined) return cell.textContent || null;
      return cell.dataset.value === "" ? null : Number(cell.dataset.value);
    };
    function show() {
      const pages = Math.max(1, Math.ceil(rows.length / state.size));
      state.page = Math.min(Math.max(state.page, 0), pages - 1);
      body.replaceChildren(...rows.slice(state.page * state.size, (state.page + 1) * state.size));
      showPager(pager, state.page, pages);
    }
    heads.forEach((head, column) => {
      const button = make("button", { type: "button", title: head.title }, head.firstChild);
      head.removeAttribute("title");
      head.prepend(button);
      head.setAttribute("aria-sort", "none");
      button.addEventListener("click", () => {
        const before = head.getAttribute("aria-sort");
        const ascending = before === "none" ? !head.classList.contains("num") : before === "descending";
        for (const other of heads) other.setAttribute("aria-sort", "none");
        head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
        rows.sort((x, y) => compare(value(x, column), value(y, column), ascending));
        state.page = 0;
        show();
      });
    });
    pager.addEventListener("click", (event) => {
      if (!event.target.dataset.page) return;
      state.page += Number(event.target.dataset.page);
      show();
    });
    addEventListener("beforeprint", () => { state.size = rows.length; show(); });
    addEventListener("afterprint", () => { state.size = size; show(); });
    show();
  }
  document.querySelectorAll("table[data-paged]").forEach(paged);

  // ---- the table of variants

  const PAGE = 100;
  const view = { sort: at[data.sort], ascending: false, page: 0, all: false, filter: "", size: PAGE };
  if (columns[view.sort].empty) Object.assign(view, { sort: null });

  const START = { sort: view.sort, ascending: view.ascending }; // what the address does not say

  const isFailed = (row) => data.failed.includes(row[at.status]);

  /** The rows that pass the filter, in the order of the table; says beside the filter what is wrong with it. */
  function rowsInView() {
    const { passes, problems } = rowFilter.read(view.filter, columns);
    $("filter-problem").textContent = problems.join(" ");
    $("filter").setAttribute("aria-invalid", String(problems.length > 0));
    const rows = data.rows.filter(passes);
    if (view.sort === null) return rows;
    const ranked = view.sort === START.sort; // where the table ranks, what is not sound comes behind what is
    const value = view.sort === at.variant ? nameOf : (row) => row[view.sort];
    return rows.sort((x, y) => (ranked && isFailed(x) - isFailed(y)) || compare(value(x), value(y), view.ascending));
  }

  const nameOf = (row) => shortNames.get(row[at.variant]);
  const shownColumns = () => columns.map((column, i) => ({ ...column, i })).filter((c) => (view.all ? !c.empty : c.shown));

  function drawHead() {
    $("table").tHead.replaceChildren(make("tr", {}, ...shownColumns().map((column) => {
      const order = view.sort === column.i ? (view.ascending ? "ascending" : "descending") : "none";
      const button = make("button", { type: "button", textContent: column.title, title: column.about });
      button.dataset.column = column.i;
      return make("th", { scope: "col", class: column.numeric ? "num" : "", "aria-sort": order }, button,
        make("small", {}, column.unit ? `${column.unit} ` : "", column.kind ? make("span", { class: `chip ${column.kind}` }, column.kind) : null));
    })));
  }

  function cell(column, row) {
    const value = row[column.i];
    const text = format(value, column.format);
    if (column.name === "variant") {
      const box = make("input", { type: "checkbox", checked: chosen.includes(value), title: "compare", "aria-label": `compare ${nameOf(row)}` });
      box.dataset.compare = value;
      const link = make("a", { href: `#v-${encodeURIComponent(value)}`, title: `${nameOf(row)} (${value})` }, nameOf(row));
      return make("td", {}, box, link);
    }
    if (column.name === "status") return make("td", {}, make("span", { class: `status ${value.startsWith("verified") ? "good" : value === "inspected" ? "" : "bad"}` }, value));
    return make("td", { class: column.numeric ? "num" : "long", title: column.numeric ? "" : text }, text);
  }

  function drawBody() {
    const rows = rowsInView(), shown = shownColumns();
    const pages = Math.max(1, Math.ceil(rows.length / view.size));
    view.page = Math.min(Math.max(view.page, 0), pages - 1);
    const part = rows.slice(view.page * view.size, (view.page + 1) * view.size);
    const used = document.activeElement?.dataset?.compare ?? null, link = document.activeElement?.getAttribute("href");
    const inside = $("table").tBodies[0].contains(document.activeElement);
    $("table").tBodies[0].replaceChildren(...part.map((row) =>
      make("tr", { class: row[at.variant] === opened || row[at.variant] === beside ? "open" : "" }, ...shown.map((column) => cell(column, row)))));
    if (inside) { // the row that had the focus was made anew
      const again = [...$("table").tBodies[0].querySelectorAll("input, a")].find((one) => (used ? one.dataset.compare === used : one.getAttribute("href") === link));
      again?.focus({ preventScroll: true });
    }
    $("count").textContent = rows.length === data.rows.length ? `${rows.length} variants` : `${rows.length} of ${data.rows.length} variants`;
    showPager($("pager"), view.page, pages);
  }

  $("table").tHead.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    const column = Number(button.dataset.column);
    view.ascending = view.sort === column ? !view.ascending : !columns[column].numeric;
    Object.assign(view, { sort: column, page: 0 });
    drawHead();
    drawBody();
    writeAddress();
    $("table").tHead.querySelector(`[data-column="${column}"]`).focus();
  });
  $("filter").addEventListener("input", (event) => { Object.assign(view, { filter: event.target.value, page: 0 }); drawBody(); writeAddress(); });
  $("all-columns").addEventListener("change", (event) => { view.all = event.target.checked; drawHead(); drawBody(); writeAddress(); });
  $("table").tBodies[0].addEventListener("change", (event) => { // the first box that is ticked opens a variant, the second compares
    const variant = event.target.dataset.compare;
    if (!variant) return;
    const next = event.target.checked ? [...chosen, variant].slice(-2) : chosen.filter((one) => one !== variant);
    if (next.length) visit({ variant: next[0], other: next[1] ?? null }, false);
    else { chosen = []; beside = null; writeAddress(); drawBody(); }
  });
  $("save").addEventListener("click", () => {
    const there = columns.map((column, i) => ({ ...column, i })).filter((column) => !column.empty);
    const rows = rowsInView().map((row) => there.map((column) => row[column.i]));
    const url = URL.createObjectURL(new Blob([rowFilter.csv(there, rows)], { type: "text/csv" }));
    make("a", { href: url, download: `${data.name}.csv` }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  });
  $("pager").addEventListener("click", (event) => {
    if (!event.target.dataset.page) return;
    view.page += Number(event.target.dataset.page);
    drawBody();
  });
  addEventListener("beforeprint", () => { view.size = 1000; drawBody(); });
  addEventListener("afterprint", () => { view.size = PAGE; drawBody(); });

  // ---- the code of one variant

  const TITLES = { source: "Source", ptx: "PTX", sass: "SASS" };
  const OPCODE = {
    ptx: /^(\s*(?:\{\s*)?(?:@!?%\w+\s+)?)([a-z][\w.:]*)/,
    sass: /^(\/\*[0-9a-f]+\*\/ .{6} )([A-Z][\w.]*)/,
  };
  const NOISE = /^\s*\.(?:loc|file)\b/; // what only says where the instructions come from
  const hidden = new Set();
  let opened = null; // the variant whose code is shown
  let beside = null; // the one that it is compared with
  let chosen = []; // those of both that the reader chose
  let places = {}; // listing to its lines, the number of the first, and the source line of each
  let blobs = null;

  async function texts(variant) {
    blobs ??= JSON.parse($("blobs").textContent);
    const ids = data.variants[variant];
    if (!ids) return null;
    return Object.fromEntries(await Promise.all(Object.entries(ids).map(async ([name, id]) => [name, await inflate(blobs[id])])));
  }

  /** Lines and live registers of a SASS listing in its compact form (see lab/report/variant/sasstext.py). */
  function expandSass(text) {
    const [body, counts] = text.split("\0");
    let address = -16, live = 0;
    const lines = body.split("\n").map((line) => {
      const raw = /^\s*\/\*([0-9a-f]+)\*\/\s*(.*)$/.exec(line);
      if (line[0] !== "\x01" && !raw) return line;
      address = raw ? parseInt(raw[1], 16) : address + 16;
      const [, predicate, rest] = /^(@!?U?P\w+)?\s*(.*)$/.exec(raw ? raw[2] : line.slice(1));
      return `/*${address.toString(16).padStart(4, "0")}*/ ${(predicate ?? "").padEnd(6)} ${rest}`;
    });
    return { lines, live: counts.split(",").map((difference) => (live += Number(difference))) };
  }

  /** The source line of each line of a listing, 0 where it has none. */
  function sourceLines(name, lines, detail) {
    if (name === "source") return lines.map((_, i) => i + 1);
    let now = 0;
    if (name === "ptx") {
      return lines.map((line) => {
        const place = /^\s*\.loc\s+(\d+)\s+(\d+)/.exec(line);
        if (place) now = Number(place[1]) === detail.places.file ? Number(place[2]) : 0;
        return place || !/^\s*(?:\{\s*)?(?:@!?%\w+\s+)?[a-z][\w.:]*\s[^:]*/.test(line) ? 0 : now;
      });
    }
    const starts = detail.places.sass ?? [];
    let next = 0;
    return lines.map((line) => {
      const address = /^\/\*([0-9a-f]+)\*\//.exec(line);
      if (!address) return 0;
      while (next < starts.length && starts[next][0] <= parseInt(address[1], 16)) now = starts[next++][1];
      return now;
    });
  }

  /** Text to the clipboard; where the page may not, the text is selected. */
  function copyButton(text, element, label) {
    const button = make("button", { type: "button", "aria-label": label, textContent: "Copy" });
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(text());
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(element());
        button.textContent = "Selected";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
    return button;
  }

  function codeLine(text, isa, hot, number, live) {
    const line = make("li", { class: hot ? "hot" : "" });
    line.dataset.n = number;
    if (live !== undefined) line.dataset.live = (live ? String(live) : "").padStart(3);
    const found = OPCODE[isa].exec(text);
    const cls = found && data.opcodes[isa][found[2]];
    if (!cls) { line.append(text); return line; }
    const opcode = make("b", { title: cls }, found[2]);
    opcode.style.borderBottomColor = data.colours[cls];
    line.append(found[1], opcode, text.slice(found[0].length));
    return line;
  }

  /** The cost of executing each PTX line; instructions on one line are joined. */
  function costs(groups) {
    const found = new Map();
    for (const { lines, ...cost } of groups) {
      for (const line of lines) {
        const old = found.get(line);
        found.set(line, old ? { each: old.each, per: `${old.per} ${cost.per}`.trim(), about: `${old.about}\n${cost.about}`, conflict: old.conflict || cost.conflict } : cost);
      }
    }
    return found;
  }

  /** Put the counts of a line's execution between its number and its text. */
  function addCost(line, cost) {
    line.prepend(make("i", { class: "cost", title: cost?.about ?? "" },
      make("span", {}, cost?.each ?? ""), make("span", { class: cost?.conflict ? "conflict" : "" }, cost?.per ?? "")));
  }

  /** Mark a line that a finding names, with text behind it. */
  function addMark(line, words, other) {
    line.classList.add(other ? "other" : "fault");
    line.append(make("em", {}, `▲ ${words}`));
  }

  function markFaults(list, from, detail) {
    const at = (number) => list.children[number - from];
    const others = new Map(); // line of the other access to the findings
    for (const found of detail.findings) {
      if (!at(found.line)) continue;
      addMark(at(found.line), [found.condition, found.kind, ...found.facts.filter(([name]) => name !== "seen").map((fact) => fact.join(" "))].filter(Boolean).join(", "), false);
      const side = found.other;
      if (side && side.line !== found.line) others.set(side.line, [...(others.get(side.line) ?? []), found]);
    }
    for (const [line, found] of others) {
      if (!at(line)) continue;
      const lines = found.slice(0, AT_ONCE).map((one) => one.line).join(", ") + (found.length > AT_ONCE ? `, and ${found.length - AT_ONCE} more` : "");
      addMark(at(line), `${found[0].other.kind}: other side of ${found[0].kind} at line${found.length > 1 ? "s" : ""} ${lines}`, true);
    }
  }

  function listing(name, text, detail) {
    const loops = detail.hot[name], from = detail.first[name] ?? 1;
    const hotLoop = loops?.find((loop) => loop.hot);
    const list = make("ol");
    let plain; // the lines as text
    const counted = name === "ptx" && detail.executed.length > 0;
    if (name === "source") {
      list.innerHTML = text.replace(/\n$/, "").split("\n").map((line, i) => `<li data-n="${i + 1}">${line}</li>`).join("");
      plain = [...list.children].map((line) => line.textContent);
    } else {
      const inside = (n) => Boolean(hotLoop?.lines.some(([first, last]) => first <= n && n <= last));
      const { lines, live } = name === "sass" ? expandSass(text) : { lines: text.split("\n"), live: [] };
      if (lines.at(-1) === "") lines.pop();
      plain = lines;
      list.append(...lines.map((line, i) => codeLine(line, name, inside(from + i), from + i, live[i])));
    }
    const sources = sourceLines(name, plain, detail);
    [...list.children].forEach((line, i) => {
      line.id = `${name}-${from + i}`;
      if (sources[i]) line.dataset.source = sources[i];
      if (name === "ptx" && NOISE.test(plain[i])) line.classList.add("noise");
    });
    places[name] = { list, from };
    if (counted) {
      const known = costs(detail.executed);
      list.childNodes.forEach((line, i) => addCost(line, known.get(from + i)));
    }
    if (name === "ptx") markFaults(list, from, detail);
    if (name === "source") for (const found of detail.findings) {
      const line = inSource(found.source) && list.children[found.source[1] - 1];
      if (line) line.classList.add("fault");
    }
    const code = make("div", { class: "code", tabIndex: 0, role: "region", "aria-label": `${TITLES[name]} listing` }, list);
    const opening = () => { // the source has no hot lines of its own: the one with most of the machine code's hot loop says where it is
      const counts = new Map();
      for (const { dataset } of document.querySelectorAll("#viewer .code li.hot[data-source]")) counts.set(dataset.source, (counts.get(dataset.source) ?? 0) + 1);
      const most = Math.max(0, ...counts.values());
      return list.querySelector(".fault") ?? list.querySelector(".hot") ?? [...list.children].find((line) => most && counts.get(line.dataset.source) === most);
    };
    const jump = () => { const first = opening(); if (first) code.scrollTop = Math.max(0, first.offsetTop - 72); };
    const toHot = () => { const first = list.querySelector(".hot"); if (first) code.scrollTop = Math.max(0, first.offsetTop - 72); };
    const note = hotLoop ? ` hot loop ${hotLoop.label}, ${hotLoop.instructions} instructions` : name === "source" ? "" : " no loop";
    const head = make("header", {}, make("strong", {}, TITLES[name], make("span", { title: name === "sass" ? "beside the line numbers: live registers" : "" }, note)),
      hotLoop ? make("button", { type: "button", textContent: "Hot loop", onclick: toHot }) : null,
      copyButton(() => `${plain.join("\n")}\n`, () => list, `copy ${TITLES[name]}`));
    if (counted) code.prepend(make("p", { class: "key" }, make("span", { class: "chip emulated" }, "emulated"), " executions per warp; w wavefronts, s sectors per request; ", make("span", { class: "conflict" }, "w"), " with bank conflicts"));
    const pane = make("div", { class: "pane", hidden: hidden.has(name) }, head, code);
    pane.dataset.name = name;
    if (hidden.has(name)) pane.style.display = "none";
    return { pane, jump };
  }

  function facts(rows) {
    return make("dl", {}, ...rows.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
  }

  function loopTable(detail) {
    const loops = [...detail.hot.ptx.map((l) => ["PTX", l]), ...detail.hot.sass.map((l) => ["SASS", l])];
    if (!loops.length) return null;
    return make("div", {}, make("h3", {}, "Loops"), facts(loops.map(([isa, loop]) =>
      [`${isa} ${loop.label}`, `depth ${loop.depth}, ${loop.instructions} instructions${loop.hot ? ", hot" : ""}${loop.executed === null ? "" : `; ${number(loop.executed)} warp instructions executed in it${detail.hot.ptx.length > 1 ? ", without loops inside it" : ""}`}`])));
  }

  const percent = (share) => `${(share * 100).toFixed(1)} %`;
  const number = (value) => value.toLocaleString("en-US", { maximumFractionDigits: 2 });

  /** Static and executed instructions by class: two bars in the colours of the charts, and the figures. */
  function mixTable({ title, rows, static: ofText, executed }) {
    const bar = (place, name) => make("div", { class: "bar", role: "img", "aria-label": `${name} shares by class` }, ...rows.map((row) => {
      const part = make("span", { title: `${row[0]}: ${percent(row[place])} (${name})` });
      Object.assign(part.style, { width: `${row[place] * 100}%`, background: data.colours[row[0]] });
      return part;
    }));
    const key = (cls) => { const box = make("span", { class: "swatch" }); box.style.background = data.colours[cls]; return box; };
    const cells = (name, values) => make("tr", {}, make("th", { scope: "row" }, ...name), ...values.map((value) => make("td", { class: "num" }, value)));
    return make("div", { class: "mixtable" }, make("h3", {}, title),
      make("div", { class: "bars" }, make("small", {}, "text"), bar(2, "static"), make("small", {}, "run"), bar(4, "emulated")),
      make("table", {}, make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "class"),
        make("th", { scope: "col", class: "num", colSpan: 2 }, "in the text ", make("span", { class: "chip static" }, "static")),
        make("th", { scope: "col", class: "num", colSpan: 2 }, "executed per thread ", make("span", { class: "chip emulated" }, "emulated")))),
      make("tbody", {}, ...rows.map(([cls, a, b, c, d]) => cells([key(cls), cls], [number(a), percent(b), number(c), percent(d)])),
        cells(["all"], [number(ofText), "", number(executed), ""]))));
  }

  const AT_ONCE = 3; // findings shown at first: one fault tends to show on many lines
  const inSource = (place) => Boolean(place) && place[0].split("/").at(-1) === data.files.source;

  function findingList(variant, findings) {
    const ptx = (line) => (line ? make("a", { href: `#v-${encodeURIComponent(variant)}:ptx-${line}` }, `PTX line ${line}`) : "no PTX line");
    const source = (place) => (!place ? [] : [", ", inSource(place) ? make("a", { href: `#v-${encodeURIComponent(variant)}:source-${place[1]}` }, `source line ${place[1]}`) : `${place[0]} line ${place[1]}`]);
    const items = findings.map((found) => make("li", {},
        make("strong", {}, found.condition ? `${found.condition}: ${found.kind}` : found.kind), ...(found.line || !found.condition ? [" at ", ptx(found.line), ...source(found.source)] : []), `: ${found.detail}`,
        found.text ? make("code", {}, found.text) : null,
        make("span", { class: "meta" }, found.facts.map((fact) => fact.join(" ")).join(" · ")),
        found.other ? make("span", { class: "meta" }, `other side: ${found.other.kind} by thread ${found.other.thread}${found.other.block ? ` of block ${found.other.block}` : ""} at `, ptx(found.other.line), ...source(found.other.source)) : null));
    const rest = items.slice(AT_ONCE);
    return make("div", { class: "findings" }, make("h3", {}, `${findings.length} finding${findings.length > 1 ? "s" : ""} `, make("span", { class: "chip emulated" }, "emulated")),
      make("ol", {}, ...items.slice(0, AT_ONCE)),
      rest.length ? make("details", {}, make("summary", {}, `${rest.length} more`), make("ol", { start: AT_ONCE + 1 }, ...rest)) : null);
  }

  /** Performance findings of a variant, the largest gain first. */
  function adviceList(variant, advice) {
    if (!advice || !(advice.findings.length || advice.closing)) return null;
    const items = advice.findings.map((one) => make("li", {},
        make("strong", {}, one.rule), ...(one.place ? [" at ", one.anchor ? make("a", { href: `#v-${encodeURIComponent(variant)}:${one.anchor}` }, one.place) : one.place] : []), `: ${one.cause}; ${one.gain}`,
        one.text ? make("code", {}, one.text) : null,
        make("span", { class: "meta" }, `remedy: ${one.remedy}`)));
    return make("div", { class: "findings", id: "findings" }, make("h3", {}, "Performance findings ", make("span", { class: "chip predicted" }, "predicted")),
      items.length ? make("ol", {}, ...items) : null, advice.closing ? make("p", { class: "meta" }, advice.closing) : null);
  }

  /** Scroll a listing to one of its lines, and show its pane if it is hidden. */
  function goTo(place) {
    const line = document.querySelector("#viewer .code") && $(place);
    if (!line) return;
    const pane = line.closest(".pane");
    if (hidden.has(pane.dataset.name)) document.querySelector(`button[data-pane="${pane.dataset.name}"]`).click();
    for (const old of document.querySelectorAll(".code .target")) old.classList.remove("target");
    line.classList.add("target");
    line.closest(".code").scrollTop = Math.max(0, line.offsetTop - 96);
    pane.scrollIntoView({ block: "nearest" });
    showLinked(line);
    followLine(line);
  }

  // ---- lines of one source line, in all listings

  /** Mark the lines of all listings that come from the same source line as this one, and say how many there are. */
  function showLinked(line) {
    for (const old of document.querySelectorAll("#viewer .code li.linked")) old.classList.remove("linked");
    const source = line?.dataset.source;
    if (!source) { $("linked").textContent = ""; return; }
    const found = [...document.querySelectorAll(`#viewer .code li[data-source="${source}"]`)];
    for (const one of found) one.classList.add("linked");
    const counts = Object.keys(places).filter((name) => name !== "source").map((name) => `${found.filter((one) => one.id.startsWith(`${name}-`)).length} of ${TITLES[name]}`);
    $("linked").textContent = counts.length ? `Source line ${source}: lines ${counts.join(", ")}.` : "";
  }

  /** Scroll the other listings to the first line that belongs to this one, in the hot loop if there is one. */
  function followLine(line) {
    const own = line.closest(".code");
    if (!line.dataset.source) return;
    for (const code of document.querySelectorAll("#viewer .code")) {
      const found = code === own ? null : code.querySelector("li.linked.hot") ?? code.querySelector("li.linked");
      if (found) code.scrollTop = Math.max(0, found.offsetTop - code.clientHeight / 3);
    }
  }

  function setCurrent(line) {
    for (const old of document.querySelectorAll("#viewer .code .target")) old.classList.remove("target");
    line.classList.add("target");
    showLinked(line);
    followLine(line);
    current.place = line.id;
    writeAddress();
  }

  $("viewer").addEventListener("mouseover", (event) => {
    const line = event.target.closest(".code li");
    if (line) showLinked(line);
  });
  $("viewer").addEventListener("mouseleave", () => showLinked(document.querySelector("#viewer .code .target")));
  $("viewer").addEventListener("click", (event) => {
    const line = event.target.closest(".code li");
    if (line && getSelection().isCollapsed) setCurrent(line);
  });
  $("viewer").addEventListener("keydown", (event) => { // the arrows move a line through a listing that has the focus
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || !event.target.classList.contains("code") || event.altKey || event.ctrlKey || event.metaKey) return;
    const code = event.target, lines = [...code.querySelectorAll("li:not(.noise)")];
    const before = lines.findIndex((line) => line.classList.contains("target"));
    const first = lines.findIndex((line) => line.offsetTop >= code.scrollTop + 24);
    const next = lines[before < 0 ? first : before + step];
    event.preventDefault();
    if (!next) return;
    setCurrent(next);
    if (next.offsetTop < code.scrollTop + 40) code.scrollTop = Math.max(0, next.offsetTop - 72);
    if (next.offsetTop + next.offsetHeight > code.scrollTop + code.clientHeight) code.scrollTop = next.offsetTop + next.offsetHeight - code.clientHeight + 24;
  });

  /** Which thread touches which element, as a picture that lab made. */
  function accessMap({ name, text, caption, svg }) {
    const picture = make("div", { class: "map", tabIndex: 0, role: "region", "aria-label": `Access map of ${name}` });
    picture.innerHTML = svg;
    return make("figure", {}, make("figcaption", {}, make("strong", {}, name), ` ${text}`, make("br"), caption), picture);
  }

  const filesOf = (variant) => {
    const names = filesBeside.get(variant);
    return names.length ? make("p", { class: "meta" }, `Files of ${variant} (${nameOf(byVariant.get(variant))}): `, ...names.flatMap((file) =>
      [make("a", { href: `variants/${encodeURIComponent(variant)}/${file}` }, file), "  "])) : null;
  };

  /** Show the code of a variant, or of two side by side. */
  async function open(variant, other, scroll, place = null) {
    if (!byVariant.has(variant)) { $("linked").textContent = `This run has no variant ${variant}.`; if (scroll) $("code").scrollIntoView(); return; }
    if (!byVariant.has(other) || other === variant) other = null;
    if (variant === opened && other === beside && place && document.querySelector("#viewer .pane")) { goTo(place); return; }
    [opened, beside] = [variant, other];
    $("pick").value = variant;
    $("other").value = other ?? "";
    $("swap").disabled = !other;
    $("linked").textContent = "";
    drawBody();
    places = {};
    if (other) await showPair(variant, other);
    else await showOne(variant);
    if (opened !== variant || beside !== other) return;
    if (scroll) $("code").scrollIntoView();
    if (place && !other) goTo(place);
  }

  async function showOne(variant) {
    const found = await texts(variant);
    if (opened !== variant || beside) return;
    const files = filesOf(variant);
    if (!found) {
      $("viewer").replaceChildren(...[make("p", {}, "The listings of this variant are not embedded."), files].filter(Boolean));
    } else {
      const detail = JSON.parse(found.detail);
      const made = Object.keys(TITLES).filter((name) => found[name] !== undefined).map((name) => listing(name, found[name], detail));
      const sections = detail.sections.map(([heading, kind, rows]) =>
        make("div", {}, make("h3", {}, `${heading} `, kind ? make("span", { class: `chip ${kind}` }, kind) : null), facts(rows)));
      const folded = [["Build log", found.log], ["provenance.json", detail.provenance]].filter(([, text]) => text).map(([title, text]) =>
        make("details", { open: title === "Build log" && Boolean(detail.reason) }, make("summary", {}, title), make("pre", { tabIndex: 0, role: "region", "aria-label": title }, text)));
      $("viewer").replaceChildren(...[
        make("p", { class: "meta" }, `${nameOf(byVariant.get(variant))} · ${detail.status}`),
        detail.reason ? make("p", { class: "note" }, detail.reason) : null,
        detail.findings.length ? findingList(variant, detail.findings) : null,
        make("div", { class: "panes" }, ...made.map(({ pane }) => pane)),
        detail.difference ? make("p", { class: "note" }, detail.difference) : null,
        adviceList(variant, detail.advice),
        make("details", { class: "rest" }, make("summary", {}, "Mixes, resources, loops, access maps, measurement and files of this variant"),
          ...detail.maps.map(accessMap),
          ...(detail.mixes.length ? [make("div", { class: "facts" }, ...detail.mixes.map(mixTable))] : []),
          make("div", { class: "facts" }, ...sections, ...[loopTable(detail)].filter(Boolean)), ...folded, ...[files].filter(Boolean)),
      ].filter(Boolean));
      made.forEach(({ jump }) => jump());
    }
  }

  // ---- two variants side by side

  const AROUND = 4; // equal lines that stay in view around a difference

  /** The lines of a listing for a comparison: without what only says where instructions come from. */
  function linesOf(name, text, detail) {
    const from = detail.first[name] ?? 1;
    const hot = detail.hot[name]?.find((loop) => loop.hot);
    let lines;
    if (name === "source") { const box = make("div"); box.innerHTML = text.replace(/\n$/, ""); lines = box.textContent.split("\n"); }
    else lines = name === "sass" ? expandSass(text).lines : text.split("\n");
    if (lines.at(-1) === "") lines.pop();
    return lines.map((line, i) => ({ text: line, n: from + i, hot: Boolean(hot?.lines.some(([first, last]) => first <= from + i && from + i <= last)) }))
      .filter((line) => name !== "ptx" || !NOISE.test(line.text));
  }

  const SIGNS = { same: ["", ""], registers: ["~", "~"], changed: ["−", "+"] };

  /** One side of a row: its number, its sign and its text, with the part marked that the other side lacks. */
  function side(line, mate, kind, right) {
    if (!line) return [make("span", { class: "n none" }), make("span", { class: "t none" })];
    const text = make("span", { class: `t ${kind} ${right ? "b" : "a"}` });
    const { head, tail } = kind !== "same" && mate ? listingDiff.inner(line.text, mate.text) : { head: 0, tail: 0 };
    if (2 * (head + tail) > line.text.length) { // else the lines have little in common
      text.append(line.text.slice(0, head), make("mark", {}, line.text.slice(head, line.text.length - tail)), line.text.slice(line.text.length - tail));
    } else text.append(line.text);
    return [make("span", { class: `n${line.hot ? " hot" : ""}` }, `${line.n} ${SIGNS[kind][right ? 1 : 0]}`), text];
  }

  function pairPane(name, a, b) {
    const rows = listingDiff.rows(a.map((line) => line.text), b.map((line) => line.text), name);
    const count = (kind) => rows.filter((row) => row.kind === kind).length;
    const near = new Array(rows.length).fill(false);
    rows.forEach((row, i) => { if (row.kind === "changed") for (let k = Math.max(0, i - AROUND); k <= Math.min(rows.length - 1, i + AROUND); k++) near[k] = true; });
    const drawn = (row) => make("div", { class: "row" }, ...side(a[row.a], b[row.b], row.kind, false), ...side(b[row.b], a[row.a], row.kind, true));
    const body = make("div", { class: "rows" });
    for (let i = 0; i < rows.length;) {
      if (near[i]) { body.append(drawn(rows[i++])); continue; }
      let end = i;
      while (end < rows.length && !near[end]) end++;
      const equal = rows.slice(i, end);
      if (equal.length < 3) body.append(...equal.map(drawn));
      else {
        const soft = equal.filter((row) => row.kind === "registers").length;
        const more = make("button", { type: "button", class: "fold", textContent: `${equal.length} equal lines${soft ? `, ${soft} of them with other registers or labels` : ""}` });
        more.addEventListener("click", () => {
          const shown = equal.map(drawn);
          more.replaceWith(...shown);
          code.focus({ preventScroll: true });
        });
        body.append(more);
      }
      i = end;
    }
    const code = make("div", { class: "code pair-code", tabIndex: 0, role: "region", "aria-label": `Differences of ${TITLES[name]}` }, body);
    const removed = rows.filter((row) => row.kind === "changed" && row.a !== null).length, added = rows.filter((row) => row.kind === "changed" && row.b !== null).length;
    const soft = count("registers");
    const words = removed || added || soft ? ` ${removed} lines only left, ${added} only right${name === "source" ? "" : `; ${soft} differ in registers or labels alone`}` : " equal";
    const pane = make("div", { class: "pane" }, make("header", {}, make("strong", {}, TITLES[name], make("span", {}, words))), code);
    pane.dataset.name = name;
    if (hidden.has(name)) pane.style.display = "none";
    const jump = () => {
      const hot = [...body.children].find((row) => row.querySelector(".hot") && row.querySelector(".changed"));
      const first = hot ?? body.querySelector(".changed")?.parentElement;
      if (first) code.scrollTop = Math.max(0, first.offsetTop - 72);
    };
    return { pane, jump };
  }

  /** The columns in which two variants differ, with both values. */
  function differences(a, b) {
    const [one, two] = [byVariant.get(a), byVariant.get(b)];
    const unlike = columns.map((column, i) => ({ ...column, i })).filter((column) => column.name !== "variant" && one[column.i] !== two[column.i] && !(column.name === "label"));
    const ratio = (column) => (column.numeric && one[column.i] && two[column.i] !== null ? format(two[column.i] / one[column.i], ".3f") : "");
    return make("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": "Table of differences" }, make("table", { id: "differences" },
      make("caption", { class: "sr" }, "Figures in which the two variants differ"),
      make("thead", {}, make("tr", {}, ...["figure", nameOf(one), nameOf(two), "right / left"].map((text, i) => make("th", { scope: "col", class: i ? "num" : "" }, text)))),
      make("tbody", {}, ...unlike.map((column) => make("tr", {}, make("th", { scope: "row" }, column.unit ? `${column.title} (${column.unit}) ` : `${column.title} `, column.kind ? make("span", { class: `chip ${column.kind}` }, column.kind) : null),
        ...[one, two].map((row) => make("td", { class: "num" }, format(row[column.i], column.format))), make("td", { class: "num" }, ratio(column)))))));
  }

  async function showPair(a, b) {
    const [one, two] = await Promise.all([texts(a), texts(b)]);
    if (opened !== a || beside !== b) return;
    const made = [];
    if (one && two) {
      const details = [JSON.parse(one.detail), JSON.parse(two.detail)];
      for (const name of Object.keys(TITLES)) {
        if (one[name] !== undefined && two[name] !== undefined) made.push(pairPane(name, linesOf(name, one[name], details[0]), linesOf(name, two[name], details[1])));
      }
    }
    const missing = [[a, one], [b, two]].filter(([, found]) => !found).map(([variant]) => variant);
    $("viewer").replaceChildren(...[
      make("p", { class: "meta" }, `left: ${nameOf(byVariant.get(a))}`, make("br"), `right: ${nameOf(byVariant.get(b))}`),
      missing.length ? make("p", { class: "note" }, `The listings of ${missing.map((variant) => nameOf(byVariant.get(variant))).join(" and ")} are not embedded, so their lines cannot be compared here.`) : null,
      make("h3", {}, "What differs"), differences(a, b),
      make("div", { class: "panes pairs" }, ...made.map(({ pane }) => pane)), filesOf(a), filesOf(b),
    ].filter(Boolean));
    made.forEach(({ jump }) => jump());
  }

  const options = () => data.rows.map((row) => make("option", { value: row[at.variant] }, nameOf(row)));
  $("pick").append(...options());
  $("other").append(make("option", { value: "" }, "nothing"), ...options());
  $("pick").addEventListener("change", (event) => visit({ variant: event.target.value, other: beside }, false));
  $("other").addEventListener("change", (event) => visit({ variant: opened ?? $("pick").value, other: event.target.value || null }, false));
  $("swap").addEventListener("click", () => visit({ variant: beside, other: opened }, false));

  /** Show the panes that are not hidden, and say so on their buttons. */
  function showPanes() {
    for (const button of document.querySelectorAll("button[data-pane]")) button.setAttribute("aria-pressed", String(!hidden.has(button.dataset.pane)));
    for (const pane of document.querySelectorAll(".pane")) pane.style.display = hidden.has(pane.dataset.name) ? "none" : "";
  }
  for (const button of document.querySelectorAll("button[data-pane]")) {
    button.addEventListener("click", () => {
      const name = button.dataset.pane;
      hidden.has(name) ? hidden.delete(name) : hidden.add(name);
      showPanes();
      writeAddress();
    });
  }

  // ---- the address: `#<section>` or `#v-<id>` or `#v-<id>:ptx-<line>`, then `?` and what else the reader chose

  let current = { anchor: "", variant: null, other: null, place: null };

  /** What the reader chose, apart from the place: only what is not so at first. */
  function choices() {
    const said = new URLSearchParams();
    if (current.variant && current.other) said.set("with", current.other);
    if (view.filter.trim()) said.set("filter", view.filter);
    if (view.sort !== START.sort || view.ascending !== START.ascending) said.set("sort", `${view.ascending ? "" : "-"}${columns[view.sort].name}`);
    if (view.all) said.set("columns", "all");
    if (hidden.size) said.set("hidden", [...hidden].join(","));
    for (const group of document.querySelectorAll("[data-switch]")) {
      const id = group.dataset.switch.split(" ")[0];
      if (shownChoice[id]) said.set(`chart.${id}`, shownChoice[id]);
    }
    return said.toString();
  }

  function addressNow() {
    const place = current.variant ? `v-${encodeURIComponent(current.variant)}${current.place ? `:${current.place}` : ""}` : current.anchor;
    const said = choices();
    return place || said ? `#${place}${said ? `?${said}` : ""}` : "#";
  }

  /** Write what is shown to the address, in place of what it said. */
  const writeAddress = () => history.replaceState(null, "", addressNow());

  /** Go to a variant, to two of them or to a section: a step that the browser can take back. */
  function visit(there, scroll = true) {
    current = { anchor: "", variant: null, other: null, place: null, ...there };
    const address = addressNow();
    if (address !== location.hash) history.pushState(null, "", address);
    show(scroll);
  }

  function show(scroll) {
    if (current.variant) {
      chosen = [current.variant, current.other].filter(Boolean);
      open(current.variant, current.other, scroll, current.place);
    } else if (scroll && current.anchor) {
      const section = $(current.anchor);
      if (!section) return;
      for (let fold = section.querySelector(":scope > details") ?? section.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
      section.tabIndex = -1;
      section.focus({ preventScroll: true });
      section.scrollIntoView();
    }
  }

  const PLACE = /^v-(.*?)(?::((?:ptx|source|sass)-\d+))?$/;

  function placeOf(anchor) {
    const parts = PLACE.exec(anchor);
    return parts ? { anchor: "", variant: decodeURIComponent(parts[1]), place: parts[2] ?? null } : { anchor, variant: null, place: null };
  }

  /** Show what the address says. */
  function readAddress() {
    const [anchor, ...rest] = location.hash.slice(1).split("?");
    const said = new URLSearchParams(rest.join("?"));
    current = { ...placeOf(anchor), other: said.get("with") };
    const [, down, name] = /^(-?)(.*)$/.exec(said.get("sort") ?? "");
    const sorted = at[name] === undefined ? START : { sort: at[name], ascending: !down };
    Object.assign(view, sorted, { filter: said.get("filter") ?? "", all: said.get("columns") === "all" });
    $("filter").value = view.filter;
    $("all-columns").checked = view.all;
    hidden.clear();
    for (const one of (said.get("hidden") ?? "").split(",")) if (one in TITLES) hidden.add(one);
    const changed = [];
    for (const group of document.querySelectorAll("[data-switch]")) {
      const ids = group.dataset.switch.split(" "), wanted = Number(said.get(`chart.${ids[0]}`) ?? 0);
      if (wanted === (shownChoice[ids[0]] ?? 0) || !data.charts[ids[0]][wanted]) continue;
      choose(group, wanted);
      changed.push(...ids);
    }
    showPanes();
    drawHead();
    drawBody();
    show(true);
    return changed;
  }

  addEventListener("hashchange", () => { for (const id of readAddress()) drawChart($(`chart-${id}`)); });
  document.addEventListener("click", (event) => { // what else the address says stays
    const link = event.target.closest('a[href^="#"]');
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    visit(placeOf(link.getAttribute("href").slice(1)));
  });
  $("copy").addEventListener("click", async () => {
    try { await navigator.clipboard.writeText($("command").textContent); $("copy").textContent = "Copied"; }
    catch { getSelection().selectAllChildren($("command")); }
  });

  readAddress();
  drawCharts();
  if (!current.variant && data.rows.length) {
    const watcher = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      watcher.disconnect();
      if (!opened) open(data.first ?? data.rows[0][at.variant], null, false);
    }, { rootMargin: "400px" });
    watcher.observe($("code"));
  }
})();
