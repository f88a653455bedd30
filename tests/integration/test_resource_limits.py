# SPDX-License-Identifier: Apache-2.0
"""Each limit that a shell or a service sets (ulimit, control groups), from nothing upwards: a command
works, or it says in one line which limit to raise."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

# First, because it finds the modules of tests/data.
from refusals import Refusals

from ckpt_format import by_name
from mounted import (
    COMMAND_SECONDS,
    Result,
    Settings,
    assert_gone,
    is_mounted,
    is_sanitized,
    rank_files,
    run,
    run_unittests,
    wait_until,
)

DONE = 0
IO_ERROR = 3
# The dynamic loader, before the program has begun.
LOADER = "error while loading shared libraries"
# Somebody who has no process.
NOBODY = 54321
PIDS = Path("/sys/fs/cgroup/pids")


def is_removed(group: Path) -> bool:
    try:
        group.rmdir()
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        return False
    return True


class ResourceLimits(Refusals):
    def setUp(self) -> None:
        super().setUp()
        if shutil.which("prlimit") is None:
            self.skipTest("there is no prlimit")
        if is_sanitized(Settings.binary):
            self.skipTest("sanitizers need memory of their own")
        self.out = self.made.directory / "out"
        source, strategies = self.made.source, self.strategies()
        self.commands: dict[str, list[str | Path]] = {
            "mount": ["mount", source, self.mountpoint, *strategies],
            "export": ["export", source, self.out, *strategies],
            "plan": ["plan", source, *strategies],
            "verify": ["verify", source, "--src-strategy", self.made.src_strategy],
        }

    def limited(self, command: str, *before: str) -> Result:
        """Runs it behind another program, and looks at what it has done."""
        shutil.rmtree(self.out, ignore_errors=True)
        # A pipe, since a file may have a limit. A daemon closes it when it is live.
        done = subprocess.run([*before, str(Settings.binary), *map(str, self.commands[command])],
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, timeout=COMMAND_SECONDS, check=False)
        result = Result(done.returncode, "", done.stderr.decode(errors="replace"))
        try:
            if result.code == DONE:
                self.check(command)
        except OSError as error:  # a mount may be just able to live
            self.assertEqual((command, error.errno), ("mount", errno.ENOMEM))
        if command == "mount":
            self.assertEqual(is_mounted(self.mountpoint), result.code == DONE)
            if result.code == DONE:
                self.assertEqual(run("umount", self.mountpoint).code, DONE)
            assert_gone(self.mountpoint)
        return result

    def check(self, command: str) -> None:
        shown = {"mount": self.mountpoint, "export": self.out}.get(command)
        if shown is not None:
            for rank, path in rank_files(shown).items():
                self.assertEqual(by_name(path.read_bytes()), self.made.expected(rank))

    def assert_named(self, result: Result, name: str) -> None:
        """It has worked, or failed with a last line that names the limit."""
        self.assertNotIn("internal error", result.stderr)
        self.assertGreaterEqual(result.code, 0, result.stderr)
        if result.code == DONE or LOADER in result.stderr:
            return
        self.assertEqual(result.code, IO_ERROR, result.stderr)
        self.assertIn(name, result.stderr.splitlines()[-1])

    def sweep(self, option: str, name: str, values: list[int], *before: str,
              commands: tuple[str, ...] = ("mount", "export", "verify")) -> list[Result]:
        """Every value; the last one is enough."""
        results = []
        for command in commands:
            for value in values:
                with self.subTest(command, limit=f"{option}={value}"):
                    result = self.limited(command, *before, "prlimit", f"--{option}={value}:{value}")
                    self.assert_named(result, name)
                    results.append(result)
            self.assertEqual(results[-1].code, DONE, results[-1].stderr)
        return results

    def test_memory(self) -> None:
        # With less than that the kernel ends the program before it has begun.
        steps = [int(1.3e7 * 1.3 ** step) for step in range(9)] + [1 << 32]
        for option, name in (("data", r"ulimit -d (now "), ("as", r"ulimit -v (now ")):
            results = self.sweep(option, name, steps)
            self.assertTrue(any(name in result.stderr for result in results))

    def test_open_files(self) -> None:
        results = self.sweep("nofile", "ulimit -n (now ", [*range(3, 15), 64])
        self.assertTrue(any("Too many open files" in result.stderr for result in results))

    def test_stack(self) -> None:
        """Less than programs need is made more, or named."""
        # With less than that the loader may fail before the program has begun.
        steps = [1 << 16, 100_000, 1 << 17, 200_000, 1 << 18, 1 << 19, 1 << 20]
        self.sweep("stack", "ulimit -s (now ", steps)

    def test_file_size(self) -> None:
        for value in (0, 1, 100):
            result = self.limited("export", "prlimit", f"--fsize={value}:{value}")
            self.assertEqual(result.code, IO_ERROR)
            self.assertIn("File too large", result.stderr)
            self.assertIn(f"ulimit -f (now {value} bytes)", result.stderr)
            for command in ("mount", "plan", "verify"):
                self.assertEqual(self.limited(command, "prlimit", f"--fsize={value}:{value}").code,
                                 DONE)

    def test_log_that_may_not_grow(self) -> None:
        """A daemon lives on."""
        self.commands["mount"] += ["-v", "--log-file", self.made.directory / "log"]
        result = self.limited("mount", "prlimit", "--fsize=10:10")
        self.assertEqual(result.code, DONE, result.stderr)

    def test_output_that_may_not_grow(self) -> None:
        for words in (["report", self.made.source, *self.strategies(), "-O", self.out / "page"],
                      ["cat", self.made.source, "rank_0/checkpoint_0.ckpt", *self.strategies()]):
            self.out.mkdir(exist_ok=True)
            with self.subTest(words[0]), open(self.out / "stdout", "wb") as stdout:
                done = subprocess.run(
                    ["prlimit", "--fsize=10:10", str(Settings.binary), *map(str, words)],
                    stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE,
                    timeout=COMMAND_SECONDS, check=False)
                self.assertEqual(done.returncode, IO_ERROR)
                self.assertIn(b"File too large", done.stderr)
                self.assertIn(b"ulimit -f (now 10 bytes)", done.stderr)

    def test_limits_that_stop_nothing(self) -> None:
        for option in ("core", "locks", "memlock", "msgqueue", "nice", "rss", "rtprio", "rttime",
                       "sigpending"):
            self.sweep(option, "", [0])

    def as_nobody(self) -> list[str]:
        if os.geteuid() != 0 or shutil.which("setpriv") is None:
            self.skipTest("only root can become somebody else")
        subprocess.run(["chmod", "-R", "a+rwX", self.made.directory], check=True)
        os.chown(self.mountpoint, NOBODY, NOBODY)
        return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]

    def test_processes(self) -> None:
        nobody = self.as_nobody()
        if self.limited("mount", *nobody).code != DONE:
            self.skipTest("ordinary users cannot mount here")
        results = self.sweep("nproc", "ulimit -u (now ", [*range(1, 8), 1000], *nobody,
                             commands=("mount",))
        self.assertTrue(any("Resource temporarily unavailable" in result.stderr
                            for result in results))

    def test_threads(self) -> None:
        """Fewer do the work, and a line says so."""
        nobody = self.as_nobody()
        for command in ("export", "plan", "verify"):
            with self.subTest(command):
                result = self.limited(command, *nobody, "prlimit", "--nproc=1:1")
                self.assertEqual(result.code, DONE, result.stderr)
                self.assertRegex(result.stderr, r"on 1 thread alone.*ulimit -u \(now 1\)")

    @contextlib.contextmanager
    def group_of_processes(self, most: int) -> Iterator[tuple[str, list[str]]]:
        """A control group of either version: its name, and what runs a program in it."""
        root = PIDS if PIDS.is_dir() else PIDS.parent
        group = root / f"reshardfs-test-{os.getpid()}"
        try:
            group.mkdir()
            (group / "pids.max").write_text(str(most))
        except OSError as error:
            with contextlib.suppress(OSError):
                group.rmdir()
            self.skipTest(f"there can be no control group: {error}")
        try:
            yield group.name, ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$0" "$@"']
        finally:
            # What has been ended is on its way out.
            self.assertTrue(wait_until(lambda: is_removed(group)), f"{group} is in use")

    def test_control_group(self) -> None:
        named = 0
        with self.group_of_processes(9):
            pass  # skipped as a whole where there can be none
        for most in range(1, 10):
            for command in self.commands:
                with self.subTest(command, most=most), \
                        self.group_of_processes(most) as (group, prefix):
                    result = self.limited(command, *prefix)
                    name = f"pids.max of the control group /{group} (now {most})"
                    self.assert_named(result, name)
                    named += name in result.stderr
        self.assertGreater(named, 5)


if __name__ == "__main__":
    run_unittests()
