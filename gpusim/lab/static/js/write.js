// An editor for a kernel, and what a run of it says: used to write, and to solve exercises.
import { count, element } from "gpusim/format";

const LOUD = 0.02; // share of the time from which a line is marked

/** Texts that somebody has begun, by their name; they stay when the page is left, as far as the browser keeps them. */
export const drafts = {
  of(name) { try { return localStorage.getItem(`draft ${name}`); } catch { return null; } },
  keep(name, text) { try { if (text === null) localStorage.removeItem(`draft ${name}`); else localStorage.setItem(`draft ${name}`, text); } catch { /* nothing is kept then */ } },
};

/** A text with numbered lines. onrun: called by Ctrl+Enter; onwrite: called with the text that somebody has changed. */
export function editor(onrun, label = "Kernel", onwrite = () => {}) {
  const gutter = element("pre", { class: "gutter", "aria-hidden": "true" });
  const area = element("textarea", { spellcheck: "false", autocapitalize: "off", autocomplete: "off", wrap: "off", "aria-label": label, oninput: () => written(), onkeydown: keys });
  let wrong = null;
  let shares = new Map();

  function draw() {
    const lines = area.value.split("\n").length;
    area.rows = Math.max(lines + 1, 12);
    gutter.replaceChildren(...Array.from({ length: lines }, (_, k) => {
      const share = shares.get(k + 1) ?? 0;
      return element("span", { class: k + 1 === wrong ? "wrong" : "", style: share ? `background: rgba(var(--heat), ${Math.min(share * 1.4, 0.8).toFixed(2)})` : null, title: share ? `${(100 * share).toFixed(1)} % of the warps' time` : null },
        share >= LOUD ? element("span", { class: "share", style: "display:inline" }, `${(100 * share).toFixed(0)} % `) : "", `${k + 1}`);
    }));
  }

  function written() {
    area.style.background = "";
    draw();
    onwrite(area.value);
  }

  function keys(event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) onrun();
    else if (event.key === "Tab" && !event.shiftKey && !event.altKey) area.setRangeText("    ", area.selectionStart, area.selectionEnd, "end");
    else if (event.key === "Escape") area.blur(); // so that a keyboard gets out of it
    else return;
    event.preventDefault();
    written();
  }

  return {
    node: element("div", { class: "editor" }, gutter, area),
    get value() { return area.value; },
    set value(text) { area.value = text; this.mark(null); },
    /** Marks a wrong line, or the lines by their share of the time. */
    mark(line, rows = []) {
      wrong = line;
      shares = new Map(rows.map((row) => [row.line, row.share]));
      draw();
      area.style.background = line ? `linear-gradient(var(--wrong), var(--wrong)) 0 calc(.6rem + ${line - 1} * 1.5em) / 100% 1.5em no-repeat` : "";
      gutter.querySelector(".wrong")?.scrollIntoView({ block: "nearest" });
    },
  };
}

/** What a run has said. before: the metrics of the run before it. */
export function outcome(answer, before) {
  if (answer.error !== undefined) {
    return element("div", {}, element("p", { class: "error", role: "alert" }, answer.line ? `line ${answer.line}: ${answer.error}` : answer.error),
      answer.printed ? element("pre", { class: "printed" }, answer.printed) : null);
  }
  const earlier = new Map((before ?? []).map(([name, ...rest]) => [name, rest]));
  const rows = answer.metrics.map(([name, value, text, better]) => {
    const [was, said] = earlier.get(name) ?? [];
    const change = was ? (100 * (value - was)) / was : null;
    const style = change === null || Math.abs(change) < 0.05 || !better ? "" : change > 0 === (better === "more") ? "better" : "worse";
    return element("tr", {}, element("td", {}, name), element("td", {}, text),
      before ? element("td", {}, said ?? "") : null, before ? element("td", { class: style }, change === null ? "" : `${change > 0 ? "+" : ""}${change.toFixed(1)} %`) : null);
  });
  return element("div", { class: "outcome" },
    element("p", { class: "verdict" }, `${count(answer.cycles)} cycles, ${answer.time_us.toFixed(2)} µs. ${answer.limiter}`),
    answer.why ? element("ul", {}, answer.why.map((each) => element("li", {}, each))) : null,
    element("table", {}, element("thead", {}, element("tr", {}, element("th", {}, answer.kernel), element("th", {}, "this run"), before ? element("th", {}, "before") : null, before ? element("th", {}, "change") : null)), element("tbody", {}, rows)),
    answer.advice.length ? element("h3", {}, "What costs time") : null,
    element("ul", {}, answer.advice.slice(0, 4).map((each) => element("li", {}, `${(100 * each.share).toFixed(0)} % ${each.kind}${each.line ? `, line ${each.line}` : ""}: ${each.sentence}`))),
    answer.printed ? element("pre", { class: "printed" }, answer.printed) : null,
    element("p", {}, element("a", { href: `/report/${answer.report}`, target: "_blank", rel: "noopener" }, "The whole report, with its warps to step through")));
}

/** A button that runs, one that stops, and how long it takes. run: returns a promise. */
export function runner(run, stop) {
  const clock = element("small", { "aria-live": "polite" });
  const go = element("button", { type: "button", class: "main", "data-run": true, onclick: () => start() }, "Run");
  const halt = element("button", { type: "button", disabled: true, onclick: () => stop() }, "Stop");
  async function start() {
    if (go.disabled) return;
    const began = performance.now();
    go.disabled = true;
    halt.disabled = false;
    const timer = setInterval(() => { clock.textContent = `${((performance.now() - began) / 1000).toFixed(1)} s`; }, 100);
    try {
      await run();
    } finally {
      clearInterval(timer);
      clock.textContent = `took ${((performance.now() - began) / 1000).toFixed(1)} s`;
      go.disabled = false;
      halt.disabled = true;
    }
  }
  return { nodes: [go, halt, clock], start };
}

/** The room to write in. */
export function write({ starts, ask, gpu }) {
  const seen = element("div", { class: "seen", "aria-live": "polite" }, element("p", { class: "note" }, "A kernel for numba.cuda, and how it is launched: grid, block and args. Ctrl+Enter runs it. check(), if there is one, is called afterwards."));
  let before = null;
  const run = runner(async () => {
    let answer;
    try {
      answer = await ask("write", { source: text.value, gpu: gpu() });
    } catch (error) {
      answer = { error: String(error.message ?? error) };
    }
    text.mark(answer.line ?? null, answer.lines ?? []);
    seen.replaceChildren(outcome(answer, before));
    if (answer.metrics) before = answer.metrics;
  }, () => ask("stop"));
  const name = () => `write ${starts[select.value].title}`;
  const text = editor(() => run.start(), "Kernel", (written) => drafts.keep(name(), written));
  const open = () => {
    drafts.keep("write", starts[select.value].title);
    text.value = drafts.of(name()) ?? starts[select.value].source;
  };
  const last = drafts.of("write");
  const select = element("select", { "aria-label": "Begin with", onchange: open }, starts.map((each, k) => element("option", { value: k, selected: each.title === last }, each.title)));
  const again = element("button", { type: "button", onclick: () => { drafts.keep(name(), null); open(); } }, "From the beginning");
  open();
  return { node: element("div", {}, element("div", { class: "bar" }, select, ...run.nodes, again), element("div", { class: "desk" }, text.node, seen)) };
}
