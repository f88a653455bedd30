# SPDX-License-Identifier: Apache-2.0
"""Wrong input of every kind: exit code 2, one line that says what is wrong, nothing left behind."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import unittest
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from ckpt_format import (  # noqa: E402
    Record,
    bytes_field,
    decode_checkpoint,
    encode_checkpoint,
    encode_value,
    varint,
)
from layouts import Layout  # noqa: E402
from make_checkpoint import GeneratedSet, Parallel, destination_records, make_set  # noqa: E402
from mounted import (  # noqa: E402
    is_mounted,
    mounted,
    mountpoint_guard,
    one_line,
    processes_of,
    rank_files,
    run,
    run_unittests,
    scratch,
)
from strategy_files import Strategy, read_strategy, write_json, write_protobuf  # noqa: E402

WEIGHT = "model.layers.0.attention.wq.weight"
REFUSED_SECONDS = 20.0


def by_name(data: bytes) -> dict[str, Record]:
    return {record.name: record for record in decode_checkpoint(data)}


class Refusals(unittest.TestCase):
    """Four ranks, tensor parallel, to two; each test breaks one thing."""

    SRC = Parallel(tp=4)
    DST = Parallel(tp=2)
    made: GeneratedSet
    mountpoint: Path

    def setUp(self) -> None:
        directory = self.enterContext(scratch())
        self.made = make_set(directory, self.SRC, self.DST, layers=1, seed=2)
        self.mountpoint = directory / "mnt"
        self.mountpoint.mkdir()
        self.enterContext(mountpoint_guard(self.mountpoint))

    def source(self, rank: int) -> Path:
        return self.made.source_files(rank)[0]

    def refused_words(self, arguments: list[str | Path], *words: str | tuple[str, ...], code: int = 2) -> str:
        """Runs the program; each word (or one of each tuple) must stand in its one line."""
        result = run(*arguments, seconds=REFUSED_SECONDS)
        self.assertEqual(result.code, code, f"standard error: {result.stderr!r}")
        line = one_line(result)
        for word in words:
            choices = (word,) if isinstance(word, str) else word
            self.assertTrue(any(choice in line for choice in choices), f"none of {choices} in: {line}")
        self.assertTrue(all(char.isprintable() for char in line), f"control characters in: {line!r}")
        self.assertFalse(is_mounted(self.mountpoint), "something is mounted")
        self.assertEqual(processes_of(self.mountpoint), [], "a process was left")
        return line

    def refused(self, *words: str | tuple[str, ...], options: list[str | Path] | None = None, code: int = 2) -> str:
        options = list(self.made.options()) if options is None else options
        return self.refused_words(["mount", self.made.source, self.mountpoint, *options], *words, code=code)

    def works(self, *options: str) -> None:
        with mounted(self.made.source, *self.made.options(), *options) as mountpoint:
            for rank, path in rank_files(mountpoint).items():
                self.assertEqual(by_name(path.read_bytes()), self.made.expected(rank))


class BadCheckpoint(Refusals):
    """One source file is damaged; the message names it by its path."""

    def check(self, data: bytes, *words: str | tuple[str, ...], rank: int = 2) -> None:
        self.source(rank).write_bytes(data)
        self.refused(f"rank_{rank}/model-3_100.ckpt", *words)

    def intact(self) -> bytes:
        return self.source(2).read_bytes()

    def with_record(self, record: bytes) -> bytes:
        """The file with WEIGHT's record replaced."""
        out = b""
        for old in decode_checkpoint(self.intact()):
            out += record if old.name == WEIGHT else encode_checkpoint([old])
        return out

    def weight(self) -> Record:
        return by_name(self.intact())[WEIGHT]

    def test_the_set_itself_is_good(self) -> None:
        self.works()

    def test_truncated(self) -> None:
        data = self.intact()
        for length in (1, 2, 10, len(data) // 3, len(data) // 2, len(data) - 1):
            with self.subTest(length):
                self.check(data[:length])

    def test_truncated_between_two_records(self) -> None:
        """What is left is a valid file: only the strategy can tell that parameters are missing."""
        records = decode_checkpoint(self.intact())
        self.source(2).write_bytes(encode_checkpoint(records[:3]))
        missing = tuple(record.name for record in records[3:])
        self.refused(missing, ("rank 2", "rank_2"))

    def test_garbage(self) -> None:
        for data in (b"this is no checkpoint\n" * 40, bytes(1000), b"\xff" * 1000, b"\x80" * 50):
            with self.subTest(data[:4]):
                self.check(data)

    def test_empty(self) -> None:
        self.check(b"")

    def test_length_overruns_the_file(self) -> None:
        content = bytes_field(1, WEIGHT.encode())
        for length in (1 << 20, 1 << 31, 1 << 40, (1 << 63) - 1):
            with self.subTest(length):
                self.check(b"\x0a" + varint(length) + content)

    def test_length_overflows_64_bits(self) -> None:
        for number in (b"\xff" * 9 + b"\x01", b"\xff" * 9 + b"\x7f", b"\xff" * 10 + b"\x01", b"\x80" * 12 + b"\x01"):
            with self.subTest(number.hex()):
                self.check(b"\x0a" + number + bytes(64))

    def test_inner_length_overruns_its_record(self) -> None:
        value = bytes_field(1, WEIGHT.encode()) + b"\x12" + varint(5000) + b"\x08\x04"
        self.check(bytes_field(1, value) + self.intact())

    def test_negative_dimension(self) -> None:
        record = self.weight()
        self.check(self.with_record(encode_value(WEIGHT.encode(), (-4, 4), record.type, record.content)), WEIGHT)

    def test_huge_dimensions(self) -> None:
        record = self.weight()
        for dims in ((1 << 62, 4), (1 << 32, 1 << 32), (1 << 31, 1), ((1 << 63) - 1, 2), (1 << 63, 2)):
            with self.subTest(dims):
                self.check(self.with_record(encode_value(WEIGHT.encode(), dims, record.type, record.content)), WEIGHT)

    def test_million_dimensions(self) -> None:
        record = self.weight()
        self.check(self.with_record(encode_value(WEIGHT.encode(), (1,) * 1000000, record.type, record.content)), WEIGHT)

    def test_content_of_another_length(self) -> None:
        record = self.weight()
        for content in (record.content[:-1], record.content[:-4], record.content + bytes(4), b""):
            with self.subTest(len(content)):
                data = encode_value(WEIGHT.encode(), record.shape, record.type, content)
                self.check(self.with_record(data), WEIGHT, str(len(record.content)))

    def test_unknown_type(self) -> None:
        record = self.weight()
        for name in ("Complex64", "float32", "", "Float8E4M3FN"):
            with self.subTest(name):
                data = encode_value(WEIGHT.encode(), record.shape, name, record.content)
                self.check(self.with_record(data), WEIGHT, name)

    def test_duplicate_name(self) -> None:
        record = encode_checkpoint([self.weight()])
        self.check(self.with_record(record + record), WEIGHT)

    def test_duplicate_name_further_on(self) -> None:
        self.check(self.intact() + encode_checkpoint([self.weight()]), WEIGHT)

    def test_hostile_name(self) -> None:
        """A name with control characters must not reach the terminal."""
        name = b"evil\x1b[2Jname\nsecond line"
        self.check(self.intact() + encode_value(name, (2,), "Float32", bytes(3)))

    def test_other_type_than_the_other_ranks(self) -> None:
        record = replace(self.weight(), type="Int32")
        self.source(2).write_bytes(self.with_record(encode_checkpoint([record])))
        self.refused(WEIGHT, ("Int32", "Float32"))

    def test_other_shape_than_the_other_ranks(self) -> None:
        record = self.weight()
        record = replace(record, shape=(record.shape[0] * 2, *record.shape[1:]), content=record.content * 2)
        self.source(2).write_bytes(self.with_record(encode_checkpoint([record])))
        self.refused(WEIGHT)

    def test_damaged_crc(self) -> None:
        data = encode_checkpoint(decode_checkpoint(self.intact()), trailer=True)
        damaged = bytearray(data)
        damaged[data.index(self.weight().content) + 3] ^= 1
        self.source(2).write_bytes(damaged)
        self.refused("rank_2/model-3_100.ckpt", "CRC", options=[*self.made.options(), "--check-crc"])

    def test_no_regular_file(self) -> None:
        """Opening a FIFO must not wait for a writer."""
        self.source(2).unlink()
        os.mkfifo(self.made.source / "rank_2" / "model-3_100.ckpt")
        self.refused(("rank_2", "rank 2"))

    def test_dangling_link(self) -> None:
        self.source(2).unlink()
        (self.made.source / "rank_2" / "model-3_100.ckpt").symlink_to("/nowhere")
        self.refused(("rank_2", "rank 2"))

    def test_strategy_in_place_of_a_checkpoint(self) -> None:
        self.check(self.made.src_strategy.read_bytes())


class BadSet(Refusals):
    """Files that are good one by one, but do not make the set that the strategy says."""

    def test_rank_missing(self) -> None:
        shutil.rmtree(self.made.source / "rank_2")
        self.refused(("rank 2", "rank_2"), (WEIGHT, "model.tok_embeddings", "parameter"))

    def test_rank_missing_with_a_replica(self) -> None:
        with scratch() as directory:
            made = make_set(directory, Parallel(tp=2, dp=2), Parallel(tp=4), layers=1)
            shutil.rmtree(made.source / "rank_1")
            with mounted(made.source, *made.options()) as mountpoint:
                for rank, path in rank_files(mountpoint).items():
                    self.assertEqual(by_name(path.read_bytes()), made.expected(rank))
            result = run("plan", made.source, "--rank", "3", "--json", *made.options())
            self.assertEqual(result.code, 0, result.stderr)
            self.assertNotIn('"rank": 1,', result.stdout)
            shutil.rmtree(made.source / "rank_3")
            self.made = made
            self.refused(("rank 1", "rank_1", "ranks 1"))

    def test_rank_directory_empty(self) -> None:
        self.source(2).unlink()
        self.refused(("rank 2", "rank_2"))

    def test_no_rank_at_all(self) -> None:
        for rank in range(4):
            shutil.rmtree(self.made.source / f"rank_{rank}")
        self.refused(str(self.made.source))

    def test_newest_step_is_taken_by_number(self) -> None:
        with scratch() as directory:
            made = make_set(directory, self.SRC, self.DST, layers=1, steps=("2_999", "9_50", "10_50"))
            self.made = made
            self.works()
            self.works("--step", "latest")
            self.works("--step", "10_50")
            self.refused("--step", options=[*made.options(), "--step", "11_50"])

    def test_ranks_of_different_steps(self) -> None:
        self.source(2).rename(self.made.source / "rank_2" / "model-4_100.ckpt")
        self.refused(("4_100", "3_100"), ("rank 2", "rank_2"))

    def test_a_rank_lags_behind(self) -> None:
        """Steps must never be mixed, and an older one not be taken in silence."""
        for rank in (0, 1, 3):
            shutil.copy(self.source(rank), self.made.source / f"rank_{rank}" / "model-4_100.ckpt")
        self.refused("4_100", "--step")
        self.works("--step", "3_100")

    def test_two_files_of_one_step(self) -> None:
        shutil.copy(self.source(2), self.made.source / "rank_2" / "other-3_100.ckpt")
        self.refused("other-3_100.ckpt")

    def test_stage_missing_in_directory(self) -> None:
        with scratch() as directory:
            self.made = made = make_set(directory, Parallel(tp=2, pp=3), Parallel(tp=2), layers=3)
            (directory / "src_stages" / "strategy_1.ckpt").unlink()
            options = ["--src-strategy", directory / "src_stages", "--dst-strategy", made.dst_strategy]
            self.refused("src_stages", "stage", "1", options=options)

    def test_stage_missing_in_merged_file(self) -> None:
        with scratch() as directory:
            self.made = made = make_set(directory, Parallel(tp=2, pp=3), Parallel(tp=2), layers=3)
            for write, name in ((write_protobuf, "holes.ckpt"), (write_json, "holes.json")):
                path = directory / name
                stages = read_strategy(made.src_strategy).stages
                flat = {f"{n}-{key}": value for n in (0, 2) for key, value in stages[n].items()}
                write(Strategy([flat]), path)
                with self.subTest(name):
                    self.refused(name, "stage", "1",
                                 options=["--src-strategy", path, "--dst-strategy", made.dst_strategy])

    def test_stages_of_different_size(self) -> None:
        with scratch() as directory:
            self.made = made = make_set(directory, Parallel(tp=2, pp=2), Parallel(tp=2))
            strategy = read_strategy(made.src_strategy)
            name = next(iter(strategy.stages[1]))
            strategy.stages[1][name] = Layout((4,), strategy.stages[1][name].tensor_map)
            write_protobuf(strategy, directory / "uneven.ckpt")
            self.refused("uneven.ckpt", name,
                         options=["--src-strategy", directory / "uneven.ckpt", "--dst-strategy", made.dst_strategy])


class BadStrategy(Refusals):
    """The strategy is wrong, or is not for this set."""

    def changed(self, side: str, change: Callable[[Layout], Layout], name: str = WEIGHT) -> list[str | Path]:
        """The options with one parameter's layout changed on one side."""
        path = self.made.directory / "changed.ckpt"
        strategy = read_strategy(self.made.directory / f"{side}_strategy.ckpt")
        strategy.stages[0][name] = change(strategy.stages[0][name])
        write_protobuf(strategy, path)
        other = self.made.dst_strategy if side == "src" else self.made.src_strategy
        pair = (path, other) if side == "src" else (other, path)
        return ["--src-strategy", pair[0], "--dst-strategy", pair[1]]

    def other(self, parallel: Parallel, side: str) -> list[str | Path]:
        """The options with the strategy of another number of ranks on one side."""
        with scratch() as directory:
            made = make_set(directory, parallel, parallel, layers=1)
            path = self.made.directory / "other.ckpt"
            shutil.copy(made.src_strategy, path)
        if side == "src":
            return ["--src-strategy", path, "--dst-strategy", self.made.dst_strategy]
        return ["--src-strategy", self.made.src_strategy, "--dst-strategy", path]

    def test_destination_does_not_divide(self) -> None:
        line = self.refused("13", options=self.other(Parallel(tp=13), "dst"))
        named = any(name in line for name in self.made.model.tensors)
        self.assertTrue(named, f"no parameter is named: {line}")

    def test_more_ranks_than_files(self) -> None:
        line = self.refused(options=self.other(Parallel(tp=8), "src"))
        self.assertTrue("rank" in line, line)

    def test_fewer_ranks_than_files(self) -> None:
        """Served from two of four files it would be a model of half the size."""
        line = self.refused(options=self.other(Parallel(tp=2), "src"))
        self.assertTrue("rank" in line, line)

    def test_swapped(self) -> None:
        self.refused("rank", options=["--src-strategy", self.made.dst_strategy,
                                      "--dst-strategy", self.made.src_strategy])

    def test_swapped_the_other_way(self) -> None:
        with scratch() as directory:
            self.made = made = make_set(directory, Parallel(tp=2), Parallel(tp=4), layers=1)
            self.refused("rank", options=["--src-strategy", made.dst_strategy, "--dst-strategy", made.src_strategy])

    def test_other_number_of_dimensions(self) -> None:
        for side in ("src", "dst"):
            with self.subTest(side):
                self.refused(WEIGHT, options=self.changed(side, lambda old: replace(old, tensor_map=((0,),))))
                self.refused(WEIGHT, options=self.changed(side, lambda old: replace(old, tensor_map=((0,), (), ()))))

    def test_axis_outside_the_device_matrix(self) -> None:
        for axis in (7, 64, -2, 1 << 40):
            for side in ("src", "dst"):
                with self.subTest(axis=axis, side=side):
                    path = self.made.directory / "changed.ckpt"
                    self.write_raw_axis(side, axis, path)
                    other = self.made.dst_strategy if side == "src" else self.made.src_strategy
                    pair = (path, other) if side == "src" else (other, path)
                    self.refused("changed.ckpt", WEIGHT, str(axis),
                                 options=["--src-strategy", pair[0], "--dst-strategy", pair[1]])

    def write_raw_axis(self, side: str, axis: int, path: Path) -> None:
        """A tensor map that Layout cannot state."""
        strategy = read_strategy(self.made.directory / f"{side}_strategy.ckpt")
        device_matrix = strategy.stages[0][WEIGHT].device_matrix
        item = bytes_field(1, b"".join(b"\x08" + varint(size) for size in device_matrix))
        item += bytes_field(2, b"\x08" + varint(axis) + b"\x08" + varint(-1))
        item += b"\x28\x00\x30\x00\x38\x00"
        del strategy.stages[0][WEIGHT]
        write_protobuf(strategy, path)
        layout = bytes_field(3, bytes_field(1, WEIGHT.encode()) + bytes_field(2, item))
        path.write_bytes(path.read_bytes() + layout)

    def test_axis_used_twice(self) -> None:
        self.refused("changed.ckpt", WEIGHT,
                     options=self.changed("src", lambda old: replace(old, tensor_map=((0,), (0,)))))

    def test_impossible_device_matrix(self) -> None:
        for matrix in ((0,), (-4,), (1 << 40, 1 << 40), ()):
            with self.subTest(matrix):
                self.refused("changed.ckpt", WEIGHT,
                             options=self.changed("src", lambda old: replace(old, device_matrix=matrix, tensor_map=((), ()))))

    def test_impossible_optimizer_cut(self) -> None:
        """More parts than devices hold the slice: some parts would be nowhere."""
        self.refused(WEIGHT, options=self.changed("src", lambda old: replace(old, opt_size=3)))

    def test_other_number_of_devices(self) -> None:
        self.refused("changed.ckpt", options=self.changed("src", lambda old: replace(old, device_matrix=(2, 4))))

    def test_nothing_in_common(self) -> None:
        path = self.made.directory / "strangers.ckpt"
        strategy = read_strategy(self.made.dst_strategy)
        write_protobuf(Strategy([{f"x.{name}": v for name, v in strategy.stages[0].items()}]), path)
        self.refused("param", options=["--src-strategy", self.made.src_strategy, "--dst-strategy", path])

    def check_file(self, path: Path, *words: str | tuple[str, ...]) -> None:
        for side in ("src", "dst"):
            with self.subTest(side=side):
                other = "dst" if side == "src" else "src"
                options = [f"--{side}-strategy", path, f"--{other}-strategy", self.made.directory / f"{other}_strategy.ckpt"]
                self.refused(path.name, *words, options=options)

    def test_missing_file(self) -> None:
        self.check_file(self.made.directory / "nothing.ckpt")

    def test_empty_file(self) -> None:
        for name in ("empty.ckpt", "empty.json"):
            path = self.made.directory / name
            path.touch()
            self.check_file(path)

    def test_empty_directory(self) -> None:
        path = self.made.directory / "no_stages"
        path.mkdir()
        self.check_file(path)

    def test_garbage(self) -> None:
        for name, data in (
            ("noise.ckpt", b"\xff\x00garbage" * 50),
            ("text.ckpt", b"hello\n"),
            ("broken.json", b'{"parallel_layout_item": {'),
            ("list.json", b"[]"),
            ("other.json", b'{"a": 1}'),
            ("deep.json", b"[" * 100000),
            ("types.json", b'{"parallel_layout_item": {"w": {"dev_matrix": "x", "tensor_map": 5}}}'),
        ):
            with self.subTest(name):
                path = self.made.directory / name
                path.write_bytes(data)
                self.check_file(path)

    def test_truncated(self) -> None:
        path = self.made.directory / "cut.ckpt"
        data = self.made.src_strategy.read_bytes()
        for length in (len(data) - 1, len(data) // 2, 5):
            path.write_bytes(data[:length])
            self.refused("cut.ckpt", options=["--src-strategy", path, "--dst-strategy", self.made.dst_strategy])

    def test_checkpoint_in_place_of_a_strategy(self) -> None:
        self.check_file(self.source(0))

    def test_protobuf_under_a_json_name_and_the_reverse(self) -> None:
        as_json = self.made.directory / "protobuf.json"
        shutil.copy(self.made.src_strategy, as_json)
        self.check_file(as_json)
        as_protobuf = self.made.directory / "json.ckpt"
        shutil.copy(self.made.directory / "src_strategy.json", as_protobuf)
        self.check_file(as_protobuf)

    def test_no_regular_file(self) -> None:
        path = self.made.directory / "fifo.ckpt"
        os.mkfifo(path)
        self.check_file(path)


class BadMountpoint(Refusals):
    def at(self, mountpoint: Path, *words: str | tuple[str, ...], extra: tuple[str, ...] = ()) -> None:
        self.refused_words(["mount", self.made.source, mountpoint, *self.made.options(), *extra], *words)
        self.assertFalse(is_mounted(mountpoint))
        self.assertEqual(processes_of(mountpoint), [])

    def test_missing(self) -> None:
        self.at(self.made.directory / "nowhere", "nowhere")

    def test_no_directory(self) -> None:
        path = self.made.directory / "file"
        path.touch()
        self.at(path, "file", "directory")

    def test_not_empty(self) -> None:
        (self.mountpoint / "content").touch()
        self.at(self.mountpoint, str(self.mountpoint), "--nonempty")
        with mountpoint_guard(self.mountpoint):
            result = run("mount", self.made.source, self.mountpoint, *self.made.options(), "--nonempty")
            self.assertEqual(result.code, 0, result.stderr)
            self.assertEqual(sorted(rank_files(self.mountpoint)), [0, 1])
            self.assertEqual(run("umount", self.mountpoint).code, 0)
        self.assertTrue((self.mountpoint / "content").exists())

    def test_inside_the_source(self) -> None:
        inside = self.made.source / "mnt"
        inside.mkdir()
        self.at(inside, str(inside))

    def test_the_source_itself(self) -> None:
        self.at(self.made.source, str(self.made.source), extra=("--nonempty",))

    def test_source_inside_the_mount_point(self) -> None:
        self.at(self.made.directory, str(self.made.directory), extra=("--nonempty",))

    def test_through_a_symbolic_link(self) -> None:
        inside = self.made.source / "mnt"
        inside.mkdir()
        link = self.made.directory / "link"
        link.symlink_to(inside)
        self.at(link, "link")

    def test_source_inside_a_mount_of_itself(self) -> None:
        """Mounting the view over the place that it comes from, at second hand."""
        with mounted(self.made.source, *self.made.options()) as live:
            words = ["mount", live, live, "--src-strategy", self.made.dst_strategy]
            self.refused_words(words, str(live))
            self.assertTrue(is_mounted(live))
            self.refused_words(["mount", self.made.source, live / "rank_0", *self.made.options()], "rank_0")
            self.assertEqual(by_name(rank_files(live)[0].read_bytes()), self.made.expected(0))

    def test_view_of_a_view(self) -> None:
        """A mount is a source like any other, as long as it lies elsewhere."""
        with mounted(self.made.source, *self.made.options()) as first:
            back = ["--src-strategy", self.made.dst_strategy, "--dst-strategy", self.made.src_strategy]
            with mounted(first, *back) as second:
                for rank, path in rank_files(second).items():
                    original = {r.name: r for r in destination_records(self.made.model, self.SRC, rank)}
                    self.assertEqual(by_name(path.read_bytes()), original)


class BadCommandLine(Refusals):
    def test_unknown_option(self) -> None:
        self.refused("--no-such-option", options=[*self.made.options(), "--no-such-option"])

    def test_unknown_command(self) -> None:
        self.refused_words(["mout", self.made.source, self.mountpoint], "mout")

    def test_no_command(self) -> None:
        self.refused_words([])

    def test_missing_arguments(self) -> None:
        self.refused_words(["mount"])
        self.refused_words(["mount", self.made.source])

    def test_too_many_arguments(self) -> None:
        self.refused_words(["mount", self.made.source, self.mountpoint, "surplus"], "surplus")

    def test_option_without_its_value(self) -> None:
        self.refused("--src-strategy", options=["--src-strategy"])

    def test_missing_source(self) -> None:
        source = self.made.directory / "nothing"
        self.refused_words(["mount", source, self.mountpoint, *self.made.options()], str(source))

    def test_bad_rank_lists(self) -> None:
        for ranks in ("x", "0-", "-1", "1-0", "0,,1", "0-1-2", "0;1", "99999999999999999999", "1.5", "0x1"):
            with self.subTest(ranks):
                self.refused("--ranks", options=[*self.made.options(), f"--ranks={ranks}"])

    def test_rank_outside(self) -> None:
        self.refused("7", options=[*self.made.options(), "--ranks", "0-1,7"])
        self.refused_words(["plan", self.made.source, "--rank", "2", *self.made.options()], "2")
        self.refused_words(["plan", self.made.source, "--rank", "-1", *self.made.options()])

    def test_bad_choices(self) -> None:
        for option, value in (("--unmatched", "sometimes"), ("--step", "abc"), ("--src-pattern", "no_rank/*.ckpt")):
            with self.subTest(option):
                self.refused(option, options=[*self.made.options(), option, value])

    def test_bad_prefix(self) -> None:
        for prefix in ("a/b", "../x", "x\ny", "p" * 300):
            with self.subTest(prefix):
                self.refused(options=[*self.made.options(), "--prefix", prefix])

    def test_include_that_leaves_nothing(self) -> None:
        self.refused("--include", options=[*self.made.options(), "--include", "nothing.like.this"])

    def test_unmount_what_is_not_mounted(self) -> None:
        self.refused_words(["umount", self.mountpoint], str(self.mountpoint))
        self.refused_words(["umount", "/proc"], "/proc")
        self.refused_words(["umount", self.made.directory / "nowhere"], "nowhere")

    def test_unmatched_error(self) -> None:
        path = self.made.directory / "less.ckpt"
        strategy = read_strategy(self.made.dst_strategy)
        del strategy.stages[0][WEIGHT]
        write_protobuf(strategy, path)
        options = ["--src-strategy", self.made.src_strategy, "--dst-strategy", path]
        self.refused(WEIGHT, options=[*options, "--unmatched", "error"])


class InputOutputErrors(Refusals):
    """The only failures with exit code 3."""

    @contextlib.contextmanager
    def dead_mount(self) -> Iterator[Path]:
        """A directory whose daemon was killed: everything below it gives ENOTCONN."""
        with scratch() as directory:
            mountpoint = directory / "dead"
            mountpoint.mkdir()
            with mountpoint_guard(mountpoint):
                self.assertEqual(run("mount", self.made.source, mountpoint, *self.made.options()).code, 0)
                for pid in processes_of(mountpoint):
                    os.kill(pid, 9)
                yield mountpoint

    def test_source_on_a_dead_mount(self) -> None:
        with self.dead_mount() as dead:
            words = ["mount", dead, self.mountpoint, "--src-strategy", self.made.dst_strategy]
            self.refused_words(words, str(dead), code=3)

    def test_strategy_on_a_dead_mount(self) -> None:
        with self.dead_mount() as dead:
            self.refused(str(dead), options=["--src-strategy", dead / "strategy.ckpt"], code=3)


if __name__ == "__main__":
    run_unittests()
