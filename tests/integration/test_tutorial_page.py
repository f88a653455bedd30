# SPDX-License-Identifier: Apache-2.0
"""reshardfs-tutorial(7) from its first command to its last, in a fresh directory: every command does what
the page shows, and each of its problems is reported in its words."""

from __future__ import annotations

import json
import re
import shutil
import unittest

from mounted import run, scratch
from shown_commands import ROOT, Session, in_console, literal, matches, run_unittests
from stand_ins import RANK, run_python, write_stand_ins

from format_files import read_safetensors
from strategy_files import read_strategy

PAGE = (ROOT / "man/reshardfs-tutorial.7").read_text()
SECTIONS = dict(re.findall(r"^\.S[sh] (.+?)\n(.*?)(?=^\.S[sh] |\Z)", PAGE, re.M | re.S))
STEPS = [title for title in SECTIONS if re.match(r"\d+\. ", title)]
FUNCTIONS = "FROM MINDSPORE'S FUNCTIONS TO COMMANDS"
# What a test cannot run, and what it does instead.
NOT_RUN = {
    "systemctl": "changes the machine: what the service starts is run with --check-only",
    "vllm": "needs a GPU: the files that it reads are looked at",
}


class Page(unittest.TestCase):
    def setUp(self) -> None:
        self.top = self.enterContext(scratch())
        self.session = Session(self, self.top)

    def block_of(self, step: str, begin: str) -> str:
        (block,) = [text for text in literal(SECTIONS[step]) if text.startswith(begin)]
        return block

    def run_console(self, title: str) -> None:
        for block in literal(SECTIONS[title]):
            if block.startswith("{"):
                (self.session.directory / "config.json").write_text(block)
            if block.startswith("import mindspore"):
                self.load(block)
            if block.startswith("import transformers"):
                (path,) = re.findall(r'from_pretrained\("(.*)"\)', block)
                self.assertTrue((self.session.directory / path / "config.json").is_file())
            for shown in in_console(block):
                if shown.command.split()[0] in NOT_RUN:
                    self.do_instead(title, shown.command)
                else:
                    with self.subTest(shown.command):
                        self.session.run(shown, folded=True)

    def load(self, snippet: str) -> None:
        """It loads the parameters of the rank, each with its part of the rows or columns."""
        modules = self.top / "modules"
        modules.mkdir()
        write_stand_ins(modules)
        check = ("import stand_in\nassert len(stand_in.loaded) == 119\n"
                 "assert stand_in.loaded['lm_head.weight'] == (1920, 512)\n"
                 f"assert {RANK} == rank\n")
        done = run_python("network = object()\n" + snippet + check, modules, self.session.directory)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def do_instead(self, step: str, command: str) -> None:
        words = command.split()
        if words[0] == "vllm":
            self.assertEqual(words[:2], ["vllm", "serve"])
            hf = self.session.directory / words[2]
            (weights,) = hf.glob("*.safetensors")
            tensors = read_safetensors(weights)[0]
            config = json.loads((hf / "config.json").read_text())
            self.assertEqual(tensors["lm_head.weight"][1].shape,
                             (config["vocab_size"], config["hidden_size"]))
            self.assertEqual(len(tensors), 39)
        else:
            self.assertEqual(words[:-1], ["systemctl", "enable", "--now"])
            name = words[-1].removeprefix("reshardfs@")
            file = self.top / "reshardfs.toml"
            file.write_text(self.session.placed(self.block_of(step, "[mount.")))
            (self.top / "mnt" / name).mkdir(parents=True)
            result = run("mount", "--config", file, name, "--check-only")
            self.assertEqual((result.code, result.stderr), (0, ""))

    def test_all_of_it(self) -> None:
        """Steps use what those before them have made, as do the commands in place of functions."""
        self.assertEqual(len(STEPS), 8)
        for step in STEPS:
            self.run_console(step)
        sample = self.session.directory
        self.check_fstab(SECTIONS[STEPS[6]])
        (sample / "stages").mkdir()
        shutil.copy(sample / "train.ckpt", sample / "stages/strategy_0.ckpt")
        self.run_console(FUNCTIONS)
        self.assertEqual((sample / "new/rank_0/ckpt_0.ckpt").read_bytes(), (sample / "new_0.ckpt").read_bytes())
        self.assertEqual(read_strategy(sample / "merged.ckpt"), read_strategy(sample / "train.ckpt"))
        result = run("diff", sample / "back", sample / "source",
                     *("--a-strategy", sample / "train.ckpt", "--b-strategy", sample / "train.ckpt"))
        self.assertEqual(result.code, 0, result.stdout + result.stderr)
        self.check_problems()

    def check_fstab(self, step: str) -> None:
        """mount(8) passes the words of a line so; -f checks all, and mounts nothing."""
        (entry,) = [text for text in literal(step) if "dst_strategy" in text]
        source, mountpoint, kind, options, *zeros = entry.split()
        self.assertEqual((kind, zeros), ("reshardfs", ["0", "0"]))
        self.session.check_with_mount(source, mountpoint, options)

    def check_problems(self) -> None:
        """Each message of the program that the page explains, from the command that it belongs to."""
        text = SECTIONS["COMMON PROBLEMS"].replace("\\\n", "")
        messages = re.findall(r"^\.It Li (.+)$", text, re.M)
        train = "--src-strategy train.ckpt"
        commands = {
            "does not exist": f"reshardfs mount source tp2 {train}",
            "no rank has a file": f"reshardfs plan source {train} --step 7",
            "the ranks hold slices": "reshardfs plan source",
            "is for 4 ranks": "reshardfs plan source --src-strategy serve.ckpt",
            "does not divide": f"reshardfs plan source {train} --dst-strategy tp=3",
        }
        self.assertEqual(len(messages), len(commands))
        for words, command in commands.items():
            (message,) = [line for line in messages if words in line]
            with self.subTest(message):
                # The page leaves out the directory.
                printed = self.session.print_of(command, 2)
                printed = printed.replace(f"/data/{self.session.directory.name}/", "")
                self.assertTrue(matches(printed, message, folded=True), f"{message}\n{printed}")

    def test_commands_within_sentences(self) -> None:
        found = re.findall(r"^\.Ql (reshardfs .+?)(?: [.,;])?$", PAGE, re.M)
        self.assertGreater(len(found), 3)
        for command in found:
            self.session.assert_parsed(command)


if __name__ == "__main__":
    run_unittests()
