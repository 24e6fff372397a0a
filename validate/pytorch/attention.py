"""Scaled dot-product attention by each of PyTorch's ways, forward and backward."""

import torch
from compared import agree, finish, random
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention


def attention(backend, dtype, length=64, width=64, causal=False):
    def run(device):
        q, k, v = (random(device, 1, 2, length, width, seed=each).requires_grad_() for each in range(3))
        kind = dtype if device == "cuda" else torch.float32
        with sdpa_kernel(backend if device == "cuda" else SDPBackend.MATH):
            out = scaled_dot_product_attention(q.to(kind), k.to(kind), v.to(kind), is_causal=causal)
        out.float().square().sum().backward()
        return [out, q.grad, k.grad, v.grad]

    return run


agree("plain", attention(SDPBackend.MATH, torch.float32, 40, 32))
agree("memory efficient, float", attention(SDPBackend.EFFICIENT_ATTENTION, torch.float32), 5e-3)
agree("memory efficient, half", attention(SDPBackend.EFFICIENT_ATTENTION, torch.float16), 5e-2)
agree("flash, half", attention(SDPBackend.FLASH_ATTENTION, torch.float16), 5e-2)
agree("flash, bfloat16, causal", attention(SDPBackend.FLASH_ATTENTION, torch.bfloat16, causal=True), 0.2)
finish()
