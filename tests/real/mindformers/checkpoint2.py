# SPDX-License-Identifier: Apache-2.0
"""Checkpoint 2.0 as MindFormers saves it and loads it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import files
import hub
import mindspore as ms
import networks
import numpy as np
import truth
import two_ranks as members
from files import Entry
from mindformers.checkpoint.checkpoint import CommonInfo, load_checkpoint, save_checkpoint
from mindformers.core.optim import AdamW
from models import exported
from networks import Training
from product import mounted, reshardfs

# As the two processes of two_ranks.py cut.
RULES = """
[devices]
axes = ["dp=1", "tp=2"]

[[rule]]
match = ["*.linear_qkv.weight", "*.linear_fc1.weight", "*.experts.weight1"]
cut = ["tp", ""]
optional = true

[[rule]]
match = ["*.linear_proj.weight", "*.linear_fc2.weight"]
cut = ["", "tp"]
optional = true

[[rule]]
match = "*"
"""


class Run:
    """A network and its optimizer."""

    def __init__(self, training: Training) -> None:
        self.training = training
        self.network = training.network()
        with networks.in_mode(training.mode):
            self.optimizer = AdamW(self.network.trainable_params(), learning_rate=1e-3)

    def step(self, seed: int) -> None:
        """Other values, as a step of training makes them; the weights are those of the model in step 0."""
        values = np.random.default_rng(seed)
        tensors = truth.parameters(self.training.model, self.training.settings)
        networks.fill(self.network, {name: tensor + np.float32(seed) for name, tensor in tensors.items()}, seed)
        for name, parameter in self.optimizer.parameters_dict().items():
            if name == "global_step":
                parameter.set_data(ms.Tensor(np.array([seed], "i4")))
            elif name.startswith("adam_"):
                parameter.set_data(ms.Tensor(values.standard_normal(parameter.shape).astype("f4")))

    def save(self, number: int, directory: Path, optimizer: bool = True) -> None:
        said = CommonInfo(epoch_num=1, step_num=number, global_step=number, loss_scale=1.0, global_batch_size=8)
        with networks.in_mode(self.training.mode):
            save_checkpoint(number, self.network, self.optimizer if optimizer else None, common_info=said,
                            keep_max_num=5, user_prefix="net", save_checkpoint_path=str(directory))

    def load(self, path: Path, optimizer: bool = True) -> None:
        with networks.in_mode(self.training.mode):
            load_checkpoint(str(path), self.network, self.optimizer if optimizer else None)

    def weights(self) -> dict[str, Entry]:
        """With counters, which it saves."""
        return {name: networks.entry(parameter) for name, parameter in self.network.parameters_dict().items()}

    def states(self) -> dict[str, Entry]:
        return {name: networks.entry(parameter) for name, parameter in self.optimizer.parameters_dict().items()
                if name not in self.network.parameters_dict()}


def saved(directory: Path, family: str, seed: int, mode: int) -> tuple[Training, dict[int, dict[str, Entry]]]:
    """Steps 0, 3 and 6 in `checkpoint`, with their tensors."""
    training = Training(directory, hub.random_model(family, seed), seed, mode)
    run = Run(training)
    steps = {}
    for number in (0, 3, 6):
        run.step(number)
        run.save(number, directory / "checkpoint", optimizer=number != 3)
        steps[number] = {**run.weights(), **(run.states() if number != 3 else {})}
    return training, steps


def one_process(directory: Path, family: str, seed: int, mode: int = 0) -> None:
    """All steps, and step 0 for Hugging Face."""
    training, steps = saved(directory, family, seed, mode)
    source = directory / "checkpoint"
    for number, tensors in steps.items():
        found = exported(source, directory / f"{number}.safetensors", "--step", str(number))
        files.assert_equal(found, tensors, f"step {number}")
    files.assert_equal(exported(source, directory / "last.safetensors"), steps[6], "the last step")
    found = exported(source, directory / "hf", "--step", "0", "--weights-only", *training.words(), "--views", "hf")
    files.assert_equal(found, networks.entries(training.model.with_aliases()), "step 0 for Hugging Face")


def load_iteration(directory: Path, family: str, seed: int, mode: int = 0) -> None:
    """The view iteration of what MindFormers saved, with the optimizer, and of a model of Hugging Face, as one rank
    and as two, both of which one process loads."""
    training, steps = saved(directory, family, seed, mode)
    expected = networks.entries(truth.parameters(training.model, training.settings))
    (directory / "rules.toml").write_text(RULES)
    for ranks, release in ((1, "2.1"), (2, "2.0"), (2, "2.1")):
        words = ["--views", "iteration", "--iteration-release", release]
        if ranks == 2:
            words += ["--dst-strategy", str(directory / "rules.toml")]
        name = f"{ranks}-{release}"
        with mounted(directory / "checkpoint", directory / name, *words) as place:
            run = Run(training)
            run.load(place / "iteration")
            files.assert_equal({**run.weights(), **run.states()}, steps[6], f"loaded from {name}")
            assert_spelled(place / "iteration", release, ranks)
        with mounted(training.hub, directory / f"hub-{name}", *training.words(), *words) as place:
            run = Run(training)
            run.load(place / "iteration", optimizer=False)
            files.assert_equal(networks.weights(run.network), expected, f"the model loaded from {name}")
            assert_spelled(place / "iteration", release, ranks)


def assert_spelled(iteration: Path, release: str, ranks: int) -> None:
    """Several ranks have a metadata.json, which is compact since 2.1."""
    found = [path.read_bytes() for path in iteration.rglob("metadata.json")]
    assert len(found) == int(ranks > 1), f"{len(found)} metadata.json"
    for data in found:
        form = {"separators": (",", ":")} if release == "2.1" else {"indent": 4}
        assert data == json.dumps(json.loads(data), **form).encode(), f"metadata.json of {release}: {data[:200]}"


def described(iteration: Path) -> dict[str, Any]:
    """metadata.json without names of axes and the spelling of types, which do not come from the strategy."""
    found = json.loads((iteration / "metadata.json").read_text())
    for described_tensor in found["state_dict_metadata"].values():
        described_tensor["properties"]["dtype"] = described_tensor["properties"]["dtype"].lower()
        del described_tensor["layout"]["alias_name"]
    return found


def saved_by_two(directory: Path, output: Path, seed: int) -> None:
    """Two processes save step 7, with the communication of MindSpore."""
    scripts = Path(sys.executable).parent
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    command = [str(scripts / "msrun"), "--worker_num=2", "--local_worker_num=2", f"--master_port={port}",
               "--join=True", f"--log_dir={directory / 'log'}", members.__file__, str(output), str(seed)]
    subprocess.run(command, check=True, timeout=200, cwd=directory, stdin=subprocess.DEVNULL,
                   env={**os.environ, "PATH": f"{scripts}:{os.environ.get('PATH', '')}"})


def two_ranks(directory: Path, seed: int) -> None:
    """The view iteration is what two processes saved."""
    output = directory / "checkpoint"
    saved_by_two(directory, output, seed)
    tensors = members.random_tensors(seed)
    expected = networks.entries(tensors | {"global_step": np.array([7], "i4")})
    files.assert_equal(exported(output, directory / "all.safetensors"), expected, "what two processes saved")
    reshardfs("verify", output)
    (directory / "rules.toml").write_text(RULES)
    with mounted(output, directory / "mnt", "--dst-strategy", directory / "rules.toml", "--views", "iteration",
                 "--iteration-release", "2.1") as place:
        saved_step, shown = (root / "iteration_00000007" for root in (output, place / "iteration"))
        assert sorted(path.name for path in shown.iterdir()) == sorted(path.name for path in saved_step.iterdir())
        for path in shown.glob("*.safetensors"):
            original = files.read(saved_step / path.name)
            original.pop("global_step", None)  # metadata.json does not list it, so that nothing reads it there
            files.assert_equal(files.read(path), original, path.name)
        assert files.same_bytes(shown / "common.json", saved_step / "common.json"), "common.json"
        assert described(shown) == described(saved_step), "metadata.json"
        network, optimizer = members.holders({name: np.zeros_like(tensor) for name, tensor in tensors.items()}, 0)
        load_checkpoint(str(place / "iteration"), network, optimizer)
        loaded = {name: networks.entry(parameter) for cell in (network, optimizer)
                  for name, parameter in cell.parameters_dict().items()}
        files.assert_equal(loaded, expected, "loaded by one process")
