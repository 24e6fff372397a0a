"""Changes to other people's Python packages, as they are imported and not on disk, so that they work here as they are.

- PyTorch: of cuDNN it takes convolutions, for which there is a stand-in (`libraries/dnn`). Attention, batch norm,
  recurrent networks and the rest take the kernels that PyTorch itself brings, as they do where cuDNN is off.
- Triton: what autotuning measures runs twice, the second time for its time, with a cold L2 as ever. `do_bench` would
  fill a tenth of a second of the GPU's time with repetitions, thousands of them, which take the same here but for a
  percent. `torch.compile` measures by it too.
- CuPy: seven of its extension modules have the vendor's static runtime inside or use libraries that have, which work
  with the vendor's driver alone. Modules of `gpusim.driver.libraries.cupy` are executed in their place.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any


def _cudnn_of_convolutions(torch: Any) -> None:
    os.environ.setdefault("TORCHINDUCTOR_USE_EXPERIMENTAL_BENCHMARKER", "0")  # then Inductor measures by Triton's
    torch.backends.cuda.enable_cudnn_sdp(False)
    torch.backends.cudnn.is_acceptable = lambda tensor: False
    aten, every = torch.ops.aten, [True] * 3
    library = torch.library.Library("aten", "IMPL", "CUDA")  # replaces what would call cuDNN, while this object lives
    _KEPT.append(library)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch says that it had kernels of these already
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
        fn: Callable[[], object], *_: Any, cold: bool = True, grad_to_none: Any = (), quantiles: Any = (),
        return_mode: str = "mean", **__: Any,
    ) -> float | list[float]:  # fmt: skip
        gpu = testing.runtime.driver.active
        begin, end = (gpu.get_device_interface().Event(enable_timing=True) for _ in range(2))
        fn()
        for tensor in grad_to_none or ():
            tensor.grad = None
        if cold:  # a copy displaces what `fn` reads in L2 as the kernel does that fills memory, and takes no time here
            cache = gpu.get_empty_cache_for_benchmark()
            cache[: len(cache) // 2] = cache[len(cache) // 2 :]
        begin.record()
        fn()
        end.record()
        end.synchronize()
        ms: float = begin.elapsed_time(end)
        return [ms] * len(quantiles or [0]) if quantiles or return_mode == "all" else ms

    testing.do_bench, testing.do_bench_cudagraph = do_bench, partial(do_bench, cold=False)


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
        for finder in sys.meta_path if name in _THEN else ():
            spec = finder.find_spec(name, path, target) if finder is not self else None
            if spec is not None and spec.loader is not None:
                both = spec.loader.exec_module, _THEN[name]
                vars(spec.loader)["exec_module"] = lambda module, both=both: [each(module) for each in both]
                return spec
        return None
