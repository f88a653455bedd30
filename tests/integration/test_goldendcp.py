# SPDX-License-Identifier: Apache-2.0
"""Distributed checkpoints of PyTorch: what torch wrote, what other releases write, and traps."""

from __future__ import annotations

import json
import shutil
import sys
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from mounted import mounted, run, run_unittests, scratch  # noqa: E402
from torch_archive import write_archive  # noqa: E402
from web_server import serving  # noqa: E402

GOLDEN = Path(__file__).resolve().parents[1] / "goldendcp"
HOSTILE_SECONDS = 60.0  # they take some hundredths of a second

Tensors = dict[str, tuple[str, list[int], bytes]]


def read_tensors(path: Path) -> Tensors:
    data = path.read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begin])
    header.pop("__metadata__", None)
    return {name: (entry["dtype"], entry["shape"], data[slice(*(begin + at for at in
                                                               entry["data_offsets"]))])
            for name, entry in header.items()}


def cases(pattern: str, must: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    for path in sorted(GOLDEN.glob(pattern)):
        case = json.loads(path.read_text())
        if case["must"] == must:
            yield path.parent, case


def excluded(names: list[str]) -> list[str]:
    return [word for name in names for word in ("--exclude", name)]


class GoldenDcp(unittest.TestCase):
    def setUp(self) -> None:
        self.root = self.enterContext(scratch())

    def copy(self, name: str) -> Path:
        return Path(shutil.copytree(GOLDEN / name / "src", self.root / name))

    def assert_refused(self, source: Path, *words: str, options: tuple[str, ...] = ()) -> None:
        out = self.root / "refused"
        shutil.rmtree(out, ignore_errors=True)
        result = run("export", source, out, *options, seconds=HOSTILE_SECONDS)
        self.assertIn(result.code, (2, 3), result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)

    def test_tensors_are_those_that_were_saved(self) -> None:
        found = list(cases("*/case.json", "same"))
        self.assertEqual(len(found), 43)
        for directory, case in found:
            with self.subTest(case=case["name"]):
                want = read_tensors(directory / "expected.safetensors")
                options = excluded(case.get("refused", []))
                out = self.root / case["name"]
                result = run("export", directory / "src", out, "--views", "ranks",
                             "--dst-strategy", "none", *options)
                self.assertEqual(result.code, 0, result.stderr)
                self.assertEqual(read_tensors(out / "rank_0/checkpoint_0.safetensors"), want)
                with mounted(directory / "src", "--views", "ranks", "--dst-strategy", "none",
                             *options) as mountpoint:
                    file = mountpoint / "rank_0/checkpoint_0.safetensors"
                    self.assertEqual(read_tensors(file), want)

    def test_for_other_ranks_tensors_are_cut(self) -> None:
        rules = self.root / "rules.toml"
        rules.write_text('[devices]\naxes = ["tp=2"]\nunmatched = "replicate"\noptional = true\n'
                         '[[rule]]\nmatch = ["t2", "*embed*"]\ncut = ["", "tp"]\n'
                         '[[rule]]\nmatch = ["perm3", "*wo.weight", "*exp_avg"]\ncut = ["tp"]\n')
        for name, cut in (("fsdp_tp_2x", 8), ("transposed_113", 2)):
            want = read_tensors(GOLDEN / name / "expected.safetensors")
            out = self.root / f"cut_{name}"
            result = run("export", GOLDEN / name / "src", out, "--views", "ranks",
                         "--dst-strategy", rules)
            self.assertEqual(result.code, 0, result.stderr)
            parts = [read_tensors(out / f"rank_{n}/checkpoint_{n}.safetensors") for n in (0, 1)]
            found = 0
            for tensor, (kind, shape, data) in want.items():
                (first_kind, first_shape, first), (_, _, second) = (part[tensor] for part in parts)
                self.assertEqual(first_kind, kind)
                if first_shape == shape:
                    self.assertEqual((first, second), (data, data), tensor)
                    continue
                found += 1
                if first_shape[0] == shape[0]:
                    rows = shape[0]
                    half = len(first) // rows
                    joined = b"".join(part[at * half:(at + 1) * half] for at in range(rows)
                                      for part in (first, second))
                else:
                    joined = first + second
                self.assertEqual(joined, data, tensor)
            self.assertEqual(found, cut)

    def test_shards_of_safetensors_are_joined(self) -> None:
        source = self.copy("hf_sharded_2x")
        want = read_tensors(GOLDEN / "hf_sharded_2x/expected.safetensors")
        options = ("--views", "ranks", "--dst-strategy", "none")
        below = self.root / "model"
        below.mkdir()
        source.rename(below / "sharded")
        for place in (below, below / "sharded"):
            out = self.root / f"out_{place.name}"
            result = run("export", place, out, *options)
            self.assertEqual(result.code, 0, result.stderr)
            self.assertIn("joined from 2 shards", result.stderr)
            self.assertEqual(read_tensors(out / "rank_0/checkpoint_0.safetensors"), want)
        (below / "config.json").write_text(json.dumps({"vocab_size": 16}))
        result = run("inspect", below, "--json")
        self.assertEqual((result.code, result.stderr), (0, ""))
        self.assertEqual(run("verify", below).code, 0)
        # The index of the same model in whole tensors tells what there should be.
        index = {"weight_map": {name: "model-00001-of-00001.safetensors" for name in [*want, "lost"]}}
        (below / "model.safetensors.index.json").write_text(json.dumps(index))
        self.assert_refused(below / "sharded", "no file has 'lost'", options=options)

    def test_what_lacks_of_shards_is_noticed(self) -> None:
        source = self.copy("hf_sharded_2x")
        (source / "config.json").write_text(json.dumps({"text_config": {"vocab_size": 16}}))
        for name in ("shard-00002-model-00001-of-00002", "shard-00002-model-00002-of-00002"):
            (source / f"{name}.safetensors").unlink()
        self.assert_refused(source, "'model.tok_embeddings.weight'", "8 rows in 1 shard",
                            "a vocabulary of 16")
        source = self.copy("hf_hole_2x")
        self.assert_refused(source, "no source rank holds a part of 1 parameter: "
                                    "model.output.weight")
        (source / "shard-00003-model-00001-of-00001.safetensors").unlink()
        self.assert_refused(source, "3 shards up to 4, but none of shard 3")
        shutil.rmtree(self.root / "hf_sharded_2x")
        other = self.copy("hf_sharded_2x")
        (other / "shard-00002-model-00002-of-00002.safetensors").rename(
            other / "shard-00002-model-00002-of-00003.safetensors")
        self.assert_refused(other, "shards of two saves")

    def test_names_without_shards_are_joined_by_what_the_files_state(self) -> None:
        source = self.copy("hf_sharded_2x")
        for number, file in enumerate(sorted(source.iterdir())):
            file.rename(source / f"part{number}.safetensors")
        out = self.root / "parts"
        result = run("export", source, out, "--views", "ranks", "--dst-strategy", "none")
        self.assertEqual(result.code, 0, result.stderr)
        self.assertEqual(read_tensors(out / "rank_0/checkpoint_0.safetensors"),
                         read_tensors(GOLDEN / "hf_sharded_2x/expected.safetensors"))

    def test_one_shard_is_no_model(self) -> None:
        file = GOLDEN / "hf_sharded_2x/src/shard-00001-model-00001-of-00002.safetensors"
        self.assert_refused(file, "is a part of a tensor", "name the directory")

    def test_what_is_wrong_is_refused_and_named(self) -> None:
        found = list(cases("*/case.json", "refuse"))
        self.assertEqual(len(found), 7)
        for directory, case in found:
            with self.subTest(case=case["name"]):
                words = case.get("words") or [f"'{case['parameters_lost'][0]}'"]
                self.assert_refused(directory / "src", *words)

    def test_steps_of_a_trainer(self) -> None:
        """One without a table is never chosen; a tracker that is no number does not count."""
        source = self.copy("hyper_keyed_trainer_fsdp2")
        tracker = source / "latest_checkpoint_iteration.txt"

        def chosen() -> tuple[str, str]:
            result = run("inspect", source, "--json")
            self.assertEqual(result.code, 0, result.stderr)
            return json.loads(result.stdout)["step"], result.stderr

        self.assertEqual(chosen(), ("4", ""))
        tracker.write_text("2")
        self.assertEqual(chosen()[0], "2")
        self.assertIn("newer than the step that latest_checkpoint_iteration.txt names, and whole: 4", chosen()[1])
        tracker.write_text("6")
        self.assertEqual(chosen()[0], "4")
        self.assertIn("names step 6, which has no table", chosen()[1])
        for text in ("", "six"):
            tracker.write_text(text)
            self.assertEqual(chosen(), ("4", ""))
        tracker.unlink()
        self.assertEqual(chosen(), ("4", ""))
        self.assertEqual(run("inspect", source, "--step", "2").code, 0)
        self.assert_refused(source, "global_step_6", "no .metadata", options=("--step", "6"))
        for step in (2, 4):
            (source / f"global_step_{step}/.metadata").unlink()
        self.assert_refused(source, "no step has a table")

    def test_tables_of_hyper_parallel_with_a_hole(self) -> None:
        source = self.copy("hyper_keyed_tp2dp2_no_collectives")
        (source / "1.metadata").unlink()
        self.assert_refused(source, "has a table of rank 2, but none of rank 1")

    def test_a_table_that_is_a_text(self) -> None:
        """Beside files of ranks it is damaged, and no other program's."""
        source = self.copy("hyper_keyed_tp2dp2")
        (source / ".metadata").write_text("text")
        self.assert_refused(source, "/.metadata: ")

    def test_the_table_of_all_ranks_is_read_beside_those_of_one(self) -> None:
        source = self.copy("hyper_keyed_tp2dp2_no_collectives")
        whole = GOLDEN / "hyper_keyed_tp2dp2"
        for path in (whole / "src").iterdir():
            shutil.copy(path, source)
        result = run("export", source, self.root / "out.safetensors", "-v")
        self.assertEqual(result.code, 0, result.stderr)
        self.assertIn("the tables of single ranks beside .metadata are not read", result.stderr)
        self.assertEqual(read_tensors(self.root / "out.safetensors"), read_tensors(whole / "expected.safetensors"))

    def test_refused_tensors_stop_the_mount_which_names_them_all(self) -> None:
        self.assert_refused(GOLDEN / "unrepresentable_113/src", "2 tensors cannot be shown",
                            "'complex' (its type is torch.complex64)", "'quant'",
                            "--exclude complex --exclude quant")
        self.assert_refused(GOLDEN / "as_safetensors_torch214/src", "2 tensors cannot be shown",
                            "is safetensors here, not an archive of torch.save")
        source = self.copy("missing_file_2x")
        self.assert_refused(source, "'lost' (its file '__1_0.distcp' is missing)",
                            "--exclude lost")
        result = run("export", source, self.root / "rest", "--views", "ranks", "--exclude", "lost",
                     "--dst-strategy", "none")
        self.assertEqual(result.code, 0, result.stderr)

    def test_nothing_hostile_is_run_or_shown(self) -> None:
        found = list(cases("hostile/*/case.json", "refuse"))
        self.assertGreater(len(found), 40)
        for directory, case in found:
            with self.subTest(case=case["name"]):
                self.assert_refused(directory / "src")
        self.assertFalse(Path("dcp_was_run").exists())

    def test_a_link_out_of_the_directory_is_refused(self) -> None:
        source = self.copy("missing_file_2x")
        other = GOLDEN / "single_file_113/src/__0_0.distcp"
        (source / "__1_0.distcp").symlink_to(other)
        self.assert_refused(source, "'lost' (its file '__1_0.distcp' is a link that leads out")

    def test_without_its_table_a_save_is_unfinished(self) -> None:
        source = self.copy("single_file_113")
        (source / ".metadata").unlink()
        self.assert_refused(source, "but no .metadata", "interrupted or is still running")

    def test_saved_without_collectives_the_tables_of_all_ranks_are_joined(self) -> None:
        source = self.copy("rank_metadata_2x")
        options = ("--views", "ranks", "--dst-strategy", "none")
        result = run("verify", source)
        self.assertEqual(result.code, 0, result.stdout + result.stderr)
        (source / "__0.metadata").rename(source / "__2.metadata")
        self.assert_refused(source, "a table of rank 1, but none of rank 0")
        (source / "__1.metadata").rename(source / "__0.metadata")
        (source / "__2.metadata").rename(source / "__1.metadata")
        out = self.root / "swapped"
        self.assertEqual(run("export", source, out, *options).code, 0)
        self.assertEqual(read_tensors(out / "rank_0/checkpoint_0.safetensors"),
                         read_tensors(GOLDEN / "rank_metadata_2x/expected.safetensors"))
        (source / "__1.metadata").unlink()
        self.assert_refused(source, "'model.tok_embeddings.weight' (its chunks have 64 of its 128",
                            "--exclude model.tok_embeddings.weight")

    def test_tables_of_ranks_must_agree(self) -> None:
        source = self.copy("rank_metadata_2x")
        table = source / "__1.metadata"
        table.write_bytes(table.read_bytes().replace(b"float32", b"float64"))
        self.assert_refused(source, "'model.norm' (the ranks state different types or sizes of it: "
                                    "Float32 [8] and Float64 [8])", "--exclude model.norm")

    def test_megatron_has_steps(self) -> None:
        source = self.copy("mcore_gpt_tp2pp2")
        options = ("--views", "ranks", "--dst-strategy", "none")
        listed = json.loads(run("inspect", source, "--json").stdout)
        self.assertEqual((listed["step"], listed["steps"]), ("10", ["10", "20"]))
        self.assertIn({"name": "common_state/shard_0_1", "bytes": listed["byte_items"][0]["bytes"]},
                      listed["byte_items"])
        self.assertGreater(listed["byte_items"][0]["bytes"], 0)
        self.assert_refused(source, "no .metadata", options=("--step", "20"))
        self.assert_refused(source, "no directory of step '30'; available: 10, 20",
                            options=("--step", "30"))
        self.assert_refused(source / "iter_0000010", "not of step '20'", options=("--step", "20"))
        # What is no tensor is not opened, whatever it has.
        (source / "iter_0000010/common.pt").write_bytes(b"\x80\x02cos\nsystem\n.")
        (source / "iter_0000010").rename(source / "release")
        (source / "latest_checkpointed_iteration.txt").write_text("release\n")
        want = read_tensors(GOLDEN / "mcore_gpt_tp2pp2/expected.safetensors")
        for place, step in ((source, "latest"), (source, "release"), (source / "release", "latest")):
            out = self.root / f"release_{place.name}_{step}"
            result = run("export", place, out, *options, "--step", step)
            self.assertEqual(result.code, 0, result.stderr)
            self.assertEqual(read_tensors(out / "rank_0/checkpoint_0.safetensors"), want)

    def test_a_mount_of_all_steps_has_those_of_megatron(self) -> None:
        source = self.copy("mcore_gpt_tp2pp2")
        shutil.copytree(source / "iter_0000010", source / "iter_0000005")
        write_archive(source / "iter_0000005/common.pt", {"iteration": 5})
        with mounted(source, "--step", "all", "--views", "ranks",
                     "--dst-strategy", "none") as mountpoint:
            self.assertEqual(sorted(path.name for path in (mountpoint / "steps").iterdir()),
                             ["10", "5"])

    def test_other_formats_of_megatron_are_refused(self) -> None:
        source = self.copy("mcore_moe_buckets")
        config = source / "iter_0000005/metadata.json"
        config.write_text(json.dumps({"sharded_backend": "zarr", "sharded_backend_version": 1}))
        self.assert_refused(source, "in the format 'zarr'", "--ckpt-format torch_dist")
        config.unlink()
        (source / "iter_0000005/.metadata").unlink()
        for file in (source / "iter_0000005").glob("*.distcp"):
            file.unlink()
        self.assert_refused(source, "has no .metadata", "--ckpt-format torch_dist")

    def test_hyper_parallel_has_tensors_by_name(self) -> None:
        source = self.copy("hyper_torch_tp2dp2")
        result = run("verify", source)
        self.assertEqual(result.code, 0, result.stdout + result.stderr)
        (source / "_rank3_.safetensors").write_bytes((source / "_rank1_.safetensors").read_bytes())
        self.assert_refused(source, "'layers.0.w', 'stage1.w' ('", "is not in the file",
                            "--exclude layers.0.w")
        (source / ".metadata").rename(source / ".rank0_metadata")
        self.assert_refused(source, "is not in the file")

    def test_verify_reports_what_cannot_be_shown_or_read(self) -> None:
        result = run("verify", GOLDEN / "rows4_113/src")
        self.assertEqual(result.code, 0, result.stdout + result.stderr)
        for name, words in (("unrepresentable_113", "cannot be shown: its type is torch.complex64"),
                            ("big_endian_2x", "byte order is 'big'"),
                            ("missing_file_2x", "'__1_0.distcp' is missing")):
            result = run("verify", GOLDEN / name / "src")
            self.assertEqual(result.code, 1, result.stdout + result.stderr)
            self.assertIn(words, result.stdout + result.stderr)

    def test_other_files_of_torch_are_named_for_what_they_are(self) -> None:
        for name, word in (("zero_pp_rank_0_mp_rank_00_optim_states.pt", "model states"),
                           ("mp_rank_00_model_states.pt", "is a ZIP archive"),
                           ("rank0.pt", "is a ZIP archive")):
            source = self.root / name.partition(".")[0]
            source.mkdir()
            (source / name).write_bytes(b"PK\x03\x04")
            self.assert_refused(source, word)

    def test_a_server_may_have_the_files(self) -> None:
        for name in ("fsdp_tp_2x", "transposed_113", "hf_sharded_2x", "hyper_torch_tp2dp2",
                     "mcore_moe_buckets", "rank_metadata_2x"):
            with serving(GOLDEN / name / "src", html=True) as server:
                out = self.root / f"web_{name}"
                result = run("export", f"{server.url}/", out, "--views", "ranks", "--dst-strategy",
                             "none")
                self.assertEqual(result.code, 0, result.stderr)
            want = read_tensors(GOLDEN / name / "expected.safetensors")
            self.assertEqual(read_tensors(out / "rank_0/checkpoint_0.safetensors"), want)

    def test_one_file_is_no_source(self) -> None:
        self.assert_refused(GOLDEN / "single_file_113/src/__0_0.distcp",
                            "one file of a distributed checkpoint", "; run: reshardfs ",
                            f" {GOLDEN / 'single_file_113/src'} ")

    def test_it_has_no_steps(self) -> None:
        self.assert_refused(GOLDEN / "single_113/src", "without steps", options=("--step", "5"))

    def test_what_opening_sees_of_files_stops_the_mount(self) -> None:
        source = self.copy("rows4_113")
        whole = (source / "__3_0.distcp").read_bytes()
        options = ("--views", "ranks", "--dst-strategy", "none")
        lost = [f"'{name}'" for name in ("model.embed.weight",)
                if name in read_tensors(GOLDEN / "rows4_113/expected.safetensors")]
        for bytes_ in (b"x" * len(whole), whole[:-1]):
            (source / "__3_0.distcp").write_bytes(bytes_)
            self.assert_refused(source, "cannot be shown", "--exclude", *lost, options=options)
        out = self.root / "whole"
        result = run("export", source, out, *options, "--include", "model.norm")
        self.assertEqual(result.code, 0, result.stderr)

    def test_weights_only_leaves_out_states(self) -> None:
        for name in ("fsdp_tp_2x", "mcore_gpt_tp2pp2", "mcore_moe_buckets"):
            want = read_tensors(GOLDEN / name / "expected.safetensors")
            weights = {tensor for tensor in want if "optim" not in tensor}
            self.assertLess(len(weights), len(want), name)
            out = self.root / f"weights_{name}"
            result = run("export", GOLDEN / name / "src", out, "--views", "ranks",
                         "--dst-strategy", "none", "--weights-only", "-v")
            self.assertEqual(result.code, 0, result.stderr)
            self.assertEqual(set(read_tensors(out / "rank_0/checkpoint_0.safetensors")), weights)
            self.assertIn("left out by --weights-only", result.stderr)
            listed = json.loads(run("inspect", GOLDEN / name / "src", "--weights-only",
                                    "--json").stdout)
            self.assertEqual({entry["name"] for entry in listed["parameters"]}, weights)

    def test_a_map_needs_no_rules_for_states_where_weights_alone_are_wanted(self) -> None:
        source = GOLDEN / "mcore_gpt_tp2pp2/src"
        weights = [name for name in read_tensors(GOLDEN / "mcore_gpt_tp2pp2/expected.safetensors")
                   if "optim" not in name]
        rules = self.root / "map.toml"
        rules.write_text('[sides]\nfrom = "Megatron-Core"\nto = "mine"\n' + "".join(
            f'[[map]]\nfrom = "{name}"\nto = "model.{name}"\n' for name in weights))
        refused = run("export", source, self.root / "states", "--map", rules)
        self.assertEqual(refused.code, 2)
        self.assertIn("no rule uses it", refused.stderr)
        out = self.root / "mapped"
        result = run("export", source, out, "--map", rules, "--weights-only", "--views", "ranks")
        self.assertEqual(result.code, 0, result.stderr)
        want = {f"model.{name}" for name in weights}
        self.assertEqual(set(read_tensors(out / "rank_0/checkpoint_0.safetensors")), want)
        listed = run("inspect", source, "--map", rules, "--weights-only", "--json")
        self.assertEqual({entry["name"] for entry in json.loads(listed.stdout)["parameters"]}, want)


if __name__ == "__main__":
    run_unittests()
