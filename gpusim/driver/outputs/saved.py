"""The file of saved launches: what it holds, and how it is read. `saving.py` writes it, `replay.py` runs it.

A zip file, so that nothing in it is executed when it is read:

- `head.json`: `SavedHead`, with the configuration as TOML;
- `steps/1.json`, ...: `SavedStep`, in the order of time: what has changed of memory since the one before, and a launch;
- `pages/`, `cubins/`, `ptx/`, `programs/`: contents by their SHA-256: up to `PAGE_BYTES` of an allocation; a module's
  machine code, and what it is for other GPUs (PTX, CUDA C++, cubins); a kernel as decoded, without its cubin
  (`isa.Program.to_bytes`).
"""

from __future__ import annotations

import hashlib
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from gpusim.config import GPUConfig, load_config
from gpusim.errors import ConfigError, SavedLaunchesError
from gpusim.node import Node, load_node

FORMAT = 1
PAGE_BYTES = 1 << 16
ZEROS = ""
"""Stands for the digest of a page of zeros, which has no content in the file."""
_MOST_BYTES = 1 << 30
_DAMAGE = (zipfile.BadZipFile, zlib.error, KeyError, ValueError, EOFError, NotImplementedError, OSError)
_Model = TypeVar("_Model", bound="_Saved")


class _Saved(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)


class SavedWork(_Saved):
    """A piece of work that process `host` has put into a stream of a GPU, `gap` cycles after the one before and after
    the ends of `waits`: numbers of works, from 0, or -1 less that of a copy of which the host has done its part.

    priority, queue, overhead: as of `StreamQueue`. name, launch, cycles: of a kernel or a collective, cycles also of a
    pause; ends, nbytes, pinned: of a copy. after: works that it waits for; numbers of meetings, of a part in a
    collective or in messages. takes: whether recording an event, or waiting, takes time."""

    host: int
    gap: float
    waits: tuple[int, ...] = ()
    gpu: int
    stream: int
    priority: int = 0
    queue: int = 0
    kind: Literal["kernel", "copy", "record", "wait", "joint", "pause", "host", "nothing"]
    name: str = ""
    launch: int = 0
    cycles: float = 0
    overhead: int | None = None
    ends: tuple[str, ...] = ()
    nbytes: int = 0
    pinned: bool = True
    after: tuple[int, ...] = ()
    takes: bool = True


class SavedHead(_Saved):
    """GPU and memory of the launches. base, memory_bytes: first address and size of device memory, of each of so many
    GPUs. shares_host: they also reached memory of the host's own. node: what several GPUs are in, as TOML; works: what
    their streams did, in simulated time."""

    format: int
    gpu: str
    base: int
    memory_bytes: int
    shares_host: bool
    gpus: int = 1
    node: str = ""
    works: tuple[SavedWork, ...] = ()


class SavedModule(_Saved):
    """A loaded module, new or with variables that have only now got their places. bank: address of constant bank 3."""

    number: int
    cubin: str
    ptx: tuple[str, ...]
    variables: dict[str, int]
    bank: int | None


class SavedCopy(_Saved):
    """A copy or a fill, as `Observer.copied` hears of it."""

    kind: str
    target: int
    source: int
    nbytes: int
    stream: int


class SavedLaunch(_Saved):
    """A launch; see `LaunchCall`. parameters: in hexadecimal. window: the fields of an `AccessWindow`. set_aside: bytes
    of L2, None if the program has not said. start: its cycle. again: as of `Grid`."""

    number: int
    symbol: str
    program: str
    module: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    cluster: tuple[int, int, int] | None
    cooperative: bool
    stream: int
    parameters: str
    window: tuple[int, int, float, str, str] | None = None
    carveout: int = -1
    set_aside: int | None = None
    start: int = 0
    nvtx_range: str = ""
    gpu: int = 0
    again: bool | None = None


class SavedStep(_Saved):
    """Changes since the step before, then a launch. freed: addresses of allocations that are gone; allocated: new ones,
    (address, bytes, label), of which `shared` are no GPU's own and `host` page-locked memory of the host's; pages: of
    new content, (address, bytes, digest). next_address: as of `DeviceMemory`."""

    freed: tuple[int, ...]
    allocated: tuple[tuple[int, int, str], ...]
    shared: tuple[int, ...] = ()
    host: tuple[int, ...] = ()
    next_address: int
    pages: tuple[tuple[int, int, str], ...]
    modules: tuple[SavedModule, ...]
    copies: tuple[SavedCopy, ...]
    launch: SavedLaunch | None


class SavedLaunches(AbstractContextManager["SavedLaunches"]):
    """An open file of saved launches. Raises SavedLaunchesError, here and later, for one that is none or damaged."""

    def __init__(self, path: str | Path):
        self.path = path
        try:
            self._zip = zipfile.ZipFile(path)
        except FileNotFoundError as error:
            raise SavedLaunchesError(f"cannot read {path}: {error.strerror}") from None
        except _DAMAGE as error:
            reason = "the program that wrote it did not come to its end, or it is another kind of file"
            raise SavedLaunchesError(f"{path} holds no saved launches ({error}): {reason}") from None
        self.head = self._model("head.json", SavedHead)
        if self.head.format != FORMAT:
            raise SavedLaunchesError(f"{path} has format {self.head.format}, this version reads {FORMAT}")

    def config(self) -> GPUConfig:
        """The configuration that the launches ran on."""
        return self._loaded(self.head.gpu, load_config)

    def node(self) -> Node:
        """What the GPUs were in."""
        return self._loaded(self.head.node, load_node) if self.head.node else load_node()

    def _loaded(self, text: str, load: Callable[[Path], Any]) -> Any:
        """A description in TOML."""
        with tempfile.TemporaryDirectory(prefix="gpusim-") as folder:
            file = Path(folder, "saved.toml")
            file.write_text(text, "utf-8")
            try:
                return load(file)
            except ConfigError as error:
                raise SavedLaunchesError(f"{self.path} is of another version: {error}") from None

    def steps(self) -> Iterator[SavedStep]:
        """All steps in order."""
        names = set(self._zip.namelist())
        number = 1
        while (name := f"steps/{number}.json") in names:
            yield self._model(name, SavedStep)
            number += 1

    def content(self, kind: str, digest: str) -> bytes:
        """A content by its digest."""
        data = self._read(f"{kind}/{digest}")
        if hashlib.sha256(data).hexdigest() != digest:
            raise SavedLaunchesError(f"{self.path} is damaged: {kind}/{digest} has another content")
        return data

    def _model(self, name: str, model: type[_Model]) -> _Model:
        try:
            return model.model_validate_json(self._read(name))
        except ValidationError as error:
            first = error.errors()[0]
            raise SavedLaunchesError(f"{self.path} is damaged: {name}, {first['loc']}: {first['msg']}") from None

    def _read(self, name: str) -> bytes:
        try:
            if self._zip.getinfo(name).file_size > _MOST_BYTES:
                raise ValueError(f"{name} is too large")
            return self._zip.read(name)
        except _DAMAGE as error:
            raise SavedLaunchesError(f"{self.path} is damaged: {str(error) or type(error).__name__}") from None

    def __exit__(self, *_: object) -> None:
        self._zip.close()
