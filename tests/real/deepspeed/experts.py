# SPDX-License-Identifier: Apache-2.0
"""A run with experts, which the ranks share."""

from __future__ import annotations

import re
from pathlib import Path

import deepspeed
import files
import judge
import ranks
import torch
from product import reshardfs
from refusals import require_refusal
from safetensors.torch import save_file
from settings import Settings
from torch import nn

EXPERTS, RANKS = 4, 2


def train(rank: int, output: Path, expected: Path) -> None:
    from deepspeed.moe.layer import MoE
    from deepspeed.moe.utils import split_params_into_different_moe_groups_for_optimizer

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(4, 4)
            self.moe = MoE(4, nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 4)), num_experts=EXPERTS,
                           ep_size=RANKS)

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
    state = engine.module.state_dict()
    save_file({global_name(name, rank): tensor.contiguous() for name, tensor in state.items()},
              expected / f"{rank}.safetensors")


def global_name(name: str, rank: int) -> str:
    """Of an expert: a rank counts its own from 0."""
    return re.sub(r"(?<=deepspeed_experts\.)\d+", lambda number: str(int(number[0]) + rank * EXPERTS // RANKS), name)


def experts(directory: Path) -> None:
    """The weights, in the type of the training, without the states of the optimizer."""
    said = directory / "expected"
    said.mkdir()
    ranks.run(RANKS, train, directory / "run", said)
    expected: judge.Entries = {}
    for path in sorted(said.iterdir()):
        for name, entry in files.read(path).items():
            assert expected.setdefault(name, entry) == entry, f"two ranks have another {name}"
    files.assert_equal(judge.exported(directory, directory / "run"), expected, directory / "run")
    reshardfs("verify", directory / "run")
    max((directory / "run").rglob("layer_0_expert_*")).unlink()
    require_refusal(directory, directory / "run", "expert 3 of layer 0")
