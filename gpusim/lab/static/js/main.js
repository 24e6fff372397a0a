// The rooms of the lab. Without a server there is one of them: Play, with its rules and the recorded figures.
import { element } from "gpusim/format";
import { play } from "gpusim/play";

const data = JSON.parse(document.getElementById("data").textContent);
const served = data.gpus !== undefined;
const stage = document.getElementById("room");
const rooms = document.getElementById("rooms");
/** The GPU that was recorded, as its configuration is named: Play begins with it, so that a recording stands beside a prediction of the same GPU. */
const recorded = data.measured.gpu.match(/NVIDIA (\w+)/)[1].toLowerCase();
const chosen = { play: recorded };
const select = served ? element("select", { "aria-label": "GPU", onchange: () => { chosen[shown] = select.value; opened?.refresh?.(); } }, data.gpus.map((name) => element("option", { value: name }, name))) : null;
const gpu = () => select?.value ?? recorded;
let opened = null;
let shown = null;

const places = Object.fromEntries(Object.entries(data.measured.experiments).map(([name, found]) => {
  const { sliders } = data.play.find((each) => each.name === name);
  const table = new Map();
  product(sliders.map((each) => each.recorded)).filter(([x, y]) => name !== "pixels" || x * y <= 1024)
    .forEach((place, k) => table.set(place.join(), found[k]));
  return [name, (place) => table.get(sliders.map((each) => place[each.name]).join()) ?? null];
}));
/** Cycles that the recorded GPU took; null where it was not measured, undefined of an experiment that was not. */
const measured = Object.assign((name, place) => places[name]?.(place), { gpu: recorded });

function product(lists) {
  return lists.reduce((found, list) => found.flatMap((each) => list.map((value) => [...each, value])), [[]]);
}

/** What predicts a place for a GPU: the server, or without one what the file brings; null where it brings nothing. */
const predictor = (machine) => (experiment, place) => {
  if (!served) {
    const known = data.predicted[experiment]?.[Object.values(place).join()];
    return known ? Promise.resolve(known) : null;
  }
  return import("gpusim/ask").then(({ ask }) => ask("predict", { experiment, place, gpu: machine() })).then((answer) => {
    if (answer.error !== undefined && !answer.late) throw new Error(answer.error);
    return answer;
  });
};
const addressed = (room) => (place) => history.replaceState(null, "", `#${room}?${new URLSearchParams({ ...place, ...(served ? { gpu: gpu() } : {}) })}`);

const make = { play: async () => play({ experiments: data.play, predict: predictor(gpu), measured, machine: gpu, moved: (name, place) => addressed(`play/${name}`)(place) }) };
if (served) {
  make.write = async () => (await import("gpusim/write")).write({ ...data, gpu, ask: (await import("gpusim/ask")).ask });
  make.watch = async () => (await import("gpusim/watch")).watch({ ...data, gpu, ask: (await import("gpusim/ask")).ask, moved: addressed("watch") });
  make.solve = async () => (await import("gpusim/solve")).solve({ ...data, ask: (await import("gpusim/ask")).ask });
  make.explore = async () => (await import("gpusim/explore")).explore({ ...data.explored, gpu, ask: (await import("gpusim/ask")).ask, moved: addressed("explore"), choose: (name) => { select.value = chosen.explore = name; } });
  make.teach = async () => (await import("gpusim/teach")).teach({ ...data, measured, predict: predictor(() => recorded), ask: (await import("gpusim/ask")).ask });
}
const NAMES = { play: "Play", write: "Write", watch: "Watch", solve: "Solve", explore: "Explore", teach: "Teach" };
const made = new Map();

/** Shows a room. experiment: of Play; place: what an address says of sliders and choices. */
async function open(name, experiment, place = {}) {
  if (shown !== name) scrollTo(0, 0);
  shown = name;
  if (served) select.value = chosen[name] ??= "h200";
  document.getElementById("machine").hidden = name === "solve" || name === "teach";
  if (!made.has(name)) made.set(name, await make[name]());
  opened = made.get(name);
  if (experiment) opened.open(experiment, place);
  if (!experiment && Object.keys(place).length) opened.set?.(place);
  stage.replaceChildren(opened.node);
  if (!["play", "explore", "watch"].includes(name)) history.replaceState(null, "", `#${name}`);
  opened.refresh?.();
  for (const button of rooms.children) button.setAttribute("aria-current", button.dataset.room === name ? "page" : "false");
  document.documentElement.dataset.room = name;
}

/** Opens what the address says: a room, for Play its experiment, and sliders, choices and GPU. */
function follow() {
  const [, room, , name, , query] = location.hash.match(/^#(\w+)(\/(\w+))?(\?(.*))?$/) ?? [];
  const place = Object.fromEntries(new URLSearchParams(query));
  if (served && data.gpus.includes(place.gpu)) chosen[room] = place.gpu;
  if (make[room]) open(room, room === "play" && data.play.some((each) => each.name === name) ? name : undefined, place);
  else open("play");
}

rooms.append(...Object.keys(make).map((name) => element("button", { type: "button", "data-room": name, onclick: () => { history.pushState(null, "", `#${name}`); open(name); } }, NAMES[name])));
if (served) document.getElementById("machine").append(element("label", {}, "GPU ", select));
else rooms.hidden = true;
addEventListener("popstate", follow); // also for an address that somebody enters
follow();
