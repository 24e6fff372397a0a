// One or two programs, warp by warp: their reports side by side, and stepped together.
import { element } from "gpusim/format";

export function watch({ programs, ask, gpu }) {
  const stage = element("div", { class: "frames" });
  const say = element("p", { class: "note", "aria-live": "polite" }, "Choose a program, and a second one to see both in step.");
  const first = chooser("Program", "bank_conflict/32", false);
  const second = chooser("Beside it", "", true);
  const together = element("input", { type: "checkbox", id: "together", checked: true });
  const go = element("button", { type: "button", class: "main", "data-watch": true, onclick: show }, "Show");

  function chooser(label, chosen, empty) {
    const names = empty ? ["", ...programs] : programs;
    return element("select", { "aria-label": label }, names.map((name) => element("option", { value: name, selected: name === chosen }, name || "nothing")));
  }

  async function show() {
    go.disabled = true;
    say.textContent = "Runs …";
    const frames = [];
    try {
      for (const name of [first.value, second.value].filter(Boolean)) {
        const answer = await ask("watch", { program: name, gpu: gpu(), size: null });
        if (answer.error !== undefined) throw new Error(answer.error);
        frames.push(element("iframe", { src: `/report/${answer.report}#warps`, title: `${name}, warp by warp` }));
      }
      stage.replaceChildren(...frames);
      say.textContent = frames.length > 1 ? "Step in one of them; the other follows." : "";
      if (frames.length > 1) await follow(frames);
    } catch (error) {
      say.textContent = String(error.message ?? error);
    }
    go.disabled = false;
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

  return {
    node: element("div", {}, element("div", { class: "bar" }, first, second, go, element("label", { for: "together" }, together, " in step")), say, stage),
  };
}
