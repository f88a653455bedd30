# SPDX-License-Identifier: Apache-2.0
"""The ranks of bench_live.py: a model in memory that FSDP2, tensor parallelism or both cut.

live_load_ranks.py make MODEL.safetensors KIND
live_load_ranks.py load JOB.json: {"model", "kind", "layout", "ranks", "mounted": a mount with dcp/ and merged/,
"converted": a directory to make, "rounds"}. Prints what each rank had of each way, as JSON.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dcp_load_ranks import HIDDEN, LINEAR, Model, Sizes, cut, drop_pages, local

from torch2_common import differing, on_ranks, read_tensors, torch, write_tensors

try:
    from runai_model_streamer import SafetensorsStreamer
except ImportError:
    SafetensorsStreamer = None

import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from reshardfs import _core
from reshardfs.torch import DcpReader
from safetensors.torch import load_file
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, set_model_state_dict
from torch.distributed.tensor import distribute_tensor

# Of the matrices that tensor parallelism cuts by columns, a row's part has 512 bytes at least, or 4 KiB.
KINDS: dict[str, tuple[torch.dtype, Sizes]] = {
    "narrow": (torch.bfloat16, LINEAR),
    "wide": (torch.float32, {**LINEAR, "o": (4096, HIDDEN), "down": (4096, HIDDEN)}),
}


def built(kind: str) -> Model:
    dtype, sizes = KINDS[kind]
    return Model(sizes).to(dtype)


def read_by_calls() -> int:
    """Bytes that system calls of this process have read."""
    return int(Path("/proc/self/io").read_text().split()[1])


def convert(model: Path, output: Path) -> None:
    shutil.rmtree(output, ignore_errors=True)
    dcp.save(load_file(model), checkpoint_id=output, no_dist=True)


@dataclasses.dataclass(frozen=True)
class Way:
    load: Callable[[], None]
    directories: tuple[Path, ...]  # whose files it reads, and those behind a mount
    count: Callable[[], int] | None = read_by_calls  # None: of reads through maps and rings, nothing does


def ways_of(job: dict[str, Any], model: Model, found: dict[str, Any]) -> dict[str, Way]:
    state = get_model_state_dict(model)
    source = Path(job["model"])

    def by_reader() -> None:
        reader = DcpReader(source)
        dcp.load(state, storage_reader=reader)
        found.update(reader.reads._asdict())

    def by_files(directory: Path) -> Callable[[], None]:
        return lambda: dcp.load(state, checkpoint_id=directory)

    def take(whole: dict[str, torch.Tensor]) -> None:
        set_model_state_dict(model, whole, options=StateDictOptions(full_state_dict=True))

    def by_streamer(file: Path) -> Callable[[], None]:
        def stream() -> None:
            with SafetensorsStreamer() as streamer:
                streamer.stream_file(str(file))
                # As they arrive, which is another order in each rank; PyTorch takes them in that of the dictionary.
                take(dict(sorted(streamer.get_tensors(), key=lambda found: found[0])))

        return stream

    mounted = Path(job["mounted"])
    ways = {"DcpReader": Way(by_reader, (source.parent,), _core.source_bytes),
            "dcp/ of a mount": Way(by_files(mounted / "dcp"), (mounted / "dcp", source.parent)),
            "safetensors": Way(lambda: take(load_file(source)), (source.parent,), None),
            "dcp.load, converted": Way(by_files(Path(job["converted"])), (Path(job["converted"]),))}
    if SafetensorsStreamer is not None:
        (file,) = (mounted / "merged").glob("model-*.safetensors")
        ways |= {"streamer": Way(by_streamer(source), (source.parent,), None),
                 "streamer, mount": Way(by_streamer(file), (file.parent, source.parent), None)}
    return ways


def measure(way: Way, model: Model, want: dict[str, torch.Tensor], rounds: int) -> dict[str, Any]:
    tensors = {name: local(tensor) for name, tensor in model.state_dict().items()}
    seconds = []
    read = None
    count = way.count or (lambda: 0)
    for _ in range(rounds):
        for tensor in tensors.values():
            tensor.zero_()
        dist.barrier()
        if dist.get_rank() == 0:
            for directory in way.directories:
                drop_pages(directory)
        dist.barrier()
        before, begin = count(), time.monotonic()
        way.load()
        seconds.append(time.monotonic() - begin)
        if way.count is not None:
            read = count() - before
        if problems := differing({name: local(tensor) for name, tensor in model.state_dict().items()}, want):
            raise AssertionError(str(problems[:3]))
    return {"read": read, "seconds": statistics.median(seconds)}


def load_all(job: dict[str, Any]) -> None:
    whole = read_tensors(Path(job["model"]))
    ranks = job["ranks"]

    def work(rank: int) -> None:
        model = built(job["kind"])
        want = {}
        for name, tensor in cut(model, job["layout"], ranks).items():
            full = whole[name]
            if hasattr(tensor, "placements"):
                full = distribute_tensor(full, tensor.device_mesh, tensor.placements).to_local()
            want[name] = full.clone()
        begin = time.monotonic()
        if rank == 0:
            convert(Path(job["model"]), Path(job["converted"]))
        dist.barrier()
        shared = {"own": sum(tensor.nbytes for tensor in want.values()), "conversion": time.monotonic() - begin}
        for name, way in ways_of(job, model, shared).items():
            every: list[Any] = [None] * ranks
            dist.all_gather_object(every, shared | measure(way, model, want, job["rounds"]))
            if rank == 0:
                print(json.dumps({"name": name, "ranks": every}), flush=True)

    on_ranks(ranks, Path(job["converted"]).with_suffix(".meeting"), work)


def main() -> None:
    if sys.argv[1] == "make":
        torch.manual_seed(0)
        model = built(sys.argv[3])
        write_tensors(Path(sys.argv[2]), {name: torch.randn(tensor.shape).to(tensor.dtype)
                                          for name, tensor in model.state_dict().items()})
    else:
        load_all(json.loads(Path(sys.argv[2]).read_text()))


if __name__ == "__main__":
    main()
