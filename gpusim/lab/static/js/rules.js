// What a warp's addresses cost, and how its lanes part: the rules of `gpusim.engine.sm.coalescer`, computed in the page.
// A test holds them equal to the engine. Addresses are bytes by lane, null for a lane that has no part.

export const LANES = 32;
export const BANKS = 32;
export const WORD_BYTES = 4;
export const SECTOR_BYTES = 32;
export const LINE_BYTES = 128;

/** Lanes that shared memory can serve at once: as many as fill the banks. */
export function passLanes(bytes) {
  let lanes = LANES;
  while (lanes * bytes > BANKS * WORD_BYTES && bytes > WORD_BYTES) lanes >>= 1;
  return lanes;
}

/** Wavefronts of some lanes of a pass: each a map from bank to { word, lanes }. */
function wavefrontsOf(addresses, bytes, first, last) {
  const rows = [];
  const words = Array.from({ length: BANKS }, () => []);
  for (let lane = first; lane < last; lane += 1) {
    if (addresses[lane] === null) continue;
    for (let k = 0; k < Math.max(bytes / WORD_BYTES, 1); k += 1) {
      const word = Math.floor(addresses[lane] / WORD_BYTES) + k;
      const bank = word % BANKS;
      let turn = words[bank].indexOf(word);
      if (turn < 0) turn = words[bank].push(word) - 1;
      rows[turn] ??= new Map();
      const cell = rows[turn].get(bank) ?? { word, lanes: [] };
      if (!cell.lanes.includes(lane)) cell.lanes.push(lane);
      rows[turn].set(bank, cell);
    }
  }
  return rows;
}

const neighboursAgree = (addresses, distance) => addresses.every((address, lane) => {
  const other = addresses[lane ^ distance];
  return address === null || other === null || address === other;
});

/** The wavefronts of a load from shared memory. Wide loads go in passes of some lanes; two passes are served as one
 * where in the whole warp lanes have the address of their neighbour. */
export function sharedLoad(addresses, bytes) {
  let lanes = passLanes(bytes);
  if (lanes < LANES && (neighboursAgree(addresses, 1) || neighboursAgree(addresses, 2))) lanes *= 2;
  const rows = [];
  for (let first = 0; first < LANES; first += lanes) rows.push(...wavefrontsOf(addresses, bytes, first, first + lanes));
  const active = addresses.filter((each) => each !== null).length;
  return { rows, wavefronts: rows.length, ideal: Math.min(rows.length, Math.max(Math.ceil((active * bytes) / (BANKS * WORD_BYTES)), 1)) };
}

/** The lines and sectors of an access to global memory: `lines` maps a line to a map from its sectors to their lanes. */
export function globalAccess(addresses, bytes) {
  const lines = new Map();
  const touched = new Set();
  addresses.forEach((address, lane) => {
    if (address === null) return;
    for (let byte = address; byte < address + bytes; byte += 1) touched.add(byte);
    for (let sector = Math.floor(address / SECTOR_BYTES); sector * SECTOR_BYTES < address + bytes; sector += 1) {
      const line = Math.floor((sector * SECTOR_BYTES) / LINE_BYTES);
      const own = lines.get(line) ?? new Map();
      own.set(sector, [...(own.get(sector) ?? []), lane]);
      lines.set(line, own);
    }
  });
  let sectors = 0;
  for (const own of lines.values()) sectors += own.size;
  return {
    lines: new Map([...lines].sort(([a], [b]) => a - b)), sectors, requests: lines.size, bytes: touched.size,
    ideal: Math.ceil(touched.size / SECTOR_BYTES),
  };
}

/** Where the lanes of the experiments read, in bytes from the start of the tile or of the array. */
export const addressesOf = {
  banks: ({ width, stride, pad, offset }) => Array.from({ length: LANES }, (_, lane) => {
    const element = lane * stride + offset;
    return (Math.floor(element / 32) * (32 + pad) + (element % 32)) * width;
  }),
  sectors: ({ width, stride, offset }, warp = 0) =>
    Array.from({ length: LANES }, (_, lane) => ((32 * warp + lane) * stride + offset) * width),
};

/** The way of a lane of a warp in the experiment on branches. */
export function wayOf({ pattern, ways }, lane, warp) {
  if (pattern === 0) return lane % ways;
  if (pattern === 1) return Math.floor((lane * ways) / 32);
  if (pattern === 2) return warp % ways;
  return (Math.floor((lane * 19) / 4) * 7) % ways;
}

/** The tree of branches that one warp goes down: at each node the lanes that come there, with its one or two ways on;
 * at a leaf its way. `rounds`: what a leaf's loop takes. */
export function divergenceTree(place, warp) {
  const node = (lanes, level) => {
    if (level < 0) {
      const way = wayOf(place, lanes[0], warp);
      return { lanes, way, rounds: place.work + place.more * way };
    }
    const sides = [0, 1].map((side) => lanes.filter((lane) => ((wayOf(place, lane, warp) >> level) & 1) === side));
    return { lanes, level, sides: sides.filter((each) => each.length).map((each) => node(each, level - 1)) };
  };
  return node(Array.from({ length: LANES }, (_, lane) => lane), 4);
}

/** Leaves of such a tree, in the order in which they are drawn. */
export const leavesOf = (tree) => (tree.sides ? tree.sides.flatMap(leavesOf) : [tree]);

/** What the loops of a warp cost: rounds that it issues, and the share of its lanes that take part in the mean. */
export function divergenceCost(place, warp) {
  const leaves = leavesOf(divergenceTree(place, warp));
  const issued = leaves.reduce((sum, leaf) => sum + leaf.rounds, 0);
  const used = leaves.reduce((sum, leaf) => sum + leaf.rounds * leaf.lanes.length, 0);
  return { ways: leaves.length, issued, lanes: used / issued };
}

/** A block's first warp over an image whose rows lie one after the other: where its lanes are, and what they touch. */
export function blockShape({ x, y }, width, height) {
  const places = Array.from({ length: LANES }, (_, lane) =>
    (lane < x * y && lane % x < width && Math.floor(lane / x) < height ? [lane % x, Math.floor(lane / x)] : null));
  const addresses = places.map((place) => (place ? 4 * (place[1] * width + place[0]) : null));
  const threads = x * y;
  const blocks = Math.ceil(width / x) * Math.ceil(height / y);
  const warps = Math.ceil(threads / LANES);
  const active = [...Array(Math.min(threads, LANES)).keys()].length;
  return { places, access: globalAccess(addresses, 4), threads, warps, blocks, active };
}
