# SPDX-License-Identifier: Apache-2.0
"""A program that reads, in the nodes of cluster_tasks.py: reads the files of a mount again and again, through descriptors
that stay open and through new ones, compares their checksums, and keeps its counts in a file, until SIGTERM.

    cluster_reader.py COUNTS WANTED MOUNTPOINT"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path

PIECE = 1 << 18


class Reader:
    def __init__(self, counts: Path, wanted: dict[str, str], mountpoint: Path) -> None:
        self.counts, self.wanted, self.mountpoint = counts, wanted, mountpoint
        self.kept: dict[str, int] = {}
        self.verified = self.wrong = self.bytes = 0
        self.longest = 0.0
        self.errors: Counter[str] = Counter()
        self.ends = False
        signal.signal(signal.SIGTERM, self.end)

    def end(self, *_: object) -> None:
        self.ends = True

    def tell(self) -> None:
        new = self.counts.with_suffix(".new")
        new.write_text(json.dumps({"pid": os.getpid(), "verified": self.verified, "wrong": self.wrong, "bytes": self.bytes,
                                   "longest": self.longest, "errors": self.errors}))
        new.rename(self.counts)

    def compare(self, file: int, name: str) -> None:
        # Not from the pages that the kernel has.
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        digest, at = hashlib.sha256(), 0
        while True:
            begin = time.monotonic()
            piece = os.pread(file, PIECE, at)
            self.longest = max(self.longest, time.monotonic() - begin)
            if not piece:
                break
            digest.update(piece)
            at += len(piece)
        self.bytes += at
        if digest.hexdigest() == self.wanted[name]:
            self.verified += 1
        else:
            self.wrong += 1

    def read(self, name: str) -> None:
        path = self.mountpoint / name
        try:
            if name not in self.kept:
                self.kept[name] = os.open(path, os.O_RDONLY)
            self.compare(self.kept[name], name)
            fresh = os.open(path, os.O_RDONLY)
            try:
                self.compare(fresh, name)
            finally:
                os.close(fresh)
        except OSError as error:
            self.errors[errno.errorcode[error.errno or 0]] += 1
            if name in self.kept:
                os.close(self.kept.pop(name))
            time.sleep(0.2)

    def run(self) -> None:
        while not self.ends:
            for name in self.wanted:
                if not self.ends:
                    self.read(name)
                    self.tell()
                    time.sleep(0.1)  # others want the processor, too


def main() -> None:
    counts, wanted, mountpoint = map(Path, sys.argv[1:])
    Reader(counts, json.loads(wanted.read_text()), mountpoint).run()


main()
