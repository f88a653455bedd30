# SPDX-License-Identifier: Apache-2.0
"""The networks that DeepSpeed trains here, their groups of parameters, and their optimizers."""

from __future__ import annotations

from typing import Any

import torch
from settings import Network, Settings
from torch import nn


class Block(nn.Module):
    def __init__(self, width: int, inner: int = 0) -> None:
        super().__init__()
        inner = inner or 2 * width + 1
        self.up = nn.Linear(width, inner)
        self.down = nn.Linear(inner, width, bias=False)
        self.norm = nn.LayerNorm(width)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden + self.down(torch.tanh(self.up(self.norm(hidden))))


class Net(nn.Module):
    """Has what checkpoints may have: see Network."""

    def __init__(self, said: Network) -> None:
        super().__init__()
        self.embedding = nn.Embedding(said.vocabulary, said.width)
        self.blocks = nn.ModuleList([Block(said.width) for _ in range(said.layers)])
        self.scale = nn.Parameter(torch.tensor([1.5]))
        self.shift = nn.Parameter(torch.tensor([0.5]))
        self.cube = nn.Parameter(torch.randn(3, 2, 2))
        if said.frozen:
            self.frozen = nn.Linear(said.width, 3).requires_grad_(False)
            self.still = nn.Parameter(torch.randn(7), requires_grad=False)
        if said.unused:
            self.unused = nn.Parameter(torch.randn(3, 3))
        if said.empty:
            self.empty = nn.Parameter(torch.zeros(0, said.width))
        self.head = nn.Linear(said.width, said.vocabulary, bias=False)
        if said.tied:
            self.head.weight = self.embedding.weight
        self.register_buffer("count", torch.tensor(3, dtype=torch.int64))
        self.register_buffer("angles", torch.randn(4, 5))
        self.register_buffer("exact", torch.randn(2, 3, dtype=torch.float64))
        self.register_buffer("mask", torch.tensor([True, False, True]))
        self.register_buffer("bytes", torch.arange(5, dtype=torch.uint8))
        self.register_buffer("unsaved", torch.zeros(3), persistent=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden = self.embedding(tokens)
        for block in self.blocks:
            hidden = block(hidden)
        hidden = hidden * self.scale + self.cube.sum() * self.shift * 0.01
        if hasattr(self, "frozen"):
            hidden = hidden + self.frozen(hidden).mean() + self.still.sum()
        return self.head(hidden)


def groups_of(network: nn.Module, count: int) -> list[dict[str, Any]]:
    """1: all; 2: vectors and matrices; 3: in another order; 4: those without a gradient by themselves."""
    named = [(name, one) for name, one in network.named_parameters() if one.requires_grad]
    flat = [one for _, one in named if one.ndim <= 1]
    deep = [one for name, one in named if one.ndim > 1 and name != "cube"]
    cube = [one for name, one in named if name == "cube"]
    unused = [one for name, one in named if name == "unused"]
    lists = {1: [[one for _, one in named]], 2: [deep + cube, flat], 3: [flat[::-1], cube, deep],
             4: [[one for name, one in named if name != "unused"], unused]}[count]
    return [{"params": list(one), "weight_decay": 0.01 * number} for number, one in enumerate(lists) if one]


def optimizer_of(settings: Settings, network: nn.Module) -> torch.optim.Optimizer:
    groups = groups_of(network, settings.groups)
    kind, words = {
        "adamw": (torch.optim.AdamW, {}), "amsgrad": (torch.optim.AdamW, {"amsgrad": True}),
        "sgd": (torch.optim.SGD, {"momentum": 0.9}), "plain": (torch.optim.SGD, {}),
        "adagrad": (torch.optim.Adagrad, {}), "rmsprop": (torch.optim.RMSprop, {"momentum": 0.5}),
        "centered": (torch.optim.RMSprop, {"centered": True}), "adamax": (torch.optim.Adamax, {}),
        "adadelta": (torch.optim.Adadelta, {}), "radam": (torch.optim.RAdam, {})}[settings.optimizer]
    return kind(groups, lr=1e-2, **words)
