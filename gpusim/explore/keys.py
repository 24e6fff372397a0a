"""The parameters that an architect moves: which way is better, and how one is changed so that the machine stays valid.

A configuration has some 200 keys, many of which are latencies of single instructions. `KEYS` are the ones that say how
large and how fast the parts of a machine are; sensitivity goes through them. A key whose change would contradict
another one takes that one along.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

from gpusim.config import GPUConfig, describe_keys, diff, load_config
from gpusim.config.load import unknown_key
from gpusim.errors import ConfigError

Changes = dict[str, Any]


@dataclass(frozen=True)
class Key:
    """One parameter. better: 'larger' or 'smaller'. what: what it is of, in words. apply: the changes for a value of
    it, with the keys that it takes along; by default the value rounded to a whole number, at least 1."""

    name: str
    better: str
    what: str
    apply: Callable[[GPUConfig, float], Changes] | None = None

    def changes(self, config: GPUConfig, value: float) -> Changes:
        """The keys to change for a value as near to `value` as the machine allows."""
        if self.apply is not None:
            return self.apply(config, value)
        if isinstance(value_of(config, self.name), float):
            return {self.name: float(f"{value:.6g}")}
        return {self.name: max(1, round(value))}


def _warps(config: GPUConfig, value: float) -> Changes:
    warps = _multiple(value, config.sm.sub_partitions)
    warps = max(warps, -(-config.sm.max_threads_per_block // config.gpu.warp_size))
    return {"sm.max_warps": warps, "sm.max_threads": warps * config.gpu.warp_size}


def _registers(config: GPUConfig, value: float) -> Changes:
    return {"sm.registers": _multiple(value, config.sm.sub_partitions * config.sm.register_unit)}


def _shared(config: GPUConfig, value: float) -> Changes:
    """Shared memory of another size; what the L1 has beyond it stays."""
    sm = config.sm
    size = max(_multiple(value, 8192), 16384)
    per_block = size - sm.shared_reserved_bytes
    steps = [step for step in sm.shared_capacities_bytes if step < size]
    return {
        "sm.shared_bytes": size,
        "sm.shared_capacities_bytes": (*steps, size),
        "sm.shared_bytes_per_block_max": per_block,
        "sm.static_shared_bytes_max": min(sm.static_shared_bytes_max, per_block),
        "sm.unified_l1_bytes": sm.unified_l1_bytes - sm.shared_bytes + size,
    }


def _l1(config: GPUConfig, value: float) -> Changes:
    unit = config.l1.line_bytes * config.l1.ways
    least = -(-config.sm.shared_bytes // unit) * unit
    return {"sm.unified_l1_bytes": max(_multiple(value, unit), least)}


def _l2(config: GPUConfig, value: float) -> Changes:
    return {"l2.bytes": _multiple(value, config.l2.slices * config.l2.ways * config.l2.line_bytes)}


def _l2_latency(config: GPUConfig, value: float) -> Changes:
    """Both latencies and that of memory, which lies behind, by the same cycles."""
    l2, way = config.l2, config.crossbar
    near = max(round(value), config.l1.latency_cycles + l2.latency_spread_cycles // 2 + 2)
    more = near - l2.latency_near_cycles
    shortest = near - l2.latency_spread_cycles // 2 - config.l1.latency_cycles - round(way.tpc_cycles + way.cpc_cycles)
    return {
        "l2.latency_near_cycles": near,
        "l2.latency_far_cycles": l2.latency_far_cycles + more,
        "l2.lookahead_cycles": max(1, min(l2.lookahead_cycles, shortest)),
        "dram.latency_cycles": config.dram.latency_cycles + more,
    }


def _dram_latency(config: GPUConfig, value: float) -> Changes:
    least = config.l2.mean_latency_cycles + config.dram.row_activate_cycles
    return {"dram.latency_cycles": max(round(value), -int(-least // 1))}


def _queue(config: GPUConfig, value: float) -> Changes:
    queues, depth = config.memory_instruction, min(32, max(1, round(value)))
    stores = min(depth, round(queues.store_queue_depth * value / queues.queue_depth) or 1)
    return {"memory_instruction.queue_depth": depth, "memory_instruction.store_queue_depth": stores}


def _l1_latency(config: GPUConfig, value: float) -> Changes:
    l2, way = config.l2, config.crossbar
    most = l2.latency_near_cycles - l2.latency_spread_cycles // 2 - round(way.tpc_cycles + way.cpc_cycles)
    latency = min(max(1, round(value)), most - 1)
    return {"l1.latency_cycles": latency, "l2.lookahead_cycles": min(l2.lookahead_cycles, most - latency)}


def _multiple(value: float, unit: int) -> int:
    return max(1, round(value / unit)) * unit


_TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
KEYS = {
    name: Key(name, row["better"], row["what"], globals()[row["apply"]] if "apply" in row else None)
    for name, row in _TABLE.items()
}
"""By name, in the order of the machine."""


def find_keys(names: list[str] | None = None) -> list[Key]:
    """The keys of these names, all of `KEYS` for None. Any other number of the configuration is a key as well; which
    way is better is then taken from its name: cycles are better few.

    Raises ConfigError for an unknown key and for one that is no number.
    """
    if names is None:
        return list(KEYS.values())
    found = []
    for name in names:
        if name in KEYS:
            found.append(KEYS[name])
        elif name not in describe_keys():
            raise unknown_key(name)
        else:
            value = value_of(load_config(), name)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ConfigError("is no number, so it has no twice and no half", key=name)
            better = "smaller" if name.endswith("cycles") and "per_cycle" not in name else "larger"
            found.append(Key(name, better, name))
    return found


def value_of(config: GPUConfig, name: str) -> Any:
    """The value of a dotted key."""
    return reduce(getattr, name.split("."), config)


def unchecked(config: GPUConfig, values: Mapping[str, Any]) -> GPUConfig:
    """The machine with other values of keys, which have a dot; it may not be a valid one before others follow."""
    for name, value in ((name, value) for name, value in values.items() if "." in name):
        section, _, key = name.rpartition(".")
        update: Any = value_of(config, section).model_copy(update={key: value})
        while "." in section:
            section, _, key = section.rpartition(".")
            update = value_of(config, section).model_copy(update={key: update})
        config = config.model_copy(update={section: update})
    return config


def changes(base: GPUConfig, config: GPUConfig) -> tuple[tuple[str, Any], ...]:
    """Return the `config` of a point whose machine is `config`: the keys and values that differ from `base`."""
    return tuple((key, value) for key, (_, value) in diff(base, config).items())
