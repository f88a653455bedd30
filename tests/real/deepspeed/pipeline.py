# SPDX-License-Identifier: Apache-2.0
"""A rank of a pipeline of DeepSpeed: trains, saves, and writes down what its stage's engine says. What stages say
together is the whole model: `expected` is a directory with a file of each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deepspeed
import torch
import truth
from deepspeed.pipe import LayerSpec, PipelineModule, TiedLayerSpec
from networks import Block, optimizer_of
from settings import Settings
from torch import nn
from torch.nn import functional
from train import allow_fp16


class Still(nn.Module):
    """With a frozen parameter, beside one that is trained, and a buffer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = nn.Linear(width, width)
        self.frozen = nn.Parameter(torch.randn(width), requires_grad=False)
        self.register_buffer("angles", torch.randn(2, 3))

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden + self.inner(hidden) * self.frozen


def as_head(embedding: nn.Embedding, hidden: torch.Tensor) -> torch.Tensor:
    return functional.linear(hidden, embedding.weight)


def loss_of(answer: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(answer.float().flatten(0, 1), tokens.flatten())


def layers_of(settings: Settings) -> list[Any]:
    said = settings.network
    if said.tied:
        first = TiedLayerSpec("embedding", nn.Embedding, said.vocabulary, said.width)
        last = TiedLayerSpec("embedding", nn.Embedding, said.vocabulary, said.width, forward_fn=as_head)
    else:
        first = LayerSpec(nn.Embedding, said.vocabulary, said.width)
        last = LayerSpec(nn.Linear, said.width, said.vocabulary, bias=False)
    middle = [LayerSpec(Block, said.width) for _ in range(max(said.layers, settings.stages))]
    return [first, *middle, *([LayerSpec(Still, said.width)] if said.frozen else [nn.Tanh()]), last]


def engine_of(settings: Settings) -> Any:
    torch.manual_seed(1234)
    module = PipelineModule(layers_of(settings), num_stages=settings.stages, loss_fn=loss_of,
                            partition_method="uniform")
    config = settings.config() | {"gradient_accumulation_steps": 2, "pipeline": {"use_reentrant": False}}
    engine, *_ = deepspeed.initialize(model=module, optimizer=optimizer_of(settings, module), config=config)
    return engine


def run(rank: int, settings: Settings, output: Path, expected: Path) -> None:
    if settings.type == "fp16":
        allow_fp16()
    engine = engine_of(settings)
    numbers = torch.Generator().manual_seed(engine.grid.get_data_parallel_rank() + 7)
    tokens = [torch.randint(0, settings.network.vocabulary, (2, 6), generator=numbers) for _ in range(20)]
    batches = iter([(one, one) for one in tokens])
    for _ in range(settings.steps):
        engine.train_batch(batches)
    engine.save_checkpoint(str(output), tag=settings.tag)
    truth.write(engine.grid.get_data_parallel_rank(), engine, settings, expected / f"{engine.stage_id}.safetensors")
