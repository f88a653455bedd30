# SPDX-License-Identifier: Apache-2.0
"""Running the command `reshardfs`: a mount outlives calls, so that it has a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from ._errors import Error, of_message
from ._program import program
from ._words import in_python

# So long a command that was interrupted may take to end by itself.
_GRACE_SECONDS = 0.1


def run(words: Sequence[str | bytes]) -> None:
    """Runs the command to its end. Raises Error with its words if it fails."""
    # Files, not pipes: what it leaves in the background may keep them open.
    with tempfile.TemporaryFile() as messages, tempfile.TemporaryFile() as complaints:
        process: subprocess.Popen[bytes] | None = None
        try:
            with _interrupts_at_end():
                process = subprocess.Popen(
                    [program(), *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=complaints,
                    pass_fds=(messages.fileno(),), env={**os.environ, "RESHARDFS_MESSAGES": str(messages.fileno())})
            code = process.wait()
        except BaseException:
            if process is not None:
                _end(process)
            raise
        if code == 0:
            return
        messages.seek(0)
        for line in messages:
            if "error" in (message := json.loads(line)):
                raise of_message(message["error"])
        if code < 0:
            raise Error(f"the command was ended by signal {-code}", "internal")
        complaints.seek(0)
        complaint = complaints.read().decode(errors="replace").strip().removeprefix("reshardfs: ")
        raise Error(in_python(complaint) or f"the command ended with exit code {code}",
                    "bad input" if code == 2 else "io")


@contextmanager
def _interrupts_at_end() -> Iterator[None]:
    """Ctrl-C while a process starts would leave it behind: it is handled when the process is known."""
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler) or threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: came.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if came:
            handler(*came[0])


def _end(process: subprocess.Popen[bytes]) -> None:
    """As Ctrl-C ends it; a command that does not hear is ended for it, and waited for elsewhere."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGINT)
    try:
        process.wait(_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        threading.Thread(target=process.wait, daemon=True).start()
