#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares reshardfs with what people use in its place, in one run: the same job by each of them.

A job leads from a checkpoint of 8 ranks to tensors in the memory of 4 ranks that cut otherwise, or of one process
that wants the whole model. Each way is done --rounds times, by turns with the others of its job, after one round
that does not count. The tensors' checksums are compared; other bytes are an error (exit code 1). Prints tables in
Markdown: medians, with the least and the most in brackets; in the last column, the time until all is loaded over that
of the mount in the same round. The sources are in the page cache. Clocks begin when all programs have imported what
they need, and the ranks of a job have met. The table of docs/performance.md is what this printed:

    PYTHONPATH=build/release/python tests/bench/compare.py --binary build/release/bin/reshardfs --real \\
        --hidden 1024 --rounds 5 --scratch /dev/shm

This interpreter needs NumPy, protobuf and protoc, and for the ways "module" the module reshardfs
(PYTHONPATH=build/release/python). The other programs are those that tests/real has installed; --real installs them.
--torch-python and --mindspore-python name other Pythons; of several with PyTorch, the first loads files. A way for
which something is missing is named and left out. Such a command may run in another root, which must see this
checkout and the scratch directory at the same paths, and mounts in it that are made later:

    unshare --mount --propagation shared tests/bench/compare.py --binary build/release/bin/reshardfs \\
        --torch-python "tests/support/in_chroot.sh DIRECTORY python3"
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import shutil
import signal
import statistics
import sys
import tempfile
from dataclasses import fields
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integration"))

from bench_sets import MIB  # noqa: E402
from cached_programs import cached_python  # noqa: E402
from compare_jobs import JOBS, Bench, Job, Torch, skipped  # noqa: E402
from compare_model import make_model  # noqa: E402
from compare_runs import Figures, Worker, WrongBytes  # noqa: E402
from mounted import SKIP, fuse_problem  # noqa: E402

DIGITS = {"first": 3, "whole": 2, "cpu": 2, "memory": 0, "disk": 0}
HEAD = ("way", "first tensor, s", "all tensors, s", "CPU, s", "memory, MiB", "files, MiB", "time / mount's")

# --- the table ---------------------------------------------------------------------------------


def cell(values: list[float], digits: int) -> str:
    least, most = (f"{value:,.{digits}f}" for value in (min(values), max(values)))
    middle = f"{statistics.median(values):,.{digits}f}"
    return middle if least == most else f"{middle} ({least} to {most})"


def print_table(job: Job) -> None:
    print(f"\n**{job.title}**\n\n| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}")
    (mounts,) = (way.samples for way in job.ways if way.mount)
    for way in job.ways:
        cells = [cell([getattr(figures, key.name) for figures in way.samples], DIGITS[key.name])
                 for key in fields(Figures)]
        # Of the same round: what else the machine does slows both.
        cells.append(cell([ours.whole / mount.whole for ours, mount in zip(way.samples, mounts)], 2))
        print(f"| {way.name} | {' | '.join(cells)} |")
    sys.stdout.flush()


# --- the run -----------------------------------------------------------------------------------


def start_peer(command: str, module: str, stack: contextlib.ExitStack) -> Torch | None:
    """Nothing, with a line that says why, where the module of version 2 or later, or safetensors, is missing."""
    try:
        workers = [stack.enter_context(contextlib.closing(Worker(shlex.split(command)))) for _ in range(2)]
    except (OSError, RuntimeError) as error:
        print(f"\nLeft out: all of `{command}`: {error}", flush=True)
        return None
    has = workers[0].has
    if int(has.get(module, "0").partition(".")[0]) < 2 or "safetensors" not in has:
        print(f"\nLeft out: all of `{command}`: it has no {module} 2, or no safetensors", flush=True)
        return None
    return Torch(*workers)


def run(args: argparse.Namespace, scratch: Path, stack: contextlib.ExitStack) -> None:
    converter, loader = (stack.enter_context(contextlib.closing(Worker([sys.executable]))) for _ in range(2))
    torches = [found for command in args.torch_python if (found := start_peer(command, "torch", stack)) is not None]
    peer = start_peer(args.mindspore_python, "mindspore", stack) if args.mindspore_python else None
    model = make_model(scratch / "model", args.layers, args.hidden)
    setup = {"model": str(scratch / "model"), "meeting": str(scratch / "meeting"), "layers": args.layers,
             "hidden": args.hidden}
    bench = Bench(args.binary.resolve(), scratch, model, setup, converter, loader, torches, peer, args.rounds,
                  args.self_test, print_table)
    print(f"{model.nbytes / MIB:,.1f} MiB in {len(model.arrays)} float32 tensors, {args.rounds} rounds; "
          + (", ".join(torch.version for torch in torches) or "no PyTorch"), flush=True)
    for name in args.jobs.split(","):
        if not name.startswith("mindspore") and not torches:
            skipped(name, "all ways", "no --torch-python has PyTorch 2")
            continue
        JOBS[name](bench)


def main() -> int:
    # So that a run which is stopped unmounts too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, required=True, help="the reshardfs program")
    parser.add_argument("--torch-python", action="append", metavar="COMMAND",
                        help="a Python with PyTorch 2 and safetensors, and for their ways DeepSpeed and verl; may be "
                             "given several times; default: what RESHARDFS_TORCH is in the environment, or that of "
                             "tests/real")
    parser.add_argument("--mindspore-python", metavar="COMMAND", default=os.environ.get("RESHARDFS_MINDSPORE"),
                        help="a Python with MindSpore 2 and safetensors; default: what RESHARDFS_MINDSPORE is in the "
                             "environment, or that of tests/real")
    parser.add_argument("--real", action="store_true", help="install those of tests/real where they are missing")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--layers", type=int, default=4, help="of the model")
    parser.add_argument("--hidden", type=int, default=2048, help="its width, a multiple of 8; the default is 1.1 GiB")
    parser.add_argument("--jobs", default=",".join(JOBS), help=f"of {', '.join(JOBS)}; default: all")
    parser.add_argument("--scratch", help="a directory for the files; default: the system's")
    parser.add_argument("--self-test", action="store_true",
                        help="change a number of each source, which each way must be found to load; no figures")
    args = parser.parse_args()
    args.torch_python = args.torch_python or [word for word in [os.environ.get("RESHARDFS_TORCH")] if word] or (
        cached_python("transformers-5.24.0", install=args.real))
    args.mindspore_python = args.mindspore_python or " ".join(cached_python("mindspore-2.10.0", install=args.real))
    if args.rounds < 1 or args.layers < 1 or args.hidden < 8 or args.hidden % 8:
        parser.error("--rounds and --layers are 1 or more, --hidden is a multiple of 8")
    if unknown := set(args.jobs.split(",")) - JOBS.keys():
        parser.error(f"no such job: {', '.join(sorted(unknown))}")
    if problem := fuse_problem():
        print(f"skipped: {problem}")
        return SKIP
    scratch = Path(tempfile.mkdtemp(prefix="reshardfs-compare-", dir=args.scratch)).resolve()
    try:
        with contextlib.ExitStack() as stack:
            run(args, scratch, stack)
    except WrongBytes as error:
        print(f"compare.py: {error}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
