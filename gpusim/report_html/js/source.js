// The source view: costs by line, sortable, with heat in the chosen column and machine code under each line.
import { count, element, hexadecimal, joules } from "gpusim/format";

const WARP = 32;
const NEAR = 8;

/** Columns after the source text: key, head, explanation, number of a row of costs, text of that number. */
const COLUMNS = [
  { key: "cycles", head: "Warp cycles", about: "cycles that warps spend at the line, waiting included", of: (c) => c.cycles },
  { key: "instructions", head: "Instructions", about: "warp instructions executed", of: (c) => c.instructions },
  {
    key: "idle", head: "Threads/inst", about: "active threads per warp instruction; the heat shows lanes left idle",
    of: (c) => (c.instructions ? WARP * c.instructions - c.thread_instructions : 0),
    text: (c) => (c.instructions ? (c.thread_instructions / c.instructions).toFixed(1) : ""),
  },
  { key: "divergent", head: "Divergent branches", about: "executed branches whose threads part", of: (c) => c.divergent_branches },
  { key: "conflicts", head: "Bank conflicts", about: "shared-memory wavefronts beyond the ideal", of: (c) => c.shared_wavefronts_excessive },
  { key: "wavefronts", head: "Wavefronts", about: "wavefronts of shared memory", of: (c) => c.shared_wavefronts },
  { key: "excess", head: "Excess sectors", about: "sectors of global memory beyond the ideal", of: (c) => Math.max(c.sectors - c.sectors_ideal, 0) },
  { key: "sectors", head: "Sectors", about: "sectors of global memory", of: (c) => c.sectors },
  {
    key: "energy", head: "Energy", about: "of what the instructions do; static power is no line's",
    of: (c) => c.energy_j, text: (c) => (c.energy_j ? joules(c.energy_j) : ""),
  },
  { key: "stall", head: "Stall cycles", about: "warp cycles without the issues themselves, and the costliest reason", of: (c) => c.cycles - (c.stalls.get("selected") ?? 0) },
];

function costs(data, row) {
  const found = { stalls: new Map() };
  data.fields.forEach((name, k) => { found[name] = row[4][k]; });
  for (let k = 0; k < row[5].length; k += 2) found.stalls.set(data.stalls[row[5][k]][0], row[5][k + 1]);
  return found;
}

function sum(all) {
  const total = { stalls: new Map() };
  for (const each of all) {
    for (const [name, value] of Object.entries(each)) if (name !== "stalls") total[name] = (total[name] ?? 0) + value;
    for (const [name, value] of each.stalls) total.stalls.set(name, (total.stalls.get(name) ?? 0) + value);
  }
  return total;
}

const mainStall = (c) => [...c.stalls].filter(([name]) => name !== "selected").sort((a, b) => b[1] - a[1])[0]?.[0] ?? "";

/** Lines of the listing in order: file, number, text, instructions, costs. */
export function makeLines(data) {
  const rows = data.code.map((row, index) => ({
    index, address: row[0], text: row[1], file: row[2], line: row[3], costs: costs(data, row),
  }));
  const lines = [];
  data.source.forEach((file, number) => file.lines.forEach((text, k) => {
    const own = rows.filter((row) => row.file === number && row.line === file.first + k);
    lines.push({ file: number, line: file.first + k, text, instructions: own, costs: sum(own.map((row) => row.costs)) });
  }));
  const placed = new Set(lines.flatMap((line) => line.instructions.map((row) => row.index)));
  const loose = new Map();
  for (const row of rows.filter((each) => !placed.has(each.index))) {
    const key = `${row.file}:${row.line}`;
    loose.set(key, [...(loose.get(key) ?? []), row]);
  }
  for (const own of loose.values()) {
    lines.push({ file: own[0].file, line: own[0].line || null, text: "", instructions: own, costs: sum(own.map((row) => row.costs)) });
  }
  return lines;
}

/** `stepTo(index)` shows the first execution of an instruction in the stepper; it is null where none was traced. */
export function sourceView(data, lines, stepTo) {
  const traced = new Set(data.trace ? data.trace.warps.flatMap((warp) => warp.pc) : []);
  const state = { column: "cycles", sort: "line", down: false, open: new Set(), marked: null };
  const body = element("tbody");
  const most = new Map();
  for (const column of COLUMNS) {
    most.set(column.key, Math.max(...lines.filter((line) => line.instructions.length).map((line) => column.of(line.costs)), 0));
  }
  const choice = element("select", { id: "heat-column", onchange: (event) => { state.column = event.target.value; draw(); } },
    COLUMNS.map((column) => element("option", { value: column.key }, column.head)));
  const names = new Map(data.source.map((file, k) => [k, file.name]));

  const heads = new Map();
  const headRow = element("tr");
  const addHead = (key, label, about, kind) => {
    const cell = element("th", { scope: "col", class: kind, title: about, "data-key": key },
      element("button", { type: "button", onclick: () => sortBy(key) }, label, element("span", { class: "arrow", "aria-hidden": "true" })));
    heads.set(key, cell);
    headRow.append(cell);
  };
  addHead("line", "Line", "in the order of the source", "line");
  headRow.append(element("th", { scope: "col", class: "text" }, "Source"));
  const kind = (column) => (most.get(column.key) ? "metric" : "metric empty"); // columns without a number are not shown
  for (const column of COLUMNS) addHead(column.key, column.head, column.about, kind(column));

  function sortBy(key) {
    if (state.sort === key) state.down = !state.down;
    else {
      state.sort = key;
      state.down = key !== "line";
      if (key !== "line") { state.column = key; choice.value = key; }
    }
    draw();
  }

  function ordered() {
    if (state.sort === "line") return state.down ? [...lines].reverse() : lines;
    const column = COLUMNS.find((each) => each.key === state.sort);
    const sign = state.down ? -1 : 1;
    return lines.filter((line) => line.instructions.length)
      .sort((a, b) => sign * (column.of(a.costs) - column.of(b.costs)));
  }

  function cells(rowCosts) {
    return COLUMNS.map((column) => {
      const value = column.of(rowCosts) ?? 0;
      const chosen = column.key === state.column;
      const heat = chosen && most.get(column.key) ? value / most.get(column.key) : 0;
      const text = column.text ? column.text(rowCosts) : value ? count(value) : "";
      const extra = column.key === "stall" && value ? element("small", {}, mainStall(rowCosts).replaceAll("_", " ")) : null;
      return element("td", {
        class: chosen ? `${kind(column)} chosen` : kind(column), "data-key": column.key, "data-value": value,
        style: heat > 0 ? `--heat:${heat.toFixed(3)}` : null,
      }, extra, element("span", {}, text));
    });
  }

  /** Whether a line without instructions stands beside one that has some: long stretches of a file are left out. */
  const used = new Map(data.source.map((_, file) => [file, lines.filter((line) => line.file === file && line.instructions.length).map((line) => line.line)]));
  const near = (line) => used.get(line.file).some((number) => Math.abs(number - line.line) <= NEAR);

  function lineRow(line) {
    const key = `${line.file}:${line.line}`;
    const open = state.open.has(key);
    const has = line.instructions.length > 0;
    const label = line.line === null ? "–" : `${line.line}`;
    const column = COLUMNS.find((each) => each.key === state.column);
    const heat = has && most.get(state.column) ? column.of(line.costs) / most.get(state.column) : 0;
    return element("tr", {
      class: ["line", has ? "has" : "none", state.marked === key ? "marked" : ""].join(" "), "data-line": label, "data-file": line.file, id: `line-${line.file}-${label}`,
      style: heat > 0 ? `--heat:${heat.toFixed(3)}` : null,
    },
    element("th", { scope: "row", class: "line" }, has
      ? element("button", {
        type: "button", "aria-expanded": `${open}`, "aria-label": `Line ${label}: machine code, ${line.instructions.length} instructions`,
        onclick: () => { if (open) state.open.delete(key); else state.open.add(key); draw(`[id="line-${line.file}-${label}"] button`); },
      }, label) : label),
    element("td", { class: "text" }, element("code", {}, line.text || (line.line === null ? "no source line" : line.text)),
      state.sort !== "line" && names.size > 1 ? element("small", {}, ` ${names.get(line.file) ?? ""}`) : null),
    has ? cells(line.costs) : COLUMNS.map((each) => element("td", { class: each.key === state.column ? `${kind(each)} chosen` : kind(each) })));
  }

  function codeRow(row) {
    const address = hexadecimal(row.address);
    return element("tr", { class: "sass" },
      element("th", { scope: "row", class: "line" }, traced.has(row.index)
        ? element("button", { type: "button", class: "link", "aria-label": `Step to ${address}`, onclick: () => stepTo(row.index) }, address)
        : address),
      element("td", { class: "text" }, element("code", {}, row.text)), cells(row.costs));
  }

  function draw(focus) {
    for (const [key, cell] of heads) {
      cell.setAttribute("aria-sort", state.sort === key ? (state.down ? "descending" : "ascending") : "none");
      cell.classList.toggle("chosen", key === state.column);
    }
    const rows = [];
    let file = null;
    let hidden = 0;
    const gap = () => {
      if (hidden) rows.push(element("tr", { class: "gap" }, element("td", { colspan: COLUMNS.length + 2 }, `⋯ ${hidden} lines without instructions`)));
      hidden = 0;
    };
    for (const line of ordered()) {
      if (!line.instructions.length && !near(line)) {
        hidden += 1;
        continue;
      }
      gap();
      if (state.sort === "line" && names.size > 1 && line.file !== file) {
        file = line.file;
        rows.push(element("tr", { class: "file" }, element("th", { colspan: COLUMNS.length + 2, scope: "rowgroup" }, names.get(file) ?? "no source")));
      }
      rows.push(lineRow(line));
      if (state.open.has(`${line.file}:${line.line}`)) rows.push(...line.instructions.map(codeRow));
    }
    body.replaceChildren(...rows);
    if (typeof focus === "string") body.querySelector(focus)?.focus();
  }

  /** Open and show a line. */
  function show(file, number) {
    const line = lines.find((each) => each.line === number && each.instructions.length && (file === null || names.get(each.file) === file))
      ?? lines.find((each) => each.line === number);
    if (!line) return;
    state.marked = `${line.file}:${line.line}`;
    state.open.add(state.marked);
    draw();
    const row = body.querySelector(`[id="line-${line.file}-${line.line}"]`);
    row.scrollIntoView({ block: "center", behavior: "instant" });
    row.querySelector("button")?.focus({ preventScroll: true });
  }

  const setAll = (open) => {
    for (const line of lines) if (line.instructions.length && open) state.open.add(`${line.file}:${line.line}`);
    if (!open) state.open.clear();
    draw();
  };
  draw();
  const node = element("div", { class: "source-view" },
    element("div", { class: "controls" },
      element("label", { for: "heat-column" }, "Heat shows "), choice,
      element("button", { type: "button", onclick: () => setAll(true) }, "Open all machine code"),
      element("button", { type: "button", onclick: () => setAll(false) }, "Close all")),
    element("div", { class: "wide listing", tabindex: "0", role: "group", "aria-label": "Source with costs" },
      element("table", { id: "listing" }, element("caption", { class: "hidden" }, "Source lines with their costs; the heads sort"), element("thead", {}, headRow), body)));
  return { node, show };
}

