// Puts the page together from the document in it.
import { element } from "gpusim/format";
import { advice, head, section } from "gpusim/sections";
import { makeLines, sourceView } from "gpusim/source";
import { stepper } from "gpusim/stepper";

const data = JSON.parse(document.getElementById("data").textContent);
const page = document.getElementById("page");
const warps = stepper(data, (file, line) => source.show(file, line));
const source = sourceView(data, makeLines(data), (index) => warps.goTo(index));
const fileName = (path) => (path === null ? null : path.split(/[\\/]/).pop());

/** What shows a finding's line in the stepper, null if no warp in the trace executes it. */
function steps(finding) {
  const pcs = new Set(data.instructions.flatMap(([, , file, line], index) =>
    (line === finding.line && data.source[file]?.name === fileName(finding.file) ? [index] : [])));
  return data.trace?.warps.some((warp) => warp.pc.some((pc) => pcs.has(pc))) ? () => warps.goToDearest(pcs) : null;
}

document.getElementById("head").append(...head(data).filter(Boolean));
const shows = (name) => data.shown.includes(name);
const sections = [
  advice(data, shows("source") ? (finding) => source.show(fileName(finding.file), finding.line) : null,
    shows("stepper") ? steps : () => null),
  ...data.sections.map((each) => section(data, each)),
  element("section", { id: "stepper", "aria-labelledby": "stepper-title" },
    element("h2", { id: "stepper-title" }, "Warp Stepper"),
    element("p", { class: "about" }, "One warp, instruction by instruction, as the simulator executed it: which lanes run, where the others wait, what they address."),
    warps.node),
].filter((each) => shows(each.id));
page.replaceChildren(...sections);
document.getElementById("source")?.append(source.node);
document.getElementById("contents").append(element("ul", {}, sections.map((each) =>
  element("li", {}, element("a", { href: `#${each.id}` }, each.querySelector("h2").textContent.replace(/^GPU | (Throughput|Statistics|Analysis)$/g, ""))))));
document.documentElement.dataset.ready = "true";
