// Where the lanes of one access go: banks by wavefront in shared memory, sectors and lines in global memory.
import { element, hexadecimal, ranges, svg } from "gpusim/format";

const CELL = 26;
const ROW = 22;
const LEFT = 64;
const MOST_ROWS = 34;
export const SECTOR_BYTES = 32;
export const LINE_BYTES = 128;

/** [lane, address] of every lane that has a part in the access. */
export function lanesOfAccess(trace, access) {
  const [, , , base, pattern] = access;
  if (pattern < 0) return [];
  return trace.patterns[pattern].map((offset, lane) => [lane, base + offset, offset]).filter(([, , offset]) => offset >= 0);
}

/** Wavefronts of a shared-memory access: each a map from bank to the word and lanes that it serves.
 * `together`: lanes of one pass: all for up to a bank's width, fewer for wider accesses. */
export function wavefronts(lanes, size, banks, width, together) {
  const found = [];
  for (let first = 0; first < 32; first += together) {
    const pass = [];
    const places = new Map();
    for (const [lane, address] of lanes.filter(([each]) => each >= first && each < first + together)) {
      for (let k = 0; k < Math.max(size / width, 1); k += 1) {
        const word = Math.floor(address / width) + k;
        const bank = word % banks;
        const words = places.get(bank) ?? [];
        places.set(bank, words);
        if (!words.includes(word)) words.push(word);
        const number = words.indexOf(word);
        pass[number] ??= new Map();
        const cell = pass[number].get(bank) ?? { word, lanes: [] };
        cell.lanes.push(lane);
        pass[number].set(bank, cell);
      }
    }
    found.push(...pass);
  }
  return found;
}

const doing = (store, size, lanes) =>
  `${store ? "Writes" : "Reads"} ${size} byte${size === 1 ? "" : "s"} for ${lanes === 1 ? "one lane" : `each of ${lanes} lanes`}`;

/** Lanes that shared memory can serve at once: as many as fill the banks. */
export function passLanes(size, banks, width) {
  let lanes = 32;
  while (lanes > 1 && lanes * size > banks * width) lanes >>= 1;
  return lanes;
}

export function sharedMap(trace, access) {
  const [, store, size, , , count, ideal] = access;
  const lanes = lanesOfAccess(trace, access);
  const { banks, bank_bytes: width } = trace;
  let together = passLanes(size, banks, width);
  let rows = wavefronts(lanes, size, banks, width, together);
  while (rows.length > count && together < 32) {
    together *= 2; // neighbouring passes of a wide load that read the same words go together
    rows = wavefronts(lanes, size, banks, width, together);
  }
  const degree = Math.max(...rows.map((_, k) => k + 1), 1);
  const shared = rows.flatMap((row) => [...row.values()]).filter((cell) => cell.lanes.length > 1);
  const text = `${doing(store, size, lanes.length)}: ${count} wavefront${count === 1 ? "" : "s"}, ${ideal} would do`
    + (count > ideal ? `; ${count - ideal} excessive` : "; no bank conflict")
    + (shared.length ? `; ${shared.length} word${shared.length === 1 ? " is" : "s are"} broadcast to several lanes` : "");
  const shown = rows.slice(0, MOST_ROWS);
  const height = ROW * (shown.length + 1) + 4;
  const wide = LEFT + CELL * banks + 4;
  const parts = [];
  for (let bank = 0; bank < banks; bank += 1) {
    parts.push(svg("text", { class: "axis", x: LEFT + CELL * (bank + 0.5), y: 15, "text-anchor": "middle" }, `${bank}`));
  }
  parts.push(svg("text", { class: "axis", x: LEFT - 8, y: 15, "text-anchor": "end" }, "bank"));
  shown.forEach((row, k) => {
    const y = ROW * (k + 1);
    parts.push(svg("text", { class: "axis", x: LEFT - 8, y: y + 15, "text-anchor": "end" }, `wave ${k + 1}`));
    for (let bank = 0; bank < banks; bank += 1) {
      const cell = row.get(bank);
      const group = svg("g", {}, svg("rect", {
        class: cell ? `cell ${k < ideal ? "good" : "bad"}` : "cell", x: LEFT + CELL * bank + 1, y: y + 1, width: CELL - 2, height: ROW - 2, rx: 2,
      }));
      if (cell) {
        group.append(svg("title", {}, `lane${cell.lanes.length > 1 ? "s" : ""} ${ranges(cell.lanes)}: word at ${hexadecimal(cell.word * width)}, bank ${bank}`),
          svg("text", { class: "lane", x: LEFT + CELL * (bank + 0.5), y: y + 15, "text-anchor": "middle" },
            cell.lanes.length > 1 ? `${cell.lanes[0]}+` : `${cell.lanes[0]}`));
      }
      parts.push(group);
    }
  });
  return element("div", { class: "access", "data-kind": "shared", "data-wavefronts": count, "data-rows": rows.length, "data-degree": degree },
    element("h4", {}, "Lanes to banks, by wavefront"),
    element("p", {}, text, rows.length > MOST_ROWS ? ` (the first ${MOST_ROWS} wavefronts are shown)` : "", rows.length !== count && lanes.length ? "; lanes that share a word take turns here" : "", "."),
    lanes.length ? element("div", { class: "wide", tabindex: "0", role: "group", "aria-label": "Bank map" },
      svg("svg", { viewBox: `0 0 ${wide} ${height}`, style: `min-width:${Math.min(wide, 720)}px`, role: "img", "aria-label": text }, parts)) : null);
}

/** Lines that an access touches, each with its sectors and their lanes. */
export function touched(lanes, size) {
  const lines = new Map();
  for (const [lane, address] of lanes) {
    const last = Math.floor((address + size - 1) / SECTOR_BYTES);
    for (let sector = Math.floor(address / SECTOR_BYTES); sector <= last; sector += 1) {
      const line = Math.floor((sector * SECTOR_BYTES) / LINE_BYTES);
      const sectors = lines.get(line) ?? new Map();
      lines.set(line, sectors);
      sectors.set(sector, [...(sectors.get(sector) ?? []), lane]);
    }
  }
  return new Map([...lines].sort((a, b) => a[0] - b[0]));
}

/** Sectors that would do for an access, as the counters and the advice have it. */
export const leastSectors = (trace, access) => Math.min(access[7], Math.ceil((lanesOfAccess(trace, access).length * access[2]) / SECTOR_BYTES));

export function globalMap(trace, access, space) {
  const [, store, size, , , , , sectors, lines] = access;
  const lanes = lanesOfAccess(trace, access);
  const bytes = new Set(lanes.flatMap(([, address]) => Array.from({ length: size }, (_, k) => address + k))).size;
  const least = leastSectors(trace, access);
  const text = `${doing(store, size, lanes.length)}, ${space} memory: ${sectors} sector${sectors === 1 ? "" : "s"} in ${lines} line${lines === 1 ? "" : "s"}`
    + (lanes.length && space === "global" ? `, ${least} would do${sectors > least ? `; ${sectors - least} excessive` : ""}; ${(100 * bytes / Math.max(sectors * SECTOR_BYTES, 1)).toFixed(0)} % of what is moved is used` : "");
  const map = touched(lanes, size);
  const shown = [...map].slice(0, MOST_ROWS);
  const rows = shown.map(([line, parts]) => element("tr", {},
    element("th", { scope: "row" }, hexadecimal(line * LINE_BYTES)),
    [0, 1, 2, 3].map((k) => {
      const own = parts.get(line * 4 + k);
      return element("td", { class: own ? "touched" : "" }, own ? ranges(own) : "");
    })));
  return element("div", { class: "access", "data-kind": space, "data-sectors": sectors, "data-rows": map.size },
    element("h4", {}, "Lanes to sectors and lines"),
    element("p", {}, text, map.size > MOST_ROWS ? ` (the first ${MOST_ROWS} lines are shown)` : "", "."),
    lanes.length && space === "global" ? element("div", { class: "wide", tabindex: "0", role: "group", "aria-label": "Sector map" },
      element("table", { class: "sectors" },
        element("thead", {}, element("tr", {}, ["128-byte line", "sector 0", "sector 1", "sector 2", "sector 3"].map((name) => element("th", { scope: "col" }, name)))),
        element("tbody", {}, rows))) : null);
}
