// Play: sliders, what the rules say at once, what the simulator says a moment later, what a GPU measured.
import { bitCount, count, element, lanesOf, ranges, svg } from "gpusim/format";
import * as rules from "gpusim/rules";

const TYPES = { 1: "unsigned char", 2: "unsigned short", 4: "float", 8: "float2", 16: "float4" };
const MOST_ROWS = 33;
const phone = matchMedia("(max-width: 40rem)");

/** Whether pictures are to be drawn for a narrow screen. */
export const narrow = () => phone.matches;

/** The play page. experiments: as the server gives them; predict: of an experiment and a place, a promise of the
 * simulator's answer, null where nobody can say; machine: the GPU that it is of; measured: cycles that a GPU took there,
 * by experiment and place, and which GPU; moved: called with the experiment's name and its place whenever one changes. */
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
  phone.addEventListener("change", () => pages.get(shown).draw());
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
  let lines = [];
  let known = null; // what the simulator has answered
  let awaited = false;
  let told = [[experiment.counted[0], "…", experiment.counted[3]]]; // its facts, which keep their place meanwhile

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
    for (const each of experiment.sliders) if (each.words.length) words[each.name] = each.words[place[each.name]];
    lines = experiment.code.map((line) => line.replace(/\{(\w+)\}/g, (_, name) => words[name]));
    code.replaceChildren(...lines.map((line, k) => element("span", { class: k === experiment.here ? "here" : "" }, line)));
    const number = (asked += 1);
    const wanted = predict?.(experiment.name, { ...place }) ?? null;
    known = null;
    awaited = wanted !== null;
    draw();
    root.dataset.state = wanted ? "waiting" : "ready";
    wanted?.then((answer) => {
      if (number !== asked) return;
      if (answer.late) { refresh(); return; } // an earlier question came to the server after this one
      known = answer;
      draw();
      root.dataset.state = "ready";
      root.dataset.cycles = answer.cycles;
    }, (error) => {
      if (number !== asked) return;
      verdict.textContent = String(error.message ?? error);
      root.dataset.state = "error";
    });
  }

  /** What there is to see; some experiments show nothing before the simulator has executed them. */
  function draw() {
    const shown = VIEWS[experiment.name](place, known, lines);
    if (!shown && picture.firstChild) return; // what was seen before stays until then
    if (shown) {
      picture.replaceChildren(shown.picture, legend(shown.legend));
      verdict.textContent = shown.verdict;
    }
    if (known) told = known.facts.map(([name, , note]) => [name, "…", note]);
    show([...(shown?.facts ?? []), ...(known?.facts ?? (awaited ? told : []))], known ? known.cycles : awaited ? "…" : null);
  }

  /** A recording stands beside a prediction of the GPU that it is of, and beside no other. */
  function show(rows, cycles) {
    const perRound = (value) => (experiment.rounds > 1 ? (value / experiment.rounds).toFixed(1) : count(value));
    const found = measured(experiment.name, place);
    const all = [...rows];
    if (cycles !== null) all.push([`Predicted cycles, ${machine()}`, typeof cycles === "string" ? cycles : perRound(cycles), experiment.unit]);
    if (found !== undefined && machine() !== measured.gpu) all.push(["Measured cycles", "none", `the recording is of an ${measured.gpu}: choose it as the GPU`]);
    else if (found === null) all.push([`Measured cycles, ${measured.gpu}`, "none", "not measured at this place"]);
    else if (found !== undefined) all.push([`Measured cycles, ${measured.gpu}`, perRound(found), cycles > 0 ? besides(cycles / found - 1) : experiment.unit]);
    facts.replaceChildren(...all.map(([name, value, note]) => element("div", { "data-fact": name },
      element("dt", {}, name), element("dd", {}, `${value}`), note ? element("small", {}, note) : null)));
  }

  const root = element("section", { class: "experiment", "data-experiment": experiment.name, "aria-label": experiment.title },
    element("div", { class: "about" }, element("h2", {}, experiment.title), element("p", {}, experiment.about)),
    element("div", { class: "sliders" }, sliders),
    element("div", { class: "seen" }, facts, verdict, picture), code);
  return { node: root, set, refresh, draw };
}

/** How far a prediction is from what was measured, in words. */
const besides = (off) => (Math.abs(off) < 5e-4 ? "as predicted" : `the prediction is ${Math.abs(100 * off).toFixed(1)} % ${off < 0 ? "below" : "above"}`);

/** What each colour of a picture means: [class, words]. */
const legend = (colours) => element("p", { class: "legend" }, colours.map(([name, words]) => element("span", {}, element("i", { class: `swatch ${name}` }), words)));

const VIEWS = {
  banks(place) {
    const found = rules.sharedLoad(rules.addressesOf.banks(place), place.width);
    const more = found.wavefronts - found.ideal;
    return {
      facts: [["Wavefronts of a warp's load", found.wavefronts, `${found.ideal} would do`]],
      verdict: more ? `Lanes meet in a bank: ${more} more wavefront${more === 1 ? "" : "s"} than its bytes need.` : "No bank conflict.",
      picture: bankMap(found),
      legend: [["good", "a wavefront that the bytes need anyway"], ["bad", "one more, because lanes meet in a bank"], ["", "a bank without work"], ...(narrow() ? [] : [["text", "numbers: the lane that is served; 3+: lane 3 and others"]])],
    };
  },
  sectors(place) {
    const found = rules.globalAccess(rules.addressesOf.sectors(place), place.width);
    const used = (100 * found.bytes) / (rules.SECTOR_BYTES * found.sectors);
    return {
      facts: [["Sectors of a warp's load", found.sectors, `${found.ideal} would do`], ["Lines of 128 bytes", found.requests, "tags looked up"],
        ["Bytes used", `${used.toFixed(0)} %`, "of what is moved"]],
      verdict: found.sectors > found.ideal ? `${found.bytes} bytes are wanted, ${found.sectors * 32} are moved.` : "Every byte that is moved is used.",
      picture: sectorMap(found, rules.addressesOf.sectors(place), place.width),
      legend: [["good", "a sector of which every byte is used"], ["bad", "a sector of which a part is moved in vain"], ["", "a sector that stays where it is"], ["text", "numbers: the lanes that read it"]],
    };
  },
  steps(place, answer, lines) {
    if (!answer) return null;
    const issued = answer.steps.reduce((sum, [, , instructions]) => sum + instructions, 0);
    const used = answer.steps.reduce((sum, [, mask, instructions]) => sum + instructions * bitCount(mask), 0);
    const sides = answer.steps.filter(([line]) => line === 2 || line === 4).map(([, mask]) => bitCount(mask));
    return {
      facts: [["Instructions issued", issued, "for these lines"], ["Lanes at work in the mean", (used / issued).toFixed(1), "of 32"]],
      verdict: `${sides.length > 1 ? `The if parts the warp: ${sides[0]} lanes go one side, then ${sides[1]} the other.` : "All lanes go the same side, so that the other one is not executed."} ${Math.round(100 * (1 - used / issued / 32))} % of the lanes' places stay empty.`,
      picture: stepGrid(answer.steps, lines),
      legend: [["good", "a lane that executes the step"], ["idle", "a lane that waits meanwhile"], ["text", "the taller a step, the more instructions; the number says how many"]],
    };
  },
  ways(place) {
    const cost = rules.divergenceCost(place, 0);
    return {
      facts: [["Ways that warp 0 goes", cost.ways, `of ${place.ways}`], ["Lanes at work in the mean", cost.lanes.toFixed(1), "of 32"],
        ["Rounds that warp 0 issues", count(cost.issued), "one way after the other"]],
      verdict: cost.ways > 1 ? `Warp 0 diverges: its ${cost.ways} ways take turns.` : "No warp diverges: all its lanes go one way.",
      picture: treePicture(rules.divergenceTree(place, 0)),
      legend: [["bad", cost.ways > 1 ? "a branch that parts the warp, and the ways that take turns; the taller, the more rounds" : "a branch that parts the warp"], ...(cost.ways > 1 ? [] : [["good", "the one way of all lanes; the taller, the more rounds"]]), ["joint", "a branch at which all lanes stay together"], ["text", "numbers: the lanes that go a way"]],
    };
  },
  pixels(place) {
    const shape = rules.blockShape(place, 256, 64);
    return {
      facts: [["Threads of a block", count(shape.threads), `${count(shape.blocks)} blocks`], ["Warps of a block", shape.warps, shape.active < 32 ? `${shape.active} of 32 lanes at work` : "full"],
        ["Sectors of warp 0's load", shape.access.sectors, `${shape.access.ideal} would do`]],
      verdict: shape.active < 32 ? "A warp has 32 lanes, and this block does not fill one." : shape.access.sectors > 4 ? "A warp is spread over several rows." : "A warp reads 128 bytes in a row.",
      picture: shapePicture(place, shape),
      legend: [["good", "pixels of the first warp"], ["block", "other warps of its block"], ["", "other blocks"], ["text", "the corner of the image"]],
    };
  },
};

/** A picture as wide as its place, and no wider than it was drawn for. */
const box = (width, height, label, parts) => svg("svg", { viewBox: `0 0 ${width} ${height}`, style: `max-width:${Math.max(width, 840)}px`, role: "img", "aria-label": label }, parts);

function bankMap(found) {
  const rows = found.rows.slice(0, MOST_ROWS);
  const [cellWide, high, left, every] = narrow() ? [10, 13, 32, 4] : [26, 22, 58, 1];
  const width = left + cellWide * rules.BANKS + 4;
  const parts = [svg("text", { class: "axis", x: left - 6, y: high - 4, "text-anchor": "end" }, "bank")];
  for (let bank = 0; bank < rules.BANKS; bank += every) parts.push(svg("text", { class: "axis", x: left + cellWide * (bank + 0.5), y: high - 4, "text-anchor": "middle" }, `${bank}`));
  rows.forEach((row, k) => {
    const y = high * (k + 1);
    parts.push(svg("text", { class: "axis", x: left - 6, y: y + high - (narrow() ? 3 : 7), "text-anchor": "end" }, narrow() ? `${k + 1}` : `wave ${k + 1}`));
    for (let bank = 0; bank < rules.BANKS; bank += 1) {
      const cell = row.get(bank);
      parts.push(svg("rect", { class: cell ? `cell ${k < found.ideal ? "good" : "bad"}` : "cell", x: left + cellWide * bank + 1, y: y + 1, width: cellWide - 2, height: high - 2, rx: 2 },
        cell ? svg("title", {}, `lane${cell.lanes.length > 1 ? "s" : ""} ${ranges(cell.lanes)}: word ${cell.word}, bank ${bank}`) : null));
      if (cell && !narrow()) parts.push(svg("text", { class: "lane", x: left + cellWide * (bank + 0.5), y: y + 15, "text-anchor": "middle" }, cell.lanes.length > 1 ? `${cell.lanes[0]}+` : `${cell.lanes[0]}`));
    }
  });
  return box(width, high * (rows.length + 1) + 4, `Which lanes each of ${found.wavefronts} wavefronts serves, by bank`, parts);
}

function sectorMap(found, addresses, bytes) {
  const lines = [...found.lines].slice(0, MOST_ROWS);
  const [wide, high, left] = narrow() ? [80, 20, 40] : [140, 22, 90];
  const used = new Map();
  for (const address of addresses) for (let k = address; k < address + bytes; k += 1) used.set(Math.floor(k / rules.SECTOR_BYTES), (used.get(Math.floor(k / rules.SECTOR_BYTES)) ?? new Set()).add(k));
  const parts = [0, 1, 2, 3].map((k) => svg("text", { class: "axis", x: left + wide * (k + 0.5), y: 15, "text-anchor": "middle" }, `sector ${k}`));
  parts.push(svg("text", { class: "axis", x: left - 10, y: 15, "text-anchor": "end" }, "line"));
  lines.forEach(([line, own], row) => {
    const y = high * (row + 1);
    parts.push(svg("text", { class: "axis", x: left - 10, y: y + 15, "text-anchor": "end" }, `${line}`));
    for (let k = 0; k < 4; k += 1) {
      const lanes = own.get(4 * line + k);
      const full = used.get(4 * line + k)?.size === rules.SECTOR_BYTES;
      parts.push(svg("rect", { class: lanes ? `cell ${full ? "good" : "bad"}` : "cell", x: left + wide * k + 1, y: y + 1, width: wide - 2, height: high - 2, rx: 2 }, lanes ? svg("title", {}, `lanes ${ranges(lanes)}: ${used.get(4 * line + k).size} of its 32 bytes`) : null));
      if (lanes) parts.push(svg("text", { class: "lane", x: left + wide * (k + 0.5), y: y + 15, "text-anchor": "middle" }, ranges(lanes)));
    }
  });
  return box(left + 4 * wide + 4, high * (lines.length + 1) + 4, `Which lanes touch each of ${found.sectors} sectors`, parts);
}

/** Steps of a warp from the first down, lanes from left to right, by the line of the source that they are of. */
function stepGrid(steps, lines) {
  const groups = [];
  for (const step of steps) {
    if (groups.at(-1)?.line !== step[0]) groups.push({ line: step[0], steps: [] });
    groups.at(-1).steps.push(step);
  }
  const row = (cells, last, attributes) => element("div", { class: "step", ...attributes }, cells, element("span", {}, last));
  const numbers = Array.from({ length: rules.LANES }, (_, lane) => element("b", {}, lane % (narrow() ? 8 : 4) === 0 || lane === 31 ? `${lane}` : ""));
  return element("div", { class: "steps" }, element("div", { class: "line" }, element("span", {}, "lane"), row(numbers, "")),
    groups.map((group) => element("div", { class: "line", "data-line": group.line }, element("code", {}, lines[group.line].trim().replace(/ +\/\/.*/, "")),
      element("div", {}, group.steps.map(([, mask, instructions]) => {
        const said = `lanes ${ranges(lanesOf(mask))} execute ${instructions} instruction${instructions > 1 ? "s" : ""}`;
        return row(Array.from({ length: rules.LANES }, (_, lane) => element("i", { class: (mask >>> lane) & 1 ? "good" : "idle" })), `${instructions}`,
          { style: `min-height:${Math.max(12, 4 * instructions)}px`, "data-mask": mask, title: said, role: "img", "aria-label": said });
      })))));
}

function treePicture(tree) {
  const leaves = rules.leavesOf(tree);
  const most = Math.max(...leaves.map((leaf) => leaf.rounds));
  const wide = narrow() ? 360 / leaves.length : Math.max(720 / leaves.length, 24);
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
