# SPDX-License-Identifier: Apache-2.0
"""A rank of a run of DeepSpeed: trains, saves, and writes down what the engine says (truth.py)."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import deepspeed
import forked
import torch
import truth
from deepspeed.accelerator import get_accelerator
from networks import Net, optimizer_of
from settings import Settings
from torch.nn import functional


def allow_fp16() -> None:
    """The accelerator of CPUs says that it has none; PyTorch computes with it."""
    kind = type(get_accelerator())
    kind.is_fp16_supported = lambda self: True
    kind.supported_dtypes = lambda self: [torch.float, torch.half, torch.bfloat16]


def engine_of(settings: Settings) -> Any:
    torch.manual_seed(1234)
    network = Net(settings.network)
    engine, *_ = deepspeed.initialize(model=network, optimizer=optimizer_of(settings, network),
                                      config=settings.config())
    return engine


def step(engine: Any, settings: Settings, numbers: torch.Generator) -> None:
    for _ in range(engine.gradient_accumulation_steps()):
        tokens = torch.randint(0, settings.network.vocabulary, (2, 6), generator=numbers)
        answer = engine(tokens)
        loss = functional.cross_entropy(answer.float().flatten(0, 1), tokens.flatten())
        engine.backward(loss)
        engine.step()


def run(rank: int, settings: Settings, output: Path, expected: Path) -> None:
    if settings.type == "fp16":
        allow_fp16()
    engine = engine_of(settings)
    numbers = torch.Generator().manual_seed(rank + 7)
    for _ in range(settings.steps):
        step(engine, settings, numbers)
    with torch.no_grad():
        engine.module.count += 5  # in training
    words = {"exclude_frozen_parameters": True} if settings.exclude_frozen else {}
    engine.save_checkpoint(str(output), tag=settings.tag, **words)
    truth.write(rank, engine, settings, expected)


def list_imports(rank: int, path: Path) -> None:
    for stage in (2, 3):
        with tempfile.TemporaryDirectory() as name:
            run(rank, Settings(world=1, stage=stage), Path(name, "run"), Path(name, "expected"))
    forked.write_imports(path)
