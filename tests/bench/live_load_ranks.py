# SPDX-License-Identifier: Apache-2.0
"""The ranks of bench_live.py: a model in memory that FSDP2, tensor parallelism or both cut.

live_load_ranks.py make MODEL.safetensors KIND
live_load_ranks.py load JOB.json: {"model", "kind", "layout", "ranks", "mounted": dcp/ of a mount, "converted": a
directory to make, "rounds"}. Prints what each rank had of each way, as JSON.
"""

from __future__ import annotations

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


def ways_of(job: dict[str, Any], model: Model, found: dict[str, Any]) -> dict[str, Callable[[], None]]:
    state = get_model_state_dict(model)
    source = Path(job["model"])

    def by_reader() -> None:
        reader = DcpReader(source)
        dcp.load(state, storage_reader=reader)
        found.update(reader.reads._asdict())

    def by_files(directory: str) -> Callable[[], None]:
        return lambda: dcp.load(state, checkpoint_id=directory)

    def by_safetensors() -> None:
        set_model_state_dict(model, load_file(source), options=StateDictOptions(full_state_dict=True))

    return {"DcpReader": by_reader, "dcp/ of a mount": by_files(job["mounted"]), "safetensors": by_safetensors,
            "dcp.load, converted": by_files(job["converted"])}


def measure(load: Callable[[], None], count: Callable[[], int], directory: Path, model: Model,
            want: dict[str, torch.Tensor], rounds: int) -> dict[str, Any]:
    tensors = {name: local(tensor) for name, tensor in model.state_dict().items()}
    seconds = []
    read = 0
    for _ in range(rounds):
        for tensor in tensors.values():
            tensor.zero_()
        dist.barrier()
        if dist.get_rank() == 0:
            drop_pages(directory)
        dist.barrier()
        before, begin = count(), time.monotonic()
        load()
        seconds.append(time.monotonic() - begin)
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
        places = {"dcp/ of a mount": job["mounted"], "dcp.load, converted": job["converted"]}
        for name, load in ways_of(job, model, shared).items():
            directory = Path(places.get(name, Path(job["model"]).parent))
            count = _core.source_bytes if name == "DcpReader" else read_by_calls
            every: list[Any] = [None] * ranks
            dist.all_gather_object(every, shared | measure(load, count, directory, model, want, job["rounds"]))
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
