# SPDX-License-Identifier: Apache-2.0
"""What `reshardfs inspect` says a checkpoint is, and that each command that it prints next works: of every
kind of set."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
import unittest
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

import numpy as np  # noqa: E402
from command_tests import on_terminal  # noqa: E402
from format_files import write_safetensors  # noqa: E402
from incomplete_sets import KINDS, make_kind  # noqa: E402
from make_checkpoint import Parallel, make_set  # noqa: E402
from layouts import Layout  # noqa: E402
from map_sets import config_of, golden, hub_strategy, write_hub, write_ranks  # noqa: E402
from mounted import (Result, fuse_problem, in_shell, is_mounted, mounted, mountpoint_guard, run,  # noqa: E402
                     run_unittests, scratch)
from strategy_files import Strategy  # noqa: E402

TESTS = Path(__file__).resolve().parents[1]
# Those that have all names of the golden case's source.
MAPS = {"llama_legacy": "mindformers-llama", "qwen3_mcore": "mindformers-qwen3",
        "megatron_llama_back": "megatron-llama"}
# A name that a shell takes apart unless it is quoted.
ODD = "it's a $et"


class DescribeTest(unittest.TestCase):
    def setUp(self) -> None:
        self.directory = self.enterContext(scratch())

    def inspected(self, *words: str | Path) -> Result:
        """As typed in the test's directory."""
        line = " ".join(shlex.quote(str(word)) for word in ("reshardfs", "inspect", *words))
        result = in_shell(line, self.directory)
        self.assertEqual(result.code, 0, result.stderr)
        return result

    def described(self, *words: str | Path) -> dict[str, Any]:
        return json.loads(self.inspected(*words, "--json").stdout)["description"]

    def run_next(self, description: dict[str, Any], codes: tuple[int, ...] = (0,)) -> list[str]:
        """Each of the commands, and what they are."""
        commands = description["next"]
        self.assertTrue(1 <= len(commands) <= 4, commands)
        for command in commands:
            with self.subTest(command=command):
                self.run_one(command, (0, 1) if " strategy guess " in command else codes)
        return commands

    def run_one(self, command: str, codes: tuple[int, ...]) -> None:
        found = re.fullmatch(r"mkdir -p (\S+) && (reshardfs mount .*)", command)
        if not found:
            result = in_shell(command, self.directory)
            self.assertIn(result.code, codes, result.stdout + result.stderr)
            if " export " in command:
                shutil.rmtree(self.directory / shlex.split(command)[3])
            return
        if fuse_problem():
            return
        mountpoint = self.directory / found.group(1)
        with mountpoint_guard(mountpoint):
            result = in_shell(command, self.directory)
            self.assertEqual(result.code, 0, result.stderr)
            self.assertTrue(is_mounted(mountpoint))
            self.assertEqual(run("umount", mountpoint).code, 0)
        mountpoint.rmdir()


class Ranks(DescribeTest):
    def test_the_strategy_above_them(self) -> None:
        made = make_set(self.directory / ODD, Parallel(tp=2, dp=2, pp=2), Parallel(tp=2))
        source = Path(ODD) / "src"
        description = self.described(source)
        self.assertEqual(description["kind"], "rank_files")
        self.assertEqual(description["layout"]["ranks"], list(range(8)))
        self.assertEqual(description["model"]["layers"], 2)
        self.assertGreater(description["model"]["training_states"], 0)
        fits = {Path(found["path"]).name: found for found in description["strategies"]}
        self.assertTrue(fits["src_strategy.ckpt"]["fits"], fits)
        self.assertEqual(fits["src_strategy.json"]["same_as"], fits["src_strategy.ckpt"]["path"])
        self.assertFalse(fits["dst_strategy.ckpt"]["fits"], fits)
        self.assertEqual(len([f for f in fits.values() if f["fits"] and not f["same_as"]]), 1)
        commands = self.run_next(description)
        self.assertIn("inspect", commands[0])
        given = self.described(source, "--src-strategy", made.src_strategy)
        # A tensor is cut over two axes: that is no tensor parallelism alone.
        self.assertEqual([given["layout"][key] for key in ("pp", "devices_per_stage", "tp", "dp")],
                         [2, 4, None, None])
        # Nothing states the full shape of what the strategy leaves out.
        self.assertIsNone(given["model"]["elements"])
        self.run_next(given)

    def test_sizes_by_a_strategy(self) -> None:
        for case, tp, pp, dp in (("pp2tp2_to_tp4", 2, 2, 1), ("dp2tp2_to_tp4", 2, 1, 2)):
            source = TESTS / "golden" / case / "src"
            strategy = source.parent / "src_strategy.ckpt"
            layout = self.described(source, "--src-strategy", strategy)["layout"]
            self.assertEqual([layout[key] for key in ("tp", "pp", "dp", "by")], [tp, pp, dp, str(strategy)])
            # What a strategy does not leave out can be counted.
            model = self.described(source, "--src-strategy", strategy)["model"]
            self.assertGreater(model["elements"], 0)

    def test_places_of_strategies(self) -> None:
        """Where training jobs write them, and names as users give them."""
        made = make_set(self.directory / "made", Parallel(tp=2), Parallel(tp=4), layers=1)
        for place, source in (("strategy/s.ckpt", "ckpt"), ("../strategy/s.ckpt", "ckpt"),
                              ("../../strategy/s.ckpt", "ckpt"), ("output/strategy/s.ckpt", "ckpt"),
                              ("ckpt_strategy_rank_0.ckpt", "ckpt/"), ("../strategy.json", "./ckpt"),
                              ("../../strategy/s.ckpt", "ckpt/../ckpt"), ("../my_strategy.ckpt", "-c"),
                              ("../train.ckpt", "ckpt"), ("../strategy.ckpt", "."), ("../../strategy/s.ckpt", ".")):
            with self.subTest(place=place, source=source), scratch() as self.directory:
                top = self.directory / "a/b"
                ranks = top / ("-c" if source == "-c" else "ckpt")
                shutil.copytree(made.source, ranks)
                path = ranks / place
                path.parent.mkdir(parents=True, exist_ok=True)
                kind = "src_strategy.json" if path.suffix == ".json" else "src_strategy.ckpt"
                shutil.copy(made.directory / kind, path)
                self.directory = ranks if source == "." else top
                named = ["--", source] if source == "-c" else [source]
                line = "reshardfs inspect --json " + " ".join(named)
                description = json.loads(in_shell(line, self.directory).stdout)["description"]
                (found,) = description["strategies"]
                self.assertTrue(found["fits"], found)
                self.assertIn("--src-strategy", description["next"][0])
                self.run_next(description)

    def test_shapes_that_prove_the_sizes(self) -> None:
        """With a config.json; which a mount takes as the strategy."""
        tensors, config = golden("qwen3_mcore", "src"), config_of("qwen3_mcore")
        (layouts,) = hub_strategy(tensors, 2).stages
        strategy = Strategy([{name: Layout((2, 2), layout.tensor_map) for name, layout in layouts.items()}])
        source = write_ranks(self.directory / "a b/c/ranks", tensors, strategy)
        self.assertIsNone(self.described(source)["layout"]["tp"])
        (source / "config.json").write_text(json.dumps(config))
        description = self.described(source)
        self.assertEqual([description["layout"][key] for key in ("tp", "pp", "dp")], [2, 1, 2])
        self.assertEqual(description["lacks"], "")
        self.assertEqual(description["model"]["elements"], sum(array.size for _, array in tensors.values()))
        for command in self.run_next(description):
            self.assertIn("--src-strategy tp=2", command)
        (source / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 3}))
        self.assertIsNone(self.described(source)["layout"]["tp"])

    def test_none_is_near(self) -> None:
        made = make_set(self.directory / "made", Parallel(tp=2, pp=2), Parallel(), layers=2)
        shutil.move(made.source, self.directory / "deep")
        (self.directory / "deep/x/y").mkdir(parents=True)
        ranks = self.directory / "deep/x/y/ckpt"
        ranks.mkdir()
        for rank in self.directory.glob("deep/rank_*"):
            shutil.move(rank, ranks)
        description = self.described("deep/x/y/ckpt")
        self.assertEqual(description["strategies"], [])
        self.assertIn("strategy", description["lacks"])
        self.assertEqual(description["layout"]["pp"], 2)
        self.assertIsNone(description["layout"]["tp"])
        self.assertIsNone(description["model"]["elements"])
        self.assertTrue(any("strategy guess" in c for c in self.run_next(description)))

    def test_two_that_fit_are_for_the_user_to_choose(self) -> None:
        made = make_set(self.directory, Parallel(tp=4), Parallel(tp=2, dp=2), layers=1)
        for path in made.directory.glob("*s*"):
            if path.name in ("src_stages", "dst_stages"):
                shutil.rmtree(path)
        # The same slices by other axes: only whoever trained knows.
        text = run("strategy", "show", made.src_strategy, "--json").stdout
        other = self.directory / "other_strategy.json"
        other.write_text(text.replace('"dev_matrix": [4]', '"dev_matrix": [1, 4]'))
        description = self.described("src")
        for command in self.run_next(description):
            self.assertIn("inspect", command)

    def test_text(self) -> None:
        make_set(self.directory, Parallel(tp=2), Parallel(tp=8), layers=3)
        lines = self.inspected("src").stdout.splitlines()
        self.assertRegex(lines[0], r"^src: .* in 2 files, \d+ parameters$")
        labels = [line[:12].strip() for line in lines if not line.startswith(" ")]
        for label in ("format", "written by", "weights", "training", "ranks", "missing", "strategy"):
            self.assertIn(label, labels)
        at = lines.index("next:")
        below = lines[at + 1:]
        self.assertEqual([line[:4] == "  # " for line in below], [True, False] * 4)
        self.assertIn("reshardfs inspect src --src-strategy src_strategy.ckpt", below[1])
        self.assertTrue(any("quantized.weight" in line for line in lines), lines)

    def test_on_a_terminal(self) -> None:
        make_set(self.directory, Parallel(tp=2), Parallel(tp=8), layers=3)
        lines = on_terminal("inspect", self.directory / "src", lines=60, columns=200, NO_COLOR="1", LC_ALL="C")
        self.assertIn("next:", lines)
        self.assertTrue(lines[-1].startswith("  reshardfs verify "), lines[-1])


class Models(DescribeTest):
    def test_of_a_hub(self) -> None:
        for source in sorted((TESTS / "goldenmap").glob("*/src.safetensors")):
            case = source.parent.name
            with self.subTest(case), scratch() as self.directory:
                config = config_of(case) | {"transformers_version": "4.51.0"}
                write_hub(self.directory / ODD, golden(case, "src"), config)
                description = self.described(ODD)
                self.assertEqual(description["kind"], "whole_model")
                self.assertIn({"what": "transformers 4.51.0", "by": "config.json"},
                              description["written_by"])
                model = description["model"]
                self.assertEqual(model["model_type"], config.get("model_type", ""))
                self.assertEqual(model["elements"], sum(array.size for name, (_, array) in
                                                        golden(case, "src").items()
                                                        if not name.startswith("adam_")))
                self.assertIn(MAPS.get(case, ""), [*model["maps"], ""])
                commands = self.run_next(description)
                # One model lacks a tensor that its other layer has.
                self.assertEqual("--partial" in " ".join(commands), case == "refuse_missing", commands)

    def test_a_file(self) -> None:
        write_safetensors(self.directory / "m.safetensors", {"w": ("F32", np.ones((3, 5), "<f4"))},
                          {"format": "pt"})
        description = self.described("m.safetensors")
        self.assertEqual(description["kind"], "one_file")
        self.assertEqual(description["model"]["elements"], 15)
        self.assertEqual(description["written_by"][0]["what"], 'a writer of format "pt"')
        self.run_next(description)

    def test_incomplete_kinds(self) -> None:
        for kind in KINDS:
            with self.subTest(kind), scratch() as self.directory:
                made = make_kind(kind, self.directory, 2)
                self.run_next(self.described(made.directory))
                if "--src-strategy" in made.options:
                    self.run_next(self.described(made.directory, *made.options))

    def test_options_go_on(self) -> None:
        made = make_set(self.directory, Parallel(), Parallel(), layers=1, steps=("3_50", "3_100"))
        words = ("--step", "3_50", "--include", "*wq*", "--src-pattern", "rank_{rank}/*-{step}.ckpt",
                 "--no-symlinks")
        description = self.described(made.source, *words)
        for command in self.run_next(description):
            for word in words:
                self.assertIn(shlex.quote(word), command)
            self.assertNotIn("json", command)


class Places(DescribeTest):
    """What people name by mistake, and parts of what they mean."""

    def one_line(self, *words: str | Path) -> str:
        result = run("inspect", *words)
        self.assertEqual((result.code, result.stdout), (2, ""), result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        return result.stderr

    def test_the_directory_of_a_rank(self) -> None:
        made = make_set(self.directory / ODD, Parallel(tp=2), Parallel(), layers=1)
        for named in (f"{ODD}/src/rank_1", f"{ODD}/src/rank_1/", f"./{ODD}/src/../src/rank_1"):
            description = self.described(named)
            self.assertEqual(description["kind"], "rank_directory")
            commands = self.run_next(description)
            self.assertEqual(len(commands), 2)
            shown = json.loads(in_shell(commands[0] + " --json", self.directory).stdout)
            self.assertEqual(shown["description"]["layout"]["ranks"], [0, 1])
            text = self.inspected(named).stdout
            self.assertIn("the directory of rank 1 of ", text.splitlines()[0])
            self.assertIn("\nnext:\n  # look at the whole checkpoint\n  reshardfs inspect ", text)
        (file,) = made.source_files(1)
        (place,) = self.described(file)["place"]
        self.assertIn("rank 1", place)
        self.assertIn("ranks 0,1", place)

    def test_the_directory_of_a_rank_with_one_model_file(self) -> None:
        tensors = {"w": ("F32", np.ones((2, 3), "<f4"))}
        for rank in range(2):
            write_safetensors(self.directory / f"ckpt/rank_{rank}/m.safetensors", tensors)
        self.assertEqual(self.described("ckpt/rank_0")["kind"], "rank_directory")
        description = self.described("ckpt/rank_0/m.safetensors")
        self.assertEqual(description["kind"], "one_file")
        self.assertIn("ckpt has ranks 0,1", description["place"][0])

    def test_a_directory_alone_is_no_rank(self) -> None:
        """Nothing states that there are others."""
        made = make_set(self.directory, Parallel(), Parallel(), layers=1)
        self.assertIn("has one checkpoint", self.one_line(made.source / "rank_0"))

    def test_a_step(self) -> None:
        source = self.directory / "src"
        shutil.copytree(TESTS / "goldendcp/mcore_gpt_tp2pp2/src", source)
        self.assertEqual(self.described("src")["place"], [])
        (place,) = self.described("src/iter_0000010")["place"]
        self.assertEqual(place, "step 10 of src, which has 2 steps: 10, 20")

    def test_a_strategy(self) -> None:
        made = make_set(self.directory, Parallel(tp=2), Parallel(), layers=1)
        for path in (made.src_strategy, made.directory / "src_strategy.json", made.directory / "src_stages"):
            line = self.one_line(path)
            self.assertIn("is a strategy, not a checkpoint", line)
            (command,) = re.findall(r"; run: (reshardfs strategy show .*)", line)
            self.assertEqual(in_shell(command, self.directory).code, 0)

    def test_a_cache_of_a_hub(self) -> None:
        cache = self.directory / "models--org--a-model"
        for number, name in enumerate(("0123abcd", "89ef")):
            snapshot = cache / "snapshots" / name
            write_safetensors(cache / f"blobs/{number}", {"w": ("F32", np.full((2, 2), number, "<f4"))})
            snapshot.mkdir(parents=True)
            (snapshot / "model.safetensors").symlink_to(f"../../blobs/{number}")
        for named in (cache, cache / "snapshots", f"./{cache.name}/"):
            description = self.described(named)
            self.assertEqual(description["kind"], "hub_cache")
            self.assertIn("org/a-model", description["format"])
            self.assertEqual(len(self.run_next(description)), 2)
        (cache / "refs").mkdir()
        (cache / "refs/main").write_text("89ef")
        for named in (cache.name, f"{cache.name}/snapshots", cache / "snapshots/89ef"):
            description = self.described(named)
            self.assertEqual(description["place"], ["snapshot 89ef of org/a-model in a cache of Hugging Face's hub, "
                                                    "which refs/main names"])
            self.run_next(description)
        description = self.described(cache / "snapshots/89ef/model.safetensors")
        self.assertEqual(description["place"], ["of snapshot 89ef of org/a-model in a cache of Hugging Face's hub"])

    def test_an_export(self) -> None:
        made = make_set(self.directory, Parallel(tp=2), Parallel(), layers=1)
        out = self.directory / "out"
        self.assertEqual(run("export", made.source, out, *made.options()).code, 0)
        description = self.described(out)
        self.assertEqual(description["written_by"], [{"what": "reshardfs export", "by": ".reshardfs-export.jsonl"}])
        self.run_next(description)

    def test_nothing_and_what_is_no_checkpoint(self) -> None:
        (self.directory / "empty").mkdir()
        self.assertIn("is an empty directory", self.one_line(self.directory / "empty"))
        for name in ("m.pt", "pytorch_model.bin"):
            path = self.directory / name
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("m/data.pkl", b"x")
            self.assertIn("no entry 'version', as torch.save writes it", self.one_line(path))
        (self.directory / "note.txt").write_text("a note\n")
        self.assertIn("is a text file, not a checkpoint", self.one_line(self.directory / "note.txt"))
        self.assertIn("no such file or directory", self.one_line(self.directory / "nowhere"))

    @unittest.skipIf(fuse_problem(), "nothing can be mounted")
    def test_a_mount(self) -> None:
        made = make_set(self.directory, Parallel(tp=2), Parallel(), layers=1)
        with mounted(made.source, *made.options()) as mountpoint:
            (place,) = self.described(mountpoint)["place"]
            self.assertEqual(place, f"a mount of reshardfs at {mountpoint}")
            (place,) = self.described(mountpoint / "merged/checkpoint_merged.safetensors")["place"]
            self.assertEqual(place, f"in the mount of reshardfs at {mountpoint}")


def golden_sources() -> Iterator[tuple[str, Path]]:
    for group in ("golden", "golden2", "goldendcp"):
        for case in sorted((TESTS / group).iterdir()):
            if (case / "src").exists():
                yield f"{group}/{case.name}", case


class Golden(DescribeTest):
    def test_every_case(self) -> None:
        """What can be inspected has commands that work; what a mount refuses gets none of it. Every third
        case, or all with RESHARDFS_EVERY_CASE set."""
        described = 0
        cases = list(golden_sources())[::1 if os.environ.get("RESHARDFS_EVERY_CASE") else 3]
        for name, case in cases:
            with self.subTest(name), scratch() as self.directory:
                shutil.copytree(case, self.directory / ODD, symlinks=True)
                result = run("inspect", self.directory / ODD / "src", "--json")
                if result.code != 0:
                    continue
                described += 1
                self.run_next(self.described(Path(ODD) / "src"))
        self.assertGreater(described, len(cases) // 2)


if __name__ == "__main__":
    run_unittests()
