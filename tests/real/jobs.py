# SPDX-License-Identifier: Apache-2.0
"""Cases, and the process in a program's environment that runs them."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from environments import environment

FOLDER = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Form:
    """What a run consists of."""

    short: bool
    seed: int
    pairs: int  # random ones, of each kind


@dataclass(frozen=True)
class Job:
    name: str
    do: str  # module.function in the program's folder
    arguments: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 300.0  # ends one that hangs, and judges nothing
    # Why it fails today, if it does, and a part of what it then says: it fails the run when it passes.
    known: str = ""
    symptom: str = ""


class Worker:
    """One process that does jobs; a new one after a job that ended or hung it."""

    def __init__(self, python: Path, folder: Path, binary: Path, directory: Path, more: Mapping[str, str]) -> None:
        self.command = [str(python), str(FOLDER / "worker/worker.py"), str(folder), str(directory / "log")]
        # The module of a build looks for its command, and the model maps beside it, on the PATH.
        path = f"{binary.parent}:{os.environ.get('PATH', os.defpath)}"
        self.environment = {**environment(), "RESHARDFS": str(binary), "PYTHONDONTWRITEBYTECODE": "1", "PATH": path,
                            "TMPDIR": str(directory), "GLOG_v": "3", **more}
        self.directory = directory
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> subprocess.Popen[bytes]:
        if self.process is None:
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            env=self.environment, cwd=self.directory, start_new_session=True)
        return self.process

    def stop(self) -> None:
        if self.process is not None:
            # It leads a session: its children go with it.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            for pipe in (self.process.stdin, self.process.stdout):
                with contextlib.suppress(OSError):
                    pipe.close()
            self.process.wait()
            self.process = None

    def answer(self, job: Job, directory: Path) -> dict[str, Any]:
        process = self.start()
        line = {"do": job.do, "directory": str(directory), "arguments": dict(job.arguments)}
        try:
            process.stdin.write(json.dumps(line).encode() + b"\n")
            process.stdin.flush()
            with selectors.DefaultSelector() as selector:
                selector.register(process.stdout, selectors.EVENT_READ)
                if not selector.select(job.seconds):
                    self.stop()
                    return {"verdict": "failed", "text": f"no answer within {job.seconds:.0f} s"}
            said = process.stdout.readline()
        except BrokenPipeError:
            said = b""
        if not said:
            code = process.wait()
            self.stop()
            return {"verdict": "failed", "text": f"the worker ended with code {code}; see {self.directory}/log"}
        return json.loads(said)
