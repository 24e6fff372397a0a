// What a warp's addresses cost, and how its lanes part: the rules of `gpusim.engine.sm.coalescer`, computed in the page.
// A test holds them equal to the engine. Addresses are bytes by lane, null for a lane that has no part.

import { SECTOR_BYTES, passLanes, touched, wavefronts } from "gpusim/access";

export { SECTOR_BYTES };
export const LANES = 32;
export const BANKS = 32;
export const WORD_BYTES = 4;

/** [lane, address] of the lanes that have a part, as the report's maps take them. */
const partsOf = (addresses) => [...addresses.entries()].filter(([, address]) => address !== null);

const neighboursAgree = (addresses, distance) => addresses.every((address, lane) => {
  const other = addresses[lane ^ distance];
  return address === null || other === null || address === other;
});

/** The wavefronts of a load from shared memory. Wide loads go in passes of some lanes; two passes are served as one
 * where in the whole warp lanes have the address of their neighbour. */
export function sharedLoad(addresses, bytes) {
  const parts = partsOf(addresses);
  let together = passLanes(bytes, BANKS, WORD_BYTES);
  if (together < LANES && (neighboursAgree(addresses, 1) || neighboursAgree(addresses, 2))) together *= 2;
  const rows = wavefronts(parts, bytes, BANKS, WORD_BYTES, together);
  return { rows, wavefronts: rows.length, ideal: Math.min(rows.length, Math.max(Math.ceil((parts.length * bytes) / (BANKS * WORD_BYTES)), 1)) };
}

/** The lines and sectors of an access to global memory: `lines` maps a line to a map from its sectors to their lanes. */
export function globalAccess(addresses, bytes) {
  const parts = partsOf(addresses);
  const lines = touched(parts, bytes);
  const wanted = new Set(parts.flatMap(([, address]) => Array.from({ length: bytes }, (_, k) => address + k))).size;
  const sectors = [...lines.values()].reduce((sum, own) => sum + own.size, 0);
  return { lines, sectors, requests: lines.size, bytes: wanted, ideal: Math.ceil(wanted / SECTOR_BYTES) };
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
  const active = Math.min(threads, LANES);
  return { places, access: globalAccess(addresses, 4), threads, warps, blocks, active };
}
