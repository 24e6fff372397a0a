// Hierarchical roofline as an SVG: a roof for each level of memory, one for arithmetic, a point for each level.
import { count, element, percent, scaled, svg } from "gpusim/format";

const WIDTHS = [400, 640]; // on a phone, where text would be too small, and elsewhere
const HEIGHT = 330;
const LEFT = 62;
const RIGHT = 16;
const TOP = 14;
const BOTTOM = 46;
const SHAPES = {
  L1: (x, y) => svg("circle", { cx: x, cy: y, r: 6 }),
  L2: (x, y) => svg("rect", { x: x - 5.5, y: y - 5.5, width: 11, height: 11 }),
  DRAM: (x, y) => svg("path", { d: `M${x} ${y - 7}l7 12h-14z` }),
};

// Where along a roof its name stands, and how far below the line: those of L2 and DRAM run close to each other.
const LABELS = { L1: [0.5, -5], L2: [0.35, -5], DRAM: [0.6, 15] };

/** Without arithmetic a launch has no place under a roof: what it moves at each level of memory, of its peak. */
function levels(data) {
  return element("figure", { class: "roofline" },
    element("figcaption", {}, `No floating-point operations, so only the roofs of memory apply: the launch reaches ${percent(100 * data.share_of_roof)} of the ${data.roof} roof.`),
    element("div", { class: "bars" }, Object.entries(data.peak_bytes_per_s).map(([level, peak]) => {
      const rate = data.bytes[level] / data.seconds;
      return element("div", { class: "bar", title: `${count(data.bytes[level])} B, peak ${scaled(peak)}B/s`, "data-level": level },
        element("span", { class: "label" }, `${level}, ${scaled(rate)}B/s`),
        element("span", { class: "track", "aria-hidden": "true" }, element("span", { class: "fill", style: `width:${Math.min((100 * rate) / peak, 100).toFixed(2)}%` })),
        element("span", { class: "number" }, percent((100 * rate) / peak)));
    })));
}

/** Draws `gpusim.results.roofline` into `root`. */
export function roofline(root, data) {
  root.append(data.kind ? roofs(data) : levels(data));
}

function roofs(data) {
  const WIDTH = WIDTHS[Number(window.innerWidth > 800)];
  const peak = data.peak_operations_per_s[data.kind];
  const shown = Object.keys(SHAPES).filter((level) => data.bytes[level]);
  const points = shown.map((level) => data.intensity[level]);
  const ridges = Object.values(data.peak_bytes_per_s).map((rate) => peak / rate);
  const low = Math.floor(Math.log10(Math.min(...points, ...ridges, 1)) - 0.3);
  const high = Math.ceil(Math.log10(Math.max(...points, ...ridges)) + 0.3);
  const top = Math.ceil(Math.log10(peak) + 0.1);
  const bottom = Math.floor(Math.log10(Math.max(Math.min(data.operations_per_s, peak * 1e-3), 1)) - 0.2);
  const x = (value) => LEFT + (Math.log10(value) - low) / (high - low) * (WIDTH - LEFT - RIGHT);
  const y = (value) => HEIGHT - BOTTOM - (Math.log10(value) - bottom) / (top - bottom) * (HEIGHT - TOP - BOTTOM);
  const at = (values) => values.map(([a, b]) => `${x(a).toFixed(1)},${y(b).toFixed(1)}`).join(" ");
  const parts = [];
  for (let k = low; k <= high; k += 1) {
    parts.push(svg("line", { class: "grid", x1: x(10 ** k), x2: x(10 ** k), y1: TOP, y2: HEIGHT - BOTTOM }),
      svg("text", { x: x(10 ** k), y: HEIGHT - BOTTOM + 16, "text-anchor": "middle" }, k < 0 ? (10 ** k).toFixed(-k) : `${10 ** k}`));
  }
  for (let k = bottom; k <= top; k += 1) {
    parts.push(svg("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(10 ** k), y2: y(10 ** k) }),
      svg("text", { x: LEFT - 6, y: y(10 ** k) + 4, "text-anchor": "end" }, scaled(10 ** k).replace(".0", "").trim()));
  }
  const end = 10 ** high;
  for (const [level, rate] of Object.entries(data.peak_bytes_per_s)) {
    const ridge = peak / rate;
    const start = Math.max(10 ** low, 10 ** bottom / rate);
    parts.push(svg("polyline", { class: `roof ${level}`, points: at([[start, start * rate], [ridge, peak]]) }));
    const [along, below] = LABELS[level];
    const label = start ** (1 - along) * ridge ** along;
    const angle = Math.atan2(y(10 ** bottom) - y(10 ** top), (x(end) - x(10 ** low)) * (top - bottom) / (high - low)) * -180 / Math.PI;
    parts.push(svg("text", {
      class: "name", x: x(label), y: y(label * rate) + below, "text-anchor": "middle",
      transform: `rotate(${angle.toFixed(1)} ${x(label).toFixed(1)} ${y(label * rate).toFixed(1)})`,
    }, `${level} ${scaled(rate)}B/s`));
  }
  const first = Math.min(...ridges);
  parts.push(svg("polyline", { class: "roof compute", points: at([[first, peak], [end, peak]]) }),
    svg("text", { class: "name", x: WIDTH - RIGHT, y: y(peak) - 5, "text-anchor": "end" }, `${data.kind} ${scaled(peak)}FLOP/s`));
  // Other arithmetic of the launch has roofs of its own.
  for (const kind of Object.keys(data.operations).filter((each) => each !== data.kind)) {
    const own = data.peak_operations_per_s[kind];
    if (own > 10 ** top) continue;
    parts.push(svg("line", { class: "roof other", x1: x(Math.min(10 ** high, Math.min(...ridges))), x2: x(end), y1: y(own), y2: y(own) }),
      svg("text", { class: "name", x: WIDTH - RIGHT, y: y(own) + 13, "text-anchor": "end" }, `${kind} ${scaled(own)}FLOP/s`));
  }
  for (const level of shown) {
    const mark = SHAPES[level](x(data.intensity[level]), y(Math.max(data.operations_per_s, 10 ** bottom)));
    mark.setAttribute("class", `point ${level}`);
    mark.append(svg("title", {}, `${level}: ${data.intensity[level].toFixed(2)} FLOP/byte, ${scaled(data.operations_per_s)}FLOP/s`));
    parts.push(mark);
  }
  parts.push(
    svg("text", { x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 8, "text-anchor": "middle" }, "arithmetic intensity, FLOP/byte"),
    svg("text", { x: 14, y: HEIGHT / 2 - 10, "text-anchor": "middle", transform: `rotate(-90 14 ${HEIGHT / 2 - 10})` }, "FLOP/s"));
  const legend = shown.map((level) => {
    const mark = SHAPES[level](8, 8);
    mark.setAttribute("class", `point ${level}`);
    return element("span", {}, svg("svg", { width: 16, height: 16, "aria-hidden": "true" }, mark),
      ` ${level}: ${data.intensity[level].toFixed(2)} FLOP/byte`);
  });
  const text = `Roofline: ${scaled(data.operations_per_s)}FLOP/s, ${(100 * data.share_of_roof).toFixed(1)} % of the ${data.roof} roof`;
  return element("figure", { class: "roofline" },
    element("figcaption", {}, text),
    element("div", { class: "wide" }, svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": text }, parts)),
    element("p", { class: "legend" }, legend));
}
