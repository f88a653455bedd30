# SPDX-License-Identifier: Apache-2.0
"""What a mount that no longer answers waits for: printed, and the mount ended."""

from __future__ import annotations

import contextlib
import faulthandler
import sys
from pathlib import Path

from mounted import clean_up, mount_entry, processes_of, unless_done


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(errors="replace").splitlines()
    except OSError as error:
        return [str(error)]


def describe(mountpoint: Path) -> str:
    """Requests without an answer, and where each thread of the mount's processes is."""
    lines = []
    entry = mount_entry(mountpoint)
    if entry is None:
        lines.append("nothing is mounted")
    else:
        waiting = Path(f"/sys/fs/fuse/connections/{entry[2].split(':')[1]}/waiting")
        lines.append(f"requests that wait: {' '.join(_lines(waiting))}")
    for pid in processes_of(mountpoint):
        lines.append(f"process {pid}: {' '.join(_lines(Path(f'/proc/{pid}/cmdline'))).replace(chr(0), ' ')}")
        for task in sorted(Path(f"/proc/{pid}/task").iterdir()):
            name, call = (" ".join(_lines(task / what)) for what in ("comm", "syscall"))
            stack = " < ".join(line.partition("] ")[2] for line in _lines(task / "stack"))
            lines.append(f"  {task.name} {name}: {call}: {stack}")
    return "\n".join(lines)


def ended_when_stuck(mountpoint: Path, seconds: float,
                     problems: list[str]) -> contextlib.AbstractContextManager[None]:
    """After this time, tells what the mount waits for, and ends it: whoever waits for it gets an error."""
    def report() -> None:
        problems.append(f"still at work after {seconds:.0f} s")
        with contextlib.suppress(OSError):  # of a process that ends meanwhile
            print(describe(mountpoint), flush=True)
        faulthandler.dump_traceback(sys.stdout, all_threads=True)
        sys.stdout.flush()
        clean_up(mountpoint)

    return unless_done(seconds, report)
