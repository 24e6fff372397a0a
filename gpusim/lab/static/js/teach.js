// For teachers: how the lab serves a class, and slides made of its pictures.
import { element } from "gpusim/format";
import { play } from "gpusim/play";

const LESSONS = [
  ["Lanes and branches", "ways", "Ask first: how long does a warp take whose lanes go two ways? Then move Ways from 1 to 32, and Which lane goes which way to warp % ways: the same work, and no divergence.", ["No divergent branch", "Full warps"]],
  ["Banks", "banks", "Let them predict the wavefronts of stride 2, 3 and 32. Then one word of padding. Why is an odd stride free?", ["One wavefront a load"]],
  ["Sectors", "sectors", "Stride 1, then 2, 8, 32: when does it stop getting worse? Offset 1 shows what alignment costs.", ["Neighbours read neighbours", "Only what is asked for"]],
  ["Shapes of blocks", "pixels", "Blocks of 256 threads: 256 x 1, 32 x 8, 16 x 16, 1 x 256. Same threads, other sectors.", ["Every element", "A matrix turned round"]],
  ["Sums", null, "A reduction in three steps: full warps, then without shared memory, then limited by DRAM alone.", ["Full warps", "A sum without shared memory", "90 % of the roof"]],
  ["A product", null, "Tiles: what is loaded once and used sixteen times. Count sectors before and after.", ["A tiled product"]],
];

export function teach({ play: experiments, exercises, measured }) {
  const slides = LESSONS.map(([title, name, text, wanted]) => {
    const then = exercises.flatMap((each, k) => (wanted.includes(each.title) ? [`exercise ${k + 1}, ${each.title}`] : []));
    const slide = element("section", { class: "slide" }, element("h2", {}, title), element("p", {}, text),
      then.length ? element("p", { class: "note" }, `Then: ${then.join("; ")}.`) : null);
    if (name) {
      const page = play({ experiments: experiments.filter((each) => each.name === name), predict: null, measured, machine: () => null });
      slide.append(page.node.querySelector(".experiment"));
      slide.querySelector(".experiment > .about").remove();
    }
    return slide;
  });
  return {
    node: element("div", {}, element("h2", {}, "For teachers"),
      element("p", {}, "Six lessons of a quarter of an hour. Each begins with a question to which the class writes down a number; then the sliders answer, with what a real GPU measured beside the prediction; then everybody solves the exercises at their own machine, where counters say whether a goal is reached. Progress stays on each machine, until a student hands in the file of it that Solve makes. Exercises of your own: gpusim lab --exercises FILE.toml."),
      element("p", {}, "The slides below are live: their sliders move, and printing the page gives one slide a sheet."),
      element("div", { class: "bar" }, element("button", { type: "button", class: "main", onclick: () => print() }, "Print the slides")),
      element("div", { class: "slides" }, slides)),
  };
}
