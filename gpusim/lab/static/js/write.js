// A kernel and what a run of it says: used to write, and to solve exercises.
import { codePane, costsOf } from "gpusim/code";
import { editor, fileButton } from "gpusim/editor";
import { count, element } from "gpusim/format";

/** Texts that somebody has begun, by their name; they stay when the page is left, as far as the browser keeps them. */
export const drafts = {
  of(name) { try { return localStorage.getItem(`draft ${name}`); } catch { return null; } },
  keep(name, text) { try { if (text === null) localStorage.removeItem(`draft ${name}`); else localStorage.setItem(`draft ${name}`, text); } catch { /* nothing is kept then */ } },
};

/** An editor with the machine code of what ran beside it, and above both what the run said. options: of `editor`. */
export function desk(options) {
  const said = element("div", { class: "said", "aria-live": "polite" });
  const more = element("div", { class: "more" });
  const code = codePane({ pointed: (line, chosen) => text.point(line, chosen), went: (line) => text.go(line) });
  const text = editor({
    ...options, pointed: (line, chosen) => code.point(line, chosen),
    refused: (why) => said.replaceChildren(element("p", { class: "error", role: "alert" }, why)),
  });
  const clear = (...nodes) => {
    said.replaceChildren(...nodes);
    more.replaceChildren();
    code.show(null);
  };
  return {
    node: element("div", { class: "desk" }, said, text.node, code.node, more), text, clear,
    /** Shows the answer to a run of a text. before: metrics of the run before it; first: what stands above it. */
    show(answer, source, before, first = []) {
      const found = answer.code ? costsOf(answer.code) : null;
      text.mark(answer.line ?? null, found?.lines, source);
      code.show(found, source);
      const { head, rest } = outcome(answer, before, (line) => text.go(line));
      said.replaceChildren(...first, ...head);
      more.replaceChildren(...rest);
    },
  };
}

/** What a run has said, in two parts. before: the metrics of the run before it; go: called with a line to go to. */
function outcome(answer, before, go) {
  const printed = answer.printed ? [element("pre", { class: "printed" }, answer.printed)] : [];
  if (answer.error !== undefined) {
    const place = answer.line ? [element("button", { type: "button", class: "link", onclick: () => go(answer.line) }, `line ${answer.line}`), ": "] : [];
    const detail = answer.detail ? [element("details", {}, element("summary", {}, "What the machine says"), element("code", {}, answer.detail))] : [];
    return { head: [element("div", { class: "error", role: "alert" }, ...place, answer.error, ...detail), ...printed], rest: [] };
  }
  const earlier = new Map((before ?? []).map(([name, ...rest]) => [name, rest]));
  const rows = answer.metrics.map(([name, value, text, better]) => {
    const [was, said] = earlier.get(name) ?? [];
    const change = was ? (100 * (value - was)) / was : null;
    const style = change === null || Math.abs(change) < 0.05 || !better ? "" : change > 0 === (better === "more") ? "better" : "worse";
    return element("tr", {}, element("td", {}, name), element("td", {}, text),
      before ? element("td", {}, said ?? "") : null, before ? element("td", { class: style }, change === null ? "" : `${change > 0 ? "+" : ""}${change.toFixed(1)} %`) : null);
  });
  const table = element("table", {}, element("thead", {}, element("tr", {}, element("th", {}, answer.kernel), element("th", {}, "this run"), before ? element("th", {}, "before") : null, before ? element("th", {}, "change") : null)), element("tbody", {}, rows));
  const advice = answer.advice.slice(0, 4).map((each) => element("li", {}, `${(100 * each.share).toFixed(0)} % ${each.kind}`, ...(each.line ? [", ", element("button", { type: "button", class: "link", onclick: () => go(each.line) }, `line ${each.line}`)] : []), `: ${each.sentence.replace(/^Line \d+: (.)/, (_, first) => first.toUpperCase())}`));
  return {
    head: [element("p", { class: "verdict" }, `${count(answer.cycles)} cycles, ${answer.time_us.toFixed(2)} µs. ${answer.limiter}`), ...(answer.why && before ? [element("p", { class: "note" }, "A is the run before, B is this one:"), element("ul", {}, answer.why.map((each) => element("li", {}, each.replaceAll(" uJ", " µJ").replaceAll(" -> ", " → "))))] : [])],
    rest: [...(answer.doubles ? [element("p", { class: "note doubles" }, `${answer.doubles} of the arguments ${answer.doubles > 1 ? "are" : "is"} of float64, which is what NumPy and Python take if nothing else is said: twice the bytes of float32, and fewer operations a cycle. dtype=np.float32 asks for the other.`)] : []),
    element("div", { class: "outcome" }, element("div", {}, table), element("div", {}, advice.length ? element("h3", {}, "What costs time") : null, element("ul", {}, advice), ...printed,
      element("p", {}, element("a", { href: `/report/${answer.report}`, target: "_blank", rel: "noopener" }, "The whole report, with its warps to step through"))))],
  };
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

/** The line that says how a kernel in CUDA C++ is launched, guessed from its parameters; "" for a text that has one. */
export function launchLine(text) {
  if (/^\s*\/\/\s*gpusim run\b/m.test(text)) return "";
  const [, name, parameters] = /__global__[^;{]*?\bvoid\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\(([^)]*)\)/.exec(text) ?? [];
  if (!name) return "";
  const types = { double: "float64", int: "int32", unsigned: "uint32", char: "int8", "unsigned char": "uint8", "long long": "int64", size_t: "uint64", short: "int16" };
  const args = parameters.split(",").filter((each) => each.trim()).map((each) => {
    const type = types[each.replace(/\b(const|volatile|__restrict__|signed|int(?=\s+long))\b|[*&]|\w+\s*$/g, " ").trim().replace(/\s+/g, " ").replace(/^unsigned int$/, "unsigned")] ?? "float32";
    return each.includes("*") ? `${type}[1024]${/\bconst\b/.test(each) ? "=random" : ""}` : `${type}(${type.startsWith("float") ? 1 : 1024})`;
  });
  const several = (text.match(/__global__/g) ?? []).length > 1;
  return `\n// How it is launched. This is a guess from its parameters: change it.\n// gpusim run --grid 4 --block 256${several ? ` --entry ${name}` : ""} --args "${args.join(", ")}"\n`;
}

const NOTE = {
  python: "A kernel for numba.cuda, and how it is launched: grid, block and args. check(), if there is one, is called afterwards.",
  cuda: "A kernel in CUDA C++. The comment // gpusim run says how it is launched; its arrays are printed afterwards.",
};

/** The room to write in. */
export function write({ starts, ask, gpu }) {
  let before = null;
  const run = runner(async () => {
    const asked = chosen();
    const { value: source, language } = text;
    let answer;
    try {
      answer = await ask("write", { source, gpu: gpu(), language });
    } catch (error) {
      answer = { error: String(error.message ?? error) };
    }
    if (asked !== chosen()) return;
    const alike = before && (before.title === asked.title || before.kernel === answer.kernel); // another kernel is no change of this one
    shown.show(answer, source, alike ? before.metrics : undefined);
    if (answer.metrics) before = { title: asked.title, kernel: answer.kernel, metrics: answer.metrics };
  }, () => ask("stop"));
  let files = JSON.parse(drafts.of("files") ?? "[]"); // what was dropped: title, language and source, as of a start
  const all = () => [...starts, ...files];
  const chosen = () => all()[select.value];
  const name = (each = chosen()) => `write ${each.title}`;
  const shown = desk({ run: () => run.start(), wrote: (written) => drafts.keep(name(), written), taken });
  const { text } = shown;
  const select = element("select", { "aria-label": "Begin with", onchange: open });
  const again = element("button", { type: "button", onclick: () => { drafts.keep(name(), null); open(); } }, "From the beginning");
  const remove = element("button", { type: "button", "data-remove": true, onclick: () => {
    drafts.keep(name(), null);
    keep(files.filter((each) => each !== chosen()));
    list(starts[0].title);
  } }, "Remove this file");

  function open() {
    const { title, source, language = "python" } = chosen();
    drafts.keep("write", title);
    remove.hidden = select.value < starts.length;
    text.open(drafts.of(name()) ?? source, language);
    shown.clear(element("p", { class: "note" }, NOTE[language]));
  }

  /** Fills the list, and opens what has a title. */
  function list(title) {
    select.replaceChildren(...all().map((each, k) => element("option", { value: k, selected: each.title === title }, each.title)));
    open();
  }

  function keep(now) {
    files = now;
    drafts.keep("files", JSON.stringify(files));
  }

  /** Takes a file as a text of its own, so that nothing that was written before is lost. */
  function taken(file, content, language) {
    const source = content + (language === "cuda" ? launchLine(content) : "");
    const same = files.find((each) => each.title.startsWith(file) && (drafts.of(name(each)) ?? each.source) === source);
    let title = same?.title ?? file;
    for (let k = 2; !same && all().some((each) => each.title === title); k += 1) title = `${file} (${k})`;
    if (!same) keep([...files, { title, language, source }]);
    list(title);
  }

  list(drafts.of("write"));
  return { node: element("div", {}, element("div", { class: "bar" }, select, ...run.nodes, again, fileButton(taken, (why) => shown.clear(element("p", { class: "error", role: "alert" }, why))), remove), shown.node) };
}
