// Warps over cycles: a row for each warp of an SM, who issues while who waits and for what.
import { count, element, hexadecimal, plural } from "gpusim/format";

const REASONS = 32; // a span is this times its cycles plus the reason
const ISSUE = 0;
const HEAD = 20; // for the numbers of cycles
const ROOM = 420;
const ROW = [6, 24]; // pixels, least and most
const FIRST = [150, 400]; // cycles that are shown at first, on a phone and elsewhere
const LEAST = 20;
const STEPS = 5;

/** Spans of a warp as columns: when each starts, why it waits, and what it issues. */
function spansOf(warp) {
  const start = new Float64Array(warp.spans.length + 1);
  const reason = new Uint8Array(warp.spans.length);
  const pc = new Int32Array(warp.spans.length);
  let issue = 0;
  start[0] = warp.start;
  warp.spans.forEach((each, k) => {
    reason[k] = each % REASONS;
    start[k + 1] = start[k] + Math.floor(each / REASONS);
    pc[k] = warp.pcs[issue] ?? -1; // what it waits for to issue is what it issues next
    if (reason[k] === ISSUE) issue += 1;
  });
  return { ...warp, start, reason, pc, end: start[warp.spans.length] };
}

/** Index of the span of a warp that holds a cycle. */
function spanAt({ start }, cycle) {
  let low = 0;
  let high = start.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (start[middle] <= cycle) low = middle;
    else high = middle;
  }
  return low;
}

/** Draws into `root` what `gpusim.report_html.warps` makes.
 * `data`: {warps, stalls: [[name, meaning, colour, colour on dark]], instructions: [[address, text, file, line]]}.
 * `steps(warp, cycle)`: null, or what shows the warp's issue at or after a cycle elsewhere. */
export function warpsOverCycles(root, data, steps = () => null) {
  const { begin, end } = data.warps;
  const rows = data.warps.rows.map((row) => ({ ...row, warps: row.warps.map(spansOf) }));
  const schedulers = [...new Set(rows.map((row) => row.scheduler))];
  const state = { from: begin, cycles: Math.min(FIRST[Number(window.innerWidth > 800)], end - begin), row: 0, cycle: begin, only: null, marked: false };
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const canvas = element("canvas", { "aria-hidden": "true" });
  const told = element("p", { class: "told", "aria-live": "polite" });
  const summary = element("p", { class: "caption" });
  const slider = element("input", { type: "range", min: 0, max: 1000, value: 0, "aria-label": "First cycle that is shown", oninput: (event) => move(begin + (Number(event.target.value) / 1000) * room()) });
  const frame = element("div", {
    class: "chart", tabindex: "0", role: "group", "aria-label": "Warps over cycles: left and right arrow go from span to span, up and down from warp to warp, plus and minus zoom",
    onkeydown: keys, onpointerdown: press, onpointermove: hover, onpointerup: release, onpointerleave: () => { state.drag = null; },
  }, canvas);
  const button = (name, label, text, action) => element("button", { type: "button", class: name, "aria-label": label, title: label, onclick: action }, text);
  const keysOf = legend();
  root.classList.add("warps");
  root.append(
    element("div", { class: "controls" },
      button("closer", "Zoom in (+)", "+", () => zoom(0.5)), button("farther", "Zoom out (-)", "−", () => zoom(2)),
      button("whole", "All cycles", "All cycles", () => zoom(Infinity)),
      button("earlier", "Earlier", "←", () => move(state.from - state.cycles / 2)), button("later", "Later", "→", () => move(state.from + state.cycles / 2))),
    frame, slider, summary, told, keysOf,
    element("p", { class: "note" }, "A cell in the colour of issues is a cycle in which the warp issues; from far, its height is the share of such cycles. Click a cell to see what it waits for. ", data.warps.cut));

  const room = () => end - begin - state.cycles;
  const colour = (reason) => data.stalls[reason][dark.matches ? 3 : 2];
  const rowHeight = () => Math.min(Math.max(Math.floor(ROOM / rows.length), ROW[0]), ROW[1]);
  const gap = (k) => schedulers.indexOf(rows[k].scheduler) * 6;
  const top = (k) => HEAD + rowHeight() * k + gap(k);
  const left = () => (frame.clientWidth < 560 ? 40 : 150);
  const x = (cycle) => left() + ((cycle - state.from) / state.cycles) * (frame.clientWidth - left());

  function move(from) {
    state.from = Math.min(Math.max(from, begin), Math.max(end - state.cycles, begin));
    draw();
  }

  function zoom(by, around = state.marked ? state.cycle : state.from + state.cycles / 2) {
    const part = (around - state.from) / state.cycles;
    state.cycles = Math.min(Math.max(state.cycles * by, Math.min(LEAST, end - begin)), end - begin);
    move(around - Math.min(Math.max(part, 0), 1) * state.cycles);
  }

  /** Shows what a row does in a cycle. */
  function mark(row, cycle) {
    state.row = Math.min(Math.max(row, 0), rows.length - 1);
    state.cycle = Math.min(Math.max(Math.floor(cycle), begin), end - 1);
    state.marked = true;
    told.replaceChildren(...tell(state.row, state.cycle));
    if (state.cycle < state.from || state.cycle >= state.from + state.cycles) move(state.cycle - state.cycles / 2);
    else draw();
  }

  const warpAt = (row, cycle) => rows[row].warps.find((each) => each.start[0] <= cycle && cycle < each.end);

  function words(row, cycle) {
    const warp = warpAt(row, cycle);
    if (!warp) return { text: `Cycle ${count(cycle)}: no warp in slot ${rows[row].slot} of scheduler ${rows[row].scheduler}` };
    const k = spanAt(warp, cycle);
    const [name, meaning] = data.stalls[warp.reason[k]];
    const each = data.code[warp.pc[k]];
    const code = each ? `${hexadecimal(each[0])} ${each[1]}${each[3] ? `, line ${each[3]}` : ""}` : "its next instruction";
    const what = warp.reason[k] === ISSUE ? `issues ${code}` : `waits ${plural(warp.start[k + 1] - warp.start[k], "cycle")} (${count(warp.start[k])} to ${count(warp.start[k + 1])}): ${name.replaceAll("_", " ")}, ${meaning}; then ${code}`;
    return { warp, name, text: `Cycle ${count(cycle)}, ${warp.label}: ${what}` };
  }

  function tell(row, cycle) {
    const { warp, name, text } = words(row, cycle);
    frame.dataset.reason = name ?? "";
    frame.dataset.warp = warp?.warp ?? "";
    const show = warp ? steps(warp.warp, cycle) : null;
    return [text, show ? [" ", element("button", { type: "button", class: "link", onclick: show }, "step through it")] : []].flat();
  }

  function place(event) {
    const box = frame.getBoundingClientRect();
    const y = event.clientY - box.top;
    const row = rows.findIndex((_, k) => y >= top(k) && y < top(k) + rowHeight());
    const cycle = state.from + ((event.clientX - box.left - left()) / (frame.clientWidth - left())) * state.cycles;
    return row < 0 || cycle < state.from || cycle >= Math.min(state.from + state.cycles, end) ? null : { row, cycle: Math.floor(cycle) };
  }

  function press(event) {
    state.drag = { x: event.clientX, from: state.from, moved: false };
  }

  function hover(event) {
    if (state.drag && event.buttons) {
      const by = event.clientX - state.drag.x;
      state.drag.moved ||= Math.abs(by) > 4;
      if (state.drag.moved) move(state.drag.from - (by / (frame.clientWidth - left())) * state.cycles);
      return;
    }
    const at = place(event);
    frame.title = at ? words(at.row, at.cycle).text : "";
  }

  function release(event) {
    const at = state.drag && !state.drag.moved ? place(event) : null;
    state.drag = null;
    if (at) mark(at.row, at.cycle);
  }

  function keys(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const warp = warpAt(state.row, state.cycle);
    const k = warp ? spanAt(warp, state.cycle) : 0;
    // Where a slot is empty, to the next warp that has it, or to the last.
    const next = () => rows[state.row].warps.find((each) => each.start[0] > state.cycle)?.start[0] ?? state.cycle;
    const last = () => rows[state.row].warps.findLast((each) => each.end <= state.cycle)?.end ?? state.cycle + 1;
    const to = {
      ArrowRight: () => mark(state.row, warp ? warp.start[k + 1] : next()), ArrowLeft: () => mark(state.row, (warp ? warp.start[k] : last()) - 1),
      ArrowDown: () => mark(state.row + 1, state.cycle), ArrowUp: () => mark(state.row - 1, state.cycle),
      Home: () => mark(state.row, begin), End: () => mark(state.row, end - 1), "+": () => zoom(0.5), "-": () => zoom(2),
    }[event.key];
    if (!to) return;
    to();
    event.preventDefault();
  }

  /** A button for each reason that occurs: it alone is then in colour. */
  function legend() {
    const cycles = new Map();
    for (const warp of rows.flatMap((row) => row.warps)) warp.reason.forEach((each, k) => cycles.set(each, (cycles.get(each) ?? 0) + warp.start[k + 1] - warp.start[k]));
    const all = [...cycles.values()].reduce((a, b) => a + b, 0);
    return element("div", { class: "legend reasons", role: "group", "aria-label": "Show one reason alone" }, [...cycles].sort((a, b) => (b[0] === ISSUE) - (a[0] === ISSUE) || b[1] - a[1]).map(([reason, own]) => {
      const [name, meaning, light, night] = data.stalls[reason];
      return element("button", {
        type: "button", "aria-pressed": "false", title: meaning, "data-reason": name,
        onclick: (event) => {
          state.only = state.only === reason ? null : reason;
          for (const each of event.currentTarget.parentElement.children) each.setAttribute("aria-pressed", `${state.only !== null && each.dataset.reason === data.stalls[state.only][0]}`);
          draw();
        },
      }, element("span", { class: "swatch", style: `--light:${light};--night:${night}` }), `${reason === ISSUE ? "issues" : name.replaceAll("_", " ")} ${((100 * own) / all).toFixed(1)} %`);
    }));
  }

  function paint(context, reason, from, to, y, height) {
    context.globalAlpha = state.only === null || state.only === reason ? 1 : 0.12;
    context.fillStyle = colour(reason);
    context.fillRect(from, y, to - from, height);
  }

  /** One warp, with room for each of its spans. */
  function near(context, warp, y, height) {
    const until = state.from + state.cycles;
    for (let k = spanAt(warp, state.from); k < warp.reason.length && warp.start[k] < until; k += 1) {
      const inset = warp.reason[k] === ISSUE ? 0 : Math.max(1, Math.round(height * 0.14));
      paint(context, warp.reason[k], Math.max(x(warp.start[k]), left()), x(Math.min(warp.start[k + 1], until)), y + inset, height - 2 * inset);
    }
  }

  /** One warp from far: in each column the reason that takes most of it, and from below the share of issues. */
  function far(context, warp, y, height) {
    const width = frame.clientWidth - left();
    let k = spanAt(warp, Math.max(state.from, warp.start[0]));
    for (let column = 0; column < width; column += 1) {
      const a = state.from + (column / width) * state.cycles;
      const b = state.from + ((column + 1) / width) * state.cycles;
      if (b <= warp.start[0] || a >= warp.end) continue;
      const parts = new Map();
      while (k < warp.reason.length && warp.start[k] < b) {
        const own = Math.min(warp.start[k + 1], b) - Math.max(warp.start[k], a);
        if (own > 0) parts.set(warp.reason[k], (parts.get(warp.reason[k]) ?? 0) + own);
        if (warp.start[k + 1] > b) break;
        k += 1;
      }
      const issues = (parts.get(ISSUE) ?? 0) / (b - a);
      parts.delete(ISSUE);
      const most = [...parts].sort((one, other) => other[1] - one[1])[0];
      if (most) paint(context, most[0], left() + column, left() + column + 1, y, height);
      if (issues) paint(context, ISSUE, left() + column, left() + column + 1, y + height * (1 - issues), height * issues);
    }
  }

  function draw() {
    const style = getComputedStyle(root);
    const ink = (name) => style.getPropertyValue(name);
    const scale = window.devicePixelRatio || 1;
    const width = frame.clientWidth;
    const height = top(rows.length - 1) + rowHeight() + 4;
    canvas.width = width * scale;
    canvas.height = height * scale;
    canvas.style.height = `${height}px`;
    const context = canvas.getContext("2d");
    context.scale(scale, scale);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    axis(context, width, height, ink);
    rows.forEach((row, k) => {
      const [y, high] = [top(k), rowHeight() - 1];
      for (const warp of row.warps) {
        if (warp.end <= state.from || warp.start[0] >= state.from + state.cycles) continue;
        (width - left() >= 1.5 * state.cycles ? near : far)(context, warp, y, high);
      }
      context.globalAlpha = 1;
      context.fillStyle = ink("--soft");
      context.textAlign = "right";
      const first = k === 0 || rows[k - 1].scheduler !== row.scheduler;
      const label = left() > 100 && high >= 11 ? (warpAt(k, state.from) ?? row.warps[0]).label.replace("block ", "") : first ? `S ${row.scheduler}` : "";
      context.fillText(label, left() - 6, y + high / 2);
      if (left() > 100 && first) {
        context.textAlign = "left";
        context.fillText(`S ${row.scheduler}`, 0, y + high / 2);
      }
    });
    if (state.marked) {
      const [at, wide] = [x(state.cycle), Math.max(x(state.cycle + 1) - x(state.cycle), 3)];
      for (const [name, more] of [["--paper", 3], ["--ink", 1.5]]) {
        context.strokeStyle = context.fillStyle = ink(name);
        context.lineWidth = 2;
        context.strokeRect(at - more, top(state.row) - more, wide + 2 * more, rowHeight() - 1 + 2 * more);
      }
      context.fillRect(at + wide / 2 - 1, HEAD - 7, 2, height - HEAD + 7);
    }
    slider.disabled = room() <= 0;
    slider.value = room() > 0 ? (1000 * (state.from - begin)) / room() : 0;
    told.hidden = !told.childNodes.length;
    say();
    frame.dataset.from = state.from;
    frame.dataset.cycles = state.cycles;
  }

  function axis(context, width, height, ink) {
    const rough = state.cycles / STEPS;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = Math.max([1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough), 1);
    context.textAlign = "center";
    for (let cycle = Math.ceil(state.from / step) * step; cycle < state.from + state.cycles; cycle += step) {
      context.fillStyle = ink("--line");
      context.fillRect(x(cycle), HEAD - 4, 1, height - HEAD + 4);
      context.fillStyle = ink("--soft");
      if (x(cycle) > left() + 10 && x(cycle) < width - 20) context.fillText(count(cycle), x(cycle), HEAD / 2);
    }
  }

  /** How many of the cycles that are shown each scheduler issues in. */
  function say() {
    const until = Math.min(state.from + state.cycles, end);
    const shares = schedulers.map((scheduler) => {
      let issues = 0;
      for (const warp of rows.filter((row) => row.scheduler === scheduler).flatMap((row) => row.warps)) {
        for (let k = spanAt(warp, state.from); k < warp.reason.length && warp.start[k] < until; k += 1) {
          if (warp.reason[k] === ISSUE) issues += Math.max(Math.min(warp.start[k + 1], until) - Math.max(warp.start[k], state.from), 0);
        }
      }
      return `S ${scheduler}: ${((100 * issues) / (until - state.from)).toFixed(0)} %`;
    });
    summary.textContent = `SM ${data.warps.sm}, cycles ${count(state.from)} to ${count(until)}. Cycles with an issue, by scheduler: ${shares.join(", ")}`;
  }

  new ResizeObserver(draw).observe(frame);
  dark.addEventListener("change", draw);
  return { draw, mark };
}
