# SPDX-License-Identifier: Apache-2.0
"""--config: shared keys, a section for each mount, and which commands take what."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

import json  # noqa: E402
import os  # noqa: E402
import subprocess  # noqa: E402
import unittest  # noqa: E402

from ckpt_format import Record, encode_checkpoint  # noqa: E402
from mounted import (  # noqa: E402
    Settings,
    assert_gone,
    is_mounted,
    mountpoint_guard,
    one_line,
    run,
    run_unittests,
    scratch,
)

DATA = encode_checkpoint([Record("w", "Float32", (2,), b"abcdefgh"),
                          Record("adam_m.w", "Float32", (2,), b"ijklmnop")])


class Sections(unittest.TestCase):
    def setUp(self) -> None:
        self.directory = Path(self.enterContext(scratch()))
        (self.directory / "m.ckpt").write_bytes(DATA)
        self.config = self.directory / "reshardfs.toml"
        self.mountpoint = self.directory / "mnt"
        self.mountpoint.mkdir()
        self.enterContext(mountpoint_guard(self.mountpoint))

    def write(self, text: str) -> None:
        self.config.write_text(text.replace("DIR", str(self.directory)))

    def shows(self, file: str, *words: str | Path) -> None:
        """Mounts with these words and unmounts by the name, or by the file alone."""
        result = run("mount", *words)
        self.assertEqual(result.code, 0, result.stderr)
        self.assertTrue((self.mountpoint / file).exists(), os.listdir(self.mountpoint))
        self.assertEqual(run("umount", self.mountpoint).code, 0)
        assert_gone(self.mountpoint)

    def refused(self, *words: str | Path, says: tuple[str, ...]) -> None:
        result = run(*words)
        self.assertEqual(result.code, 2, result.stdout + result.stderr)
        line = one_line(result)
        for word in says:
            self.assertIn(word, line)
        self.assertFalse(is_mounted(self.mountpoint))

    TWO = """
        prefix = "all_"
        views = ["ranks"]
        [mount.plain]
        source = "DIR/m.ckpt"
        mountpoint = "DIR/mnt"
        [mount.named]
        source = "DIR/m.ckpt"
        mountpoint = "DIR/mnt"
        prefix = "own_"
    """

    def test_a_name_stands_for_a_mount(self) -> None:
        self.write(self.TWO)
        self.shows("rank_0/all_0.ckpt", "--config", self.config, "plain")
        self.shows("rank_0/own_0.ckpt", "named", f"--config={self.config}")
        # The command line wins, and what it leaves out comes from the file.
        self.shows("rank_0/mine_0.ckpt", "--config", self.config, "--prefix", "mine_", "named")
        self.shows("rank_0/own_0.ckpt", "--config", self.config, "--", "named", self.mountpoint)

    def test_the_present_form_goes_on_working(self) -> None:
        self.write(self.TWO)
        self.shows("rank_0/all_0.ckpt", self.directory / "m.ckpt", self.mountpoint, "--config",
                   self.config)

    def test_one_mount_needs_no_name(self) -> None:
        self.write('source = "DIR/m.ckpt"\nmountpoint = "DIR/mnt"\nprefix = "top_"')
        self.shows("rank_0/top_0.ckpt", "--config", self.config)
        self.write('mountpoint = "DIR/mnt"\nprefix = "top_"')
        self.shows("rank_0/top_0.ckpt", self.directory / "m.ckpt", "--config", self.config)

    def test_umount_by_name(self) -> None:
        self.write(self.TWO)
        self.assertEqual(run("mount", "--config", self.config, "plain").code, 0)
        self.assertEqual(run("umount", "--config", self.config, "plain").code, 0)
        assert_gone(self.mountpoint)
        self.refused("umount", "--config", self.config, "plain", says=("nothing is mounted",))
        quiet = run("umount", "--if-mounted", "--config", self.config, "plain")
        self.assertEqual((quiet.code, quiet.stderr), (0, ""))

    def test_mount_helper_takes_it_as_an_option(self) -> None:
        self.write(self.TWO)
        link = self.directory / "mount.reshardfs"
        link.symlink_to(Settings.binary)
        with open(self.directory / "out", "w+") as out:
            done = subprocess.run([link, "named", self.mountpoint, "-o", f"rw,config={self.config}"],
                                  stdin=subprocess.DEVNULL, stdout=out, stderr=out, timeout=60,
                                  check=False)
        self.assertEqual((done.returncode, (self.directory / "out").read_text()), (0, ""))
        self.assertTrue((self.mountpoint / "rank_0/own_0.ckpt").exists())
        self.assertEqual(run("umount", self.mountpoint).code, 0)

    def test_other_commands_share_the_file(self) -> None:
        """Keys that only another command has are passed over."""
        self.write("""
            allow-other = true
            read-ahead-kb = 128
            jobs = 2
            json = true
            exclude = ["adam_*"]
            [mount.m]
            source = "DIR/m.ckpt"
            mountpoint = "DIR/mnt"
            prefix = "own_"
        """)
        plan = run("plan", "m", "--config", self.config)
        self.assertEqual((plan.code, plan.stderr), (0, ""))
        self.assertEqual(json.loads(plan.stdout)["ranks"][0]["sources"][0]["bytes"], 8)
        for words in (("inspect", "m"), ("verify", "m"), ("hash", "m")):
            with self.subTest(words[0]):
                result = run(*words, "--config", self.config)
                self.assertEqual((result.code, result.stderr), (0, ""))
        self.assertIn("own_0.ckpt", run("hash", "m", "--config", self.config).stdout)
        out = self.directory / "out"
        result = run("export", "m", out, "--config", self.config, "--quiet")
        self.assertEqual((result.code, result.stderr), (0, ""))
        self.assertTrue((out / "rank_0/own_0.ckpt").exists())

    def test_what_is_wrong_is_said(self) -> None:
        self.write("[mount.a]\nmountpiont = '/mnt'")
        for command in ("mount", "plan", "inspect"):
            self.refused(command, "a", "--config", self.config,
                         says=("line 2", "'mountpiont'", "did you mean 'mountpoint'"))
        self.write("[mount.a]\nmountpoint = 'DIR/mnt'\n[mount.b]")
        self.refused("mount", "a", "--config", self.config, says=("[mount.a] has no 'source'",))
        self.refused("mount", "--config", self.config, says=("name one of its mounts: a, b",))
        self.refused("mount", "c", "--config", self.config, says=("name one of its mounts: a, b",))
        self.write("")
        self.refused("mount", "--config", self.config, says=("SOURCE",))
        self.refused("mount", "a", "--config", self.directory / "none.toml",
                     says=("none.toml", "no such file"))


class Owners(unittest.TestCase):
    """--uid, --gid, --file-mode and --dir-mode."""

    def test_names_numbers_and_modes(self) -> None:
        with scratch() as directory:
            (directory / "m.ckpt").write_bytes(DATA)
            (directory / "mnt").mkdir()
            for words, uid, gid, file, folder in (
                ((), os.getuid(), os.getgid(), 0o444, 0o555),
                (("--uid", "daemon", "--gid", "root"), 1, 0, 0o444, 0o555),
                (("--uid=7", "--gid=8", "--file-mode=640", "--dir-mode=750"), 7, 8, 0o440, 0o550),
                (("-o", "uid=daemon,gid=9,file_mode=0755,dir_mode=0400"), 1, 9, 0o444, 0o500),
            ):
                with self.subTest(words), mountpoint_guard(directory / "mnt"):
                    result = run("mount", directory / "m.ckpt", directory / "mnt", *words)
                    self.assertEqual(result.code, 0, result.stderr)
                    for path, mode in (("rank_0/checkpoint_0.ckpt", 0o100000 | file),
                                       ("rank_0", 0o40000 | folder), (".", 0o40000 | folder)):
                        stat = (directory / "mnt" / path).stat()
                        self.assertEqual((stat.st_uid, stat.st_gid), (uid, gid))
                        self.assertEqual(oct(stat.st_mode), oct(mode), path)
                    self.assertEqual(run("umount", directory / "mnt").code, 0)

    def test_what_is_none(self) -> None:
        with scratch() as directory:
            (directory / "m.ckpt").write_bytes(DATA)
            (directory / "mnt").mkdir()
            for option, value, says in (
                ("--uid", "no-such-user", "no user no-such-user"),
                ("--uid", "4294967295", "no user"), ("--uid", "-1", "no user"),
                ("--gid", "no-such-group", "no group"), ("--gid", "1.5", "no group"),
                ("--file-mode", "0888", "not an octal mode"), ("--file-mode", "4444", "not an octal mode"),
                ("--dir-mode", "u=rx", "not an octal mode"),
            ):
                with self.subTest(option, value=value):
                    result = run("mount", directory / "m.ckpt", directory / "mnt",
                                 f"{option}={value}")
                    self.assertEqual(result.code, 2, result.stderr)
                    self.assertIn(says, one_line(result))
                    self.assertIn(option, one_line(result))
                    self.assertFalse(is_mounted(directory / "mnt"))


if __name__ == "__main__":
    run_unittests()
