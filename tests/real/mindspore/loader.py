# SPDX-License-Identifier: Apache-2.0
"""Mounts that MindSpore loads: a small Transformer, cut for other ranks, gives the same outputs and trains on."""

from __future__ import annotations

import random
from pathlib import Path

import converters  # for what it sets up
import mindspore as ms
import numpy as np
import pairs
from layouts import Layout, Strategy
from mindspore import Tensor, nn, ops
from pairs import Limits, Pair
from product import module, mounted, reshardfs

assert converters
WIDTH, HEADS, WORDS, LENGTH = 16, 4, 32, 8


class Block(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm([WIDTH]), nn.LayerNorm([WIDTH])
        self.qkv = nn.Dense(WIDTH, 3 * WIDTH)
        self.out = nn.Dense(WIDTH, WIDTH)
        self.up, self.down = nn.Dense(WIDTH, 4 * WIDTH), nn.Dense(4 * WIDTH, WIDTH)

    def heads(self, values: Tensor) -> Tensor:
        return values.reshape(-1, LENGTH, HEADS, WIDTH // HEADS).transpose(0, 2, 1, 3)

    def construct(self, values: Tensor) -> Tensor:
        query, key, value = ops.split(self.qkv(self.norm1(values)), WIDTH, axis=-1)
        scores = ops.matmul(self.heads(query), self.heads(key).transpose(0, 1, 3, 2)) / 2
        mixed = ops.matmul(ops.softmax(scores), self.heads(value)).transpose(0, 2, 1, 3)
        values = values + self.out(mixed.reshape(-1, LENGTH, WIDTH))
        return values + self.down(ops.gelu(self.up(self.norm2(values))))


class Transformer(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH, embedding_table="normal")
        self.blocks = nn.CellList([Block(), Block()])
        self.head = nn.Dense(WIDTH, WORDS, has_bias=False)

    def construct(self, words: Tensor) -> Tensor:
        values = self.embedding(words)
        for block in self.blocks:
            values = block(values)
        return self.head(values)


class Loss(nn.Cell):
    def __init__(self, network: nn.Cell) -> None:
        super().__init__(auto_prefix=False)
        self.network = network

    def construct(self, words: Tensor, targets: Tensor) -> Tensor:
        return ops.cross_entropy(self.network(words).reshape(-1, WORDS), targets.reshape(-1))


class Training:
    """A network, its optimizer, and batches by the number of the step."""

    def __init__(self) -> None:
        self.network = Transformer()
        self.step = nn.TrainOneStepCell(Loss(self.network), nn.Adam(self.network.trainable_params(), 0.01))
        self.step.set_train()

    def run(self, number: int) -> bytes:
        values = np.random.default_rng(number)
        words = [Tensor(values.integers(0, WORDS, (2, LENGTH)).astype("i4")) for _ in range(2)]
        return self.step(*words).asnumpy().tobytes()

    def outputs(self) -> bytes:
        return self.network(Tensor(np.arange(2 * LENGTH).reshape(2, LENGTH).astype("i4"))).asnumpy().tobytes()


def fitting_layout(rng: random.Random, devices: int, shape: tuple[int, ...]) -> Layout:
    while True:
        layout = pairs.random_layout(rng, devices, len(shape), Limits())
        if all(size % unit == 0 for size, unit in zip(shape, layout.unit())) and layout.is_descending():
            return layout


def saved_training(directory: Path, seed: int, kind: str) -> tuple[Training, Pair]:
    """A training after two steps, saved by eight ranks under random layouts; the target has four."""
    rng = random.Random(seed)
    training = Training()
    training.run(1)
    training.run(2)
    pair = Pair(Strategy(1, 8), Strategy(1, 4), kind, kind)
    for parameter in training.step.get_parameters():
        array = np.array(parameter.asnumpy())
        pair.types[parameter.name] = {"float32": "Float32", "int32": "Int32"}[str(array.dtype)]
        if array.size == 1:
            pair.same[parameter.name] = array
            continue
        pair.full[parameter.name] = array
        for strategy in (pair.source, pair.target):
            strategy.layouts[parameter.name] = {0: fitting_layout(rng, strategy.devices, array.shape)}
    pairs.write_strategies(directory, pair)
    pairs.save_source(directory, pair)
    return training, pair


def assert_continues(loaded: Training, training: Training, where: str) -> None:
    assert loaded.outputs() == training.outputs(), f"{where}: other outputs"
    assert loaded.run(3) == training.run(3), f"{where}: another loss in the next step"


def into_network(loaded: Training, parameters: dict[str, ms.Parameter]) -> None:
    missing = ms.load_param_into_net(loaded.step, parameters, strict_load=True)
    assert missing == ([], []), f"not loaded: {missing}"


def load_merged(directory: Path, seed: int, kind: str, in_background: bool = False) -> None:
    """One file with everything, for one device."""
    training, _ = saved_training(directory, seed, kind)

    def load(path: Path) -> None:
        loaded = Training()
        assert loaded.outputs() != training.outputs()
        if in_background:
            into_network(loaded, ms.load_checkpoint_async(str(path)).result())
        else:
            into_network(loaded, ms.load_checkpoint(str(path), format=kind))
        assert_continues(loaded, training, str(path))

    with mounted(directory / "src", directory / "mnt", "--src-strategy", directory / "src.ckpt", "--views",
                 f"merged-{kind}") as mountpoint:
        (path,) = (mountpoint / "merged").glob(f"*.{kind}")
        load(path)


def load_ranks(directory: Path, seed: int, kind: str) -> None:
    """The files of other ranks."""
    _, pair = saved_training(directory, seed, kind)

    def load(path: Path, rank: int) -> None:
        found = ms.load_checkpoint(str(path), format=kind)
        for name, full in pair.full.items():
            part = pair.target.slice_of(name, full, rank)
            assert found[name].asnumpy().tobytes() == part.tobytes(), f"rank {rank}: {name} is loaded wrongly"

    with mounted(directory / "src", directory / "mnt", "--src-strategy", directory / "src.ckpt", "--dst-strategy",
                 directory / "dst.ckpt", "--views", "ranks") as mountpoint:
        for rank in range(pair.target.ranks):
            load(mountpoint / f"rank_{rank}/checkpoint_{rank}.{kind}", rank)


def load_unified(directory: Path, seed: int) -> None:
    """The unified directory, into the network."""
    training, _ = saved_training(directory, seed, "safetensors")

    def load(path: Path) -> None:
        loaded = Training()
        ms.load_distributed_checkpoint(loaded.step, format="safetensors", unified_safetensors_dir=str(path),
                                       max_process_num=1)
        assert_continues(loaded, training, str(path))

    with mounted(directory / "src", directory / "mnt", "--src-strategy", directory / "src.ckpt", "--views",
                 "unified") as mountpoint:
        load(mountpoint / "unified")


class Parts(nn.Cell):
    """Zeros in the form of other parameters."""

    def __init__(self, others: dict[str, ms.Parameter]) -> None:
        super().__init__()
        for name, other in others.items():
            self.insert_param_to_cell(name, ms.Parameter(ops.zeros(other.shape, other.dtype), name=name), False)

    def bytes(self) -> dict[str, bytes]:
        return {one.name: one.asnumpy().tobytes() for one in self.get_parameters()}


def load_live(directory: Path, seed: int, kind: str) -> None:
    """Without a mount: the whole network, and what other ranks have of it, as from the files of an export."""
    module()
    from reshardfs.mindspore import load_into

    training, pair = saved_training(directory, seed, kind)
    loaded = Training()
    source, strategy = directory / "src", directory / "src.ckpt"
    missing = load_into(loaded.step, source, src_strategy=strategy, strict_load=True)
    assert missing == ([], []), f"not loaded: {missing}"
    assert_continues(loaded, training, "load_into")
    reshardfs("export", source, directory / "out", "--src-strategy", strategy, "--dst-strategy", directory / "dst.ckpt",
              "--views", "ranks")
    for rank in range(pair.target.ranks):
        found = ms.load_checkpoint(str(directory / f"out/rank_{rank}/checkpoint_{rank}.{kind}"), format=kind)
        one, other = Parts(found), Parts(found)
        said = [ms.load_param_into_net(one, found),
                load_into(other, source, rank, src_strategy=strategy, strategy=directory / "dst.ckpt")]
        assert said[0] == said[1] and one.bytes() == other.bytes(), f"rank {rank}: {said}"
        for name, full in pair.full.items():
            assert other.bytes()[name] == pair.target.slice_of(name, full, rank).tobytes(), f"rank {rank}: another {name}"
