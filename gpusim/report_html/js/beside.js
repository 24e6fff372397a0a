// Source and machine code side by side: what is marked in one column is marked, and brought into sight, in the other.
import { element } from "gpusim/format";

const SOON_MS = 60; // a mouse that only passes marks nothing
const CHUNK = 100; // rows that a browser lays out together, when they come into sight: kernels may have tens of thousands

/** Two columns, empty until `draw`. tell(key, index): what is said of a marked line (index null) or instruction, nodes or text.
 * Returned: `node`; `draw(lines, instructions)`; `pick(key, index)`, which marks a line until another is picked; `picked()`, its
 * key. lines: { key, label, text, cost, heat, about } in order, key null where a line has no instructions, or { gap } for what
 * stands between. instructions: { key, index, label, text, cost, heat, about, note } by address. heat: 0 to 1. */
export function sideBySide(tell) {
  const said = element("div", { class: "said", "aria-live": "polite" });
  const panes = { source: pane("source", "Source lines"), code: pane("code", "Machine code") };
  const node = element("div", { class: "beside" }, said, Object.values(panes).map((each) => each.node));
  let picked = null; // { key, index }: index is null where a line was picked
  let timer = null;

  function pane(name, label) {
    const list = element("div", {
      class: `pane ${name}`, role: "listbox", tabindex: "0", "aria-label": label, "aria-multiselectable": "true",
      onkeydown: (event) => keys(event, name),
      onclick: (event) => { const row = event.target.closest("[data-key]"); if (row) pick(row.dataset.key, indexOf(row), name); },
      onpointerover: (event) => hover(event.target.closest("[data-key]"), name),
      onpointerleave: () => hover(null, name),
    });
    return { node: list, rows: new Map() };
  }

  function draw(lines, instructions) {
    const filled = { source: lines, code: instructions };
    for (const [name, items] of Object.entries(filled)) {
      const { node: list, rows } = panes[name];
      const top = list.scrollTop;
      rows.clear();
      const made = items.map((each, k) => {
        if (each.gap) return element("div", { class: "gap", role: "presentation" }, each.gap);
        const row = element("div", {
          class: each.key === null ? "row none" : "row", role: "option", id: `beside-${name}-${k}`, title: each.about, "data-key": each.key, "data-index": each.index,
          style: each.heat > 0 ? `--heat:${each.heat.toFixed(3)}` : null,
        }, element("span", { class: "label" }, each.label), element("span", { class: "cost" }, each.cost),
        element("code", {}, each.text), each.note ? element("small", {}, each.note) : null);
        if (each.key !== null) {
          if (!rows.has(each.key)) rows.set(each.key, []);
          rows.get(each.key).push(row);
        }
        return row;
      });
      list.replaceChildren(...Array.from({ length: Math.ceil(made.length / CHUNK) }, (_, k) => element("div", { class: "chunk", role: "presentation" }, made.slice(CHUNK * k, CHUNK * (k + 1)))));
      list.hidden = !items.length;
      if (top) list.scrollTop = top;
    }
    if (picked && !panes.code.rows.has(picked.key)) picked = null;
    mark(picked, "picked");
  }

  function mark(what, kind) {
    for (const each of node.querySelectorAll(`.row.${kind}`)) each.classList.remove(kind);
    for (const { rows } of Object.values(panes)) for (const row of rows.get(what?.key) ?? []) row.classList.add(kind);
    if (kind === "picked") {
      for (const [name, { node: list }] of Object.entries(panes)) {
        for (const row of list.querySelectorAll("[aria-selected]")) row.removeAttribute("aria-selected");
        for (const row of list.querySelectorAll(".picked")) row.setAttribute("aria-selected", "true");
        const own = what && (name === "code" && what.index !== null ? find(what.index) : panes[name].rows.get(what.key)?.[0]);
        if (own) list.setAttribute("aria-activedescendant", own.id);
        else list.removeAttribute("aria-activedescendant");
      }
      for (const each of panes.code.node.querySelectorAll(".here")) each.classList.remove("here");
      if (what && what.index !== null) find(what.index)?.classList.add("here");
    }
    const about = what ?? picked;
    const name = `${about?.key} ${about?.index}`;
    if (said.dataset.about === name) return; // its buttons stay the same
    said.dataset.about = name;
    said.replaceChildren(...(about ? [tell(about.key, about.index)].flat() : ["Point at a line, or tap it."]));
  }

  const find = (index) => panes.code.node.querySelector(`[data-index="${index}"]`);

  const heat = (row) => Number(row.style.getPropertyValue("--heat"));

  /** Bring the dearest of some rows into the middle of their column, unless it is in sight. */
  function reveal(name, rows = []) {
    const list = panes[name].node;
    const [row] = [...rows].sort((a, b) => heat(b) - heat(a));
    if (!row) return;
    const [own, all] = [row, list].map((each) => each.getBoundingClientRect());
    if (own.top < all.top || own.bottom > all.bottom) list.scrollTop += own.top - all.top - (all.height - own.height) / 2;
  }

  function hover(row, name) {
    clearTimeout(timer);
    timer = setTimeout(() => {
      mark(row && { key: row.dataset.key, index: indexOf(row) }, "linked");
      const other = name === "source" ? "code" : "source";
      reveal(other, panes[other].rows.get(row?.dataset.key ?? picked?.key));
    }, SOON_MS);
  }

  const indexOf = (row) => (row.dataset.index === undefined ? null : Number(row.dataset.index));

  /** Mark a line with its instructions, of which `index` is one, until another is picked. name: the column to give the focus to. */
  function pick(key, index = null, name = null) {
    clearTimeout(timer);
    picked = { key, index };
    mark(null, "linked");
    mark(picked, "picked");
    for (const each of ["source", "code"]) reveal(each, each === "code" && index !== null ? [find(index)] : panes[each].rows.get(key));
    if (name) panes[name].node.focus({ preventScroll: true });
  }

  /** The next place where instructions of the picked line stand together. */
  function next() {
    const begins = (panes.code.rows.get(picked.key) ?? []).filter((row, k, all) => k === 0 || indexOf(row) !== indexOf(all[k - 1]) + 1);
    const row = begins.find((each) => indexOf(each) > (picked.index ?? -1)) ?? begins[0];
    if (row) pick(picked.key, indexOf(row));
  }

  function keys(event, name) {
    const rows = [...panes[name].node.querySelectorAll("[data-key]")];
    const own = (row) => (name === "code" && picked?.index !== null ? indexOf(row) === picked?.index : row.dataset.key === picked?.key);
    const at = rows.findIndex(own);
    const to = { ArrowDown: Math.min(at + 1, rows.length - 1), ArrowUp: Math.max(at - 1, 0), Home: 0, End: rows.length - 1 }[event.key];
    if (to !== undefined && rows[to]) pick(rows[to].dataset.key, indexOf(rows[to]));
    else if (event.key === "Enter" && picked) next();
    else if (event.key === "Escape") { picked = null; mark(null, "picked"); } else return;
    event.preventDefault();
  }

  return { node, draw, pick, next, picked: () => picked?.key ?? null };
}
