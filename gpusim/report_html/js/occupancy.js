// What fills an SM as bars of blocks, and how many warps it would hold with other blocks as steps.
import { count, element, svg } from "gpusim/format";

const WIDTH = 300;
const HEIGHT = 150;
const LEFT = 30;
const RIGHT = 10;
const TOP = 22;
const BOTTOM = 22;
const MOST_BLOCKS = 64; // that are drawn one by one

/** Draws into `root` what `gpusim.report_html.sections` makes. */
export function occupancy(root, data) {
  const share = (value) => `${((100 * value) / data.most).toFixed(0)} %`;
  root.append(
    element("figure", { class: "occupancy" },
      element("figcaption", {}, `${count(data.blocks)} block${data.blocks === 1 ? "" : "s"} fill an SM: ${count(data.warps)} of ${count(data.most)} warps (${share(data.warps)}); ${data.achieved.toFixed(1)} are there on average (${share(data.achieved)})`),
      element("div", { class: "bars" }, data.resources.map((each) => resource(each, data.blocks)))),
    element("figure", { class: "occupancy" },
      element("figcaption", {}, "Warps that an SM would hold if a block took another number; the dot is this launch"),
      element("div", { class: "curves" }, data.curves.map((each) => curve(each, data.most)))));
}

function resource([name, each, of, unit, limits], blocks) {
  const used = each * blocks;
  const text = `${name}: ${count(used)} of ${count(of)} ${unit}, ${count(each)} for each block${limits ? "; this is what limits" : ""}`;
  const parts = blocks <= MOST_BLOCKS ? Array.from({ length: blocks }, () => each) : [used];
  return element("div", { class: limits ? "bar limits" : "bar", title: text, "data-resource": name, "data-used": used },
    element("span", { class: "label" }, name, limits ? element("small", {}, "limits") : null),
    element("span", { class: "track blocks", role: "img", "aria-label": text },
      parts.map((part) => element("span", { class: "block", style: `width:${((100 * part) / of).toFixed(3)}%` }))),
    element("span", { class: "number" }, `${count(used)} of ${count(of)}`));
}

/** Steps of warps over what a block takes. */
function curve([title, unit, here, most, changes], top) {
  const x = (value) => LEFT + (value / most) * (WIDTH - LEFT - RIGHT);
  const y = (value) => HEIGHT - BOTTOM - (value / top) * (HEIGHT - TOP - BOTTOM);
  const points = [];
  let now = 0;
  for (let k = 0; k < changes.length; k += 2) {
    const last = changes[k + 3] === undefined ? most : changes[k + 2];
    points.push([changes[k], changes[k + 1]], [last, changes[k + 1]]);
    if (changes[k] <= here) now = changes[k + 1];
  }
  const words = `${title}${unit ? ` in ${unit}` : ""}: ${count(here)}, ${count(now)} warps`;
  return svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": words, "data-warps": now },
    svg("title", {}, words),
    svg("text", { class: "name", x: LEFT, y: 13 }, words),
    [0, top / 2, top].map((value) => [
      svg("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value) }),
      svg("text", { x: LEFT - 5, y: y(value) + 4, "text-anchor": "end" }, `${value}`)]).flat(),
    [0, most].map((value) => svg("text", { x: x(value), y: HEIGHT - 6, "text-anchor": value ? "end" : "start" }, count(value))),
    svg("polyline", { class: "curve", points: points.map(([a, b]) => `${x(a).toFixed(1)},${y(b).toFixed(1)}`).join(" ") }),
    svg("circle", { class: "point", cx: x(here), cy: y(now), r: 5 }));
}
