# SPDX-License-Identifier: Apache-2.0
"""Real programs read a real mount: every way of reading must give the expected bytes."""

from __future__ import annotations

import contextlib
import hashlib
import io
import mmap
import os
import random
import stat
import subprocess
import sys
import tarfile
import unittest
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

import numpy as np  # noqa: E402
from ckpt_format import NUMPY_TYPES, by_name, encode_checkpoint  # noqa: E402
from make_checkpoint import GeneratedSet, Parallel, make_set, rank_records  # noqa: E402
from mounted import (  # noqa: E402
    COMMAND_SECONDS,
    command,
    errno_name,
    mount_entry,
    mounted,
    rank_files,
    run_unittests,
    scratch,
)
from strategy_files import proto_module  # noqa: E402


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
                found = pool.map(digest, self.files.values(), timeout=COMMAND_SECONDS)
                self.assertEqual(dict(zip(self.files, found)), expected)

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
        paths = [self.mountpoint, *self.mountpoint.rglob("*")]
        directories = sum(path.stat().st_size for path in paths if path.is_dir())
        self.assertEqual(apparent, total + directories)
        self.assertGreaterEqual(int(command("du", "-s", "-B1", self.mountpoint).split()[0]), total)

    def test_tar(self) -> None:
        done = subprocess.run(["tar", "c", "-C", self.mountpoint, "."], capture_output=True,
                              timeout=COMMAND_SECONDS, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
            unpacked = {}
            for member in archive:
                file = archive.extractfile(member)
                if file is not None:
                    unpacked[self.mountpoint / member.name] = file.read()
        self.assertEqual(unpacked, {p: p.read_bytes() for p in every_file(self.mountpoint)})

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


@unittest.skipUnless(os.geteuid() == 0, "only root can set the read-ahead")
class ReadAhead(unittest.TestCase):
    """More for a source on a FUSE file system, whose reads may wait."""

    def read_ahead(self, mountpoint: Path) -> int:
        device = os.stat(mountpoint).st_dev
        setting = f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}/read_ahead_kb"
        return int(Path(setting).read_text())

    def test_depends_on_the_source(self) -> None:
        with scratch() as directory:
            made = make_set(directory, Parallel(tp=2), Parallel(), layers=1)
            with mounted(made.source, *made.options()) as first:
                self.assertEqual(self.read_ahead(first), 1024)
                whole = first / "merged/checkpoint_merged.ckpt"
                with mounted(whole) as second:
                    self.assertEqual(self.read_ahead(second), 4096)
                with mounted(whole, "--read-ahead-kb", "256") as second:
                    self.assertEqual(self.read_ahead(second), 256)


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
                    got = os.pread(file.fileno(), 1 << 18, offset)
                    self.assertEqual(got, whole[offset : offset + (1 << 18)])

    def test_all_ranks_in_parallel(self) -> None:
        with ProcessPoolExecutor(6) as pool:
            found = list(pool.map(digest, self.files.values(), timeout=COMMAND_SECONDS))
        self.assertEqual(found, [digest(path) for path in self.files.values()])


if __name__ == "__main__":
    run_unittests()
