// The machine code of a kernel beside its text: each instruction with its share of the time and the line it comes from.
import { element, hexadecimal } from "gpusim/format";
import { makeLines } from "gpusim/source";

const BANDS = 8;
const NOTHING = "After a run the machine code stands here, in the colours of the lines that it comes from.";

/** What a run says of code: instructions in their order, and by line of the text its share, its band and how many
 * instructions it has. The costs are those of the report. */
export function costsOf(data) {
  const all = makeLines(data).flatMap((line) => line.instructions).sort((a, b) => a.index - b.index);
  const total = all.reduce((sum, row) => sum + row.costs.cycles, 0) || 1;
  const own = (row) => (/^kernel\.\w+$/.test(data.source[row.file]?.name ?? "") ? row.line : null);
  const rows = all.map((row) => ({ address: row.address, text: row.text, line: own(row), share: row.costs.cycles / total }));
  const lines = new Map();
  for (const { line, share } of rows) {
    if (line === null) continue;
    const known = lines.get(line) ?? { share: 0, instructions: 0 };
    lines.set(line, { share: known.share + share, instructions: known.instructions + 1 });
  }
  [...lines.keys()].sort((a, b) => a - b).forEach((line, k) => { lines.get(line).band = k % BANDS; });
  return { rows, lines };
}

const share = (value) => (value >= 0.0005 ? `${(100 * value).toFixed(1)} %` : "");

/** The pane. pointed: called with the line of the instruction that somebody points at, or null, and true if it was
 * chosen; went: with a line to go to. */
export function codePane({ pointed = () => {}, went = () => {} } = {}) {
  const say = element("p", { class: "note told", "aria-live": "polite" }, NOTHING);
  const list = element("div", { class: "machine", role: "listbox", tabindex: "0", "aria-label": "Machine code", hidden: true, onkeydown: keys, onmouseleave: () => pointed(at < 0 ? null : rows[at].line, false), onfocus: () => { if (at < 0 && rows.length) choose(0); } });
  let rows = [];
  let lines = new Map();
  let text = [];
  let at = -1;
  let last;

  function choose(k) {
    at = Math.min(Math.max(k, 0), rows.length - 1);
    [...list.children].forEach((each, n) => each.setAttribute("aria-selected", String(n === at)));
    list.setAttribute("aria-activedescendant", list.children[at].id);
    reveal(list.children[at]);
    point(rows[at].line, false);
    pointed(rows[at].line, true);
  }

  function keys(event) {
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: rows.length - 1, PageDown: at + 12, PageUp: at - 12 }[event.key];
    if (event.key === "Enter" && at >= 0 && rows[at].line !== null) went(rows[at].line);
    else if (to !== undefined && rows.length) choose(to);
    else return;
    event.preventDefault();
  }

  /** Brings an instruction into sight, in the pane alone. */
  function reveal(row) {
    const [outer, inner] = [list.getBoundingClientRect(), row.getBoundingClientRect()];
    if (inner.top < outer.top || inner.bottom > outer.bottom) list.scrollTop += inner.top - outer.top - outer.height / 3;
  }

  /** Marks the instructions of a line, and says what it costs. */
  function point(line, chosen) {
    if (line === last && !chosen) return;
    const said = line === last;
    last = line;
    const own = line === null ? undefined : lines.get(line);
    let first = null;
    rows.forEach((row, k) => {
      const here = line !== null && row.line === line;
      list.children[k].classList.toggle("marked", here);
      if (here && first === null) first = list.children[k];
    });
    if (chosen && first) reveal(first);
    if (!said) say.replaceChildren(...(!rows.length ? [NOTHING] : line === null || !text[line - 1]?.trim() ? ["Point at a line or at an instruction: the other side shows what belongs to it."]
      : [`Line ${line}: `, own ? `${own.instructions} instruction${own.instructions > 1 ? "s" : ""}, ${(100 * own.share).toFixed(1)} % of the warps' time` : "no instruction of its own", " ", element("code", {}, text[line - 1].trim())]));
  }

  return {
    node: element("div", { class: "code-pane" }, say, list),
    point,
    /** Shows the code of a run, and the text that ran; null for none. */
    show(found, source = "") {
      ({ rows, lines } = found ?? { rows: [], lines: new Map() });
      text = source.split("\n");
      at = -1;
      list.removeAttribute("aria-activedescendant");
      list.hidden = !rows.length;
      list.replaceChildren(...rows.map((row, k) => {
        const of = row.line === null ? null : lines.get(row.line);
        return element("div", {
          role: "option", "aria-selected": "false", id: `instruction-${k}`, class: of ? `band band-${of.band}` : "", "data-line": row.line,
          "aria-label": `${row.text}${row.line ? `, line ${row.line}` : ""}${share(row.share) && `, ${share(row.share)}`}`, title: row.line ? null : "from another file than this one",
          onmouseenter: () => { point(row.line, false); pointed(row.line, false); }, onclick: () => choose(k),
        }, element("span", { class: "took", style: row.share ? `background: rgba(var(--heat), ${Math.min(row.share * 1.4, 0.8).toFixed(2)})` : null }, share(row.share)),
        element("span", { class: "from" }, row.line ?? "·"), element("span", { class: "address" }, hexadecimal(row.address)), element("code", {}, row.text));
      }));
      list.scrollTop = 0;
      last = undefined;
      point(null, false);
    },
  };
}
