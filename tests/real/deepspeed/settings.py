# SPDX-License-Identifier: Apache-2.0
"""Random settings of a run of DeepSpeed. The standard library only."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

TYPES = ("fp32", "bf16", "bf16", "fp16")
OPTIMIZERS = ("adamw", "adamw", "amsgrad", "sgd", "adagrad", "rmsprop", "centered", "adamax", "adadelta", "radam",
              "plain")
# Of more than one process, mostly: one cuts nothing.
WORLDS = (1, 2, 2, 3, 3, 4, 5, 6)


@dataclass
class Network:
    """Of networks.py."""

    width: int = 5
    vocabulary: int = 11
    layers: int = 2
    tied: bool = True
    frozen: bool = True
    unused: bool = False
    empty: bool = False


@dataclass
class Settings:
    """`kind`: zero, or pipe for a pipeline of `stages`; `world`: all processes."""

    kind: str = "zero"
    world: int = 3
    stages: int = 1
    stage: int = 2
    type: str = "bf16"
    optimizer: str = "adamw"
    groups: int = 1
    steps: int = 2
    tag: str = "global_step2"
    exclude_frozen: bool = False
    network: Network = field(default_factory=Network)
    zero: dict[str, Any] = field(default_factory=dict)  # of zero_optimization, but for the stage
    extra: dict[str, Any] = field(default_factory=dict)  # of the configuration

    def config(self) -> dict[str, Any]:
        config: dict[str, Any] = {
            "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 1, "gradient_clipping": 1.0,
            "zero_allow_untested_optimizer": True, "zero_force_ds_cpu_optimizer": False, "steps_per_print": 1 << 30,
            "zero_optimization": {"stage": self.stage, **self.zero}}
        if self.type == "bf16":
            config["bf16"] = {"enabled": True}
        if self.type == "fp16":
            config["fp16"] = {"enabled": True, "initial_scale_power": 4}
        for key, value in self.extra.items():
            config[key] = {**config[key], **value} if isinstance(config.get(key), dict) else value
        return config

    def is_bf16_optimizer(self) -> bool:
        """Which is for stage 1 where gradients are summed in float32."""
        return self.stage == 1 and "data_types" in self.extra

    def title(self) -> str:
        return f"{'pipeline' if self.kind == 'pipe' else 'ZeRO'} {self.stage}"

    def is_round_robin(self) -> bool:
        """DeepSpeed then does not know itself where its parameters are."""
        return bool(self.zero.get("round_robin_gradients")) and self.stage in (1, 2)

    def is_elastic(self) -> bool:
        return bool(self.zero.get("elastic_checkpoint")) and self.stage in (1, 2)


def changed(settings: Settings, changes: dict[str, Any]) -> Settings:
    """With what a case of cases.py fixes."""
    for key, value in changes.items():
        if key == "network":
            for name, one in value.items():
                setattr(settings.network, name, one)
        else:
            setattr(settings, key, value)
    return settings


def random_network(rng: random.Random) -> Network:
    return Network(rng.randint(1, 9), rng.randint(3, 17), rng.randint(1, 3), rng.random() < 0.6, rng.random() < 0.7,
                   rng.random() < 0.25, rng.random() < 0.15)


def zero12(rng: random.Random) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, chance in (("elastic_checkpoint", 0.25), ("parameter_alignment", 0.3), ("round_robin_gradients", 0.25)):
        if rng.random() < chance:
            out[key] = True
    if rng.random() < 0.3:
        out["reduce_bucket_size"] = rng.choice((16, 64, 500))
    if rng.random() < 0.3:
        out["allgather_bucket_size"] = rng.choice((8, 64, 500))
    if rng.random() < 0.3:
        out["contiguous_gradients"] = False
    return out


def zero3(rng: random.Random, world: int) -> dict[str, Any]:
    out: dict[str, Any] = {}
    if rng.random() < 0.5:
        out["sub_group_size"] = rng.choice((1, 20, 60, 200))
    if rng.random() < 0.5:
        out["stage3_param_persistence_threshold"] = rng.choice((0, 10, 50))
    parts = [size for size in range(2, world) if world % size == 0]
    if parts and rng.random() < 0.3:
        out["zero_hpz_partition_size"] = rng.choice(parts)
    return out


def random_settings(seed: int) -> Settings:
    rng = random.Random(seed)
    out = Settings(world=rng.choice(WORLDS), stage=rng.choice((0, 1, 1, 2, 2, 2, 3, 3, 3)), type=rng.choice(TYPES),
                   optimizer=rng.choice(OPTIMIZERS), groups=rng.choice((1, 1, 2, 3, 4)), steps=rng.choice((1, 2, 2, 3)),
                   network=random_network(rng))
    if out.stage == 3:
        out.network.empty = False  # it cannot be gathered
    out.tag = rng.choice((f"global_step{out.steps}", f"global_step{out.steps}", "some-tag"))
    out.zero = zero3(rng, out.world) if out.stage == 3 else zero12(rng) if out.stage else {}
    if out.stage and rng.random() < 0.2:
        out.zero["offload_optimizer"] = {"device": "cpu"}
    if out.stage == 1 and out.type == "bf16" and rng.random() < 0.4:  # BF16_Optimizer
        out.extra["data_types"] = {"grad_accum_dtype": "fp32"}
        out.zero = {}
    if out.optimizer == "adagrad" and (out.stage == 3 or out.groups > 1 or out.is_bf16_optimizer()):
        out.optimizer = "adamw"  # Adagrad makes its states too early for these
    if rng.random() < 0.3:
        out.extra["gradient_accumulation_steps"] = 2
    out.exclude_frozen = out.network.frozen and rng.random() < 0.15
    if rng.random() < 0.15:
        pipeline(rng, out)
    return out


def pipeline(rng: random.Random, out: Settings) -> None:
    out.kind, out.stages = "pipe", rng.choice((2, 3))
    out.world = out.stages * rng.choice((1, 2))
    out.stage = rng.choice((0, 1, 1, 1))
    out.type = rng.choice(("fp32", "bf16", "fp16"))
    out.groups = 1  # stages with other groups than the first wait for ever
    out.zero, out.extra, out.exclude_frozen = {}, {}, False
    if out.stage and rng.random() < 0.3:
        out.zero["parameter_alignment"] = True
