// For teachers: how the lab serves a class, and slides made of its pictures.
import { element } from "gpusim/format";
import { play } from "gpusim/play";

const LESSONS = [
  ["Lanes and branches", "ways", "Ask first: how long does a warp take whose lanes go two ways? Then move Ways from 1 to 32, and Which lane goes which way to warp % ways: the same work, and no divergence.", [3, 5]],
  ["Banks", "banks", "Let them predict the wavefronts of stride 2, 3 and 32. Then one word of padding. Why is an odd stride free?", [4]],
  ["Sectors", "sectors", "Stride 1, then 2, 8, 32: when does it stop getting worse? Offset 1 shows what alignment costs.", [2, 7]],
  ["Shapes of blocks", "pixels", "Blocks of 256 threads: 256 x 1, 32 x 8, 16 x 16, 1 x 256. Same threads, other sectors.", [1, 11]],
  ["Sums", null, "A reduction in three steps: full warps, then without shared memory, then limited by DRAM alone.", [5, 6, 10]],
  ["A product", null, "Tiles: what is loaded once and used sixteen times. Count sectors before and after.", [12]],
];

export function teach({ play: experiments, exercises, measured }) {
  const slides = LESSONS.map(([title, name, text, numbers]) => {
    const slide = element("section", { class: "slide" }, element("h2", {}, title), element("p", {}, text),
      element("p", { class: "note" }, `Then: ${numbers.map((number) => `exercise ${number}, ${exercises[number - 1].title}`).join("; ")}.`));
    if (name) {
      const page = play({ experiments: experiments.filter((each) => each.name === name), predict: null, measured, machine: () => null });
      slide.append(page.node.querySelector(".experiment"));
      slide.querySelector(".experiment > .about").remove();
    }
    return slide;
  });
  return {
    node: element("div", {}, element("h2", {}, "For teachers"),
      element("p", {}, "Six lessons of a quarter of an hour. Each begins with a question to which the class writes down a number; then the sliders answer, with what a real GPU measured beside the prediction; then everybody solves the exercises at their own machine, where counters say whether a goal is reached. Progress stays on each machine."),
      element("p", {}, "The slides below are live: their sliders move, and printing the page gives one slide a sheet."),
      element("div", { class: "bar" }, element("button", { type: "button", class: "main", onclick: () => print() }, "Print the slides")),
      element("div", { class: "slides" }, slides)),
  };
}
