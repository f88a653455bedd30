# SPDX-License-Identifier: Apache-2.0
"""Real programs read a real mount: every way of reading must give the expected bytes."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import mmap
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import tarfile
import time
import unittest
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

import numpy as np  # noqa: E402
from ckpt_format import NUMPY_TYPES, Record, decode_checkpoint, encode_checkpoint  # noqa: E402
from make_checkpoint import GeneratedSet, Parallel, make_set, rank_records  # noqa: E402
from mounted import (  # noqa: E402
    COMMAND_SECONDS,
    Settings,
    abort_connection,
    assert_gone,
    errno_name,
    is_mounted,
    mount_entry,
    mounted,
    mountpoint_guard,
    processes_of,
    rank_files,
    run,
    run_unittests,
    scratch,
    wait_until,
)
from strategy_files import proto_module  # noqa: E402


def command(*words: str | Path) -> str:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True,
                          timeout=COMMAND_SECONDS, check=False)
    if done.returncode or done.stderr:
        raise AssertionError(f"{words[0]}: exit code {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def by_name(data: bytes) -> dict[str, Record]:
    return {record.name: record for record in decode_checkpoint(data)}


def digest(path: Path) -> str:
    """What another process reads (at module level, so that it can be sent there)."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def every_file(top: Path) -> list[Path]:
    return sorted(path for path in top.rglob("*") if path.is_file())


class OneMount(unittest.TestCase):
    """All tests of the class read the same mount."""

    SRC = Parallel(tp=3, dp=2, pp=2, opt=-1)
    DST = Parallel(tp=2, dp=2)
    SCALE = 1
    stack: contextlib.ExitStack
    made: GeneratedSet
    mountpoint: Path
    files: dict[int, Path]

    @classmethod
    def setUpClass(cls) -> None:
        cls.stack = contextlib.ExitStack()
        cls.addClassCleanup(cls.stack.close)
        directory = cls.stack.enter_context(scratch())
        cls.made = make_set(directory, cls.SRC, cls.DST, seed=5, scale=cls.SCALE)
        cls.mountpoint = cls.stack.enter_context(mounted(cls.made.source, *cls.made.options()))
        cls.files = rank_files(cls.mountpoint)


class Readers(OneMount):
    def test_all_ranks_are_there_under_their_names(self) -> None:
        names = {rank: path.name for rank, path in self.files.items()}
        self.assertEqual(names, {rank: f"checkpoint_{rank}.ckpt" for rank in range(4)})

    def test_independent_reader(self) -> None:
        for rank, path in self.files.items():
            self.assertEqual(by_name(path.read_bytes()), self.made.expected(rank))

    def test_files_are_what_mindspore_would_write(self) -> None:
        # Here every rank needs the last stage, whose file starts with that stage's parameters.
        last = [r.name for r in rank_records(self.made.model, self.SRC, self.SRC.rank_count - 1)]
        for rank, path in self.files.items():
            expected = self.made.expected(rank)
            laid = [n for n in last if n in self.made.model.tensors]
            laid += [n for n in self.made.model.tensors if n not in laid]
            order = laid + [r.name for r in self.made.model.unlaid]
            self.assertEqual(path.read_bytes(), encode_checkpoint(expected[name] for name in order))

    def test_protobuf(self) -> None:
        for rank, path in self.files.items():
            message = proto_module("checkpoint").Checkpoint.FromString(path.read_bytes())
            expected = self.made.expected(rank)
            self.assertEqual({value.tag for value in message.value}, set(expected))
            self.assertEqual(len(message.value), len(expected))
            for value in message.value:
                record = expected[value.tag]
                dims = (0,) if record.type == "str" else record.shape
                self.assertEqual(tuple(value.tensor.dims), dims, value.tag)
                self.assertEqual(value.tensor.tensor_type, record.type, value.tag)
                self.assertEqual(value.tensor.tensor_content, record.content, value.tag)

    def test_numpy(self) -> None:
        for rank, path in self.files.items():
            whole = np.fromfile(path, np.uint8)
            mapped = np.memmap(path, np.uint8, "r")
            self.assertEqual(whole.tobytes(), mapped.tobytes())
            for name, record in by_name(whole.tobytes()).items():
                if record.type in NUMPY_TYPES:
                    expected = self.made.expected(rank)[name].array()
                    self.assertEqual(record.array().tobytes(), expected.tobytes(), name)

    def test_coreutils(self) -> None:
        with scratch() as directory:
            for rank, path in self.files.items():
                copy = directory / f"{rank}.ckpt"
                command("cp", path, copy)
                command("cmp", path, copy)
                self.assertEqual(by_name(copy.read_bytes()), self.made.expected(rank))
                summed = command("sha256sum", path).split()[0]
                self.assertEqual(summed, hashlib.sha256(copy.read_bytes()).hexdigest())
                command("dd", f"if={path}", f"of={copy}.dd", "bs=777", "status=none")
                command("cmp", path, f"{copy}.dd")

    def test_direct_reads(self) -> None:
        """Reads that go past the page cache of the client."""
        for path in self.files.values():
            whole = path.read_bytes()
            fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
            try:
                buffer = mmap.mmap(-1, 1 << 16)
                for offset in range(0, len(whole), 1 << 16):
                    count = os.preadv(fd, [buffer], offset)
                    self.assertEqual(buffer[:count], whole[offset : offset + (1 << 16)])
            finally:
                os.close(fd)

    def test_mmap(self) -> None:
        for path in self.files.values():
            with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as view:
                size = path.stat().st_size
                backwards = b"".join(view[at : at + 1] for at in range(size - 1, size - 5000, -1))
                self.assertEqual(backwards[::-1], path.read_bytes()[-4999:])
                self.assertEqual(view[:], path.read_bytes())

    def test_four_processes_at_once(self) -> None:
        expected = {rank: digest(path) for rank, path in self.files.items()}
        with ProcessPoolExecutor(4) as pool:
            for _ in range(5):
                found = dict(zip(self.files, pool.map(digest, self.files.values(), timeout=COMMAND_SECONDS)))
                self.assertEqual(found, expected)

    def test_random_seeks(self) -> None:
        seed = 11
        rng = random.Random(seed)
        for path in self.files.values():
            whole = path.read_bytes()
            with path.open("rb", buffering=0) as file:
                for _ in range(2000):
                    offset = rng.randrange(len(whole) + 100)
                    length = rng.choice((1, 7, 8, 100, 4096, 70000))
                    file.seek(offset)
                    self.assertEqual(file.read(length), whole[offset : offset + length],
                                     f"seed {seed}, offset {offset}, length {length}")

    def test_merged_file(self) -> None:
        merged = self.mountpoint / "merged" / "checkpoint_merged.ckpt"
        data = merged.read_bytes()
        self.assertEqual(by_name(data), self.made.merged())
        with mounted(self.made.source, "--src-strategy", self.made.src_strategy,
                     "--dst-strategy", "none") as whole:
            self.assertEqual(rank_files(whole)[0].read_bytes(), data)
        with mounted(self.made.source, "--src-strategy", self.made.src_strategy) as whole:
            self.assertEqual(rank_files(whole)[0].read_bytes(), data)


class Listing(OneMount):
    def test_find(self) -> None:
        listed = command("find", self.mountpoint, "-type", "f", "-printf", "%p %s\\n").splitlines()
        found = {Path(line.rsplit(" ", 1)[0]): int(line.rsplit(" ", 1)[1]) for line in listed}
        self.assertLessEqual(set(self.files.values()), set(found))
        for path, size in found.items():
            self.assertEqual(len(path.read_bytes()), size, path)

    def test_ls_and_du(self) -> None:
        text = command("ls", "-lR", self.mountpoint)
        for rank, path in self.files.items():
            self.assertIn(f"rank_{rank}:", text)
            self.assertIn(path.name, text)
        self.assertNotIn(".reshardfs", text)
        self.assertNotIn(".reshardfs", command("ls", "-a", self.mountpoint))
        total = sum(path.stat().st_size for path in every_file(self.mountpoint))
        apparent = int(command("du", "-sb", self.mountpoint).split()[0])
        directories = sum(p.stat().st_size for p in [self.mountpoint, *self.mountpoint.rglob("*")] if p.is_dir())
        self.assertEqual(apparent, total + directories)
        self.assertGreaterEqual(int(command("du", "-s", "-B1", self.mountpoint).split()[0]), total)

    def test_tar(self) -> None:
        done = subprocess.run(["tar", "c", "-C", self.mountpoint, "."], capture_output=True,
                              timeout=COMMAND_SECONDS, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
            packed = {m.name: archive.extractfile(m).read() for m in archive if m.isfile()}  # type: ignore[union-attr]
        there = {f"./{p.relative_to(self.mountpoint)}": p.read_bytes() for p in every_file(self.mountpoint)}
        self.assertEqual(packed, there)

    def test_names_that_do_not_exist(self) -> None:
        for name in ("rank_4", "rank_00", "nothing", "rank_0/nothing", "rank_0/checkpoint_1.ckpt"):
            for _ in range(2):
                with self.assertRaises(FileNotFoundError):
                    (self.mountpoint / name).stat()

    def test_attributes(self) -> None:
        newest = max(path.stat().st_mtime_ns for path in every_file(self.made.source))
        for path in [self.mountpoint, *self.mountpoint.rglob("*")]:
            info = path.lstat()
            if stat.S_ISDIR(info.st_mode):
                self.assertEqual(stat.S_IMODE(info.st_mode), 0o555, path)
            else:
                self.assertTrue(stat.S_ISREG(info.st_mode), path)
                self.assertEqual(stat.S_IMODE(info.st_mode), 0o444, path)
                self.assertEqual(info.st_nlink, 1, path)
            self.assertEqual(info.st_mtime_ns, newest, path)
            self.assertEqual((info.st_uid, info.st_gid), (os.getuid(), os.getgid()), path)

    def test_inodes(self) -> None:
        def inodes(top: Path) -> dict[str, int]:
            return {str(p.relative_to(top)): p.stat().st_ino for p in [top, *top.rglob("*")]}

        first = inodes(self.mountpoint)
        self.assertEqual(len(set(first.values())), len(first), "two paths share an inode number")
        for directory in (p for p in [self.mountpoint, *self.mountpoint.rglob("*")] if p.is_dir()):
            for entry in os.scandir(directory):
                self.assertEqual(entry.inode(), entry.stat().st_ino, entry.path)
        with mounted(self.made.source, *self.made.options()) as again:
            self.assertEqual(inodes(again), first)

    def test_statfs(self) -> None:
        info = os.statvfs(self.mountpoint)
        total = sum(path.stat().st_size for path in every_file(self.mountpoint))
        self.assertGreaterEqual(info.f_blocks * info.f_frsize, total)
        self.assertEqual((info.f_bfree, info.f_bavail, info.f_ffree), (0, 0, 0))
        self.assertGreaterEqual(info.f_files, len(every_file(self.mountpoint)))
        self.assertTrue(info.f_flag & os.ST_RDONLY)
        self.assertEqual(info.f_namemax, 255)

    def test_mount_options(self) -> None:
        entry = mount_entry(self.mountpoint)
        assert entry is not None
        self.assertLessEqual({"ro", "nosuid", "nodev"}, set(entry[5].split(",")))
        rest = entry[entry.index("-") + 1 :]
        self.assertTrue(rest[0].startswith("fuse"), rest)
        self.assertIn("default_permissions", rest[2].split(","))


class ReadOnly(OneMount):
    def test_every_change_is_erofs(self) -> None:
        top, file = self.mountpoint, self.files[0]
        attempts = {
            "open for writing": lambda: os.open(file, os.O_WRONLY),
            "open for both": lambda: os.open(file, os.O_RDWR),
            "open and truncate": lambda: os.open(file, os.O_WRONLY | os.O_TRUNC),
            "create": lambda: os.open(top / "new", os.O_WRONLY | os.O_CREAT),
            "create in a rank": lambda: os.open(top / "rank_0" / "new", os.O_WRONLY | os.O_CREAT),
            "truncate": lambda: os.truncate(file, 0),
            "unlink": lambda: os.unlink(file),
            "mkdir": lambda: os.mkdir(top / "new"),
            "rmdir": lambda: os.rmdir(top / "rank_0"),
            "rename": lambda: os.rename(file, top / "new"),
            "link": lambda: os.link(file, top / "new"),
            "symlink": lambda: os.symlink("x", top / "new"),
            "mknod": lambda: os.mknod(top / "new"),
            "mkfifo": lambda: os.mkfifo(top / "new"),
            "chmod": lambda: os.chmod(file, 0o644),
            "chown": lambda: os.chown(file, 1, 1),
            "utime": lambda: os.utime(file, (0, 0)),
            "setxattr": lambda: os.setxattr(file, "user.x", b"1"),
        }
        for name, attempt in attempts.items():
            with self.subTest(name), self.assertRaises(OSError) as caught:
                attempt()
            self.assertEqual(errno_name(caught.exception), "EROFS", name)
        self.assertEqual(by_name(file.read_bytes()), self.made.expected(0))


class LargerFiles(OneMount):
    """Files of many megabytes, so that read-ahead and several requests at once take part."""

    SRC = Parallel(tp=4, dp=2)
    DST = Parallel(tp=2, dp=3)
    SCALE = 5000

    def test_sequential_and_random(self) -> None:
        rng = random.Random(3)
        for rank in (0, 3):
            whole = self.files[rank].read_bytes()
            self.assertGreater(len(whole), 4 << 20)
            self.assertEqual(by_name(whole), self.made.expected(rank))
            with self.files[rank].open("rb", buffering=0) as file:
                for _ in range(300):
                    offset = rng.randrange(len(whole))
                    self.assertEqual(os.pread(file.fileno(), 1 << 18, offset), whole[offset : offset + (1 << 18)])

    def test_all_ranks_in_parallel(self) -> None:
        with ProcessPoolExecutor(6) as pool:
            found = list(pool.map(digest, self.files.values(), timeout=COMMAND_SECONDS))
        self.assertEqual(found, [digest(path) for path in self.files.values()])


@contextlib.contextmanager
def small_set(**changes: object) -> Iterator[GeneratedSet]:
    with scratch() as directory:
        yield make_set(directory, Parallel(tp=4), Parallel(tp=2), layers=1, **changes)  # type: ignore[arg-type]


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
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
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
        """A file that is still open when SIGTERM comes stays readable, or fails, but never hangs."""
        with self.live() as mountpoint:
            path = rank_files(mountpoint)[0]
            whole = path.read_bytes()
            with path.open("rb", buffering=0) as file:
                for pid in processes_of(mountpoint):
                    os.kill(pid, signal.SIGTERM)
                self.assertTrue(wait_until(lambda: not is_mounted(mountpoint), 10))
                try:
                    self.assertEqual(file.read(100), whole[:100])
                except OSError as error:
                    self.assertIn(error.errno, (errno.ENOTCONN, errno.ECONNABORTED, errno.EIO))
            assert_gone(mountpoint)

    def test_killed_daemon_can_be_unmounted(self) -> None:
        with self.live() as mountpoint:
            for pid in processes_of(mountpoint):
                os.kill(pid, signal.SIGKILL)
            self.assertTrue(wait_until(lambda: not processes_of(mountpoint), 10))
            self.assertEqual(run("umount", mountpoint).code, 0)
            assert_gone(mountpoint)

    def test_foreground(self) -> None:
        with small_set() as made, scratch() as directory:
            mountpoint = directory / "mnt"
            mountpoint.mkdir()
            for number in (signal.SIGTERM, signal.SIGINT):
                with self.subTest(number.name), mountpoint_guard(mountpoint):
                    words = [Settings.binary, "mount", "-f", made.source, mountpoint, *made.options()]
                    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
                        self.assertTrue(wait_until(lambda: is_mounted(mountpoint), 20))
                        self.assertEqual(processes_of(mountpoint), [process.pid])
                        self.assertEqual(by_name(rank_files(mountpoint)[0].read_bytes()), made.expected(0))
                        process.send_signal(number)
                        self.assertEqual(process.wait(20), 0)
                    assert_gone(mountpoint)


class OrdinaryUser(unittest.TestCase):
    """The same as nobody, through the setuid helper."""

    def test_mount_read_and_unmount(self) -> None:
        if os.geteuid() != 0:
            self.skipTest("needs root to become another user")
        user = 65534
        with small_set() as made, scratch() as directory:
            mountpoint = directory / "mnt"
            mountpoint.mkdir()
            binary = directory / "reshardfs"
            shutil.copy(Settings.binary, binary)
            for path in (made.directory, directory):
                command("chown", "-R", f"{user}:{user}", path)
            as_user = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
            with mountpoint_guard(mountpoint):
                done = subprocess.run(
                    [*as_user, binary, "mount", made.source, mountpoint, *made.options()],
                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                    text=True, timeout=COMMAND_SECONDS, check=False,
                )
                if done.returncode and "/dev/fuse" in done.stderr:
                    self.skipTest(f"users cannot mount here: {done.stderr.strip()}")
                self.assertEqual(done.returncode, 0, done.stderr)
                path = mountpoint / "rank_1" / "checkpoint_1.ckpt"
                self.assertEqual(by_name(command_bytes(*as_user, "cat", path)), made.expected(1))
                owner = command(*as_user, "stat", "-c", "%u:%g:%a", path).strip()
                self.assertEqual(owner, f"{user}:{user}:444")
                with self.assertRaises(PermissionError):  # nobody else may look, root neither
                    path.stat()
                command(*as_user, binary, "umount", mountpoint)
                assert_gone(mountpoint)


def command_bytes(*words: str | Path) -> bytes:
    return subprocess.run([str(word) for word in words], capture_output=True,
                          timeout=COMMAND_SECONDS, check=True).stdout


class ChangedSource(unittest.TestCase):
    """A source that changes under the mount fails the files that need it, and only those."""

    @contextlib.contextmanager
    def equal_layouts(self) -> Iterator[tuple[GeneratedSet, Path]]:
        """Destination rank r reads its tensors from source rank r, and rank 0 alone the rest."""
        with scratch() as directory:
            made = make_set(directory, Parallel(tp=4), Parallel(tp=4), layers=1, scale=2000)
            with mounted(made.source, *made.options()) as mountpoint:
                yield made, mountpoint

    def check_isolated(self, made: GeneratedSet, mountpoint: Path, victim: int, *, may_serve: bool = False) -> None:
        files = rank_files(mountpoint)
        for attempt in range(2):
            for rank, path in files.items():
                if rank != victim:
                    self.assertEqual(by_name(path.read_bytes()), made.expected(rank), f"attempt {attempt}")
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
            words = [os.path.relpath(w, directory) if os.path.isabs(w) else w for w in made.options()]
            source = os.path.relpath(made.source, directory)
            try:
                done = subprocess.run(
                    [Settings.binary, "mount", source, "mnt", *words], cwd=directory,
                    stdin=subprocess.DEVNULL, timeout=COMMAND_SECONDS, check=False,
                )
                self.assertEqual(done.returncode, 0)
                self.assertEqual(by_name(rank_files(mountpoint)[1].read_bytes()), made.expected(1))
                self.assertEqual(run("umount", mountpoint).code, 0)
                self.assertTrue(wait_until(lambda: not is_mounted(mountpoint), 10))
            finally:
                if is_mounted(mountpoint):
                    abort_connection(mountpoint)
                    command("umount", "-l", mountpoint)


if __name__ == "__main__":
    run_unittests()
