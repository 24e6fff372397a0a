// For teachers: how the lab serves a class, and slides made of its pictures: each with a question, an answer and notes.
import { count, element } from "gpusim/format";
import { play } from "gpusim/play";

/** A slide. of: an experiment of Play, or programs whose predictions are its picture, of which the first stands there
 * before the answer; ask: what the class writes down; answer; notes: for the teacher; wanted: titles of exercises. */
const LESSONS = [
  {
    title: "Lanes wait for each other", of: "steps",
    ask: "Eight lanes take the if, which is eight instructions; the others take the else, which is sixteen. How many of them does the warp issue: 8, 16 or 24? And lane 31 makes seven rounds of the loop: how many does the warp make?",
    answer: "24, and a jump: one side, then the other, and whoever is not in it waits. The warp makes seven rounds, as many as the lane with the most; every lane that has finished waits for it.",
    notes: "Let them point at the row where the else begins. Then lane % 2 == 0: as many instructions as before, so it does not matter how many lanes go either way. With lane < 32 the else disappears. Last, lane == 5 ? 12 : 1: one lane keeps 31 waiting.",
    wanted: ["No divergent branch"],
  },
  {
    title: "Ways of a warp", of: "ways",
    ask: "A warp whose lanes go one way takes some 620 cycles here, with no further rounds. How many does it take when its lanes go 2 ways, and how many with 32?",
    answer: "An H100 took 1,123 and 17,325 cycles: every way takes its turn. With warp % ways it took 666 for 32 ways, since there each warp goes one way, and warps do not wait for each other.",
    notes: "Set Further rounds to 0 and Ways to 1, then double Ways. Then change which lane goes which way to warp % ways: the same work and no divergence. Ask which of their own programs has a branch that depends on the lane.",
    wanted: ["Full warps"],
  },
  {
    title: "Banks", of: "banks",
    ask: "How many wavefronts does a load of four bytes take with a stride of 2, of 3 and of 32? And with a stride of 32 and one element of padding?",
    answer: "2, 1 and 32; with the padding 1. An odd stride has no factor in common with 32 banks, so 32 lanes meet 32 banks. The padding makes a stride of 32 one of 33.",
    notes: "Move the stride from 1 to 4 and let them explain the pictures before 32. With eight bytes an element and a stride of 1 a warp's load is served in two halves, which the picture shows as two blue rows.",
    wanted: ["One wavefront a load"],
  },
  {
    title: "Sectors", of: "sectors",
    ask: "How many sectors of 32 bytes does a warp's load of four bytes touch with a stride of 1, 2, 8 and 32? From which stride on does the number not grow? What does an offset of 1 cost with stride 1?",
    answer: "4, 8, 32 and 32: from 8 on each lane has a sector of its own. An offset of 1 costs a fifth sector.",
    notes: "The sectors do not grow beyond a stride of 8, the lines do: look at the cycles of 8 and 32. With 16 bytes an element a stride of 1 touches 16 sectors, and none in vain.",
    wanted: ["Neighbours read neighbours", "Only what is asked for"],
  },
  {
    title: "Shapes of blocks", of: "pixels",
    ask: "Blocks of 256 threads are 256 x 1, 32 x 8, 16 x 16, 4 x 64 or 1 x 256. How many sectors does the first warp read in each?",
    answer: "4, 4, 4, 8 and 32. Eight neighbours in a row fill a sector of 32 bytes, so it gets worse below 8.",
    notes: "Draw on the board how threads are numbered: along x first. Then a block of 4 x 4: half of its only warp's lanes do not exist.",
    wanted: ["Every element", "A matrix turned round"],
  },
  {
    title: "Sums", of: [["reduction/interleaved_divergent", 262144], ["reduction/interleaved_conflicts", 262144], ["reduction/sequential", 262144], ["reduction/shuffle", 262144]],
    ask: "The sum of 262,144 numbers, where every second thread of a warp rests. What happens to the time if neighbouring threads work, but their words share banks? If they share none? If lanes exchange registers instead?",
    answer: "Each is faster than the one before, by less each time: what remains is the start of the launch and the way to memory.",
    notes: "Watch has all four: show the first beside the third, in step. With 65,536 numbers the last takes longer than the third, since its 32 blocks leave most SMs empty: gpusim run says so.",
    wanted: ["Full warps", "A sum without shared memory", "90 % of the roof"],
  },
  {
    title: "A product", of: [["matmul/naive", 128], ["matmul/tiled", 128]], sectors: true,
    ask: "In a product of two matrices of 128 x 128, each thread loads a row and a column. If a block of 16 x 16 threads loads each tile once, how many fewer sectors are loaded, and how much faster is it?",
    answer: "What a tile holds is used sixteen times. The sectors go down by less, since the lanes of a warp had shared some of theirs, and the time by less than that, since a launch of 64 blocks does not fill the GPU.",
    notes: "Let them count first: 2 x 128 loads a thread before, 2 x 8 after. Then the exercise, in which the counter decides.",
    wanted: ["A tiled product"],
  },
];

/** Bars of what programs are predicted to take, asked for one after the other. */
function bars(programs, { ask, gpu, sectors }) {
  const node = element("div", { class: "bars", "data-state": "waiting" }, element("p", { class: "note" }, "Runs …"));
  async function fill() {
    const found = [];
    for (const [program, size] of programs) {
      const answer = await ask("machine", { gpu, changes: [], program, size });
      if (answer.error !== undefined) throw new Error(answer.error);
      found.push([program, answer.is]);
    }
    const chart = (name, key, spell) => element("div", {}, element("p", { class: "note" }, name), found.map(([program, is]) => element("div", { class: "barline" }, element("code", {}, program),
      element("span", {}, element("i", { style: `width:${(100 * is[key]) / Math.max(...found.map((each) => each[1][key]))}%` })), element("b", {}, spell(is[key])))));
    node.replaceChildren(chart(`Predicted time on an ${gpu}`, "time_us", (value) => `${value.toFixed(2)} µs`), ...(sectors ? [chart("Sectors of loads from global memory", "sectors", count)] : []));
    node.dataset.state = "ready";
  }
  const show = () => fill().catch((error) => { node.replaceChildren(element("p", { class: "error" }, String(error.message ?? error))); });
  return { node, show };
}

export function teach({ play: experiments, exercises, measured, predict, ask }) {
  const slides = LESSONS.map((lesson, k) => {
    const then = exercises.flatMap((each, at) => (lesson.wanted.includes(each.title) ? [`exercise ${at + 1}, ${each.title}`] : []));
    const answer = element("details", { class: "answer" }, element("summary", {}, "The answer"), element("p", {}, lesson.answer));
    const slide = element("section", { class: "slide", "aria-label": lesson.title }, element("h2", {}, `${k + 1}. ${lesson.title}`),
      element("p", { class: "question" }, element("b", {}, "Write down first: "), lesson.ask));
    if (typeof lesson.of === "string") {
      const page = play({ experiments: experiments.filter((each) => each.name === lesson.of), predict, measured, machine: () => measured.gpu });
      slide.append(page.node.querySelector(".experiment"));
      slide.querySelector(".experiment > .about").remove();
    } else {
      const how = { ask, gpu: measured.gpu, sectors: lesson.sectors };
      const [first, all] = [bars(lesson.of.slice(0, 1), how), bars(lesson.of, how)];
      slide.append(first.node);
      answer.append(all.node);
      answer.addEventListener("toggle", () => { if (answer.open && all.node.dataset.state === "waiting") all.show(); });
      first.show();
    }
    slide.append(answer, element("details", { class: "teacher" }, element("summary", {}, "For the teacher"), element("p", {}, lesson.notes)));
    if (then.length) slide.append(element("p", { class: "note" }, `Then: ${then.join("; ")}.`));
    return slide;
  });
  const unfold = (event) => { for (const each of slides) for (const part of each.querySelectorAll("details")) part.open = event.target.checked; };
  return {
    node: element("div", {}, element("h2", {}, "For teachers"),
      element("p", {}, "Seven lessons of a quarter of an hour. Each begins with a question to which the class writes down a number; then the sliders answer, with what a real GPU measured beside the prediction; then everybody solves the exercises at their own machine, where counters say whether a goal is reached. Progress stays on each machine, until a student hands in the file of it that Solve makes; gpusim lab --progress FOLDER makes one table of a folder of them. Exercises of your own: gpusim lab --exercises FILE.toml."),
      element("p", {}, "The slides below are live: their sliders move, and printing the page gives one slide a sheet, with what is unfolded."),
      element("div", { class: "bar" }, element("button", { type: "button", class: "main", onclick: () => print() }, "Print the slides"), element("label", {}, element("input", { type: "checkbox", "data-unfold": true, onchange: unfold }), " answers and notes unfolded")),
      element("div", { class: "slides" }, slides)),
  };
}
