# SPDX-License-Identifier: Apache-2.0
"""Checkpoints and tensors in pickles: another process reads the same, or says what has changed."""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import pickle
import shutil
import unittest
from pathlib import Path
from typing import Any

from fake_store import listing
from mounted import scratch
from python_sets import opened, options_of, run_unittests_without_mounts, small_set
from test_python_forks import FILE, OPTIONS, all_right, large_source
from web_server import serving

import reshardfs


def read_there(tensor: reshardfs.Tensor) -> tuple[int, bytes]:
    return os.getpid(), bytes(tensor)


class Rows:
    """A data set of PyTorch: one tensor for each name."""

    def __init__(self, state: reshardfs.State) -> None:
        self.state = state
        self.names = state.arrays()

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, number: int) -> tuple[str, int, bytes]:
        name = self.names[number]
        return name, os.getpid(), bytes(self.state[name])


class Pickles(unittest.TestCase):
    def test_tensors_and_states(self) -> None:
        with small_set() as made, opened(made, include=["*.weight"]) as checkpoint:
            for state in (checkpoint.rank(1), checkpoint.merged):
                again = pickle.loads(pickle.dumps(state))
                self.assertEqual(repr(again), repr(state))
                self.assertEqual({name: bytes(tensor) for name, tensor in again.items()},
                                 {name: bytes(tensor) for name, tensor in state.items()})
                tensor = state["lm_head.weight"] if "lm_head.weight" in state else next(iter(state.values()))
                copy = pickle.loads(pickle.dumps(tensor))
                self.assertEqual((repr(copy), bytes(copy)), (repr(tensor), bytes(tensor)))

    def test_what_has_no_whole(self) -> None:
        with small_set() as made, opened(made, views="ranks") as checkpoint:
            again = pickle.loads(pickle.dumps(checkpoint.merged))
            self.assertEqual(repr(again), repr(checkpoint.merged))

    def test_tensors_share_what_was_opened(self) -> None:
        with small_set() as made, opened(made) as checkpoint:
            pickles = [pickle.dumps(tensor) for tensor in checkpoint.rank(0).values()]
            first, *rest = map(pickle.loads, pickles)
            self.assertTrue(all(tensor._checkpoint is first._checkpoint for tensor in rest))
            # Nobody else can close it.
            pickle.loads(pickle.dumps(checkpoint)).close()
            self.assertEqual(len(bytes(first)), first.nbytes)
            many = pickle.dumps(list(checkpoint.rank(0).values()))
            self.assertLess(len(many), len(pickles[0]) * 2 + 100 * len(pickles))

    def test_has_no_bytes_of_tensors(self) -> None:
        with small_set(scale=64) as made, opened(made) as checkpoint:
            text = pickle.dumps(checkpoint.merged["lm_head.weight"])
            self.assertNotIn(bytes(checkpoint.merged["lm_head.weight"])[:16], text)

    def test_another_working_directory(self) -> None:
        with small_set() as made, scratch() as elsewhere:
            before = Path.cwd()
            os.chdir(made.directory)
            try:
                options = {name: Path(value).name for name, value in options_of(made).items()}
                with reshardfs.open(Path(made.source).name, **options) as checkpoint:
                    want = bytes(checkpoint.rank(0)["run_name"])
                    text = pickle.dumps(checkpoint.rank(0)["run_name"])
                os.chdir(elsewhere)
                self.assertEqual(bytes(pickle.loads(text)), want)
            finally:
                os.chdir(before)

    def test_a_later_step_changes_nothing(self) -> None:
        with small_set() as made, opened(made) as checkpoint:
            text = pickle.dumps(checkpoint)
            for rank in range(4):
                path = made.source_files(rank)[0]
                shutil.copy(path, path.with_name(path.name.replace("3_100", "4_100")))
            with opened(made) as newest:
                self.assertEqual(newest.step, "4_100")
            with pickle.loads(text) as again:
                self.assertEqual(again.step, "3_100")

    def test_a_changed_source(self) -> None:
        with small_set() as made, opened(made) as checkpoint:
            text = pickle.dumps(checkpoint.rank(0)["run_name"])
            path = made.source_files(2)[0]
            stat = path.stat()
            os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1_000_000_000))
            with self.assertRaises(reshardfs.Error) as caught:
                pickle.loads(text)
            self.assertEqual((caught.exception.kind, caught.exception.path), ("changed", str(made.source)))
            self.assertRegex(str(caught.exception), "there are other files now than when the checkpoint was opened: source file "
                             f"'.*{path.name}' has a different modification time")

    def test_a_changed_strategy(self) -> None:
        with small_set() as made, small_set(dst="tp=4") as other, opened(made) as checkpoint:
            text = pickle.dumps(checkpoint)
            shutil.copy(other.dst_strategy, made.dst_strategy)
            with self.assertRaisesRegex(reshardfs.Error, "there are other files now than when the checkpoint was opened"):
                pickle.loads(text)

    def test_a_closed_checkpoint(self) -> None:
        with small_set() as made, opened(made) as checkpoint:
            tensor = checkpoint.rank(0)["run_name"]
        with self.assertRaisesRegex(reshardfs.Error, "the checkpoint is closed"):
            pickle.dumps(tensor)


class Secrets(unittest.TestCase):
    def test_a_query_is_not_kept(self) -> None:
        with large_source() as source, serving(source) as server:
            with reshardfs.open(f"{server.url}/{FILE}", **OPTIONS) as checkpoint:
                again = pickle.loads(pickle.dumps(checkpoint.rank(0)))
                self.assertTrue(all_right(again))
            with reshardfs.open(f"{server.url}/{FILE}?signature=geheim", **OPTIONS) as checkpoint, \
                    self.assertRaisesRegex(reshardfs.Error, "which a pickle does not keep") as caught:
                pickle.dumps(checkpoint.rank(0))
            self.assertNotIn("geheim", str(caught.exception.args))

    def test_keys_come_from_the_environment(self) -> None:
        with large_source() as source, serving(source.parent, rules=[listing]) as store:
            os.environ.update({"AWS_ENDPOINT_URL": store.url, "AWS_ACCESS_KEY_ID": "schluessel",
                               "AWS_SECRET_ACCESS_KEY": "geheim", "AWS_REGION": "us-east-1"})
            with reshardfs.open(f"s3://{source.name}/", **OPTIONS) as checkpoint:
                text = pickle.dumps(checkpoint.rank(0))
                for secret in (b"geheim", b"schluessel"):
                    self.assertNotIn(secret, text)
                self.assertTrue(all_right(pickle.loads(text)))


class Processes(unittest.TestCase):
    def test_spawned_workers(self) -> None:
        with small_set() as made, opened(made) as checkpoint, multiprocessing.get_context("spawn").Pool(2) as pool:
            state = checkpoint.merged
            found = pool.map(read_there, list(state.values()))
            self.assertNotIn(os.getpid(), {number for number, _ in found})
            self.assertEqual([content for _, content in found], [bytes(tensor) for tensor in state.values()])

    @unittest.skipUnless(importlib.util.find_spec("torch"), "PyTorch is not installed")
    def test_data_loader(self) -> None:
        from torch.utils.data import DataLoader
        with small_set() as made, opened(made) as checkpoint:
            rows: Any = Rows(checkpoint.merged)
            loaded = list(DataLoader(rows, batch_size=None, num_workers=2, multiprocessing_context="spawn"))
            self.assertNotIn(os.getpid(), {number for _, number, _ in loaded})
            self.assertEqual({name: content for name, _, content in loaded},
                             {name: bytes(checkpoint.merged[name]) for name in rows.names})


if __name__ == "__main__":
    run_unittests_without_mounts()
