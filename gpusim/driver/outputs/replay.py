"""Runs saved launches again, on any machine: before each, memory is made what it was, at the same addresses."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from gpusim.config import GPUConfig
from gpusim.device import Device
from gpusim.driver.outputs.gpus import GpuLog
from gpusim.driver.outputs.log import LaunchLog
from gpusim.driver.outputs.outputs import Telling
from gpusim.driver.outputs.saved import ZEROS, SavedLaunch, SavedLaunches, SavedModule, SavedStep
from gpusim.driver.outputs.stream_work import StreamReplay
from gpusim.driver.work.launches import CopyCall, LaunchCall, Launcher
from gpusim.errors import KernelError, LaunchError, MemoryAccessError, OutOfDeviceMemory, SavedLaunchesError
from gpusim.launch import Launch
from gpusim.launch.arena import Arena
from gpusim.launch.launch import AccessWindow
from gpusim.launch.memory import EVERYBODY, HOST_MEMORY
from gpusim.launch.module import LinkedModule
from gpusim.launch.occupancy import check_architecture
from gpusim.node import load_node
from gpusim.node.timeline import StreamTimeline
from isa import Program, assemble, compile_cuda
from isa.cubin import Cubin, read_cubin
from isa.demangle import short_name
from isa.errors import SimulationError

_HOST_PAGE_BYTES = 4096
_COMPILED = "compiled from PTX for this GPU"
_TARGET = re.compile(rb"^\s*\.target\s+sm_(\d+)[af]?", re.MULTILINE)
_INSTEAD = "run the program itself on this GPU (--gpu), where it and its libraries choose anew"
_NO_PTX = "nvcc puts PTX in with -gencode arch=compute_NN,code=compute_NN"


class Replay(AbstractContextManager["Replay"]):
    """Saved launches on a machine. Only those that `telling` chooses run; what the others have changed of memory is
    taken from the file. Of several GPUs streams then do what they did, with these times of launches (`stream_work`).

    saved: an open file. config: of the machine. node: what its GPUs are in, None for what they were in. mode, threads,
    max_cycles: as for `gpusim.Device` and its launches.

    Raises SavedLaunchesError if the host has no room for device memory where it was.
    """

    def __init__(
        self,
        saved: SavedLaunches,
        config: GPUConfig,
        telling: Telling,
        *,
        node: str | Path | None = None,
        mode: str = "detailed",
        threads: int | None = None,
        max_cycles: int | None = None,
    ):
        self.saved, self.config, self.telling, self.max_cycles = saved, config, telling, max_cycles
        self.log = LaunchLog(config, timed=mode != "functional")
        what: dict[str, Any] = {"threads": threads, "mode": mode, "check": telling.check}
        head = saved.head
        what |= {"memory_bytes": head.memory_bytes, "unified": head.shares_host, "base": head.base, "gpus": head.gpus}
        self.node = load_node(node) if node is not None else saved.node()
        self.device = Device(config, node=self.node, **what)
        beside = (Device(beside=self.device, threads=threads) for _ in range(head.gpus - 1))
        self.devices = [self.device, *beside]
        for number, each in enumerate(self.devices):
            each.memory.reach(self.node.peers_of(number))
        self.memory = self.device.memory
        if self.memory.base != head.base:
            self.device.close()
            raise SavedLaunchesError(f"{saved.path}: something else of this process lies where device memory was")
        alone = replace(telling, save=None, trace=None if head.works else telling.trace)
        self.log.gpus = GpuLog(config, self.devices) if head.gpus > 1 else None
        self.observers = alone.observers(config, mode, self.log.gpus)
        self.cycles: dict[int, int] = {}
        self._shared: dict[int, int] = {}
        self._live: dict[int, tuple[int, str]] = {}
        self._pages: dict[int, tuple[int, str]] = {}
        self._modules: dict[int, SavedModule] = {}
        self._linked: dict[int, tuple[SavedModule, LinkedModule]] = {}
        self._cubin: Callable[[str], Cubin] = cache(lambda digest: read_cubin(saved.content("cubins", digest)))
        self._decoded: Callable[[str, str], Program] = cache(
            lambda code, cubin: Program.from_bytes(saved.content("programs", code), str(saved.path), self._cubin(cubin))
        )
        self._outside: dict[int, Arena] = {}

    def run(self) -> LaunchLog:
        """Run them all. A kernel that fails is noted, and the next launch runs.

        Raises SavedLaunchesError; LaunchError: this machine cannot run a launch; SimulationError: nor can we.
        """
        for each in self.observers:
            each.began(self.device)
        for step in self.saved.steps():
            self._note(step)
            launch = step.launch
            if launch is None or self.telling.chooses(launch.number, launch.symbol):
                self._reach(launch.start if launch is not None else 0)
                now = self.device.now_cycles
                for copy in (CopyCall(**dict(each)) for each in step.copies):
                    copy.displace(self.device)
                    for each in self.observers:
                        each.copied(copy, now, now)
            if launch is not None and self.telling.chooses(launch.number, launch.symbol):
                self._run(launch, step)
        if self.log.timed and self.saved.head.works:
            StreamReplay(self.saved, self.devices, self.cycles, self.observers).run()
            if self.telling.trace is not None:
                StreamTimeline.of(self.device.streams).save(self.telling.trace)
        return self.log

    def _reach(self, start: int) -> None:
        """Let time pass until a launch's cycle, or that of a later period of what a GPU does by itself."""
        step = math.lcm(self.config.dram.refresh_interval_cycles, self.config.sm.sub_partitions)
        self.device.pass_time(start + step * math.ceil(max(self.device.now_cycles - start, 0) / step))

    def __exit__(self, *_: object) -> None:
        """Tell what is still to be told, and end the device."""
        for each in self.observers:
            each.close()
        for device in self.devices:
            device.close()

    def _note(self, step: SavedStep) -> None:
        """Keep in mind what a step changes, until a launch needs it."""
        for address in step.freed:
            nbytes, _ = self._live.pop(address, (0, ""))
            for page in [page for page in self._pages if address <= page < address + nbytes]:
                del self._pages[page]
        self._live |= {address: (nbytes, label) for address, nbytes, label in step.allocated}
        self._shared |= dict.fromkeys(step.shared, EVERYBODY) | dict.fromkeys(step.host, HOST_MEMORY)
        self._pages |= {address: (nbytes, digest) for address, nbytes, digest in step.pages}
        self._modules |= {module.number: module for module in step.modules}

    def _run(self, launch: SavedLaunch, step: SavedStep) -> None:
        where = f"launch {launch.number}, {short_name(launch.symbol)}"
        try:
            self._restore(step.next_address)
            program = self._program(launch)
            if launch.cluster is not None:
                program = program.but(cluster=launch.cluster)
            described = Launch(program, launch.grid, launch.block, (), launch.shared_bytes)
            parameters = bytes.fromhex(launch.parameters)
        except (KeyError, ValueError, TypeError, MemoryAccessError, OutOfDeviceMemory) as error:
            raise SavedLaunchesError(f"{self.saved.path} is damaged: {where}: {error}") from None
        except SimulationError as error:
            raise SavedLaunchesError(f"{where}: {error}") from None
        call = LaunchCall(
            launch.number, launch.symbol, program, described, parameters, launch.stream, launch.cooperative,
            window=AccessWindow(*launch.window) if launch.window else None, nvtx_range=launch.nvtx_range,
            carveout=launch.carveout, gpu=launch.gpu,
        )  # fmt: skip
        device = self.devices[launch.gpu]
        if launch.set_aside is not None and launch.set_aside != device.set_aside_bytes:
            device.set_aside_l2(min(launch.set_aside, self.config.l2.persisting_max_bytes))
        for each in self.observers:
            each.asked(call)
        self.log.number = launch.number - 1
        try:
            run = Launcher(device, self.log, self.observers, self.max_cycles).begin(call)
            run.again = launch.again
            run.wait()
            self.cycles[launch.number] = run.end - run.began
        except KernelError:
            return  # the user has been told
        except SimulationError as error:
            raise SavedLaunchesError(f"{where}: {error}") from None

    # --- memory -------------------------------------------------------------------------------------------------------

    def _restore(self, next_address: int) -> None:
        """Make memory what it was."""
        memory, there = self.memory, self.config.dram.capacity_bytes * len(self.devices)
        needed = sum(nbytes for address, (nbytes, _) in self._live.items() if memory.is_inside(address))
        if needed > there:
            raise SavedLaunchesError(f"the launches need {needed:,} bytes of device memory, this GPU has {there:,}")
        for each in memory.allocations:
            if self._live.get(each.address) != (each.nbytes, each.label):
                memory.free(each.address)
                self._outside.pop(each.address, None)
        known = {each.address for each in memory.allocations}
        for address, (nbytes, label) in sorted(self._live.items()):
            if address not in known:
                self._place(address, nbytes, label)
        memory.next_address = next_address
        for address, (nbytes, digest) in self._pages.items():
            if digest == ZEROS:
                memory.fill(address, nbytes)
            else:
                page = np.frombuffer(self.saved.content("pages", digest), np.uint8)
                memory.view(address, nbytes)[...] = page
        self._pages.clear()

    def _place(self, address: int, nbytes: int, label: str) -> None:
        memory = self.memory
        if memory.is_inside(address) or not self.saved.head.shares_host:
            used_before = address < memory.next_address
            owner = next((each.memory for each in self.devices if address in each.memory.part), memory)
            owner.alloc(nbytes, label, at=address, owner=self._shared.get(address))
            if used_before:
                memory.fill(address, nbytes)
            return
        start = address // _HOST_PAGE_BYTES * _HOST_PAGE_BYTES
        arena = Arena(address + nbytes - start, wanted=start)
        if arena.address != start:
            raise SavedLaunchesError(f"something else lies where {label} was, at {address:#x}; try again")
        self._outside[address] = arena
        memory.adopt(address, nbytes, label)

    # --- code ---------------------------------------------------------------------------------------------------------

    def _program(self, launch: SavedLaunch) -> Program:
        """The kernel, ready to run on this machine: as it was, or compiled from the module's PTX."""
        saved = self._modules[launch.module]
        decoded = self._decoded(launch.program, saved.cubin)
        own = _runs_on(decoded.arch, self.config)
        known = self._linked.get(launch.module)
        if known is None or known[0] != saved:
            known = self._linked[launch.module] = saved, self._module(saved, decoded, own)
        version = self.memory.version
        program = known[1].link(decoded if own else launch.symbol)
        if self.memory.version != version:  # variables that were not there last until memory is restored again
            del self._linked[launch.module]
        return program

    def _module(self, saved: SavedModule, decoded: Program, own: bool) -> LinkedModule:
        """A module whose variables lie where they did. own: its machine code runs on this machine."""
        before = LinkedModule(self._cubin(saved.cubin), self.memory, abi=decoded.abi)
        module = before if own else LinkedModule(self._recompiled(saved, decoded), self.memory, abi=decoded.abi)
        if module.constants != before.constants:
            raise SavedLaunchesError(f"{_COMPILED}, the constants of {decoded.name} lie elsewhere")
        module.place(saved.variables, saved.bank)
        return module

    def _recompiled(self, saved: SavedModule, decoded: Program) -> bytes:
        """The module's machine code for this machine."""
        arch, texts = self.config.gpu.arch, [self.saved.content("ptx", digest) for digest in saved.ptx]
        cubins = [text for text in texts if text.startswith(b"\x7fELF")]
        if fitting := [each for each in cubins if _runs_on(read_cubin(each).arch, self.config)]:
            return max(fitting, key=lambda each: read_cubin(each).arch)
        texts = [text for text in texts if text not in cubins]
        why = f"machine code for {decoded.arch} does not run on a GPU of {arch}"
        if not texts:
            raise SavedLaunchesError(f"{why}, and it came without PTX of {decoded.name}: {_INSTEAD}; {_NO_PTX}")
        fitting = [text for text in texts if _target(text) <= int(re.sub(r"\D", "", arch))]
        text = max(fitting, key=_target) if fitting else min(texts, key=_target)
        try:
            if not _target(text):
                return compile_cuda(text.decode(), arch, path=f"{decoded.name}.cu")
            # PTX for a later GPU may need nothing that this one lacks: ptxas tells.
            return assemble(text if fitting else _TARGET.sub(f".target {arch}".encode(), text), arch)
        except SimulationError as error:
            said = f"its PTX cannot be compiled: {error}" if _target(text) else "a library chose this kernel for it"
            raise SavedLaunchesError(f"{why}, and {said}; {_INSTEAD}") from None


def _runs_on(arch: str, config: GPUConfig) -> bool:
    try:
        check_architecture(arch, config.gpu.arch, "")
    except LaunchError:
        return False
    return True


def _target(ptx: bytes) -> int:
    """The compute capability that a text asks for, 90 for 9.0."""
    found = _TARGET.search(ptx)
    return int(found[1]) if found else 0
