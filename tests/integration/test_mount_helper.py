# SPDX-License-Identifier: Apache-2.0
"""mount.reshardfs, as mount(8) calls it, and what a daemon leaves in the log."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from ckpt_format import Record, encode_checkpoint  # noqa: E402
from mounted import (  # noqa: E402
    Settings,
    assert_gone,
    is_mounted,
    mount_entry,
    mountpoint_guard,
    run,
    run_unittests,
    scratch,
)

DATA = encode_checkpoint([Record("w", "Float32", (2,), b"abcdefgh")])


class MountHelper(unittest.TestCase):
    def call(self, directory: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
        link = directory / "mount.reshardfs"
        if not link.exists():
            link.symlink_to(Settings.binary)
        # Not through pipes: a daemon that kept one open would block.
        with open(directory / "out", "w+") as out:
            done = subprocess.run([link, *words], stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                  timeout=60, check=False)
            out.seek(0)
            return subprocess.CompletedProcess(done.args, done.returncode, out.read(), "")

    def test_mounts_as_mount_asks_for_it(self) -> None:
        with scratch() as directory:
            (directory / "a source.ckpt").write_bytes(DATA)
            mountpoint = directory / "mnt"
            mountpoint.mkdir()
            options = "rw,noauto,user,x-systemd.automount,prefix=net_,views=ranks,merged,uid=12,noatime"
            with mountpoint_guard(mountpoint):
                done = self.call(directory, directory / "a source.ckpt", mountpoint, "-s", "-n",
                                 "-t", "reshardfs", "-o", options)
                self.assertEqual(done.returncode, 0, done.stdout)
                self.assertEqual((mountpoint / "rank_0/net_0.ckpt").read_bytes(), DATA)
                self.assertEqual(sorted(os.listdir(mountpoint)), ["merged", "rank_0"])
                self.assertEqual((mountpoint / "rank_0").stat().st_uid, 12)
                fields = mount_entry(mountpoint)
                self.assertIn("noatime", fields[5].split(","))
                self.assertIn("ro", fields[5].split(","))
                subprocess.run(["umount", mountpoint], check=True, timeout=60)
                assert_gone(mountpoint)

    def test_its_mount_passes_to_another_process(self) -> None:
        for options in ("ro", "supervise"):
            with self.subTest(options=options), scratch() as directory:
                (directory / "m.ckpt").write_bytes(DATA)
                mountpoint = directory / "mnt"
                mountpoint.mkdir()
                with mountpoint_guard(mountpoint):
                    done = self.call(directory, directory / "m.ckpt", mountpoint, "-o", options)
                    self.assertEqual(done.returncode, 0, done.stdout)
                    result = run("reload", mountpoint)
                    self.assertEqual(result.code, 0, result.stderr)
                    status = json.loads((mountpoint / ".reshardfs/status.json").read_text())
                    self.assertEqual(status["mount"]["upgrades"], 1)
                    if options == "supervise":
                        os.kill(status["pid"], signal.SIGKILL)
                    self.assertEqual((mountpoint / "rank_0/checkpoint_0.ckpt").read_bytes(), DATA)
                    self.assertEqual(run("umount", mountpoint).code, 0)
                    assert_gone(mountpoint)

    def test_refuses_in_one_line(self) -> None:
        with scratch() as directory:
            (directory / "m.ckpt").write_bytes(DATA)
            (directory / "mnt").mkdir()
            places = (directory / "m.ckpt", directory / "mnt")
            for words, expected in (
                ((places[0],), "a source and a mount point"),
                ((*places, "-N", "1"), "'-N'"),
                ((*places, "-x"), "'-x'"),
                ((*places, "-o"), "needs a value"),
                ((*places, "-o", "format=zip"), "--format"),
            ):
                done = self.call(directory, *words)
                self.assertEqual(done.returncode, 2, done.stdout)
                self.assertIn(expected, done.stdout)
                self.assertEqual(len(done.stdout.splitlines()), 1, done.stdout)
                self.assertFalse(is_mounted(directory / "mnt"))

    def test_checks_and_mounts_nothing(self) -> None:
        with scratch() as directory:
            (directory / "m.ckpt").write_bytes(DATA)
            (directory / "bad.ckpt").write_bytes(DATA[:-1])
            mountpoint = directory / "mnt"
            mountpoint.mkdir()
            for source, code in (("m.ckpt", 0), ("bad.ckpt", 2)):
                done = self.call(directory, directory / source, mountpoint, "-f")
                self.assertEqual(done.returncode, code, done.stdout)
                self.assertFalse(is_mounted(mountpoint))
                result = run("mount", "--check-only", directory / source, mountpoint)
                self.assertEqual(result.code, code, result.stderr)
                self.assertFalse(is_mounted(mountpoint))


if __name__ == "__main__":
    run_unittests()
