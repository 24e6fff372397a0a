"""A loaded cubin: its variables in device memory, and its kernels with every address written in.

What the driver's cuModuleLoad, cuModuleGetFunction and cuModuleGetGlobal do. A variable gets an allocation of its own,
under its name, when the first kernel that uses it is linked or the host asks for it; so an access past its end is
found, and told by name. `__constant__` variables live in device memory too, together as in their bank, from where each
launch copies them to constant bank 3, so that what the host writes reaches later launches.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpusim.errors import KernelRaised, SymbolError
from gpusim.launch.memory import DeviceMemory
from isa import Program, device_library
from isa.cubin import Cubin, GlobalSymbol, read_cubin
from isa.launch_values import launch_values, reads_launch_value
from isa.link import address_of, function_addresses, relocate, write_address
from isa.listing import program_from_cubin

_CONSTANTS = 3


@dataclass(frozen=True, slots=True)
class Symbol:
    """A variable of a loaded module: device address of its first byte, and its size in bytes."""

    name: str
    address: int
    nbytes: int


class LinkedModule:
    """One loaded cubin. No kernel is disassembled before it is asked for, and none for a variable.

    Args:
        cubin: the file's content, or what `read_cubin` has made of it.
        memory: where its variables go.
        name: the file's name, for messages.
        abi: 'numba' or 'c', how arguments of its kernels are laid out; None guesses from their names.

    Raises:
        NotACubin: it is not a cubin.
    """

    def __init__(
        self, cubin: bytes | Cubin, memory: DeviceMemory, name: str = "<cubin>", abi: str | None = None
    ) -> None:
        self.memory, self.name = memory, name
        self._abi = abi
        self._parsed = cubin if isinstance(cubin, Cubin) else read_cubin(cubin, name)
        known = [each for each in self._parsed.global_symbols if each.bank in (None, _CONSTANTS)]
        self._sections = {each.name: each for each in known if each.name.startswith(".nv.")}
        self._variables = {each.name: each for each in known if each.name not in self._sections}
        self._placed: dict[str, Symbol] = {}
        self._bank: int | None = None
        self._linked: dict[tuple[str, str], Program] = {}
        self._latest: dict[tuple[str, str], Program] = {}

    @property
    def kernels(self) -> Collection[str]:
        """Mangled names of the cubin's kernels."""
        return self._parsed.kernels.keys()

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of the module's variables."""
        return tuple(self._variables)

    def symbol(self, name: str) -> Symbol:
        """Address and size of a variable, as cuModuleGetGlobal gives them. Raises SymbolError if there is none."""
        if name not in self._placed:
            if name not in self._variables:
                raise SymbolError(name, self.name, self.variables)
            self._place(self._variables[name])
        return self._placed[name]

    def program(self, entry: str | None = None) -> Program:
        """A kernel as decoded, before its addresses are known: by name, see `isa.load`; None if there is only one."""
        return program_from_cubin(self._parsed, entry, abi=self._abi, path=self.name)

    def link(self, entry: str | Program | None = None) -> Program:
        """A kernel that is ready to run: addresses written in, constants as the host has left them.

        To be asked for before every launch; only the first call for a kernel takes long.

        Raises:
            EntryError: no such kernel, or several.
            CompileError: it needs a function that nobody provides.
            SymbolError: it needs a variable that the module does not define.
        """
        program = entry if isinstance(entry, Program) else self.program(entry)
        key = program.symbol, program.abi
        linked = self._linked.get(key)
        if linked is None:
            linked = self._linked[key] = relocate(program, self._address)
        latest = self._latest[key] = self._with_constants(linked, self._latest.get(key, linked))
        return latest

    def check_exception(self, program: Program) -> None:
        """Raise KernelRaised if a kernel that Numba compiled for debugging has raised an exception: it stores the
        exception's code and the coordinates of the thread in variables named after it."""
        code = self._stored(program, "__errcode__") if program.exceptions else 0
        if code == 0:
            return
        symbol = self.symbol(f"{program.symbol}__errcode__")
        self.memory.fill(symbol.address, symbol.nbytes)
        raise KernelRaised(
            program.exceptions.get(code, f"error {code}"),
            kernel=program.name,
            block=tuple(self._stored(program, f"__ctaid{axis}__") for axis in "xyz"),
            thread=tuple(self._stored(program, f"__tid{axis}__") for axis in "xyz"),
        )

    def _stored(self, program: Program, suffix: str) -> int:
        symbol = self.symbol(program.symbol + suffix)
        return int.from_bytes(self.memory.view(symbol.address, 4).tobytes(), "little")

    @property
    def places(self) -> tuple[dict[str, int], int | None]:
        """Addresses of the variables that have one, and of the copy of constant bank 3."""
        return {name: each.address for name, each in self._placed.items()}, self._bank

    @property
    def constants(self) -> dict[str, tuple[int, int]]:
        """Offset and size of each `__constant__` variable."""
        return {name: (each.offset, each.size) for name, each in self._variables.items() if each.bank is not None}

    def place(self, variables: Mapping[str, int], bank: int | None) -> None:
        """Take variables, and constant bank 3, to lie in memory already. Unknown names are left out."""
        known = {name: at for name, at in variables.items() if name in self._variables}
        self._placed = {name: Symbol(name, at, self._variables[name].size) for name, at in known.items()}
        self._bank = bank

    def unload(self) -> None:
        """Give the variables' memory back."""
        for each in self._placed.values():
            if self._variables[each.name].bank is None:
                self.memory.free(each.address)
        if self._bank is not None:
            self.memory.free(self._bank)
        self._bank = None
        self._placed.clear()
        self._linked.clear()
        self._latest.clear()

    def _address(self, name: str, addend: int) -> int:
        """Device address `addend` bytes from the start of a variable, or of a section that holds variables."""
        if name in self._variables:
            return self.symbol(name).address + addend
        section = self._sections.get(name)
        if section is None:
            return addend  # an undefined weak symbol is at 0
        offset = section.offset + addend
        for each in self._variables.values():
            if section.bank is not None:
                return self._bank_address() + offset
            if each.bank is None and each.offset <= offset < each.offset + max(each.size, 1):
                return self.symbol(each.name).address + offset - each.offset
        raise SymbolError(f"{name}+{addend}", self.name, self.variables)

    def _place(self, variable: GlobalSymbol) -> None:
        """Give a variable its address and its initial value; addresses in it may place others."""
        if variable.bank is not None:
            address = self._bank_address() + variable.offset
            self._placed[variable.name] = Symbol(variable.name, address, variable.size)
            return
        address = self.memory.alloc(variable.size, f"variable {variable.name}")
        self._placed[variable.name] = Symbol(variable.name, address, variable.size)
        self._fill(address, self._parsed.global_image, "global", variable.offset, variable.size)

    def _bank_address(self) -> int:
        """Device address of the copy of constant bank 3."""
        if self._bank is None:
            content = self._parsed.constant_banks[_CONSTANTS]
            self._bank = self.memory.alloc(len(content), "__constant__ variables")
            self._fill(self._bank, content, f"constant{_CONSTANTS}", 0, len(content))
        return self._bank

    def _fill(self, address: int, content: bytes, target: str, first: int, size: int) -> None:
        """Write bytes first..first+size-1 of some initial content to memory, with the addresses that belong there."""
        data = bytearray(content[first : first + size])
        for entry in self._parsed.relocations:
            if entry.target == target and first <= entry.offset < first + size:
                write_address(data, entry.offset - first, entry, address_of(self._functions, entry, self._address))
        self.memory.view(address, size)[:] = np.frombuffer(data, np.uint8)

    @cached_property
    def _functions(self) -> dict[str, int]:
        """Addresses of functions, for pointers to them."""
        return function_addresses(device_library.added_to(self._parsed))

    def _with_constants(self, linked: Program, latest: Program) -> Program:
        """The program with constant bank 3 as it is in memory, and with its address where code looks for it; the latest
        one that was launched if that is the same."""
        where = launch_values(linked.arch).constants
        if self._bank is None and not (_CONSTANTS in linked.constant_banks and reads_launch_value(linked, where)):
            return linked
        address = self._bank_address()
        content = self.memory.view(address, len(linked.constant_banks[_CONSTANTS])).tobytes()
        launch = bytearray(linked.constant_banks.get(0, b"").ljust(where + 8, b"\0"))
        launch[where : where + 8] = address.to_bytes(8, "little")
        banks = linked.constant_banks | {_CONSTANTS: content, 0: bytes(launch)}
        return latest if latest.constant_banks == banks else linked.but(constant_banks=banks)


class Modules:
    """The modules of one device: one for each cubin, loaded when a kernel of it is first launched."""

    def __init__(self, memory: DeviceMemory) -> None:
        self.memory = memory
        self._loaded: dict[str, LinkedModule] = {}

    def of(self, program: Program) -> LinkedModule:
        """The module that holds a program's variables."""
        if program.sha256 not in self._loaded:
            self._loaded[program.sha256] = LinkedModule(program.cubin, self.memory, program.name, program.abi)
        return self._loaded[program.sha256]

    def check_exception(self, program: Program) -> None:
        """See `LinkedModule.check_exception`."""
        if program.exceptions:
            self.of(program).check_exception(program)

    def link(self, program: Program) -> Program:
        """The program as it is to run now, see `LinkedModule.link`."""
        fixed = not program.relocations and not reads_launch_value(program, launch_values(program.arch).constants)
        if fixed and program.sha256 not in self._loaded:
            return program
        return self.of(program).link(program)
