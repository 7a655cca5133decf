// Two listings side by side: which lines of one belong to which of the other. Pure functions; page.js draws the result.
"use strict";
const listingDiff = (() => {
  const MOST_CELLS = 16e6; // of a table of common subsequences, 2 bytes each

  /** What two lines must share to be the same instruction: everything but register numbers, labels and addresses. */
  const KEYS = {
    source: (line) => line.trimEnd(),
    ptx: (line) => line.trim().replace(/\s+/g, " ").replace(/%([a-z]+)\d+/g, "%$1").replace(/\$L_\w+/g, "$L"),
    sass: (line) => line.replace(/^\s*\/\*[0-9a-f]+\*\/\s*/, "").trim().replace(/\s+/g, " ")
      .replace(/\b(U?R|U?P|B)\d+\b/g, "$1").replace(/\.L_(?:x_)?\d+/g, ".L"),
  };

  /** A line without what only says where it stands. */
  const text = (isa, line) => (isa === "sass" ? line.replace(/^\s*\/\*[0-9a-f]+\*\/\s*/, "") : line).trim();

  /** The longest common subsequence of two short lists, as pairs of places. */
  function exact(a, b, fromA, toA, fromB, toB) {
    const n = toA - fromA, m = toB - fromB, width = m + 1;
    const best = new Uint16Array((n + 1) * width);
    for (let i = n - 1; i >= 0; i--) {
      for (let j = m - 1; j >= 0; j--) {
        const here = i * width + j;
        best[here] = a[fromA + i] === b[fromB + j] ? best[here + width + 1] + 1 : Math.max(best[here + width], best[here + 1]);
      }
    }
    const pairs = [];
    for (let i = 0, j = 0; i < n && j < m;) {
      if (a[fromA + i] === b[fromB + j]) pairs.push([fromA + i++, fromB + j++]);
      else if (best[(i + 1) * width + j] >= best[i * width + j + 1]) i++;
      else j++;
    }
    return pairs;
  }

  /** Places of the lines that both parts hold once, as far as they stand in the same order (patience diff). */
  function anchors(a, b, fromA, toA, fromB, toB) {
    const seen = new Map();
    for (let i = fromA; i < toA; i++) seen.set(a[i], { a: i, timesA: (seen.get(a[i])?.timesA ?? 0) + 1, timesB: 0 });
    for (let j = fromB; j < toB; j++) { const one = seen.get(b[j]); if (one) { one.timesB += 1; one.b = j; } }
    const once = [...seen.values()].filter((one) => one.timesA === 1 && one.timesB === 1).sort((x, y) => x.a - y.a);
    const tails = []; // the end of the best chain of each length
    for (const one of once) {
      let low = 0, high = tails.length;
      while (low < high) { const middle = (low + high) >> 1; if (tails[middle].b < one.b) low = middle + 1; else high = middle; }
      one.before = low ? tails[low - 1] : null;
      tails[low] = one;
    }
    const chain = [];
    for (let one = tails.at(-1); one; one = one.before) chain.push([one.a, one.b]);
    return chain.reverse();
  }

  function match(a, b, fromA, toA, fromB, toB, pairs) {
    while (fromA < toA && fromB < toB && a[fromA] === b[fromB]) pairs.push([fromA++, fromB++]);
    const tail = [];
    while (fromA < toA && fromB < toB && a[toA - 1] === b[toB - 1]) tail.push([--toA, --toB]);
    if (fromA < toA && fromB < toB) {
      if ((toA - fromA + 1) * (toB - fromB + 1) <= MOST_CELLS) {
        for (const pair of exact(a, b, fromA, toA, fromB, toB)) pairs.push(pair);
      } else {
        // without a line that both hold once, parts of this size stay unmatched: the work is bounded
        const chain = anchors(a, b, fromA, toA, fromB, toB);
        for (const [i, j] of chain) {
          match(a, b, fromA, i, fromB, j, pairs);
          pairs.push([i, j]);
          [fromA, fromB] = [i + 1, j + 1];
        }
        if (chain.length) match(a, b, fromA, toA, fromB, toB, pairs);
      }
    }
    for (const pair of tail.reverse()) pairs.push(pair);
  }

  /**
   * Rows of two listings side by side.
   *
   * Takes the lines of both and the language: source, ptx or sass. A row has the places `a` and `b`, null where a side
   * has no line, and `kind`: "same", "registers" (only register numbers or labels differ) or "changed".
   */
  function rows(a, b, isa) {
    const codes = new Map();
    const coded = (lines) => Int32Array.from(lines, (line) => {
      const key = KEYS[isa](line);
      if (!codes.has(key)) codes.set(key, codes.size);
      return codes.get(key);
    });
    const pairs = [], made = [];
    match(coded(a), coded(b), 0, a.length, 0, b.length, pairs);
    let i = 0, j = 0;
    for (const [nextA, nextB] of [...pairs, [a.length, b.length]]) {
      while (i < nextA || j < nextB) made.push({ a: i < nextA ? i++ : null, b: j < nextB ? j++ : null, kind: "changed" });
      if (nextA < a.length && nextB < b.length) {
        made.push({ a: i, b: j, kind: text(isa, a[i]) === text(isa, b[j]) ? "same" : "registers" });
        i++;
        j++;
      }
    }
    return made;
  }

  /** Where two lines differ: the lengths of what they share at their beginnings and ends. */
  function inner(a, b) {
    let head = /^\/\*[0-9a-f]+\*\/\s*/.exec(a)?.[0].length ?? 0, tail = 0; // an address differs anyway
    if (head !== (/^\/\*[0-9a-f]+\*\/\s*/.exec(b)?.[0].length ?? 0)) return { head: 0, tail: 0 };
    const most = Math.min(a.length, b.length);
    while (head < most && a[head] === b[head]) head++;
    while (tail < most - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
    return { head, tail };
  }

  return { rows, inner };
})();
