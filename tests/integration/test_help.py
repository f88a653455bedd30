# SPDX-License-Identifier: Apache-2.0
"""--help: options in groups, wrapped to the terminal."""

from __future__ import annotations

import re
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "packaging"))

import program_help  # noqa: E402
from command_tests import on_terminal  # noqa: E402
from mounted import Settings, run, run_unittests  # noqa: E402

COMMANDS = ("mount", "export", "inspect", "diff", "strategy", "strategy convert", "map show", "umount")
# Words that are longer than a line may be, and commands to copy.
UNBROKEN = re.compile(r"^  (reshardfs|srun|\(cd|ls) |^    --|^  --\S+ \S+$")


class Help(unittest.TestCase):
    def sections(self, text: str) -> list[str]:
        return re.findall(r"^(\S.*):$", text, re.MULTILINE)

    def help(self, *words: str) -> str:
        result = run(*words, "--help")
        self.assertEqual((result.code, result.stderr), (0, ""))
        return result.stdout

    def test_fits_the_terminal(self) -> None:
        for columns in (60, 80, 100, 200):
            for words in ("", *COMMANDS):
                lines = on_terminal(*words.split(), "--help", columns=columns)
                for line in lines:
                    if not UNBROKEN.match(line):
                        self.assertLessEqual(len(line), min(columns, 100), f"{words}: {line}")

    def test_has_80_columns_elsewhere(self) -> None:
        lines = self.help("mount").splitlines()
        self.assertGreater(max(map(len, lines)), 70)
        for line in lines:
            if not UNBROKEN.match(line):
                self.assertLessEqual(len(line), 80)

    def test_the_short_form_fits_a_screen(self) -> None:
        for command in program_help.all_commands(Settings.binary):
            with self.subTest(command):
                result = run(*command.split(), "-h")
                self.assertEqual((result.code, result.stderr), (0, ""))
                self.assertLessEqual(len(result.stdout.splitlines()), 24)
                self.assertTrue(result.stdout.endswith(f"The manual page is reshardfs-{command.split()[0]}(1).\n"))

    def test_the_short_form_has_five_options_and_examples(self) -> None:
        for command in ("mount", "export", "hash", "cat", "plan", "report", "inspect", "verify", "diff",
                        "strategy check", "strategy guess", "map check", "map show"):
            with self.subTest(command):
                lines = run(*command.split(), "-h").stdout.splitlines()
                options = [line for line in lines if re.match("  (-., )?--", line)]
                self.assertEqual(len(options), 5)
                self.assertTrue(any(line.startswith("Example") for line in lines))
                found = len(program_help.read_help(Settings.binary, command.split()).options)
                self.assertIn(f"reshardfs {command} --help lists {found - 5} more options.", lines)

    def test_help_of_a_command_is_its_short_form(self) -> None:
        for words in ((), ("mount",), ("strategy",), ("strategy", "check"), ("umount",), ("help",)):
            self.assertEqual(run("help", *words).stdout, run(*words, "-h").stdout)

    def test_own_options_come_before_common_ones(self) -> None:
        common = {"Source", "Target", "Names and model families", "What is shown", "Servers", "Log", "General"}
        for command, shown in program_help.all_commands(Settings.binary).items():
            groups = [option.group in common for option in shown.options]
            self.assertEqual(groups, sorted(groups), command)

    def test_the_short_form_of_few_options_is_the_long_one(self) -> None:
        for words in ((), ("umount",), ("map", "list"), ("doctor",)):
            self.assertEqual(run(*words, "-h").stdout, run(*words, "--help").stdout)

    def test_groups_of_mount(self) -> None:
        self.assertEqual(self.sections(self.help("mount")),
                         ["Arguments", "Mount", "Speed", "Source", "Target", "Names and model families",
                          "What is shown", "Servers", "Log", "General", "Example"])

    def test_few_options_are_one_group(self) -> None:
        self.assertEqual(self.sections(self.help("umount")), ["Arguments", "Options", "Example"])

    def test_commands_are_in_groups(self) -> None:
        text = self.help()
        self.assertEqual(self.sections(text)[0], "Show a checkpoint")
        commands = program_help.read_help(Settings.binary, []).subcommands
        for name in ("mount", "status", "inspect", "verify", "strategy", "map", "demo"):
            self.assertIn(name, commands)

    def test_every_option_has_its_words(self) -> None:
        """What completions and the check of the manual read is what the option takes."""
        options = {option.long_name: option
                   for option in program_help.read_help(Settings.binary, ["mount"]).options}
        self.assertEqual(options["format"].choices, ("ckpt", "safetensors", "torch"))
        self.assertIn("merged-ckpt", options["views"].choices)
        self.assertEqual(options["dec-mode"].choices, ("AES-GCM", "AES-CBC", "SM4-CBC"))
        self.assertEqual((options["prefix"].argument, options["prefix"].default),
                         ("NAME", "checkpoint_"))
        self.assertEqual((options["map-var"].argument, options["map-var"].default), ("NAME=VALUE", ""))
        self.assertTrue(options["cast"].repeatable)
        self.assertEqual(options["verbose"].names, ("-v", "--verbose"))
        self.assertEqual(options["verbose"].argument, "")


if __name__ == "__main__":
    run_unittests()
