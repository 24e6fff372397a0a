// A machine with other parameters: what it costs, how fast a program is on it, and a sweep of one parameter.
import { count, element, joules, svg } from "gpusim/format";

const number = (value) => (Number.isInteger(value) ? count(value) : value.toFixed(1));

export function explore({ programs, ask, gpu }) {
  const factors = {};
  const sliders = element("div", { class: "sliders" });
  const facts = element("dl", { class: "facts", "aria-live": "polite" });
  const say = element("p", { class: "verdict" });
  const program = element("select", { "aria-label": "Program", onchange: () => refresh() }, programs.map((name) => element("option", { value: name }, name)));
  const axis = element("select", { "aria-label": "Parameter to sweep" });
  const sweepButton = element("button", { type: "button", "data-sweep": true, onclick: () => sweep() }, "Sweep it");
  const table = element("div", {});
  let known = null;
  let shown = null;
  let asked = 0;

  async function get(changes) {
    const answer = await ask("machine", { gpu: gpu(), changes, program: program.value });
    if (answer.error !== undefined) throw new Error(answer.error);
    return answer;
  }

  async function refresh() {
    const own = (asked += 1);
    if (shown !== gpu()) {
      shown = gpu();
      known = null;
      for (const key of Object.keys(factors)) delete factors[key];
    }
    say.textContent = "Runs …";
    try {
      const base = await get({});
      if (own !== asked) return;
      if (!known) draw(base.parameters);
      const answer = Object.values(factors).some((each) => each !== 1) ? await get({ ...factors }) : base;
      if (own !== asked) return;
      const change = (name) => `${answer.is[name] === base.is[name] ? "as shipped" : `${(100 * (answer.is[name] / base.is[name] - 1)).toFixed(1).replace(/^(?=\d)/, "+")} %`}`;
      facts.replaceChildren(...[["Time", `${answer.is.time_us.toFixed(2)} µs`, "time_us"], ["Energy", joules(answer.is.energy_j), "energy_j"], ["Area of the die", `${answer.is.area_mm2.toFixed(0)} mm²`, "area_mm2"], ["Power", `${answer.is.power_w.toFixed(0)} W`, "power_w"]]
        .map(([name, value, key]) => element("div", { "data-fact": name }, element("dt", {}, name), element("dd", {}, value), element("small", {}, change(key)))));
      say.textContent = answer.is.limiter;
    } catch (error) {
      if (own === asked) say.textContent = String(error.message ?? error);
    }
  }

  function draw(parameters) {
    known = parameters;
    axis.replaceChildren(...parameters.map((each) => element("option", { value: each.key }, each.label)));
    sliders.replaceChildren(...parameters.map((each) => {
      const output = element("output", {}, number(each.values[each.factors.indexOf(1)]));
      return element("label", { class: "slider" }, element("span", {}, each.label), output, element("input", {
        type: "range", min: 0, max: each.factors.length - 1, value: each.factors.indexOf(1), "data-key": each.key,
        oninput: (event) => { const at = Number(event.target.value); factors[each.key] = each.factors[at]; output.textContent = number(each.values[at]); },
        onchange: () => refresh(),
      }));
    }));
  }

  async function sweep() {
    const chosen = known?.find((each) => each.key === axis.value);
    if (!chosen) return;
    sweepButton.disabled = true;
    const rows = [];
    for (let k = 0; k < chosen.factors.length; k += 1) {
      table.replaceChildren(element("p", { class: "note" }, `${k + 1} of ${chosen.factors.length} …`));
      try {
        const answer = await get({ ...factors, [chosen.key]: chosen.factors[k] });
        rows.push([chosen.values[k], answer.is.time_us, answer.is.energy_j, answer.is.area_mm2, answer.is.power_w, ""]);
      } catch (error) {
        rows.push([chosen.values[k], NaN, NaN, NaN, NaN, String(error.message ?? error)]);
      }
    }
    table.replaceChildren(curve(chosen.label, rows.filter((row) => row[1] > 0)), element("div", { class: "wide" }, element("table", {},
      element("thead", {}, element("tr", {}, [chosen.label, "time, µs", "energy", "area, mm²", "power, W", ""].map((name) => element("th", {}, name)))),
      element("tbody", {}, rows.map(([value, time, energy, area, power, note]) => element("tr", {}, element("td", {}, number(value)), [[time, (each) => each.toFixed(2)], [energy, joules], [area, count], [power, count]].map(([each, spell]) => element("td", {}, each > 0 ? spell(each) : "")), element("td", {}, note)))))));
    sweepButton.disabled = false;
  }

  const node = element("div", {}, element("div", { class: "bar" }, program, axis, sweepButton),
    element("div", { class: "experiment" }, element("div", { class: "about" }, element("h2", {}, "A machine of your own"), element("p", {}, "Move what a GPU consists of, and see what it costs and what it brings. Area and power are a first-order model of the machine under a fixed load; energy is what this run takes.")), sliders, element("div", {}, facts, say, table)));
  return { node, refresh };
}

/** Time over a parameter. */
function curve(label, rows) {
  const [width, height, left, low] = [640, 240, 60, 210];
  const most = Math.max(...rows.map((row) => row[1])) * 1.1;
  const [first, last] = [Math.min(...rows.map((row) => row[0])), Math.max(...rows.map((row) => row[0]))];
  const x = (value) => left + ((width - left - 30) * (value - first)) / Math.max(last - first, 1e-9);
  const y = (value) => low - ((low - 15) * value) / most;
  const ticks = [0, most / 2, most];
  return element("div", { class: "wide" }, svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Time in microseconds over ${label}` },
    ticks.map((each) => svg("line", { class: "grid", x1: left, x2: width - 20, y1: y(each), y2: y(each) })),
    ticks.map((each) => svg("text", { class: "axis", x: left - 8, y: y(each) + 4, "text-anchor": "end" }, `${each.toFixed(1)} µs`)),
    svg("path", { class: "curve", d: rows.map((row, k) => `${k ? "L" : "M"}${x(row[0]).toFixed(1)},${y(row[1]).toFixed(1)}`).join("") }),
    rows.map((row) => svg("circle", { class: "dot", cx: x(row[0]), cy: y(row[1]), r: 4 }, svg("title", {}, `${number(row[0])}: ${row[1].toFixed(2)} µs`))),
    rows.map((row) => svg("text", { class: "axis", x: x(row[0]), y: low + 18, "text-anchor": "middle" }, number(row[0])))));
}
