# SPDX-License-Identifier: Apache-2.0
"""What lies there does not pass for all there is: what is stated and missing is refused, and what nothing
states is said, by every command."""

from __future__ import annotations

import json
import random
import shutil
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

import numpy as np
from ckpt_format import encode_checkpoint, record_of
from format_files import Tensors, read_safetensors, write_safetensors
from incomplete_sets import (INDEX, KINDS, config, make_kind, model, write_counted, write_index, write_ranks,
                             write_shards)
from mounted import Result, mounted, run, run_unittests, scratch

UP = "model.layers.0.mlp.up_proj.weight"
JOIN = ("--src-join", "*embed*", "--src-join", "*lm_head*", "--src-join", "*proj*")
EXPORT = ("--views", "ranks", "--dst-strategy", "none", "--format", "safetensors")


class CompletenessTest(unittest.TestCase):
    def setUp(self) -> None:
        self.root = self.enterContext(scratch())
        self.place = self.root / "mnt"
        self.place.mkdir()
        self.source = self.root / "set"
        self.source.mkdir()

    def mount(self, source: Path, *options: str | Path) -> Result:
        return run("mount", source, self.place, "--check-only", *options)

    def export(self, source: Path, *options: str | Path) -> Result:
        out = self.root / "out"
        shutil.rmtree(out, ignore_errors=True)
        return run("export", source, out, *EXPORT, *options)

    def verify(self, code: int, source: Path, *options: str | Path) -> dict:
        result = run("verify", source, *options, "--json")
        self.assertEqual(result.code, code, result.stdout + result.stderr)
        return json.loads(result.stdout)

    def assert_refused(self, result: Result, *words: str) -> None:
        self.assertEqual(result.code, 2, result.stdout + result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)

    def assert_all_refuse(self, source: Path, *words: str, options: tuple[str, ...] = ()) -> None:
        """By everything that shows tensors; `verify` reports the same as a problem, exit status 1."""
        for result in (self.mount(source, *options), self.export(source, *options)):
            self.assert_refused(result, *words)
        report = self.verify(1, source, *options)
        text = " ".join(f"{p['file']} {p['parameter']} {p['message']}" for p in report["problems"])
        for word in words:
            self.assertIn(word, text)
        self.assertFalse(report["completeness"]["stated"])

    def warnings(self, result: Result) -> list[str]:
        self.assertEqual(result.code, 0, result.stderr)
        return [line for line in result.stderr.splitlines() if "warning" in line]

    def one_warning(self, result: Result, *words: str) -> None:
        lines = self.warnings(result)
        self.assertEqual(len(lines), 1, result.stderr)
        for word in words:
            self.assertIn(word, lines[0])

    def last_line(self, code: int, *words: str | Path) -> str:
        result = run("verify", *words)
        self.assertEqual(result.code, code, result.stdout + result.stderr)
        return result.stdout.splitlines()[-1]


class CountedNames(CompletenessTest):
    def setUp(self) -> None:
        super().setUp()
        write_counted(self.source, model(), 2, index=False)
        self.first = self.source / "model-00001-of-00002.safetensors"
        self.second = self.source / "model-00002-of-00002.safetensors"

    def test_one_file_of_two_is_no_model(self) -> None:
        self.second.unlink()
        words = ("'model-00001-of-00002.safetensors' counts 2 files", "'model-00002-of-00002.safetensors' is missing")
        self.assert_all_refuse(self.source, *words)
        self.assert_refused(run("inspect", self.source), *words)
        self.assert_refused(run("plan", self.source), *words)
        self.assert_refused(run("diff", self.source, self.source), *words)

    def test_any_name_and_place_counts(self) -> None:
        self.second.unlink()
        self.first.rename(self.source / "ft-weights_3_of_7.safetensors")
        self.assert_all_refuse(self.source, "counts 7 files", "'ft-weights_1_of_7.safetensors'", "and 1 more are missing")
        shutil.rmtree(self.source)
        for rank in (0, 1):
            write_counted(self.source / f"rank_{rank}", model(), 2, index=False)
            (self.source / f"rank_{rank}/model-00002-of-00002.safetensors").unlink()
        self.assert_all_refuse(self.source, "rank_0", "counts 2 files")

    def test_a_file_that_is_named_is_read_alone(self) -> None:
        words = ("'model-00001-of-00002.safetensors' is file 1 of 2 of a model", "name its directory")
        for command in ("inspect", "plan"):
            self.one_warning(run(command, self.first), *words)
        self.one_warning(self.mount(self.first), *words)
        self.one_warning(self.export(self.first), *words)
        self.one_warning(run("verify", self.first), *words)
        self.assertIn("complete, according to one file, as it was named", self.last_line(0, self.first))

    def test_names_of_a_pattern_count_its_ranks(self) -> None:
        pattern = ("--src-pattern", "model-{rank}-of-00002.safetensors", "--src-join", "w")
        for number in (1, 2):
            write_safetensors(self.source / f"model-0000{number}-of-00002.safetensors",
                              {"w": ("F32", np.full((2, 2), number, "<f4"))})
        self.assertEqual(self.warnings(self.export(self.source, *pattern)), [])
        joined = read_safetensors(self.root / "out/rank_0/checkpoint_0.safetensors")[0]["w"][1]
        self.assertEqual(joined.tolist(), [[1, 1], [1, 1], [2, 2], [2, 2]])
        self.assertIn("complete, according to counts in 2 names", self.last_line(0, self.source, *pattern))
        self.first.unlink()
        self.assert_all_refuse(self.source, "'model-00001-of-00002.safetensors' is missing", options=pattern)


class Indexes(CompletenessTest):
    def setUp(self) -> None:
        super().setUp()
        self.tensors = model()
        write_counted(self.source, self.tensors, 2)
        self.index = json.loads((self.source / INDEX).read_text())
        self.total = self.index["metadata"]["total_size"]

    def test_a_whole_model_is_complete_by_its_index(self) -> None:
        self.assertEqual(self.warnings(self.mount(self.source)), [])
        line = f"complete, according to the index {INDEX}, counts in 2 names"
        self.assertTrue(self.last_line(0, self.source).endswith(line))
        self.assertIn(line, " ".join(run("inspect", self.source).stdout.split()))
        self.assertEqual(self.verify(0, self.source)["completeness"],
                         {"stated": True, "by": [f"the index {INDEX}", "counts in 2 names"], "missing": [],
                          "unstated": None, "open_extents": []})

    def test_a_file_that_the_index_names_must_be_there(self) -> None:
        (self.source / "model-00002-of-00002.safetensors").unlink()
        for command in ("inspect", "verify", "plan"):
            self.assert_refused(run(command, self.source), "names the file 'model-00002-of-00002.safetensors'")

    def test_a_shard_that_the_index_does_not_name_is_not_dropped(self) -> None:
        first = {name: file for name, file in self.index["weight_map"].items() if "00001-of" in file}
        for total in (self.total, None):
            write_index(self.source, first, total)
            self.assert_all_refuse(self.source, "'model-00002-of-00002.safetensors' is not among those that are read")
            # Nor is it if it is not there.
        (self.source / "model-00002-of-00002.safetensors").unlink()
        self.assert_all_refuse(self.source, "'model-00002-of-00002.safetensors' is missing")

    def test_numbered_parts_of_mindspore(self) -> None:
        place = self.root / "unified"
        for number in range(3):
            write_safetensors(place / f"part{number}.safetensors", {f"w{number}": ("F32", np.zeros(2, "<f4"))})
        names = {"weight_map": {f"w{number}": f"part{number}.safetensors" for number in range(3)}}
        (place / "param_name_map.json").write_text(json.dumps(names))
        self.assertEqual(self.warnings(self.mount(place)), [])
        del names["weight_map"]["w2"]
        (place / "param_name_map.json").write_text(json.dumps(names))
        self.assert_all_refuse(place, "names no tensor of 'part2.safetensors'")

    def test_other_files_beside_are_named(self) -> None:
        write_safetensors(self.source / "consolidated.safetensors", self.tensors)
        self.one_warning(self.mount(self.source), "not read", "'consolidated.safetensors'")
        self.one_warning(run("verify", self.source), "'consolidated.safetensors'")

    def test_a_larger_total_is_of_missing_tensors(self) -> None:
        for total in (self.total + 1, 2 * self.total, 4.0 * self.total):
            write_index(self.source, self.index["weight_map"], total)
            self.assert_all_refuse(self.source, f"states tensors of {int(total)} bytes", f"have {self.total}")

    def test_a_smaller_total_is_said(self) -> None:
        write_index(self.source, self.index["weight_map"], self.total - 4)
        self.one_warning(self.mount(self.source), f"states tensors of {self.total - 4} bytes")
        self.assertEqual(self.verify(1, self.source)["problems"][0]["kind"], "file")

    def test_totals_that_count_otherwise_are_no_loss(self) -> None:
        tensors: Tensors = {"q": ("BF16", np.zeros((30, 4), "<u2")), "scale": ("F32", np.zeros(5, "<f4"))}
        place = self.root / "converted"
        write_counted(place, tensors, 2)
        index = json.loads((place / INDEX).read_text())
        write_index(place, index["weight_map"], 4 * 125)
        self.assertEqual(self.warnings(self.mount(place)), [])
        tied = {name: tensor for name, tensor in self.tensors.items() if "lm_head" not in name}
        place = self.root / "tied"
        write_counted(place, tied, 2)
        index = json.loads((place / INDEX).read_text())
        write_index(place, index["weight_map"], self.total)
        self.assert_refused(self.mount(place), f"states tensors of {self.total}")
        (place / "config.json").write_text(json.dumps({"tie_word_embeddings": True}))
        self.assertEqual(self.warnings(self.mount(place)), [])

    def test_tensors_that_the_index_does_not_name_are_said(self) -> None:
        del self.index["weight_map"][UP]
        write_index(self.source, self.index["weight_map"], None)
        self.one_warning(self.mount(self.source), "does not name 1 tensor", UP)


class Shards(CompletenessTest):
    """Of torch.distributed.checkpoint: 12 rows in three shards of four."""

    def lose(self, *numbers: int, file: int = 1, files: int = 1) -> None:
        for number in numbers:
            (self.source / f"shard-{number:05}-model-{file:05}-of-{files:05}.safetensors").unlink()

    def write_config(self) -> None:
        (self.source / "config.json").write_text(json.dumps(config()))

    def test_without_evidence_extents_are_unknown(self) -> None:
        write_shards(self.source, model(), 3)
        for there in (3, 2):
            words = (f"unknown whether the tensors joined from {there} shards are whole", "'lm_head.weight' "
                     f"[{4 * there}, 4] and 5 more parameters")
            self.one_warning(self.mount(self.source), *words)
            self.one_warning(self.export(self.source), *words)
            self.one_warning(run("inspect", self.source), *words)
            self.one_warning(run("plan", self.source), *words)
            report = self.verify(1, self.source)
            self.assertEqual([p["kind"] for p in report["problems"]], ["extent"])
            self.assertEqual(len(report["completeness"]["open_extents"]), 6)
            line = self.last_line(1, self.source)
            self.assertIn("not known to be complete", line)
            self.assertIn(words[0], line)
            self.lose(there)

    def test_what_nobody_wants_need_not_be_known(self) -> None:
        write_shards(self.source, model() | {"extra": ("F32", np.zeros((6, 2), "<f4"))}, 3)
        self.write_config()
        self.verify(0, self.source)
        self.lose(3)
        self.assert_refused(self.mount(self.source, "--include", "lm_head.weight"), "8 rows")
        self.one_warning(self.mount(self.source, "--include", "extra"), "'extra' [4, 2] would")
        self.assertEqual(self.verify(1, self.source, "--include", "extra")["problems"][0]["parameter"], "extra")

    def test_config_tells_the_rows_of_known_names(self) -> None:
        write_shards(self.source, model(), 3)
        self.write_config()
        self.assertEqual(self.warnings(self.mount(self.source)), [])
        self.assertIn("complete, according to config.json", self.last_line(0, self.source))
        self.lose(3)
        self.assert_all_refuse(self.source, "has 8 rows in 2 shards", "a vocabulary of 12")
        for name, words in (("lm_head.weight", "a vocabulary of 12"), (UP, "it should be [12, 4]")):
            with self.subTest(name):
                self.assert_refused(self.mount(self.source, "--include", name), name, words)

    def test_config_tells_them_under_other_keys(self) -> None:
        tensors = {"model.output.weight": ("F32", np.zeros((12, 4), "<f4"))}
        write_shards(self.source, tensors, 3)
        (self.source / "config.json").write_text(json.dumps({"text_config": {"vocab_size": 12, "n_embd": 4}}))
        self.verify(0, self.source)
        self.lose(3)
        self.assert_all_refuse(self.source, "model.output.weight", "8 rows")

    def test_the_total_size_of_an_index_proves_all(self) -> None:
        below = self.root / "model"
        self.source = below / "sharded"
        tensors = {"a": ("F32", np.zeros((12, 4), "<f4")), "b": ("F32", np.zeros((6,), "<f4"))}
        write_shards(self.source, tensors, 3)
        write_index(below, dict.fromkeys(tensors, "model-00001-of-00001.safetensors"), 216)
        for place in (below, self.source):
            if place == below:
                continue
            self.assertEqual(self.warnings(self.mount(place)), [])
            self.assertIn(f"the total size in {INDEX}", self.last_line(0, place))
        self.lose(3)
        self.assert_all_refuse(self.source, "states tensors of 216 bytes", "in 2 shards have 144")

    def test_a_tensor_of_the_same_rows_tells_them(self) -> None:
        tensors = model() | {"w.weight": ("F32", np.zeros((12, 4), "<f4"))}
        write_shards(self.source, tensors, 3)
        path = self.source / "shard-00001-model-00001-of-00001.safetensors"
        own, metadata = read_safetensors(path)
        info = json.loads(metadata["DCP_SHARDING_INFO"]) | {"w.bias": {"saved_offsets": [0]}}
        write_safetensors(path, own | {"w.bias": ("F32", np.zeros(12, "<f4"))},
                          metadata | {"DCP_SHARDING_INFO": json.dumps(info)})
        self.lose(3)
        self.assert_all_refuse(self.source, "w.weight", "has 8 rows in 2 shards, but 'w.bias' has 12 elements")

    def test_a_file_of_a_shard_that_is_missing(self) -> None:
        write_shards(self.source, model(), 3, files=2)
        self.write_config()
        self.assertEqual(self.warnings(self.mount(self.source)), [])
        self.lose(3, file=2, files=2)
        self.assertNotEqual(run("verify", self.source).code, 0)
        (self.source / "config.json").unlink()
        # The embedding is in the first file, and the output, of as many rows, in the second.
        self.assert_all_refuse(self.source, "'model.embed_tokens.weight' has 12", "lm_head.weight")
        self.one_warning(self.mount(self.source, "--exclude", "lm_head.weight"), "unknown whether the tensors joined")
        # No shard has the second file.
        self.lose(1, 2, file=2, files=2)
        self.assert_all_refuse(self.source, "the names count 2 files of each shard, but no shard has file 2")


class Joins(CompletenessTest):
    def setUp(self) -> None:
        super().setUp()
        write_ranks(self.source, model(), 3)

    def lose(self, *ranks: int) -> None:
        for rank in ranks:
            shutil.rmtree(self.source / f"rank_{rank}")

    def test_the_number_of_ranks_is_unknown(self) -> None:
        words = ("unknown whether the tensors joined from 3 ranks are whole", "'lm_head.weight' [12, 4]")
        self.one_warning(self.mount(self.source, *JOIN), *words)
        self.one_warning(self.export(self.source, *JOIN), *words)
        self.assertIn(words[0], self.last_line(1, self.source, *JOIN))
        joined = ("--a-join", "*embed*", "--b-join", "*embed*")
        result = run("diff", self.source, self.source, *joined, "--include", "*embed*")
        if result.code != 2:
            self.assertIn("unknown whether the tensors joined", result.stderr)

    def test_config_states_the_rows(self) -> None:
        (self.source / "config.json").write_text(json.dumps(config()))
        self.assertEqual(self.warnings(self.mount(self.source, *JOIN)), [])
        self.assertIn("config.json", self.last_line(0, self.source, *JOIN))
        self.lose(2)
        self.assert_all_refuse(self.source, "has 8 rows in 2 ranks", "a vocabulary of 12", options=JOIN)

    def test_a_whole_tensor_of_the_same_rows_states_them(self) -> None:
        (self.source / "x").mkdir()
        for rank in range(3):
            write_safetensors(self.source / f"x/rank_{rank}/w.safetensors",
                              {"w.weight": ("F32", np.zeros((4, 3), "<f4")), "w.bias": ("F32", np.zeros(12, "<f4"))})
        source = self.source / "x"
        self.assertEqual(self.warnings(self.mount(source, "--src-join", "w.weight")), [])
        shutil.rmtree(source / "rank_2")
        self.assert_all_refuse(source, "has 8 rows in 2 ranks, but 'w.bias' has 12",
                               options=("--src-join", "w.weight"))

    def test_ranks_must_begin_at_0_without_a_hole(self) -> None:
        for lost in ((0,), (0, 1), (1,)):
            with self.subTest(lost):
                shutil.rmtree(self.source)
                write_ranks(self.source, model(), 3)
                self.lose(*lost)
                for result in (self.mount(self.source, *JOIN), self.export(self.source, *JOIN)):
                    self.assert_refused(result, "is to be joined from 3 ranks", str(lost[0]))
                report = self.verify(1, self.source, *JOIN)
                messages = [p["message"] for p in report["problems"]]
                self.assertTrue(any("is to be joined, but rank" in m for m in messages), messages)


class Statements(CompletenessTest):
    def test_verify_says_what_it_rests_on(self) -> None:
        write_ranks(self.source, model(layers=0), 2)
        strategy = self.root / "s.toml"
        strategy.write_text('[devices]\naxes = ["tp=2"]\n[[rule]]\nmatch = "*"\ncut = ["tp", ""]\n')
        self.assertTrue(self.last_line(0, self.source, "--src-strategy", strategy)
                        .endswith("complete, according to the strategy of 2 ranks"))
        shutil.rmtree(self.source / "rank_1")
        line = self.last_line(0, self.source)
        self.assertIn("good", line)
        self.assertTrue(line.endswith("unknown whether these are all files"), line)
        inspected = json.loads(run("inspect", self.source, "--json").stdout)["completeness"]
        self.assertEqual((inspected["stated"], inspected["unstated"]), (False, "whether these are all files"))

    def test_a_hole_in_the_ranks_is_said(self) -> None:
        write_ranks(self.source, {"w": ("F32", np.zeros(4, "<f4"))}, 3)
        self.assertEqual(self.warnings(self.mount(self.source)), [])
        shutil.rmtree(self.source / "rank_1")
        for result in (self.mount(self.source), run("verify", self.source)):
            self.one_warning(result, "rank 1 has no file, but rank 2 has one")

    def test_a_part_that_is_named_says_so(self) -> None:
        for number in range(2):
            write_ranks(self.root / f"part{number}", model(layers=0), 1)
            (self.root / f"part{number}/rank_0/net-1_10.ckpt").rename(self.source / f"net_part{number}-1_10.ckpt")
        self.one_warning(run("inspect", self.source / "net_part0-1_10.ckpt"), "is part 0 of 'net-1_10.ckpt'")

    def test_a_mount_warns_too(self) -> None:
        write_shards(self.source, model(), 3)
        with mounted(self.source, *EXPORT[:4]) as mountpoint:
            status = json.loads((mountpoint / ".reshardfs/status.json").read_text())
            self.assertIn("unknown whether the tensors joined", json.dumps(status))


class RandomLosses(CompletenessTest):
    """Of sets without replicas: with any files lost, each command refuses or says that it cannot know."""

    ROUNDS = 3

    def check(self, kind_name: str, seed: int) -> None:
        rng = random.Random(f"{kind_name} {seed}")
        root = self.root / str(seed)
        root.mkdir()
        kind = make_kind(kind_name, root, rng.randint(2, 4))
        files = kind.data_files()
        whole = self.mount(kind.directory, *kind.options)
        self.assertEqual(self.warnings(whole) == [], kind.stated, whole.stderr)
        self.assertEqual(run("verify", kind.directory, *kind.options).code, 0 if kind.stated else 1)
        for path in rng.sample(files, rng.randint(1, len(files) - 1)):
            path.unlink()
        left = [path.name for path in kind.data_files()]
        for result in (self.mount(kind.directory, *kind.options), self.export(kind.directory, *kind.options)):
            self.assertTrue(result.code == 2 or self.warnings(result), (kind_name, left, result.stderr))
            if kind.stated:
                self.assertEqual(result.code, 2, (kind_name, left, result.stderr))
        result = run("verify", kind.directory, *kind.options)
        self.assertIn(result.code, (1, 2), (kind_name, left, result.stdout))


def add_random_losses() -> None:
    for kind in KINDS:
        def test(self: RandomLosses, kind: str = kind) -> None:
            for seed in range(self.ROUNDS):
                self.check(kind, seed)

        setattr(RandomLosses, "test_" + kind.replace(" ", "_"), test)


add_random_losses()

class Unfinished(CompletenessTest):
    """Copies and downloads that have not ended: the names that tools give them tell."""

    def refused_by_all(self, *words: str) -> None:
        for result in (self.mount(self.source), self.export(self.source), run("inspect", self.source),
                       run("verify", self.source)):
            self.assertNotEqual(result.code, 0, result)
            for word in words:
                self.assertIn(word, result.stdout + result.stderr)

    def test_a_rank_whose_only_file_is_on_its_way(self) -> None:
        for name in ("net-1_2.ckpt.part", ".net-1_2.ckpt.Zk3x9Q", "net-1_2.ckpt.incomplete", "net-1_2.tmp"):
            shutil.rmtree(self.source)
            self.ranks(2)
            (self.source / "rank_1/net-1_2.ckpt").rename(self.source / "rank_1" / name)
            self.refused_by_all("rank 1", name, "instead of a finished file")

    def test_what_is_finished_counts(self) -> None:
        self.ranks(2)
        for name in ("net-1_2.ckpt.part", ".net-1_2.ckpt.Zk3x9Q"):
            shutil.copy(self.source / "rank_1/net-1_2.ckpt", self.source / "rank_1" / name)
        self.assertEqual(self.warnings(self.mount(self.source)), [])

    def test_a_file_that_is_downloaded_in_place(self) -> None:
        self.ranks(2)
        (self.source / "rank_1/net-1_2.ckpt.aria2").touch()
        self.refused_by_all("rank_1/net-1_2.ckpt", "download", "net-1_2.ckpt.aria2")

    def test_a_shard_of_a_hub_model_that_is_downloaded_in_place(self) -> None:
        write_counted(self.source, model(), 2)
        (self.source / "model-00002-of-00002.safetensors.aria2").touch()
        self.refused_by_all("model-00002-of-00002.safetensors", "download")

    def test_the_only_file_that_is_finished(self) -> None:
        write_safetensors(self.source / "a.safetensors", {"w": ("F32", np.ones(2, "<f4"))})
        (self.source / "b.safetensors.incomplete").touch()
        for result in (self.mount(self.source), self.export(self.source), run("inspect", self.source),
                       run("verify", self.source)):
            self.one_warning(result, "b.safetensors.incomplete", "not ended")

    def ranks(self, count: int) -> None:
        same = record_of("w", "Float32", np.ones(2, "<f4"))
        for rank in range(count):
            (self.source / f"rank_{rank}").mkdir(parents=True)
            (self.source / f"rank_{rank}/net-1_2.ckpt").write_bytes(encode_checkpoint([same]))


if __name__ == "__main__":
    run_unittests()
