// The source view: source and machine code side by side, or all costs by line, sortable, with machine code under each line.
import { sideBySide } from "gpusim/beside";
import { count, element, hexadecimal, joules, percent, plural } from "gpusim/format";

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

/** Lines of the listing in order: key, file, number, text, instructions, costs. */
export function makeLines(data) {
  const own = new Map(); // the instructions of a line
  data.code.forEach(([address, text, file, line], index) => {
    const key = `${file}:${line || null}`;
    if (!own.has(key)) own.set(key, []);
    own.get(key).push({ index, key, address, text, file, line: line || null, costs: costs(data, data.code[index]) });
  });
  const lines = [];
  const add = (file, line, text) => {
    const key = `${file}:${line}`;
    const instructions = own.get(key) ?? [];
    lines.push({ key, file, line, text, instructions, costs: sum(instructions.map((row) => row.costs)) });
    own.delete(key);
  };
  data.source.forEach((file, number) => file.lines.forEach((text, k) => add(number, file.first + k, text)));
  for (const [{ file, line }] of [...own.values()]) add(file, line, "");
  return lines;
}

/** `stepTo(index)` shows the first execution of an instruction in the stepper; it is null where none was traced. */
export function sourceView(data, lines, stepTo) {
  const traced = new Set(data.trace ? data.trace.warps.flatMap((warp) => warp.pc) : []);
  const state = { view: "beside", column: "cycles", sort: "line", down: false, open: new Set(), marked: null };
  const body = element("tbody");
  const most = new Map();
  for (const column of COLUMNS) {
    most.set(column.key, Math.max(...lines.filter((line) => line.instructions.length).map((line) => column.of(line.costs)), 0));
  }
  const choice = element("select", { id: "heat-column", onchange: (event) => { state.column = event.target.value; draw(); } },
    COLUMNS.map((column) => element("option", { value: column.key }, column.head)));
  const names = new Map(data.source.map((file, k) => [k, file.name]));
  const instructions = lines.flatMap((line) => line.instructions).sort((a, b) => a.index - b.index);
  const whole = sum(instructions.map((row) => row.costs));
  const alone = !lines.some((line) => line.text); // machine code without source
  const chosen = () => COLUMNS.find((each) => each.key === state.column);

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
    const { key } = line;
    const open = state.open.has(key);
    const has = line.instructions.length > 0;
    const label = line.line === null ? "–" : `${line.line}`;
    const heat = has && most.get(state.column) ? chosen().of(line.costs) / most.get(state.column) : 0;
    return element("tr", {
      class: ["line", has ? "has" : "none", state.marked === key ? "marked" : ""].join(" "), "data-line": label, "data-file": line.file, id: `line-${line.file}-${label}`,
      style: heat > 0 ? `--heat:${heat.toFixed(3)}` : null,
    },
    element("th", { scope: "row", class: "line" }, has
      ? element("button", {
        type: "button", "aria-expanded": `${open}`, "aria-label": `Line ${label}: machine code, ${plural(line.instructions.length, "instruction")}`,
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

  /** What stands for lines below each other: `line(each)`, and between them `gap(text)`, where some are left out, and `file(name)`. */
  function stacked(some, { line, gap, file }) {
    const rows = [];
    let last = null;
    let hidden = 0;
    const close = () => {
      if (hidden) rows.push(gap(`⋯ ${plural(hidden, "line")} without instructions`));
      hidden = 0;
    };
    for (const each of some) {
      if (!each.instructions.length && !near(each)) {
        hidden += 1;
        continue;
      }
      close();
      if (names.size > 1 && each.file !== last) {
        last = each.file;
        rows.push(file(names.get(last) ?? "no source"));
      }
      rows.push(line(each));
    }
    return rows.flat();
  }

  function drawTable() {
    for (const [key, cell] of heads) {
      cell.setAttribute("aria-sort", state.sort === key ? (state.down ? "descending" : "ascending") : "none");
      cell.classList.toggle("chosen", key === state.column);
    }
    const across = { colspan: COLUMNS.length + 2 };
    body.replaceChildren(...stacked(ordered(), {
      line: (line) => [lineRow(line), ...(state.open.has(line.key) ? line.instructions.map(codeRow) : [])],
      gap: (text) => element("tr", { class: "gap" }, element("td", across, text)),
      file: (name) => (state.sort === "line" ? [element("tr", { class: "file" }, element("th", { ...across, scope: "rowgroup" }, name))] : []),
    }));
  }

  /** Of a row of the two columns its number, its share of all or what stands for it, with heat. */
  function figures(rowCosts, of) {
    const value = chosen().of(rowCosts) ?? 0;
    const share = value ? percent((100 * value) / chosen().of(whole)) : "";
    const text = chosen().text?.(rowCosts) ?? share;
    return { heat: of ? value / of : 0, cost: text, about: `${chosen().head}: ${chosen().text ? text : `${count(value)}, ${share}`}` };
  }

  function drawBeside() {
    const dearest = Math.max(...instructions.map((row) => chosen().of(row.costs) ?? 0), 0);
    const left = stacked(lines, {
      line: ({ instructions: own, key, line, text, costs: all }) => ({
        key: own.length ? key : null, label: `${line ?? "–"}`, text: line === null ? "no source line" : text, ...(own.length ? figures(all, most.get(state.column)) : {}),
      }),
      gap: (gap) => ({ gap }),
      file: (gap) => ({ gap }),
    });
    const key = (row) => (alone ? `${row.index}` : row.key); // nothing to link: an instruction is marked by itself
    const wide = hexadecimal(instructions.at(-1)?.address ?? 0).length;
    const waits = ["cycles", "stall"].includes(state.column);
    beside.draw(alone ? [] : left, instructions.map((row, k) => ({
      key: key(row), index: row.index, label: instructions[k - 1]?.key === row.key ? "" : `${row.line ?? "–"}`,
      text: `${hexadecimal(row.address).padStart(wide)}  ${row.text}`, ...figures(row.costs, dearest),
      note: waits && row.costs.cycles > whole.cycles / 100 ? mainStall(row.costs).replaceAll("_", " ") : null,
    })));
  }

  /** The sentence about a line, or about one of its instructions. */
  function tell(key, index) {
    const line = lines.find((each) => each.key === (index === null ? key : instructions[index].key));
    const own = index === null ? line.instructions : line.instructions.filter((each) => each.index === index);
    const all = sum(own.map((row) => row.costs));
    const places = alone ? 1 : line.instructions.filter((each, k, { [k - 1]: before }) => each.index !== before?.index + 1).length;
    const stall = mainStall(all).replaceAll("_", " ");
    const file = names.size > 1 && names.has(line.file) ? ` of ${names.get(line.file)}` : "";
    const where = line.line === null ? "no source line" : `line ${line.line}${file}`;
    const what = index === null ? `${where[0].toUpperCase()}${where.slice(1)}` : `${hexadecimal(own[0].address)}, ${where}`;
    const parts = [
      all.cycles ? `${count(all.cycles)} warp cycles, ${percent((100 * all.cycles) / whole.cycles)}${stall ? `, most in ${stall}` : ""}` : null,
      `executes ${plural(all.instructions, "warp instruction")}`,
      index === null ? `${plural(own.length, "instruction")} of machine code${places > 1 ? ` in ${places} places` : ""}` : null,
    ];
    const step = own.find((each) => traced.has(each.index));
    const button = (name, text, onclick) => element("button", { type: "button", class: `link ${name}`, onclick }, text);
    return [
      element("strong", {}, what),
      `: ${parts.filter(Boolean).join("; ")}. `,
      places > 1 ? button("next", "Next place", () => { beside.pick(key, index); beside.next(); }) : null,
      step ? button("step", "Step through it", () => stepTo(step.index)) : null,
    ].filter(Boolean);
  }

  function draw(focus) {
    for (const [name, each] of Object.entries(views)) {
      each.node.hidden = name !== state.view;
      each.button.setAttribute("aria-pressed", `${name === state.view}`);
    }
    if (state.view === "beside") drawBeside();
    else drawTable();
    if (typeof focus === "string") body.querySelector(focus)?.focus();
  }

  /** Show a line, in the table with its machine code. */
  function show(file, number) {
    const line = lines.find((each) => each.line === number && each.instructions.length && (file === null || names.get(each.file) === file))
      ?? lines.find((each) => each.line === number);
    if (!line) return;
    if (state.view === "beside") {
      beside.node.scrollIntoView({ block: "start", behavior: "instant" });
      beside.pick(line.key, null, "source");
      return;
    }
    state.marked = line.key;
    state.open.add(state.marked);
    draw();
    const row = body.querySelector(`[id="line-${line.file}-${line.line}"]`);
    row.scrollIntoView({ block: "center", behavior: "instant" });
    row.querySelector("button")?.focus({ preventScroll: true });
  }

  const setAll = (open) => {
    for (const line of lines) if (line.instructions.length && open) state.open.add(line.key);
    if (!open) state.open.clear();
    draw();
  };
  const beside = sideBySide(tell);
  const table = element("div", { class: "by-line" },
    element("div", { class: "controls" },
      element("button", { type: "button", onclick: () => setAll(true) }, "Open all machine code"),
      element("button", { type: "button", onclick: () => setAll(false) }, "Close all")),
    element("div", { class: "wide listing", tabindex: "0", role: "group", "aria-label": "Source with costs" },
      element("table", { id: "listing" }, element("caption", { class: "hidden" }, "Source lines with their costs; the heads sort"), element("thead", {}, headRow), body)));
  const view = (name, text, shown) => [name, {
    node: shown, button: element("button", { type: "button", "data-view": name, onclick: () => { state.view = name; draw(); } }, text),
  }];
  const views = Object.fromEntries([view("beside", "Side by side", beside.node), view("table", "All costs by line", table)]);
  const node = element("div", { class: "source-view" },
    element("div", { class: "controls" },
      element("span", { class: "buttons views", role: "group", "aria-label": "View" }, Object.values(views).map((each) => each.button)),
      element("label", { for: "heat-column" }, "Heat shows "), choice),
    alone ? element("p", { class: "note" }, "The machine code names no source lines that could be read: nvcc -lineinfo puts them in.") : null,
    Object.values(views).map((each) => each.node));
  state.column = COLUMNS.find((each) => most.get(each.key))?.key ?? state.column; // a functional run has no cycles
  choice.value = state.column;
  draw();
  const dearest = (alone ? instructions : lines).reduce((a, b) => (chosen().of(b.costs) > chosen().of(a.costs) ? b : a), alone ? instructions[0] : lines[0]);
  const begin = () => beside.picked() ?? (alone ? beside.pick(`${dearest.index}`, dearest.index) : beside.pick(dearest.key));
  if (instructions.length) requestAnimationFrame(begin); // once it is in the page
  return { node, show };
}
