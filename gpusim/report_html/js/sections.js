// Head, advice, and the sections that are rows, bars and tables.
import { count, element, percent, plural } from "gpusim/format";
import { occupancy } from "gpusim/occupancy";
import { roofline } from "gpusim/roofline";

const SHOWN = 8;

export function head(data) {
  return [
    element("p", { class: "brand" }, "gpusim report · simulated, not measured",
      data.index ? [" · ", element("a", { href: data.index }, "all launches")] : null),
    element("h1", {}, data.title),
    data.title.endsWith(data.kernel) ? null : element("p", { class: "kernel" }, `kernel ${data.kernel}`),
    element("dl", { class: "facts" }, data.facts.map(([name, value]) =>
      element("div", {}, element("dt", {}, name), element("dd", {}, value)))),
    element("p", { class: "limiter" }, element("strong", {}, "How sure. "), `${data.sure}.`),
    element("p", { class: "limiter" }, element("strong", {}, "What limits it. "), data.limiter.sentence),
  ];
}

/** The findings, the dearest first. `jump(finding)` shows its line in the source view, null if there is none;
 * `steps(finding)` is what shows it in the stepper, or null. */
export function advice(data, jump, steps) {
  const items = data.advice.map((each) => {
    const step = each.line === null ? null : steps(each);
    const width = `${Math.min(100 * each.share, 100).toFixed(1)}%`;
    return element("li", { class: "finding" },
      element("div", { class: "worth", title: "share of the launch's duration, an upper bound of the gain" },
        element("span", { class: "number" }, percent(100 * each.share, each.share < 0.1 ? 1 : 0)),
        element("span", { class: "track", "aria-hidden": "true" }, element("span", { class: "fill", style: `width:${width}` }))),
      element("div", {},
        element("h3", {}, each.kind, each.line === null || jump === null ? null : element("button", {
          type: "button", class: "link", "aria-label": `Show line ${each.line} in the source view`, onclick: () => jump(each),
        }, `line ${each.line}`),
        step ? element("button", { type: "button", class: "link", "aria-label": `Step through line ${each.line}`, onclick: step }, "step through it") : null),
        element("p", {}, each.sentence)));
  });
  return element("section", { id: "advice", "aria-labelledby": "advice-title" },
    ...heading(data, "advice"),
    element("ol", { class: "findings" }, items.slice(0, SHOWN)),
    items.length > SHOWN ? element("details", {}, element("summary", {}, `${items.length - SHOWN} more that cost less`),
      element("ol", { class: "findings", start: SHOWN + 1 }, items.slice(SHOWN))) : null,
    items.length ? null : element("p", {}, "Nothing stands out."));
}

/** Title and sentence of a section that is drawn from other data than its own. */
export function heading({ words }, id) {
  const [title, about] = words[id];
  return [element("h2", { id: `${id}-title` }, title), element("p", { class: "about" }, about)];
}

export function section(data, each) {
  return element("section", { id: each.id, "aria-labelledby": `${each.id}-title` },
    ...heading(data, each.id),
    each.bars.length ? element("div", { class: "bars" }, each.bars.map(bar)) : null,
    each.chart ? chart(each) : null,
    element("dl", { class: "rows" }, each.rows.map(row)),
    each.tables.length ? element("div", { class: "tables" }, each.tables.map(table)) : null,
    (each.loads ?? []).filter((one) => one.values.some((value) => value)).map((one) => strip(
      `${one.title}, most ${count(Math.max(...one.values))}, average ${count(one.values.reduce((a, b) => a + b, 0) / one.values.length)}`,
      one.values, (value, k) => `${one.noun} ${k}: ${count(value)} ${one.unit}`)),
    EXTRA[each.id] ? EXTRA[each.id](data) : null);
}

function bar(each) {
  return element("div", { class: each.inner ? "bar inner" : "bar", title: each.meaning || null },
    element("span", { class: "label" }, each.label),
    element("span", { class: "track", "aria-hidden": "true" },
      element("span", { class: "fill", style: `width:${Math.min(each.value, 100).toFixed(2)}%` })),
    element("span", { class: "number" }, each.text));
}

function row(each) {
  return element("div", { title: each.meaning || null, "data-metric": each.metric },
    element("dt", {}, each.label), element("dd", {}, each.text));
}

function table(each) {
  const cell = (value, k) => element(k ? "td" : "th", k ? {} : { scope: "row" },
    typeof value === "number" ? (Number.isInteger(value) ? count(value) : value.toFixed(2)) : value);
  return element("div", { class: "wide", tabindex: "0", role: "group", "aria-label": each.title },
    element("table", {},
      element("caption", {}, each.title),
      element("thead", {}, element("tr", {}, each.head.map((text) => element("th", { scope: "col" }, text)))),
      element("tbody", {}, each.rows.map((cells) => element("tr", {}, cells.map(cell))))));
}

/** Boxes of the memory's levels with what moves between them. */
function chart({ chart: parts, shared }) {
  const level = (name, text) => element("li", { class: "level" }, element("strong", {}, name), element("span", {}, text));
  return element("div", { class: "chart" },
    element("ol", { class: "flow", "aria-label": "Memory chart" }, parts.map(([name, text], k) =>
      k % 2 ? element("li", { class: "moves" }, name) : level(name, text))),
    shared ? element("ol", { class: "flow shared", "aria-label": "Shared memory" },
      element("li", { class: "moves" }, "from the kernel"), level("Shared Memory", shared)) : null);
}

/** A cell for each of many alike, the fuller the darker. */
function strip(caption, values, tell) {
  const most = Math.max(...values, 1);
  return element("figure", {},
    element("figcaption", {}, caption),
    element("div", { class: "strip", role: "img", "aria-label": caption }, values.map((value, k) =>
      element("span", { title: tell(value, k), style: `--heat:${(value / most).toFixed(3)}` }))));
}

/** An element in which something is drawn. */
function within(draw, data) {
  const root = element("div");
  draw(root, data);
  return root;
}

const EXTRA = {
  "speed-of-light": (data) => within(roofline, data.roofline),
  occupancy: (data) => within(occupancy, data.filling),
  launch: (data) => strip(
    `Active cycles of each of the ${data.sm_blocks.length} SMs, most ${count(Math.max(...data.sm_active_cycles))}; empty: no block`,
    data.sm_active_cycles, (cycles, sm) => `SM ${sm}: ${plural(data.sm_blocks[sm], "block")}, ${plural(cycles, "active cycle")}`),
  "warp-state": (data) => stalls(data),
};

function stalls(data) {
  const meanings = new Map(data.stalls);
  const rows = Object.entries(data.stall_reasons).filter(([, each]) => each.cycles);
  const most = Math.max(...rows.map(([, each]) => each.share), 1e-9);
  return element("div", { class: "bars stalls" }, rows.map(([name, each]) =>
    element("div", { class: "bar", title: `waiting for ${meanings.get(name)}: ${count(each.cycles)} warp cycles` },
      element("span", { class: "label" }, name.replaceAll("_", " "),
        element("small", {}, meanings.get(name))),
      element("span", { class: "track", "aria-hidden": "true" },
        element("span", { class: "fill", style: `width:${(100 * each.share / most).toFixed(2)}%` })),
      element("span", { class: "number" }, `${each.cycles_per_instruction.toFixed(2)} cycles, ${percent(100 * each.share)}`))));
}
