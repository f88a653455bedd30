# SPDX-License-Identifier: Apache-2.0
"""Functions that do what commands do: they give what these print as JSON, and raise what they complain of."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

from mounted import fuse_problem, is_mounted, run, scratch
from python_sets import opened, options_of, run_unittests_without_mounts, small_set

import reshardfs
from reshardfs._words import in_python

SECONDS = 60.0


def words_of(options: dict[str, str]) -> list[str]:
    return [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]


class Commands(unittest.TestCase):
    def test_plan(self) -> None:
        with small_set() as made:
            words = words_of(options_of(made))
            self.assertEqual(reshardfs.plan(made.source, **options_of(made)),
                             json.loads(run("plan", made.source, "--json", *words).stdout))
            of_one = reshardfs.plan(made.source, rank=1, **options_of(made))
            self.assertEqual(of_one, json.loads(run("plan", made.source, "--json", "--rank=1", *words).stdout))
            self.assertEqual(of_one["rank"], 1)

    def test_inspect(self) -> None:
        with small_set() as made:
            printed = json.loads(run("inspect", made.source, "--json").stdout)
            self.assertEqual(reshardfs.inspect(made.source), printed)
            named = reshardfs.inspect(made.source, include=["lm_head.*"])
            self.assertEqual({each["name"] for each in named["parameters"]}, {"lm_head.weight"})
            with self.assertRaisesRegex(reshardfs.Error, "no such file"):
                reshardfs.inspect("/no/such")

    def test_verify(self) -> None:
        with small_set("tp=2,dp=2", "tp=1") as made:
            strategy = {"src_strategy": str(made.src_strategy)}
            self.assertTrue(reshardfs.verify(made.source, **strategy)["good"])
            path = made.source_files(3)[0]
            content = bytearray(path.read_bytes())
            content[content.index(b"lm_head.weight") + 60] ^= 1
            path.write_bytes(content)
            report = reshardfs.verify(made.source, **strategy)
            self.assertFalse(report["good"])
            self.assertEqual(report, json.loads(run("verify", made.source, "--json", *words_of(strategy)).stdout))

    def test_diff(self) -> None:
        with small_set() as made, scratch() as directory:
            reshardfs.export(made.source, directory / "out", **options_of(made))
            sides = {"a_strategy": str(made.src_strategy), "b_strategy": str(made.dst_strategy)}
            result = reshardfs.diff(made.source, directory / "out", **sides)
            self.assertTrue(result["equal"])
            chosen = {"exclude": "*", "include": ["no"]}
            with self.assertRaisesRegex(reshardfs.Error, "no parameter is left to compare"):
                reshardfs.diff(made.source, directory / "out", **sides, **chosen, allow_unmatched=True)
            with self.assertRaisesRegex(reshardfs.Error, "include='no' matches no parameter"):
                reshardfs.diff(made.source, directory / "out", **sides, **chosen)

    def test_export_writes_the_files_and_tells_how_far_it_is(self) -> None:
        with small_set(scale=64) as made, scratch() as directory, opened(made) as checkpoint:
            told: list[dict[str, object]] = []
            reshardfs.export(made.source, directory / "out", progress=told.append, **options_of(made))
            for rank in checkpoint.ranks:
                name = f"rank_{rank}/checkpoint_{rank}.ckpt"
                with checkpoint.file(name) as file:
                    self.assertEqual((directory / "out" / name).read_bytes(), file.read())
            self.assertEqual(set(told[-1]), {"phase", "bytes", "total_bytes", "files", "total_files", "file"})
            self.assertEqual((told[-1]["bytes"], told[-1]["files"]), (told[-1]["total_bytes"], 4))

    def test_what_progress_raises_ends_the_export(self) -> None:
        with small_set(scale=64) as made, scratch() as directory:
            def refuse(_: object) -> None:
                raise ZeroDivisionError
            with self.assertRaises(ZeroDivisionError):
                reshardfs.export(made.source, directory / "out", progress=refuse, **options_of(made))
            reshardfs.export(made.source, directory / "out", **options_of(made))

    def test_errors_have_all_that_the_command_knows(self) -> None:
        with small_set() as made, scratch() as directory:
            good = options_of(made)
            path = made.source_files(2)[0]
            whole = path.read_bytes()
            path.write_bytes(whole[:-5])
            with self.assertRaises(reshardfs.Error) as caught:
                reshardfs.plan(made.source, **good)
            self.assertEqual((caught.exception.kind, caught.exception.path), ("bad input", str(path)))
            path.write_bytes(whole)
            for call, words in (
                (lambda: reshardfs.plan(made.source, rank=99, **good), ["plan", made.source, "--rank=99"]),
                (lambda: reshardfs.plan(made.source, **good, rnak=9), ["plan", made.source, "--rnak=9"]),
                (lambda: reshardfs.verify("/no/such"), ["verify", "/no/such"]),
                (lambda: reshardfs.export(made.source, "/proc/no", **good), ["export", made.source, "/proc/no"]),
            ):
                with self.assertRaises(reshardfs.Error) as caught:
                    call()
                extra = [] if words[0] == "verify" else words_of(good)
                result = run(*words, *extra)
                said = result.stderr.strip().splitlines()[-1].removeprefix("reshardfs: ")
                self.assertEqual(str(caught.exception), in_python(said))
            (directory / "out").mkdir()
            (directory / "out/rank_0").mkdir()
            (directory / "out/rank_0/checkpoint_0.ckpt").write_bytes(b"mine")
            with self.assertRaises(reshardfs.Error):
                reshardfs.export(made.source, directory / "out", **good)

    def test_mount(self) -> None:
        if problem := fuse_problem():
            self.skipTest(problem)
        with small_set() as made, opened(made) as checkpoint, scratch() as directory:
            with reshardfs.mount(made.source, **options_of(made)) as path:
                for name, size in checkpoint.files().items():
                    if name.startswith((".", "strategy")):
                        continue
                    with checkpoint.file(name) as file:
                        self.assertEqual(Path(path, name).read_bytes(), file.read(), name)
                    self.assertEqual(Path(path, name).stat().st_size, size, name)
            self.assertFalse(os.path.exists(path))
            (directory / "mnt").mkdir()
            with self.assertRaises(ZeroDivisionError), \
                    reshardfs.mount(made.source, directory / "mnt", **options_of(made)) as path:
                self.assertTrue(is_mounted(Path(path)))
                raise ZeroDivisionError
            self.assertFalse(is_mounted(directory / "mnt"))
            with self.assertRaises(reshardfs.Error) as caught, reshardfs.mount(made.source, directory / "nowhere"):
                pass
            self.assertIn("the mount point does not exist", str(caught.exception))

    def test_module_is_the_command(self) -> None:
        for words in (["--version"], ["plan", "--help"], ["nonsense"]):
            done = subprocess.run([sys.executable, "-m", "reshardfs", *words], capture_output=True, text=True,
                                  timeout=SECONDS, check=False)
            same = run(*words)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (same.code, same.stdout, same.stderr))
        self.assertIn(reshardfs.__version__, run("--version").stdout)

    def test_without_the_command(self) -> None:
        code = "import reshardfs\ntry: reshardfs.mount('x').__enter__()\nexcept reshardfs.Error as e: print(e.kind, e)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=SECONDS,
                              check=False, env={**os.environ, "PATH": "/nowhere"})
        self.assertEqual(done.stdout, "missing there is no command 'reshardfs' on the PATH; install the package "
                                      "reshardfs\n", done.stderr)

    def test_from_another_thread(self) -> None:
        with small_set() as made:
            results: list[object] = []
            thread = threading.Thread(target=lambda: results.append(reshardfs.plan(made.source, **options_of(made))))
            thread.start()
            thread.join(SECONDS)
            self.assertEqual(results, [reshardfs.plan(made.source, **options_of(made))])

    def test_interrupt_ends_the_command(self) -> None:
        """A command that hears nothing: the interpreter goes on all the same, and nothing is left."""
        with scratch() as directory:
            pid = directory / "pid"
            deaf = directory / "reshardfs"
            deaf.write_text(f"#!/bin/sh\ntrap '' INT TERM\necho $$ >{pid}.new\nmv {pid}.new {pid}\n"
                            "while :; do sleep 1; done\n")
            deaf.chmod(0o755)
            code = ("from reshardfs import _command\ntry: _command.run(['x'])\n"
                    "except KeyboardInterrupt: print('interrupted')")
            process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True,
                                       env={**os.environ, "PATH": f"{directory}:{os.environ['PATH']}"})
            deadline = time.monotonic() + SECONDS
            while not pid.exists() and time.monotonic() < deadline:
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.communicate(timeout=SECONDS)[0], "interrupted\n")
            number = int(pid.read_text())
            while Path(f"/proc/{number}").exists() and time.monotonic() < deadline:
                time.sleep(0.01)
            self.assertFalse(Path(f"/proc/{number}").exists())


if __name__ == "__main__":
    run_unittests_without_mounts()
