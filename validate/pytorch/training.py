"""Forward, backward and a step of an optimiser: a multi-layer perceptron, a convolutional net, a transformer block."""

import torch
from compared import agree, finish, random
from torch import nn


def trained(make, inputs, optimiser, steps=2, autocast=False):
    """What two steps of training leave: losses, gradients and parameters."""

    def run(device):
        torch.manual_seed(0)
        model = make().to(device)
        step = optimiser(model.parameters())
        x, target = inputs(device)
        losses = []
        for _ in range(steps):
            step.zero_grad()
            with torch.autocast(device, torch.bfloat16, enabled=autocast):
                loss = nn.functional.cross_entropy(model(x).flatten(0, -2).float(), target.flatten())
            loss.backward()
            step.step()
            losses.append(loss.detach())
        return [losses, [p.grad for p in model.parameters()], list(model.parameters())]

    return run


def perceptron():
    return nn.Sequential(nn.Linear(40, 64), nn.ReLU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 10))


def convolutional():
    return nn.Sequential(
        *(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(8, 16, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10)),
    )


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True, norm_first=True)
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        return self.head(self.layer(x))


labels = torch.arange(24) % 10
flat = lambda d: (random(d, 24, 40), labels.to(d))  # noqa: E731
images = lambda d: (random(d, 6, 3, 16, 16), labels[:6].to(d))  # noqa: E731
words = lambda d: (random(d, 2, 12, 32), labels.to(d))  # noqa: E731
agree("multi-layer perceptron, SGD", trained(perceptron, flat, lambda p: torch.optim.SGD(p, 0.1, momentum=0.9)), 1e-3)
agree("multi-layer perceptron, Adam", trained(perceptron, flat, lambda p: torch.optim.Adam(p, 1e-3)), 2e-3)
agree("convolutional net, SGD", trained(convolutional, images, lambda p: torch.optim.SGD(p, 0.1)), 5e-3)
agree("transformer block, AdamW", trained(Block, words, lambda p: torch.optim.AdamW(p, 1e-3)), 5e-3)
agree("perceptron in bfloat16", trained(perceptron, flat, lambda p: torch.optim.SGD(p, 0.1), autocast=True), 5e-2)
finish()
