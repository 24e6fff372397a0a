// The rooms of the lab. Without a server there is one of them: Play, with its rules and the recorded figures.
import { element } from "gpusim/format";
import { play } from "gpusim/play";

const data = JSON.parse(document.getElementById("data").textContent);
const served = data.gpus !== undefined;
const stage = document.getElementById("room");
const rooms = document.getElementById("rooms");
const select = served ? element("select", { "aria-label": "GPU", onchange: () => opened?.refresh?.() }, data.gpus.map((name) => element("option", { value: name, selected: name === "h200" }, name))) : null;
const gpu = () => select?.value;
let opened = null;

const places = Object.fromEntries(Object.entries(data.measured.experiments).map(([name, found]) => {
  const { sliders } = data.play.find((each) => each.name === name);
  const table = new Map();
  product(sliders.map((each) => each.recorded)).filter(([x, y]) => name !== "pixels" || x * y <= 1024)
    .forEach((place, k) => table.set(place.join(), found[k]));
  return [name, (place) => table.get(sliders.map((each) => place[each.name]).join()) ?? null];
}));
const measured = Object.assign((name, place) => places[name](place), { gpu: data.measured.gpu });

function product(lists) {
  return lists.reduce((found, list) => found.flatMap((each) => list.map((value) => [...each, value])), [[]]);
}

const make = { play: async () => {
  const { ask } = served ? await import("gpusim/ask") : {};
  const predict = served ? async (experiment, place) => {
    const answer = await ask("predict", { experiment, place, gpu: gpu() });
    if (answer.late) return new Promise(() => {});
    if (answer.error !== undefined) throw new Error(answer.error);
    return answer;
  } : null;
  return play({ experiments: data.play, predict, measured, machine: gpu, moved: (name, place) => {
    history.replaceState(null, "", `#play/${name}?${new URLSearchParams({ ...place, ...(served ? { gpu: gpu() } : {}) })}`);
  } });
} };
if (served) {
  make.write = async () => (await import("gpusim/write")).write({ ...data, gpu, ask: (await import("gpusim/ask")).ask });
  make.watch = async () => (await import("gpusim/watch")).watch({ ...data, gpu, ask: (await import("gpusim/ask")).ask });
  make.solve = async () => (await import("gpusim/solve")).solve({ ...data, ask: (await import("gpusim/ask")).ask });
  make.explore = async () => (await import("gpusim/explore")).explore({ programs: data.explored, gpu, ask: (await import("gpusim/ask")).ask });
  make.teach = async () => (await import("gpusim/teach")).teach({ ...data, measured });
}
const NAMES = { play: "Play", write: "Write", watch: "Watch", solve: "Solve", explore: "Explore", teach: "Teach" };
const made = new Map();

/** Shows a room. experiment, place: of Play, as an address has them. */
async function open(name, experiment, place) {
  if (!made.has(name)) made.set(name, await make[name]());
  opened = made.get(name);
  if (experiment) opened.open(experiment, place);
  stage.replaceChildren(opened.node);
  if (name !== "play") history.replaceState(null, "", `#${name}`);
  opened.refresh?.();
  for (const button of rooms.children) button.setAttribute("aria-current", button.dataset.room === name ? "page" : "false");
  document.documentElement.dataset.room = name;
}

/** Opens what the address says: a room, and for Play its experiment, sliders and GPU. */
function follow() {
  const [, room, , name, , query] = location.hash.match(/^#(\w+)(\/(\w+))?(\?(.*))?$/) ?? [];
  const place = Object.fromEntries(new URLSearchParams(query));
  if (served && data.gpus.includes(place.gpu)) select.value = place.gpu;
  if (make[room]) open(room, room === "play" && data.play.some((each) => each.name === name) ? name : undefined, place);
  else open("play");
}

rooms.append(...Object.keys(make).map((name) => element("button", { type: "button", "data-room": name, onclick: () => { history.pushState(null, "", `#${name}`); open(name); } }, NAMES[name])));
if (served) document.getElementById("machine").append(element("label", {}, "GPU ", select));
else rooms.hidden = true;
addEventListener("popstate", follow); // also for an address that somebody enters
follow();
