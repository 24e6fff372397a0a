// Puts the page together from the document in it.
import { element } from "gpusim/format";
import { advice, head, section } from "gpusim/sections";
import { makeLines, sourceView } from "gpusim/source";
import { stepper } from "gpusim/stepper";

const data = JSON.parse(document.getElementById("data").textContent);
const page = document.getElementById("page");
const source = sourceView(data, makeLines(data));
const fileName = (path) => (path === null ? null : path.split(/[\\/]/).pop());

document.getElementById("head").append(...head(data).filter(Boolean));
const sections = [
  advice(data, (finding) => source.show(fileName(finding.file), finding.line)),
  ...data.sections.map((each) => section(data, each)),
  element("section", { id: "stepper", "aria-labelledby": "stepper-title" },
    element("h2", { id: "stepper-title" }, "Warp Stepper"),
    element("p", { class: "about" }, "One warp, instruction by instruction, as the simulator executed it: which lanes run, where the others wait, what they address."),
    stepper(data, (file, line) => source.show(file, line))),
];
page.replaceChildren(...sections);
document.getElementById("source").append(source.node);
document.getElementById("contents").append(element("ul", {}, sections.map((each) =>
  element("li", {}, element("a", { href: `#${each.id}` }, each.querySelector("h2").textContent.replace(/^GPU | (Throughput|Statistics|Analysis)$/g, ""))))));
document.documentElement.dataset.ready = "true";
