# SPDX-License-Identifier: Apache-2.0
"""Damaged checkpoint files, and files that do not make the set that the strategy says: exit code
2, one line that says what is wrong, nothing left behind."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace

# First, because it finds the modules of tests/data.
from refusals import WEIGHT, Refusals, Word

from ckpt_format import (
    Record,
    by_name,
    bytes_field,
    decode_checkpoint,
    encode_checkpoint,
    encode_value,
    varint,
)
from layouts import Layout
from make_checkpoint import Parallel
from mounted import run, run_unittests
from strategy_files import Strategy, read_strategy, write_json, write_protobuf


class BadCheckpoint(Refusals):
    """One source file is damaged; the message names it by its path."""

    def check(self, data: bytes, *words: Word) -> None:
        self.source(2).write_bytes(data)
        self.refused("rank_2/model-3_100.ckpt", *words)

    def intact(self) -> bytes:
        return self.source(2).read_bytes()

    def weight(self) -> Record:
        return by_name(self.intact())[WEIGHT]

    def with_record(self, data: bytes) -> bytes:
        """The file with other bytes instead of WEIGHT's record."""
        records = decode_checkpoint(self.intact())
        return b"".join(data if r.name == WEIGHT else encode_checkpoint([r]) for r in records)

    def check_weight(
        self,
        *words: Word,
        dims: tuple[int, ...] | None = None,
        type_name: str | None = None,
        content: bytes | None = None,
    ) -> None:
        """WEIGHT is written with something else in its record; the message names it too."""
        intact = self.intact()
        record = self.weight()
        data = encode_value(
            WEIGHT.encode(),
            record.shape if dims is None else dims,
            record.type if type_name is None else type_name,
            record.content if content is None else content,
        )
        self.check(self.with_record(data), WEIGHT, *words)
        self.source(2).write_bytes(intact)

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
        self.refused(tuple(record.name for record in records[3:]))

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
        for number in ("ff" * 9 + "01", "ff" * 9 + "7f", "ff" * 10 + "01", "80" * 12 + "01"):
            with self.subTest(number):
                self.check(b"\x0a" + bytes.fromhex(number) + bytes(64))

    def test_inner_length_overruns_its_record(self) -> None:
        value = bytes_field(1, WEIGHT.encode()) + b"\x12" + varint(5000) + b"\x08\x04"
        self.check(bytes_field(1, value) + self.intact())

    def test_negative_dimension(self) -> None:
        self.check_weight(dims=(-4, 4))

    def test_huge_dimensions(self) -> None:
        top = (1 << 63) - 1
        for dims in ((1 << 62, 4), (1 << 32, 1 << 32), (1 << 31, 1), (top, 2), (top + 1, 2)):
            with self.subTest(dims):
                self.check_weight(dims=dims)

    def test_million_dimensions(self) -> None:
        self.check_weight(dims=(1,) * 1000000)

    def test_content_of_another_length(self) -> None:
        good = self.weight().content
        for content in (good[:-1], good[:-4], good + bytes(4), b""):
            with self.subTest(len(content)):
                self.check_weight(str(len(good)), content=content)

    def test_unknown_type(self) -> None:
        for name in ("Complex64", "float32", "", "Float8E4M3FN"):
            with self.subTest(name):
                self.check_weight(name, type_name=name)

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
        self.refused(WEIGHT, "Int32", "Float32")

    def test_other_shape_than_the_other_ranks(self) -> None:
        old = self.weight()
        record = replace(old, shape=(old.shape[0] * 2, *old.shape[1:]), content=old.content * 2)
        self.source(2).write_bytes(self.with_record(encode_checkpoint([record])))
        self.refused(WEIGHT)

    def test_damaged_crc(self) -> None:
        data = encode_checkpoint(decode_checkpoint(self.intact()), trailer=True)
        damaged = bytearray(data)
        damaged[data.index(self.weight().content) + 3] ^= 1
        self.source(2).write_bytes(damaged)
        self.refused("rank_2/model-3_100.ckpt", "CRC",
                     options=[*self.strategies(), "--check-crc"])

    def test_no_regular_file(self) -> None:
        """Opening a FIFO must not wait for a writer."""
        path = self.source(2)
        path.unlink()
        os.mkfifo(path)
        self.refused(("rank_2", "rank 2"))

    def test_dangling_link(self) -> None:
        path = self.source(2)
        path.unlink()
        path.symlink_to("/nowhere")
        self.refused(("rank_2", "rank 2"))

    def test_strategy_in_place_of_a_checkpoint(self) -> None:
        self.check(self.made.src_strategy.read_bytes())


class BadSet(Refusals):
    """Files that are good one by one, but do not belong together or are not all there."""

    def test_rank_missing(self) -> None:
        shutil.rmtree(self.made.source / "rank_2")
        self.refused(("rank 2", "rank_2"), tuple(self.made.model.tensors))

    def test_rank_missing_with_a_replica(self) -> None:
        made = self.other_set(Parallel(tp=2, dp=2, experts=False), Parallel(tp=4), layers=1)
        shutil.rmtree(made.source / "rank_1")
        self.works()
        result = run("plan", made.source, "--rank", "3", "--json", *self.strategies())
        self.assertEqual(result.code, 0, result.stderr)
        self.assertIn("rank_3", result.stdout)
        self.assertNotIn("rank_1", result.stdout)
        shutil.rmtree(made.source / "rank_3")
        self.refused(("rank 1", "ranks 1", "rank_1"), tuple(made.model.tensors))

    def test_a_lost_stage_of_which_target_rules_say_something(self) -> None:
        """Rules lay out what they do not mention, and what they mention of a lost stage is lost."""
        made = self.other_set(Parallel(tp=1, pp=2), Parallel(tp=2), layers=2)
        stages = read_strategy(made.src_strategy).stages
        lost = sorted(set(stages[1]) - set(stages[0]))
        kept = sorted(set(stages[0]) - set(stages[1]))
        shutil.rmtree(made.source / "rank_1")
        for names in ([kept[0]], [kept[0], lost[0]]):
            with self.subTest(names=names):
                target = made.directory / "target.toml"
                rules = "".join(f'[[rule]]\nmatch = "{name}"\n' for name in names)
                target.write_text(f'[devices]\naxes = ["tp=2"]\n{rules}')
                self.refused(("rank 1", "ranks 1", "rank_1"), tuple(lost),
                             options=[*self.strategies(dst=target), "--allow-unmatched"])

    def test_rank_directory_empty(self) -> None:
        self.source(2).unlink()
        self.refused(("rank 2", "rank_2"))

    def test_no_rank_at_all(self) -> None:
        for rank in range(4):
            shutil.rmtree(self.made.source / f"rank_{rank}")
        self.refused(str(self.made.source))

    def test_newest_step_is_taken_by_number(self) -> None:
        self.other_set(self.SRC, self.DST, layers=1, steps=("2_999", "9_50", "10_50"))
        self.works()
        self.works("--step", "latest")
        self.works("--step", "10_50")
        self.refused("available", "11_50", options=[*self.strategies(), "--step", "11_50"])

    def test_ranks_of_different_steps(self) -> None:
        self.source(2).rename(self.made.source / "rank_2" / "model-4_100.ckpt")
        self.refused("4_100", "3_100", ("rank 2", "rank_2"))

    def test_a_rank_lags_behind(self) -> None:
        """Steps must never be mixed, and an older one not be taken in silence."""
        for rank in (0, 1, 3):
            shutil.copy(self.source(rank), self.made.source / f"rank_{rank}" / "model-4_100.ckpt")
        self.refused("4_100", "--step")
        self.works("--step", "3_100")

    def test_two_files_of_one_step(self) -> None:
        shutil.copy(self.source(2), self.made.source / "rank_2" / "other-3_100.ckpt")
        self.refused("2 runs or models", "--src-prefix other")

    def test_stage_missing_in_directory(self) -> None:
        made = self.other_set(Parallel(tp=2, pp=3), Parallel(tp=2), layers=3)
        (made.directory / "src_stages" / "strategy_1.ckpt").unlink()
        self.refused("src_stages", "stage", "1",
                     options=self.strategies(src=made.directory / "src_stages"))

    def test_stage_missing_in_merged_file(self) -> None:
        made = self.other_set(Parallel(tp=2, pp=3), Parallel(tp=2), layers=3)
        stages = read_strategy(made.src_strategy).stages
        flat = {f"{n}-{key}": value for n in (0, 2) for key, value in stages[n].items()}
        for write, name in ((write_protobuf, "holes.ckpt"), (write_json, "holes.json")):
            with self.subTest(name):
                write(Strategy([flat]), made.directory / name)
                self.refused(name, "stage", "1",
                             options=self.strategies(src=made.directory / name))

    def test_stages_of_different_size(self) -> None:
        made = self.other_set(Parallel(tp=2, pp=2), Parallel(tp=2))
        strategy = read_strategy(made.src_strategy)
        name = next(iter(strategy.stages[1]))
        strategy.stages[1][name] = Layout((4,), strategy.stages[1][name].tensor_map)
        path = made.directory / "uneven.ckpt"
        write_protobuf(strategy, path)
        self.refused("uneven.ckpt", name, options=self.strategies(src=path))


if __name__ == "__main__":
    run_unittests()
