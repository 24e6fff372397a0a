// Twelve exercises that check themselves.
import { element } from "gpusim/format";
import { editor, outcome, runner } from "gpusim/write";

export function solve({ exercises, progress, ask }) {
  let number = exercises.find((each) => !progress[each.number]?.solved)?.number ?? 1;
  const list = element("ol", { "aria-label": "Exercises" });
  const task = element("div", { class: "about" });
  const goals = element("ul", { class: "goals" });
  const hints = element("div", {});
  const seen = element("div", { class: "seen", "aria-live": "polite" });
  const exercise = () => exercises[number - 1];
  const run = runner(async () => {
    const at = number;
    let answer;
    try {
      answer = await ask("solve", { number: at, source: text.value, gpu: exercise().gpu });
    } catch (error) {
      answer = { error: String(error.message ?? error) };
    }
    progress[at] = { source: text.value, solved: Boolean(answer.solved) || Boolean(progress[at]?.solved) };
    if (at !== number) return;
    text.mark(answer.line ?? null, answer.lines ?? []);
    drawGoals(answer.goals ?? null);
    seen.replaceChildren(...(answer.solved ? [element("p", { class: "verdict reached" }, number === exercises.length ? "Solved." : "Solved. On to the next one."), outcome(answer)] : [outcome(answer)]));
    drawList();
  }, () => ask("stop"));
  const text = editor(() => run.start(), "Solution");

  function drawList() {
    list.replaceChildren(...exercises.map((each) => element("li", {}, element("button", {
      type: "button", class: progress[each.number]?.solved ? "solved" : "", "aria-current": each.number === number ? "true" : "false", "data-exercise": each.number, onclick: () => open(each.number),
    }, `${each.number} ${each.title}`))));
  }

  function drawGoals(found) {
    goals.replaceChildren(...exercise().goals.map((goal, k) => element("li", { class: found?.[k].reached ? "reached" : "", "data-reached": found ? String(found[k].reached) : null },
      `${found?.[k].reached ? "✓" : "○"} ${goal}${found ? ` (here ${found[k].value})` : ""}`)));
  }

  function open(next) {
    number = next;
    const own = exercise();
    task.replaceChildren(element("h2", {}, `${own.number}. ${own.title}`), element("p", {}, own.task), element("p", { class: "note" }, `Runs on ${own.gpu}. check() has to agree, and the counters:`));
    text.value = progress[number]?.source ?? own.start;
    let shown = 0;
    const more = element("button", { type: "button", class: "hint", onclick: () => {
      hints.insertBefore(element("p", {}, own.hints[shown]), more);
      shown += 1;
      if (shown === own.hints.length) more.remove();
    } }, "A hint");
    hints.replaceChildren(more);
    seen.replaceChildren();
    drawGoals(null);
    drawList();
  }

  open(number);
  const again = element("button", { type: "button", onclick: () => { text.value = exercise().start; } }, "From the beginning");
  return {
    node: element("div", { class: "tasks" }, list, element("div", {}, task, goals, element("div", { class: "bar" }, ...run.nodes, again), element("div", { class: "desk" }, element("div", {}, text.node, hints), seen))),
    open,
  };
}
