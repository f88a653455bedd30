# SPDX-License-Identifier: Apache-2.0
"""What DeepSpeed writes and reshardfs has to refuse, or what has become of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import deepspeed
import judge
import ranks
import torch
from product import Refused, reshardfs
from settings import Network, Settings
from torch import nn


def require_refusal(directory: Path, source: Path, text: str) -> None:
    try:
        reshardfs("export", source, directory / "refused.safetensors")
    except Refused as error:
        assert text in str(error), f"is refused with other words: {error}"
        return
    raise AssertionError(f"is shown, although {text!r}")


def optimizer_files(source: Path) -> list[Path]:
    return sorted(source.rglob("*optim_states.pt"))


def exchanged(directory: Path, stage: int) -> None:
    """The mappings of the files tell it; those of stage 3 have none."""
    source, _ = judge.trained(directory, Settings(stage=stage))
    first, second, _ = optimizer_files(source)
    first.rename(directory / "aside")
    second.rename(first)
    (directory / "aside").rename(second)
    require_refusal(directory, source, "not of one save")


def two_saves(directory: Path, stage: int) -> None:
    sources = []
    for steps in (2, 4):
        place = directory / str(steps)
        place.mkdir()
        sources.append(judge.trained(place, Settings(stage=stage, steps=steps))[0])
    one, other = (optimizer_files(source) for source in sources)
    shutil.copy(other[1], one[1])
    require_refusal(directory, sources[0], "is 2 in the first, and 4 in the second")


def converted_round_robin(directory: Path) -> None:
    """DeepSpeed's script then takes wrong elements, and `module` in the copied file shows it."""
    settings = Settings(stage=2, zero={"round_robin_gradients": True}, network=Network(frozen=False))
    source, _ = judge.trained(directory, settings)
    ranks.alone(judge.to_universal, source / settings.tag, directory / "universal")
    require_refusal(directory, directory / "universal", "round_robin_gradients")


# --- experts -----------------------------------------------------------------------------------


def train_experts(rank: int, output: Path) -> None:
    from deepspeed.moe.layer import MoE
    from deepspeed.moe.utils import split_params_into_different_moe_groups_for_optimizer

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(4, 4)
            self.moe = MoE(4, nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 4)), num_experts=4,
                           ep_size=torch.distributed.get_world_size())

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            hidden, loss, _ = self.moe(self.first(values))
            return hidden.float().square().mean() + loss.float() * 0

    torch.manual_seed(1)
    network = Net()
    groups = split_params_into_different_moe_groups_for_optimizer({"params": list(network.parameters()), "name": "all"})
    engine, *_ = deepspeed.initialize(model=network, optimizer=torch.optim.AdamW(groups, lr=1e-2),
                                      config=Settings(stage=2).config())
    engine.backward(engine(torch.randn(2, 4, 4).to(torch.bfloat16)))
    engine.step()
    engine.save_checkpoint(str(output))


def experts(directory: Path) -> None:
    ranks.run(2, train_experts, directory / "run")
    require_refusal(directory, directory / "run", "expert")
