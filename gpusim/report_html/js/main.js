// Puts the page together from the document in it.
import { element } from "gpusim/format";
import { advice, head, heading, section } from "gpusim/sections";
import { makeLines, sourceView } from "gpusim/source";
import { stepper } from "gpusim/stepper";
import { warpsOverCycles } from "gpusim/warps";

const data = JSON.parse(document.getElementById("data").textContent);
const page = document.getElementById("page");
const shows = (name) => data.shown.includes(name);
const stepping = element("div");
const warps = stepper(stepping, data, (file, line) => source.show(file, line));
const source = sourceView(data, makeLines(data), (index) => warps.goTo(index));
const overCycles = element("div");
const untraced = (what) => element("p", { class: "note" }, `No trace was recorded. Simulate with trace=True (the command gpusim run --report does) to ${what} here.`);
if (!data.trace) stepping.append(untraced("step through a warp"));
if (data.warps) warpsOverCycles(overCycles, data, shows("stepper") ? warps.stepsTo : () => null);
else overCycles.append(untraced("see the warps of an SM"));
const fileName = (path) => (path === null ? null : path.split(/[\\/]/).pop());

/** What shows a finding's line in the stepper, null if no warp in the trace executes it. */
function steps(finding) {
  const pcs = new Set(data.code.flatMap(([, , file, line], index) =>
    (line === finding.line && data.source[file]?.name === fileName(finding.file) ? [index] : [])));
  return data.trace?.warps.some((warp) => warp.pc.some((pc) => pcs.has(pc))) ? () => warps.goToDearest(pcs) : null;
}

document.getElementById("head").append(...head(data).filter(Boolean));
const sections = [
  advice(data, shows("source") ? (finding) => source.show(fileName(finding.file), finding.line) : null,
    shows("stepper") ? steps : () => null),
  ...data.sections.map((each) => section(data, each)),
  element("section", { id: "warps", "aria-labelledby": "warps-title" },
    ...heading(data, "warps"),
    overCycles),
  element("section", { id: "stepper", "aria-labelledby": "stepper-title" },
    ...heading(data, "stepper"),
    stepping),
].filter((each) => shows(each.id));
page.replaceChildren(...sections);
document.getElementById("source")?.append(source.node);
document.getElementById("contents").append(element("ul", {}, sections.map((each) =>
  element("li", {}, element("a", { href: `#${each.id}` }, each.querySelector("h2").textContent.replace(/^GPU | (Throughput|Statistics|Analysis)$/g, ""))))));
document.documentElement.dataset.ready = "true";
