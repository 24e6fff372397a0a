// Play: sliders, what the rules say at once, what the simulator says a moment later, what a GPU measured.
import { count, element, ranges, svg } from "gpusim/format";
import * as rules from "gpusim/rules";

const TYPES = { 1: "unsigned char", 2: "unsigned short", 4: "float", 8: "float2", 16: "float4" };
const CELL = 26;
const ROW = 22;
const LEFT = 58;
const MOST_ROWS = 33;

/** The play page. experiments: as the server gives them; predict: of an experiment and a place, a promise of the
 * simulator's answer, null without a server; measured: cycles that a GPU took there, by experiment and place; moved:
 * called with the experiment's name and its place whenever one of them changes. */
export function play({ experiments, predict, measured, machine, moved = () => {} }) {
  const tabs = element("div", { class: "choices", role: "tablist", "aria-label": "Experiments" });
  const stage = element("div", { class: "stage" });
  const pages = new Map();
  let shown = experiments[0].name;
  /** Shows an experiment. place: where its sliders are to be, by name; what is no place of a slider is passed over. */
  function open(name, place = {}) {
    shown = name;
    if (!pages.has(name)) pages.set(name, experimentPage(experiments.find((each) => each.name === name), { predict, measured, machine, moved }));
    pages.get(name).set(place);
    stage.replaceChildren(pages.get(name).node);
    for (const tab of tabs.children) tab.setAttribute("aria-selected", tab.dataset.name === name ? "true" : "false");
    pages.get(name).refresh();
  }
  tabs.append(...experiments.map((each) =>
    element("button", { type: "button", role: "tab", "data-name": each.name, onclick: () => open(each.name) }, each.title)));
  open(shown);
  return { node: element("div", {}, tabs, stage), open, refresh: () => pages.get(shown).refresh() };
}

function experimentPage(experiment, { predict, measured, machine, moved }) {
  const place = Object.fromEntries(experiment.sliders.map((each) => [each.name, each.start]));
  const outputs = new Map();
  const picture = element("div", { class: "picture" });
  const facts = element("dl", { class: "facts", "aria-live": "polite" });
  const code = element("pre", { class: "code", "aria-label": "The line that makes it" });
  const verdict = element("p", { class: "verdict" });
  let asked = 0;

  const sliders = experiment.sliders.map((slider) => {
    const output = element("output", {});
    outputs.set(slider.name, output);
    const input = element("input", {
      type: "range", min: 0, max: slider.values.length - 1, step: 1, value: slider.values.indexOf(slider.start), id: `${experiment.name}-${slider.name}`, "data-slider": slider.name,
      oninput: (event) => { place[slider.name] = slider.values[Number(event.target.value)]; fit(slider.name); refresh(); },
    });
    slider.input = input;
    return element("label", { class: "slider", for: input.id }, element("span", {}, slider.label), output, input);
  });

  /** A block has 1,024 threads at most: the other side gives way. */
  function fit(moved) {
    if (experiment.name !== "pixels") return;
    const other = moved === "x" ? "y" : "x";
    while (place.x * place.y > 1024) place[other] /= 2;
    const slider = experiment.sliders.find((each) => each.name === other);
    slider.input.value = slider.values.indexOf(place[other]);
  }

  function set(wanted) {
    for (const { name, values, input } of experiment.sliders) {
      if (!values.includes(Number(wanted[name] ?? NaN))) continue;
      place[name] = Number(wanted[name]);
      input.value = values.indexOf(place[name]);
    }
    fit("x");
  }

  function refresh() {
    moved(experiment.name, place);
    for (const slider of experiment.sliders) {
      const at = slider.values.indexOf(place[slider.name]);
      const text = slider.words.length ? slider.words[at] : count(place[slider.name]);
      outputs.get(slider.name).textContent = text;
      slider.input.setAttribute("aria-valuetext", text);
    }
    const words = { ...place, type: TYPES[place.width] };
    if ("pattern" in place) words.pattern = experiment.sliders[0].words[place.pattern];
    code.replaceChildren(...experiment.code.map((line, k) => element("span", { class: k === experiment.here ? "here" : "" },
      `${line.replace(/\{(\w+)\}/g, (_, name) => words[name])}`)));
    const shown = VIEWS[experiment.name](place);
    picture.replaceChildren(shown.picture);
    verdict.textContent = shown.verdict;
    const number = (asked += 1);
    show(shown.facts, measured(experiment.name, place), predict ? "…" : null);
    root.dataset.state = predict ? "waiting" : "ready";
    if (!predict) return;
    predict(experiment.name, { ...place }).then((answer) => {
      if (number !== asked) return;
      show([...shown.facts, ...answer.facts], measured(experiment.name, place), answer.cycles);
      root.dataset.state = "ready";
      root.dataset.cycles = answer.cycles;
    }, (error) => {
      if (number !== asked) return;
      verdict.textContent = String(error.message ?? error);
      root.dataset.state = "error";
    });
  }

  function show(rows, gpu, cycles) {
    const perRound = (value) => (experiment.rounds > 1 ? (value / experiment.rounds).toFixed(1) : count(value));
    const all = [...rows];
    if (cycles !== null) all.push([`Predicted cycles${machine() ? `, ${machine()}` : ""}`, typeof cycles === "string" ? cycles : perRound(cycles), experiment.unit]);
    all.push([`Measured cycles, ${measured.gpu.replace(/^NVIDIA (\w+).*$/, "$1")}`, gpu === null ? "not measured here" : perRound(gpu), experiment.unit]);
    facts.replaceChildren(...all.map(([name, value, note]) => element("div", { "data-fact": name },
      element("dt", {}, name), element("dd", {}, `${value}`), note ? element("small", {}, note) : null)));
  }

  const root = element("section", { class: "experiment", "data-experiment": experiment.name, "aria-label": experiment.title },
    element("div", { class: "about" }, element("h2", {}, experiment.title), element("p", {}, experiment.about)),
    element("div", { class: "sliders" }, sliders, code),
    element("div", { class: "seen" }, facts, verdict, picture));
  return { node: root, set, refresh };
}

const VIEWS = {
  banks(place) {
    const found = rules.sharedLoad(rules.addressesOf.banks(place), place.width);
    const more = found.wavefronts - found.ideal;
    return {
      facts: [["Wavefronts of a warp's load", found.wavefronts, `${found.ideal} would do`]],
      verdict: more ? `Lanes meet in a bank: ${more} more wavefront${more === 1 ? "" : "s"} than its bytes need.` : "No bank conflict.",
      picture: bankMap(found),
    };
  },
  sectors(place) {
    const found = rules.globalAccess(rules.addressesOf.sectors(place), place.width);
    const used = (100 * found.bytes) / (rules.SECTOR_BYTES * found.sectors);
    return {
      facts: [["Sectors of a warp's load", found.sectors, `${found.ideal} would do`], ["Lines of 128 bytes", found.requests, "tags looked up"],
        ["Bytes used", `${used.toFixed(0)} %`, "of what is moved"]],
      verdict: found.sectors > found.ideal ? `${found.bytes} bytes are wanted, ${found.sectors * 32} are moved.` : "Every byte that is moved is used.",
      picture: sectorMap(found),
    };
  },
  ways(place) {
    const cost = rules.divergenceCost(place, 0);
    return {
      facts: [["Ways that warp 0 goes", cost.ways, `of ${place.ways}`], ["Lanes at work in the mean", cost.lanes.toFixed(1), "of 32"],
        ["Rounds that warp 0 issues", count(cost.issued), "one way after the other"]],
      verdict: cost.ways > 1 ? `Warp 0 diverges: its ${cost.ways} ways take turns.` : "No warp diverges: all its lanes go one way.",
      picture: treePicture(rules.divergenceTree(place, 0)),
    };
  },
  pixels(place) {
    const shape = rules.blockShape(place, 256, 64);
    return {
      facts: [["Threads of a block", count(shape.threads), `${count(shape.blocks)} blocks`], ["Warps of a block", shape.warps, shape.active < 32 ? `${shape.active} of 32 lanes at work` : "full"],
        ["Sectors of warp 0's load", shape.access.sectors, `${shape.access.ideal} would do`]],
      verdict: shape.active < 32 ? "A warp has 32 lanes, and this block does not fill one." : shape.access.sectors > 4 ? "A warp is spread over several rows." : "A warp reads 128 bytes in a row.",
      picture: shapePicture(place, shape),
    };
  },
};

const box = (width, height, label, parts) => element("div", { class: "wide", tabindex: "0", role: "group", "aria-label": label },
  svg("svg", { viewBox: `0 0 ${width} ${height}`, style: `min-width:${Math.min(width, 640)}px`, role: "img", "aria-label": label }, parts));

function bankMap(found) {
  const rows = found.rows.slice(0, MOST_ROWS);
  const width = LEFT + CELL * rules.BANKS + 4;
  const parts = [svg("text", { class: "axis", x: LEFT - 8, y: 15, "text-anchor": "end" }, "bank")];
  for (let bank = 0; bank < rules.BANKS; bank += 1) parts.push(svg("text", { class: "axis", x: LEFT + CELL * (bank + 0.5), y: 15, "text-anchor": "middle" }, `${bank}`));
  rows.forEach((row, k) => {
    const y = ROW * (k + 1);
    parts.push(svg("text", { class: "axis", x: LEFT - 8, y: y + 15, "text-anchor": "end" }, `wave ${k + 1}`));
    for (let bank = 0; bank < rules.BANKS; bank += 1) {
      const cell = row.get(bank);
      parts.push(svg("rect", { class: cell ? `cell ${k < found.ideal ? "good" : "bad"}` : "cell", x: LEFT + CELL * bank + 1, y: y + 1, width: CELL - 2, height: ROW - 2, rx: 2 },
        cell ? svg("title", {}, `lane${cell.lanes.length > 1 ? "s" : ""} ${ranges(cell.lanes)}: word ${cell.word}, bank ${bank}`) : null));
      if (cell) parts.push(svg("text", { class: "lane", x: LEFT + CELL * (bank + 0.5), y: y + 15, "text-anchor": "middle" }, cell.lanes.length > 1 ? `${cell.lanes[0]}+` : `${cell.lanes[0]}`));
    }
  });
  return box(width, ROW * (rows.length + 1) + 4, `Which lanes each of ${found.wavefronts} wavefronts serves, by bank`, parts);
}

function sectorMap(found) {
  const lines = [...found.lines].slice(0, MOST_ROWS);
  const wide = 140;
  const parts = [0, 1, 2, 3].map((k) => svg("text", { class: "axis", x: 90 + wide * (k + 0.5), y: 15, "text-anchor": "middle" }, `sector ${k}`));
  parts.push(svg("text", { class: "axis", x: 80, y: 15, "text-anchor": "end" }, "line"));
  lines.forEach(([line, own], row) => {
    const y = ROW * (row + 1);
    parts.push(svg("text", { class: "axis", x: 80, y: y + 15, "text-anchor": "end" }, `${line}`));
    for (let k = 0; k < 4; k += 1) {
      const lanes = own.get(4 * line + k);
      parts.push(svg("rect", { class: lanes ? "cell good" : "cell", x: 90 + wide * k + 1, y: y + 1, width: wide - 2, height: ROW - 2, rx: 2 }, lanes ? svg("title", {}, `lanes ${ranges(lanes)}`) : null));
      if (lanes) parts.push(svg("text", { class: "lane", x: 90 + wide * (k + 0.5), y: y + 15, "text-anchor": "middle" }, ranges(lanes)));
    }
  });
  return box(90 + 4 * wide + 4, ROW * (lines.length + 1) + 4, `Which lanes touch each of ${found.sectors} sectors`, parts);
}

function treePicture(tree) {
  const leaves = rules.leavesOf(tree);
  const most = Math.max(...leaves.map((leaf) => leaf.rounds));
  const wide = Math.max(720 / leaves.length, 24);
  const parts = [];
  let next = 0;
  function draw(node, depth) {
    const y = 22 + 34 * depth;
    if (!node.sides) {
      const x = wide * (next + 0.5);
      next += 1;
      const height = 8 + (60 * node.rounds) / most;
      parts.push(svg("rect", { class: `cell ${leaves.length > 1 ? "bad" : "good"}`, x: x - wide * 0.4, y: y, width: wide * 0.8, height, rx: 3 }, svg("title", {}, `way ${node.way}: lanes ${ranges(node.lanes)}, ${node.rounds} rounds`)));
      parts.push(svg("text", { class: "axis", x, y: y + height + 15, "text-anchor": "middle" }, `${node.lanes.length}`));
      return x;
    }
    const xs = node.sides.map((side) => draw(side, depth + 1));
    const x = xs.reduce((sum, each) => sum + each, 0) / xs.length;
    xs.forEach((each) => parts.push(svg("line", { class: "branch", x1: x, y1: y, x2: each, y2: y + 34 })));
    parts.push(svg("circle", { class: node.sides.length > 1 ? "split" : "joint", cx: x, cy: y, r: node.sides.length > 1 ? 8 : 4 }, svg("title", {}, node.sides.length > 1 ? `lanes ${ranges(node.lanes)} part` : `lanes ${ranges(node.lanes)} stay together`)));
    return x;
  }
  draw(tree, 0);
  return box(Math.max(wide * leaves.length, 120), 300, `${leaves.length} ways of warp 0, with their lanes; the height of a leaf is its rounds`, parts);
}

function shapePicture({ x, y }, shape) {
  const columns = Math.min(Math.max(x, 32), 64);
  const rows = Math.min(Math.max(y, 8), 32);
  const cell = 11;
  const lanes = new Map(shape.places.flatMap((place, lane) => (place ? [[`${place[0]},${place[1]}`, lane]] : [])));
  const parts = [];
  for (let row = 0; row < rows; row += 1) {
    for (let column = 0; column < columns; column += 1) {
      const lane = lanes.get(`${column},${row}`);
      const inside = column < x && row < y;
      parts.push(svg("rect", { class: lane !== undefined ? "cell good" : inside ? "cell block" : "cell", x: cell * column + 1, y: cell * row + 1, width: cell - 1.5, height: cell - 1.5 },
        lane !== undefined ? svg("title", {}, `lane ${lane}: pixel (${column}, ${row})`) : null));
    }
  }
  return box(cell * columns + 2, cell * rows + 2, "The corner of the image: pixels of the first block, and in it of warp 0", parts);
}
