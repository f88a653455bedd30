# SPDX-License-Identifier: Apache-2.0
"""The jobs of compare.py, and the ways to do each of them."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integration"))

from bench_readers import read_hot  # noqa: E402
from compare_model import Model, checksum  # noqa: E402
from compare_runs import Gauge, Load, Mount, Way, Worker, WrongBytes, measure, run_program  # noqa: E402
from compare_tasks import CONSOLIDATION  # noqa: E402
from deepspeed_sets import Spec, write_set  # noqa: E402
from layouts import Layout  # noqa: E402
from strategy_files import Strategy, write_protobuf  # noqa: E402

SOURCE_RANKS, TARGET_RANKS = 8, 4
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
    show: Callable[[Job], None]  # what is done with the samples of a job

    @property
    def ranks_expected(self) -> list[str]:
        return [checksum(self.model.parts(rank, TARGET_RANKS)) for rank in range(TARGET_RANKS)]

    @property
    def whole_expected(self) -> list[str]:
        return [checksum(self.model.arrays)]

    @property
    def halves_expected(self) -> list[str]:
        return [checksum({name: bfloat16(array) for name, array in self.model.arrays.items()})]

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
                   if key in ("--src-strategy", "--dst-strategy", "--cast")}
        setup = bench.setup | {"source": str(self.source), "options": options, "whole": len(self.expected) == 1}
        load = Load(bench.loader, "load_module", len(self.expected), setup, self.expected)
        self.ways.append(Way("**reshardfs module**, to NumPy", load))

    def sources(self) -> Iterator[Path]:
        for place in (self.source, self.bench.scratch / "ready"):
            yield from (path for path in place.rglob("*") if path.is_file())

    def run(self) -> None:
        if self.bench.self_test:
            files = (path for path in self.source.rglob(self.of_weights) if path.is_file())
            change_number(max(files, key=lambda path: path.stat().st_size))
        self.add_ours()
        if self.bench.self_test:
            self.find_wrong_bytes()
        else:
            self.take_turns()
            self.bench.show(self)
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
            raise AssertionError(f"{way.name}: a changed number was not found")


def bfloat16(array: np.ndarray) -> np.ndarray:
    """The bits of finite numbers, rounded to nearest, ties to even."""
    bits = array.view("<u4")
    return (bits + np.uint32(0x7FFF) + (bits >> 16 & 1) >> 16).astype("<u2")


def change_number(path: Path) -> None:
    """In the middle, which is of a tensor. All its bytes: rounded numbers have not all."""
    with open(path, "r+b") as file:
        file.seek(path.stat().st_size // 2)
        number = file.read(4)
        file.seek(-4, os.SEEK_CUR)
        file.write(bytes(byte ^ 1 for byte in number))


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


def dcp_whole(bench: Bench) -> None:
    first = bench.torches[0]
    source = bench.made(first.loader, "save_dcp", "dcp")
    job = Job("PyTorch's .distcp of 8 ranks to one file for torch.load", bench, source,
              ("--dst-strategy", "none", "--views", "merged", "--format", "torch"), one_file("**/*.pt"), "load_torch",
              first.loader, bench.whole_expected)
    for torch in bench.torches:
        job.add_converter(f"dcp_to_torch_save of {torch.version}, then torch.load", torch.converter, "convert_dcp",
                          job.found, source=str(source))
    job.run()


def verl(bench: Bench) -> None:
    title, first = "verl's FSDP ranks, 8 in float32, to one file in bfloat16", bench.torches[0]
    if "verl" not in first.converter.has:
        skipped(title, "all ways", f"{first.version} is without verl")
        return
    source = bench.made(first.loader, "save_verl", "actor")
    job = Job(title, bench, source, (*WHOLE, "--cast", "*:fp32->bf16"), one_file("**/*.safetensors"),
              "load_safetensors", first.loader, bench.halves_expected, "model_world*")
    job.add_converter(f"model merger of verl {first.converter.has['verl']}, then the loader", first.converter,
                      "convert_verl", job.found, source=str(source))
    job.run()


def zero(bench: Bench, stage: int) -> None:
    first, source = bench.torches[0], bench.scratch / f"zero{stage}"
    arrays = bench.model.arrays
    spec = Spec(SOURCE_RANKS, stage, [{name: array.shape for name, array in arrays.items()}], dict(arrays))
    write_set(source, spec)
    job = Job(f"DeepSpeed's ZeRO, stage {stage}, of 8 ranks to one file", bench, source, WHOLE,
              one_file("**/*.safetensors"), "load_safetensors", first.loader, bench.whole_expected,
              "*optim_states.pt")
    if version := first.converter.has.get("deepspeed"):
        job.add_converter(f"zero_to_fp32 of DeepSpeed {version}, then the loader", first.converter, "convert_zero",
                          job.found, source=str(source))
    else:
        skipped(job.title, "zero_to_fp32", f"{first.version} is without DeepSpeed")
    job.run()


JOBS: dict[str, Callable[[Bench], None]] = {
    "mindspore": lambda bench: mindspore(bench, "ckpt"),
    "mindspore-safetensors": lambda bench: mindspore(bench, "safetensors"), "dcp": dcp, "dcp-whole": dcp_whole,
    "safetensors": safetensors, "consolidated": consolidated, "verl": verl,
    "zero2": lambda bench: zero(bench, 2), "zero3": lambda bench: zero(bench, 3)}
