// Exercises that check themselves, and the file of them that a student hands in.
import { element } from "gpusim/format";
import { fileButton } from "gpusim/editor";
import { desk, drafts, runner } from "gpusim/write";

const HONEST = "Written by the page of gpusim lab on the student's machine. It is text that anybody can edit, and no proof of who wrote the code: run a code again before you rely on what is said of it.";

/** What a student hands in. */
export function handIn(exercises, progress) {
  return { what: "gpusim lab, exercises", note: HONEST, exercises: exercises.map(({ title }) => {
    const { attempts = 0, solved = false, source = "" } = progress[title] ?? {};
    return { exercise: title, attempts, solved, code: source };
  }) };
}

export function solve({ exercises, progress, ask }) {
  let at = Math.max(exercises.findIndex((each) => !progress[each.title]?.solved), 0);
  const list = element("ol", { "aria-label": "Exercises" });
  const task = element("div", { class: "about" });
  const goals = element("ul", { class: "goals" });
  const hints = element("div", {});
  const exercise = () => exercises[at];
  const run = runner(async () => {
    const asked = exercise();
    const source = text.value;
    let answer;
    try {
      answer = await ask("solve", { number: at + 1, source });
    } catch (error) {
      answer = { error: String(error.message ?? error) };
    }
    if (answer.progress) progress[asked.title] = answer.progress;
    drawList();
    if (asked !== exercise()) return;
    drawGoals(answer.goals ?? null);
    const said = answer.doubt ? element("p", { class: "error", role: "alert" }, answer.doubt)
      : answer.solved ? element("p", { class: "verdict reached" }, at === exercises.length - 1 ? "Solved, for other values too." : "Solved, for other values too. On to the next one.") : null;
    bench.show(answer, source, null, said ? [said] : []);
  }, () => ask("stop"));
  const bench = desk({ run: () => run.start(), label: "Solution", wrote: (written) => drafts.keep(`solve ${exercise().title}`, written), taken });
  const { text } = bench;

  /** Takes a file in the place of what was written, which can be had back. */
  function taken(file, source, language) {
    const was = text.value;
    const put = (now) => {
      text.open(now);
      drafts.keep(`solve ${exercise().title}`, now);
    };
    if (language !== "python") return refused(`${file}: a solution is a kernel for numba.cuda, in Python`);
    put(source);
    const back = element("button", { type: "button", class: "link", "data-back": true, onclick: () => { put(was); bench.clear(); } }, "Put back what stood here");
    return bench.clear(element("p", { class: "note" }, `${file} stands here now. `, back));
  }

  function refused(why) {
    bench.clear(element("p", { class: "error", role: "alert" }, why));
  }

  function drawList() {
    list.replaceChildren(...exercises.map((each, k) => element("li", {}, element("button", {
      type: "button", class: progress[each.title]?.solved ? "solved" : "", "aria-current": k === at ? "true" : "false", "data-exercise": k + 1, onclick: () => open(k),
    }, `${k + 1}. ${each.title}`))));
  }

  function drawGoals(found) {
    goals.replaceChildren(...exercise().goals.map((goal, k) => element("li", { class: found?.[k].reached ? "reached" : "", "data-reached": found ? String(found[k].reached) : null },
      `${found?.[k].reached ? "✓" : "○"} ${goal}${found ? ` (here ${found[k].value})` : ""}`)));
  }

  function open(next) {
    at = next;
    const own = exercise();
    const launch = ["grid", "block"].map((name) => (own[name] ? `${name} = ${own[name]}` : `# ${name}: yours`)).join("\n");
    task.replaceChildren(element("h2", {}, `${at + 1}. ${own.title}`), element("p", {}, own.task),
      element("p", { class: "note" }, `Runs on ${own.gpu} with n = ${own.n.toLocaleString("en")}. The exercise's check() has to agree, and the counters; then both again, with other values and another n. The goals stand below.`),
      element("details", {}, element("summary", {}, "What the exercise brings: inputs, launch, check"), element("pre", { class: "code given" }, `n = ${own.n}\n${launch}\n\n${own.given.trim()}`)));
    text.open(drafts.of(`solve ${own.title}`) ?? progress[own.title]?.source ?? own.start);
    let shown = 0;
    const more = element("button", { type: "button", class: "hint", onclick: () => {
      hints.insertBefore(element("p", {}, own.hints[shown]), more);
      shown += 1;
      if (shown === own.hints.length) more.remove();
    } }, "A hint");
    hints.replaceChildren(...(own.hints.length ? [more] : []));
    bench.clear();
    drawGoals(null);
    drawList();
  }

  function download() {
    const address = URL.createObjectURL(new Blob([JSON.stringify(handIn(exercises, progress), null, 1)], { type: "application/json" }));
    element("a", { href: address, download: "gpusim-lab.json" }).click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  }

  open(at);
  const again = element("button", { type: "button", onclick: () => { text.open(exercise().start); drafts.keep(`solve ${exercise().title}`, null); } }, "From the beginning");
  const give = element("button", { type: "button", "data-hand-in": true, onclick: download, title: HONEST }, "A file to hand in");
  return {
    node: element("div", { class: "tasks" }, element("div", {}, list, element("div", { class: "bar" }, give)), element("div", {}, task, goals, element("div", { class: "bar" }, ...run.nodes, again, fileButton(taken, refused)), bench.node, hints)),
    open,
  };
}
