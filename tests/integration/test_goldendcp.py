# SPDX-License-Identifier: Apache-2.0
"""Distributed checkpoints of PyTorch: what torch wrote, what other releases write, and traps."""

from __future__ import annotations

import json
import shutil
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mounted import mounted, run, run_unittests, scratch
from web_server import serving

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
        self.assertEqual(len(found), 16)
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
        rules.write_text('[devices]\naxes = ["tp=2"]\nunmatched = "replicate"\n'
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

    def test_what_is_wrong_is_refused_and_named(self) -> None:
        found = list(cases("*/case.json", "refuse"))
        self.assertEqual(len(found), 3)
        for directory, case in found:
            with self.subTest(case=case["name"]):
                self.assert_refused(directory / "src", f"'{case['parameters_lost'][0]}'")

    def test_refused_tensors_stop_the_mount_which_names_them_all(self) -> None:
        self.assert_refused(GOLDEN / "unrepresentable_113/src", "2 tensors cannot be shown",
                            "'complex' (its type is torch.complex64)", "'quant'",
                            "--exclude complex --exclude quant")
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

    def test_saved_without_collectives_it_is_named_for_what_it_is(self) -> None:
        source = self.copy("single_file_113")
        (source / ".metadata").rename(source / "__0.metadata")
        self.assert_refused(source, "was saved without collectives")

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
        for name, word in (("zero_pp_rank_0_mp_rank_00_optim_states.pt", "zero_to_fp32.py"),
                           ("mp_rank_00_model_states.pt", "DeepSpeed"),
                           ("rank0.pt", "torch.distributed.checkpoint")):
            source = self.root / name.partition(".")[0]
            source.mkdir()
            (source / name).write_bytes(b"PK")
            self.assert_refused(source, name, word)

    def test_a_server_may_have_the_files(self) -> None:
        for name in ("fsdp_tp_2x", "transposed_113"):
            with serving(GOLDEN / name / "src", html=True) as server:
                out = self.root / f"web_{name}"
                result = run("export", f"{server.url}/", out, "--views", "ranks", "--dst-strategy",
                             "none")
                self.assertEqual(result.code, 0, result.stderr)
            want = read_tensors(GOLDEN / name / "expected.safetensors")
            self.assertEqual(read_tensors(out / "rank_0/checkpoint_0.safetensors"), want)

    def test_one_file_is_no_source(self) -> None:
        self.assert_refused(GOLDEN / "single_file_113/src/__0_0.distcp",
                            "one file of a distributed checkpoint", "name the directory")

    def test_it_has_no_steps(self) -> None:
        self.assert_refused(GOLDEN / "single_113/src", "without steps", options=("--step", "5"))

    def test_a_damaged_file_stops_nobody_who_reads_others(self) -> None:
        source = self.copy("rows4_113")
        (source / "__3_0.distcp").write_bytes(b"x" * 100_000)
        options = ("--views", "ranks", "--dst-strategy", "none")
        out = self.root / "whole"
        result = run("export", source, out, *options, "--include", "model.norm")
        self.assertEqual(result.code, 0, result.stderr)
        with mounted(source, *options) as mountpoint, self.assertRaises(OSError):
            (mountpoint / "rank_0/checkpoint_0.safetensors").read_bytes()


if __name__ == "__main__":
    run_unittests()
