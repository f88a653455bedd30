# SPDX-License-Identifier: Apache-2.0
"""mount --passthrough: the kernel reads files that equal a source file by itself, and all others
come to the daemon as ever; a source that changes is told of. Where the kernel or libfuse cannot do
it, one line says so and the mount works."""

from __future__ import annotations

import errno
import mmap
import os
import re
import sys
import threading
import unittest
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from ckpt_format import encode_checkpoint, record_of  # noqa: E402
from layouts import Layout, shard  # noqa: E402
from mounted import mounted, run_unittests, scratch, wait_until  # noqa: E402
from strategy_files import Strategy, write_protobuf  # noqa: E402

ROWS = Layout((2,), ((0,), ()))
FULL = np.random.default_rng(1).integers(0, 256, (64, 65536), dtype=np.uint8)
DATA = encode_checkpoint([record_of("w", "UInt8", FULL)])
EQUAL = "merged/checkpoint_merged.ckpt"
CUT = "rank_1/checkpoint_1.ckpt"
CUT_END = np.ascontiguousarray(shard(FULL, ROWS, 1)).tobytes()
REFUSAL = "no passthrough: "
# More than all headers together, and less than any tensor.
HEADERS = 4096


class Shown:
    """A mount of one file under two ranks."""

    def __init__(self, root: Path, source: Path, log: Path) -> None:
        self.root, self.source = root, source
        self._log = log

    def log(self) -> list[str]:
        return self._log.read_text().splitlines() if self._log.exists() else []

    def told(self, *words: str) -> bool:
        """Whether a line of the log has all words, soon."""
        return wait_until(
            lambda: any(all(word in line for word in words) for line in self.log()))

    def source_bytes(self) -> int:
        """What the daemon has read of the source."""
        text = (self.root / ".reshardfs/metrics").read_text()
        found = re.findall(r"^reshardfs_source_read_bytes_total\{.*\} (\d+)$", text, re.MULTILINE)
        assert found, text
        return sum(map(int, found))


@contextmanager
def shown(*options: str) -> Iterator[Shown]:
    with scratch() as directory:
        source = directory / "m.ckpt"
        source.write_bytes(DATA)
        write_protobuf(Strategy([{"w": ROWS}]), directory / "dst.ckpt")
        with mounted(source, "--dst-strategy", directory / "dst.ckpt", "--log-file",
                     directory / "log", *options) as root:
            yield Shown(root, source, directory / "log")


class WithOrWithout(unittest.TestCase):
    """What holds everywhere."""

    def test_every_file_has_its_bytes(self) -> None:
        with shown("--passthrough") as mount:
            self.assertEqual((mount.root / EQUAL).read_bytes(), DATA)
            self.assertTrue((mount.root / CUT).read_bytes().endswith(CUT_END))
            self.assertEqual((mount.root / EQUAL).read_bytes(), DATA)
            refusals = [line for line in mount.log() if REFUSAL in line]
            self.assertLessEqual(len(refusals), 1, refusals)
            self.assertEqual(mount.log(), refusals)

    def test_it_is_off_unless_asked_for(self) -> None:
        with shown() as mount:
            before = mount.source_bytes()
            self.assertEqual((mount.root / EQUAL).read_bytes(), DATA)
            self.assertGreaterEqual(mount.source_bytes() - before, len(DATA) - HEADERS)
            self.assertEqual(mount.log(), [])


class Passthrough(unittest.TestCase):
    def setUp(self) -> None:
        with shown("--passthrough") as mount:
            refusals = [line for line in mount.log() if REFUSAL in line]
        if refusals:
            self.skipTest(refusals[0].split(REFUSAL)[1])

    def test_the_kernel_reads_an_equal_file(self) -> None:
        for options in (["--passthrough"], ["-o", "passthrough"], ["--passthrough", "--direct-io"]):
            with self.subTest(options=options), shown(*options) as mount:
                before = mount.source_bytes()
                with open(mount.root / EQUAL, "rb", buffering=0) as file:
                    self.assertEqual(os.pread(file.fileno(), len(DATA), 0), DATA)
                    self.assertEqual(os.pread(file.fileno(), 10, len(DATA) - 3), DATA[-3:])
                    self.assertEqual(os.pread(file.fileno(), 10, len(DATA)), b"")
                    with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
                        self.assertEqual(mapped[:], DATA)
                    self.assertEqual(os.fstat(file.fileno()).st_size, len(DATA))
                self.assertLess(mount.source_bytes() - before, HEADERS)

    def test_other_files_come_to_the_daemon(self) -> None:
        with shown("--passthrough") as mount:
            with open(mount.root / EQUAL, "rb"):
                before = mount.source_bytes()
                self.assertTrue((mount.root / CUT).read_bytes().endswith(CUT_END))
                self.assertGreaterEqual(mount.source_bytes() - before, len(CUT_END))

    def test_all_openings_of_a_file_are_alike(self) -> None:
        """The kernel refuses (EIO) a file that is opened in two ways at once."""
        wrong: list[str] = []

        def read(path: Path) -> None:
            try:
                for _ in range(50):
                    with open(path, "rb", buffering=0) as file:
                        if os.pread(file.fileno(), 8192, 100) != DATA[100:8292]:
                            wrong.append("wrong bytes")
            except OSError as error:
                wrong.append(str(error))

        with shown("--passthrough") as mount:
            before = mount.source_bytes()
            threads = [threading.Thread(target=read, args=(mount.root / EQUAL,)) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
            self.assertEqual(wrong, [])
            self.assertLess(mount.source_bytes() - before, HEADERS)

    def test_a_changed_source_cannot_be_opened(self) -> None:
        with shown("--passthrough") as mount:
            path = mount.root / EQUAL
            self.assertEqual(path.read_bytes(), DATA)
            os.truncate(mount.source, len(DATA) // 2)
            with self.assertRaises(OSError) as caught:
                path.read_bytes()
            self.assertEqual(caught.exception.errno, errno.ESTALE)
            self.assertTrue(mount.told("open of", EQUAL, "has become shorter"), mount.log())

    def test_a_change_of_an_open_file_is_told_of_when_it_is_closed(self) -> None:
        with shown("--passthrough") as mount:
            with open(mount.root / EQUAL, "rb", buffering=0) as file:
                with open(mount.source, "r+b") as source:
                    source.seek(len(DATA) - 4)
                    source.write(b"\0\1\2\3")
                # What the manual says: such a file is the source as it is now.
                self.assertEqual(os.pread(file.fileno(), 4, len(DATA) - 4), b"\0\1\2\3")
                os.truncate(mount.source, 1000)
                self.assertEqual(len(os.pread(file.fileno(), 4096, 0)), 1000)
            self.assertTrue(mount.told("passthrough of", EQUAL, "while it was in use"), mount.log())

    def test_a_deleted_source_is_still_there(self) -> None:
        with shown("--passthrough") as mount:
            mount.source.unlink()
            self.assertEqual((mount.root / EQUAL).read_bytes(), DATA)


if __name__ == "__main__":
    run_unittests()
