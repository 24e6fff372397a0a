"""Saves launches with all that they read, to be repeated on other machines without the program: `--save FILE`.

Before each launch the memory of all live allocations is looked through, as far as it was ever written, and pages that
have changed since the last saved launch are stored, each content once. What changes memory does not matter: kernels,
copies, or the host, which writes managed and pinned memory itself.
"""

from __future__ import annotations

import hashlib
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpusim.config import GPUConfig
from gpusim.driver.codes import say
from gpusim.driver.outputs import saved
from gpusim.driver.outputs.saved import PAGE_BYTES, ZEROS, SavedCopy, SavedLaunch, SavedModule, SavedStep
from gpusim.driver.outputs.stream_work import StreamRecorder
from gpusim.driver.work.launches import CopyCall, LaunchCall, Observer
from gpusim.launch.memory import HOST_MEMORY, Allocation, DeviceMemory
from gpusim.units import counted

if TYPE_CHECKING:
    from gpusim.device import Device
    from gpusim.driver.objects import LoadedModule

_SAMPLE_BYTES, _WORTH_IT = 4096, 0.9
"""A page is compressed if its beginning gets so much shorter by it."""


class LaunchSaver(Observer):
    """Writes the file step by step. Where that fails, this is said, the file is removed, and nothing more is saved.

    chooses: whether a launch is saved, by its number and symbol. streams: to be told of the same.
    """

    def __init__(self, path: Path, config: GPUConfig, chooses: Callable[[int, str], bool]):
        self.path, self.config, self._chooses = path, config, chooses
        self._part = path.with_name(f"{path.name}.part")
        self._zip: zipfile.ZipFile | None = None
        self._names: set[str] = set()
        self._pages: dict[int, tuple[Allocation, list[str]]] = {}
        self._modules: dict[int, SavedModule] = {}
        self._programs: dict[tuple[int, str], str] = {}
        self._copies: list[SavedCopy] = []
        self._steps = self._launches = 0
        self._failed = self._shares_host = False
        self.streams = StreamRecorder()

    def began(self, device: Device) -> None:
        self._device, self._memory = device, device.memory
        self._try(self._begin)

    def _begin(self) -> None:
        self._zip = zipfile.ZipFile(self._part, "w")

    def _end(self) -> None:
        assert self._zip is not None
        head = saved.SavedHead(
            format=saved.FORMAT,
            gpu=self.config.to_toml(),
            base=self._memory.base,
            memory_bytes=self._memory.capacity_bytes,
            shares_host=self._shares_host,
            gpus=self._memory.gpus,
            node=self._device.streams.mover.node.config.to_toml() if self.streams.works else "",
            works=tuple(saved.SavedWork(**each) for each in self.streams.works),
        )
        self._write("head.json", head.model_dump_json(exclude_defaults=True).encode())
        self._zip.close()

    def copied(self, copy: CopyCall, cycle: int, began: int) -> None:
        self._copies.append(SavedCopy(**{name: getattr(copy, name) for name in SavedCopy.model_fields}))

    def launching(self, call: LaunchCall, cycle: int) -> None:
        if not self._chooses(call.number, call.symbol):
            self._copies.clear()
        else:
            self._try(lambda: self._save(call, cycle))

    def _save(self, call: LaunchCall, start: int) -> None:
        """Write the step of a launch."""
        assert call.module is not None, "launches of a driver know their module"
        program = call.module.kernel(call.symbol).program
        key = call.module.handle, call.symbol
        if key not in self._programs:
            self._programs[key] = self._store("programs", program.to_bytes(with_cubin=False), compress=False)
        launch = SavedLaunch(
            number=call.number, symbol=call.symbol, program=self._programs[key], module=call.module.handle,
            grid=call.launch.grid, block=call.launch.block, shared_bytes=call.launch.shared_bytes,
            cluster=call.program.cluster if call.program.cluster != program.cluster else None,
            cooperative=call.cooperative, stream=call.stream, parameters=call.parameter_bytes.hex(),
            window=None if call.window is None else astuple(call.window), set_aside=self._device.set_aside_bytes,
            carveout=call.carveout, start=start, nvtx_range=call.nvtx_range, gpu=call.gpu, again=call.again,
        )  # fmt: skip
        self._launches += 1
        self._write_step(self._changes(self._news_of(call.module, program.cubin), launch))

    def _changes(self, modules: list[SavedModule], launch: SavedLaunch | None) -> SavedStep:
        memory = self._memory
        live = {each.address: each for each in memory.allocations}
        gone = [address for address, (old, _) in self._pages.items() if live.get(address) != old]
        for address in gone:
            del self._pages[address]
        new = [each for each in live.values() if each.address not in self._pages]
        for each in new:
            self._shares_host |= not memory.is_inside(each.address)
            self._pages[each.address] = each, [ZEROS] * -(-each.nbytes // PAGE_BYTES)
        copies, self._copies = self._copies, []
        return SavedStep(
            freed=tuple(gone),
            allocated=tuple((each.address, each.nbytes, each.label) for each in new),
            shared=tuple(each.address for each in new if memory.owner(each.address) < 0),
            host=tuple(each.address for each in new if memory.owner(each.address) == HOST_MEMORY),
            next_address=memory.next_address,
            pages=tuple(self._changed_pages(memory, copies)),
            modules=tuple(modules),
            copies=tuple(copies),
            launch=launch,
        )

    def _changed_pages(self, memory: DeviceMemory, copies: Sequence[SavedCopy]) -> Iterator[tuple[int, int, str]]:
        """Pages that are others than at the step before, and those that a copy went to: it may have brought back what a
        launch had changed, which a replay changes too."""
        for allocation, digests in self._pages.values():
            written = allocation.address
            to = [(each.target, each.target + each.nbytes) for each in copies if each.target < allocation.end]
            to = [(first, end) for first, end in to if end > allocation.address]
            for k, start in enumerate(range(allocation.address, allocation.end, PAGE_BYTES)):
                size = min(PAGE_BYTES, allocation.end - start)
                if written <= start:
                    written = memory.next_written(start)
                page = memory.array(start, np.uint8, (size,))
                digest = self._store("pages", page.data, None) if written < start + size and page.any() else ZEROS
                if digest != digests[k] or any(first < start + size and start < end for first, end in to):
                    digests[k] = digest
                    yield start, size, digest

    def _news_of(self, module: LoadedModule, cubin: bytes) -> list[SavedModule]:
        """Return what was not yet written of a module."""
        variables, bank = module.linked.places
        known = self._modules.get(module.handle)
        if known is not None and (known.variables, known.bank) == (variables, bank):
            return []
        self._modules[module.handle] = SavedModule(
            number=module.handle,
            cubin=self._store("cubins", cubin),
            ptx=tuple(self._store("ptx", each) for each in module.others),
            variables=variables,
            bank=bank,
        )
        return [self._modules[module.handle]]

    def _store(self, kind: str, data: bytes | memoryview, compress: bool | None = True) -> str:
        """The digest of a content, which is then in the file. compress: None: where that is worth it."""
        digest = hashlib.sha256(data).hexdigest()
        if (name := f"{kind}/{digest}") not in self._names:
            self._names.add(name)
            sample = data[:_SAMPLE_BYTES] if compress is None else b""
            self._write(name, bytes(data), compress or len(zlib.compress(sample, 1)) < _WORTH_IT * len(sample))
        return digest

    def _write(self, name: str, data: bytes, compress: bool = True) -> None:
        assert self._zip is not None
        self._zip.writestr(name, data, zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED, 1)

    def _write_step(self, step: SavedStep) -> None:
        self._steps += 1
        self._write(f"steps/{self._steps}.json", step.model_dump_json().encode())

    def _try(self, do: Callable[[], Any]) -> None:
        if self._failed:
            return
        try:
            do()
        except OSError as error:
            self._failed = True
            say(f"--save {self.path}: {error.strerror}; nothing is saved")
            if self._zip is not None and self._zip.fp is not None:
                with suppress(OSError):
                    self._zip.fp.close()
                self._zip.fp = None  # there is no end to be written any more
            if self._part.is_file():
                self._part.unlink()

    def close(self) -> None:
        if self._zip is None or self._failed:
            return
        if self._copies:
            self._try(lambda: self._write_step(self._changes([], None)))
        self._try(self._end)
        self._try(lambda: self._part.replace(self.path))
        if not self._failed:
            launches = f"{counted(self._launches, 'launch')} in {self.path.stat().st_size:,} bytes"
            say(f"{self.path}: {launches}; gpusim replay {self.path} runs them")
