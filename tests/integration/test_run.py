# SPDX-License-Identifier: Apache-2.0
"""`reshardfs run`: a command beside a mount that is there for it, with and without the right to mount."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import unittest
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from format_files import full_model, write_safetensors
from mounted import (COMMAND_SECONDS, NOBODY, UNPRIVILEGED, Settings, is_mounted, processes_of, run, run_unittests,
                     scratch, wait_until)

# Runs a command for which unshare fails, as under the seccomp profiles of container engines: loads the call's number,
# compares it, and answers EPERM or allows it.
FORBIDDING = """
import ctypes, os, platform, struct, sys
number = {"x86_64": 272, "aarch64": 97}[platform.machine()]
steps = ((0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x50001), (0x06, 0, 0, 0x7fff0000))
filters = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
program = ctypes.create_string_buffer(struct.pack("@HP", len(steps), ctypes.addressof(filters)))
if ctypes.CDLL(None, use_errno=True).prctl(22, 2, program, 0, 0):
    raise SystemExit(f"no seccomp: {os.strerror(ctypes.get_errno())}")
os.execvp(sys.argv[1], sys.argv[1:])
"""
NAMES = ("rank_0/checkpoint_0.safetensors", "merged/checkpoint_merged.safetensors")


def children_of(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def words_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")[:-1]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class RunTest(unittest.TestCase):
    def setUp(self) -> None:
        self.root = self.enterContext(scratch())
        self.root.chmod(0o755)
        self.source, self.place = self.root / "source", self.root / "mnt"
        self.source.mkdir()
        write_safetensors(self.source / "model.safetensors", full_model(1))
        self.place.mkdir()
        self.prefix: list[str] = []
        self.addCleanup(lambda: self.assert_gone())

    def assert_gone(self) -> None:
        self.assertTrue(wait_until(lambda: not is_mounted(self.place) and not processes_of(self.place)),
                        f"{processes_of(self.place)} are left, or the mount is")

    def words(self, *command: str | Path) -> list[str]:
        return [*self.prefix, str(Settings.binary), "run", str(self.source), str(self.place), "--views",
                "ranks,merged", "--", *map(str, command)]

    def run_to_end(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        # Where directories of PATH may not be searched, a program that is nowhere may be in one of them.
        return subprocess.run(self.words(*command), capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              timeout=COMMAND_SECONDS, check=False, env={**os.environ, "PATH": "/usr/sbin:/usr/bin:/bin"})

    @contextmanager
    def running(self, script: str) -> Iterator[tuple[subprocess.Popen[str], int, int]]:
        """The process, its mount and its command, which has begun."""
        with subprocess.Popen(self.words("sh", "-c", f"echo begun; {script}"), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                self.assertEqual(process.stdout.readline(), "begun\n", self.errors_of(process))
                children = children_of(process.pid)
                (mount,) = (pid for pid in children if "mount" in words_of(pid))
                (command,) = (pid for pid in children if pid != mount)
                yield process, mount, command
            finally:
                process.kill()

    def errors_of(self, process: subprocess.Popen[str]) -> str:
        if process.poll() is None:
            return ""
        assert process.stderr is not None
        return process.stderr.read()


class Command(RunTest):
    """As the user of the tests, who may mount."""

    def test_it_reads_the_mount_and_its_exit_code_counts(self) -> None:
        out = self.root / "out"
        self.assertEqual(run("export", self.source, out, "--views", "ranks,merged").code, 0)
        expected = "".join(f"{hashlib.sha256((out / name).read_bytes()).hexdigest()}  {name}\n" for name in NAMES)
        done = self.run_to_end("sh", "-c", f"cd {self.place} && sha256sum {' '.join(NAMES)}; id -u; id -g; exit 7")
        user, group = (NOBODY, NOBODY) if self.prefix else (os.geteuid(), os.getegid())
        self.assertEqual((done.stdout, done.returncode), (f"{expected}{user}\n{group}\n", 7), done.stderr)

    def test_what_is_proposed_is_a_run(self) -> None:
        above = self.root / "above"
        above.mkdir()
        self.source.rename(above / "model")
        self.source = above
        done = self.run_to_end("echo", "a b")
        self.assertEqual(done.returncode, 2)
        self.assertIn(f"run: reshardfs run {above}/model {self.place} --views ranks,merged -- echo 'a b'\n", done.stderr)

    def test_what_ends_the_command_is_told(self) -> None:
        with self.running("exec sleep 1000") as (process, _, command):
            os.kill(command, signal.SIGKILL)
            self.assertEqual(process.wait(COMMAND_SECONDS), 128 + signal.SIGKILL)
        self.assert_gone()

    def test_the_mount_is_killed(self) -> None:
        """The command goes on, sees that the files are gone, and what is left of the mount goes with it."""
        script = f"read -r _ < {self.root}/go; cat {self.place}/{NAMES[0]} > {self.root}/null; exit 5"
        os.mkfifo(self.root / "go")
        (self.root / "go").chmod(0o666)
        with self.running(script.replace(f" > {self.root}/null", " > /dev/null")) as (process, mount, _):
            os.kill(mount, signal.SIGKILL)
            self.assertTrue(wait_until(lambda: not is_alive(mount)))
            (self.root / "go").write_text("go\n")
            self.assertEqual(process.wait(COMMAND_SECONDS), 5)
            errors = self.errors_of(process)
            self.assertIn("the mount has ended before the command", errors)
            self.assertRegex(errors, "Transport endpoint is not connected|Software caused connection abort")
        self.assert_gone()

    def test_it_is_killed_itself(self) -> None:
        with self.running("exec sleep 1000") as (process, mount, command):
            process.kill()
            self.assertTrue(wait_until(lambda: not is_alive(mount) and not is_alive(command)))
        self.assert_gone()

    def test_signals_reach_the_command(self) -> None:
        for sent in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
            script = f"trap 'echo got; exit 9' {sent.name[3:]}; echo set; while :; do sleep 0.05; done"
            with self.subTest(sent.name), self.running(script) as (process, _, _):
                assert process.stdout is not None
                self.assertEqual(process.stdout.readline(), "set\n")
                process.send_signal(sent)
                self.assertEqual(process.stdout.readline(), "got\n")
                self.assertEqual(process.wait(COMMAND_SECONDS), 9)

    def test_what_cannot_begin(self) -> None:
        done = self.run_to_end("no-such-program")
        self.assertEqual((done.returncode, "no-such-program: No such file" in done.stderr), (127, True), done.stderr)
        done = self.run_to_end(self.source)
        self.assertEqual((done.returncode, "Permission denied" in done.stderr), (126, True), done.stderr)
        self.place.rmdir()
        done = self.run_to_end("touch", self.root / "begun")
        self.place.mkdir()
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(str(self.place), done.stderr)
        (self.source / "model.safetensors").write_bytes(b"\x08\0\0\0\0\0\0\0{}")
        done = self.run_to_end("touch", self.root / "begun")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertFalse((self.root / "begun").exists())

    def test_a_source_that_is_missing(self) -> None:
        """Nobody waits for it, whatever has started run: only a service of a manager does."""
        result = subprocess.run([*self.prefix, str(Settings.binary), "run", str(self.root / "none"), str(self.place),
                                 "--", "true"], capture_output=True, text=True, check=False, timeout=COMMAND_SECONDS,
                                env={**os.environ, "NOTIFY_SOCKET": "@reshardfs-test-nobody"})
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn(f"{self.root}/none", result.stderr)

    def test_the_command_begins_with_the_third_word(self) -> None:
        words = [word for word in self.words("sh", "-c", "exit 6") if word != "--"]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=COMMAND_SECONDS)
        self.assertEqual(done.returncode, 6, done.stderr)

    def test_words(self) -> None:
        for words, text in (((self.source,), "MOUNTPOINT"), ((self.source, self.place), "COMMAND"),
                            ((self.source, self.place, "--foreground", "--", "true"), "--foreground"),
                            ((self.source, self.place, "--supervise", "--", "true"), "--supervise")):
            result = run("run", *words)
            self.assertEqual(result.code, 2, result.stderr)
            self.assertIn(text, result.stderr)


class CommandWithoutRights(Command):
    """As a user without any capability, to whom set-user-ID programs are of no use: in namespaces of its own."""

    def setUp(self) -> None:
        super().setUp()
        if os.geteuid() != 0 or shutil.which("setpriv") is None:
            self.skipTest("needs root and setpriv to give all rights up")
        # A mode that lets everybody open the device, as a device plugin gives it, in a namespace of the test's own.
        node = self.root / "fuse"
        os.mknod(node, 0o666 | 0o020000, os.makedev(10, 229))
        node.chmod(0o666)
        self.prefix = ["unshare", "--mount", "sh", "-c", f'mount --bind {node} /dev/fuse && exec "$@"', "sh",
                       *UNPRIVILEGED]
        probe = subprocess.run([*self.prefix, "unshare", "--user", "--mount", "true"], capture_output=True, check=False,
                               timeout=COMMAND_SECONDS)
        if probe.returncode:
            self.skipTest(f"this machine has no user namespaces: {probe.stderr.decode().strip()}")

    def test_a_machine_without_user_namespaces(self) -> None:
        """It says why, and the way on."""
        self.prefix = ["unshare", "--user", "--map-root-user", "sh", "-c",
                       'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"', "sh", "setpriv",
                       "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs", "--"]
        done = self.run_to_end("true")
        self.assertEqual(done.returncode, 3, done.stderr)
        for text in ("user.max_user_namespaces", "reshardfs export"):
            self.assertIn(text, done.stderr)


    def test_seccomp_forbids_it(self) -> None:
        """Likewise."""
        before = len(self.prefix) - len(UNPRIVILEGED)
        self.prefix[before:before] = [sys.executable, "-c", FORBIDDING]
        done = self.run_to_end("true")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1)
        for text in ("Operation not permitted", "seccomp", "reshardfs export"):
            self.assertIn(text, done.stderr)


# /dev with nothing but what every program needs.
BARE = """mount -t tmpfs none /dev && mknod -m 666 /dev/null c 1 3 && mknod -m 666 /dev/urandom c 1 9 && exec "$@" """


@unittest.skipUnless(os.geteuid() == 0, "needs root to take /dev/fuse away")
class WithoutDevice(unittest.TestCase):
    """Each answer names what can be done without a mount."""

    def test_a_mount_and_a_run(self) -> None:
        with scratch() as root:
            (root / "mnt").mkdir()
            write_safetensors(root / "model.safetensors", full_model(1))
            for words in (["mount", root / "model.safetensors", root / "mnt"],
                          ["run", root / "model.safetensors", root / "mnt", "--", "true"]):
                done = self.without_device(*words)
                self.assertEqual(done.returncode, 3, done.stderr)
                for text in ("there is no /dev/fuse", "reshardfs export", "reshardfs.open()"):
                    self.assertIn(text, done.stderr)

    def test_a_run_without_any_device(self) -> None:
        with scratch() as root:
            (root / "mnt").mkdir()
            write_safetensors(root / "model.safetensors", full_model(1))
            done = self.without_device("run", root / "model.safetensors", root / "mnt", "--", "true",
                                       devices='mount -t tmpfs none /dev && exec "$@"')
            self.assertEqual((done.returncode, done.stderr),
                             (3, "reshardfs: /dev/null: cannot open: No such file or directory\n"))

    def test_the_demo_exports_the_same_files(self) -> None:
        done = self.without_device("demo")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("This machine cannot mount", done.stdout)
        self.assertEqual(done.stdout.count("as expected"), 5)

    def without_device(self, *words: str | Path, devices: str = BARE) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["unshare", "--mount", "sh", "-c", devices, "sh", Settings.binary, *words], text=True,
                              capture_output=True, stdin=subprocess.DEVNULL, timeout=3 * COMMAND_SECONDS, check=False)


# A command in a file system that is nearly full, and which files it left.
SMALL = """mount -t tmpfs -o size=20m none "$0" && cd "$0" && env "$@"; code=$?; find . -type f; exit $code"""


@unittest.skipUnless(os.geteuid() == 0, "needs root to mount a small file system")
class WithoutSpace(unittest.TestCase):
    def test_the_demo(self) -> None:
        """It says how much it takes, and leaves nothing behind."""
        with scratch() as root:
            for words, place in ((["demo"], "TMPDIR=."), (["demo", "new"], "X=")):
                done = subprocess.run(["unshare", "--mount", "sh", "-c", SMALL, root, place, Settings.binary, *words], text=True,
                                      capture_output=True, timeout=COMMAND_SECONDS, check=False)
                self.assertEqual((done.returncode, len(done.stderr.splitlines())), (3, 1), done.stderr)
                self.assertRegex(done.stderr, "No space left on device; the sample takes 200 MB: .* 'reshardfs demo DIR'")
                self.assertNotIn(".ckpt", done.stdout)


if __name__ == "__main__":
    run_unittests()
