# SPDX-License-Identifier: Apache-2.0
"""Nothing can be changed through a mount, by whichever call and whoever makes it; and who may read."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import shutil
import signal
import socket
import subprocess
import sys
import unittest
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from make_checkpoint import Parallel, make_set  # noqa: E402
from mounted import (  # noqa: E402
    COMMAND_SECONDS,
    NOBODY,
    Settings,
    command,
    errno_name,
    mount_entry,
    mounted,
    run,
    run_unittests,
    scratch,
    status_of,
    user_mount_problem,
)

LIBC = ctypes.CDLL(None, use_errno=True)
FALLOC_FL_PUNCH_HOLE_KEEP_SIZE = 3


def libc(name: str, *arguments: object) -> None:
    if getattr(LIBC, name)(*arguments) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def as_user(function: Callable[[], list[str]], user: int) -> list[str]:
    """What the function returns in a process of that user without groups and capabilities."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(ours)
            if user != os.geteuid():
                os.setgroups([])
                os.setresgid(user, user, user)
                os.setresuid(user, user, user)
            text = "\n".join(function())
        except BaseException as error:  # noqa: BLE001: it must not go on as a second test program
            text = f"{type(error).__name__}: {error}"
        os.write(theirs, text.encode())
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, "rb") as pipe:
        text = pipe.read().decode()
    os.waitpid(pid, 0)
    return text.splitlines()


def changes(mountpoint: Path, target: Path) -> dict[str, Callable[[], object]]:
    """Calls that would change `target` (a file, a directory or a link) or what is beside it."""
    fresh = target.parent / "fresh"
    path = os.fsencode(target)

    def open_with(flags: int, at: Path = target) -> None:
        os.close(os.open(at, flags, 0o600))

    def bind() -> None:
        # A relative path: that of a socket has 107 bytes at most.
        os.chdir(target.parent)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("fresh")

    found: dict[str, Callable[[], object]] = {
        "unlink": lambda: os.unlink(target),
        "rmdir": lambda: os.rmdir(target),
        "rename away": lambda: os.rename(target, fresh),
        "rename onto": lambda: os.rename(mountpoint / "strategy", target),
        "exchange": lambda: libc("renameat2", -100, path, -100, os.fsencode(mountpoint / "merged"), 2),
        "rename out": lambda: os.rename(target, mountpoint.parent / "out"),
        "link": lambda: os.link(target, fresh, follow_symlinks=False),
        "symlink": lambda: os.symlink("x", fresh),
        "symlink onto": lambda: os.symlink("x", target),
        "mkdir": lambda: os.mkdir(fresh),
        "mknod": lambda: os.mknod(fresh),
        "mkfifo": lambda: os.mkfifo(fresh),
        "create": lambda: open_with(os.O_WRONLY | os.O_CREAT, fresh),
        "create exclusively": lambda: open_with(os.O_RDWR | os.O_CREAT | os.O_EXCL, fresh),
        "tmpfile": lambda: open_with(os.O_WRONLY | os.O_TMPFILE, target.parent),
        "bind": bind,
        "chmod": lambda: os.chmod(target, 0o777),
        "chown": lambda: os.chown(target, os.geteuid(), os.getegid()),
        "lchown": lambda: os.lchown(target, os.geteuid(), os.getegid()),
        "utimens": lambda: os.utime(target, (0, 0)),
        "utimens now": lambda: os.utime(target),
        "lutimens": lambda: os.utime(target, (0, 0), follow_symlinks=False),
        "setxattr": lambda: os.setxattr(target, "user.x", b"1"),
        "setxattr known": lambda: os.setxattr(target, "user.reshardfs.source", b"1"),
        "removexattr": lambda: os.removexattr(target, "user.reshardfs.source"),
    }
    if target.is_file():
        found |= {
            "write": lambda: open_with(os.O_WRONLY),
            "read and write": lambda: open_with(os.O_RDWR),
            "append": lambda: open_with(os.O_WRONLY | os.O_APPEND),
            "open and truncate": lambda: open_with(os.O_WRONLY | os.O_TRUNC),
            "truncate without writing": lambda: open_with(os.O_RDONLY | os.O_TRUNC),
            "truncate": lambda: os.truncate(target, 0),
            "truncate to its size": lambda: os.truncate(target, target.stat().st_size),
            "grow": lambda: os.truncate(target, 1 << 40),
        }
    return found


# The kernel looks at these before it asks whether the file system can be written.
OTHERWISE = {
    "unlink": {"EISDIR"}, "rmdir": {"ENOTDIR"}, "rename out": {"EXDEV"}, "symlink onto": {"EEXIST"},
    "rename onto": {"ENOTDIR", "ENOTEMPTY"},
}
# Who is not the owner, and no superuser, may not in any case.
FORBIDDEN = {"EACCES", "EPERM"}


def failures(attempts: dict[str, Callable[[], object]], allowed: set[str]) -> list[str]:
    wrong = []
    for name, attempt in attempts.items():
        try:
            attempt()
        except OSError as error:
            if errno_name(error) not in {"EROFS"} | OTHERWISE.get(name, set()) | allowed:
                wrong.append(f"{name}: {errno_name(error)}")
        else:
            wrong.append(f"{name}: done")
    return wrong


def descriptor_failures(file: Path) -> list[str]:
    """What a descriptor that was opened for reading does not allow."""
    fd = os.open(file, os.O_RDONLY)
    size = os.fstat(fd).st_size
    buffer = os.pread(fd, 10, 0)
    attempts: dict[str, tuple[set[str], Callable[[], object]]] = {
        "ftruncate": ({"EINVAL", "EBADF", "EROFS"}, lambda: os.ftruncate(fd, 0)),
        "write": ({"EBADF"}, lambda: os.write(fd, b"x")),
        "pwrite": ({"EBADF"}, lambda: os.pwrite(fd, b"x", 0)),
        "fallocate": ({"EBADF"}, lambda: os.posix_fallocate(fd, 0, size + 1)),
        "punch a hole": ({"EBADF"}, lambda: libc("fallocate", fd, FALLOC_FL_PUNCH_HOLE_KEEP_SIZE,
                                                 ctypes.c_long(0), ctypes.c_long(size))),
        "copy into": ({"EBADF"}, lambda: os.copy_file_range(fd, fd, 10, 0, 100)),
        "fchmod": ({"EROFS"}, lambda: os.fchmod(fd, 0o777)),
        "fchown": ({"EROFS"}, lambda: os.fchown(fd, os.geteuid(), os.getegid())),
        "futimens": ({"EROFS"}, lambda: os.utime(fd, (0, 0))),
        "fsetxattr": ({"EROFS"}, lambda: os.setxattr(fd, "user.x", b"1")),
        "set flags": ({"EROFS", "ENOTTY", "EOPNOTSUPP", "EPERM", "EACCES"},
                      lambda: fcntl.ioctl(fd, 0x40086602, bytes(8))),  # FS_IOC_SETFLAGS
        "shared map to write": ({"EACCES"}, lambda: mmap.mmap(fd, size, mmap.MAP_SHARED,
                                                              mmap.PROT_READ | mmap.PROT_WRITE)),
        "reopen to write": ({"EROFS"}, lambda: os.open(f"/proc/self/fd/{fd}", os.O_RDWR)),
        "lock to write": ({"EBADF"}, lambda: fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)),
    }
    wrong = []
    for name, (wanted, attempt) in attempts.items():
        try:
            attempt()
        except OSError as error:
            if errno_name(error) not in wanted:
                wrong.append(f"{name}: {errno_name(error)}, not {sorted(wanted)}")
        else:
            wrong.append(f"{name}: done")
    if os.pread(fd, 10, 0) != buffer or os.fstat(fd).st_size != size:
        wrong.append("the file has changed")
    os.close(fd)
    return wrong


def snapshot(mountpoint: Path) -> list[tuple[object, ...]]:
    found = []
    for path in [mountpoint, *sorted(mountpoint.rglob("*"))]:
        info = path.lstat()
        found.append((str(path), info.st_mode, info.st_size, info.st_mtime_ns, info.st_uid, info.st_nlink,
                      path.read_bytes() if path.is_file() else b""))
    return found


class OneSet(unittest.TestCase):
    def setUp(self) -> None:
        directory = self.enterContext(scratch())
        self.made = make_set(directory, Parallel(tp=2), Parallel(tp=2), layers=1)

    def enterContext(self, manager):  # noqa: ANN001, ANN201, N802: unittest has it from Python 3.11 on
        value = manager.__enter__()
        self.addCleanup(manager.__exit__, None, None, None)
        return value

    def mounted(self, *options: str | Path):  # noqa: ANN201
        return mounted(self.made.source, *self.made.options(), *options)


class Unchangeable(OneSet):
    def check(self, *options: str, extra: tuple[str, ...] = ()) -> None:
        users = [os.geteuid()]
        if os.geteuid() == 0:
            options += ("--allow-other",)
            users.append(NOBODY)
        with self.mounted(*options) as mountpoint:
            mountpoint.parent.chmod(0o755)
            snapshot(mountpoint)  # what is made when it is looked at is there from now on
            before = snapshot(mountpoint)
            places = extra or ("rank_0/checkpoint_0.ckpt", "rank_0", "merged", "merged/params.json",
                               "merged/params", ".reshardfs", ".reshardfs/status.json",
                               ".reshardfs/metrics")
            for user in users:
                allowed = FORBIDDEN if user != os.geteuid() else set()
                for place in places:
                    target = mountpoint / place
                    with self.subTest(options=options, user=user, place=place):
                        self.assertTrue(os.path.lexists(target))
                        attempts = changes(mountpoint, target)
                        self.assertEqual(as_user(lambda: failures(attempts, allowed), user), [])
                        if target.is_file() and target.stat().st_size and user == os.geteuid():
                            self.assertEqual(as_user(lambda: descriptor_failures(target), user), [])
            self.assertEqual(snapshot(mountpoint), before)
            self.assertFalse((mountpoint.parent / "out").exists())

    def test_buffered(self) -> None:
        self.check()

    def test_direct(self) -> None:
        self.check("--direct-io")

    def test_all_steps(self) -> None:
        with self.mounted("--step", "all") as mountpoint:
            step = os.readlink(mountpoint / "latest")
        self.check("--step", "all", extra=("latest", "steps", step, f"{step}/rank_0/checkpoint_0.ckpt",
                                           ".reshardfs/status.json"))

    def test_modes_that_seem_to_allow_it(self) -> None:
        """A mode can be asked for with the owner's write bit: it is not given."""
        self.check("--file-mode", "0666", "--dir-mode", "0777",
                   extra=("rank_0/checkpoint_0.ckpt", "rank_0"))
        with self.mounted("--file-mode", "0666", "--dir-mode", "0777") as mountpoint:
            self.assertEqual((mountpoint / "rank_0/checkpoint_0.ckpt").stat().st_mode & 0o777, 0o444)
            self.assertEqual((mountpoint / "rank_0").stat().st_mode & 0o777, 0o555)


class Kernel(OneSet):
    def test_flags_cannot_be_argued_away(self) -> None:
        for words in ((), ("-o", "rw"), ("-o", "suid,dev,exec,rw")):
            with self.subTest(words), self.mounted(*words) as mountpoint:
                entry = mount_entry(mountpoint)
                assert entry is not None
                self.assertLessEqual({"ro", "nosuid", "nodev"}, set(entry[5].split(",")))
                self.assertIn("ro", entry[entry.index("-") + 3].split(","))
                self.assertIn("default_permissions", entry[entry.index("-") + 3].split(","))

    def test_remounting_to_write_changes_nothing(self) -> None:
        """The kernel may take the flag off; the daemon still has no call that writes."""
        if os.geteuid() != 0:
            self.skipTest("needs root")
        with self.mounted() as mountpoint:
            subprocess.run(["mount", "-i", "-o", "remount,rw", mountpoint], stderr=subprocess.DEVNULL,
                           timeout=COMMAND_SECONDS, check=False)
            before = snapshot(mountpoint)
            target = mountpoint / "rank_0/checkpoint_0.ckpt"
            attempts = changes(mountpoint, target)
            allowed = {"ENOSYS", "ENOTSUP", "EACCES"}
            self.assertEqual(as_user(lambda: failures(attempts, allowed), 0), [])
            self.assertEqual(snapshot(mountpoint), before)

    def test_maps(self) -> None:
        with self.mounted() as mountpoint:
            path = mountpoint / "rank_0/checkpoint_0.ckpt"
            whole = path.read_bytes()
            fd = os.open(path, os.O_RDONLY)
            try:
                with mmap.mmap(fd, 0, mmap.MAP_SHARED, mmap.PROT_READ) as shared:
                    self.assertEqual(shared[:], whole)
                # One that was made to be read stays so.
                LIBC.mmap.restype = ctypes.c_void_p
                at = ctypes.c_void_p(LIBC.mmap(None, ctypes.c_size_t(4096), mmap.PROT_READ,
                                               mmap.MAP_SHARED, fd, ctypes.c_long(0)))
                with self.assertRaises(PermissionError):
                    libc("mprotect", at, ctypes.c_size_t(4096), mmap.PROT_READ | mmap.PROT_WRITE)
                LIBC.munmap(at, ctypes.c_size_t(4096))
                # A private map may be written: it is the process's own copy.
                with mmap.mmap(fd, 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE) as private:
                    private[:4] = b"mine"
                    self.assertEqual(private[:4], b"mine")
                    self.assertEqual(os.pread(fd, len(whole), 0), whole)
            finally:
                os.close(fd)
            self.assertEqual(path.read_bytes(), whole)

    def test_direct_reads(self) -> None:
        """O_DIRECT, aligned and not, at the end and behind it."""
        with self.mounted() as mountpoint:
            path = mountpoint / "rank_0/checkpoint_0.ckpt"
            whole = path.read_bytes()
            fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
            try:
                with mmap.mmap(-1, 1 << 20) as aligned:
                    for offset in (0, 4096, len(whole) // 4096 * 4096, len(whole) + 4096):
                        got = os.preadv(fd, [aligned], offset)
                        self.assertEqual(aligned[:got], whole[offset:offset + (1 << 20)])
                self.assertEqual(os.pread(fd, 1001, 777), whole[777:1778])
            finally:
                os.close(fd)

    def test_locks(self) -> None:
        """Locks are the kernel's, between its processes; they need nothing of the daemon."""
        with self.mounted() as mountpoint:
            path = mountpoint / "rank_0/checkpoint_0.ckpt"
            first, second = os.open(path, os.O_RDONLY), os.open(path, os.O_RDONLY)
            try:
                fcntl.flock(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
                with self.assertRaises(BlockingIOError):
                    fcntl.flock(second, fcntl.LOCK_SH | fcntl.LOCK_NB)
                fcntl.flock(first, fcntl.LOCK_UN)
                fcntl.flock(first, fcntl.LOCK_SH | fcntl.LOCK_NB)
                fcntl.flock(second, fcntl.LOCK_SH | fcntl.LOCK_NB)
                fcntl.lockf(first, fcntl.LOCK_SH | fcntl.LOCK_NB)
                try:
                    fcntl.fcntl(first, fcntl.F_SETLEASE, fcntl.F_RDLCK)
                    self.assertEqual(fcntl.fcntl(first, fcntl.F_GETLEASE), fcntl.F_RDLCK)
                    fcntl.fcntl(first, fcntl.F_SETLEASE, fcntl.F_UNLCK)
                except OSError as error:
                    self.assertIn(error.errno, (errno.EINVAL, errno.EAGAIN, errno.EACCES))
                self.assertEqual(os.pread(second, 4, 0), path.read_bytes()[:4])
            finally:
                os.close(first)
                os.close(second)

    def test_own_mount_namespace(self) -> None:
        """Unmounted in a namespace of its own, it stays where it was; and the reverse."""
        if os.geteuid() != 0 or shutil.which("unshare") is None:
            self.skipTest("needs root and unshare")
        private = ["unshare", "--mount", "--propagation", "private"]
        tried = subprocess.run([*private, "true"], capture_output=True, text=True, check=False)
        if tried.returncode:
            # As in a chroot whose root is no mount point.
            self.skipTest(f"no private mount namespace here: {tried.stderr.strip()}")
        with self.mounted() as mountpoint:
            path = mountpoint / "rank_0/checkpoint_0.ckpt"
            script = 'cat "$1" > /dev/null && touch "$1" 2> /dev/null; echo $?; umount "$2" && ! test -e "$1"'
            told = command(*private, "sh", "-c", script, "-", path, mountpoint)
            self.assertEqual(told, "1\n")
            self.assertTrue(path.read_bytes())
            self.assertEqual(status_of(mountpoint).code, 0)


class WhoMayRead(OneSet):
    def setUp(self) -> None:
        if os.geteuid() != 0:
            self.skipTest("needs root to become other users")
        super().setUp()

    @staticmethod
    def outcomes(mountpoint: Path) -> list[str]:
        """What each way to look gives, from the top to a file's bytes."""
        file = mountpoint / "rank_0/checkpoint_0.ckpt"
        control = mountpoint / ".reshardfs/status.json"
        calls: list[Callable[[], object]] = [
            lambda: os.stat(mountpoint), lambda: os.listdir(mountpoint),
            lambda: os.chdir(mountpoint), lambda: os.stat(file), lambda: os.listdir(file.parent),
            lambda: file.read_bytes(), lambda: control.read_bytes(),
            lambda: os.getxattr(file, "user.reshardfs.source"), lambda: os.listxattr(file),
        ]
        out = []
        for call in calls:
            try:
                call()
                out.append("done")
            except OSError as error:
                out.append(errno_name(error))
        return out

    def seen_by(self, mountpoint: Path, user: int = NOBODY) -> list[str]:
        mountpoint.parent.chmod(0o755)
        self.assertEqual(mountpoint.parent.stat().st_mode & 0o005, 0o005)
        return as_user(lambda: self.outcomes(mountpoint), user)

    def test_no_other_user(self) -> None:
        with self.mounted() as mountpoint:
            for user in (NOBODY, 1000, 1):
                self.assertEqual(set(self.seen_by(mountpoint, user)), {"EACCES"})
                # The kernel answers this one itself, with nothing.
                blocks = as_user(lambda: [str(os.statvfs(mountpoint).f_blocks)], user)
                self.assertEqual(blocks, ["0"])
            self.assertEqual(set(self.seen_by(mountpoint, 0)), {"done"})

    def test_all_users(self) -> None:
        with self.mounted("--allow-other") as mountpoint:
            self.assertEqual(set(self.seen_by(mountpoint)), {"done"})

    def test_modes(self) -> None:
        """Files of a group, with directories that all may look at."""
        with self.mounted("--allow-other", "--file-mode", "0440", "--gid", "4242") as mountpoint:
            file = mountpoint / "rank_0/checkpoint_0.ckpt"
            self.assertEqual(file.stat().st_mode & 0o777, 0o440)
            self.assertEqual(file.stat().st_gid, 4242)
            seen = self.seen_by(mountpoint)
            # Names and attributes; no bytes.
            self.assertEqual(seen[:5], ["done"] * 5)
            self.assertEqual(seen[5:8], ["EACCES"] * 3)
            done = subprocess.run(["setpriv", f"--reuid={NOBODY}", "--regid=4242", "--clear-groups",
                                   "cat", file], capture_output=True, timeout=COMMAND_SECONDS, check=False)
            self.assertEqual((done.returncode, done.stdout), (0, file.read_bytes()))

    def test_directory_modes(self) -> None:
        with self.mounted("--allow-other", "--dir-mode", "0550", "--gid", "4242") as mountpoint:
            self.assertEqual(set(self.seen_by(mountpoint)[1:]) - {"done"}, {"EACCES"})
            self.assertEqual(self.seen_by(mountpoint)[3:7], ["EACCES"] * 4)

    def test_owner(self) -> None:
        with self.mounted("--allow-other", "--file-mode", "0400", "--uid", str(NOBODY)) as mountpoint:
            self.assertEqual(set(self.seen_by(mountpoint)), {"done"})
            self.assertIn("EACCES", self.seen_by(mountpoint, 1))


@unittest.skipIf(user_mount_problem(), user_mount_problem())
class OrdinaryUser(unittest.TestCase):
    """Through fusermount3, where this machine lets users mount."""

    def test_mount(self) -> None:
        with scratch() as directory:
            made = make_set(directory, Parallel(tp=2), Parallel(tp=1), layers=1)
            shutil.copy(Settings.binary, directory / "reshardfs")
            mountpoint = directory / "mnt"
            mountpoint.mkdir()
            command("chown", "-R", f"{NOBODY}:{NOBODY}", directory)
            user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
            command(*user, directory / "reshardfs", "mount", made.source, mountpoint, *made.options())
            try:
                self.assertEqual(set(as_user(lambda: WhoMayRead.outcomes(mountpoint), NOBODY)), {"done"})
                # Not even root.
                self.assertEqual(set(as_user(lambda: WhoMayRead.outcomes(mountpoint), 0)), {"EACCES"})
                entry = mount_entry(mountpoint)
                assert entry is not None
                self.assertLessEqual({"ro", "nosuid", "nodev"}, set(entry[5].split(",")))
                refused = subprocess.run(
                    [*user, directory / "reshardfs", "mount", made.source, mountpoint, *made.options(),
                     "--allow-other", "--nonempty"],
                    capture_output=True, timeout=COMMAND_SECONDS, check=False)
                if "user_allow_other" not in Path("/etc/fuse.conf").read_text().split():
                    self.assertNotEqual(refused.returncode, 0)
            finally:
                command(*user, directory / "reshardfs", "umount", mountpoint)


if __name__ == "__main__":
    signal.signal(signal.SIGIO, signal.SIG_IGN)  # a lease that breaks
    run_unittests()
