"""Modules and kernels as the driver keeps them: a linked cubin, and what a kernel was set to."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from gpusim.driver.codes import Code, DriverError
from gpusim.launch.module import LinkedModule
from isa import Program
from isa.errors import IsaError

if TYPE_CHECKING:
    from gpusim.driver.state import Driver


@dataclass
class Kernel:
    """A kernel of a module. `attributes`: what the program set, by number of `CUfunction_attribute`."""

    handle: int
    name: str
    module: Module
    attributes: dict[int, int] = field(default_factory=dict)

    @cached_property
    def program(self) -> Program:
        """The kernel as decoded, for what its file says about it."""
        return self.module.linked.program(self.name)

    def linked(self) -> Program:
        """The kernel's code as it has to run now."""
        return self.module.linked.link(self.program)


class Module:
    """A loaded cubin. Its handle is that of a module and of a library.

    Raises NO_BINARY_FOR_GPU, INVALID_IMAGE through `load`.
    """

    def __init__(self, driver: Driver, linked: LinkedModule):
        self.handle = driver.new_handle()
        self.linked = linked
        self.kernels: dict[str, Kernel] = {}

    @classmethod
    def load(cls, driver: Driver, cubin: bytes) -> Module:
        """Place a cubin in device memory and register it in the current context."""
        try:
            linked = LinkedModule(cubin, driver.device.memory)
        except IsaError as error:
            driver.say(f"the module cannot be loaded: {error}")
            raise DriverError(Code.INVALID_IMAGE) from None
        module = cls(driver, linked)
        driver.context().modules[module.handle] = module
        return module

    def kernel(self, driver: Driver, name: str) -> Kernel:
        """A kernel by its mangled name. Raises NOT_FOUND."""
        if name not in self.linked.kernels:
            raise DriverError(Code.NOT_FOUND)
        if name not in self.kernels:
            kernel = Kernel(driver.new_handle(), name, self)
            self.kernels[name] = kernel
            driver.context().kernels[kernel.handle] = kernel
        return self.kernels[name]

    def unload(self, driver: Driver) -> None:
        """Give the module's memory back."""
        context = driver.context_with_module(self.handle)
        for kernel in self.kernels.values():
            context.kernels.pop(kernel.handle, None)
        context.modules.pop(self.handle, None)
        self.linked.unload()
