// Small helpers that every module uses: elements and numbers.

/** An element. Attributes that begin with "on" are listeners, null ones are left out; children are nodes or text. */
export function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  apply(node, attributes, children);
  return node;
}

/** The same in SVG. */
export function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  apply(node, attributes, children);
  return node;
}

function apply(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((each) => each !== null && each !== undefined));
}

/** A count with thousands separated, as the text report writes it. */
export const count = (value) => Math.round(value).toLocaleString("en-US");

/** A count with its noun: 1 line, 2 lines. */
export const plural = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;

export const percent = (value, digits = 1) => `${value.toFixed(digits)} %`;

/** Decimal prefix: 12.3 G. */
export function scaled(value) {
  for (const [factor, prefix] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (value >= factor) return `${(value / factor).toFixed(1)} ${prefix}`;
  }
  return `${Math.round(value)} `;
}

/** Joules to three digits, as the text report writes them: 2.31 mJ. */
export function joules(value) {
  if (!value) return "0 J";
  const prefixes = [[1, ""], [1e-3, "m"], [1e-6, "µ"], [1e-9, "n"], [1e-12, "p"]];
  const [factor, prefix] = prefixes.find((each) => value >= each[0]) ?? prefixes.at(-1);
  const number = value / factor;
  const digits = number < 9.995 ? 2 : number < 99.95 ? 1 : 0;
  return `${number.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits })} ${prefix}J`;
}

export const hexadecimal = (value) => `0x${value.toString(16)}`;

/** Lane numbers as ranges, "0–7, 12", or as a row with equal steps, "1, 3, …, 31". */
export function ranges(numbers) {
  const parts = [];
  const step = numbers[1] - numbers[0];
  if (step > 1 && numbers.length > 4 && numbers.every((number, k) => number === numbers[0] + k * step)) {
    return `${numbers[0]}, ${numbers[1]}, …, ${numbers.at(-1)}`;
  }
  for (let k = 0; k < numbers.length; k += 1) {
    const first = numbers[k];
    while (numbers[k + 1] === numbers[k] + 1) k += 1;
    parts.push(first === numbers[k] ? `${first}` : `${first}–${numbers[k]}`);
  }
  return parts.join(", ");
}

export const lanesOf = (mask) => Array.from({ length: 32 }, (_, lane) => lane).filter((lane) => (mask >>> lane) & 1);

export const bitCount = (mask) => lanesOf(mask).length;
