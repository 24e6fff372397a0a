"""`torch.compile`: functions and a model that Inductor turns into Triton kernels."""

import torch
from compared import agree, finish, random
from torch import nn


def compiled(function, *shapes):
    def run(device):
        inputs = [random(device, *shape, seed=k).requires_grad_() for k, shape in enumerate(shapes)]
        out = (torch.compile(function) if device == "cuda" else function)(*inputs)
        out.square().sum().backward()
        return [out, *(each.grad for each in inputs)]

    return run


def model(device):
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 8)).to(device)
    return (torch.compile(layers) if device == "cuda" else layers)(random(device, 16, 32))


agree("elementwise", compiled(lambda x, y: torch.sin(x) * y + x.exp(), (300,), (300,)))
agree("softmax of a sum", compiled(lambda x, y: torch.softmax(x + y, -1), (20, 64), (64,)))
agree("perceptron", model, 1e-3)
finish()
