# SPDX-License-Identifier: Apache-2.0
"""A network of its own for a test: a server behind a link that loses packets. Needs root, iproute2
and nftables; where they are missing, whoever asks for it is skipped.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import shutil
import subprocess
import threading
import unittest
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

Made = TypeVar("Made")
CLONE_NEWNET = 0x40000000
# A namespace that is deleted stays until its last socket is closed.
numbers = itertools.count()


def call(*words: str, text: str | None = None) -> None:
    done = subprocess.run(words, input=text, text=True, capture_output=True, check=False, timeout=60)
    if done.returncode != 0:
        raise OSError(f"{' '.join(words)}: {done.stderr}")


@dataclass
class Network:
    name: str
    address: str  # of the other side

    def inside(self, make: Callable[[], Made]) -> Made:
        """What is made on the other side of the link: a socket stays there."""
        made: list[Made] = []
        failures: list[BaseException] = []

        def run() -> None:
            try:
                with Path(f"/run/netns/{self.name}").open("rb") as namespace:
                    libc = ctypes.CDLL(None, use_errno=True)
                    if libc.setns(namespace.fileno(), CLONE_NEWNET) != 0:
                        raise OSError(ctypes.get_errno(), "setns")
                made.append(make())
            except BaseException as error:  # noqa: BLE001: told by the thread that asked
                failures.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        if failures:
            raise failures[0]
        return made[0]

    def rules(self, text: str) -> None:
        """Packets that arrive on the other side and leave it, in chains "in" and "out"."""
        call("ip", "netns", "exec", self.name, "nft", "-f", "-", text=text)

    def drop(self, condition_in: str, condition_out: str) -> None:
        self.rules(f"add rule inet link in {condition_in} drop\n"
                   f"add rule inet link out {condition_out} drop\n")


@contextlib.contextmanager
def network() -> Iterator[Network]:
    missing = [name for name in ("ip", "nft") if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        raise unittest.SkipTest(f"needs root, and {', '.join(missing) or 'nothing else'}")
    number = next(numbers)
    name = f"reshardfs-{os.getpid()}-{number}"
    here, there = f"a{os.getpid()}-{number}", f"b{os.getpid()}-{number}"
    # Addresses for measurements, which are nobody's (RFC 2544). Tests may run side by side.
    net = f"198.18.{os.getpid() % 256}"
    mine, address = (f"{net}.{4 * (number % 64) + end}" for end in (1, 2))
    with contextlib.ExitStack() as stack:
        try:
            call("ip", "netns", "add", name)
            stack.callback(call, "ip", "netns", "del", name)
            call("ip", "link", "add", here, "type", "veth", "peer", "name", there, "netns", name)
            stack.callback(call, "ip", "link", "del", here)
            call("ip", "addr", "add", f"{mine}/30", "dev", here)
            call("ip", "link", "set", here, "up")
            call("ip", "-n", name, "addr", "add", f"{address}/30", "dev", there)
            call("ip", "-n", name, "link", "set", there, "up")
            made = Network(name, address)
            made.rules("add table inet link\n"
                       "add chain inet link in { type filter hook input priority 0; }\n"
                       "add chain inet link out { type filter hook output priority 0; }\n")
        except OSError as error:
            raise unittest.SkipTest(f"there is no network to be had: {error}") from error
        yield made
