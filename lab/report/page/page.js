// All that the page does: it draws charts from the embedded specifications, the table, and the code of one variant.
// Text reaches the page through textContent; only the CUDA source and the access maps are HTML, which lab made and escaped.
"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const data = JSON.parse($("data").textContent);
  const columns = data.columns;
  const at = Object.fromEntries(columns.map((column, i) => [column.name, i]));
  const records = data.rows.map((row) => Object.fromEntries(columns.map((column, i) => [column.key, row[i]])));
  const byVariant = new Map(data.rows.map((row) => [row[at.variant], row]));
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
  const firstMix = Object.keys(data.charts).find((id) => id.startsWith("mix-"));
  const mixRows = data.mix.parts.map(([variant, cls, mix, hot, count, share]) => ({
    name: data.mix.variants[variant][0], variant: data.mix.variants[variant][1], cls: data.mix.classes[cls], order: cls, mix: data.mix.mixes[mix], hot, count, share,
  }));
  const explainRows = data.explain.map(([place, figure, kind, value]) => ({ ...data.datasets.curve[place], figure, kind, value }));

  function config(id, width) {
    const beside = broad.matches && id.startsWith("mix-") && id !== firstMix; // its left neighbour names the rows
    const [ink, soft, line] = ["--ink", "--soft", "--line"].map(colour);
    const font = getComputedStyle(document.body).fontFamily;
    const label = { labelColor: ink, titleColor: ink, labelFont: font, titleFont: font, titleFontWeight: 500, labelFontSize: 12, titleFontSize: 12 };
    return {
      background: "transparent", font, view: { stroke: null },
      axis: { ...label, gridColor: line, domainColor: line, tickColor: line, titlePadding: 8 },
      axisX: { titleAnchor: broad.matches ? "middle" : "end" },
      axisY: { labels: !beside, labelLimit: width * (width < 500 ? 0.48 : 0.45), labelFontSize: width < 500 ? 10 : 12 },
      legend: { ...label, labelLimit: 180, symbolType: "circle" },
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
    const { spec } = sized(data.charts[id][shownChoice[id] ?? 0], element.clientWidth);
    const datasets = { ...spec.datasets, ...data.datasets, mix: mixRows, explain: explainRows, records };
    const { view } = await vegaEmbed(element, { ...spec, description: data.labels[id], datasets }, {
      actions: false, mode: "vega-lite", renderer: records.length > 1000 ? "canvas" : "svg",
      config: config(id, element.clientWidth), defaultStyle: false, tooltip: { disableDefaultStyle: true },
    });
    view.addEventListener("click", (_, item) => {
      const variant = item?.datum?.variant;
      if (variant) location.hash = `v-${variant}`;
    });
  }

  async function drawCharts() {
    try {
      if (!window.vegaEmbed) document.head.append(make("script", { textContent: await inflate($("vega").textContent) }));
      for (const element of document.querySelectorAll("[data-chart]")) await drawChart(element);
    } catch (error) {
      console.error(error);
      for (const element of document.querySelectorAll(".chart:empty")) element.textContent = `This chart could not be drawn: ${error.message}`;
    }
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-choice]");
    if (!button) return;
    const group = button.closest("[data-switch]");
    for (const other of group.children) other.setAttribute("aria-pressed", String(other === button));
    for (const id of group.dataset.switch.split(" ")) {
      shownChoice[id] = Number(button.dataset.choice);
      drawChart($(`chart-${id}`));
    }
  });
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
    previous.disabled = page === 0;
    next.disabled = page === pages - 1;
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
  const view = { sort: at[data.response], ascending: false, page: 0, all: false, filter: "", size: PAGE };
  if (columns[view.sort].empty) Object.assign(view, { sort: null });

  const OPERATORS = {
    "=": (a, b) => a === b, "!=": (a, b) => a !== b, "<": (a, b) => a < b, "<=": (a, b) => a <= b, ">": (a, b) => a > b, ">=": (a, b) => a >= b,
  };

  /** A word of the filter as a test of a row: `name<128`, or text to find in any cell. */
  function test(word) {
    const parts = /^([^<>=!]+)(<=|>=|!=|=|<|>)(.+)$/.exec(word);
    const column = parts && columns.findIndex((c) => [c.name, c.title].some((n) => [parts[1], `p.${parts[1]}`].includes(n.toLowerCase())));
    if (!parts || column < 0) return (row) => row.some((value) => String(value ?? "").toLowerCase().includes(word));
    const wanted = columns[column].numeric ? Number(parts[3]) : parts[3];
    return (row) => row[column] !== null && OPERATORS[parts[2]](columns[column].numeric ? row[column] : String(row[column]).toLowerCase(), wanted);
  }

  function rowsInView() {
    const tests = view.filter.toLowerCase().split(/\s+/).filter(Boolean).map(test);
    const rows = data.rows.filter((row) => tests.every((passes) => passes(row)));
    if (view.sort === null) return rows;
    return rows.sort((x, y) => compare(x[view.sort], y[view.sort], view.ascending));
  }

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
    if (column.name === "variant") return make("td", {}, make("a", { href: `#v-${value}` }, value));
    if (column.name === "status") return make("td", {}, make("span", { class: `status ${value === "verified" ? "good" : value === "inspected" ? "" : "bad"}` }, value));
    return make("td", { class: column.numeric ? "num" : "long", title: column.numeric ? "" : text }, text);
  }

  function drawBody() {
    const rows = rowsInView(), shown = shownColumns();
    const pages = Math.max(1, Math.ceil(rows.length / view.size));
    view.page = Math.min(Math.max(view.page, 0), pages - 1);
    const part = rows.slice(view.page * view.size, (view.page + 1) * view.size);
    $("table").tBodies[0].replaceChildren(...part.map((row) =>
      make("tr", { class: row[at.variant] === opened ? "open" : "" }, ...shown.map((column) => cell(column, row)))));
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
    $("table").tHead.querySelector(`[data-column="${column}"]`).focus();
  });
  $("filter").addEventListener("input", (event) => { Object.assign(view, { filter: event.target.value, page: 0 }); drawBody(); });
  $("all-columns").addEventListener("change", (event) => { view.all = event.target.checked; drawHead(); drawBody(); });
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
  const hidden = new Set();
  let opened = null;
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
    for (const number of detail.marked) if (at(number)) at(number).id = `ptx-${number}`;
    const others = new Map(); // line of the other access to the findings
    for (const found of detail.findings) {
      if (!at(found.line)) continue;
      addMark(at(found.line), [found.kind, ...found.facts.filter(([name]) => name !== "seen").map((fact) => fact.join(" "))].join(", "), false);
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
    const counted = name === "ptx" && detail.executed.length > 0;
    if (name === "source") {
      list.innerHTML = text.replace(/\n$/, "").split("\n").map((line, i) => `<li data-n="${i + 1}">${line}</li>`).join("");
    } else {
      const inside = (n) => Boolean(hotLoop?.lines.some(([first, last]) => first <= n && n <= last));
      const { lines, live } = name === "sass" ? expandSass(text) : { lines: text.split("\n"), live: [] };
      if (lines.at(-1) === "") lines.pop();
      list.append(...lines.map((line, i) => codeLine(line, name, inside(from + i), from + i, live[i])));
    }
    if (counted) {
      const known = costs(detail.executed);
      list.childNodes.forEach((line, i) => addCost(line, known.get(from + i)));
    }
    if (name === "ptx") markFaults(list, from, detail);
    if (name === "source") [...list.children].forEach((line, i) => { line.id = `source-${i + 1}`; });
    if (name === "source") for (const found of detail.findings) {
      const line = inSource(found.source) && list.children[found.source[1] - 1];
      if (line) line.classList.add("fault");
    }
    const code = make("div", { class: "code", tabIndex: 0, role: "region", "aria-label": `${TITLES[name]} listing` }, list);
    const jump = () => { const first = list.querySelector(".fault") ?? list.querySelector(".hot"); if (first) code.scrollTop = Math.max(0, first.offsetTop - 72); };
    const toHot = () => { const first = list.querySelector(".hot"); if (first) code.scrollTop = Math.max(0, first.offsetTop - 72); };
    const note = hotLoop ? ` hot loop ${hotLoop.label}, ${hotLoop.instructions} instructions` : name === "source" ? "" : " no loop";
    const head = make("header", {}, make("strong", {}, TITLES[name], make("span", { title: name === "sass" ? "beside the line numbers: live registers" : "" }, note)),
      hotLoop ? make("button", { type: "button", textContent: "Hot loop", onclick: toHot }) : null);
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
        make("strong", {}, found.kind), " at ", ptx(found.line), ...source(found.source), `: ${found.detail}`,
        found.text ? make("code", {}, found.text) : null,
        make("span", { class: "meta" }, found.facts.map((fact) => fact.join(" ")).join(" · ")),
        found.other ? make("span", { class: "meta" }, `other side: ${found.other.kind} by thread ${found.other.thread} at `, ptx(found.other.line), ...source(found.other.source)) : null));
    const rest = items.slice(AT_ONCE);
    return make("div", { class: "findings" }, make("h3", {}, `${findings.length} finding${findings.length > 1 ? "s" : ""} `, make("span", { class: "chip emulated" }, "emulated")),
      make("ol", {}, ...items.slice(0, AT_ONCE)),
      rest.length ? make("details", {}, make("summary", {}, `${rest.length} more`), make("ol", { start: AT_ONCE + 1 }, ...rest)) : null);
  }

  /** Scroll a listing to one of its lines, and show its pane if it is hidden. */
  function goTo(place) {
    const line = $(place);
    if (!line) return;
    const pane = line.closest(".pane");
    if (hidden.has(pane.dataset.name)) document.querySelector(`button[data-pane="${pane.dataset.name}"]`).click();
    for (const old of document.querySelectorAll(".code .target")) old.classList.remove("target");
    line.classList.add("target");
    line.closest(".code").scrollTop = Math.max(0, line.offsetTop - 96);
    pane.scrollIntoView({ block: "nearest" });
  }

  /** Which thread touches which element, as a picture that lab made. */
  function accessMap({ name, text, caption, svg }) {
    const picture = make("div", { class: "map", tabIndex: 0, role: "region", "aria-label": `Access map of ${name}` });
    picture.innerHTML = svg;
    return make("figure", {}, make("figcaption", {}, make("strong", {}, name), ` ${text}`, make("br"), caption), picture);
  }

  async function open(variant, scroll, place = null) {
    if (!byVariant.has(variant)) return;
    if (variant === opened && place) { goTo(place); return; }
    opened = variant;
    $("pick").value = variant;
    drawBody();
    const found = await texts(variant);
    if (opened !== variant) return;
    const names = filesBeside.get(variant);
    const files = names.length ? make("p", { class: "meta" }, "Files: ", ...names.flatMap((file) =>
      [make("a", { href: `variants/${encodeURIComponent(variant)}/${file}` }, file), "  "])) : null;
    if (!found) {
      $("viewer").replaceChildren(...[make("p", {}, "The listings of this variant are not embedded."), files].filter(Boolean));
    } else {
      const detail = JSON.parse(found.detail);
      const made = Object.keys(TITLES).filter((name) => found[name] !== undefined).map((name) => listing(name, found[name], detail));
      const sections = detail.sections.map(([heading, kind, rows]) =>
        make("div", {}, make("h3", {}, `${heading} `, kind ? make("span", { class: `chip ${kind}` }, kind) : null), facts(rows)));
      const folded = [["Build log", found.log], ["provenance.json", detail.provenance]].filter(([, text]) => text).map(([title, text]) =>
        make("details", { open: title === "Build log" && Boolean(detail.reason) }, make("summary", {}, title), make("pre", {}, text)));
      $("viewer").replaceChildren(...[
        make("p", { class: "meta" }, `${nameOf(byVariant.get(variant))} · ${detail.status}`),
        detail.reason ? make("p", { class: "note" }, detail.reason) : null,
        detail.findings.length ? findingList(variant, detail.findings) : null,
        make("div", { class: "panes" }, ...made.map(({ pane }) => pane)),
        ...detail.maps.map(accessMap),
        detail.difference ? make("p", { class: "note" }, detail.difference) : null,
        detail.mixes.length ? make("div", { class: "facts" }, ...detail.mixes.map(mixTable)) : null,
        make("div", { class: "facts" }, ...sections, ...[loopTable(detail)].filter(Boolean)), ...folded, files,
      ].filter(Boolean));
      made.forEach(({ jump }) => jump());
    }
    if (scroll) $("code").scrollIntoView();
    if (place) goTo(place);
  }

  const nameOf = (row) => [row[at.variant], row[at.kernel], row[at.label] === row[at.kernel] ? "" : row[at.label]].filter(Boolean).join(" · ");
  $("pick").append(...data.rows.map((row) => make("option", { value: row[at.variant] }, nameOf(row))));
  $("pick").addEventListener("change", (event) => { history.replaceState(null, "", `#v-${event.target.value}`); open(event.target.value, false); });
  for (const button of document.querySelectorAll("button[data-pane]")) {
    button.addEventListener("click", () => {
      const name = button.dataset.pane;
      hidden.has(name) ? hidden.delete(name) : hidden.add(name);
      button.setAttribute("aria-pressed", String(!hidden.has(name)));
      for (const pane of document.querySelectorAll(".pane")) pane.style.display = hidden.has(pane.dataset.name) ? "none" : "";
    });
  }
  /** The variant and the line of a listing that the address names: `#v-<id>` or `#v-<id>:ptx-<line>`. */
  const fromHash = () => {
    const parts = /^#v-(.*?)(?::((?:ptx|source)-\d+))?$/.exec(location.hash);
    return parts && { variant: decodeURIComponent(parts[1]), place: parts[2] ?? null };
  };
  addEventListener("hashchange", () => { const there = fromHash(); if (there) open(there.variant, true, there.place); });
  document.addEventListener("click", (event) => { // a second click on the same link does not change the hash
    const link = event.target.closest('a[href^="#v-"]');
    if (link && link.getAttribute("href") === location.hash) { const there = fromHash(); open(there.variant, true, there.place); }
  });
  $("copy").addEventListener("click", async () => {
    try { await navigator.clipboard.writeText($("command").textContent); $("copy").textContent = "Copied"; }
    catch { getSelection().selectAllChildren($("command")); }
  });

  drawHead();
  drawBody();
  drawCharts();
  const first = fromHash();
  if (first) open(first.variant, true, first.place);
  else if (data.rows.length) {
    const watcher = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      watcher.disconnect();
      if (!opened) open(data.first ?? data.rows[0][at.variant], false);
    }, { rootMargin: "400px" });
    watcher.observe($("code"));
  }
})();
