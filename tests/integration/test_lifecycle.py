# SPDX-License-Identifier: Apache-2.0
"""How a mount begins and ends, as root and as an ordinary user, and what it does when its source
changes underneath."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import subprocess
import sys
import time
import unittest
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from ckpt_format import by_name, encode_checkpoint  # noqa: E402
from make_checkpoint import GeneratedSet, Parallel, make_set, rank_records  # noqa: E402
from mounted import (  # noqa: E402
    COMMAND_SECONDS,
    NOBODY,
    Settings,
    abort_connection,
    assert_gone,
    command,
    is_mounted,
    mounted,
    mountpoint_guard,
    processes_of,
    rank_files,
    run,
    run_unittests,
    scratch,
    wait_until,
)


@contextlib.contextmanager
def small_set() -> Iterator[GeneratedSet]:
    with scratch() as directory:
        yield make_set(directory, Parallel(tp=4), Parallel(tp=2), layers=1)


class Unmounting(unittest.TestCase):
    """Every way to end a mount leaves neither a mount nor a process."""

    @contextlib.contextmanager
    def live(self) -> Iterator[Path]:
        with small_set() as made, scratch() as directory:
            mountpoint = directory / "mnt"
            mountpoint.mkdir()
            with mountpoint_guard(mountpoint):
                result = run("mount", made.source, mountpoint, *made.options())
                self.assertEqual(result.code, 0, result.stderr)
                self.assertEqual(by_name(rank_files(mountpoint)[1].read_bytes()), made.expected(1))
                yield mountpoint

    def test_sigterm_and_sigint(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(number.name), self.live() as mountpoint:
                (pid,) = processes_of(mountpoint)
                os.kill(pid, number)
                assert_gone(mountpoint)

    def test_umount(self) -> None:
        with self.live() as mountpoint:
            command("umount", mountpoint)
            assert_gone(mountpoint)

    def test_fusermount3(self) -> None:
        with self.live() as mountpoint:
            command("fusermount3", "-u", mountpoint)
            assert_gone(mountpoint)

    def test_reshardfs_umount(self) -> None:
        with self.live() as mountpoint:
            self.assertEqual(run("umount", mountpoint).code, 0)
            assert_gone(mountpoint)
            again = run("umount", mountpoint)
            self.assertEqual(again.code, 2, again.stderr)
            self.assertEqual(len(again.stderr.splitlines()), 1, again.stderr)

    def test_open_file(self) -> None:
        """A file that is open when SIGTERM comes stays readable, or fails, but never hangs."""
        with self.live() as mountpoint:
            path = rank_files(mountpoint)[0]
            whole = path.read_bytes()
            with path.open("rb", buffering=0) as file:
                for pid in processes_of(mountpoint):
                    os.kill(pid, signal.SIGTERM)
                self.assertTrue(wait_until(lambda: not is_mounted(mountpoint)))
                try:
                    self.assertEqual(file.read(100), whole[:100])
                except OSError as error:
                    self.assertIn(error.errno, (errno.ENOTCONN, errno.ECONNABORTED, errno.EIO))
            assert_gone(mountpoint)

    def test_killed_daemon_can_be_unmounted(self) -> None:
        with self.live() as mountpoint:
            for pid in processes_of(mountpoint):
                os.kill(pid, signal.SIGKILL)
            self.assertTrue(wait_until(lambda: not processes_of(mountpoint)))
            self.assertEqual(run("umount", mountpoint).code, 0)
            assert_gone(mountpoint)

    def test_foreground(self) -> None:
        with small_set() as made, scratch() as directory:
            mountpoint = directory / "mnt"
            mountpoint.mkdir()
            for number in (signal.SIGTERM, signal.SIGINT):
                with self.subTest(number.name), mountpoint_guard(mountpoint):
                    words = [Settings.binary, "mount", "-f", made.source, mountpoint]
                    with subprocess.Popen(
                        [*words, *made.options()], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE
                    ) as process:
                        self.assertTrue(wait_until(lambda: is_mounted(mountpoint)))
                        self.assertEqual(processes_of(mountpoint), [process.pid])
                        data = rank_files(mountpoint)[0].read_bytes()
                        self.assertEqual(by_name(data), made.expected(0))
                        process.send_signal(number)
                        self.assertEqual(process.wait(60), 0)
                    assert_gone(mountpoint)


# Runs in a mount namespace of its own, where users may open /dev/fuse whatever its mode is outside.
AS_USER = r"""
set -eu
mknod "$dir/fuse" c 10 229
chmod 666 "$dir/fuse"
mount --bind "$dir/fuse" /dev/fuse
as_user() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
as_user "$dir/reshardfs" mount "$@"
as_user cat "$dir/mnt/rank_1/checkpoint_1.ckpt" > "$dir/copy"
as_user stat -c %u:%g:%a "$dir/mnt/rank_1/checkpoint_1.ckpt" > "$dir/owner"
as_user findmnt -n -o OPTIONS "$dir/mnt" > "$dir/options"
if cat "$dir/mnt/rank_1/checkpoint_1.ckpt" > /dev/null 2>&1; then
  echo "another user, root, could read it" >&2
  exit 1
fi
as_user "$dir/reshardfs" umount "$dir/mnt"
! findmnt "$dir/mnt"
"""


class OrdinaryUser(unittest.TestCase):
    """The same as nobody, through the setuid helper."""

    def test_mount_read_and_unmount(self) -> None:
        if os.geteuid() != 0:
            self.skipTest("needs root to become another user")
        if not all(map(shutil.which, ("fusermount3", "unshare", "setpriv", "findmnt"))):
            self.skipTest("fusermount3, unshare, setpriv and findmnt are not all installed")
        with small_set() as made, scratch() as directory:
            (directory / "mnt").mkdir()
            shutil.copy(Settings.binary, directory / "reshardfs")
            for path in (made.directory, directory):
                command("chown", "-R", f"{NOBODY}:{NOBODY}", path)
            with mountpoint_guard(directory / "mnt"):
                words = [str(made.source), str(directory / "mnt"), *made.options()]
                done = subprocess.run(
                    ["unshare", "--mount", "--propagation", "private", "bash", "-c", AS_USER, "-",
                     *words],
                    env={**os.environ, "dir": str(directory)}, stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL, stderr=(directory / "errors").open("wb"),
                    timeout=COMMAND_SECONDS, check=False,
                )
                errors = (directory / "errors").read_text()
                if "unshare:" in errors or "mknod:" in errors or "mount:" in errors.split(" ")[:1]:
                    self.skipTest(f"no private mount namespace here: {errors.strip()}")
                self.assertEqual((done.returncode, errors), (0, ""))
                assert_gone(directory / "mnt")
            self.assertEqual(by_name((directory / "copy").read_bytes()), made.expected(1))
            owner = (directory / "owner").read_text().strip()
            self.assertEqual(owner, f"{NOBODY}:{NOBODY}:444")
            options = (directory / "options").read_text().strip().split(",")
            self.assertLessEqual({"ro", "nosuid", "nodev", f"user_id={NOBODY}"}, set(options))


class ChangedSource(unittest.TestCase):
    """A source that changes under the mount fails the files that need it, and only those."""

    @contextlib.contextmanager
    def equal_layouts(self) -> Iterator[tuple[GeneratedSet, Path]]:
        """Destination rank r reads its tensors from source rank r, and rank 0 alone the rest."""
        with scratch() as directory:
            made = make_set(directory, Parallel(tp=4), Parallel(tp=4), layers=1, scale=2000)
            with mounted(made.source, *made.options()) as mountpoint:
                yield made, mountpoint

    def check_isolated(
        self, made: GeneratedSet, mountpoint: Path, victim: int, *, may_serve: bool = False
    ) -> None:
        files = rank_files(mountpoint)
        for attempt in range(2):
            for rank, path in files.items():
                if rank != victim:
                    got = by_name(path.read_bytes())
                    self.assertEqual(got, made.expected(rank), f"attempt {attempt}")
                    continue
                try:
                    data = path.read_bytes()
                except OSError as error:
                    self.assertIn(error.errno, (errno.ESTALE, errno.EIO))
                else:
                    self.assertTrue(may_serve, "the changed source was served")
                    self.assertEqual(by_name(data), made.expected(rank))
                # Neither an error nor anything else may change what the kernel thinks of the size.
                self.assertEqual(path.stat().st_size, files[0].stat().st_size)

    def test_truncated(self) -> None:
        with self.equal_layouts() as (made, mountpoint):
            source = made.source_files(3)[0]
            os.truncate(source, source.stat().st_size // 2)
            self.check_isolated(made, mountpoint, 3)

    def test_emptied(self) -> None:
        with self.equal_layouts() as (made, mountpoint):
            os.truncate(made.source_files(2)[0], 0)
            self.check_isolated(made, mountpoint, 2)

    def test_overwritten_in_place(self) -> None:
        with self.equal_layouts() as (made, mountpoint):
            source = made.source_files(1)[0]
            time.sleep(0.02)  # a kernel may round times to a few milliseconds
            with source.open("r+b") as file:
                file.seek(source.stat().st_size // 2)
                file.write(bytes(1000))
            self.check_isolated(made, mountpoint, 1)

    def test_replaced_by_rename(self) -> None:
        """The open file is still the old one: its bytes may be served, the new one's must not."""
        with self.equal_layouts() as (made, mountpoint):
            source = made.source_files(3)[0]
            other = made.directory / "other"
            other.write_bytes(bytes(source.stat().st_size))
            os.rename(other, source)
            self.check_isolated(made, mountpoint, 3, may_serve=True)

    def test_removed(self) -> None:
        with self.equal_layouts() as (made, mountpoint):
            made.source_files(3)[0].unlink()
            self.check_isolated(made, mountpoint, 3, may_serve=True)

    def test_open_files_of_a_changed_source_stay_stale(self) -> None:
        """Also when the old bytes are back: nothing tells that they are. Mounting again helps."""
        with scratch() as directory:
            made = make_set(directory, Parallel(tp=4), Parallel(tp=4), layers=1, scale=2000)
            source = made.source_files(1)[0]
            before = source.read_bytes()
            with contextlib.ExitStack() as stack:
                mountpoint = stack.enter_context(mounted(made.source, *made.options(), "--direct-io"))
                files = [stack.enter_context(path.open("rb", buffering=0))
                         for _, path in sorted(rank_files(mountpoint).items())]
                whole = [os.pread(file.fileno(), 1 << 20, 0) for file in files]
                time.sleep(0.02)  # a kernel may round times to a few milliseconds
                for content in (bytes(len(before)), before):
                    source.write_bytes(content)
                    for rank, file in enumerate(files):
                        if rank != 1:
                            self.assertEqual(os.pread(file.fileno(), 1 << 20, 0), whole[rank])
                            continue
                        with self.assertRaises(OSError) as caught:
                            os.pread(file.fileno(), 1 << 20, 0)
                        self.assertEqual(caught.exception.errno, errno.ESTALE)
            with mounted(made.source, *made.options()) as mountpoint:
                self.assertEqual(rank_files(mountpoint)[1].read_bytes()[:1 << 20], whole[1])

    def test_changed_while_it_is_read(self) -> None:
        """Whatever a reader has got is a prefix of the truth."""
        with self.equal_layouts() as (made, mountpoint):
            path = rank_files(mountpoint)[3]
            expected = made.expected(3)
            with path.open("rb", buffering=0) as file:
                got = file.read(1 << 16)
                os.truncate(made.source_files(3)[0], 1 << 16)
                with contextlib.suppress(OSError):
                    while block := file.read(1 << 20):
                        got += block
            order = [r.name for r in rank_records(made.model, made.src, 3)]
            whole = encode_checkpoint(expected[name] for name in order)
            self.assertEqual(got, whole[: len(got)])


class Relatives(unittest.TestCase):
    def test_relative_paths(self) -> None:
        """The daemon changes to / and must not lose what was meant by a relative path."""
        with small_set() as made, scratch() as directory:
            (directory / "mnt").mkdir()
            mountpoint = directory / "mnt"
            absolute = [str(made.source), "mnt", *made.options()]
            words = [os.path.relpath(w, directory) if os.path.isabs(w) else w for w in absolute]
            try:
                done = subprocess.run(
                    [Settings.binary, "mount", *words], cwd=directory, stdin=subprocess.DEVNULL,
                    timeout=COMMAND_SECONDS, check=False,
                )
                self.assertEqual(done.returncode, 0)
                self.assertEqual(by_name(rank_files(mountpoint)[1].read_bytes()), made.expected(1))
                self.assertEqual(run("umount", mountpoint).code, 0)
                self.assertTrue(wait_until(lambda: not is_mounted(mountpoint)))
            finally:
                if is_mounted(mountpoint):
                    abort_connection(mountpoint)
                    command("umount", "-l", mountpoint)


if __name__ == "__main__":
    run_unittests()
