"""PyTorch's own kernels, an operator of each kind; products of matrices by the stand-in for cuBLAS."""

import torch
from compared import agree, finish, random
from torch.nn import functional as F

agree("arange, scale", lambda d: torch.arange(1000, device=d) * 2 + 1)
agree("broadcast, where", lambda d: torch.where(random(d, 30, 1) > 0, random(d, 1, 40), random(d, 30, 40).exp()))
agree("half, bfloat16", lambda d: [random(d, 999, dtype=each).tanh() for each in (torch.float16, torch.bfloat16)], 1e-2)
agree("complex, double", lambda d: torch.complex(random(d, 99).double(), random(d, 99, seed=1).double()).abs())
agree("strided copy", lambda d: random(d, 40, 50, 6).permute(2, 0, 1).contiguous())
agree(
    "sum, mean, max, argmax", lambda d: [random(d, 50, 70).sum(0), random(d, 50, 70).mean(), *random(d, 50, 70).max(1)]
)
agree("cumsum, cumprod", lambda d: [random(d, 1000).cumsum(0), random(d, 20, 30).cumprod(1)])
agree("softmax, log_softmax", lambda d: [random(d, 20, 100).softmax(-1), random(d, 20, 2000).log_softmax(-1)])
agree("sort", lambda d: [*random(d, 3000).sort(), *random(d, 20, 50).sort(1)])
agree("topk, kthvalue", lambda d: [random(d, 1000).topk(5)[0], random(d, 1000).kthvalue(17)[0]])
agree("unique, bincount", lambda d: [(random(d, 500) * 3).int().unique(), (random(d, 500) * 3).abs().long().bincount()])
agree(
    "index, gather",
    lambda d: [
        random(d, 90, 10)[torch.tensor([3, 5, 3], device=d)],
        random(d, 9, 9).gather(1, torch.arange(9, device=d)[:, None]),
    ],
)
agree(
    "index_add, scatter",
    lambda d: [
        torch.zeros(9, 8, device=d).index_add(0, torch.tensor([3, 5, 3], device=d), random(d, 3, 8)),
        torch.zeros(9, device=d).scatter_reduce(0, torch.arange(90, device=d) % 9, random(d, 90), "amax"),
    ],
)
agree("masks, nonzero", lambda d: [random(d, 1000)[random(d, 1000) > 0], (random(d, 100) > 1).nonzero()])
agree("matmul", lambda d: [random(d, 50, 60) @ random(d, 60, 70), random(d, 50, 60) @ random(d, 60)])
agree("batched matmul", lambda d: [random(d, 5, 50, 60) @ random(d, 5, 60, 70), random(d, 60).dot(random(d, 60))])
agree(
    "double and complex matmul",
    lambda d: [
        random(d, 30, 40, dtype=each) @ random(d, 40, 20, dtype=each) for each in (torch.float64, torch.complex64)
    ],
)
agree(
    "half and bfloat16 matmul",
    lambda d: [
        random(d, 72, 64, dtype=each) @ random(d, 64, 40, dtype=each) for each in (torch.float16, torch.bfloat16)
    ],
    2e-2,
)
agree("linear with bias", lambda d: F.linear(random(d, 50, 64), random(d, 72, 64), random(d, 72)))
agree(
    "linear, gelu and relu fused",
    lambda d: [
        torch._addmm_activation(random(d, 72), random(d, 50, 64), random(d, 64, 72), use_gelu=each)
        for each in (False, True)
    ],
    1e-3,
)
agree(
    "int8 matmul",
    lambda d: torch._int_mm((random(d, 32, 64) * 9).to(torch.int8), (random(d, 64, 48) * 9).to(torch.int8)),
)
agree(
    "layer and group norm", lambda d: [F.layer_norm(random(d, 20, 96), (96,)), F.group_norm(random(d, 2, 8, 5, 5), 4)]
)
agree("batch norm", lambda d: F.batch_norm(random(d, 4, 8, 6, 6), None, None, training=True))
agree(
    "convolutions",
    lambda d: [
        F.conv2d(random(d, 2, 3, 12, 12), random(d, 8, 3, 3, 3), padding=1),
        F.conv1d(random(d, 2, 4, 30), random(d, 6, 4, 5)),
        F.conv2d(random(d, 2, 8, 12, 12), random(d, 8, 1, 3, 3), groups=8, stride=2),
        F.conv_transpose2d(random(d, 2, 4, 6, 6), random(d, 4, 3, 3, 3)),
    ],
    1e-3,
)
agree(
    "pooling, interpolation",
    lambda d: [
        F.max_pool2d(random(d, 2, 4, 12, 12), 2),
        F.avg_pool2d(random(d, 2, 4, 12, 12), 3),
        F.interpolate(random(d, 1, 3, 8, 8), scale_factor=2, mode="bilinear"),
    ],
)
agree(
    "embedding, cross entropy",
    lambda d: [
        F.embedding(torch.tensor([1, 2, 5], device=d), random(d, 10, 16)),
        F.cross_entropy(random(d, 10, 16), torch.arange(10, device=d)),
    ],
)
finish()
