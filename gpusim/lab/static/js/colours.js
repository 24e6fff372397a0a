// Colours of a text in Python or CUDA C++: a list of [kind, text] for each of its lines.

const PYTHON = {
  parts: [
    ["comment", /#[^\n]*/y],
    ["string", /[rbfuRBFU]{0,2}(?:"""[\s\S]*?(?:"""|$)|'''[\s\S]*?(?:'''|$)|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?)/y],
    ["special", /@[\w.]+/y],
  ],
  keywords: "and as assert async await break class continue def del elif else except finally for from global if import in is lambda nonlocal not or pass raise return try while with yield True False None",
  special: "cuda threadIdx blockIdx blockDim gridDim",
};
const CUDA = {
  parts: [
    ["comment", /\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|$)/y],
    ["string", /"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?/y],
    ["special", /#[ \t]*\w+/y],
  ],
  keywords: "alignas auto bool break case char class const constexpr continue default do double else enum extern false float for goto if inline int long namespace operator private public return short signed sizeof static struct switch template this true typedef typename union unsigned using void volatile while half size_t",
  special: "__global__ __device__ __host__ __shared__ __constant__ __restrict__ __launch_bounds__ __syncthreads __syncwarp threadIdx blockIdx blockDim gridDim warpSize",
};
const COMMON = [
  ["number", /(?:0[xX][\da-fA-F]+|\d[\d_]*\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)[a-zA-Z]*/y],
  ["word", /[A-Za-z_]\w*/y],
  ["", /\s+|[^\sA-Za-z_0-9]/y],
];
const LANGUAGES = Object.fromEntries([["python", PYTHON], ["cuda", CUDA]].map(([name, each]) => [name, {
  parts: [...each.parts, ...COMMON],
  kinds: new Map([...each.keywords.split(" ").map((word) => [word, "keyword"]), ...each.special.split(" ").map((word) => [word, "special"])]),
}]));

/** Lines of a text, each a list of [kind, text]; a string or comment over several lines is parted at their ends. */
export function coloured(text, language) {
  const { parts, kinds } = LANGUAGES[language];
  const lines = [[]];
  for (let at = 0; at < text.length;) {
    let found = null;
    for (const [kind, pattern] of parts) {
      pattern.lastIndex = at;
      const match = pattern.exec(text);
      if (match) { found = [kind, match[0]]; break; }
    }
    const [kind, part] = found ?? ["", text[at]];
    at += part.length;
    const own = kind === "word" ? kinds.get(part) ?? (text[at] === "(" ? "call" : "") : kind;
    part.split("\n").forEach((piece, k) => {
      if (k) lines.push([]);
      if (piece) lines.at(-1).push([own, piece]);
    });
  }
  return lines;
}
