# SPDX-License-Identifier: Apache-2.0
"""Checkpoint 2.0 of MindSpore Transformers as a source: the sets of tests/golden2, and what is near
them: steps, trackers, missing files, and metadata that is wrong."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import sys
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

import numpy as np  # noqa: E402
from checkpoint2 import Refused, read_iteration, read_tensors  # noqa: E402
from format_files import read_safetensors, write_safetensors  # noqa: E402
from mounted import (  # noqa: E402
    Result,
    errno_name,
    mounted,
    one_line,
    rank_files,
    run,
    run_unittests,
    scratch,
    wait_until,
)

GOLDEN = Path(__file__).resolve().parents[1] / "golden2"
CASES = sorted(path.parent.name for path in GOLDEN.glob("*/case.json"))
METADATA = "metadata.json"
TWO = ("F32", np.zeros(2, "<f4"))
TRACKER = "latest_checkpointed_iteration.txt"

Tensors = dict[str, tuple[str, list[int], bytes]]


def tensors_of(path: Path) -> Tensors:
    """Name to type, shape and bytes."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    body = data[8 + length:]
    return {name: (entry["dtype"], entry["shape"], body[slice(*entry["data_offsets"])])
            for name, entry in header.items()}


def case_of(name: str) -> dict[str, Any]:
    return json.loads((GOLDEN / name / "case.json").read_text())


def destination(name: str) -> tuple[str | Path, ...]:
    file = case_of(name)["dst_strategy"]
    return ("--dst-strategy", GOLDEN / name / file) if file else ()


class Checkpoint2Test(unittest.TestCase):
    def assert_expected(self, name: str, files: dict[int, Path]) -> None:
        """The files of the ranks have what the case expects, and scalars that no layout has."""
        case = case_of(name)
        unlisted = {*case["names_in_files_without_metadata"], "global_step"}
        expected = {int(path.stem.removeprefix("rank_")): path
                    for path in (GOLDEN / name / "expected").iterdir()}
        self.assertEqual(sorted(files), sorted(expected))
        for rank, path in expected.items():
            want, got = tensors_of(path), tensors_of(files[rank])
            self.assertLessEqual(set(got) - set(want), unlisted, f"rank {rank}")
            for tensor, content in want.items():
                self.assertEqual(got[tensor], content, f"rank {rank}: {tensor}")
            if set(got) == set(want):
                self.assertEqual(files[rank].read_bytes(), path.read_bytes(), f"rank {rank}")


class Golden(Checkpoint2Test):
    def works(self, name: str) -> bool:
        return case_of(name)["must"] != "refuse"

    def test_there_are_all(self) -> None:
        self.assertEqual(len(CASES), 16)
        self.assertEqual([name for name in CASES if not self.works(name)],
                         ["rank_list_order_nored_WRONG"])

    def test_mounts(self) -> None:
        for name in filter(self.works, CASES):
            with self.subTest(case=name):
                source = GOLDEN / name / "src"
                with mounted(source, *destination(name)) as mountpoint:
                    self.assert_expected(name, rank_files(mountpoint))
                    inside = "recorded by the checkpoint itself"
                    if case_of(name)["has_metadata"]:
                        text = (mountpoint / "strategy/source.txt").read_text()
                        self.assertTrue(text.startswith(inside), text[:100])

    def test_exports(self) -> None:
        for name in filter(self.works, CASES):
            with self.subTest(case=name), scratch() as root:
                result = run("export", GOLDEN / name / "src", root / "out", *destination(name))
                self.assertEqual(result.code, 0, result.stderr)
                self.assert_expected(name, rank_files(root / "out"))

    def test_a_step_can_be_named(self) -> None:
        for name in ("pp2tp2_to_tp4", "single_card_to_tp2", "tracker_older_step"):
            step = case_of(name)["step"]
            source = GOLDEN / name / "src"
            directory = source / f"iteration_{step:08}"
            for words in ((source, "--step", str(step)), (directory,), (f"{directory}/",)):
                with self.subTest(words=words), scratch() as root:
                    result = run("export", words[0], root / "out", *words[1:], *destination(name))
                    self.assertEqual(result.code, 0, result.stderr)
                    self.assert_expected(name, rank_files(root / "out"))

    def test_refuses_what_is_lost_by_name(self) -> None:
        name = "rank_list_order_nored_WRONG"
        lost = case_of(name)["parameters_lost"]
        self.assertGreater(len(lost), 10)
        with scratch() as root:
            result = run("export", GOLDEN / name / "src", root / "out", *destination(name))
            self.assertEqual(result.code, 2)
            line = one_line(result)
            for parameter in lost:
                self.assertIn(parameter, line)
            words = [word for parameter in lost for word in ("--exclude", parameter)]
            result = run("export", GOLDEN / name / "src", root / "out", *destination(name), *words)
            self.assertEqual(result.code, 0, result.stderr)
            for path in (root / "out").glob("rank_*/*.safetensors"):
                self.assertTrue(set(tensors_of(path)).isdisjoint(lost))

    def test_the_whole_model_is_what_another_reader_gives(self) -> None:
        for name in CASES:
            if not case_of(name)["has_metadata"]:
                continue
            step = GOLDEN / name / f"src/iteration_{case_of(name)['step']:08}"
            with self.subTest(case=name), scratch() as root:
                if not self.works(name):
                    with self.assertRaises(Refused):
                        read_iteration(step)
                    continue
                result = run("export", step, root / "out", "--views", "ranks")
                self.assertEqual(result.code, 0, result.stderr)
                got = read_tensors(root / "out/rank_0/checkpoint_0.safetensors")
                for tensor, (dtype, array) in read_iteration(step).items():
                    self.assertEqual((got[tensor][0], got[tensor][1].shape), (dtype, array.shape))
                    self.assertEqual(got[tensor][1].tobytes(), array.tobytes(), tensor)

    def test_verify(self) -> None:
        for name in CASES:
            with self.subTest(case=name):
                result = run("verify", GOLDEN / name / "src", "--json")
                report = json.loads(result.stdout)
                damaged = {problem["parameter"] for problem in report["problems"]
                           if problem.get("parameter")}
                self.assertEqual(damaged, set(case_of(name)["parameters_lost"]))
                missing = name.startswith("missing_file")
                self.assertEqual(result.code, 1 if damaged or missing else 0, result.stdout)

    def test_says_what_metadata_lacks(self) -> None:
        result = run("verify", GOLDEN / "opt_cut_lost_WRONG/src")
        self.assertIn("lacks the optimizer's cut of", result.stderr + result.stdout)
        self.assertEqual(result.code, 0)

    def test_is_equal_to_itself_in_another_cut(self) -> None:
        one, other = (GOLDEN / name / "src" for name in ("dp4tp2_opt2_to_tp4", "dp4tp2_optall_to_tp2"))
        result = run("diff", one, other)
        self.assertEqual(result.code, 0, result.stdout + result.stderr)

    def test_inspect_and_plan(self) -> None:
        source = GOLDEN / "pp2tp2_to_tp4/src"
        contents = json.loads(run("inspect", source, "--json").stdout)
        self.assertEqual(contents["step"], "120")
        self.assertEqual([file["rank"] for file in contents["files"]], [0, 0, 1, 1, 2, 2, 3, 3])
        whole = {entry["name"]: entry["full_shape"] for entry in contents["parameters"]
                 if entry["name"] != "global_step"}
        metadata = json.loads((source / "iteration_00000120" / METADATA).read_text())
        for name, shape in whole.items():
            self.assertEqual(shape, metadata["state_dict_metadata"][name]["global_shape"], name)
        tree = run("inspect", source, "--tree").stdout
        self.assertIn("whole parameters, as the checkpoint lays them out", tree)
        plan = json.loads(run("plan", source, "--rank", "0", "--json",
                              *destination("pp2tp2_to_tp4")).stdout)
        self.assertEqual(plan["needed_ranks"], [0, 2])


class Strategies(Checkpoint2Test):
    """Strategies out of the layouts that a set records."""

    def setUp(self) -> None:
        self.root = self.enterContext(scratch())

    def export(self, name: str, *words: str | Path, code: int = 0) -> Result:
        result = run("export", GOLDEN / name / "src", self.root / "out", *words, "--views", "ranks")
        self.assertEqual(result.code, code, result.stderr)
        return result

    def test_sizes_give_the_target(self) -> None:
        self.export("dp2tp2_to_tp4", "--dst-strategy", "tp=4")
        self.assert_expected("dp2tp2_to_tp4", rank_files(self.root / "out"))

    def test_sizes_of_stages(self) -> None:
        self.export("pp2tp2_to_tp4", "--dst-strategy", "tp=4,pp=1")
        self.assert_expected("pp2tp2_to_tp4", rank_files(self.root / "out"))

    def test_names_of_axes_tell_the_optimizer(self) -> None:
        """A mesh of dp and tp: what dp cuts is the optimizer's."""
        name = "pynative_to_tp2"
        self.export(name, "--dst-strategy", "tp=2,dp=1")
        self.assert_expected(name, rank_files(self.root / "out"))
        source = self.root / "src"
        shutil.copytree(GOLDEN / "dp4tp2_optall_to_tp2/src", source)
        metadata = next(source.glob("iteration_*/metadata.json"))
        stated = json.loads(metadata.read_text())
        for parameter in stated["state_dict_metadata"].values():
            names = parameter["layout"]["alias_name"]
            parameter["layout"]["alias_name"] = ["dp", "tp"] if len(names) == 2 else names
            self.assertEqual(len(names), 2)
        metadata.write_text(json.dumps(stated))
        result = run("export", source, self.root / "named", "--dst-strategy", "tp=2,dp=1,opt=0",
                     "--views", "ranks")
        self.assertEqual(result.code, 0, result.stderr)
        self.assert_expected("dp4tp2_optall_to_tp2", rank_files(self.root / "named"))

    def test_sizes_are_refused_where_a_cut_may_be_the_optimizers(self) -> None:
        for name in ("dp4tp2_opt2_to_tp4", "dp4tp2_optall_to_tp2"):
            with self.subTest(case=name):
                line = one_line(self.export(name, "--dst-strategy", "tp=2", code=2))
                self.assertIn("its parameters are cut over", line)
                self.assertIn("write rules for the target instead", line)

    def test_a_cut_along_dimension_0_alone_may_be_the_optimizers(self) -> None:
        result = run("export", GOLDEN / "dp2tp2_to_tp4/src", self.root / "out", "--dst-strategy",
                     "tp=4")
        self.assertEqual(result.code, 0, result.stderr)
        source = self.root / "src"
        shutil.copytree(GOLDEN / "dp2tp2_to_tp4/src", source)
        metadata = next(source.glob("iteration_*/metadata.json"))
        stated = json.loads(metadata.read_text())
        for name in list(stated["state_dict_metadata"]):
            if "linear_proj" in name or "linear_fc2" in name:
                del stated["state_dict_metadata"][name]
                for key in [key for key in stated["storage_data"] if f"'{name}'" in key]:
                    del stated["storage_data"][key]
        metadata.write_text(json.dumps(stated))
        result = run("export", source, self.root / "again", "--dst-strategy", "tp=4")
        self.assertEqual(result.code, 2)
        self.assertIn("does not state whether the model or the optimizer is parallel",
                      one_line(result))

    def test_convert_gives_a_strategy_that_says_the_same(self) -> None:
        for name in CASES:
            source = GOLDEN / name / "src"
            if name in ("pynative_pp2_null_layout_ERROR", "rank_list_order_nored_WRONG") \
                    or not case_of(name)["has_metadata"]:
                continue
            for suffix in ("json", "ckpt"):
                with self.subTest(case=name, suffix=suffix):
                    file = self.root / f"{name}.{suffix}"
                    result = run("strategy", "convert", source, "-O", file)
                    self.assertEqual(result.code, 0, result.stderr)
                    # The set cut as it is: every rank gets what its own files have.
                    out = self.root / f"{name}-{suffix}"
                    result = run("export", source, out, "--dst-strategy", file, "--views", "ranks")
                    self.assertEqual(result.code, 0, result.stderr)
                    self.assert_cut_as_it_is(name, out)

    def assert_cut_as_it_is(self, name: str, out: Path) -> None:
        step = GOLDEN / name / f"src/iteration_{case_of(name)['step']:08}"
        for rank, path in rank_files(out).items():
            own: Tensors = {}
            for file in step.glob(f"*-{rank:07}-*.safetensors"):
                own |= tensors_of(file)
            got = tensors_of(path)
            self.assertTrue(own or case_of(name)["redundancy_removed"]
                            or name.startswith("missing_file"))
            for tensor, content in own.items():
                if tensor != "global_step":
                    self.assertEqual(got[tensor], content, f"rank {rank}: {tensor}")

    def test_show(self) -> None:
        source = GOLDEN / "pp2tp2_to_tp4/src"
        result = run("strategy", "show", source)
        self.assertEqual(result.code, 0, result.stderr)
        self.assertIn("decoder.layers.1.mlp.linear_fc1.weight", result.stdout)
        self.assertNotIn("accu_grads", result.stdout)
        result = run("strategy", "show", source / "iteration_00000120", "--json")
        self.assertEqual(len(json.loads(result.stdout)["parallel_layout_item"]), 45)
        with mounted(source) as mountpoint:
            self.assertEqual((mountpoint / "strategy/source.json").read_text().strip(),
                             result.stdout.strip())

    def test_what_a_strategy_cannot_state(self) -> None:
        source = GOLDEN / "rank_list_order_nored_WRONG/src"
        result = run("strategy", "convert", source, "-O", self.root / "s.json")
        self.assertEqual(result.code, 2, result.stderr)
        result = run("strategy", "show", GOLDEN / "single_card_to_tp2/src")
        self.assertEqual(result.code, 2)
        self.assertIn("records no layouts: it is the checkpoint of one device", one_line(result))


class Changed(Checkpoint2Test):
    """A copy of a golden set, with something changed."""

    def setUp(self) -> None:
        self.root = self.enterContext(scratch())

    def copy(self, name: str) -> Path:
        self.name = name
        self.source = self.root / "src"
        shutil.copytree(GOLDEN / name / "src", self.source)
        return self.source / f"iteration_{case_of(name)['step']:08}"

    def edit(self, step: Path, change: Callable[[dict[str, Any]], None]) -> None:
        metadata = json.loads((step / METADATA).read_text())
        change(metadata)
        (step / METADATA).write_text(json.dumps(metadata))

    def export(self, *words: str | Path) -> Result:
        out = self.root / "out"
        shutil.rmtree(out, ignore_errors=True)
        return run("export", self.source, out, *destination(self.name), *words)

    def assert_exports(self, *words: str | Path) -> Result:
        result = self.export(*words)
        self.assertEqual(result.code, 0, result.stderr)
        self.assert_expected(self.name, rank_files(self.root / "out"))
        return result

    def refused(self, *expected: str, options: tuple[str | Path, ...] = (), code: int = 2) -> None:
        result = self.export(*options)
        self.assertEqual(result.code, code, result.stderr)
        line = one_line(result)
        for word in expected:
            self.assertIn(word, line)
        self.assertFalse((self.root / "out").exists() and any((self.root / "out").rglob("*.safetensors")))


class Sets(Changed):
    def test_a_missing_file_without_a_replica_is_refused(self) -> None:
        step = self.copy("dp2tp2_to_tp4")
        for rank in (1, 3):
            next(step.glob(f"*model-{rank:07}-*")).unlink()
        self.refused("decoder.layers.0.mlp.linear_fc1.weight")
        result = self.assert_lost_parameters_are_named(step)
        self.assertIn("is missing, though the set's metadata names it", result.stdout + result.stderr)

    def assert_lost_parameters_are_named(self, step: Path) -> Result:
        result = run("verify", step)
        self.assertEqual(result.code, 1)
        self.assertRegex(result.stdout + result.stderr, r"'decoder\.layers\.0\.mlp\.linear_fc(1|\{1,2\})\.weight'")
        return result

    def test_a_parameter_in_no_file_is_refused(self) -> None:
        step = self.copy("tp4_to_one")
        def add(metadata: dict[str, Any]) -> None:
            like = "decoder.final_layernorm.weight"
            metadata["state_dict_metadata"]["new.weight"] = metadata["state_dict_metadata"][like]
            metadata["storage_data"]["('new.weight', (0,))"] = \
                metadata["storage_data"][f"('{like}', (0,))"]
        self.edit(step, add)
        self.refused("new.weight", "no file has")
        self.assert_exports("--exclude", "new.weight")
        result = run("verify", self.source)
        self.assertEqual(result.code, 1)
        self.assertIn("'new.weight'", result.stdout + result.stderr)

    def test_wrong_metadata_is_refused(self) -> None:
        weight = "decoder.layers.0.mlp.linear_fc1.weight"
        def numbers(metadata: dict[str, Any]) -> None:
            storage = metadata["storage_data"]
            one, other = (f"('{weight}', ({number},))" for number in (0, 1))
            storage[one], storage[other] = storage[other], storage[one]
        def shape(metadata: dict[str, Any]) -> None:
            metadata["state_dict_metadata"][weight]["global_shape"][1] += 1
        def indivisible(metadata: dict[str, Any]) -> None:
            metadata["state_dict_metadata"][weight]["global_shape"][0] += 1
        def no_layout(metadata: dict[str, Any]) -> None:
            metadata["state_dict_metadata"][weight]["layout"] = None
        def interleaved(metadata: dict[str, Any]) -> None:
            metadata["state_dict_metadata"][weight]["layout"]["interleaved_parallel"] = True
        def other_rank(metadata: dict[str, Any]) -> None:
            metadata["storage_data"][f"('{weight}', (0,))"][0]["storage_rank"] = 1
        def outside(metadata: dict[str, Any]) -> None:
            metadata["storage_data"][f"('{weight}', (0,))"][0]["file_name"] = "../x.safetensors"
        step = self.copy("tp4_to_one")
        good = (step / METADATA).read_text()
        for change in (numbers, shape, indivisible, no_layout, interleaved, other_rank, outside):
            with self.subTest(change=change.__name__):
                (step / METADATA).write_text(good)
                self.edit(step, change)
                named = () if change is other_rank else (weight,)
                self.refused(*named)
                if change in (shape, indivisible, no_layout, interleaved, numbers):
                    self.assertEqual(self.export("--exclude", weight).code, 0)
                self.assertEqual(run("verify", self.source).code in (1, 2), True)
        (step / METADATA).write_text(good)
        self.assert_exports()

    def assert_every_command_refuses(self, *words: str) -> None:
        for command in (("inspect", self.source), ("plan", self.source, "--rank", "0"),
                        ("verify", self.source), ("diff", self.source, self.source),
                        ("export", self.source, self.root / "out"),
                        ("mount", "--check-only", self.source, self.root / "mnt")):
            result = run(*command)
            self.assertEqual(result.code, 2, f"{command}: {result.stdout}{result.stderr}")
            line = one_line(result)
            for word in (METADATA, *words):
                self.assertIn(word, line, command)
            self.assertLess(len(line), 2000)

    def test_hostile_metadata_is_refused(self) -> None:
        weight = "decoder.layers.0.mlp.linear_fc1.weight"
        file = "model-0000000-0000004.safetensors"
        step = self.copy("tp4_to_one")
        (self.root / "mnt").mkdir()
        # Were the name taken, what it leads to would be found.
        shutil.copy(step / file, self.root / file)
        shutil.copytree(step, step / "below")
        good = (step / METADATA).read_text()
        shard, name = f"('{weight}', (0,))", f'"file_name": "{file}"'
        self.assertIn(f'"{shard}"', good)
        self.assertIn(name, good)

        def refused(old: str, new: str, *words: str) -> None:
            at = good.index(old, good.index(f'"{shard}"') if old == name else 0)
            (step / METADATA).write_text(good[:at] + new + good[at + len(old):])
            with self.subTest(old=old, new=new[:100]):
                self.assert_every_command_refuses(*words)

        no_file = "which is not in the directory"
        for path in (f"../{file}", f"../../{file}", f"{self.root}/{file}", f"below/{file}",
                     f"./{file}", f"{file}/", f"{file}\\u0000", f"..\\u002f{file}", "..", ".", "",
                     "x" * 10_000):
            refused(name, f'"file_name": "{path}"', f"'{weight}'", no_file)
        for number in ("", "00,", "-1,", "+0,", "0", "0, 0", "0x0,", "1e0,", "0,)", "9" * 10_000 + ",",
                       "18446744073709551616,", "(" * 10_000, "0,), __import__('os'"):
            refused(shard, f"('{weight}', ({number}))", "is not a shard")
        for quoted in (weight, f"'{weight}", f"b'{weight}'", f"'{weight}\\\\q'", f'\\"{weight}\\"',
                       f"'{weight}\\\\ud800'", "''"):
            refused(shard, f"({quoted}, (0,))", "is not a shard")
        refused(shard, f"('{weight}\\ud800', (0,))", "is not valid JSON")
        refused(shard, "('another', (0,))", "'another'", "but not in state_dict_metadata")
        refused(name, f"{name}, {name}", weight, "'file_name' appears twice")
        refused(f'"{shard}": ', f'"{shard}": [], "{shard}": ', f"'{weight}'", "slice 0 appears twice")
        refused(f'"{weight}": ', f'"{weight}": {{"global_shape": []}}, "{weight}": ', f"'{weight}'",
                "appears twice in state_dict_metadata")
        refused('"storage_data"', '"storage_data": {}, "storage_data"', "storage_data appears twice")
        refused(f'"{weight}": ', f'"{weight}": ' + "[" * 1_000_000, f"'{weight}'", "nested too deeply")
        refused('{', '{"x": ' + '{"x":' * 1_000_000, "nested too deeply")
        refused(name, f'{name}, "rank_group": ' + "[" * 1_000_000, "nested too deeply")
        refused('"storage_rank": 0', f'"storage_rank": {"9" * 10_000}', "is not valid JSON")
        refused('"storage_rank": 0', f'"storage_rank": {1 << 63}', "storage_rank is not an integer")
        (step / METADATA).write_text(good)
        self.assert_exports()

    def test_keys_in_another_order_and_without_spaces(self) -> None:
        step = self.copy("pp2tp2_to_tp4")
        metadata = json.loads((step / METADATA).read_text())
        def turned(value: Any) -> Any:
            if isinstance(value, dict):
                return {key: turned(value[key]) for key in reversed(value)}
            return [turned(entry) for entry in value] if isinstance(value, list) else value
        (step / METADATA).write_text(json.dumps(turned(metadata), separators=(",", ":")))
        self.assert_exports()

    def test_gradients_that_a_file_has_are_left_out(self) -> None:
        step = self.copy("pp2tp2_to_tp4")
        name = "accu_grads.decoder.final_layernorm.weight"
        for file in step.glob("model-*"):
            tensors, metadata = read_safetensors(file)
            write_safetensors(file, tensors | {name: TWO}, metadata)
        self.assert_exports()
        self.assertEqual(run("verify", self.source).code, 0)

    def test_a_strategy_beside_the_recorded_layouts_is_refused(self) -> None:
        self.copy("tp4_to_one")
        strategy = GOLDEN / "dp2tp2_to_tp4/dst_strategy.json"
        self.refused("records its own layouts", "--src-strategy", options=("--src-strategy", strategy))
        self.refused("records its own layouts", "--src-join", options=("--src-join", "*"))
        result = run("verify", self.source, "--src-strategy", strategy)
        self.assertEqual(result.code, 2)
        self.assertIn("records its own layouts", one_line(result))

    def test_the_output_directory_may_be_named(self) -> None:
        self.copy("tp4_to_one")
        output = self.root / "output"
        output.mkdir()
        self.source.rename(output / "checkpoint")
        self.source = output
        self.assert_exports()
        self.assert_exports("--no-symlinks")
        with mounted(output, "--step", "all") as mountpoint:
            self.assertEqual(os.listdir(mountpoint / "steps"), ["1"])
        (output / "checkpoint").rename(self.root / "elsewhere")
        (output / "checkpoint").symlink_to(self.root / "elsewhere")
        self.assert_exports()
        self.refused("symbolic link", options=("--no-symlinks",))

    def test_an_unfinished_save_without_metadata_is_refused(self) -> None:
        step = self.copy("tp4_to_one")
        (step / METADATA).unlink()
        self.refused(METADATA, "4 ranks")

    def test_rank_directories_beside_it_are_refused(self) -> None:
        self.copy("single_card_to_tp2")
        write_safetensors(self.source / "rank_0/x-1_1.safetensors", {"w": TWO})
        self.refused("iteration_", "rank_{rank}/*.safetensors")

    def test_links(self) -> None:
        step = self.copy("tp4_to_one")
        (self.root / "elsewhere").mkdir()
        for name in (METADATA, "model-0000001-0000004.safetensors"):
            shutil.move(step / name, self.root / "elsewhere")
            (step / name).symlink_to(self.root / "elsewhere" / name)
            self.assert_exports()
            self.refused("symbolic link", options=("--no-symlinks",))
            (step / name).unlink()
            shutil.move(self.root / "elsewhere" / name, step)
            self.assert_exports("--no-symlinks")


class Steps(Changed):
    def setUp(self) -> None:
        super().setUp()
        self.first = self.copy("tp4_to_one")

    def add_step(self, step: int) -> Path:
        directory = self.source / f"iteration_{step:08}"
        shutil.copytree(self.first, directory)
        return directory

    def track(self, text: str) -> None:
        (self.source / TRACKER).write_text(text)

    def test_the_tracker_decides(self) -> None:
        self.add_step(7)
        newer = self.add_step(12)
        next(newer.glob("model-0000002-*")).unlink()
        (newer / METADATA).unlink()
        for text in ("7", " 7\n"):
            self.track(text)
            result = self.assert_exports("-v")
            self.assertIn("using step 7", result.stderr)
            self.assertIn("12", result.stderr)
        self.refused(METADATA, options=("--step", "12"))
        self.refused("'8'", "1, 7, 12", options=("--step", "8"))
        self.track("9")
        self.refused("'9'", "1, 7, 12")
        self.track("release")
        self.refused(TRACKER, "'release'")
        (self.source / TRACKER).unlink()
        self.refused(TRACKER, "--step")
        self.assert_exports("--step", "7")

    def test_all_steps(self) -> None:
        self.add_step(3)
        self.add_step(5)
        self.track("3")
        with mounted(self.source, "--step", "all") as mountpoint:
            steps = mountpoint / "steps"
            self.assertEqual(sorted(os.listdir(steps)), ["1", "3"])
            self.assertEqual(os.readlink(mountpoint / "latest"), "steps/3")
            self.assert_expected(self.name, rank_files(steps / "3"))
            self.track("5")
            self.assertTrue(wait_until(lambda: "5" in os.listdir(steps)))
            # A restarted job makes the directory anew.
            again = self.source / "iteration_00000003"
            shutil.rmtree(again)
            again.mkdir()
            self.assertTrue(wait_until(lambda: "3" not in os.listdir(steps)))
            for path in self.first.iterdir():
                shutil.copy(path, again)
            self.assertTrue(wait_until(lambda: "3" in os.listdir(steps)))
            self.assert_expected(self.name, rank_files(steps / "3"))
            with self.assertRaises(FileNotFoundError):
                os.stat(steps / "9")

    def test_a_file_that_changes_fails_alone(self) -> None:
        with mounted(self.source) as mountpoint:
            path = rank_files(mountpoint)[0]
            for file in self.first.glob("*.safetensors"):
                file.write_bytes(file.read_bytes()[::-1])
            with self.assertRaises(OSError) as caught, contextlib.ExitStack():
                path.read_bytes()
            self.assertEqual(errno_name(caught.exception), errno.errorcode[errno.ESTALE])


if __name__ == "__main__":
    run_unittests()
