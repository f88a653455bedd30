# SPDX-License-Identifier: Apache-2.0
"""The cases of DeepSpeed, PyTorch and torch_checkpointing. Imported by the driver: the standard library only."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from jobs import Form, Job

# Runs with what random ones have by chance.
RUNS: dict[str, dict[str, Any]] = {
    "no ZeRO": {"stage": 0, "world": 2},
    "padding alone on a rank": {"stage": 2, "groups": 2, "network": {"width": 1, "layers": 1}},
    "elastic_checkpoint": {"stage": 1, "zero": {"elastic_checkpoint": True}},
    "parameter_alignment": {"stage": 2, "groups": 3, "zero": {"parameter_alignment": True}},
    "round_robin_gradients": {"stage": 2, "zero": {"round_robin_gradients": True}},
    "BF16_Optimizer": {"stage": 1, "zero": {}, "extra": {"data_types": {"grad_accum_dtype": "fp32"}}},
    "sub groups": {"stage": 3, "world": 4, "zero": {"sub_group_size": 20, "zero_hpz_partition_size": 2}},
    "without what is frozen": {"stage": 2, "exclude_frozen": True},
    "three groups of fp16": {"stage": 3, "type": "fp16", "groups": 3, "optimizer": "amsgrad"},
    "pipeline": {"kind": "pipe", "stage": 1, "world": 4, "stages": 2},
    "pipeline without ZeRO": {"kind": "pipe", "stage": 0, "world": 4, "stages": 2, "type": "bf16"},
    "pipeline of float32 without ZeRO": {"kind": "pipe", "stage": 0, "world": 3, "stages": 3, "type": "fp32"},
}


def jobs(program: str, form: Form) -> Iterator[Job]:
    if program.startswith("torch_checkpointing"):
        yield from items(form)
        return
    yield from runs(form)
    yield from refused(form)
    yield Job("experts", "experts.experts")
    for optimizer in ("sgd", "adagrad", "amsgrad"):
        yield Job(f"--weights-only of {optimizer}", "judge.weights_only", {"optimizer": optimizer})
    yield from distributed(form)


def runs(form: Form) -> Iterator[Job]:
    rng = random.Random(form.seed)
    for name, changes in RUNS.items():
        yield Job(f"run with {name}", "judge.fixed_run", {"seed": form.seed, **changes})
    for _ in range(form.pairs // 4 if form.short else form.pairs):
        seed = rng.randrange(1 << 30)
        yield Job(f"random run {seed}", "judge.random_run", {"seed": seed})


def items(form: Form) -> Iterator[Job]:
    rng = random.Random(form.seed)
    for _ in range(max(1, form.pairs // 5)):
        seed = rng.randrange(1 << 30)
        yield Job(f"checkpoint of items {seed}", "items.random_save", {"seed": seed})


def refused(form: Form) -> Iterator[Job]:
    for stage in (1, 2):
        for round_robin in (False, True):
            yield Job(f"exchanged files of ZeRO {stage}{', round robin' if round_robin else ''}", "refusals.exchanged",
                      {"stage": stage, "round_robin": round_robin})
    for stage in (1, 2, 3):
        yield Job(f"files of two saves of ZeRO {stage}", "refusals.two_saves", {"stage": stage})
    yield Job("universal checkpoint of round_robin_gradients", "refusals.converted_round_robin")


def distributed(form: Form) -> Iterator[Job]:
    rng = random.Random(form.seed + 1)
    for _ in range(max(1, form.pairs // 10)):
        seed = rng.randrange(1 << 30)
        yield Job(f"distributed checkpoint {seed}", "dcp.random_save", {"seed": seed})
    if not form.short:
        yield Job("Megatron's loading of views", "integration.run", {"name": "test_megatron_torch"}, seconds=900)
        yield Job("integration test of PyTorch 2", "integration.run", {"name": "test_dcp_torch2"}, seconds=1800)
