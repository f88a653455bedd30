# SPDX-License-Identifier: Apache-2.0
"""reshardfs status where something else is mounted under the name of reshardfs: a file system that
stalls, lies or never ends. It hides no other mount, and nobody waits for it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
import unittest
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from ckpt_format import Record, encode_checkpoint  # noqa: E402
from faulty_source import FaultFs, FaultySource, faulty, run_unittests_with_faults  # noqa: E402
from mounted import (  # noqa: E402
    COMMAND_SECONDS,
    Settings,
    mounted,
    processes_of,
    run,
    scratch,
    wait_until,
)

DATA = encode_checkpoint([Record("w", "Float32", (2,), b"abcdefgh")])
# The patience of the command is 2 s; machines may be busy. The stalled file system goes on stalling
# for longer than that.
SOON = 30.0
GOOD = {"pid": 1, "uptime_seconds": 5, "shown_ranks": 2,
        "activity": {"bytes_delivered": 7, "read_errors": {"EIO": 1}}}
UNREADABLE: list[object] = [
    [], 1, "text", None, True,
    {**GOOD, "uptime_seconds": "long"}, {**GOOD, "uptime_seconds": -1},
    {**GOOD, "uptime_seconds": 1.5}, {**GOOD, "uptime_seconds": None},
    {**GOOD, "activity": []}, {**GOOD, "activity": "much"}, {**GOOD, "activity": None},
    {**GOOD, "activity": {"bytes_delivered": []}}, {**GOOD, "activity": {"bytes_delivered": "7"}},
    {**GOOD, "activity": {"read_errors": 3}}, {**GOOD, "activity": {"read_errors": {"EIO": "x"}}},
    {**GOOD, "activity": {"read_errors": [1]}}, {**GOOD, "activity": {"read_errors": {"EIO": -1}}},
]
READABLE: list[object] = [
    GOOD, {}, {**GOOD, "pid": [], "shown_ranks": {}, "src_strategy": 7, "dst_strategy": [1]},
    {**GOOD, "uptime_seconds": (1 << 64) - 1, "activity": {"bytes_delivered": (1 << 64) - 1}},
    {**GOOD, "src_strategy": "\x1b[31m\n\u202e", "dst_strategy": "/" + "x" * 5000},
]


@contextlib.contextmanager
def foreign(fill: Callable[[Path], object]) -> Iterator[FaultySource]:
    """A file system that calls itself reshardfs, with what `fill` makes in its .reshardfs."""
    with scratch() as directory:
        (directory / ".reshardfs").mkdir()
        fill(directory / ".reshardfs")
        with faulty(FaultFs.program, directory, "-o", "subtype=reshardfs,fsname=foreign") as source:
            yield source


def text(content: str | bytes) -> Callable[[Path], object]:
    data = content if isinstance(content, bytes) else content.encode()
    return lambda directory: (directory / "status.json").write_bytes(data)


class ForeignMounts(unittest.TestCase):
    own: Path

    def setUp(self) -> None:
        directory = self.enterContext(scratch())
        (directory / "own.ckpt").write_bytes(DATA)
        self.own = self.enterContext(mounted(directory / "own.ckpt"))

    @contextlib.contextmanager
    def program(self, other: FaultySource) -> Iterator[Path]:
        """Its path is one that no other process has; at the end, and with no stalls, it is gone."""
        program = self.own.parent / "reshardfs"
        program.symlink_to(Settings.binary)
        try:
            yield program
        finally:
            other.set()
            gone = wait_until(lambda: not processes_of(program))
            program.unlink()
            self.assertTrue(gone, "a process that was to be killed is still there")

    def states(self) -> dict[str, str]:
        begin = time.monotonic()
        result = run("status", "--json")
        self.assertLess(time.monotonic() - begin, SOON)
        self.assertIn(result.code, (0, 1), result.stderr)
        self.assertEqual(result.stderr, "")
        return {mount["mountpoint"]: mount["state"]
                for mount in json.loads(result.stdout)["mounts"]}

    def lines(self) -> dict[str, str]:
        result = run("status")
        self.assertIn(result.code, (0, 1), result.stderr)
        self.assertEqual(result.stderr, "")
        for line in result.stdout.splitlines():
            self.assertTrue(line.isprintable(), line)
        return {line.split()[0]: line for line in result.stdout.splitlines()}

    def test_of_other_types(self) -> None:
        for status in UNREADABLE:
            with self.subTest(status), foreign(text(json.dumps(status))) as other:
                states = self.states()
                self.assertEqual(states[str(other.path)], "unreadable")
                self.assertEqual(states[str(self.own)], "live")
                lines = self.lines()
                self.assertIn("unreadable status", lines[str(other.path)])
                self.assertTrue(lines[str(self.own)].endswith("live"), lines[str(self.own)])

    def test_of_what_may_be_printed(self) -> None:
        for status in READABLE:
            with self.subTest(status), foreign(text(json.dumps(status))) as other:
                self.assertEqual(self.states()[str(other.path)], "live")
                self.assertEqual(self.lines().keys() >= {str(other.path), str(self.own)}, True)

    def test_of_no_json(self) -> None:
        def link(target: str) -> Callable[[Path], object]:
            return lambda directory: (directory / "status.json").symlink_to(target)

        files = {
            "empty": text(""), "bytes": text(bytes(range(256))), "half": text('{"pid": 1'),
            "deep": text('{"a":' * 100_000 + "1" + "}" * 100_000), "lists": text("[" * 1_000_000),
            "none": lambda _: None,
            "directory": lambda directory: (directory / "status.json").mkdir(),
            "pipe": lambda directory: os.mkfifo(directory / "status.json"),
            "link": link("/etc/passwd"), "device": link("/dev/zero"),
            "endless": lambda directory: os.truncate(
                os.open(directory / "status.json", os.O_CREAT | os.O_WRONLY), 1 << 40),
        }
        for name, fill in files.items():
            with self.subTest(name), foreign(fill) as other:
                states = self.states()
                self.assertEqual(states[str(other.path)], "unreadable")
                self.assertEqual(states[str(self.own)], "live")
                self.assertTrue(self.lines()[str(self.own)].endswith("live"))

    def test_nobody_waits_for_one_that_stalls(self) -> None:
        """As a shell does in $(reshardfs status): to the end of what is printed."""
        with foreign(text(json.dumps(GOOD))) as other:
            for operation in ("read", "open", "getattr"):
                # At first it answers, so that the kernel has asked for the attributes of what is above.
                other.set()
                other.forget_pages()
                other.set(f"*status.json operation={operation} stall")
                with self.subTest(operation), self.program(other) as program:
                    begin = time.monotonic()
                    process = subprocess.Popen([program, "status", "--json"],
                                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                               stderr=subprocess.STDOUT, start_new_session=True)
                    try:
                        # Until no process has the other end of the pipe open any more.
                        output, _ = process.communicate(timeout=COMMAND_SECONDS)
                    finally:
                        other.set()
                        process.kill()
                        process.communicate()
                    self.assertLess(time.monotonic() - begin, SOON)
                    mounts = json.loads(output)["mounts"]
                    states = {mount["mountpoint"]: mount["state"] for mount in mounts}
                    self.assertEqual(states[str(other.path)], "stalled")
                    self.assertEqual(states[str(self.own)], "live")

    def test_nor_for_a_path_through_one_that_stalls(self) -> None:
        with foreign(text(json.dumps(GOOD))) as other:
            other.set("*deep* operation=getattr stall")
            with self.program(other) as program:
                output = subprocess.run(
                    [program, "status", other.path / "deep/er"], stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=COMMAND_SECONDS,
                    check=False).stdout
            self.assertRegex(output.decode(), "does not answer|no checkpoint is mounted here")


if __name__ == "__main__":
    run_unittests_with_faults()
