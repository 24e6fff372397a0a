// One or two programs, warp by warp: their reports side by side, and stepped together.
import { count, element } from "gpusim/format";

/** Two programs that differ in one thing, and in which. */
const PAIRS = [
  ["Bank conflicts", "bank_conflict/32", "bank_conflict/1"],
  ["Divergence", "divergence/32", "divergence/1"],
  ["Loops of different length", "collatz/consecutive", "collatz/sorted"],
  ["A padded tile", "transpose/tiled", "transpose/padded"],
  ["A tiled product", "matmul/naive", "matmul/tiled"],
];

/** lessons: what each program teaches, by name; moved: called with what an address is to say. */
export function watch({ lessons, ask, gpu, moved }) {
  const programs = Object.keys(lessons);
  const stage = element("div", { class: "frames" });
  const say = element("p", { class: "note", "aria-live": "polite" });
  const first = chooser("Program", "bank_conflict/32", false);
  const second = chooser("Beside it", "bank_conflict/1", true);
  const together = element("input", { type: "checkbox", id: "together", checked: true });
  const go = element("button", { type: "button", class: "main", "data-watch": true, onclick: show }, "Show");
  const pairs = PAIRS.map(([title, one, other]) => element("button", { type: "button", "data-pair": title, disabled: !(one in lessons && other in lessons), onclick: () => { first.value = one; second.value = other; show(); } }, title));
  let begun = false;

  function chooser(label, chosen, empty) {
    const names = empty ? ["", ...programs] : programs;
    return element("select", { "aria-label": label }, names.map((name) => element("option", { value: name, selected: name === chosen }, name || "nothing")));
  }

  async function show() {
    begun = true;
    moved({ program: first.value, beside: second.value });
    for (const each of [go, ...pairs]) each.disabled = true;
    say.textContent = "Runs …";
    const shown = [];
    try {
      for (const name of [first.value, second.value].filter(Boolean)) {
        const answer = await ask("watch", { program: name, gpu: gpu(), size: null });
        if (answer.error !== undefined) throw new Error(answer.error);
        const frame = element("iframe", { src: `/report/${answer.report}`, onload: (event) => begin(event.target), title: `${name}, warp by warp` });
        shown.push({ frame, node: element("section", {}, element("h3", {}, `${name}: ${count(answer.cycles)} cycles on ${gpu()}`), element("p", { class: "note" }, lessons[name]), frame) });
      }
      stage.replaceChildren(...shown.map(({ node }) => node));
      say.textContent = shown.length > 1 ? "Warps over Cycles shows when a warp issues and what it waits for; in Warp Stepper, further down in each, step in one of them, and the other follows." : "";
      if (shown.length > 1) await follow(shown.map(({ frame }) => frame));
    } catch (error) {
      say.textContent = String(error.message ?? error);
    }
    for (const each of [go, ...pairs]) each.disabled = false;
  }

  /** A report begins here with all cycles of its warps. Its own address could say so, but would move the page around it. */
  function begin(frame) {
    const { contentDocument: page, contentWindow: view } = frame;
    [...page.querySelectorAll("#warps button")].find((each) => each.textContent === "All cycles")?.click();
    view.scrollTo(0, (page.getElementById("warps")?.offsetTop ?? 0) - (page.querySelector("nav")?.offsetHeight ?? 0));
  }

  /** Each frame takes the step of the other one, by its slider. */
  async function follow(frames) {
    await Promise.all(frames.map((frame) => new Promise((done) => { frame.addEventListener("load", done, { once: true }); })));
    const steppers = frames.map((frame) => frame.contentDocument.querySelector(".stepper"));
    if (steppers.some((each) => each === null)) return;
    steppers.forEach((stepper, k) => {
      const other = steppers[1 - k];
      new MutationObserver(() => {
        const slider = other.querySelector("#step");
        const step = Math.min(Number(stepper.dataset.step), Number(slider.max));
        if (!together.checked || Number(other.dataset.step) === step || Number(stepper.dataset.step) > step) return;
        slider.value = step;
        slider.dispatchEvent(new Event("input"));
      }).observe(stepper, { attributes: true, attributeFilter: ["data-step"] });
    });
  }

  /** What an address says. */
  function set({ program, beside = "" }) {
    if (!(program in lessons)) return;
    first.value = program;
    second.value = beside in lessons ? beside : "";
    begun = false;
  }

  return {
    node: element("div", {}, element("h2", {}, "Warps at work"), element("p", { class: "note" }, "A bundled program at a small size, every warp of one SM and every step of it as the simulator executed them; or two programs that differ in one thing."),
      element("div", { class: "bar", role: "group", "aria-label": "Two that differ in one thing" }, pairs),
      element("div", { class: "bar" }, element("label", {}, "Program ", first), element("label", {}, "beside it ", second), go, element("label", { for: "together" }, together, " in step")), say, stage),
    set,
    refresh: () => (begun ? moved({ program: first.value, beside: second.value }) : show()),
  };
}
