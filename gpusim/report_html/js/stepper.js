// The warp stepper: one warp, instruction by instruction, with its 32 lanes, what they address and what they hold.
import { globalMap, leastSectors, sharedMap } from "gpusim/access";
import { bitCount, count, element, hexadecimal, lanesOf, plural, ranges } from "gpusim/format";
import { registers } from "gpusim/registers";

const SPACES = ["", "global", "shared", "local", "constant"];
const SPEEDS = [[1, "1 step/s"], [4, "4 steps/s"], [15, "15 steps/s"], [60, "60 steps/s"]];
const CONTEXT = 3;
const OVERVIEW_COLUMNS = 1000;
const LANE_HEIGHT = 2;
const WAIT_HEIGHT = 20;
const HEIGHT = 32 * LANE_HEIGHT + 2 + WAIT_HEIGHT;
const LONG_WAIT = 1000; // cycles that fill the height of the waits, which is logarithmic
const NAMES = { executed: "executes", off: "active, its guard is false", waiting: "waits for its turn", ended: "has ended" };
const MEETING = /^(?:@!?U?P\d+\s+)?(BSYNC|WARPSYNC|BAR)/;
const SIGNS = { executed: "●", off: "◐", waiting: "○", ended: "×" };

const KINDS = [
  { key: "d", name: "divergent", noun: "divergent branch", holds: (trace, warp, step) => warp.parted.includes(step) },
  { key: "b", name: "conflict", noun: "bank conflict", holds: (trace, { access }, step) => Boolean(access[step]) && access[step][5] > access[step][6] },
  {
    key: "u", name: "uncoalesced", noun: "uncoalesced access",
    holds: (trace, { access }, step) => Boolean(access[step]) && SPACES[access[step][0]] === "global" && access[step][4] >= 0 && access[step][7] > leastSectors(trace, access[step]),
  },
];

/** [number of the warp, step] of all steps of each kind, in order. */
export function stepsOfKinds(trace) {
  return new Map(KINDS.map(({ name, holds }) => [name, trace.warps.flatMap((warp, number) => warp.pc.flatMap((_, step) => (holds(trace, warp, step) ? [[number, step]] : [])))]));
}

/** Draws into `root` what `gpusim.report_html.steps` makes, `data.trace`: nothing if it is null.
 * `data`: {trace, instructions, source, stalls}. `showLine(file, line)` shows a line elsewhere. `prefix`: of ids, where a
 * page has several. */
export function stepper(root, data, showLine, prefix = "") {
  const { trace } = data;
  if (!trace) return { go() {}, goTo() {}, goToDearest() {}, stepsTo: () => null };
  const state = { warp: 0, step: 0, lane: 0, timer: null, speed: 4 };
  const kinds = stepsOfKinds(trace);
  const warp = () => trace.warps[state.warp];
  const steps = () => warp().pc.length;
  const maskAt = (step, kind) => trace.masks[warp()[kind][step]];

  const slider = element("input", { type: "range", min: 0, value: 0, step: 1, id: `${prefix}step`, "aria-label": "Step", oninput: (event) => go(Number(event.target.value)) });
  const position = element("output", { for: `${prefix}step`, class: "position" });
  const playButton = element("button", { type: "button", class: "play", onclick: () => play(!state.timer) });
  const button = (name, label, sign, target) => element("button", { type: "button", class: name, "aria-label": label, title: label, onclick: () => go(target()) }, sign);
  const select = element("select", { id: `${prefix}warp`, onchange: (event) => { state.warp = Number(event.target.value); drawOverview(); go(0); } },
    trace.warps.map((each, k) => element("option", { value: k }, `${each.label} (${plural(each.total, "instruction")})`)));
  const speed = element("select", { id: `${prefix}speed`, "aria-label": "Speed", onchange: (event) => { state.speed = Number(event.target.value); if (state.timer) { play(false); play(true); } } },
    SPEEDS.map(([value, text]) => element("option", { value, selected: value === state.speed }, text)));
  const canvas = element("canvas", { width: OVERVIEW_COLUMNS, height: HEIGHT, "aria-hidden": "true" });
  const head = element("span", { class: "head" });
  const overview = element("div", { class: "overview", "aria-hidden": "true", onpointerdown: scrub, onpointermove: (event) => { if (event.buttons) scrub(event); } }, canvas, head);
  const instruction = element("p", { class: "instruction" });
  const sourceLines = element("pre", { class: "around" });
  const lanes = element("ol", { class: "lanes", "aria-label": "Lanes" });
  const story = element("ul", { class: "story", "aria-live": "polite" });
  const access = element("div");
  const held = element("div", { class: "held" });
  const jumps = element("div", { class: "controls jumps", role: "group", "aria-label": "Next step of a kind" }, element("span", {}, "Next "),
    KINDS.map(({ key, name, noun }) => element("button", {
      type: "button", class: name, disabled: !kinds.get(name).length, title: `${kinds.get(name).length ? "The next" : "There is no"} ${noun} (${key}; back with shift)`, onclick: () => jump(name, 1),
    }, `${noun} (${count(kinds.get(name).length)})`)));

  /** The next step of a kind, or the one before: of this warp, then of the others, then from the start. */
  function jump(name, way) {
    const all = kinds.get(name);
    if (!all.length) return;
    const after = ([number, step]) => number - state.warp || step - state.step;
    const found = way > 0 ? all.find((each) => after(each) > 0) ?? all[0] : all.findLast((each) => after(each) < 0) ?? all.at(-1);
    choose(found[0], found[1]);
  }

  function pick(lane) {
    state.lane = lane;
    draw();
  }

  function scrub(event) {
    const box = overview.getBoundingClientRect();
    go(Math.floor(((event.clientX - box.left) / box.width) * steps()));
  }

  function play(on) {
    clearInterval(state.timer);
    state.timer = on ? setInterval(() => {
      if (state.step + 1 >= steps()) play(false);
      else go(state.step + 1);
    }, 1000 / state.speed) : null;
    playButton.textContent = on ? "❚❚ Pause" : "▶ Play";
    playButton.setAttribute("aria-label", on ? "Pause (space)" : "Play (space)");
    story.setAttribute("aria-live", on ? "off" : "polite");
  }

  function go(step) {
    state.step = Math.min(Math.max(step, 0), steps() - 1);
    draw();
  }

  /** The first execution of an instruction, of the warp at hand if it has one. */
  function goTo(pc) {
    const order = [state.warp, ...trace.warps.keys()];
    const found = order.find((k) => trace.warps[k].pc.includes(pc));
    if (found !== undefined) show(found, trace.warps[found].pc.indexOf(pc));
  }

  /** The dearest step of some instructions: most excessive wavefronts, then most sectors, then the first. */
  function goToDearest(pcs) {
    let best = null;
    trace.warps.forEach(({ pc, access }, number) => pc.forEach((each, step) => {
      if (!pcs.has(each)) return;
      const it = access[step];
      const price = it ? (it[5] - it[6]) * 1000 + it[7] + 1 : 0;
      if (!best || price > best.price) best = { number, step, price };
    }));
    if (best) show(best.number, best.step);
  }

  function choose(number, step) {
    if (number !== state.warp) {
      state.warp = number;
      select.value = number;
      drawOverview();
    }
    go(step);
  }

  /** What shows a warp's first issue from a cycle on; null if the trace does not hold it. */
  function stepsTo(number, cycle) {
    const found = trace.warps.findIndex((each) => each.warp === number);
    const step = found < 0 ? -1 : trace.warps[found].cycle.findIndex((each) => each >= cycle);
    return step < 0 ? null : () => show(found, step);
  }

  function show(number, step) {
    choose(number, step);
    root.scrollIntoView({ block: "start", behavior: "instant" });
    root.focus({ preventScroll: true });
  }

  const lineOf = (pc) => {
    const [, , file, line] = data.code[pc];
    return file >= 0 && line ? { file, line } : null;
  };
  const placeOf = (pc) => (lineOf(pc) ? `line ${lineOf(pc).line}` : hexadecimal(data.code[pc][0]));

  /** The next step in which a lane is active, -1 if there is none. */
  function nextOf(lane) {
    for (let k = state.step + 1; k < steps(); k += 1) if ((maskAt(k, "active") >>> lane) & 1) return k;
    return -1;
  }

  /** Where a lane waits that issues again in a step: at the barrier that it has come to, or at the instruction whose turn
   * has not come. */
  function waitingAt(lane, next) {
    let last = state.step - 1;
    while (last >= 0 && !((maskAt(last, "active") >>> lane) & 1)) last -= 1;
    const met = last < 0 ? null : MEETING.exec(data.code[warp().pc[last]][1]);
    const others = met && maskAt(next, "active") & ~maskAt(last, "active");
    const [pc, reason] = others ? [warp().pc[last], `, ${met[1]}, for lanes that come later`] : [warp().pc[next], " for their turn"];
    return `${placeOf(pc)}${reason} (until step ${count(next + 1)})`;
  }

  /** Cycles waited before a step. */
  function waitBefore(step) {
    let cycles = 0;
    const waits = warp().stalls[step];
    for (let k = 1; k < waits.length; k += 2) cycles += waits[k];
    return cycles;
  }

  function laneStates() {
    const active = maskAt(state.step, "active");
    const executed = maskAt(state.step, "executed");
    return Array.from({ length: 32 }, (_, lane) => {
      if ((executed >>> lane) & 1) return { kind: "executed", next: -1 };
      if ((active >>> lane) & 1) return { kind: "off", next: -1 };
      const next = nextOf(lane);
      return { kind: next < 0 ? "ended" : "waiting", next };
    });
  }

  function tell(states) {
    const now = warp();
    const active = maskAt(state.step, "active");
    const executed = maskAt(state.step, "executed");
    const lines = [`${bitCount(active)} of 32 lanes active, ${bitCount(executed)} execute`];
    if (state.step > 0) {
      const before = maskAt(state.step - 1, "active");
      const gone = lanesOf(before & ~active);
      const come = lanesOf(active & ~before);
      const from = placeOf(now.pc[state.step - 1]);
      if (come.length && !gone.length) lines.push(`Reconvergence: lanes ${ranges(come)} have joined again`);
      else if (gone.length && !come.length) lines.push(`Lanes ${ranges(gone)} have parted after ${from}`);
      else if (gone.length) lines.push(`The scheduler has switched from lanes ${ranges(lanesOf(before))} to lanes ${ranges(lanesOf(active))}`);
    }
    const groups = new Map();
    states.forEach(({ kind, next }, lane) => {
      if (kind !== "waiting") return;
      const place = waitingAt(lane, next);
      groups.set(place, [...(groups.get(place) ?? []), lane]);
    });
    for (const [place, own] of groups) lines.push(`Lanes ${ranges(own)} wait at ${place}`);
    const ended = states.flatMap(({ kind }, lane) => (kind === "ended" ? [lane] : []));
    if (ended.length) lines.push(`Lanes ${ranges(ended)} have ended, or execute nothing more of what is recorded`);
    const waits = now.stalls[state.step];
    if (waits.length) {
      const parts = [];
      let total = 0;
      for (let k = 0; k < waits.length; k += 2) { parts.push([waits[k + 1], data.stalls[waits[k]]]); total += waits[k + 1]; }
      parts.sort((a, b) => b[0] - a[0]);
      lines.push(`Waited ${count(total)} cycle${total === 1 ? "" : "s"} before: ${parts.map(([cycles, [name, meaning]]) => `${count(cycles)} ${name.replaceAll("_", " ")} (${meaning})`).join(", ")}`);
    } else if (state.step > 0) lines.push("Issued without waiting");
    return lines;
  }

  function draw() {
    const now = warp();
    const pc = now.pc[state.step];
    const [address, text] = data.code[pc];
    const place = lineOf(pc);
    const since = state.step ? now.cycle[state.step] - now.cycle[state.step - 1] : 0;
    slider.max = steps() - 1;
    slider.value = state.step;
    slider.setAttribute("aria-valuetext", `step ${state.step + 1} of ${steps()}, ${placeOf(pc)}`);
    position.textContent = `Step ${count(state.step + 1)} of ${count(steps())}${steps() < now.total ? ` (of ${count(now.total)})` : ""} · cycle ${count(now.cycle[state.step])}${state.step ? ` (+${count(since)})` : ""}`;
    head.style.left = `${(100 * (state.step + 0.5)) / steps()}%`;
    instruction.replaceChildren(element("span", { class: "address" }, hexadecimal(address)), " ", element("code", {}, text),
      place ? element("button", { type: "button", class: "link", onclick: () => showLine(data.source[place.file].name, place.line) }, `line ${place.line}`) : "");
    if (place) {
      const file = data.source[place.file];
      const numbers = Array.from({ length: 2 * CONTEXT + 1 }, (_, k) => place.line - CONTEXT + k)
        .filter((number) => number >= file.first && number < file.first + file.lines.length);
      sourceLines.replaceChildren(...numbers.map((number) => element("span", { class: number === place.line ? "here" : "", "aria-current": number === place.line ? "true" : null },
        `${String(number).padStart(4)}  ${file.lines[number - file.first]}\n`)));
    } else sourceLines.replaceChildren("      no source line\n");
    const states = laneStates();
    lanes.replaceChildren(...states.map(({ kind, next }, lane) => element("li", {
      class: lane === state.lane ? `${kind} picked` : kind, "data-state": kind, onclick: () => pick(lane), title: `lane ${lane} ${NAMES[kind]}${next >= 0 ? `, until step ${next + 1}` : ""}`, "aria-label": `lane ${lane} ${NAMES[kind]}`,
    }, element("span", { "aria-hidden": "true" }, SIGNS[kind]), element("small", { "aria-hidden": "true" }, `${lane}`))));
    story.replaceChildren(...tell(states).map((line) => element("li", {}, line)));
    const it = now.access[state.step];
    const space = it ? SPACES[it[0]] : "";
    access.replaceChildren(...(!it || space === "constant" ? [] : [space === "shared" ? sharedMap(trace, it) : globalMap(trace, it, space)]));
    if (drawRegisters) drawRegisters(state.warp, state.step, state.lane);
    root.dataset.step = state.step;
    root.dataset.pc = pc;
    root.dataset.warp = now.warp;
    root.dataset.active = maskAt(state.step, "active") >>> 0;
    root.dataset.executed = maskAt(state.step, "executed") >>> 0;
  }

  /** Lanes over steps, and below them how long each step was waited for. */
  function drawOverview() {
    const context = canvas.getContext("2d");
    const style = getComputedStyle(root);
    const columns = Math.min(steps(), OVERVIEW_COLUMNS);
    canvas.width = columns;
    context.clearRect(0, 0, columns, HEIGHT);
    for (let x = 0; x < columns; x += 1) {
      const step = Math.floor((x * steps()) / columns);
      const active = maskAt(step, "active");
      const executed = maskAt(step, "executed");
      for (let lane = 0; lane < 32; lane += 1) {
        if (!((active >>> lane) & 1)) continue;
        context.fillStyle = style.getPropertyValue((executed >>> lane) & 1 ? "--lane" : "--lane-off");
        context.fillRect(x, LANE_HEIGHT * lane, 1, LANE_HEIGHT);
      }
      const last = Math.max(Math.floor(((x + 1) * steps()) / columns), step + 1);
      let wait = 0;
      for (let k = step; k < last; k += 1) wait = Math.max(wait, waitBefore(k));
      const height = WAIT_HEIGHT * Math.min(Math.log1p(wait) / Math.log1p(LONG_WAIT), 1);
      context.fillStyle = style.getPropertyValue("--bad");
      context.fillRect(x, HEIGHT - height, 1, height);
    }
  }

  function keys(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "SELECT") return;
    const target = { ArrowRight: state.step + 1, ArrowLeft: state.step - 1, Home: 0, End: steps() - 1, PageUp: state.step - 10, PageDown: state.step + 10 }[event.key];
    const kind = KINDS.find(({ key }) => key === event.key.toLowerCase());
    if (kind && event.target.tagName !== "INPUT") jump(kind.name, event.shiftKey ? -1 : 1);
    else if (target !== undefined) go(target);
    else if (event.key === " " && event.target.tagName !== "BUTTON") play(!state.timer);
    else return;
    event.preventDefault();
  }

  const drawRegisters = trace.registers.length ? registers(held, data, pick) : null;
  for (const [name, value] of Object.entries({ class: "stepper", tabindex: "0", role: "group", "aria-label": "Warp stepper: arrow keys step, space plays, home and end jump, d, b and u go to the next divergent branch, bank conflict and uncoalesced access" })) root.setAttribute(name, value);
  root.addEventListener("keydown", keys);
  root.append(
    element("div", { class: "controls" },
      element("label", { for: `${prefix}warp` }, "Warp "), select,
      element("span", { class: "buttons" },
        button("first", "First step (home)", "⇤", () => 0),
        button("back", "Step back (left arrow)", "←", () => state.step - 1),
        playButton,
        button("next", "Step (right arrow)", "→", () => state.step + 1),
        button("last", "Last step (end)", "⇥", () => steps() - 1)),
      speed),
    jumps, overview, slider,
    element("p", { class: "caption" }, position, element("span", {}, "above: lanes 0 to 31 at each step; below: cycles waited before it")),
    element("div", { class: "panes" },
      element("div", {}, instruction, sourceLines, story),
      element("div", {}, lanes,
        element("p", { class: "legend" }, Object.entries(SIGNS).map(([kind, sign]) => element("span", { class: kind }, `${sign} ${NAMES[kind]}`))),
        held)),
    access,
    element("p", { class: "note" }, "Keys: ← → step, space plays and pauses, home and end jump, page up and down by ten, d, b and u to the next divergent branch, bank conflict and uncoalesced access, with shift to the one before. ", trace.cut));
  play(false);
  draw();
  requestAnimationFrame(drawOverview);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawOverview);
  return { go: choose, goTo, goToDearest, stepsTo };
}
