# SPDX-License-Identifier: Apache-2.0
"""Runs the cases of one program inside its environment: `worker.py FOLDER LOG`, a job a line on standard input,
an answer a line on standard output.

A job is {"do": "module.function", "directory": ..., "arguments": {...}}; the function, of a module in FOLDER, gets
the directory and the arguments, and returns what it counted, or raises. Importing such a program takes
seconds, so one worker does many jobs. Runs in old Pythons too.
"""

import importlib
import json
import os
import sys
import traceback
from pathlib import Path


class Skip(Exception):
    """The case does not apply here, with the reason."""


def answer_to(job):
    module, function = job["do"].rsplit(".", 1)
    directory = Path(job["directory"])
    try:
        counts = getattr(importlib.import_module(module), function)(directory, **job["arguments"])
        return {"verdict": "passed", "counts": counts or {}}
    except Skip as reason:
        return {"verdict": "skipped", "text": str(reason)}
    except AssertionError as error:
        return {"verdict": "failed", "text": str(error) or traceback.format_exc()}
    except BaseException as error:
        verdict = "crashed" if type(error).__name__ == "Crashed" else "failed"
        return {"verdict": verdict, "text": traceback.format_exc()}


def main():
    folder, log = sys.argv[1:3]
    sys.modules["worker"] = sys.modules["__main__"]  # so that a case raises the same Skip
    sys.path.insert(0, folder)
    # What the program and its children print goes to the log; only answers go to the driver.
    answers = os.fdopen(os.dup(1), "w")
    written = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(written, 1)
    os.dup2(written, 2)
    umask = os.umask(0o022)
    os.umask(umask)
    for line in sys.stdin:
        job = json.loads(line)
        print("==", job["do"], job["arguments"], flush=True)
        os.chdir(job["directory"])  # where programs leave what nobody asked for
        answer = answer_to(job)
        os.umask(umask)
        os.chdir("/")
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    os._exit(0)  # without the program's own ending, which may wait for threads


if __name__ == "__main__":
    main()
