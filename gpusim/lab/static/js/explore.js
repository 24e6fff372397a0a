// A machine with other parameters: what it costs, how fast a program is on it, and a sweep of one parameter.
import { count, element, joules, svg } from "gpusim/format";
import { narrow } from "gpusim/play";

const number = (value) => (Number.isInteger(value) ? count(value) : value.toFixed(1));
const micro = (value) => `${value.toFixed(2)} µs`;

/** How much of the machine a launch fills, in words. */
function filling({ blocks, held }) {
  const waves = blocks / held;
  const much = waves < 1 ? `${(100 * waves).toPrecision(2)} % of the GPU` : `the GPU ${waves.toPrecision(3)} times`;
  return `The launch fills ${much}: ${count(blocks)} blocks, of which it holds ${count(held)} at once.${waves < 1 ? " More SMs or bandwidth are worth little to a launch that does not fill the GPU." : ""}`;
}

/** program: what to run, with sizes; preset: changes of an H200; gpu, choose: the chosen GPU, and how to choose another;
 * moved: called with what an address is to say. */
export function explore({ program: programs, preset: presets, ask, gpu, choose, moved }) {
  let changes = new Map(); // keys of the configuration, and what they are to be, as texts
  const sliders = element("div", { class: "sliders" });
  const facts = element("dl", { class: "facts", "aria-live": "polite" });
  const say = element("p", { class: "verdict" });
  const rest = element("p", { class: "note" });
  const spans = element("div", { class: "picture" });
  const program = element("select", { "aria-label": "Program", onchange: () => refresh() },
    programs.map(({ name, size, note }) => element("option", { value: `${name}:${size}` }, `${name}, ${count(size)}${note ? ` (${note})` : ""}`)));
  const machines = element("div", { class: "bar", role: "group", "aria-label": "Machines to begin with" }, element("span", {}, "H200:"), presets.map((each) => element("button", {
    type: "button", "data-preset": each.title, onclick: () => { choose("h200"); changes = wordsOf(each.changes); refresh(); },
  }, each.title)));
  const axis = element("select", { "aria-label": "Parameter to sweep" });
  const sweepButton = element("button", { type: "button", "data-sweep": true, onclick: () => sweep() }, "Sweep it");
  const table = element("div", {});
  let known = null;
  let shown = gpu();
  let asked = 0;

  const wordsOf = (text) => new Map(text.split(" ").filter(Boolean).map((word) => word.split("=")));
  const textOf = (words) => [...words].map((each) => each.join("=")).sort();

  async function get(words) {
    const [name, size] = program.value.split(":");
    const answer = await ask("machine", { gpu: gpu(), changes: textOf(words), program: name, size: Number(size) });
    if (answer.error !== undefined) throw new Error(answer.error);
    return answer;
  }

  async function refresh() {
    const own = (asked += 1);
    if (shown !== gpu()) {
      shown = gpu();
      known = null;
      if (shown !== "h200") changes = new Map();
    }
    moved({ program: program.value, set: textOf(changes).join(" ") });
    for (const button of machines.querySelectorAll("button")) button.setAttribute("aria-pressed", shown === "h200" && textOf(wordsOf(presets.find((each) => each.title === button.dataset.preset).changes)).join() === textOf(changes).join() ? "true" : "false");
    say.textContent = "Runs …";
    try {
      const base = await get(new Map());
      if (own !== asked) return;
      known = base.parameters;
      draw();
      const answer = changes.size ? await get(changes) : base;
      if (own !== asked) return;
      const change = (name) => `${answer.is[name] === base.is[name] ? "as shipped" : `${(100 * (answer.is[name] / base.is[name] - 1)).toFixed(1).replace(/^(?=\d)/, "+")} %`}`;
      facts.replaceChildren(...[["Time", micro(answer.is.time_us), "time_us"], ["Energy", joules(answer.is.energy_j), "energy_j"], ["Area of the die", `${count(answer.is.area_mm2)} mm²`, "area_mm2"], ["Power", `${count(answer.is.power_w)} W`, "power_w"]]
        .map(([name, value, key]) => element("div", { "data-fact": name }, element("dt", {}, name), element("dd", {}, value), element("small", {}, change(key)))));
      say.replaceChildren(answer.is.limiter, element("br"), element("span", { "data-filling": true }, filling(answer.is)));
      spans.replaceChildren(...intervals(answer === base ? [["as shipped", base.is]] : [["as shipped", base.is], ["changed", answer.is]]));
    } catch (error) {
      if (own === asked) say.textContent = String(error.message ?? error);
    }
  }

  /** The sliders at the values that the changes say, and in words what else is changed. */
  function draw() {
    const at = axis.value;
    axis.replaceChildren(...known.map((each) => element("option", { value: each.key, selected: each.key === at }, each.label)));
    const place = (each) => each.values.findIndex((value) => `${value}` === changes.get(each.key));
    sliders.replaceChildren(...known.map((each) => {
      const shipped = each.factors.indexOf(1);
      const own = changes.has(each.key) ? place(each) : shipped;
      const output = element("output", {}, own < 0 ? number(Number(changes.get(each.key))) : number(each.values[own]));
      return element("label", { class: "slider" }, element("span", {}, each.label), output, element("input", {
        type: "range", min: 0, max: each.factors.length - 1, value: own < 0 ? each.factors.length - 1 : own, "data-key": each.key,
        oninput: (event) => {
          const chosen = Number(event.target.value);
          output.textContent = number(each.values[chosen]);
          if (chosen === shipped) changes.delete(each.key);
          else changes.set(each.key, `${each.values[chosen]}`);
        },
        onchange: () => refresh(),
      }));
    }));
    const others = textOf(new Map([...changes].filter(([key]) => known.every((each) => each.key !== key))));
    rest.textContent = others.length ? `Also changed: ${others.join(", ")}.` : "";
    sliders.append(rest);
  }

  async function sweep() {
    const chosen = known?.find((each) => each.key === axis.value);
    if (!chosen) return;
    sweepButton.disabled = true;
    const rows = [];
    for (let k = 0; k < chosen.factors.length; k += 1) {
      table.replaceChildren(element("p", { class: "note" }, `${k + 1} of ${chosen.factors.length} …`));
      try {
        const { is } = await get(new Map([...changes, [chosen.key, `${chosen.values[k]}`]]));
        rows.push({ value: chosen.values[k], note: "", ...is });
      } catch (error) {
        rows.push({ value: chosen.values[k], note: String(error.message ?? error) });
      }
    }
    const notes = (note) => (rows.some((row) => row.note) ? [note] : []);
    const columns = [["time, µs", "time_us", (each) => each.toFixed(2)], ["9 of 10 lie in, µs", "between_us", (each) => each.map((end) => end.toFixed(2)).join(" – ")], ["energy", "energy_j", joules], ["area, mm²", "area_mm2", count], ["power, W", "power_w", count]];
    table.replaceChildren(curve(chosen.label, rows.filter((row) => row.time_us > 0)), element("div", { class: "wide", tabindex: "0", role: "group", "aria-label": "The sweep as a table" }, element("table", {},
      element("thead", {}, element("tr", {}, [chosen.label, ...columns.map(([name]) => name), ...notes("")].map((name) => element("th", {}, name)))),
      element("tbody", {}, rows.map((row) => element("tr", {}, element("td", {}, number(row.value)), columns.map(([, key, spell]) => element("td", {}, row[key] ? spell(row[key]) : "")), notes(row.note).map((note) => element("td", {}, note))))))));
    sweepButton.disabled = false;
  }

  /** What an address says. */
  function set({ program: wanted, set: words = "" }) {
    if ([...program.options].some((each) => each.value === wanted)) program.value = wanted;
    changes = wordsOf(words);
    shown = gpu();
  }

  const node = element("div", {}, element("div", { class: "bar" }, element("label", {}, "Program ", program)), machines,
    element("div", { class: "experiment" }, element("div", { class: "about" }, element("h2", {}, "A machine of your own"), element("p", {}, "Begin with a machine that architects ask about, or move what a GPU consists of, and see what it costs and what it brings. Area and power are a first-order model of the machine under a fixed load; energy is what this run takes.")), sliders, element("div", { class: "seen" }, facts, say, spans, element("div", { class: "table" }, element("div", { class: "bar" }, element("label", {}, "One parameter over its range: ", axis), sweepButton), table))));
  return { node, refresh, set };
}

/** Predicted times as dots on one axis, each with the interval in which nine of ten kernels of its kind lie. */
function intervals(rows) {
  const known = rows.filter(([, row]) => row.between_us);
  if (!known.length) return [];
  const [width, left, high] = [narrow() ? 360 : 640, 84, 26];
  const most = 1.05 * Math.max(...known.map(([, row]) => row.between_us[1]));
  const x = (value) => left + ((width - left - 70) * value) / most;
  const apart = known.length < 2 ? "" : known[0][1].between_us[0] > known[1][1].between_us[1] || known[1][1].between_us[0] > known[0][1].between_us[1]
    ? " The two do not overlap: the machines differ by more than a prediction may be off." : " The two overlap: a prediction may be off by more than the machines differ.";
  return [svg("svg", { viewBox: `0 0 ${width} ${high * known.length + 6}`, style: `max-width:${width}px`, role: "img", "aria-label": "Predicted times and their intervals" },
    known.flatMap(([name, row], k) => {
      const [y, [low, top]] = [high * (k + 0.5) + 2, row.between_us];
      return [svg("text", { class: "axis", x: left - 8, y: y + 4, "text-anchor": "end" }, name), svg("line", { class: "grid", x1: left, x2: width - 70, y1: y, y2: y }), svg("line", { class: "between", x1: x(low), x2: x(top), y1: y, y2: y }),
        svg("circle", { class: "dot", cx: x(row.time_us), cy: y, r: 5 }), svg("text", { x: width - 64, y: y + 4 }, micro(row.time_us))];
    })), element("p", { class: "note", "data-interval": true }, `Dots are predictions, bars from ${micro(known.at(-1)[1].between_us[0])} to ${micro(known.at(-1)[1].between_us[1])} what they may be off by: ${known.at(-1)[1].sure.replace(/ take .*? cycles/, " lie in there")}.${apart}`)];
}

/** Time over a parameter, with the interval of each prediction. */
function curve(label, rows) {
  const [width, height, left, low] = [narrow() ? 360 : 640, 240, 60, 210];
  const most = Math.max(...rows.map((row) => row.between_us?.[1] ?? row.time_us)) * 1.05;
  const [first, last] = [Math.min(...rows.map((row) => row.value)), Math.max(...rows.map((row) => row.value))];
  const x = (value) => left + ((width - left - 30) * (value - first)) / Math.max(last - first, 1e-9);
  const y = (value) => low - ((low - 15) * value) / most;
  const ticks = [0, most / 2, most];
  const path = (points) => points.map((point, k) => `${k ? "L" : "M"}${point.map((each) => each.toFixed(1)).join()}`).join("");
  const sure = rows.filter((row) => row.between_us);
  return element("figure", {}, svg("svg", { viewBox: `0 0 ${width} ${height}`, style: `max-width:${width}px`, role: "img", "aria-label": `Time in microseconds over ${label}` },
    ticks.map((each) => svg("line", { class: "grid", x1: left, x2: width - 20, y1: y(each), y2: y(each) })),
    ticks.map((each) => svg("text", { class: "axis", x: left - 8, y: y(each) + 4, "text-anchor": "end" }, `${each.toFixed(1)} µs`)),
    sure.length ? svg("path", { class: "band", d: `${path([...sure.map((row) => [x(row.value), y(row.between_us[1])]), ...sure.toReversed().map((row) => [x(row.value), y(row.between_us[0])])])}Z` }) : null,
    svg("path", { class: "curve", d: path(rows.map((row) => [x(row.value), y(row.time_us)])) }),
    rows.map((row) => svg("circle", { class: "dot", cx: x(row.value), cy: y(row.time_us), r: 4 }, svg("title", {}, `${number(row.value)}: ${micro(row.time_us)}`))),
    rows.filter((_, k) => !narrow() || k % 2 === 0).map((row) => svg("text", { class: "axis", x: row.value === last ? width : x(row.value), y: low + 18, "text-anchor": row.value === last ? "end" : "middle" }, number(row.value)))),
    element("figcaption", { class: "note" }, `Predicted time over ${label}; the band is where 9 of 10 kernels of the kind lie.`));
}
