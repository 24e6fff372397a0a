// Values of one lane's registers at each step of a warp, and how they are best read.
import { element, hexadecimal } from "gpusim/format";

const READINGS = ["as makes sense", "integer", "unsigned", "float", "half2"];
const FLOATS = /^(FADD|FMUL|FFMA|FMNMX|FSEL|FRND|FSWZADD|MUFU|I2F|I2FP|F2F\.F32|HMMA\S*\.F32)/;
const DOUBLES = /^(DADD|DMUL|DFMA|DMNMX|F2F\.F64|I2F\.F64)/;
const HALVES = /^(HADD2|HMUL2|HFMA2|HMNMX2|F2FP\.F16)/;
const GUARD = /^@!?U?P\w+ /;
const WIDEST = 4; // registers that an instruction of a lane writes, but for matrices
const FAR = 400; // steps back to where a late result was asked for

const buffer = new DataView(new ArrayBuffer(8));

/** A 32-bit word as something else. `high`: the word above it, of a double. */
export function read(word, as, high = 0) {
  buffer.setUint32(0, word >>> 0, true);
  buffer.setUint32(4, high >>> 0, true);
  if (as === "float") return short(buffer.getFloat32(0, true), 7);
  if (as === "double") return short(buffer.getFloat64(0, true), 12);
  if (as === "half2") return `${short(half(word & 0xffff), 4)}, ${short(half(word >>> 16), 4)}`;
  if (as === "unsigned") return (word >>> 0).toLocaleString("en-US");
  return (word | 0).toLocaleString("en-US");
}

const short = (value, digits) => (Number.isInteger(value) && Math.abs(value) < 1e7 ? `${value.toLocaleString("en-US")}.0` : `${Number(value.toPrecision(digits))}`);

function half(bits) {
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  const sign = bits >> 15 ? -1 : 1;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -24 * fraction);
}

/** What a word is likely to be where its instruction does not say: small numbers are integers, and what has the exponent
 * of an everyday number is a float. */
export function guess(word) {
  const exponent = (word >>> 23) & 255;
  return Math.abs(word | 0) >= 1 << 23 && exponent > 127 - 40 && exponent < 127 + 40 ? "float" : "integer";
}

/** A lane's word of a row of `trace.lanes`. */
export function laneOf(row, lane) {
  if (typeof row === "number") return row >>> 0;
  if (typeof row !== "string") return (row[0] + lane * row[1]) >>> 0;
  let word = 0;
  const bytes = atob(row.slice(Math.floor((4 * lane) / 3) * 4, Math.floor((4 * lane + 3) / 3) * 4 + 4));
  const from = 4 * lane - 3 * Math.floor((4 * lane) / 3);
  for (let k = 3; k >= 0; k -= 1) word = word * 256 + bytes.charCodeAt(from + k);
  return word >>> 0;
}

/** Rows of lanes by register when a step is over, and what they were before it. */
export function stateAt(warp, step) {
  const now = new Map();
  const before = new Map();
  const at = new Map();
  const { values } = warp;
  for (let k = 0; k < values.length && values[k] <= step; k += 3) {
    if (values[k] === step) before.set(values[k + 1], now.get(values[k + 1]) ?? 0);
    now.set(values[k + 1], values[k + 2]);
    at.set(values[k + 1], values[k]);
  }
  return { now, before, at };
}

/** Number of the first register that an instruction writes, -1 if there is none. */
function destination(text) {
  const found = /^\S+ (?:P\w+, )?R(\d+)/.exec(text.replace(GUARD, ""));
  return found ? Number(found[1]) : -1;
}

/** The opcode that wrote a register, whose new value was seen at the end of a step. */
function writer(instructions, warp, step, number) {
  for (let k = step; k >= Math.max(step - FAR, 0); k -= 1) {
    const text = instructions[warp.pc[k]][1];
    const first = destination(text);
    if (first >= 0 && first <= number && number < first + WIDEST) return text.replace(GUARD, "").split(" ")[0];
  }
  return "";
}

/** Shows in `root` a lane's registers of `data.trace`; returns draw(number of the warp, step, lane). `pick(lane)` is called
 * when the user chooses another lane. */
export function registers(root, data, pick) {
  const { trace, code: instructions } = data;
  const state = { as: READINGS[0], last: null };
  const names = trace.registers;
  const body = element("tbody");
  const more = element("tbody");
  const note = element("p", { class: "note" });
  const choice = element("select", { class: "reading", "aria-label": "Read values as", onchange: (event) => { state.as = event.target.value; draw(...state.last); } },
    READINGS.map((each) => element("option", {}, each)));
  const lanes = element("select", { "aria-label": "Lane whose registers are shown", onchange: (event) => pick(Number(event.target.value)) },
    Array.from({ length: 32 }, (_, lane) => element("option", { value: lane }, `lane ${lane}`)));
  const head = () => element("thead", {}, element("tr", {}, ["register", "was", "is", "hex"].map((each) => element("th", { scope: "col" }, each))));
  const others = element("details", {}, element("summary", {}, "Registers that this instruction does not name"),
    element("table", { class: "values" }, head(), more));
  const table = element("table", { class: "values named" }, head(), body);
  root.append(element("div", { class: "controls" }, element("h4", {}, "Registers of"), lanes, element("span", {}, "after this step"), choice), table, note, others);

  function reading(warp, register, step, word) {
    if (state.as !== READINGS[0]) return state.as;
    if (!names[register].startsWith("R")) return "integer";
    const opcode = writer(instructions, warp, step, Number(names[register].slice(1)));
    if (DOUBLES.test(opcode)) return "double";
    if (HALVES.test(opcode)) return "half2";
    if (FLOATS.test(opcode)) return "float";
    return /^(LD|ATOM|SHFL|MOV|SEL|IMAD\.MOV|PRMT|R2UR|LDC|CS2R|HFMA2\.MMA)/.test(opcode) ? guess(word) : "integer";
  }

  const word = (rows, register, lane) => laneOf(trace.lanes[rows.get(register) ?? 0], lane);

  function row(warp, { now, before, at }, register, lane) {
    const is = word(now, register, lane);
    const old = before.has(register) ? word(before, register, lane) : is;
    const as = reading(warp, register, at.get(register) ?? 0, is);
    const low = as === "double" && Number(names[register].slice(1)) % 2 === 1;
    const text = low ? "high word" : read(is, as, word(now, register + 1, lane));
    const asBefore = state.as === READINGS[0] && as === "float" ? guess(old) : as;
    return line(names[register], is, old !== is, as === "double" ? "" : read(old, asBefore), text, hexadecimal(is));
  }

  const line = (name, is, changed, old, text, hex) => element("tr", { class: changed ? "changed" : "", "data-register": name, "data-word": is },
    element("th", { scope: "row" }, name), element("td", {}, changed ? old : ""), element("td", {}, text), element("td", {}, hex));

  /** The last row of registers has a mask for each predicate. */
  function predicates({ now, before }, lane, wanted) {
    const last = names.length - 1;
    const masks = (rows) => [trace.lanes[rows.get(last) ?? 0]].map((row) => (Array.isArray(row) ? row : new Array(7).fill(0)))[0];
    const old = masks(before.has(last) ? before : now);
    return masks(now).flatMap((mask, k) => {
      const [is, was] = [mask, old[k]].map((each) => (each >>> lane) & 1);
      return is === was && !wanted.has(`P${k}`) ? [] : [line(`P${k}`, is, is !== was, `${Boolean(was)}`, `${Boolean(is)}`, "")];
    });
  }

  function draw(number, step, lane) {
    state.last = [number, step, lane];
    const warp = trace.warps[number];
    lanes.value = lane;
    const known = step < warp.known;
    table.hidden = !known;
    others.hidden = !known;
    note.textContent = known ? "" : warp.known ? `The page has room for values of the first ${warp.known} steps of this warp.` : "The page has no values of this warp's registers.";
    if (!known) return;
    const found = stateAt(warp, step);
    const wanted = named(instructions[warp.pc[step]][1]);
    const changed = new Set(found.before.keys());
    const all = names.slice(0, -1).map((_, k) => k).filter((k) => found.now.has(k) || wanted.has(names[k]));
    const first = all.filter((k) => wanted.has(names[k]) || changed.has(k));
    body.replaceChildren(...first.map((k) => row(warp, found, k, lane)), ...predicates(found, lane, wanted));
    more.replaceChildren(...all.filter((k) => !first.includes(k)).map((k) => row(warp, found, k, lane)));
    if (!body.children.length) note.textContent = "It names no register and changes none.";
    others.hidden = !more.children.length;
  }

  return draw;
}

/** Registers and predicates that an instruction names, the second words of pairs too. */
function named(text) {
  const found = new Set();
  for (const [, kind, number, wide] of text.matchAll(/\b(UR|R|P)(\d+)\b(\.64)?/g)) {
    found.add(`${kind}${number}`);
    if (wide) found.add(`${kind}${Number(number) + 1}`);
  }
  return found;
}
