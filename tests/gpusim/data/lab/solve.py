"""How each exercise of the lab is solved: by number, replacements in its beginning."""

SOLUTIONS = {
    1: [
        (
            "i = cuda.threadIdx.x\n    out[i] = 2 * x[i]",
            "i = cuda.grid(1)\n    if i < x.size:\n        out[i] = 2 * x[i]",
        ),
        ("grid, block = 1,", "grid, block = (n + 255) // 256,"),
    ],
    2: [("i % x.shape[0], i // x.shape[0]", "i // x.shape[1], i % x.shape[1]")],
    3: [
        (
            "if i % 2 == 0:\n        out[i] = math.sqrt(x[i])",
            "half = x.size // 2\n    if i < half:\n        out[2 * i] = math.sqrt(x[2 * i])",
        ),
        ("out[i] = math.sin(x[i])", "out[2 * (i - half) + 1] = math.sin(x[2 * (i - half) + 1])"),
    ],
    4: [("(32, 32), int32", "(32, 33), int32")],
    5: [
        ("step = 1\n    while step < BLOCK:", "step = BLOCK // 2\n    while step > 0:"),
        ("t % (2 * step) == 0", "t < step"),
        ("step *= 2", "step //= 2"),
    ],
    6: [
        ("part = cuda.shared.array(32, int32)\n    ", ""),
        ("part[lane] = x[cuda.grid(1)]\n    cuda.syncwarp()\n    ", "value = x[cuda.grid(1)]\n    "),
        (
            "        if lane < step:\n            part[lane] += part[lane + step]\n        cuda.syncwarp()\n",
            "        value += cuda.shfl_down_sync(0xFFFFFFFF, value, step)\n",
        ),
        ("= part[0]", "= value"),
        (", int32", ""),
    ],
    7: [("points[i, 0]", "points[0, i]"), ("BY_FIELD = False", "BY_FIELD = True")],
    8: [("WORDS = 12_000", "WORDS = BLOCK + 2")],
    9: [
        ("from numba import cuda\n", "from numba import cuda, int32\n"),
        (
            "    for i in range",
            "    own = cuda.shared.array(BINS, int32)\n    t = cuda.threadIdx.x\n    if t < BINS:\n        own[t] = 0\n"
            "    cuda.syncthreads()\n    for i in range",
        ),
        (
            "cuda.atomic.add(bins, x[i], 1)",
            "cuda.atomic.add(own, x[i], 1)\n    cuda.syncthreads()\n    if t < BINS:\n"
            "        cuda.atomic.add(bins, t, own[t])",
        ),
    ],
    10: [
        (
            "    total = int32(0)\n    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):\n        "
            "total += x[i]\n",
            "    total = int32(0)\n    i, part = cuda.grid(1), x.size // 16\n    for k in range(16):\n   "
            "     total += x[i + k * part]\n",
        ),
        ("grid, block = 4, 64", "grid, block = n // 16 // 256, 256"),
    ],
    11: [
        ("from numba import cuda\n", "from numba import cuda, int32\n"),
        (
            "    column, row = cuda.grid(2)\n    out[column, row] = x[row, column]",
            "    tile = cuda.shared.array((32, 33), int32)\n    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y\n"
            "    left, top = cuda.blockIdx.x * 32, cuda.blockIdx.y * 32\n    tile[ty, tx] = x[top + ty, left + tx]\n"
            "    cuda.syncthreads()\n    out[left + ty, top + tx] = tile[tx, ty]",
        ),
    ],
    12: [
        (
            "    column, row = cuda.grid(2)\n",
            "    column, row = cuda.grid(2)\n    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y\n"
            "    rows = cuda.shared.array((16, 16), float32)\n    columns = cuda.shared.array((16, 16), float32)\n",
        ),
        (
            "    for k in range(a.shape[1]):\n        total += a[row, k] * b[k, column]\n",
            "    for k in range(0, a.shape[1], 16):\n        rows[ty, tx] = a[row, k + tx]\n        columns[ty, "
            "tx] = b[k + ty, column]\n"
            "        cuda.syncthreads()\n        for j in range(16):\n            total += rows[ty, j] * "
            "columns[j, tx]\n"
            "        cuda.syncthreads()\n",
        ),
    ],
}


def solved(number, start):
    """The beginning with its replacements, each of which must fit once."""
    for old, new in SOLUTIONS[number]:
        assert start.count(old) == 1 or old == ", int32", (number, old)
        start = start.replace(old, new)
    return start
