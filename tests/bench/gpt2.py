"""A training step of GPT-2 (124 million parameters with 12 layers) on 64 tokens: `gpt2.py LAYERS`. Wants PyTorch."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "gpusim" / "data"))

import torch
from torch.nn import functional
from whole_programs import GPT

torch.manual_seed(0)
model = GPT(50257, 768, 12, int(sys.argv[1]), 1024)
model.head.weight = model.tokens.weight
for parameter in model.parameters():
    if parameter.dim() > 1:
        torch.nn.init.normal_(parameter, std=0.02)
model = model.cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
tokens = torch.randint(50257, (1, 65)).cuda()
loss = functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
loss.backward()
optimizer.step()
print(loss.item())
