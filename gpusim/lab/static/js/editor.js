// The editor: a text area without colour over the same text in colours, and beside it numbers and shares of lines.
import { coloured } from "gpusim/colours";
import { element } from "gpusim/format";

const LOUD = 0.02; // share of the time from which a line is marked
const INDENT = 4;
const LARGEST = 1 << 20;
const LANGUAGES = { py: "python", cu: "cuda", cuh: "cuda" };

/** For each line of a text that was changed, the number that it had before; 0 for a new one. */
export function former(before, now) {
  const most = Math.min(before.length, now.length);
  let head = 0;
  while (head < most && before[head] === now[head]) head += 1;
  let tail = 0;
  while (tail < most - head && before.at(-1 - tail) === now.at(-1 - tail)) tail += 1;
  return now.map((_, k) => (k < head ? k + 1 : k >= now.length - tail ? k + 1 + before.length - now.length : 0));
}

/** Reads a kernel's file. taken: called with its name, text and language; refused: with a sentence. */
export async function readFile(file, taken, refused) {
  const language = LANGUAGES[file.name.split(".").at(-1).toLowerCase()];
  if (!language) refused(`${file.name}: a kernel's file ends in .py or .cu`);
  else if (file.size > LARGEST) refused(`${file.name} is larger than a kernel's file`);
  else taken(file.name, (await file.text()).replaceAll("\r\n", "\n"), language);
}

/** A button that opens a file, for who has nothing to drag it from. */
export function fileButton(taken, refused) {
  const input = element("input", { type: "file", accept: ".py,.cu,.cuh,text/*", hidden: true, "data-file": true, onchange: () => {
    if (input.files.length) readFile(input.files[0], taken, refused);
    input.value = "";
  } });
  return element("span", {}, input, element("button", { type: "button", onclick: () => input.click() }, "Open a file"));
}

/** An editor. run: called by Ctrl+Enter; wrote: with the text that somebody has changed; taken, refused: as by
 * `readFile`, for a file that is dropped; pointed: with the number of the line that somebody points at, as it was when
 * it ran, or null, and true if the cursor was put there. */
export function editor({ run, label = "Kernel", wrote = () => {}, taken, refused, pointed = () => {} }) {
  const gutter = element("pre", { class: "gutter", "aria-hidden": "true" });
  const paper = element("pre", { class: "paint", "aria-hidden": "true" });
  const help = element("p", { class: "note", id: `help-${label.toLowerCase()}` },
    "Tab and Shift+Tab move lines in and out; Escape, then Tab, leaves the editor. Ctrl+Enter runs. A file (.py, .cu) can be dropped here.");
  const area = element("textarea", {
    spellcheck: "false", autocapitalize: "off", autocomplete: "off", autocorrect: "off", wrap: "off", "aria-label": label, "aria-describedby": help.id,
    oninput: () => written(), onkeydown: keys, onmousemove: (event) => point(lineAt(event.clientY), false),
    onmouseleave: () => point(document.activeElement === area ? caret() : null, false),
    onblur: () => { leaving = false; },
  });
  const frame = element("div", { class: "editor", ondragover: (event) => { event.preventDefault(); frame.classList.add("over"); }, ondragleave: () => frame.classList.remove("over"), ondrop: drop },
    gutter, element("div", { class: "sheet" }, paper, area));
  let language = "python";
  let wrong = null;
  let ran = { lines: [], of: new Map() };
  let numbers = [];
  let marked = null;
  let leaving = false;
  document.addEventListener("selectionchange", () => { if (document.activeElement === area) point(caret(), true); });

  const caret = () => area.value.slice(0, area.selectionStart).split("\n").length;
  const row = (line) => paper.children[line - 1];
  function lineAt(y) {
    const { top, height } = row(1).getBoundingClientRect();
    return Math.min(Math.max(Math.floor((y - top) / height) + 1, 1), paper.children.length);
  }

  function draw() {
    const lines = area.value.split("\n");
    numbers = former(ran.lines, lines);
    const costs = numbers.map((number) => ran.of.get(number) ?? { share: 0, band: null });
    const wrongAt = wrong === null ? -1 : numbers.indexOf(wrong);
    const colours = coloured(area.value, language);
    paper.replaceChildren(...lines.map((_, k) => element("span", { class: ["row", costs[k].band === null ? "" : `band band-${costs[k].band}`, k === wrongAt ? "wrong" : ""].join(" ") },
      ...colours[k].map(([kind, part]) => element("span", kind ? { class: kind } : {}, part)), "\n")));
    gutter.replaceChildren(...lines.map((_, k) => {
      const { share } = costs[k];
      return element("span", { class: k === wrongAt ? "wrong" : "", style: share ? `background: rgba(var(--heat), ${Math.min(share * 1.4, 0.8).toFixed(2)})` : null },
        share >= LOUD ? element("span", { class: "share", style: "display:inline" }, `${(100 * share).toFixed(0)} % `) : "", `${k + 1}`);
    }));
    mark();
  }

  function mark() {
    const at = marked === null ? 0 : numbers.indexOf(marked) + 1;
    [...paper.children].forEach((each, k) => each.classList.toggle("marked", k + 1 === at));
    return at;
  }

  function point(line, chosen) {
    const number = line === null ? null : numbers[line - 1] || null;
    if (number === marked && !chosen) return;
    marked = number;
    mark();
    pointed(number, chosen);
  }

  function written() {
    wrong = null;
    draw();
    wrote(area.value);
  }

  /** Puts a text in the place of a part of the old one, so that it can be undone. */
  function replace(from, to, text) {
    area.setSelectionRange(from, to);
    if (!document.execCommand(text ? "insertText" : "delete", false, text)) area.setRangeText(text, from, to, "end");
  }

  /** Moves the lines that are chosen in or out by a step. */
  function shift(out) {
    const [start, end] = [area.selectionStart, area.selectionEnd];
    const from = area.value.lastIndexOf("\n", start - 1) + 1;
    const stop = end > start && area.value[end - 1] === "\n" ? end - 1 : end;
    const next = area.value.indexOf("\n", stop);
    const to = next < 0 ? area.value.length : next;
    const old = area.value.slice(from, to).split("\n");
    const lines = old.map((line) => (out ? line.replace(/^(\t| {1,4})/, "") : line && " ".repeat(INDENT) + line));
    const text = lines.join("\n");
    if (text === area.value.slice(from, to)) return;
    replace(from, to, text);
    const first = Math.max(start + lines[0].length - old[0].length, from);
    area.setSelectionRange(start === end ? first : from, start === end ? first : from + text.length);
  }

  /** A new line, indented as the one before it, and once more behind what opens a block. */
  function breakLine() {
    const from = area.value.lastIndexOf("\n", area.selectionStart - 1) + 1;
    const before = area.value.slice(from, area.selectionStart);
    const opens = (language === "python" ? /:\s*(#.*)?$/ : /[{]\s*(\/\/.*)?$/).test(before);
    const step = " ".repeat(language === "python" ? INDENT : 2);
    replace(area.selectionStart, area.selectionEnd, `\n${/^[ \t]*/.exec(before)[0]}${opens ? step : ""}`);
  }

  function keys(event) {
    const plain = !event.altKey && !event.ctrlKey && !event.metaKey && !event.isComposing;
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run();
    else if (event.key === "Enter" && plain && !event.shiftKey) breakLine();
    else if (event.key === "Tab" && plain && !leaving) {
      const several = area.value.slice(area.selectionStart, area.selectionEnd).includes("\n");
      if (event.shiftKey || several) shift(event.shiftKey);
      else {
        const column = area.selectionStart - area.value.lastIndexOf("\n", area.selectionStart - 1) - 1;
        replace(area.selectionStart, area.selectionEnd, " ".repeat(INDENT - (column % INDENT)));
      }
    } else {
      if (event.key !== "Shift") leaving = event.key === "Escape"; // so that a keyboard gets out of it
      return;
    }
    event.preventDefault();
  }

  function drop(event) {
    frame.classList.remove("over");
    const [file] = event.dataTransfer.files;
    if (!file) return;
    event.preventDefault();
    readFile(file, taken, refused);
  }

  /** Brings a line into sight, in the editor's own frame alone. */
  function reveal(line) {
    const at = row(line);
    if (!at) return;
    const [outer, inner] = [frame.getBoundingClientRect(), at.getBoundingClientRect()];
    if (inner.top < outer.top || inner.bottom > outer.bottom) frame.scrollTop += inner.top - outer.top - outer.height / 3;
  }

  return {
    node: element("div", { class: "text" }, frame, help),
    get value() { return area.value; },
    get language() { return language; },
    /** Opens a text. */
    open(text, of = "python") {
      area.value = text;
      language = of;
      frame.scrollTop = 0;
      this.mark(null);
    },
    /** Marks a wrong line of the text that ran, or its lines by what they cost: share and band by number. */
    mark(line, costs = new Map(), source = area.value) {
      wrong = line;
      marked = null;
      ran = { lines: source.split("\n"), of: costs };
      draw();
      if (line) reveal(numbers.indexOf(line) + 1);
    },
    /** Marks the line that had a number when the text ran. */
    point(number, chosen) {
      marked = number;
      const at = mark();
      if (chosen && at) reveal(at);
    },
    /** Puts the cursor into a line. */
    go(number) {
      const at = numbers.indexOf(number);
      if (at < 0) return;
      const from = area.value.split("\n").slice(0, at).join("\n").length + (at ? 1 : 0);
      area.focus();
      area.setSelectionRange(from, from);
    },
  };
}
