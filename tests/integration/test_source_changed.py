# SPDX-License-Identifier: Apache-2.0
"""A source that changes under its mount: the state of the mount says so, and names the file."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import unittest
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from ckpt_format import Record, encode_checkpoint  # noqa: E402
from faulty_source import FaultFs, faulty, run_unittests_with_faults  # noqa: E402
from mounted import mounted, run, scratch, status_of  # noqa: E402
from web_server import serving  # noqa: E402


def checkpoint(fill: int, mib: int = 1) -> bytes:
    return encode_checkpoint([Record("w", "UInt8", (mib << 20,), bytes([fill]) * (mib << 20))])


FILE = "rank_0/checkpoint_0.ckpt"


def overwrite(path: Path, data: bytes) -> None:
    """In its place, as a job does that saves to the same name."""
    with open(path, "r+b") as file:
        file.write(data)


class SourceChanged(unittest.TestCase):
    @contextlib.contextmanager
    def source(self) -> Iterator[Path]:
        with scratch() as directory:
            path = directory / "m.ckpt"
            path.write_bytes(checkpoint(1))
            yield path

    def status_file(self, mountpoint: Path) -> dict | None:
        return json.loads((mountpoint / ".reshardfs/status.json").read_text())["source_changed"]

    def metric(self, mountpoint: Path) -> str:
        lines = (mountpoint / ".reshardfs/metrics").read_text().splitlines()
        return "\n".join(line for line in lines if line.startswith("reshardfs_source_changed"))

    def assert_is_live(self, mountpoint: Path) -> None:
        result = status_of(mountpoint)
        self.assertEqual(result.code, 0, result.stdout)
        (mount,) = json.loads(status_of("--json", mountpoint).stdout)["mounts"]
        self.assertEqual(mount["state"], "live")
        self.assertIsNone(self.status_file(mountpoint))
        self.assertEqual(self.metric(mountpoint), f'reshardfs_source_changed{{mount="{mountpoint}"}} 0')

    def assert_has_changed(self, mountpoint: Path, name: str) -> None:
        result = status_of(mountpoint)
        self.assertEqual(result.code, 1, result.stdout)
        self.assertIn(f"source changed: {name}", result.stdout)
        result = status_of("--json", mountpoint)
        self.assertEqual(result.code, 1)
        (mount,) = json.loads(result.stdout)["mounts"]
        self.assertEqual(mount["state"], "source changed")
        self.assertEqual(mount["status"]["source_changed"]["file"], name)
        self.assertIn(name, mount["status"]["source_changed"]["message"])
        self.assertEqual(self.status_file(mountpoint)["file"], name)
        self.assertEqual(self.metric(mountpoint),
                         f'reshardfs_source_changed{{mount="{mountpoint}"}} 1\n'
                         f'reshardfs_source_changed_file{{mount="{mountpoint}",file="{name}"}} 1')

    def test_of_a_local_file(self) -> None:
        with self.source() as path, mounted(path) as mountpoint:
            self.assert_is_live(mountpoint)
            overwrite(path, checkpoint(2))
            # Known to each of them by itself: nobody has read the file, or asked the others.
            self.assertEqual(self.status_file(mountpoint)["file"], str(path))
            self.assert_has_changed(mountpoint, str(path))
            result = run("reload", "--replace", mountpoint)
            self.assertEqual(result.code, 0, result.stderr)
            self.assert_is_live(mountpoint)
            self.assertEqual((mountpoint / FILE).read_bytes(), checkpoint(2))

    def test_metrics_know_it_by_themselves(self) -> None:
        with self.source() as path, mounted(path) as mountpoint:
            overwrite(path, checkpoint(2))
            self.assertTrue(self.metric(mountpoint).startswith(
                f'reshardfs_source_changed{{mount="{mountpoint}"}} 1\n'))

    def test_of_a_file_that_was_removed(self) -> None:
        """What is open is still what it was."""
        with self.source() as path, mounted(path) as mountpoint:
            path.unlink()
            self.assert_is_live(mountpoint)

    def test_of_a_file_system_that_may_not_answer(self) -> None:
        """Its files are examined when somebody asks who can wait; the file of the state does not wait."""
        with self.source() as path, faulty(FaultFs.program, path.parent) as source:
            shown = source.path / "m.ckpt"
            with mounted(shown) as mountpoint:
                self.assert_is_live(mountpoint)
                overwrite(path, checkpoint(2))
                self.assert_has_changed(mountpoint, str(shown))
            with mounted(shown) as mountpoint:
                source.set("m.ckpt operation=getattr stall")
                self.assertIsNone(self.status_file(mountpoint))
                result = status_of(mountpoint)
                self.assertEqual(result.code, 0, result.stdout)
                source.set()

    def test_of_an_object_on_a_server(self) -> None:
        with self.source() as path, serving(path.parent) as server:
            path.write_bytes(checkpoint(1, mib=24))
            name = f"{server.url}/m.ckpt"
            with mounted(name) as mountpoint:  # type: ignore[arg-type]
                self.assert_is_live(mountpoint)
                path.write_bytes(checkpoint(2, mib=24))
                # Far from what was read to open it.
                with open(mountpoint / FILE, "rb") as file, self.assertRaises(OSError):
                    os.pread(file.fileno(), 4096, 20 << 20)
                self.assert_has_changed(mountpoint, name)

    def test_of_all_steps(self) -> None:
        with scratch() as directory:
            (directory / "rank_0").mkdir()
            paths = [directory / f"rank_0/net-{step}_1.ckpt" for step in (1, 2)]
            for path in paths:
                path.write_bytes(checkpoint(1))
            with mounted(directory, "--step", "all") as mountpoint:
                steps = sorted((mountpoint / "steps").iterdir())
                self.assertEqual(len(steps), 2)
                overwrite(paths[1], checkpoint(2))
                # Of a step that nobody has looked into, nothing is open that could have changed.
                self.assert_is_live(mountpoint)
                overwrite(paths[0], checkpoint(1))
                os.listdir(steps[0])
                os.listdir(steps[1])
                self.assert_is_live(mountpoint)
                overwrite(paths[0], checkpoint(2))
                self.assert_has_changed(mountpoint, str(paths[0]))
                result = run("status", "--ready", mountpoint)
                self.assertEqual(result.code, 1)
                self.assertIn(str(paths[0]), result.stdout)


if __name__ == "__main__":
    run_unittests_with_faults()
