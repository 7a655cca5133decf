"use strict";
/* Asks the command every second what is new, and shows it. Everything is put in as text, never as markup. */
(() => {
  const EVERY_MS = 1000, HIDDEN_MS = 5000, MOST_ROWS = 200;
  const $ = (id) => document.getElementById(id);
  let after = 0, over = false;

  const say = (id, text) => { const one = $(id); if (one.textContent !== text) one.textContent = text; };
  const show = (one, yes) => { one.hidden = !yes; };
  const body = (id) => document.querySelector(`#${id} tbody`);
  const box = (id) => document.querySelector(`#${id} .scroll`);

  function line(texts, head) {
    const row = document.createElement("tr");
    texts.forEach((text, place) => {
      const cell = document.createElement(place === head ? "th" : "td");
      if (place === head) cell.scope = "row";
      cell.textContent = text;
      row.append(cell);
    });
    return row;
  }

  function clock(seconds) {
    const whole = Math.floor(seconds), two = (n) => String(n).padStart(2, "0");
    const minutes = Math.floor(whole / 60);
    return minutes < 60 ? `${minutes}:${two(whole % 60)}` : `${Math.floor(minutes / 60)}:${two(minutes % 60)}:${two(whole % 60)}`;
  }

  function stages(list) {
    const made = [];
    for (const stage of list) {
      const name = document.createElement("dt"), count = document.createElement("dd"), place = document.createElement("dd");
      name.textContent = stage.name;
      count.textContent = stage.total === null ? String(stage.done) : `${stage.done} / ${stage.total}`;
      if (stage.total) {
        const bar = document.createElement("progress");
        bar.max = stage.total; bar.value = stage.done;
        bar.setAttribute("aria-label", stage.name);
        place.append(bar);
      }
      made.push(name, count, place);
    }
    $("stages").replaceChildren(...made);
  }

  function best(state) {
    body("best").replaceChildren(...state.best.map((one) =>
      line([one.group || "all", one.figure, one.kind, [one.variant, one.name].filter(Boolean).join(" ")], 0)));
    show(box("best"), state.best.length > 0);
    show($("no-best"), state.best.length === 0);
    const more = state.groups - state.best.length;
    say("more-best", more > 0 ? `and the best of ${more} more` : "");
  }

  function failures(state) {
    const shown = body("failures").children.length;
    body("failures").append(...state.failures.slice(shown).map((row) =>
      line([String(row.number), [row.variant, row.name].filter(Boolean).join(" "), row.status, row.reason], 1)));
    show($("failures"), state.failed > 0);
    show($("to-failures"), state.failed > 0);
    const more = state.failed - state.failures.length;
    say("more-failures", more > 0 ? `and ${more} more, which stand in the report` : "");
  }

  function finished(state) {
    const table = body("finished");
    for (const row of state.rows.slice(-MOST_ROWS)) {
      const made = line([String(row.number), [row.variant, row.name].filter(Boolean).join(" "), row.status, row.figure, row.kind], 1);
      if (row.failed) made.className = "failed";
      table.prepend(made);
    }
    while (table.children.length > MOST_ROWS) table.lastElementChild.remove();
    if (state.rows.length) after = state.rows[state.rows.length - 1].number;
    show(box("finished"), state.finished > 0);
    show($("no-rows"), state.finished === 0);
    const more = state.finished - table.children.length;
    say("more-rows", more > 0 ? `${more} earlier ones are left out here, and stand in the report` : "");
  }

  function links(list) {
    const made = list.map((one) => {
      const item = document.createElement("li"), link = document.createElement("a");
      if (/^https?:/.test(one.address)) link.href = one.address;
      link.rel = "noreferrer noopener";
      link.textContent = one.title;
      item.append(link);
      return item;
    });
    if ($("links").children.length !== made.length) $("links").replaceChildren(...made);
    show($("links"), made.length > 0);
  }

  function notes(list) {
    const shown = $("notes").children.length;
    $("notes").append(...list.slice(shown).map((text) => {
      const note = document.createElement("p");
      note.className = "note";
      note.textContent = text;
      return note;
    }));
  }

  function draw(state) {
    say("subject", state.subject || "lab");
    if (state.question) say("question", state.question);
    say("hardware", state.hardware);
    say("phase", state.phase);
    document.title = `${state.phase} · ${state.subject || "lab"} · live`;
    show($("report"), state.reported);
    say("time", `${clock(state.elapsed_s)} since the start` + (state.left_s === null ? "." : `, about ${clock(state.left_s)} left`));
    say("pace", state.pace ? `(${state.pace}).` : "");
    say("latest", state.over ? "" : state.latest);
    links(state.links); notes(state.notes); stages(state.stages); best(state); failures(state); finished(state);
    over = state.over;
  }

  async function ask() {
    try {
      const answer = await fetch(`state.json?after=${after}`, { cache: "no-store" });
      if (!answer.ok) throw new Error(answer.statusText);
      draw(await answer.json());
    } catch {
      say("phase", over ? "finished; the command no longer serves this page" : "the command does not answer: it has ended, or this machine is not reached");
    }
    setTimeout(ask, document.hidden || over ? HIDDEN_MS : EVERY_MS);
  }
  ask();
})();
