# SPDX-License-Identifier: Apache-2.0
"""Mounts and unmounts many times in a row, also with readers, signals and lazy unmounts, and checks
after each round that nothing is left; then that a long-lived mount does not grow.

    life_cycle_rounds.py --binary build/release/bin/reshardfs --rounds 1000
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from ckpt_format import by_name  # noqa: E402
from make_checkpoint import GeneratedSet, Parallel, make_set  # noqa: E402
from mounted import (  # noqa: E402
    assert_gone,
    command,
    is_mounted,
    is_sanitized,
    mountpoint_guard,
    parse_settings,
    processes_of,
    program_of,
    rank_files,
    run,
    scratch,
    wait_until,
)

READERS = 3
WARMING = 16
# What the daemon may grow by, from when it is warm until the end: a leak of a few bytes for each of
# tens of thousands of requests is more.
GROWTH_KIB = 512
# Save for a thread that had nothing to do before: its stack and buffers.
THREAD_KIB = 2304
MOST_THREADS = 48


class Readers:
    """Threads of this process that open, read and list until they are told to end."""

    def __init__(self, mountpoint: Path, expected: bytes, seed: int) -> None:
        self.wrong: list[str] = []
        self._ending = threading.Event()
        self._mountpoint = mountpoint
        self._expected = expected
        self._threads = [threading.Thread(target=self._work, args=(seed + i,)) for i in range(READERS)]
        for thread in self._threads:
            thread.start()

    def _work(self, seed: int) -> None:
        rng = random.Random(seed)
        path = self._mountpoint / "rank_0/checkpoint_0.ckpt"
        while not self._ending.is_set():
            try:
                with path.open("rb", buffering=0) as file:
                    for _ in range(20):
                        at = rng.randrange(len(self._expected))
                        got = os.pread(file.fileno(), rng.randrange(1, 1 << 16), at)
                        if got != self._expected[at:at + len(got)] or not got:
                            self.wrong.append(f"wrong bytes at {at}")
                    os.listdir(self._mountpoint / "merged/params")
            except OSError:
                # The mount is going or gone; what counts is that no call waits for ever.
                time.sleep(0.001)

    def end(self) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in self._threads), "a reader still waits"
        assert not self.wrong, self.wrong[0]


def end_by_command(mountpoint: Path) -> None:
    result = run("umount", mountpoint)
    # Readers keep it in use: then it is unmounted as soon as they have gone.
    if result.code:
        assert "in use" in result.stderr, result.stderr
        command("umount", "-l", mountpoint)


def end_lazily(mountpoint: Path) -> None:
    command("umount", "-l", mountpoint)


def end_by_signal(number: signal.Signals) -> Callable[[Path], None]:
    def end(mountpoint: Path) -> None:
        for pid in processes_of(mountpoint):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    return end


def end_by_kill(mountpoint: Path) -> None:
    """As the kernel does it where memory runs out: then the user has to unmount."""
    end_by_signal(signal.SIGKILL)(mountpoint)
    assert wait_until(lambda: not processes_of(mountpoint)), "it outlives SIGKILL"
    end_by_command(mountpoint)


ENDS: dict[str, Callable[[Path], None]] = {
    "umount": end_by_command,
    "lazy": end_lazily,
    "SIGTERM": end_by_signal(signal.SIGTERM),
    "SIGINT": end_by_signal(signal.SIGINT),
    "SIGKILL": end_by_kill,
}


class Leftovers:
    """What was there before the rounds, and what is there that was not."""

    def __init__(self) -> None:
        self._before = self._now()

    @staticmethod
    def _now() -> dict[str, set[str]]:
        mounts = {line for line in Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines()
                  if "reshardfs-test-" in line}
        with contextlib.suppress(OSError):
            names = {name for name in os.listdir(tempfile.gettempdir()) if "reshardfs" in name}
        runtime = Path(os.environ.get("XDG_RUNTIME_DIR", "/run")) / "reshardfs"
        files = {str(path) for path in runtime.rglob("*")} if runtime.is_dir() else set()
        return {"mounts": mounts, "temporary files": names, "runtime files": files,
                "threads": {thread.name for thread in threading.enumerate()},
                "descriptors": {f"{fd}" for fd in os.listdir("/proc/self/fd")}}

    def _new(self, ours: str) -> dict[str, set[str]]:
        found = {kind: {item for item in now - self._before[kind]
                        if kind in ("threads", "descriptors") or ours in item}
                 for kind, now in self._now().items()}
        return {kind: items for kind, items in found.items() if items}

    def check(self, ours: str) -> None:
        """@param ours what other programs on this machine have is not looked at."""
        # A thread that has been told to end takes a moment.
        assert wait_until(lambda: not self._new(ours)), f"left behind: {self._new(ours)}"


def mount_once(made: GeneratedSet, mountpoint: Path) -> None:
    result = run("mount", made.source, mountpoint, *made.options())
    assert result.code == 0, result.stderr
    assert is_mounted(mountpoint)


def one_round(made: GeneratedSet, mountpoint: Path, whole: bytes, how: str, readers: bool,
              seed: int) -> None:
    mount_once(made, mountpoint)
    assert (mountpoint / "rank_0/checkpoint_0.ckpt").stat().st_size == len(whole)
    if not readers:
        assert (mountpoint / "rank_0/checkpoint_0.ckpt").read_bytes() == whole
        ENDS[how](mountpoint)
    else:
        threads = Readers(mountpoint, whole, seed)
        try:
            time.sleep(random.Random(seed).uniform(0, 0.03))
            ENDS[how](mountpoint)
        finally:
            threads.end()
    assert_gone(mountpoint)


def rounds(made: GeneratedSet, count: int, seed: int) -> None:
    rng = random.Random(seed)
    done: Counter[str] = Counter()
    begin = time.monotonic()
    slowest = 0.0
    with scratch() as directory:
        mountpoint = directory / "mnt"
        mountpoint.mkdir()
        mount_once(made, mountpoint)
        whole = rank_files(mountpoint)[0].read_bytes()
        assert by_name(whole) == made.expected(0)
        end_by_command(mountpoint)
        assert_gone(mountpoint)
        leftovers = Leftovers()
        for number in range(count):
            # Each way to end comes with and without readers, in an order that the seed gives.
            how = list(ENDS)[number % len(ENDS)]
            readers = number // len(ENDS) % 2 == 1
            start = time.monotonic()
            try:
                with mountpoint_guard(mountpoint):
                    one_round(made, mountpoint, whole, how, readers, rng.randrange(1 << 30))
                leftovers.check(directory.name)
                assert os.listdir(directory) == ["mnt"] and not os.listdir(mountpoint)
            except BaseException:
                print(f"round {number}: {how}, {'with' if readers else 'without'} readers, seed {seed}",
                      flush=True)
                raise
            slowest = max(slowest, time.monotonic() - start)
            done[how + (" with readers" if readers else "")] += 1
    if count:
        mean = (time.monotonic() - begin) / count
        print(f"{count} rounds, {mean * 1000:.0f} ms each, {slowest * 1000:.0f} ms the slowest: "
              + ", ".join(f"{n} {what}" for what, n in sorted(done.items())), flush=True)


# --- one mount that lives long ----------------------------------------------------------------


def state_of(pid: int) -> dict[str, int]:
    """Memory of its own in KiB, descriptors and threads."""
    private = 0
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith(("Private_Dirty:", "Swap:")):
            private += int(line.split()[1])
    return {"KiB": private, "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
            "threads": len(os.listdir(f"/proc/{pid}/task"))}


def use(mountpoint: Path, times: int) -> None:
    """Opens, reads, listings, attributes, and names that do not exist."""
    files = [path for path in mountpoint.rglob("*") if path.is_file()]
    hidden = [mountpoint / ".reshardfs" / name for name in ("status.json", "metrics", "plan.json")]
    rng = random.Random(times)
    for number in range(times):
        path = rng.choice(files)
        with path.open("rb", buffering=0) as file:
            os.pread(file.fileno(), 1 << 16, rng.randrange(max(path.stat().st_size, 1)))
        os.listdir(path.parent)
        with contextlib.suppress(OSError):
            os.getxattr(path, "user.reshardfs.source")
        with contextlib.suppress(FileNotFoundError):
            (mountpoint / f"nothing{number}").stat()
        if number % 50 == 0:
            for control in hidden:
                control.read_bytes()
            # The kernel forgets, and asks again.
            Path("/proc/sys/vm/drop_caches").write_text("2") if os.geteuid() == 0 else None


@contextlib.contextmanager
def long_lived(made: GeneratedSet, *options: str) -> Iterator[Path]:
    with scratch() as directory:
        mountpoint = directory / "mnt"
        mountpoint.mkdir()
        with mountpoint_guard(mountpoint):
            result = run("mount", made.source, mountpoint, *made.options(), *options)
            assert result.code == 0, result.stderr
            yield mountpoint
            assert run("umount", mountpoint).code == 0
            assert_gone(mountpoint)


def stays_flat(made: GeneratedSet, times: int) -> None:
    with long_lived(made, "--direct-io", "--params", "--format", "ckpt,safetensors") as mountpoint:
        (pid,) = processes_of(mountpoint)
        # Until everything that is kept is there: each of the daemon's threads with its buffers too,
        # however many reads the machine has let be under way at once so far.
        least = 0
        for _ in range(20):
            with ThreadPoolExecutor(WARMING) as pool:
                for done in [pool.submit(use, mountpoint, times // 4 + i) for i in range(WARMING)]:
                    done.result()
            if state_of(pid)["KiB"] <= least:
                break
            least = state_of(pid)["KiB"]
        warm = state_of(pid)
        for _ in range(3):
            use(mountpoint, times)
        end = state_of(pid)
        print(f"one mount, {3 * times} opens, reads and listings: warm {warm}, at the end {end}", flush=True)
        more_threads = max(0, end["threads"] - warm["threads"])
        grown = end["KiB"] - warm["KiB"]
        # A sanitizer keeps for a while what was freed.
        assert is_sanitized(program_of(pid)) or grown <= GROWTH_KIB + more_threads * THREAD_KIB, \
            f"{grown} KiB more"
        assert end["descriptors"] <= warm["descriptors"] + 1, (warm, end)
        assert end["threads"] <= MOST_THREADS, (warm, end)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--uses", type=int, default=1500,
                        help="opens of the mount that lives long until it is warm; then three times as many")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    settings = parse_settings(parser)
    print(f"seed {settings.seed}", flush=True)
    with scratch() as directory:
        made = make_set(directory, Parallel(tp=4), Parallel(tp=2), layers=1, scale=50)
        rounds(made, settings.rounds, settings.seed)
        stays_flat(made, settings.uses)


if __name__ == "__main__":
    main()
