# SPDX-License-Identifier: Apache-2.0
"""A FUSE descriptor that a privileged program hands over through a Unix socket, whoever of the two
listens, to a daemon that has no privileges at all."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import unittest
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))
EXAMPLES = Path(__file__).resolve().parents[2] / "packaging/deploy/kubernetes/helper"
sys.path.insert(0, str(EXAMPLES))

from ckpt_format import Record, encode_checkpoint  # noqa: E402
from mount_descriptor import mount as mount_descriptor  # noqa: E402
from mounted import (  # noqa: E402
    COMMAND_SECONDS,
    NOBODY,
    UNPRIVILEGED,
    Settings,
    abort_connection,
    assert_gone,
    command,
    is_mounted,
    is_sanitized,
    mountpoint_guard,
    run_unittests,
    scratch,
    wait_until,
)

DATA = encode_checkpoint([Record("w", "Float32", (1000,), bytes(range(250)) * 16)])
FILE = "rank_0/checkpoint_0.ckpt"
# What a storage driver says beside the descriptor; more than one read of the daemon takes.
OPTIONS = json.dumps({"args": ["--x"] * 1000}).encode()
SECONDS = 60


class Place:
    """A source, a mount point and the path of a socket, all of nobody's."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.mountpoint = directory / "mnt"
        self.sockets = directory / "s"
        self.socket = self.sockets / "fuse.sock"
        self.source = directory / "m.ckpt"
        directory.chmod(0o755)
        self.source.write_bytes(DATA)
        shutil.copy(Settings.binary, directory / "reshardfs")
        self.mountpoint.mkdir()
        self.sockets.mkdir()
        os.chown(self.sockets, NOBODY, NOBODY)

    def listen(self) -> socket.socket:
        listener = socket.socket(socket.AF_UNIX)
        listener.settimeout(SECONDS)
        listener.bind(str(self.socket))
        os.chown(self.socket, NOBODY, NOBODY)
        listener.listen()
        return listener

    def connect(self) -> socket.socket:
        """To the socket of a daemon."""
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(SECONDS)

        def is_there() -> bool:
            with contextlib.suppress(FileNotFoundError, ConnectionRefusedError):
                connection.connect(str(self.socket))
                return True
            return False

        assert wait_until(is_there, SECONDS), f"nobody listens at {self.socket}"
        return connection

    def send(self, connection: socket.socket) -> None:
        """Mounts, and leaves the mount to the daemon."""
        descriptor = mount_descriptor(str(self.mountpoint), NOBODY, NOBODY)
        send(connection, [descriptor])
        os.close(descriptor)

    def words(self, *more: str | Path) -> list[str]:
        return [*UNPRIVILEGED, str(self.directory / "reshardfs"), "mount", str(self.source),
                *map(str, more)]

    @contextlib.contextmanager
    def daemon(self, *more: str | Path, before: Sequence[str] = ()) -> Iterator[subprocess.Popen]:
        """In the foreground."""
        words = [*before, *self.words("-f", *(more or ("--fuse-socket", self.socket)))]
        with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE) as process:
            try:
                yield process
            finally:
                process.kill()  # nothing, if it has been waited for


def send(connection: socket.socket, descriptors: list[int]) -> None:
    """One message, and the end of the connection: as storage drivers do."""
    assert socket.send_fds(connection, [OPTIONS], descriptors) == len(OPTIONS)
    connection.close()


def mounted_process(place: Place) -> int:
    assert (place.mountpoint / FILE).read_bytes() == DATA
    return json.loads((place.mountpoint / ".reshardfs/status.json").read_text())["pid"]


class FuseSocket(unittest.TestCase):
    def setUp(self) -> None:
        if os.geteuid() != 0:
            self.skipTest("needs root to mount for another user")
        if shutil.which("setpriv") is None:
            self.skipTest("setpriv is not installed")

    @contextlib.contextmanager
    def place(self) -> Iterator[Place]:
        with scratch() as directory:
            place = Place(directory)
            with mountpoint_guard(place.mountpoint):
                yield place

    def assert_ends(self, process: subprocess.Popen, code: int, *says: str) -> None:
        """With one line that says this, or none."""
        self.assertEqual(process.wait(SECONDS), code)
        text = process.stderr.read().decode()
        self.assertEqual(len(text.splitlines()), 1 if says else 0, text)
        for part in says:
            self.assertIn(part, text)


class HandedOver(FuseSocket):
    def test_the_other_side_listens(self) -> None:
        with self.place() as place, place.listen() as listener, place.daemon() as daemon:
            place.send(listener.accept()[0])
            self.assertEqual(mounted_process(place), daemon.pid)
            status = Path(f"/proc/{daemon.pid}/status").read_text()
            self.assertIn(f"\nCapEff:\t{0:016x}\n", status)
            command("umount", place.mountpoint)
            self.assert_ends(daemon, 0)
            assert_gone(place.mountpoint)

    def test_the_daemon_listens(self) -> None:
        with self.place() as place, place.daemon("--fuse-socket", f"listen:{place.socket}") as daemon:
            with place.connect() as connection:
                self.assertEqual(place.socket.stat().st_mode & 0o777, 0o600)
                place.send(connection)
            self.assertEqual(mounted_process(place), daemon.pid)
            self.assertFalse(place.socket.exists())
            command("umount", place.mountpoint)
            self.assert_ends(daemon, 0)

    def test_who_connects_and_sends_nothing_keeps_nobody_away(self) -> None:
        with self.place() as place, place.daemon("--fuse-socket", f"listen:{place.socket}", "-q"):
            silent = place.connect()
            place.connect().close()
            with silent, place.connect() as connection:
                place.send(connection)
                mounted_process(place)

    def test_the_daemon_comes_first(self) -> None:
        with self.place() as place, place.daemon() as daemon:
            # A socket that refuses connections until its owner listens.
            with socket.socket(socket.AF_UNIX) as listener:
                listener.settimeout(SECONDS)
                listener.bind(str(place.socket))
                os.chown(place.socket, NOBODY, NOBODY)
                self.assertIsNone(daemon.poll())
                listener.listen()
                place.send(listener.accept()[0])
            self.assertEqual(mounted_process(place), daemon.pid)

    def test_background(self) -> None:
        with self.place() as place, place.listen() as listener:
            words = place.words("tp4", "--fuse-socket", place.socket, "--log-file",
                                place.sockets / "log", "-v")
            with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL) as process:
                connection, _ = listener.accept()
                descriptor = mount_descriptor(str(place.mountpoint), NOBODY, NOBODY)
                socket.send_fds(connection, [b"x"], [descriptor])
                os.close(descriptor)
                self.assertEqual(process.wait(SECONDS), 0)
            pid = mounted_process(place)
            # By the name that was given instead of a mount point.
            self.assertIn("at tp4", (place.sockets / "log").read_text())
            # Neither is inherited by what the daemon starts.
            kinds = {"/dev/fuse": 0, "socket:": 0}
            for link in Path(f"/proc/{pid}/fd").iterdir():
                for kind in kinds:
                    if os.readlink(link).startswith(kind):
                        flags = Path(f"/proc/{pid}/fdinfo/{link.name}").read_text()
                        self.assertIn("\nflags:\t02", "\n" + flags, flags)
                        kinds[kind] += 1
            self.assertEqual(kinds, {"/dev/fuse": 1, "socket:": 1})
            # The end of the daemon is the end of the connection.
            connection.settimeout(SECONDS)
            os.kill(pid, signal.SIGKILL)
            self.assertEqual(connection.recv(1), b"")
            connection.close()
            command("umount", place.mountpoint)

    def test_a_path_that_is_too_long_for_an_address(self) -> None:
        for listens in (False, True):
            with self.subTest(listens=listens), self.place() as place:
                deep = place.sockets / ("d" * 100)
                deep.mkdir()
                os.chown(deep, NOBODY, NOBODY)
                name = f"{'listen:' if listens else ''}{deep}/f.sock"
                with in_folder(deep):
                    place.socket = Path("f.sock")
                    if listens:
                        with place.daemon("--fuse-socket", name), place.connect() as connection:
                            place.send(connection)
                            mounted_process(place)
                    else:
                        with place.listen() as listener, place.daemon("--fuse-socket", name):
                            place.send(listener.accept()[0])
                            mounted_process(place)

    def test_a_named_mount_of_a_configuration(self) -> None:
        with self.place() as place, place.listen() as listener:
            config = place.directory / "c.toml"
            config.write_text(f'[mount.tp4]\nsource = "{place.source}"\n'
                              f'fuse-socket = "{place.socket}"\n')
            words = [*UNPRIVILEGED, str(place.directory / "reshardfs"), "mount", "-f", "--config",
                     str(config), "tp4"]
            with subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as daemon:
                try:
                    place.send(listener.accept()[0])
                    mounted_process(place)
                    command("umount", place.mountpoint)
                    self.assert_ends(daemon, 0)
                finally:
                    daemon.kill()

    def test_passes_to_another_process(self) -> None:
        with self.place() as place, place.listen() as listener, place.daemon() as daemon:
            connection = listener.accept()[0]
            place.send(connection)
            pid = mounted_process(place)
            os.kill(pid, signal.SIGUSR2)
            self.assertTrue(wait_until(lambda: mounted_process(place) != pid, SECONDS))
            self.assertIsNone(daemon.poll())  # it waits for the other one
            command("umount", place.mountpoint)
            self.assert_ends(daemon, 0)
            assert_gone(place.mountpoint)

    def test_bad_input_leaves_the_descriptor_for_another_attempt(self) -> None:
        with self.place() as place, place.listen() as listener:
            place.source.write_bytes(DATA[:-1])
            with place.daemon() as daemon:
                self.assert_ends(daemon, 2, "m.ckpt")
            place.source.write_bytes(DATA)
            with place.daemon() as daemon:
                place.send(listener.accept()[0])  # its first connection
                self.assertEqual(mounted_process(place), daemon.pid)


@contextlib.contextmanager
def in_folder(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


class Refused(FuseSocket):
    def test_what_is_not_the_one_descriptor_of_a_live_mount(self) -> None:
        fuse = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        self.addCleanup(os.close, fuse)
        self.addCleanup(os.close, null)
        for descriptors, code, says in (
            ([], 3, "closed without a descriptor"),
            ([null], 2, "does not refer to /dev/fuse"),
            ([fuse], 2, "belongs to no live mount"),
            ([fuse, null], 3, "2 descriptors were handed over"),
            ([null] * 253, 3, "253 descriptors were handed over"),
        ):
            with self.subTest(says), self.place() as place, place.listen() as listener, \
                    place.daemon() as daemon:
                connection, _ = listener.accept()
                if descriptors:
                    send(connection, descriptors)
                else:
                    connection.sendall(OPTIONS)
                    connection.close()
                self.assert_ends(daemon, code, f"{place.socket}: ", says)

    def test_more_than_the_daemon_may_have_open(self) -> None:
        if is_sanitized(Settings.binary):
            self.skipTest("sanitizers need descriptors of their own")
        null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        self.addCleanup(os.close, null)
        with self.place() as place, place.listen() as listener, \
                place.daemon(before=["prlimit", "--nofile=40:40"]) as daemon:
            send(listener.accept()[0], [null] * 100)
            self.assert_ends(daemon, 3, f"{place.socket}: what was handed over has not all arrived",
                             "ulimit -n")

    def test_what_is_in_the_place_of_the_socket(self) -> None:
        with self.place() as place:
            listening = ("--fuse-socket", f"listen:{place.socket}")
            place.socket.write_text("keep")
            with place.daemon(*listening) as daemon:
                self.assert_ends(daemon, 2, f"{place.socket}: something that is no socket")
            self.assertEqual(place.socket.read_text(), "keep")
            place.socket.unlink()
            with place.listen(), place.daemon(*listening) as daemon:
                self.assert_ends(daemon, 2, f"{place.socket}: another process listens")
            # What nobody listens on any more was left by a process that was killed.
            with place.daemon(*listening), place.connect() as connection:
                place.send(connection)
                mounted_process(place)

    def test_no_path(self) -> None:
        with self.place() as place:
            for name in ("", "listen:", "/"):
                with self.subTest(name), place.daemon("--fuse-socket", name) as daemon:
                    self.assert_ends(daemon, 2, "--fuse-socket")


class Waiting(FuseSocket):
    def test_no_longer_than_it_may(self) -> None:
        with self.place() as place:
            short = ("--fuse-socket-wait", "1")
            with place.daemon("--fuse-socket", place.socket, *short) as daemon:
                self.assert_ends(daemon, 3, f"{place.socket}: nobody listened",
                                 "within 1 second; ", "--fuse-socket-wait")
            with place.daemon("--fuse-socket", f"listen:{place.socket}", *short) as daemon:
                self.assert_ends(daemon, 3, f"{place.socket}: no descriptor came", "within 1 second")
            self.assertFalse(place.socket.exists())
            with place.listen() as listener, \
                    place.daemon("--fuse-socket", place.socket, *short) as daemon:
                with listener.accept()[0]:
                    self.assert_ends(daemon, 3, f"{place.socket}: no descriptor came")

    def test_checking_waits_for_nobody(self) -> None:
        with self.place() as place:
            with place.daemon("--fuse-socket", place.socket, "--check-only") as daemon:
                self.assert_ends(daemon, 0)

    def test_killed_meanwhile(self) -> None:
        for sent in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(sent), self.place() as place, place.listen() as listener, \
                    place.daemon() as daemon, listener.accept()[0]:
                daemon.send_signal(sent)
                self.assert_ends(daemon, 3, f"{place.socket}: a signal ended the mount before")
        with self.place() as place:
            with place.daemon("--fuse-socket", f"listen:{place.socket}") as daemon:
                place.connect().close()
                daemon.send_signal(signal.SIGTERM)
                self.assertEqual(daemon.wait(SECONDS), 3)
            self.assertFalse(place.socket.exists())


class FirstProcess(FuseSocket):
    """As in a container, where the kernel keeps signals without a handler away from the process."""

    CONTAINER = ["unshare", "--pid", "--fork", "--kill-child"]

    def setUp(self) -> None:
        super().setUp()
        if subprocess.run([*self.CONTAINER, "true"], capture_output=True, check=False).returncode:
            self.skipTest("no process namespace can be made")

    def first_process(self, outer: subprocess.Popen) -> int:
        children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children")
        self.assertTrue(wait_until(lambda: bool(children.read_text()), SECONDS))
        return int(children.read_text())

    def test_killed_while_it_waits(self) -> None:
        with self.place() as place, place.listen() as listener, \
                place.daemon(before=self.CONTAINER) as outer, listener.accept()[0]:
            os.kill(self.first_process(outer), signal.SIGTERM)
            self.assert_ends(outer, 3, "a signal ended the mount before")

    def test_killed_while_it_serves(self) -> None:
        with self.place() as place, place.listen() as listener, \
                place.daemon(before=self.CONTAINER) as outer:
            place.send(listener.accept()[0])
            mounted_process(place)
            os.kill(self.first_process(outer), signal.SIGTERM)
            self.assert_ends(outer, 0)
            command("umount", place.mountpoint)

    def test_killed_while_it_works(self) -> None:
        with self.place() as place:
            place.source.write_bytes(encode_checkpoint([Record("w", "Float32", (1 << 18,),
                                                               bytes(1 << 20))]))
            words = [*self.CONTAINER, str(Settings.binary), "cat", str(place.source), FILE]
            # Nobody reads its output, so it cannot end; that there is some says that it has begun.
            with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE) as outer:
                try:
                    outer.stdout.read(1)
                    os.kill(self.first_process(outer), signal.SIGTERM)
                    self.assertEqual(outer.wait(SECONDS), 128 + signal.SIGTERM)
                finally:
                    outer.kill()


class ExitCodes(FuseSocket):
    """What a supervisor sees of a mount in the foreground."""

    def test_of_endings(self) -> None:
        for ending, code in (("umount", 0), ("umount -l", 0), ("abort", 0), ("SIGTERM", 0),
                             ("SIGINT", 0), ("SIGKILL", -signal.SIGKILL)):
            with self.subTest(ending), self.place() as place, place.listen() as listener, \
                    place.daemon() as daemon:
                place.send(listener.accept()[0])
                mounted_process(place)
                if ending.startswith("umount"):
                    command(*ending.split(), place.mountpoint)
                elif ending == "abort":
                    if not os.listdir("/sys/fs/fuse/connections"):
                        self.skipTest("fusectl is not mounted")
                    abort_connection(place.mountpoint)
                else:
                    daemon.send_signal(getattr(signal, ending))
                self.assert_ends(daemon, code)


class Example(FuseSocket):
    """The program that is installed as an example: it mounts for one daemon after the other."""

    @contextlib.contextmanager
    def helper(self, place: Place, *more: str) -> Iterator[subprocess.Popen]:
        words = [sys.executable, "-B", str(EXAMPLES / "hand_over.py"), f"--uid={NOBODY}",
                 f"--gid={NOBODY}", *more, str(place.mountpoint), str(place.socket)]
        with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE) as process:
            try:
                self.assertTrue(wait_until(place.socket.exists, SECONDS))
                yield process
            finally:
                process.terminate()  # nothing, if it has been waited for
                process.wait(SECONDS)

    def wait_for_mount(self, place: Place, there: bool) -> None:
        self.assertTrue(wait_until(lambda: is_mounted(place.mountpoint) == there, SECONDS))

    def test_mounts_again_for_the_next_daemon(self) -> None:
        with self.place() as place, self.helper(place) as helper:
            for ends in ("SIGKILL", "SIGTERM", "umount"):
                with self.subTest(ends), place.daemon() as daemon:
                    self.wait_for_mount(place, True)
                    self.assertEqual(mounted_process(place), daemon.pid)
                    if ends == "umount":
                        command("umount", place.mountpoint)
                    else:
                        daemon.send_signal(getattr(signal, ends))
                    self.assertEqual(daemon.wait(SECONDS), -9 if ends == "SIGKILL" else 0)
                    self.wait_for_mount(place, False)
            with place.daemon() as daemon:
                self.wait_for_mount(place, True)
                mounted_process(place)
                helper.terminate()
                self.assertEqual((helper.wait(SECONDS), helper.stderr.read()), (0, b""))
                self.assert_ends(daemon, 0)
            assert_gone(place.mountpoint)
            self.assertFalse(place.socket.exists())

    def test_takes_away_what_a_killed_one_has_left(self) -> None:
        with self.place() as place:
            with self.helper(place) as killed, place.daemon() as daemon:
                self.wait_for_mount(place, True)
                mounted_process(place)
                killed.kill()
                killed.wait(SECONDS)
                mounted_process(place)  # it does not need the helper
                place.socket.unlink()
                with self.helper(place):
                    self.assert_ends(daemon, 0)
                    with place.daemon() as next_one:
                        self.wait_for_mount(place, True)
                        self.assertEqual(mounted_process(place), next_one.pid)

    def test_once(self) -> None:
        with self.place() as place, self.helper(place, "--once") as helper:
            with place.daemon() as daemon:
                self.wait_for_mount(place, True)
                mounted_process(place)
                daemon.send_signal(signal.SIGKILL)
                self.assertEqual(helper.wait(SECONDS), 0)
            assert_gone(place.mountpoint)

    def test_says_what_it_cannot_mount(self) -> None:
        with self.place() as place, self.helper(place) as helper:
            place.mountpoint.rmdir()
            with place.daemon() as daemon:
                self.assert_ends(daemon, 3, "closed without a descriptor")
            self.assertEqual((helper.wait(SECONDS), helper.stderr.read().decode()),
                             (1, f"hand_over: {place.mountpoint}: No such file or directory\n"))
            place.mountpoint.mkdir()


if __name__ == "__main__":
    run_unittests()
