#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares reshardfs with what people use in its place, in one run: the same job by each of them.

A job leads from a checkpoint of 8 ranks to tensors in the memory of 4 ranks that cut otherwise, or of one process
that wants the whole model. Each way is done --rounds times, by turns with the others of its job, after one round
that does not count. The tensors' checksums are compared; other bytes are an error (exit code 1). Prints tables in
Markdown: medians, and the least and the most in brackets. The sources are in the page cache. Clocks begin when all
programs have imported what they need, and the ranks of a job have met.

This interpreter needs NumPy, protobuf and protoc, and for the ways "module" the module reshardfs
(PYTHONPATH=build/release/python). --torch-python is the command of one with PyTorch 2 and safetensors, such as
"python3"; several may be given, the first of which loads files. --mindspore-python is that of one with MindSpore 2
and safetensors 0.7. A way for which something is missing is named and
left out. Such a command may run in another root, which must see this checkout and the scratch directory at the
same paths, and mounts in it that are made later:

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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integration"))

from bench_readers import read_hot  # noqa: E402
from bench_sets import MIB  # noqa: E402
from compare_model import Model, checksum, make_model  # noqa: E402
from compare_runs import Figures, Gauge, Load, Mount, Way, Worker, WrongBytes, measure, run_program  # noqa: E402
from compare_tasks import CONSOLIDATION  # noqa: E402
from deepspeed_sets import Spec, write_set  # noqa: E402
from layouts import Layout  # noqa: E402
from mounted import SKIP, fuse_problem  # noqa: E402
from strategy_files import Strategy, write_protobuf  # noqa: E402

SOURCE_RANKS, TARGET_RANKS = 8, 4
DIGITS = {"first": 3, "whole": 2, "cpu": 2, "memory": 0, "disk": 0}
HEAD = ("way", "first tensor, s", "all tensors, s", "CPU, s", "memory, MiB", "files, MiB")
Options = Sequence[str | Path]


@dataclass
class Peer:
    """An interpreter with a program: one worker converts while the other's ranks wait for what it writes."""
    converter: Worker
    loader: Worker


class Torch(Peer):
    @property
    def version(self) -> str:
        return f"PyTorch {self.converter.has['torch'].partition('+')[0]}"


@dataclass
class Bench:
    binary: Path
    scratch: Path
    model: Model
    setup: dict[str, Any]
    converter: Worker
    loader: Worker
    torches: list[Torch]
    mindspore: Peer | None
    rounds: int
    self_test: bool

    @property
    def ranks_expected(self) -> list[str]:
        return [checksum(self.model.parts(rank, TARGET_RANKS)) for rank in range(TARGET_RANKS)]

    @property
    def whole_expected(self) -> list[str]:
        return [checksum(self.model.arrays)]

    def strategy(self, ranks: int) -> Path:
        """As a file of MindSpore."""
        path = self.scratch / f"strategy_{ranks}.ckpt"
        layouts = {}
        for name, cut in self.model.cuts.items():
            axes = tuple((0,) if dim == cut else () for dim in range(self.model.arrays[name].ndim))
            layouts[name] = Layout((ranks,), axes)
        write_protobuf(Strategy([layouts]), path)
        return path

    def made(self, worker: Worker, task: str, name: str) -> Path:
        """A source that all source ranks save."""
        out = self.scratch / name
        worker.prepare(task, SOURCE_RANKS, self.setup | {"out": str(out)})
        worker.run()
        return out


@dataclass
class Job:
    title: str
    bench: Bench
    source: Path
    options: Options  # of reshardfs: what it is to show
    found: Callable[[Path], list[Path]]  # the files that are loaded, below what reshardfs shows
    task: str  # that loads them
    worker: Worker
    expected: list[str]
    of_weights: str = "*"  # the largest of these files has weights that are loaded
    ways: list[Way] = field(default_factory=list)

    @property
    def out(self) -> Path:
        return self.bench.scratch / "out"

    def load(self) -> Load:
        return Load(self.worker, self.task, len(self.expected), self.bench.setup, self.expected)

    def add_converter(self, name: str, worker: Worker, task: str, found: Callable[[Path], list[Path]],
                      **setup: Any) -> None:
        """A program that writes files, which the ranks then load."""
        told = self.bench.setup | {"out": str(self.out), "targets": len(self.expected)} | setup

        def convert(gauge: Gauge) -> list[Path]:
            gauge.cpu += worker.run()
            return found(self.out)

        self.ways.append(Way(name, self.load(), convert, self.out,
                             before=lambda gauge: worker.prepare(task, 1, told, gauge)))

    def add_ours(self) -> None:
        """The files as if they were there already, then mount, export and module."""
        bench, ready = self.bench, self.bench.scratch / "ready"
        run_program([bench.binary, "export", self.source, ready, *self.options, "-q"])
        self.ways.insert(0, Way("no conversion: files of that layout", self.load(), lambda _gauge: self.found(ready)))
        mount = Mount(bench.binary, bench.scratch / "mnt")

        def mounted(gauge: Gauge) -> list[Path]:
            mount.mount(self.source, self.options, gauge)
            return self.found(mount.place)

        def exported(gauge: Gauge) -> list[Path]:
            run_program([bench.binary, "export", self.source, self.out, *self.options, "-q"], gauge)
            return self.found(self.out)

        self.ways.append(Way("**reshardfs mount**, then the loader", self.load(), mounted, mount=mount))
        self.ways.append(Way("**reshardfs export**, then the loader", self.load(), exported, self.out))
        if "reshardfs" not in bench.loader.has:
            skipped(self.title, "the module of reshardfs", f"{sys.executable} cannot import it")
            return
        options = {str(key).removeprefix("--").replace("-", "_"): str(value)
                   for key, value in zip(self.options[::2], self.options[1::2])
                   if key in ("--src-strategy", "--dst-strategy")}
        setup = bench.setup | {"source": str(self.source), "options": options, "whole": len(self.expected) == 1}
        load = Load(bench.loader, "load_module", len(self.expected), setup, self.expected)
        self.ways.append(Way("**reshardfs module**, to NumPy", load))

    def sources(self) -> Iterator[Path]:
        for place in (self.source, self.bench.scratch / "ready"):
            yield from (path for path in place.rglob("*") if path.is_file())

    def run(self) -> None:
        if self.bench.self_test:
            files = (path for path in self.source.rglob(self.of_weights) if path.is_file())
            change_byte(max(files, key=lambda path: path.stat().st_size))
        self.add_ours()
        if self.bench.self_test:
            self.find_wrong_bytes()
        else:
            self.take_turns()
            print_table(self)
        shutil.rmtree(self.source)
        shutil.rmtree(self.bench.scratch / "ready")


    def take_turns(self) -> None:
        for number in range(self.bench.rounds + 1):
            for way in self.ways:
                for path in self.sources():
                    read_hot(path)
                figures = measure(way)
                if number:  # in the round before, imports and caches are filled
                    way.samples.append(figures)

    def find_wrong_bytes(self) -> None:
        for way in self.ways:
            try:
                measure(way)
            except WrongBytes as error:
                print(f"found: {error}")
                continue
            raise AssertionError(f"{way.name}: a changed byte was not found")


def change_byte(path: Path) -> None:
    """In the middle, which is of a tensor."""
    with open(path, "r+b") as file:
        file.seek(path.stat().st_size // 2)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))


def skipped(job: str, way: str, why: str) -> None:
    print(f"\nLeft out of \"{job}\": {way}: {why}.", flush=True)


def rank_files(pattern: str) -> Callable[[Path], list[Path]]:
    return lambda top: [next(top.glob(f"rank_{rank}/{pattern}")) for rank in range(TARGET_RANKS)]


def one_file(pattern: str) -> Callable[[Path], list[Path]]:
    return lambda top: [next(top.glob(pattern))]


# --- the jobs ----------------------------------------------------------------------------------


def mindspore(bench: Bench, form: str) -> None:
    title = f"MindSpore's .{form} of 8 ranks to 4 ranks"
    peer = bench.mindspore
    if peer is None and form != "ckpt":
        skipped(title, "all ways", "no --mindspore-python has MindSpore")
        return
    loader = peer.loader if peer else bench.loader
    bench.setup["form"] = form
    source = bench.made(loader, "save_mindspore", f"mindspore_{form}")
    strategies = [str(bench.strategy(ranks)) for ranks in (SOURCE_RANKS, TARGET_RANKS)]
    job = Job(title, bench, source, ("--src-strategy", strategies[0], "--dst-strategy", strategies[1],
                                     "--views", "ranks"), rank_files(f"*.{form}"), "load_mindspore", loader,
              bench.ranks_expected)
    if peer:
        job.add_converter(f"transform_checkpoints of MindSpore {peer.converter.has['mindspore']}, then its loader",
                          peer.converter, "convert_mindspore", job.found, source=str(source), strategies=strategies)
    else:
        skipped(title, "transform_checkpoints", "no --mindspore-python has MindSpore; NumPy loads in its place")
    job.run()


def dcp(bench: Bench) -> None:
    first = bench.torches[0]
    source = bench.made(first.loader, "save_dcp", "dcp")
    job = Job("PyTorch's .distcp of 8 ranks to 4 ranks", bench, source,
              ("--dst-strategy", bench.strategy(TARGET_RANKS), "--views", "ranks", "--format", "safetensors"),
              rank_files("*.safetensors"), "load_safetensors", first.loader, bench.ranks_expected)
    setup = bench.setup | {"source": str(source)}
    for torch in bench.torches:
        job.ways.append(Way(f"dcp.load of {torch.version}",
                            Load(torch.loader, "load_dcp", TARGET_RANKS, setup, job.expected)))
    job.run()


def safetensors(bench: Bench) -> None:
    first = bench.torches[0]
    source = bench.made(first.loader, "save_safetensors", "safetensors")
    job = Job("safetensors of 8 ranks to 4 ranks", bench, source,
              ("--src-strategy", bench.strategy(SOURCE_RANKS), "--dst-strategy", bench.strategy(TARGET_RANKS),
               "--views", "ranks"), rank_files("*.safetensors"), "load_safetensors", first.loader,
              bench.ranks_expected)
    sources = [str(source / f"rank_{rank}/model.safetensors") for rank in range(SOURCE_RANKS)]
    job.add_converter("a script with safe_open and save_file, then the loader", first.converter,
                      "convert_safetensors", job.found, sources=sources)
    job.run()


WHOLE = ("--dst-strategy", "none", "--views", "merged", "--format", "safetensors")


def consolidated(bench: Bench) -> None:
    title = "PyTorch's safetensors of 8 ranks to one file"
    able = [torch for torch in bench.torches if CONSOLIDATION in torch.loader.has]
    for torch in bench.torches:
        if torch not in able:
            skipped(title, torch.version, "it has no consolidate_safetensors_files")
    if not able:
        return
    source = bench.made(able[0].loader, "save_dcp_safetensors", "dcp_safetensors")
    job = Job(title, bench, source, WHOLE, one_file("merged/*.safetensors"), "load_safetensors",
              bench.torches[0].loader, bench.whole_expected)
    for torch in able:
        job.add_converter(f"consolidate_safetensors_files of {torch.version}, then the loader", torch.converter,
                          "consolidate", one_file("*.safetensors"), source=str(source),
                          names=list(bench.model.arrays))
    job.run()


def zero(bench: Bench, stage: int) -> None:
    first, source = bench.torches[0], bench.scratch / f"zero{stage}"
    arrays = bench.model.arrays
    spec = Spec(SOURCE_RANKS, stage, [{name: array.shape for name, array in arrays.items()}], dict(arrays))
    write_set(source, spec)
    place = source / spec.tag
    job = Job(f"DeepSpeed's ZeRO, stage {stage}, of 8 ranks to one file", bench, source, WHOLE,
              one_file("merged/*.safetensors"), "load_safetensors", first.loader, bench.whole_expected,
              "*optim_states.pt")
    optimizers = [str(place / f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt") for rank in range(SOURCE_RANKS)]
    job.add_converter("zero_to_fp32, then the loader", first.converter, "convert_zero", one_file("*.safetensors"),
                      sources=optimizers, model_states=str(sorted(place.glob("*model_states.pt"))[0]))
    job.run()


JOBS: dict[str, Callable[[Bench], None]] = {
    "mindspore": lambda bench: mindspore(bench, "ckpt"),
    "mindspore-safetensors": lambda bench: mindspore(bench, "safetensors"), "dcp": dcp, "safetensors": safetensors, "consolidated": consolidated,
    "zero2": lambda bench: zero(bench, 2), "zero3": lambda bench: zero(bench, 3)}


# --- the table ---------------------------------------------------------------------------------


def cell(values: list[float], digits: int) -> str:
    least, most = (f"{value:,.{digits}f}" for value in (min(values), max(values)))
    middle = f"{statistics.median(values):,.{digits}f}"
    return middle if least == most else f"{middle} ({least} to {most})"


def print_table(job: Job) -> None:
    print(f"\n**{job.title}**\n\n| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}")
    for way in job.ways:
        cells = [cell([getattr(figures, key.name) for figures in way.samples], DIGITS[key.name])
                 for key in fields(Figures)]
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
                  args.self_test)
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
                        help="a Python with PyTorch 2 and safetensors; may be given several times; default: "
                             "what RESHARDFS_TORCH is in the environment, or none")
    parser.add_argument("--mindspore-python", metavar="COMMAND", default=os.environ.get("RESHARDFS_MINDSPORE"),
                        help="a Python with MindSpore 2 and safetensors; default: what RESHARDFS_MINDSPORE is in the "
                             "environment, or none")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--layers", type=int, default=4, help="of the model")
    parser.add_argument("--hidden", type=int, default=2048, help="its width, a multiple of 8; the default is 1.1 GiB")
    parser.add_argument("--jobs", default=",".join(JOBS), help=f"of {', '.join(JOBS)}; default: all")
    parser.add_argument("--scratch", help="a directory for the files; default: the system's")
    parser.add_argument("--self-test", action="store_true",
                        help="change a byte of each source, which each way must be found to load; no figures")
    args = parser.parse_args()
    args.torch_python = args.torch_python or [word for word in [os.environ.get("RESHARDFS_TORCH")] if word]
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
