# SPDX-License-Identifier: Apache-2.0
"""What is refused, in the words of the command."""

from __future__ import annotations

import os
import pickle
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from mounted import run, scratch
from python_sets import check_tensors, opened, options_of, run_unittests_without_mounts, small_set

import reshardfs
from reshardfs._words import in_python


class _TorchLike:
    """As a tensor of PyTorch with one truth value."""

    dtype = "torch.bool"

    def __index__(self) -> int:
        return 1


class Errors(unittest.TestCase):
    def raised(self, call: Callable[[], Any]) -> reshardfs.Error:
        with self.assertRaises(reshardfs.Error) as caught:
            call()
        return caught.exception

    def assert_same_words(self, source: Path | str, **options: Any) -> reshardfs.Error:
        """open() raises what the command says of the same options, in Python's words."""
        error = self.raised(lambda: reshardfs.open(source, **options))
        words = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
        with scratch() as directory:
            result = run("mount", source, directory, "--check-only", *words)
        self.assertEqual(result.code, 2, result.stderr)
        self.assertEqual(str(error), in_python(result.stderr.removeprefix("reshardfs: ").rstrip("\n")))
        return error

    def test_open_has_the_words_of_the_command(self) -> None:
        with small_set() as made:
            good = options_of(made)
            missing = self.assert_same_words("/no/such/set")
            self.assertEqual((missing.kind, missing.path), ("missing", "/no/such/set"))
            self.assertIn("give a checkpoint directory", missing.hint or "")
            usage = self.assert_same_words(made.source, dst_stratgy="tp=4")
            self.assertEqual((usage.kind, usage.hint), ("usage", "did you mean 'dst_strategy='?"))
            self.assertIn("there is no argument 'dst_stratgy'", str(usage))
            for options in ({"views": "nothing"}, {"align": 9}, {"unmatched": "eat"}, {"ranks": "9"}, {"step": "7_7"},
                            {"shard_size": "5 parsecs"}, {"cast": "fp99->fp32"}, {"src_strategy": "/no/such.ckpt"},
                            {"remote_timeout": 0}, {"prefix": "a/b"}):
                with self.subTest(options):
                    self.assert_same_words(made.source, **{**good, **options})

    def test_damage_names_the_file_and_the_rank(self) -> None:
        with small_set() as made:
            path = made.source_files(2)[0]
            path.write_bytes(path.read_bytes()[:-5])
            error = self.assert_same_words(made.source, **options_of(made))
            self.assertEqual((error.kind, error.path), ("bad input", str(path)))
            path.unlink()
            path.parent.rmdir()
            error = self.assert_same_words(made.source, **options_of(made))
            self.assertEqual(error.kind, "missing")

    def test_unknown_name(self) -> None:
        with small_set() as made, opened(made) as checkpoint:
            error = self.raised(lambda: checkpoint.merged["lm_head.wieght"])
            self.assertIsInstance(error, KeyError)
            self.assertEqual(str(error), "parameter 'lm_head.wieght': the target has no parameter of this name; "
                                         "did you mean 'lm_head.weight'?")
            self.assertEqual((error.kind, error.parameter), ("missing", "lm_head.wieght"))
            error = self.raised(lambda: checkpoint.merged.read(["lm_head.weight", "no"]))
            self.assertIsInstance(error, KeyError)
            result = run("cat", made.source, "--param", "lm_head.wieght", "--src-strategy", made.src_strategy)
            self.assertIn("did you mean 'lm_head.weight'?", result.stderr)

    def test_unknown_rank_and_file(self) -> None:
        with small_set() as made, opened(made, ranks=[1]) as checkpoint:
            self.assertEqual(str(self.raised(lambda: checkpoint.rank(4))),
                             "there is no target rank 4: the target has ranks 0-3")
            self.assertIn("not among ranks=", str(self.raised(lambda: checkpoint.rank(0))))
            self.raised(lambda: checkpoint.rank(-1))
            error = self.raised(lambda: checkpoint.file("rank_1/checkpoint_2.ckpt"))
            self.assertIn("the conversion has no file 'rank_1/checkpoint_2.ckpt'", str(error))

    def test_wrong_index(self) -> None:
        with small_set() as made, opened(made) as checkpoint:
            tensor = checkpoint.merged["lm_head.weight"]
            rows = tensor.shape[0]
            for index, words in ((rows, f"index {rows} leaves dimension 0, which has {rows}"),
                                 ((0, -1000), "index -1000 leaves dimension 1"), ((0, 0, 0), "3 indices for 2"),
                                 ("a", "not str"), (1.0, "not float"), ((..., ...), "one '...'"),
                                 (np.array([1, 2]), "not ndarray"), (None, "not NoneType")):
                error = self.raised(lambda: tensor[index])  # noqa: B023
                self.assertIsInstance(error, IndexError)
                self.assertIn(words, str(error))
                self.assertEqual(error.parameter, "lm_head.weight")

    def test_truth_values_are_no_indices(self) -> None:
        with small_set() as made, opened(made) as checkpoint:
            tensor = checkpoint.merged["lm_head.weight"]
            for index in (True, False, np.bool_(True), np.bool_(False), np.array(True), (0, True), (..., False),
                          (slice(None), np.True_), _TorchLike()):
                error = self.raised(lambda: tensor[index])  # noqa: B023
                self.assertIsInstance(error, IndexError)
                self.assertIn("an index is an integer, a slice or '...'", str(error))

    def test_other_indices(self) -> None:
        with small_set() as made, opened(made) as checkpoint:
            tensor = checkpoint.merged["lm_head.weight"]
            array = tensor.numpy()
            for index in (2**70, -2**70, (0, 2**64), np.array([1]), np.array([True, False]), [0, 1], [True], 1.0,
                          np.float64(1), None, (None, 0), "0", b"0", {}, (0, None), ((0,), 0)):
                error = self.raised(lambda: tensor[index])  # noqa: B023
                self.assertIsInstance(error, IndexError, index)
                self.assertNotIn("incompatible", str(error))
            for index in (slice(-2**70, 2**70), slice(2**70, -2**70, -2**65), slice(None, None, 2**70), np.int64(1),
                          np.uint8(1), np.array(1), (slice(None, None, -1), -1), slice(5, 1, -3), ()):
                np.testing.assert_array_equal(tensor[index], array[index])
            for index in (slice(1.5, None), slice("a"), slice(None, None, [1])):
                with self.assertRaises(TypeError):
                    tensor[index]
            with self.assertRaises(ValueError):
                tensor[::0]

    def test_arguments_of_wrong_types(self) -> None:
        with small_set() as made, opened(made) as checkpoint:
            state = checkpoint.merged
            for rank in (2**64, -2**70, -1, 4, np.int64(4)):
                error = self.raised(lambda: checkpoint.rank(rank))  # noqa: B023
                self.assertIsInstance(error, IndexError)
                self.assertEqual(str(error), f"there is no target rank {rank}: the target has ranks 0-3")
            for rank in ("0", None, True, np.bool_(False), 0.0, b"0", [0], (0,)):
                error = self.raised(lambda: checkpoint.rank(rank))  # noqa: B023
                self.assertIsInstance(error, TypeError)
                self.assertEqual(str(error), f"a rank is an integer, not {type(rank).__name__}")
            self.assertEqual(list(checkpoint.rank(np.int32(1))), list(checkpoint.rank(1)))
            for call, words in ((lambda: checkpoint.file(3), "text or a path, not int"),
                                (lambda: checkpoint.file(None), "not NoneType"),
                                (lambda: checkpoint.picture(3), "text, not int"),
                                (lambda: state.read("lm_head.weight"), "list of names, not str"),
                                (lambda: state.read(3), "list of names, not int"),
                                (lambda: state.read([3]), "text, not int"),
                                (lambda: state.numpy("lm_head.weight"), "list of names, not str"),
                                (lambda: state.read(threads="2"), "threads is an integer, not str"),
                                (lambda: state.read(threads=None), "not NoneType"),
                                (lambda: state.read(threads=True), "not bool"),
                                (lambda: state.numpy(threads=1.5), "not float"),
                                (lambda: reshardfs.open(made.source, dst_strategy=object()), "'dst_strategy' is text"),
                                (lambda: reshardfs.open(made.source, include=[3j]), "'include' is text"),
                                (lambda: reshardfs.verify(made.source, jobs={}), "'jobs' is text"),
                                (lambda: reshardfs.export(made.source, "out", progress=3), "progress is a function")):
                error = self.raised(call)
                self.assertIsInstance(error, TypeError)
                self.assertIn(words, str(error))
            for threads in (-1, -2**70):
                self.assertIsInstance(self.raised(lambda: state.read(threads=threads)), ValueError)  # noqa: B023
            for threads in (1, 3, np.int64(2), 2**70):
                self.assertEqual(len(state.read(["lm_head.weight"], threads=threads)), 1)
            for name in (3, None, b"lm_head.weight", ("lm_head.weight",), "half \ud800"):
                error = self.raised(lambda: state[name])  # noqa: B023
                self.assertIsInstance(error, KeyError)
                self.assertIn("has no parameter", str(error))
                self.assertNotIn(name, state)
                self.assertIsNone(state.get(name))
            for call in (lambda: checkpoint.file("half \ud800"), lambda: checkpoint.picture("half \ud800")):
                self.assertEqual(self.raised(call).kind, "missing")
            self.assertEqual(self.raised(lambda: reshardfs.open("no such \udcff")).kind, "missing")

    def test_a_source_whose_name_is_no_utf8(self) -> None:
        with small_set() as made:
            moved = Path(os.fsdecode(os.fsencode(made.source) + b"\xff"))
            Path(made.source).rename(moved)
            with reshardfs.open(moved, **options_of(made)) as checkpoint:
                check_tensors(self, checkpoint.rank(0), made.expected(0))

    def test_closed(self) -> None:
        with small_set() as made, opened(made) as checkpoint:
            state = checkpoint.rank(0)
            tensor = state["lm_head.weight"] if "lm_head.weight" in state else next(iter(state.values()))
            file = checkpoint.file("rank_0/checkpoint_0.ckpt")
            self.assertFalse(checkpoint.closed)
            checkpoint.close()
            checkpoint.close()
            self.assertTrue(checkpoint.closed)
            for call in (lambda: checkpoint.rank(0), lambda: len(checkpoint.merged), lambda: checkpoint.files(),
                         lambda: checkpoint.file("x"), checkpoint.metadata, lambda: tensor[0],
                         tensor.numpy, state.read, file.read, lambda: state[tensor.name], tensor.__dlpack__,
                         lambda: tensor.read_into(bytearray(tensor.nbytes))):
                self.assertEqual(str(self.raised(call)), "the checkpoint is closed")
            self.assertIn("the checkpoint is closed", repr(checkpoint.merged))
            # What was known before still is.
            self.assertEqual((checkpoint.warnings, checkpoint.step), ([], "3_100"))
            self.assertEqual((tensor.name in state, len(state) > 3, tensor.ndim > 0), (True, True, True))
            self.assertIn("closed", repr(checkpoint))

    def test_a_source_that_changes(self) -> None:
        with small_set() as made, opened(made) as checkpoint:
            state = checkpoint.merged
            good = bytes(state["lm_head.weight"])
            for rank in range(4):
                path = made.source_files(rank)[0]
                stat = path.stat()
                content = path.read_bytes()
                path.write_bytes(bytes(len(content)))
                os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
            error = self.raised(lambda: bytes(state["lm_head.weight"]))
            self.assertEqual((error.kind, error.parameter), ("changed", "lm_head.weight"))
            self.assertIn(".ckpt", error.path or "")
            self.assertIn("changed", str(error))
            self.assertTrue(good)
            for call in (state.numpy, checkpoint.file("rank_0/checkpoint_0.ckpt").read):
                self.assertEqual(self.raised(call).kind, "changed")

    def test_what_was_got_around_is_logged(self) -> None:
        """A replica is read in place of a file that has changed, as by a mount."""
        with small_set("tp=2,dp=2,experts=0", "tp=1") as made, opened(made) as checkpoint:
            path = made.source_files(0)[0]
            path.write_bytes(bytes(path.stat().st_size))
            with self.assertLogs("reshardfs", "WARNING") as logged:
                check_tensors(self, checkpoint.rank(0), made.expected(0))
            self.assertIn(str(path), logged.output[0])

    def test_has_what_is_known_and_can_be_pickled(self) -> None:
        error = reshardfs.Error("text", "io", "/path", "name", 3, "do that", 5)
        again = pickle.loads(pickle.dumps(error))
        for found in (error, again):
            self.assertEqual((str(found), found.kind, found.path, found.parameter, found.rank, found.hint,
                              found.errno), ("text", "io", "/path", "name", 3, "do that", 5))
        self.assertIsNone(reshardfs.Error("text").path)

    def test_the_source_is_text(self) -> None:
        self.assertIn("as text", str(self.raised(lambda: reshardfs.open(b"/bytes"))))
        with self.assertRaises(TypeError):
            reshardfs.open(3)

    def test_a_name_like_an_option_is_a_path(self) -> None:
        self.assertEqual(self.raised(lambda: reshardfs.open("--help")).kind, "missing")


if __name__ == "__main__":
    run_unittests_without_mounts()
