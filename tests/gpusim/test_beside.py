"""Machines beside the GPU: the systolic model against an array of moving values, both kinds against what is known."""

from __future__ import annotations

import numpy as np
import pytest

from gpusim import beside, plot
from gpusim.beside import sections
from gpusim.errors import ConfigError

FAST = ["memory.bandwidth_gb_s=1e12", "memory.latency_us=0.0", "memory.holds_activations=false"]


class Array:
    """Cells of an array, cycle by cycle: each hands its input to the right, and its sum and weights on their way down.

    Weights move down through registers of their own, in column c from c cycles after the first one on, and each cell
    takes them from when the first has come to its row. A mark travels with the first input of a tile, and brings the
    weight that a cell has loaded into use.
    """

    def __init__(self, rows, columns):
        self.rows, self.columns = rows, columns
        self.weight, self.loaded = np.zeros((2, rows, columns))
        self.input, self.mark = np.zeros((rows, columns)), np.zeros((rows, columns), bool)
        self.total = np.zeros((rows, columns))

    def step(self, inputs, marks, weights, shifts):
        """A cycle. inputs, marks: for each row; weights: for each column; shifts: for each cell, whether it takes one.
        Returns the sums that leave at the bottom."""
        arrives = np.hstack([inputs[:, None], self.input[:, :-1]])
        marked = np.hstack([marks[:, None], self.mark[:, :-1]])
        above = np.vstack([np.zeros(self.columns), self.total[:-1]])
        self.weight = np.where(marked, self.loaded, self.weight)
        self.total = above + arrives * self.weight
        self.input, self.mark = arrives, marked
        moved = np.vstack([weights, self.loaded[:-1]])
        self.loaded = np.where(shifts, moved, self.loaded)
        return self.total[-1].copy()


def run_array(a, b, rows, columns):
    """a @ b on one array, tile after tile down the columns of b, each as soon as its weights are there. Returns the
    product and the cycles until the last sum has left."""
    m, (k, n) = len(a), b.shape
    depth, width = -(-k // rows) * rows, -(-n // columns) * columns
    padded_a, padded_b = np.zeros((m, depth)), np.zeros((depth, width))
    padded_a[:, :k], padded_b[:k, :n] = a, b
    tiles = [(r, c) for c in range(0, width, columns) for r in range(0, depth, rows)]
    # When each tile's weights begin to come in, and its inputs: no plan of the model, but the earliest that is right.
    loads, starts = [0], [rows]
    for _ in tiles[1:]:
        loads.append(starts[-1])
        starts.append(max(starts[-1] + m, loads[-1] + rows))
    cells, out = Array(rows, columns), np.zeros((m, width))
    row, column = np.arange(rows), np.arange(columns)
    last = 0
    for t in range(starts[-1] + m + rows + columns):
        inputs, marks = np.zeros(rows), np.zeros(rows, bool)
        weights, shifts = np.zeros(columns), np.zeros((rows, columns), bool)
        for (r, c), load, start in zip(tiles, loads, starts, strict=True):
            at = t - start - row  # the row of `a` that enters each row of the array
            here = (at >= 0) & (at < m)
            inputs[here] = padded_a[at[here], r + row[here]]
            marks |= at == 0
            at = t - load - column  # the row of weights that enters each column, the last one first
            here = (at >= 0) & (at < rows)
            weights[here] = padded_b[r + rows - 1 - at[here], c + column[here]]
            shifts |= (at[None] >= row[:, None]) & (at[None] < rows)
        leaves = cells.step(inputs, marks, weights, shifts)
        for (_, c), start in zip(tiles, starts, strict=True):
            at = t - start - (rows - 1) - column
            here = (at >= 0) & (at < m)
            out[at[here], c + column[here]] += leaves[here]
            last = t + 1 if here.any() else last
    return out[:, :n], last


@pytest.mark.parametrize(
    "rows, columns, m, n, k",
    [
        *((4, 4, 4, 4, 4), (4, 4, 9, 4, 4), (3, 5, 7, 5, 3), (4, 4, 1, 1, 1)),
        *((4, 4, 6, 9, 13), (8, 2, 3, 7, 20), (2, 8, 11, 17, 6)),
    ],
)
def test_the_model_takes_the_cycles_that_values_take_to_move(rows, columns, m, n, k):
    rng = np.random.default_rng(0)
    a, b = rng.integers(-9, 9, (m, k)), rng.integers(-9, 9, (k, n))
    product, cycles = run_array(a, b, rows, columns)
    assert (product == a @ b).all()
    sizes = [f"units.rows={rows}", f"units.columns={columns}"]
    machine = beside.load_machine("tpu_v1", [*FAST, *sizes])
    found = beside.matrix_product(machine, m, n, k)
    assert found.seconds * machine.chip.clock_mhz * 1e6 == pytest.approx(cycles, abs=1e-3)


def test_with_one_plane_nothing_overlaps():
    machine = beside.load_machine("tpu_v1", [*FAST, "units.weight_planes=1", "units.rows=4", "units.columns=8"])
    found = beside.matrix_product(machine, 10, 16, 12)
    assert found.seconds * 700e6 == pytest.approx(6 * (4 + 10 + 4 + 8 - 2), abs=1e-3)


def test_the_first_tpu_is_the_papers():
    """92 TOP/s, a ridge at 1,350 multiply-adds per byte of weights (N. Jouppi et al., ISCA 2017, section 4), and TOP/s
    of its table 3: 12.3, 9.7, 3.7, 2.8 of networks that have so many rows of inputs for each weight."""
    machine = beside.load_machine("tpu_v1")
    assert 2 * machine.peak_macs_per_s / 1e12 == pytest.approx(92, rel=0.005)
    assert machine.peak_macs_per_s / (machine.memory.bandwidth_gb_s * 1e9) == pytest.approx(1350, rel=0.001)
    for batch, measured in ((200, 12.3), (168, 9.7), (64, 3.7), (96, 2.8)):
        found = beside.matrix_product(machine, batch, 2048, 2048)
        assert found.limit == "waiting for memory"
        roof = 2 * batch * machine.memory.bandwidth_gb_s * 1e9 / 1e12
        # Networks do more than products: none is above the model, and those of layers alone are near it.
        assert measured < found.operations_per_s / 1e12 < roof
        assert batch == 96 or measured > 0.8 * found.operations_per_s / 1e12
    large = beside.matrix_product(machine, 2048, 2048, 2048)
    assert large.limit == "inputs stream" and 0.93 < large.utilisation < 1  # CNN0 reaches 86 of 92 TOP/s


@pytest.mark.parametrize("name", beside.shipped_machines())
def test_laws(name):
    """More work takes longer, no product is faster than its bytes and its arithmetic, every value has a source."""
    machine = beside.load_machine(name)
    found = [beside.matrix_product(machine, size, size, size) for size in (16, 64, 200, 512, 1500)]
    assert [each.seconds for each in found] == sorted(each.seconds for each in found)
    for each in found:
        assert each.seconds >= max(each.least_seconds.values()) and 0 < each.share <= 1 and each.limit in str(each)
        assert each.bytes["memory"] >= each.n * each.k  # all weights come once at least
    faster = beside.load_machine(name, ["memory.bandwidth_gb_s=1000000.0", "memory.latency_us=0.0"])
    assert beside.matrix_product(faster, 512, 512, 512).seconds < found[3].seconds
    assert all(machine.source(key).split(":")[0] in ("spec", "reported", "assumed") for key, _ in machine.items())


def test_bytes_of_memory_are_those_of_the_matrices():
    v4 = beside.matrix_product("tpu_v4", 512, 256, 384)
    assert v4.bytes["memory"] == 2 * (512 * 384 + 384 * 256 + 512 * 256)
    v1 = beside.matrix_product("tpu_v1", 5000, 256, 300)  # in three pieces, as there are sums for: weights come again
    assert v1.bytes["memory"] == 3 * 300 * 256 and v1.bytes["buffer"] == 5000 * 300 + 5000 * 256
    cpu = beside.matrix_product("xeon_8480", 512, 512, 512)
    assert cpu.bytes["memory"] == 4 * 3 * 512 * 512
    # A buffer that is too small brings inputs again.
    small = beside.load_machine("tpu_v4", ["on_chip.buffer_bytes=65536", "units.arrays=1"])
    found = beside.matrix_product(small, 512, 256, 256)
    assert found.bytes["memory"] == 2 * (2 * 512 * 256 + 256 * 256 + 512 * 256)


def test_a_cpu_is_what_its_makers_say():
    for name, each in (("xeon_8480", 64), ("xeon_8480_amx", 1024)):  # operations of a core and cycle
        assert 2 * beside.load_machine(name).peak_macs_per_s / 1e12 == pytest.approx(56 * 2.0 * each / 1e3)
    times = [beside.dependent_load_us("xeon_8480", size) for size in (1 << 14, 1 << 20, 1 << 26, 1 << 30)]
    assert times == [5 / 2000, 15 / 2000, 140 / 2000, 0.11]
    # Few sums cannot fill the units.
    machine = beside.load_machine("xeon_8480", ["blocking.register_rows=1", "blocking.register_columns=16"])
    found = beside.matrix_product(machine, 1024, 1024, 1024)
    assert found.limit == "arithmetic" and found.utilisation == pytest.approx(1 / 8, rel=0.03)


def test_machines_are_found_by_name_and_file(tmp_path):
    file = tmp_path / "half.toml"
    file.write_text('base = "xeon_8480"\ncores.count = 28\n')
    assert isinstance(beside.load_machine(file), sections.CpuConfig)
    assert beside.load_machine(str(file)).cores.count == 28
    file.write_text('base = "tpu_v4"\nunits.arrays = 4\n')
    assert beside.load_machine(file).units.arrays == 4
    file.write_text("base = 3")
    for wrong, told in (("tpu_v44", "did you mean 'tpu_v4'"), (file, "base")):
        with pytest.raises(ConfigError, match=told):
            beside.load_machine(wrong)
    with pytest.raises(ConfigError, match=r"units\.rows"):
        beside.load_machine("tpu_v1", ["units.row=2"])
    for sizes, told in (((0, 1, 1), "at least one row"), ((4096, 4096, 4096), "keeps both in a buffer")):
        with pytest.raises(ValueError, match=told):
            beside.matrix_product("tpu_v1", *sizes)


def test_the_picture_is_the_rows():
    rows = [
        {"machine": name, "n": n, "time_us": start + n**3 / rate}
        for name, start, rate in (("A", 1, 1e6), ("B", 4, 1e8))
        for n in (16, 256, 1024)
    ]
    figure = plot.latency_and_throughput(rows)
    times, rates = figure.axes
    assert [line.get_ydata().tolist() for line in times.lines[:2]] == [
        [row["time_us"] for row in rows if row["machine"] == name] for name in "AB"
    ]
    assert rates.lines[1].get_ydata()[-1] == pytest.approx(2 * 1024**3 / (4 + 1024**3 / 1e8) / 1e6)
    assert "B from 4 µs at 16" in plot.text_alternative(figure)
    with pytest.raises(ValueError, match="above zero"):
        plot.latency_and_throughput([])
