# SPDX-License-Identifier: Apache-2.0
"""What the shells complete: bash with its functions and at a terminal; zsh and fish where they are
installed. check_completions.py compares names with --help; this is about what they take."""

from __future__ import annotations

import argparse
import os
import pty
import shutil
import subprocess
import sys
import threading
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from ckpt_format import Record, encode_checkpoint  # noqa: E402
from command_tests import terminal_output  # noqa: E402
from mounted import (  # noqa: E402
    COMMAND_SECONDS,
    Settings,
    command,
    mountpoint_guard,
    parse_settings,
    run,
    scratch,
)
from layouts import Layout  # noqa: E402
from strategy_files import Strategy, write_protobuf  # noqa: E402

DATA = encode_checkpoint([Record("w", "Float32", (2,), b"abcdefgh")])
COMPLETIONS = Path()   # where the built files are
PREPARED = """. "$1"; shift
compopt() { :; }
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_reshardfs reshardfs "${@: -1}"
printf '%s\\n' "${COMPREPLY[@]}" """


def with_program() -> dict[str, str]:
    """The environment, with the program in the path: it knows the names in files."""
    return os.environ | {"PATH": f"{Settings.binary.parent}:{os.environ['PATH']}"}


def bash_offers(*words: str, directory: Path = Path("/")) -> list[str]:
    """COMPREPLY for these words, as readline cuts them: = and : are words of their own."""
    done = subprocess.run(["bash", "-c", PREPARED, "bash", COMPLETIONS / "reshardfs.bash",
                           "reshardfs", *words], check=True, capture_output=True, text=True,
                          cwd=directory, timeout=COMMAND_SECONDS, env=with_program())
    assert not done.stderr, done.stderr
    return done.stdout.splitlines() if done.stdout.strip() else []


def fish_offers(line: str) -> list[str]:
    """What begins like the last word; fish 4 offers words too that have its letters further on."""
    script = 'source $argv[1]; complete -C $argv[2]'
    offers = [entry.partition("\t")[0] for entry in command(
        "fish", "--no-config", "-c", script, COMPLETIONS / "reshardfs.fish", line).splitlines()]
    return [offer for offer in offers if offer.startswith(line.rpartition(" ")[2])]


def typed_at_terminal(directory: Path, keys: str) -> list[str]:
    """The words that an interactive bash makes of a line with tabs in it."""
    ours, theirs = pty.openpty()
    # A program of the same name, so that the line can be run and shows its words.
    (directory / "reshardfs").write_text("#!/bin/sh\nprintf '<%s>\\n' \"$@\"\n")
    (directory / "reshardfs").chmod(0o755)
    (directory / "rc").write_text(f"PS1=READY; PATH={directory}:$PATH; bind 'set bell-style none'\n"
                                  f". {COMPLETIONS}/reshardfs.bash\n")
    process = subprocess.Popen(
        ["bash", "--noprofile", "--rcfile", directory / "rc", "-i"], stdin=theirs, stdout=theirs,
        stderr=theirs, cwd=directory, start_new_session=True,
        env=os.environ | {"INPUTRC": "/dev/null", "TERM": "dumb", "HISTFILE": ""})
    os.close(theirs)
    # A quotation mark that is left open would have it wait for more.
    watchdog = threading.Timer(20, process.kill)
    watchdog.start()
    try:
        seen = b""
        while b"READY" not in seen:  # before that the line would not go to readline
            seen += os.read(ours, 4096)
        os.write(ours, f"{keys}\rexit\r".encode())
        text = terminal_output(ours).decode()
        process.wait(COMMAND_SECONDS)
    finally:
        watchdog.cancel()
    return [line[1:-1] for line in text.replace("\r", "").split("\n")
            if line.startswith("<") and line.endswith(">")]


class Words(unittest.TestCase):
    def test_commands(self) -> None:
        self.assertIn("mount", bash_offers(""))
        self.assertEqual(bash_offers("um"), ["umount"])
        self.assertEqual(bash_offers("strategy", ""), ["show", "merge", "convert", "check", "guess"])
        self.assertEqual(bash_offers("help", "mo"), ["mount"])
        self.assertEqual(bash_offers("help", "strategy", "sh"), ["show"])
        # A checkpoint may be called like a command.
        self.assertEqual(bash_offers("inspect", "strategy", "--depth", "1", "--lis"), ["--list"])

    def test_values_of_options(self) -> None:
        for words, expected in (
            (("mount", "--step", ""), ["latest", "all"]),
            (("plan", "--step", ""), ["latest"]),
            (("mount", "a", "--step", "=", "la"), ["latest"]),
            (("mount", "a", "--step", "="), ["latest", "all"]),
            (("export", "--unmatched", "re"), ["replicate"]),
            (("verify", "--replicas", "f"), ["first"]),
            (("hash", "--metadata", ""), ["ms", "pt"]),
            (("mount", "--dec-mode", "AES-C"), ["AES-CBC"]),
            (("mount", "--log-level", ""), ["error", "warning", "info", "debug"]),
            (("mount", "--uid", "roo"), ["root"]),
            (("mount", "--prefix", ""), []),
        ):
            with self.subTest(words):
                self.assertEqual(bash_offers(*words), expected)

    def test_lists_have_each_word_once(self) -> None:
        self.assertEqual(bash_offers("mount", "--format", ""), ["ckpt", "safetensors", "torch"])
        self.assertEqual(bash_offers("mount", "--format", "ckpt,"), ["ckpt,safetensors", "ckpt,torch"])
        self.assertEqual(bash_offers("mount", "--views", "merged,ranks,p"), ["merged,ranks,params"])

    def test_options_are_offered_until_they_are_given(self) -> None:
        self.assertIn("--include", bash_offers("plan", "--include", "a*", "--in"))
        self.assertEqual(bash_offers("plan", "--js"), ["--json"])
        self.assertEqual(bash_offers("plan", "--json", "--js"), [])
        self.assertEqual(bash_offers("plan", "--json", "--rank", "1", "--js"), [])
        self.assertEqual(bash_offers("export", "-j", "4", "--jo"), [])

    def test_a_word_with_equals_signs_is_one_argument(self) -> None:
        # The third argument: mount takes two, so that options are what is left.
        self.assertIn("--step", bash_offers("mount", "a", "b", "=", "c", ""))
        self.assertEqual(bash_offers("mount", "a", "--dst-strategy", "tp", "=", "8,dp", "=", "2", "b",
                                     "--nonem"), ["--nonempty"])


class Files(unittest.TestCase):
    def test_a_fixed_word_stands_among_the_files(self) -> None:
        with scratch() as directory:
            (directory / "notes").mkdir()
            (directory / "train.ckpt").touch()
            offered = [bash_offers("mount", "--src-strategy", start, directory=directory)
                       for start in ("", "no", "tr")]
        self.assertEqual([sorted(words) for words in offered],
                         [["none", "notes", "train.ckpt"], ["none", "notes"], []])

    def test_names_with_blanks_at_a_terminal(self) -> None:
        with scratch() as directory:
            (directory / "my model.ckpt").touch()
            (directory / "my place").mkdir()
            for keys, words in (
                ("inspect my\\ m\t", ["inspect", "my model.ckpt"]),
                ("mount my\\ m\t my\t --ste\tla\t", ["mount", "my model.ckpt", "my place/", "--step",
                                                  "latest"]),
                ("mount --src-strategy=my\\ m\t", ["mount", "--src-strategy=my model.ckpt"]),
                ("export \"my m\t", ["export", "my model.ckpt"]),
                ("hash x my\t", ["hash", "x", "my"]),
            ):
                with self.subTest(keys):
                    self.assertEqual(typed_at_terminal(directory, f"reshardfs {keys}"), words)


class Mounts(unittest.TestCase):
    def test_mount_points_of_reshardfs_alone(self) -> None:
        with scratch() as directory:
            (directory / "m.ckpt").write_bytes(DATA)
            mountpoint = directory / "a place: 1"
            mountpoint.mkdir()
            with mountpoint_guard(mountpoint):
                result = run("mount", directory / "m.ckpt", mountpoint)
                self.assertEqual(result.code, 0, result.stderr)
                quoted = str(mountpoint).replace(" ", "\\ ")
                self.assertIn(quoted, bash_offers("umount", ""))
                self.assertEqual(bash_offers("status", f"{directory}/a"), [quoted])
                self.assertNotIn("/proc", bash_offers("umount", "/pr"))
                start = f"reshardfs umount {directory}/a\t"
                self.assertEqual(typed_at_terminal(directory, start), ["umount", str(mountpoint)])
                start = f"reshardfs umount {directory}/a\\ place:\t"
                self.assertEqual(typed_at_terminal(directory, start), ["umount", str(mountpoint)])
                if shutil.which("fish"):
                    self.assertEqual(fish_offers(f"reshardfs umount {directory}/"),
                                     [str(mountpoint)])
                if shutil.which("zsh"):
                    # Outside of a completion: its functions alone, with compadd showing the words.
                    shown = command("zsh", "-f", "-c", "compadd() { shift; print -rl -- $@ }\n"
                                    "_arguments() { :; }\n. $1; _reshardfs_mounts", "zsh",
                                    COMPLETIONS / "_reshardfs")
                    self.assertIn(str(mountpoint), shown.splitlines())
                self.assertEqual(run("umount", mountpoint).code, 0)
                self.assertNotIn(quoted, bash_offers("umount", ""))


class Names(unittest.TestCase):
    """What only the program knows: parameters in files, and mounts in the file of --config."""

    def setUp(self) -> None:
        self.directory = self.enterContext(scratch())
        odd = "odd: name=1 'x'"
        (self.directory / "a model.ckpt").write_bytes(encode_checkpoint(
            [Record(name, "Float32", (2,), b"abcdefgh") for name in ("w.bias", "w.weight", odd)]))
        (self.directory / "f.toml").write_text('format = "ckpt"\n[mount.tp4]\n[mount."two words"]\n')

    def zsh(self, function: str, *words: str) -> list[str]:
        script = ("compadd() { shift; print -rl -- $@ }\n_call_program() { shift; eval $@ }\n"
                  "_files() { :; }\n_arguments() { :; }\n. $1; f=$2; shift 2; words=(${(q)@}); $f")
        done = subprocess.run(["zsh", "-f", "-c", script, "zsh", COMPLETIONS / "_reshardfs", function,
                               *words], check=True, capture_output=True, text=True,
                              cwd=self.directory, timeout=COMMAND_SECONDS, env=with_program())
        self.assertEqual(done.stderr, "")
        return done.stdout.splitlines()

    def fish(self, line: str) -> list[str]:
        script = 'source $argv[1]; complete -C $argv[2]'
        done = subprocess.run(["fish", "--no-config", "-c", script, COMPLETIONS / "reshardfs.fish",
                               line], check=True, capture_output=True, text=True, cwd=self.directory,
                              timeout=COMMAND_SECONDS, env=with_program())
        return [entry.partition("\t")[0] for entry in done.stdout.splitlines()]

    def test_parameters(self) -> None:
        for words in (("cat", "a model.ckpt", "--npy", "--param"),
                      ("plan", "a model.ckpt", "--svg", "x.svg", "--param"),
                      ("map", "show", "m", "--source", "a model.ckpt", "--param")):
            offered = bash_offers(*words, "w", directory=self.directory)
            self.assertEqual(offered, ["w.bias", "w.weight"])
        self.assertEqual(bash_offers("cat", "a model.ckpt", "--param", "odd", directory=self.directory),
                         ["odd:\\ name=1\\ \\'x\\'"])
        self.assertEqual(bash_offers("cat", "nothing", "--param", "", directory=self.directory), [])

    def test_parameters_of_a_strategy(self) -> None:
        write_protobuf(Strategy([{"only.here": Layout((2,), ((0,),))}]), self.directory / "s.ckpt")
        self.assertEqual(bash_offers("strategy", "show", "s.ckpt", "--param", "",
                                     directory=self.directory), ["only.here"])

    def test_mounts_of_a_file(self) -> None:
        for words in (("mount", "--config", "f.toml"), ("umount", "--config", "f.toml"),
                      ("plan", "--config", "=", "f.toml")):
            self.assertEqual(bash_offers(*words, "", directory=self.directory),
                             ["tp4", "two\\ words"])
        self.assertEqual(bash_offers("mount", "--config", "f.toml", "tp", directory=self.directory),
                         ["tp4"])

    @unittest.skipUnless(shutil.which("zsh"), "zsh is not installed")
    def test_zsh(self) -> None:
        names = self.zsh("_reshardfs_parameters", "cat", "a model.ckpt", "--param", "")
        self.assertEqual(names, ["odd: name=1 'x'", "w.bias", "w.weight"])
        names = self.zsh("_reshardfs_named_mounts_or_files", "mount", "--config", "f.toml", "")
        self.assertEqual(names, ["tp4", "two words"])

    @unittest.skipUnless(shutil.which("fish"), "fish is not installed")
    def test_fish(self) -> None:
        names = self.fish("reshardfs cat 'a model.ckpt' --param w")
        self.assertEqual(sorted(names), ["w.bias", "w.weight"])
        names = self.fish("reshardfs mount --config f.toml t")
        self.assertEqual(sorted(names), ["tp4", "two words"])


@unittest.skipUnless(shutil.which("fish"), "fish is not installed")
class Fish(unittest.TestCase):
    def test_what_options_and_commands_take(self) -> None:
        for line, expected in (
            ("strategy ", ["check", "convert", "guess", "merge", "show"]),
            ("mount --step ", ["all", "latest"]),
            ("plan --step=", ["--step=latest"]),
            ("mount --format ckpt,s", ["ckpt,safetensors"]),
            ("inspect strategy --lis", ["--list"]),
            ("help um", ["umount"]),
        ):
            with self.subTest(line):
                self.assertEqual(sorted(fish_offers(f"reshardfs {line}")), expected)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--completions", type=Path, required=True)
    parser.add_argument("tests", nargs="*", help="Class or Class.test; default: all")
    arguments = parse_settings(parser)
    COMPLETIONS = arguments.completions.resolve()
    unittest.main(argv=[sys.argv[0], "-v", *arguments.tests])
