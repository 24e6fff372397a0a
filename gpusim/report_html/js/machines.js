// The page of `gpusim compare`: machines side by side, as bars with intervals, sentences and a table of launches.
import { count, element, joules } from "gpusim/format";

const data = JSON.parse(document.getElementById("data").textContent);
const ran = data.machines.filter((each) => each.error === null);
const fixed = (value) => value.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const about = (texts) => texts.map((text) => element("p", { class: "about" }, text));

/** Bars from 0 on, as long as the number of that name; a span, such as ["low_us", "high_us"], is drawn across them. */
function bars(title, name, text, span = null) {
  const most = Math.max(...ran.map((each) => each[span?.[1] ?? name]));
  const share = (value) => `${(100 * value / most).toFixed(1)}%`;
  return element("figure", {}, element("figcaption", {}, title), element("div", { class: "bars" }, ran.map((each) =>
    element("div", { class: "bar" },
      element("span", { class: "label", title: each.machine }, each.short),
      element("span", { class: "track", "aria-hidden": "true" },
        element("span", { class: "fill", style: `width:${share(each[name])}` }),
        span ? element("span", { class: "span", style: `left:${share(each[span[0]])};width:${share(each[span[1]] - each[span[0]])}` }) : null),
      element("span", { class: "number" }, text(each))))));
}

const times = (each) =>
  `${fixed(each.time_us)} µs, ${fixed(each.time_us / ran[0].time_us)} (${fixed(each.low_us)} to ${fixed(each.high_us)})`;

/** A row for each launch of any machine, by name and, where a name stands several times, by its turn. */
function launches() {
  const rows = new Map();
  for (const machine of ran) {
    const turns = {};
    for (const each of machine.launches) {
      turns[each.program] = (turns[each.program] ?? 0) + 1;
      const key = `${each.program}\n${turns[each.program]}`;
      if (!rows.has(key)) rows.set(key, { launch: each, cells: new Map() });
      rows.get(key).cells.set(machine, each);
    }
  }
  const cell = (machine, each) => (each
    ? [`${fixed(each.time_us)} µs`, element("small", {}, `${(100 * each.weight * each.time_us / machine.time_us).toFixed(0)} %, ${each.limited_by}`)]
    : ["-"]);
  return element("div", { class: "wide", tabindex: 0, role: "group", "aria-label": "Launches" }, element("table", { class: "stacked" },
    element("thead", {}, element("tr", {}, ["launch", "weight", ...ran.map((each) => each.short)].map((name) => element("th", { scope: "col" }, name)))),
    element("tbody", {}, [...rows.values()].map(({ launch, cells }) => element("tr", {},
      element("th", { scope: "row" }, launch.program),
      element("td", { "data-head": "weight" }, `${launch.weight}`),
      ran.map((machine) => element("td", { "data-head": machine.short }, ...cell(machine, cells.get(machine)))))))));
}

function section(id, title, ...parts) {
  return element("section", { id, "aria-labelledby": `${id}-title` }, element("h2", { id: `${id}-title` }, title), ...parts.flat());
}

const facts = [["program or workload", data.what], ["machines", `${data.machines.length}`], ["ratios are to", data.machines[0].short]];
document.getElementById("head").append(
  element("p", { class: "brand" }, "gpusim compare · simulated, not measured"),
  element("h1", {}, data.title),
  element("dl", { class: "facts" }, facts.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value)))),
  ...data.verdict.map((text) => element("p", { class: "limiter" }, `${text}.`)));
const sections = [
  section("machines", "Side by side", about(data.notes), ran.length ? [
    bars("Time, its ratio, and across the bar where nine of ten kernels of the kind lie", "time_us", times, ["low_us", "high_us"]),
    bars("Energy", "energy_j", (each) => joules(each.energy_j)),
    bars("Power", "power_w", (each) => `${count(each.power_w)} W`),
    bars("Area of all dies", "area_mm2", (each) => `${count(each.area_mm2)} mm²`),
  ] : []),
  section("limits", "What limits each, and why", data.machines.map((each) =>
    element("p", {}, element("strong", {}, each.machine), `: ${each.error ?? each.why}`))),
  ...(ran.some((each) => each.launches.length > 1) ? [section("launches", "Launches",
    about(["The time of one launch of each, its share of the whole by weight, and what limits it."]), launches())] : []),
  section("areas", "How well areas are known", about(data.priced)),
];
document.getElementById("page").replaceChildren(...sections);
document.getElementById("contents").append(element("ul", {}, sections.map((each) =>
  element("li", {}, element("a", { href: `#${each.id}` }, each.querySelector("h2").textContent)))));
document.querySelector(".skip").remove();
document.documentElement.dataset.ready = "true";
