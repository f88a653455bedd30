# SPDX-License-Identifier: Apache-2.0
"""Mistakes that people make, and the command that each answer leads to: pasted into a shell, it does what was
meant."""

from __future__ import annotations

import re
import shlex
import shutil
import unittest
from pathlib import Path

# First, because it finds the modules of tests/data.
from map_sets import config_of, golden, write_hub

from documents import is_explained
from mounted import (code_of_status, fuse_problem, in_shell, is_mounted, mountpoint_guard, one_line, run,
                     run_unittests, scratch)

TESTS = Path(__file__).resolve().parents[1]
STRATEGY = "ms/strategy/src_strategy.ckpt"
TARGET = "ms/dst_strategy.ckpt"
MODEL = "cache/models--org--tiny"
BAD_INPUT = 2
SNAPSHOT = f"{MODEL}/snapshots/0123abc"

# What was typed in the directory of make_places(), and what the answer leads to.
WRONG_PLACES = [
    ("mount ms/ckpt/rank_0 mnt", "mount ms/ckpt mnt --src-strategy ms/strategy"),
    ("mount ms mnt", "mount ms/ckpt mnt --src-strategy ms/strategy"),
    ("mount ms/strategy mnt", "mount ms/ckpt mnt --src-strategy ms/strategy"),
    (f"mount {STRATEGY} mnt", f"mount ms/ckpt mnt --src-strategy {STRATEGY}"),
    ("mount mnt ms/ckpt", "mount ms/ckpt mnt --src-strategy ms/strategy"),
    ("mount cache mnt", f"mount {MODEL} mnt"),
    ("mount hub/config.json mnt", "mount hub mnt"),
    ("inspect torch/step_100/__1_0.distcp", "inspect torch/step_100"),
    ("inspect ms", "inspect ms/ckpt --src-strategy ms/strategy"),
    (f"inspect {STRATEGY}", f"strategy show {STRATEGY}"),
    ("strategy show ms/ckpt", "strategy show ms/strategy"),
    ("verify cache", f"verify {MODEL}"),
]
NO_STRATEGY = [
    ("mount ms/ckpt mnt", "mount ms/ckpt mnt --src-strategy ms/strategy"),
    ("plan ms/ckpt", "plan ms/ckpt --src-strategy ms/strategy"),
    ("diff ms/ckpt whole.ckpt", "diff ms/ckpt whole.ckpt --a-strategy ms/strategy"),
    ("mount ms/ckpt mnt --src-strategy tp=4", "mount ms/ckpt mnt --src-strategy ms/strategy"),
    ("mount ms/ckpt mnt --src-strategy ms/ckpt", "mount ms/ckpt mnt --src-strategy ms/strategy"),
    (f"hash ms/ckpt --src-strategy {TARGET} --dst-strategy {STRATEGY}",
     f"hash ms/ckpt --src-strategy {STRATEGY} --dst-strategy {TARGET}"),
]
MISSPELT = [
    (f"mount ms/ckpts mnt --src-strategy {STRATEGY}", f"mount {{}}/ms/ckpt mnt --src-strategy {STRATEGY}"),
    ("mount ms/ckpt mnt --src-strategy ms/strategi", "mount ms/ckpt mnt --src-strategy {}/ms/strategy"),
    (f"mount ms/ckpt mnt --src-strategy {STRATEGY} --dst-strategy ms/dst_strategy",
     f"mount ms/ckpt mnt --src-strategy {STRATEGY} --dst-strategy {{}}/{TARGET}"),
    ("strategy show ms/strateg", "strategy show ms/strategy"),
    ("moutn hub mnt", "mount hub mnt"),
    ("convert hub out", "export hub out"),
    ("merge hub out", "export hub out"),
    ("serve hub mnt", "mount hub mnt"),
    ("strategy sho ms/strategy", "strategy show ms/strategy"),
    ("mount hub mnt --view hf", "mount hub mnt --views hf"),
    ("mount hub mnt --views huggingface", "mount hub mnt --views hf"),
    ("mount hub mnt --views mergd", "mount hub mnt --views merged"),
    ("inspect hub --include *.weigth", "inspect hub --include *.weight"),
    ("export hub new --map mindformers-qwen --map-var release=1.7",
     "export hub new --map mindformers-qwen3 --map-var release=1.7"),
    ("hash hub rank_1/checkpoint_0.safetensors", "hash hub rank_0/checkpoint_0.safetensors"),
    ("cat hub model.norm.weigth", "cat hub --param model.norm.weight"),
]
WRONG_WORDS = [
    ("ms/ckpt", "inspect ms/ckpt"),
    ("hub mnt", "mount hub mnt"),
    ("--views hf mount hub mnt", "mount --views hf hub mnt"),
    ("mount hub", "mkdir -p mnt-2 && reshardfs mount hub mnt-2"),
    ("mount hub new/mnt", "mkdir -p new/mnt && reshardfs mount hub new/mnt"),
    ("mount hub full", "mkdir -p mnt-2 && reshardfs mount hub mnt-2"),
    ("export hub", "export hub converted"),
    ("export hub hub/out", "export hub converted"),
    ("export hub model.gguf", "export hub model.safetensors"),
    ("report hub", "report hub --output report.html"),
    ("strategy convert ms/dst_strategy.ckpt", "strategy convert ms/dst_strategy.ckpt --output strategy.json"),
    ("plan hub --tp 2", "plan hub --dst-strategy tp=2"),
    ("plan hub --dst-strategy 2", "plan hub --dst-strategy tp=2"),
    ("plan hub --dst-strategy tp2", "plan hub --dst-strategy tp=2"),
    ("plan hub --dst-strategy TP=2", "plan hub --dst-strategy tp=2"),
    ("cat hub", "inspect hub --list"),
    ("umount mnt", "status"),
]


# What is typed by those who know another program, and a part of the answer, where no command can be proposed.
OTHER_WORDS = [
    ("mount hub mnt --dtype bf16", "--cast 'fp32->bf16' converts element types"),
    ("inspect hub --layer 7", "--include '*.layers.3.*' selects parameters"),
    ("report hub --html page.html", "--output FILE.html writes the page"),
    ("mount hub mnt --lora adapter", "merge an adapter with its model first"),
    ("export hub out --to tp=2", "--dst-strategy states the target, such as tp=4"),
    ("diff hub whole.ckpt --src-strategy none", "write --a-strategy for the first checkpoint, --b-strategy for the second"),
    ("diff hub whole.ckpt --map auto", "write --a-map for the first checkpoint, --b-map for the second"),
    ("export hub out --format pytorch", "did you mean 'torch'?"),
    ("export hub out --format hf", "--views hf shows the directory that Hugging Face's loaders read"),
    ("export hub out --format dcp", "--views dcp shows a checkpoint of torch.distributed.checkpoint"),
    ("inspect hf://org/tiny", "'hf download ORG/NAME'"),
    ("inspect gs://bucket/run", "the S3-compatible endpoint of this store with --s3-endpoint"),
    ("inspect org/tiny", "is downloaded by 'hf download org/tiny'"),
    ("verify hub --jobs many", "it takes 0 to 1024"),
    ("mount hub mnt --cache-size 5XB", "write a size such as 500MB, 5GB or 5GiB"),
    ("mount hub mnt -V", "did you mean '-v'?"),
    ("mount hub mnt extra", "write reshardfs mount SOURCE MOUNTPOINT"),
    ("hash hub --ranks -1", "write ranks and ranges separated by commas, as in 0-3,7"),
]


def make_places(directory: Path) -> None:
    """A checkpoint of each kind, as training jobs, hubs and their caches leave them."""
    case = TESTS / "golden/pp2tp2_to_tp4"
    shutil.copytree(case / "src", directory / "ms/ckpt")
    (directory / "ms/strategy").mkdir()
    shutil.copy(case / "src_strategy.ckpt", directory / STRATEGY)
    shutil.copy(case / "dst_strategy.ckpt", directory / TARGET)
    shutil.copy(next((TESTS / "golden/full_to_tp8/src").rglob("*.ckpt")), directory / "whole.ckpt")
    hub = directory / "hub"
    hub.mkdir()
    write_hub(hub, golden("qwen3_mcore", "src"), config_of("qwen3_mcore"))
    snapshot, blobs = directory / SNAPSHOT, directory / MODEL / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    for number, file in enumerate(sorted(hub.iterdir())):
        shutil.copy(file, blobs / str(number))
        (snapshot / file.name).symlink_to(f"../../blobs/{number}")
    for step in (500, 1000):
        shutil.copytree(hub, directory / f"run/checkpoint-{step}")
    for step in (100, 200):
        shutil.copytree(TESTS / "goldendcp/fsdp_tp_2x/src", directory / f"torch/step_{step}")
    (directory / "mnt").mkdir()
    (directory / "full").mkdir()
    (directory / "full/notes.txt").write_text("mine\n")


class Mistakes(unittest.TestCase):
    def setUp(self) -> None:
        self.directory = self.enterContext(scratch()).resolve()
        make_places(self.directory)
        # A command that was expected to be refused may mount.
        self.enterContext(mountpoint_guard(self.directory / "mnt"))

    def corrected(self, words: list[str], line: str) -> str:
        """The command that the answer proposes: whole, or as a word in place of a wrong one."""
        if found := re.search(r"; run: (.*)$", line):
            return found[1]
        if found := re.search(r"'(reshardfs [^']*)' lists", line):
            return found[1]
        found = re.search(r"did you mean (?:one of )?(?:--include )?'(.*?)'(?:\?|,| or)", line)
        self.assertIsNotNone(found, line)
        assert found
        return "reshardfs " + shlex.join(self.replaced(words, line, found[1]))

    def replaced(self, words: list[str], line: str, right: str) -> list[str]:
        file = re.match(r"reshardfs: ([^:' ]*/[^:]*): ", line)
        (wrong,) = [file[1]] if file else re.findall(r"'(.*?)'", line)[:1]
        if wrong.startswith("strategy "):
            wrong, right = wrong.removeprefix("strategy "), right.removeprefix("strategy ")
        out: list[str] = []
        for word in words:
            if word != wrong and str(self.directory / word) != wrong:
                out.append(word)
            elif right.startswith("--") and not wrong.startswith("--"):
                option, value = right.split(" ", 1)
                if out[-1] == option:
                    out.pop()
                out += [option, value]
            else:
                out.append(right)
        self.assertNotEqual(out, words, line)
        return out

    def paste(self, command: str) -> None:
        result = in_shell(command, self.directory)
        allowed = (0, 1) if " diff " in command else (0,)
        if command == "reshardfs status":
            allowed = (code_of_status(result.stdout),)
        self.assertIn(result.code, allowed, f"{command}\n{result.stderr}")
        shutil.rmtree(self.directory / "converted", ignore_errors=True)

    def mount(self, command: str) -> None:
        words = shlex.split(command)
        words = words[words.index("mount") + 1:]
        places = [word for number, word in enumerate(words)
                  if not word.startswith("-") and (number == 0 or not words[number - 1].startswith("--"))]
        mountpoint = self.directory / places[1]
        with mountpoint_guard(mountpoint):
            self.paste(command)
            self.assertTrue(is_mounted(mountpoint), command)
            self.assertEqual(run("umount", mountpoint).code, 0)
        if "mkdir" in command:
            mountpoint.rmdir()

    def check(self, typed: str, expected: str) -> None:
        words = typed.split()
        with self.subTest(typed):
            result = in_shell(shlex.join(["reshardfs", *words]), self.directory)
            self.assertNotEqual(result.code, 0, result.stdout)
            line = one_line(result)
            self.assertTrue(is_explained(line), line)
            command = self.corrected(words, line)
            wanted = expected.replace("{}", str(self.directory))
            if not wanted.startswith("mkdir"):
                wanted = f"reshardfs {wanted}"
            self.assertEqual(command.replace("'*.weight'", "*.weight"), wanted, line)
            if not re.search(r"reshardfs mount ", command):
                self.paste(command)
            elif not fuse_problem():
                self.mount(command)

    def check_all(self, table: list[tuple[str, str]]) -> None:
        for typed, expected in table:
            self.check(typed, expected)

    def test_wrong_places(self) -> None:
        self.check_all(WRONG_PLACES)

    def test_no_strategy(self) -> None:
        self.check_all(NO_STRATEGY)
        line = one_line(in_shell("reshardfs mount ms/ckpt mnt", self.directory))
        self.assertLessEqual(len(line.replace(str(self.directory), "/data")), 160, line)

    def test_words_of_other_programs(self) -> None:
        for typed, answer in OTHER_WORDS:
            with self.subTest(typed):
                result = in_shell(shlex.join(["reshardfs", *typed.split()]), self.directory)
                self.assertEqual(result.code, BAD_INPUT, result.stdout)
                line = one_line(result)
                self.assertIn(answer, line)
                self.assertTrue(is_explained(line), line)

    def test_a_model_in_the_cache_of_a_hub(self) -> None:
        result = in_shell("HF_HUB_CACHE=cache reshardfs inspect org/tiny", self.directory)
        self.paste(self.corrected(["inspect", "org/tiny"], one_line(result)))

    def test_names_of_two_frameworks(self) -> None:
        """Neither checkpoint is at fault: the names are those of two frameworks."""
        write_hub(self.directory / "core", golden("qwen3_mcore", "expected"), config_of("qwen3_mcore"))
        result = in_shell("reshardfs diff hub core --weights-only", self.directory)
        self.assertEqual(result.code, 1)
        self.assertIn("no name is in both A and B: --b-map ", result.stderr)

    def test_misspelt(self) -> None:
        self.check_all(MISSPELT)

    def test_wrong_words(self) -> None:
        self.check_all(WRONG_WORDS)

    def test_of_several_models_the_user_chooses(self) -> None:
        """Names that are no steps of one run: none is the last."""
        (self.directory / "run").rename(self.directory / "models")
        for step, size in ((500, "7b"), (1000, "13b")):
            (self.directory / f"models/checkpoint-{step}").rename(self.directory / f"models/llama-{size}")
        line = one_line(in_shell("reshardfs mount models mnt", self.directory))
        self.assertIn("has 2 checkpoints: 'llama-13b', 'llama-7b'; name one of them", line)
        self.assertNotIn("run:", line)

    def test_there_are_many(self) -> None:
        self.assertGreaterEqual(sum(map(len, (WRONG_PLACES, NO_STRATEGY, MISSPELT, WRONG_WORDS))), 40)


if __name__ == "__main__":
    run_unittests()
