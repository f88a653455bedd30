# SPDX-License-Identifier: Apache-2.0
"""Reads through model maps: from replicas where a source file fails, and at any place of tensors that
are turned and joined from ranks' slices."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

# First, because it finds the modules of tests/data.
from map_sets import (
    MAP,
    MOE,
    MapTest,
    Words,
    experts_model,
    hub_rules,
    hub_strategy,
    mcore_of,
    mcore_rules,
    mcore_strategy,
    rank_file,
    read_file,
    write_hub,
    write_ranks,
)

from format_files import Tensors, same, write_ckpt, write_safetensors
from mounted import errno_name, mounted, run_unittests


class ReplicasStandIn(MapTest):
    """Two ranks have each slice: 0 and 2, 1 and 3."""

    def check(self, change: Callable[[Path], None]) -> None:
        source, *words = self.mcore_ranks(dp=2, stages=1)
        words += [*MAP, "--model-config", self.config_file(), "--direct-io", "--views", "merged"]
        with mounted(source, *words) as mountpoint:
            shown = mountpoint / "merged/checkpoint_merged.ckpt"
            same(self, read_file(shown), self.hub)
            for rank in (0, 1):
                change(rank_file(source, rank, ".ckpt"))
                same(self, read_file(shown), self.hub)
            change(rank_file(source, 3, ".ckpt"))
            with self.assertRaises(OSError) as caught:
                shown.read_bytes()
            self.assertIn(caught.exception.errno, (errno.EIO, errno.ESTALE), errno_name(caught.exception))

    def test_truncated(self) -> None:
        self.check(lambda path: os.truncate(path, path.stat().st_size // 3))

    def test_emptied(self) -> None:
        self.check(lambda path: os.truncate(path, 0))

    def test_rewritten(self) -> None:
        self.check(lambda path: path.write_bytes(bytes(path.stat().st_size)))

    def test_missing_from_the_start(self) -> None:
        source, *words = self.mcore_ranks(dp=2, stages=1)
        shutil.rmtree(source / "rank_0")
        shutil.rmtree(source / "rank_3")
        words += [*MAP, "--model-config", self.config_file()]
        same(self, self.exported("out", source, *words), self.hub)

    def test_ones_that_differ(self) -> None:
        source, *words = self.mcore_ranks(dp=2, stages=1)
        path = rank_file(source, 3, ".ckpt")
        found = read_file(path)
        fused = next(name for name in found if "layers.1.self_attention.linear_qkv" in name)
        found[fused] = (found[fused][0], found[fused][1] + 1)
        path.unlink()
        write_ckpt(path, found)
        words += [*MAP, "--model-config", self.config_file()]
        self.fails(2, "hash", source, *words, words=("differs between rank 1 and rank 3", "--replicas first"))
        same(self, self.exported("first", source, *words, "--replicas", "first"), self.hub)


class AnyPlace(MapTest):
    """Transposed experts, read at places that are no element's."""

    SIZES = (1, 7, 4095, (1 << 20) + 1)

    @classmethod
    def setUpClass(cls) -> None:
        cls.model, cls.model_config = experts_model()
        cls.wanted = mcore_of(cls.model, cls.model_config)

    def read_everywhere(self, path: Path, want: bytes) -> None:
        self.assertEqual(path.stat().st_size, len(want))
        wrong: list[str] = []

        def read(seed: int) -> None:
            rng = random.Random(seed)
            fd = os.open(path, os.O_RDONLY)
            try:
                for size in self.SIZES * 15:
                    at = rng.randrange(len(want))
                    if os.pread(fd, size, at) != want[at:at + size]:
                        wrong.append(f"{size} bytes at {at}")
            except OSError as error:
                wrong.append(str(error))
            finally:
                os.close(fd)

        threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def check(self, source: Path, words: Words, want: Tensors) -> bytes:
        """The bytes of the whole model; mounts with and without the page cache have them everywhere."""
        path = self.export(f"out-{source.name}", source, *words) / "rank_0"
        (file,) = path.iterdir()
        same(self, read_file(file), want)
        for options in ((), ("--direct-io",)):
            with mounted(source, *words, "--views", "ranks", *options) as mountpoint:
                self.read_everywhere(mountpoint / "rank_0" / file.name, file.read_bytes())
        return file.read_bytes()

    def test_experts_are_joined(self) -> None:
        """From the hub, and from ranks that have a part of each expert."""
        hub = write_hub(self.root / "hub", self.model, self.model_config, shards=3)
        config = ("--model-config", hub, "--format", "safetensors")
        cut = write_ranks(self.root / "cut", self.model, hub_strategy(self.model, 4))
        words = ("--src-strategy", hub_rules(self.root / "src.toml", 4), *MOE, *config)
        found = [self.check(hub, (*MOE, *config), self.wanted), self.check(cut, words, self.wanted)]
        self.assertEqual(*(sorted_tensors(data) for data in found))

    def test_experts_are_parted(self) -> None:
        """From MindFormers' ranks, cut by tensors and stages, which cut the experts' rows and columns."""
        config = ("--model-config", self.text_file("moe.json", json.dumps(self.model_config)))
        whole = self.root / "whole"
        write_safetensors(whole / "model.safetensors", self.wanted)
        cut = write_ranks(self.root / "cut", self.wanted, mcore_strategy(self.wanted), ".safetensors")
        words = ("--src-strategy", mcore_rules(self.root / "src.toml"), *MOE, *config)
        found = [self.check(whole, (*MOE, *config), self.model), self.check(cut, words, self.model)]
        self.assertEqual(*(sorted_tensors(data) for data in found))

    def test_a_rank_of_the_destination(self) -> None:
        """Cut across what the map turns."""
        hub = write_hub(self.root / "hub", self.model, self.model_config)
        words = (*MOE, "--dst-strategy", mcore_rules(self.root / "dst.toml"))
        out = self.export("out", hub, *words)
        self.assert_ranks(out, self.wanted, mcore_strategy(self.wanted))
        with mounted(hub, *words, "--views", "ranks") as mountpoint:
            for rank in (1, 2):
                self.read_everywhere(rank_file(mountpoint, rank), rank_file(out, rank).read_bytes())


def sorted_tensors(data: bytes) -> list[tuple[str, bytes]]:
    """What a safetensors file holds, whatever the order."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    return sorted((name, data[8 + length:][slice(*entry["data_offsets"])]) for name, entry in header.items())


if __name__ == "__main__":
    run_unittests()
