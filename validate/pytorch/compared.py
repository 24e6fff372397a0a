"""What the programs share: a computation on the CPU and on the GPU, and one line that says whether they agree."""

from __future__ import annotations

import time
import traceback

import torch

_failures: list[str] = []


def random(device, *shape, seed=0, dtype=torch.float32):
    """Numbers that are the same on every device."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype).to(device)


def agree(name, computation, tolerance=1e-4, reference=None):
    """Run computation(device) on both and compare what it returns, tensors of one structure; or with what `reference`
    returns."""
    wanted = computation("cpu") if reference is None else reference()
    begun = time.perf_counter()
    try:
        found = computation("cuda")
        torch.testing.assert_close(_on_cpu(found), _on_cpu(wanted), rtol=tolerance, atol=tolerance, check_dtype=False)
        verdict = "ok"
    except Exception as error:
        verdict = f"FAILED {type(error).__name__}: " + " ".join(str(error).split())[:300]
        if not isinstance(error, AssertionError):
            traceback.print_exc()
        _failures.append(name)
    print(f"{name:<40} {time.perf_counter() - begun:6.1f} s  {verdict}", flush=True)


def _on_cpu(value):
    if isinstance(value, (list, tuple)):
        return [_on_cpu(each) for each in value]
    return value.detach().cpu() if isinstance(value, torch.Tensor) else torch.tensor(value)


def finish():
    """End the program; its status says whether all agreed."""
    raise SystemExit(1 if _failures else 0)
