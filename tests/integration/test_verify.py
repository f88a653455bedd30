# SPDX-License-Identifier: Apache-2.0
"""`reshardfs verify`: whole sets pass, and every kind of damage is found where it was done."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from ckpt_format import Record, decode_checkpoint, encode_checkpoint, record_of  # noqa: E402
from command_tests import CommandTest, run_command_tests  # noqa: E402
from golden_cases import GOLDEN, MUST_FAIL, load_cases  # noqa: E402
from layouts import Layout  # noqa: E402
from make_checkpoint import GeneratedSet, Parallel, make_set  # noqa: E402
from mounted import COMMAND_SECONDS, Settings, command, one_line, run, scratch  # noqa: E402
from strategy_files import Strategy, read_strategy, write_protobuf  # noqa: E402

NORM = "model.layers.0.attention_norm.weight"
ROWS = "model.layers.0.attention.wq.weight"


def flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 0x40
    path.chmod(0o600)
    path.write_bytes(data)


def content_offset(path: Path, name: str) -> int:
    """Where the parameter's bytes begin in the file: they are random, so they are found once."""
    data = path.read_bytes()
    content = next(r.content for r in decode_checkpoint(data) if r.name == name)
    assert len(content) >= 8 and data.count(content) == 1, name
    return data.index(content)


def rewrite(path: Path, change: object) -> None:
    """Changes the records of a file: `change` takes one and gives one, or None to drop it."""
    records = [change(record) for record in decode_checkpoint(path.read_bytes())]  # type: ignore
    path.chmod(0o600)
    path.write_bytes(encode_checkpoint([r for r in records if r is not None]))


class VerifyTest(CommandTest):
    """Two tensor parts in rows and columns, each on two ranks: rank r and r + 2 are replicas."""

    command = "verify"
    PARALLEL = Parallel(tp=2, dp=2, experts=False)
    TRAILER = False

    def setUp(self) -> None:
        directory = self.enterContext(scratch())
        self.made: GeneratedSet = make_set(directory, self.PARALLEL, Parallel(tp=2), layers=2,
                                           seed=5, scale=8, trailer=self.TRAILER)
        self.options = ("--src-strategy", self.made.src_strategy)

    def file(self, rank: int) -> Path:
        return self.made.source_files(rank)[0]

    def problems(self, *options: str | Path, code: int = 1) -> list[dict]:
        return self.json(code, self.made.source, *self.options, *options)["problems"]

    def one_problem(self, *options: str | Path, code: int = 1) -> dict:
        problems = self.problems(*options, code=code)
        self.assertEqual(len(problems), 1, problems)
        return problems[0]


class Whole(VerifyTest):
    def test_a_good_set(self) -> None:
        text = self.says(0, self.made.source, *self.options)
        self.assertEqual(len(text.splitlines()), 1)
        self.assertIn(": good; 4 files", text)
        self.assertIn("; no file has a CRC", text)
        self.assertEqual(self.says(0, self.made.source, *self.options, "-q"), "")

    def test_golden_sources_are_good(self) -> None:
        checked = 0
        for case in load_cases():
            if case.name in MUST_FAIL or case.strategy("src") is None or case.name == "encrypted":
                continue
            for label, strategy in case.strategy_variants("src"):
                with self.subTest(case=case.name, strategy=label):
                    result = run("verify", case.source, "--src-strategy", strategy, *case.options)
                    self.assertEqual(result.code, 0,
                                     result.stdout + result.stderr)
                    checked += 1
        self.assertGreater(checked, 20)

    def test_golden_damage(self) -> None:
        case = GOLDEN / "err_corrupt_file"
        result = run("verify", case / "src", "--src-strategy", case / "src_strategy.ckpt")
        self.assertEqual(result.code, 1, result.stderr)
        self.assertIn("rank_1/llama-3_100.ckpt", result.stdout)
        case = GOLDEN / "err_missing_rank"
        result = run("verify", case / "src", "--src-strategy", case / "src_strategy.ckpt")
        self.assertEqual(result.code, 1, result.stderr)
        self.assertIn("rank 2", result.stdout)

    def test_replicas_without_redundancy_are_good(self) -> None:
        names = [r.name for r in decode_checkpoint(self.file(0).read_bytes())]
        for rank in range(4):
            kept = set(names[rank // 2::2])
            rewrite(self.file(rank), lambda r, kept=kept: r if r.name in kept else None)
        self.says(0, self.made.source, *self.options)


class Replicas(VerifyTest):
    def test_damaged_bytes_are_named(self) -> None:
        """Bytes are changed in known places; NumPy's view of both files says where they differ."""
        rng = np.random.default_rng(11)
        for name in (NORM, ROWS):
            with self.subTest(name):
                self.setUp()
                begin = content_offset(self.file(3), name)
                record = next(r for r in decode_checkpoint(self.file(3).read_bytes())
                              if r.name == name)
                places = sorted(set(rng.integers(0, len(record.content), 5).tolist()))
                for place in places:
                    flip(self.file(3), begin + place)
                before = np.frombuffer(self.file(1).read_bytes(), "u1")
                after = np.frombuffer(self.file(3).read_bytes(), "u1")
                self.assertEqual(np.flatnonzero(before != after).tolist(),
                                 [begin + place for place in places])
                problem = self.one_problem()
                self.assertEqual(problem["kind"], "replica")
                self.assertEqual(problem["parameter"], name)
                self.assertEqual(problem["differing_bytes"], len(places))
                self.assertEqual(problem["offset"], begin + places[0])
                element = places[0] // 4
                index = ", ".join(map(str, np.unravel_index(element, record.shape)))
                self.assertIn(f"element ({index})", problem["message"])
                if name == NORM:  # on four ranks: three of them agree
                    self.assertEqual(problem["rank"], 3)
                    self.assertEqual(problem["file"], str(self.file(3)))
                else:  # on two: the higher one is told from the lower
                    self.assertEqual(problem["rank"], 3)
                    self.assertIn("from rank 1", problem["message"])

    def test_the_odd_one_out_is_named_even_if_it_is_the_first(self) -> None:
        flip(self.file(0), content_offset(self.file(0), NORM) + 6)
        problem = self.one_problem()
        self.assertEqual((problem["rank"], problem["offset"]),
                         (0, content_offset(self.file(1), NORM) + 6))

    def test_it_goes_on_after_the_first(self) -> None:
        for rank, name in ((0, NORM), (3, ROWS), (1, "model.layers.1.attention.wo.weight")):
            flip(self.file(rank), content_offset(self.file(rank), name))
        report = self.json(1, self.made.source, *self.options)
        self.assertEqual(report["damaged_parameters"], 3)
        self.assertEqual(report["differing_bytes"], 3)
        result = run("verify", self.made.source, *self.options, "-j", "1")
        self.assertEqual(len(result.stdout.splitlines()), 4)
        self.assertIn("3 problems in 3 parameters, 3 bytes differ", result.stdout)
        for jobs in ("2", "16"):
            again = run("verify", self.made.source, *self.options, "-j", jobs)
            self.assertEqual(again.stdout, result.stdout)

    def test_excluded_parameters_are_not_looked_at(self) -> None:
        flip(self.file(0), content_offset(self.file(0), NORM))
        self.says(0, self.made.source, *self.options, "--exclude", NORM)
        self.says(0, self.made.source, *self.options, "--include", ROWS)

    def test_states_follow_their_weights(self) -> None:
        """Sharded optimizer states that the strategy does not have."""
        for rank in range(4):
            data = decode_checkpoint(self.file(rank).read_bytes())
            weight = next(r for r in data if r.name == ROWS)
            self.file(rank).chmod(0o600)
            self.file(rank).write_bytes(
                encode_checkpoint([*data, replace(weight, name="moments." + ROWS)]))
        self.says(0, self.made.source, *self.options)
        path = self.file(2)
        flip(path, path.read_bytes().rindex(
            next(r.content for r in decode_checkpoint(path.read_bytes()) if r.name == ROWS)))
        problem = self.one_problem()
        self.assertEqual((problem["parameter"], problem["rank"]), ("moments." + ROWS, 2))

    def test_what_has_no_layout_may_differ(self) -> None:
        for rank in range(4):
            data = decode_checkpoint(self.file(rank).read_bytes())
            self.file(rank).chmod(0o600)
            self.file(rank).write_bytes(
                encode_checkpoint([*data, record_of("seed", "Int32", np.array([rank], "<i4"))]))
        report = self.json(0, self.made.source, *self.options)
        self.assertEqual(report["differ_between_ranks"], ["seed"])


class Files(VerifyTest):
    def test_truncated(self) -> None:
        path = self.file(2)
        os.truncate(path, path.stat().st_size - 5)
        problem = self.one_problem()
        self.assertEqual((problem["kind"], problem["rank"], problem["file"]), ("file", 2, str(path)))

    def test_truncated_without_a_replica(self) -> None:
        made = make_set(self.enterContext(scratch()), Parallel(tp=4), Parallel(tp=2), layers=1)
        path = made.source_files(2)[0]
        os.truncate(path, path.stat().st_size - 5)
        report = self.json(1, made.source, "--src-strategy", made.src_strategy)
        self.assertEqual([p["kind"] for p in report["problems"]], ["file", "missing-rank"])
        self.assertEqual(report["problems"][1]["rank"], 2)

    def test_missing_rank_with_a_replica_is_said(self) -> None:
        self.file(2).unlink()
        result = run("verify", self.made.source, *self.options)
        self.assertEqual(result.code, 0, result.stdout)
        self.assertIn("rank 2: no file", result.stderr)

    def test_missing_ranks_without_a_replica(self) -> None:
        for rank in (1, 3):
            self.file(rank).unlink()
        problems = self.problems()
        self.assertEqual([(p["kind"], p["rank"]) for p in problems],
                         [("missing-rank", 1), ("missing-rank", 3)])

    def test_missing_stage(self) -> None:
        made = make_set(self.enterContext(scratch()), Parallel(pp=2), Parallel(), layers=2)
        made.source_files(1)[0].unlink()
        problems = self.json(1, made.source, "--src-strategy", made.src_strategy)["problems"]
        self.assertEqual([(p["kind"], p["rank"]) for p in problems], [("missing-rank", 1)])

    def test_missing_parameter(self) -> None:
        for rank in (1, 3):
            rewrite(self.file(rank), lambda r: None if r.name == ROWS else r)
        problem = self.one_problem()
        self.assertEqual((problem["kind"], problem["parameter"]), ("missing-part", ROWS))
        self.assertIn("ranks 1,3", problem["message"])

    def test_shape(self) -> None:
        def transposed(record: Record) -> Record:
            return replace(record, shape=record.shape[::-1]) if record.name == ROWS else record

        for rank in (0, 2):
            with self.subTest(rank=rank):
                self.setUp()
                rewrite(self.file(rank), transposed)
                problem = self.one_problem()
                self.assertEqual((problem["kind"], problem["rank"], problem["parameter"]),
                                 ("shape", rank, ROWS))

    def test_type(self) -> None:
        rewrite(self.file(0), lambda r: replace(r, type="Int32") if r.name == ROWS else r)
        problem = self.one_problem()
        self.assertEqual((problem["kind"], problem["rank"], problem["parameter"]),
                         ("type", 0, ROWS))

    def test_step_of_one_rank(self) -> None:
        path = self.file(1)
        path.rename(path.with_name("model-2_50.ckpt"))
        problem = self.one_problem()
        self.assertEqual((problem["kind"], problem["rank"]), ("step", 1))
        self.assertIn("2_50", problem["message"])

    def test_unfinished_file(self) -> None:
        path = self.file(1)
        path.rename(path.with_suffix(".tmp"))
        self.assertEqual(self.one_problem()["kind"], "step")

    def test_unreadable(self) -> None:
        """As a user who may not read one file: root may read everything."""
        self.file(1).chmod(0)
        for directory in (self.made.directory, *self.made.directory.rglob("*")):
            if directory.is_dir():
                directory.chmod(0o755)
        other = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
        try:
            done = subprocess.run(
                [str(Settings.binary), "verify", str(self.made.source),
                 *map(str, self.options), "--json"],
                capture_output=True, timeout=COMMAND_SECONDS, check=False, **other)
        except PermissionError:
            self.skipTest("another user may not run the program here")
        self.assertEqual(done.returncode, 3, done.stderr)
        problems = json.loads(done.stdout)["problems"]
        self.assertEqual([(p["kind"], p["rank"]) for p in problems], [("io", 1)])


class Strategies(CommandTest):
    """What a JSON strategy says beside the cuts."""

    command = "verify"

    def setUp(self) -> None:
        self.directory = self.enterContext(scratch())
        full = np.arange(48, dtype="<f4").reshape(8, 6)
        for rank in range(4):
            path = self.directory / "src" / f"rank_{rank}" / "m-1_1.ckpt"
            path.parent.mkdir(parents=True)
            path.write_bytes(encode_checkpoint(
                [record_of("w", "Float32", full[2 * rank:2 * rank + 2])]))

    def strategy(self, tensor_map: list[int], shape: list[int], **more: int) -> Path:
        item = {"dev_matrix": [2, 2], "tensor_map": tensor_map, "tensor_shape": shape, "field": 0,
                "opt_weight_shard_step": 0, "opt_weight_shard_size": 0, **more}
        path = self.directory / "s.json"
        path.write_text(json.dumps({"current_stage": 0, "parallel_strategy_item": {},
                                    "parallel_layout_item": {"w": item}}))
        return path

    def test_an_expanded_map(self) -> None:
        """Dimension 0 is cut over both axes, which JSON has as two dimensions."""
        good = self.strategy([1, 0, -1], [2, 4, 6])
        self.says(0, self.directory / "src", "--src-strategy", good)
        (self.directory / "src/rank_2/m-1_1.ckpt").unlink()
        problems = self.json(1, self.directory / "src", "--src-strategy", good)["problems"]
        self.assertEqual([(p["kind"], p["rank"]) for p in problems], [("missing-rank", 2)])

    def test_another_full_shape(self) -> None:
        other = self.strategy([0, -1], [8, 6], opt_weight_shard_size=2, opt_weight_shard_step=2)
        self.says(0, self.directory / "src", "--src-strategy", other)
        other = self.strategy([0, -1], [16, 6], opt_weight_shard_size=2, opt_weight_shard_step=2)
        problems = self.json(1, self.directory / "src", "--src-strategy", other)["problems"]
        self.assertEqual([(p["kind"], p["parameter"]) for p in problems], [("shape", "w")])
        self.assertIn("[8, 6]", problems[0]["message"])

    def test_a_file_of_another_stage(self) -> None:
        """Rank 0 and rank 1 of a pipeline, exchanged."""
        made = make_set(self.directory / "pp", Parallel(pp=2), Parallel(), layers=2)
        first, second = made.source_files(0)[0], made.source_files(1)[0]
        data = first.read_bytes()
        first.write_bytes(second.read_bytes())
        second.write_bytes(data)
        problems = self.json(1, made.source, "--src-strategy", made.src_strategy)["problems"]
        self.assertEqual({p["kind"] for p in problems}, {"missing-part"})
        self.assertIn("another pipeline stage", problems[0]["message"])


class OneStage(CommandTest):
    """Two ranks a stage, and of their strategies the file of the second stage alone."""

    command = "verify"
    LAYOUT = Layout((2,), ((0,), ()))

    def setUp(self) -> None:
        self.directory = self.enterContext(scratch())
        self.source = self.directory / "src"
        self.strategy = self.directory / "stage_1.ckpt"
        self.options = ("--src-strategy", self.strategy)
        self.random = np.random.default_rng(4)

    def slice(self, name: str) -> Record:
        return record_of(name, "Float32", self.random.random((4, 8), dtype=np.float32))

    def write(self, path: str, *records: Record) -> None:
        file = self.source / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(encode_checkpoint(list(records)))

    def test_beside_the_other_stage(self) -> None:
        counter = self.slice("counter")
        for rank in (0, 1):
            self.write(f"rank_{rank}/m-1_1.ckpt", self.slice("a"), counter)
        for rank in (2, 3):
            self.write(f"rank_{rank}/m-1_1.ckpt", self.slice("b"))
        write_protobuf(Strategy([{"b": self.LAYOUT}], 1), self.strategy)
        report = self.json(0, self.source, *self.options)
        self.assertEqual((report["problems"], report["differ_between_ranks"]), ([], ["a"]))
        plan = run("plan", self.source, *self.options, "--exclude", "a", "--json")
        self.assertEqual(plan.code, 0, plan.stderr)
        self.assertEqual(json.loads(plan.stdout)["ranks"][0]["needed_ranks"], [0, 2, 3])

    def test_in_parts(self) -> None:
        """The stage's ranks count from 0; they are fewer than their files."""
        for rank in (0, 1):
            self.write(f"rank_{rank}/m_part0-1_1.ckpt", self.slice("b"))
            self.write(f"rank_{rank}/m_part1-1_1.ckpt", self.slice("c"))
        write_protobuf(Strategy([{"b": self.LAYOUT, "c": self.LAYOUT}], 1), self.strategy)
        self.assertEqual(self.json(0, self.source, *self.options)["problems"], [])


class Crc(VerifyTest):
    TRAILER = True

    def test_good(self) -> None:
        self.assertIn("CRC good in 4 files, none in 0", self.says(0, self.made.source, *self.options))

    def test_damage_without_a_replica(self) -> None:
        made = make_set(self.enterContext(scratch()), Parallel(tp=4), Parallel(tp=2), layers=1,
                        trailer=True)
        path = made.source_files(3)[0]
        flip(path, content_offset(path, ROWS))
        problems = self.json(1, made.source, "--src-strategy", made.src_strategy)["problems"]
        self.assertEqual([(p["kind"], p["rank"], p["file"]) for p in problems],
                         [("crc", 3, str(path))])


class Manifest(VerifyTest):
    def setUp(self) -> None:
        super().setUp()
        self.sums = self.made.directory / "SUMS"
        names = sorted(str(p.relative_to(self.made.source)) for p in self.made.source.rglob("*.ckpt"))
        self.sums.write_text("".join(
            f"{hashlib.sha256((self.made.source / n).read_bytes()).hexdigest()}  {n}\n"
            for n in names))

    def test_good(self) -> None:
        self.assertEqual(self.json(0, self.made.source, *self.options, "--against",
                                   self.sums)["manifest_good"], 4)

    def test_names_beside_the_list(self) -> None:
        output = command("sh", "-c", f"cd '{self.made.directory}' && sha256sum src/*/*.ckpt")
        self.sums.write_text(output)
        self.says(0, self.made.source, *self.options, "--against", self.sums)

    def test_damage(self) -> None:
        made = make_set(self.enterContext(scratch()), Parallel(tp=2), Parallel(), layers=1)
        path = made.source_files(1)[0]
        sums = made.directory / "SUMS"
        sums.write_text(command("sh", "-c", f"cd '{made.source}' && sha256sum */*.ckpt"))
        flip(path, content_offset(path, ROWS))
        problems = self.json(1, made.source, "--src-strategy", made.src_strategy, "--against",
                             sums)["problems"]
        self.assertEqual([(p["kind"], p["file"]) for p in problems], [("manifest", str(path))])

    def test_missing_and_unlisted(self) -> None:
        lines = self.sums.read_text().splitlines()
        self.sums.write_text(lines[0] + "\n" + lines[1].replace("rank_1", "rank_7") + "\n")
        result = run("verify", self.made.source, *self.options, "--against", self.sums)
        self.assertEqual(result.code, 1)
        self.assertIn("rank_7", result.stdout)
        self.assertIn("is not in", result.stderr)

    def test_no_list(self) -> None:
        self.sums.write_text("what is this\n")
        self.refused(2, self.made.source, *self.options, "--against", self.sums, words=("line 1",))
        self.refused(2, self.made.source, "--against", "/nowhere", words=("--against",))


class Encrypted(CommandTest):
    command = "verify"

    def test_whole_and_damaged(self) -> None:
        case = GOLDEN / "encrypted"
        keys = json.loads((case / "case.json").read_text())["keys_hex"]
        directory = self.enterContext(scratch())
        key = directory / "key"
        checked = 0
        for name, known in keys.items():
            path, mode = case / "src" / name, known["mode"]
            with self.subTest(path.name):
                key.write_text(known["key"])
                options = ("--dec-key-file", key, "--dec-mode", mode)
                self.says(0, path, *options)
                copy = directory / path.name
                copy.write_bytes(path.read_bytes())
                flip(copy, copy.stat().st_size // 2)
                if mode == "AES-GCM":  # the others have no checksum of their own
                    self.assertIn("damaged", self.says(1, copy, *options))
                checked += 1
        self.assertGreater(checked, 0)


class DataParallel(VerifyTest):
    """Without a strategy every rank has everything."""

    PARALLEL = Parallel(dp=3, experts=False)

    def setUp(self) -> None:
        super().setUp()
        self.options = ()

    def test_equal(self) -> None:
        self.says(0, self.made.source)

    def test_every_byte_counts(self) -> None:
        path = self.file(2)
        last = decode_checkpoint(path.read_bytes())[0]
        at = content_offset(path, last.name) + len(last.content) - 1
        flip(path, at)
        problem = self.one_problem()
        self.assertEqual((problem["rank"], problem["offset"], problem["parameter"]),
                         (2, at, last.name))

    def test_fewer_parameters_are_said(self) -> None:
        rewrite(self.file(1), lambda r: None if r.name == ROWS else r)
        result = run("verify", self.made.source)
        self.assertEqual(result.code, 0)
        self.assertIn("rank 1 has fewer parameters", result.stderr)

    def test_a_forgotten_strategy_is_hinted_at(self) -> None:
        made = make_set(self.enterContext(scratch()), Parallel(tp=2), Parallel(), layers=1)
        result = run("verify", made.source)
        self.assertEqual((result.code, result.stdout), (2, ""))
        self.assertIn("the ranks hold slices, and no strategy says how they were cut", result.stderr)
        self.assertIn("--src-strategy", result.stderr)
        # Damage is told before.
        path = sorted(made.source.rglob("*.ckpt"))[1]
        path.write_bytes(path.read_bytes()[:-3])
        result = run("verify", made.source)
        self.assertEqual(result.code, 1)
        self.assertIn("damaged", result.stdout)

    def test_one_byte_of_the_only_matrix_is_damage(self) -> None:
        source = self.enterContext(scratch()) / "ranks"
        for rank in (0, 1):
            content = bytearray(128)
            content[-1] = rank
            (source / f"rank_{rank}").mkdir(parents=True)
            (source / f"rank_{rank}/m.ckpt").write_bytes(
                encode_checkpoint([Record("w", "Float32", (8, 4), bytes(content)), Record("b", "Float32", (8,), bytes(32))]))
        result = run("verify", source)
        self.assertEqual(result.code, 1)
        self.assertIn("rank 1: 1 byte differs from rank 0, first at element (7, 3)", result.stdout)

    def test_slices_of_few_matrices_are_hinted_at(self) -> None:
        source = self.enterContext(scratch()) / "ranks"
        for rank in (0, 1):
            (source / f"rank_{rank}").mkdir(parents=True)
            records = [Record(name, "Float32", (8, 4), bytes(128)) for name in "qkvo"]
            records.append(Record("experts.w1", "Float32", (8, 4), bytes([rank + 1]) * 128))
            (source / f"rank_{rank}/m.ckpt").write_bytes(encode_checkpoint(records))
        result = run("verify", source)
        self.assertEqual(result.code, 1)
        self.assertIn("1 matrix differs between ranks in most elements: if these are slices, such as experts, give the "
                      "strategy with --src-strategy", result.stderr)

    def test_the_strategy_of_another_model_is_hinted_at(self) -> None:
        golden = Path(__file__).resolve().parents[1] / "golden"
        result = run("verify", golden / "tp4_to_tp8/src", "--src-strategy",
                     next((golden / "moe_3d").glob("src_strategy*")))
        self.assertIn("saved with this strategy?", result.stderr + result.stdout)

    def test_an_empty_directory(self) -> None:
        self.file(1).unlink()
        self.assertEqual(self.one_problem()["kind"], "missing-rank")


class Refused(VerifyTest):
    def test_one_line(self) -> None:
        other = make_set(self.enterContext(scratch()), Parallel(tp=1), Parallel(), layers=1)
        self.refused(2, "/nowhere/at/all", words=("/nowhere/at/all",))
        self.refused(2, self.made.source, "--src-strategy", "/nowhere", words=("--src-strategy",))
        self.refused(2, self.made.source, "--src-strategy", other.src_strategy, words=("rank 1-3",))
        self.refused(2, self.made.source, *self.options, "--step", "77", words=("'77'", "3_100"))
        self.refused(2, self.made.source, "--jobs", "-1", words=("--jobs", "0 to 1024"))
        self.refused(2, self.made.source, "--dst-strategy", "none", words=("--help",))
        self.refused(2, words=("SOURCE is missing", "verify SOURCE"))

    def test_a_strategy_that_does_not_fit(self) -> None:
        strategy = read_strategy(self.made.src_strategy)
        layouts = strategy.stages[0]
        layouts[NORM] = layouts[ROWS]
        wrong = self.made.directory / "wrong.ckpt"
        write_protobuf(strategy, wrong)
        self.refused(2, self.made.source, "--src-strategy", wrong, words=(NORM, "--src-strategy"))


if __name__ == "__main__":
    run_command_tests()
