"""Changes to other people's Python packages, as they are imported and not on disk, so that they work here as they are.

- PyTorch: of cuDNN it takes convolutions, for which there is a stand-in (`libraries/dnn`). Attention, batch norm,
  recurrent networks and the rest take the kernels that PyTorch itself brings, as they do where cuDNN is off.
- Triton: what autotuning measures runs twice, the second time for its time. `do_bench` would fill a tenth of a second
  of the GPU's time with repetitions, thousands of them, which all take the same here.
- CuPy: seven of its extension modules have the vendor's static runtime inside or use libraries that have, which work
  with the vendor's driver alone. Modules of `gpusim.driver.libraries.cupy` are executed in their place.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any


def _cudnn_of_convolutions(torch: Any) -> None:
    torch.backends.cuda.enable_cudnn_sdp(False)
    torch.backends.cudnn.is_acceptable = lambda tensor: False
    aten, every = torch.ops.aten, [True] * 3
    library = torch.library.Library("aten", "IMPL", "CUDA")  # replaces what would call cuDNN, while this object lives
    _KEPT.append(library)
    for name in ("cudnn_is_acceptable", "_use_cudnn_ctc_loss", "_use_cudnn_ctc_loss.Tensor"):
        library.impl(name, lambda *_: False)
    library.impl("cudnn_batch_norm", lambda x, *given: (*aten.native_batch_norm(x, *given), x.new_empty(0)))
    library.impl(
        "cudnn_batch_norm_backward",
        lambda x, gradient, *given: aten.native_batch_norm_backward(gradient, x, *given[:-2], True, given[-2], every),
    )
    library.impl("cudnn_grid_sampler", lambda x, grid: aten.grid_sampler_2d(x, grid, 0, 0, True))
    library.impl(
        "cudnn_grid_sampler_backward",
        lambda x, grid, gradient: aten.grid_sampler_2d_backward(gradient, x, grid, 0, 0, True, every[:2]),
    )


def _measured_once(testing: Any) -> None:
    def do_bench(
        fn: Callable[[], object], *_: Any, quantiles: Sequence[float] = (), return_mode: str = "mean", **__: Any
    ) -> float | list[float]:
        device = testing.runtime.driver.active.get_device_interface()
        begin, end = device.Event(enable_timing=True), device.Event(enable_timing=True)
        fn()
        begin.record()
        fn()
        end.record()
        device.synchronize()
        ms: float = begin.elapsed_time(end)
        return [ms] * len(quantiles or [0]) if quantiles or return_mode == "all" else ms

    testing.do_bench = do_bench


_KEPT: list[object] = []
_THEN: dict[str, Callable[[ModuleType], None]] = {"torch": _cudnn_of_convolutions, "triton.testing": _measured_once}

REPLACED = {
    "cupy_backends.cuda.api.runtime": "runtime.py",
    "cupy.cuda.cub": "cub.py",
    "cupy.cuda.thrust": "thrust.py",
    "cupy.cuda.jitify": "jitify.py",
    "cupy.random._generator_api": "generator_api.py",
    "cupy_backends.cuda.libs.cublas": "cublas.py",
    "cupy_backends.cuda.libs.curand": "curand.py",
}
"""Files of `libraries/cupy`, by the module of CuPy that each is executed as."""


def watch() -> None:
    """Do so from now on; for what has been imported already, now."""
    if not any(isinstance(each, _Finder) for each in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
        for name in _THEN.keys() & sys.modules.keys():
            _THEN[name](sys.modules[name])


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules that replace others, and has what the other finders find loaded with what comes then."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name in REPLACED:
            return spec_from_file_location(name, Path(__file__).parent / "libraries" / "cupy" / REPLACED[name])
        if name not in _THEN:
            return None
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target) if finder is not self else None
            if spec is not None and spec.loader is not None:
                spec.loader = _Loader(spec.loader, _THEN[name])
                return spec
        return None


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: importlib.abc.Loader, then: Callable[[ModuleType], None]):
        self._loader, self._then = loader, then

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._loader
        self._then(module)
