"""The device as PyTorch shows it: properties, streams, events, the caching allocator, pinned memory, random numbers."""

import torch
from compared import agree, finish

properties = torch.cuda.get_device_properties(0)
print(properties)
agree("found", lambda d: torch.cuda.is_available() and torch.cuda.device_count() == 1, reference=lambda: True)


def streams(device):
    stream = torch.cuda.Stream()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    with torch.cuda.stream(stream):
        begin.record()
        result = torch.ones(300_000, device=device) * 2
        end.record()
    torch.cuda.current_stream().wait_stream(stream)
    end.synchronize()
    return [result.sum(), begin.elapsed_time(end) >= 0]


agree("streams and events", streams, reference=lambda: [torch.tensor(600_000.0), True])


def allocator(device):
    before = torch.cuda.memory_allocated()
    kept = torch.empty(1 << 20, dtype=torch.uint8, device=device)
    used = torch.cuda.memory_allocated() - before
    del kept
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info()
    return [used, torch.cuda.memory_allocated() - before, free <= total]


agree("caching allocator", allocator, reference=lambda: [1 << 20, 0, True])
agree("pinned memory", lambda d: torch.ones(999).pin_memory().to(d, non_blocking=True).sum(), reference=lambda: 999.0)


def random_numbers(device):
    torch.manual_seed(7)
    first = (torch.rand(5000, device=device), torch.randn(5000, device=device), torch.randperm(500, device=device))
    torch.manual_seed(7)
    again = torch.rand(5000, device=device)
    kept = torch.nn.functional.dropout(torch.ones(5000, device=device), 0.3)
    same = bool((first[0] == again).all())
    return [first[0].mean(), first[1].std(), first[2].sum(), same, (kept > 0).float().mean()]


agree("random numbers", random_numbers, 0.03, reference=lambda: [0.5, 1.0, 499 * 250, True, 0.7])


def graph(device):
    x = torch.ones(64, device=device)
    captured = torch.cuda.CUDAGraph()
    y = x * 2
    with torch.cuda.graph(captured):
        y = x * 3 + 1
    x.fill_(2)
    captured.replay()
    return y


agree("CUDA graph", graph, reference=lambda: torch.full((64,), 7.0))
finish()
