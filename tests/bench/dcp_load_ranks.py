# SPDX-License-Identifier: Apache-2.0
"""The ranks of bench_dcp_load.py: a model that FSDP2, tensor parallelism or both cut, saved and loaded by
torch.distributed.checkpoint of PyTorch 2.

dcp_load_ranks.py make MODEL.safetensors
dcp_load_ranks.py load JOB.json: {"model", "layout", "ranks", "saved": a directory to save to, "rounds", "ways":
[{"name", "directory", "form", "metrics"}]}. Prints what each rank had of each way, as JSON.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from torch2_common import differing, on_ranks, read_tensors, torch, write_tensors  # noqa: E402

import torch.distributed as dist  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.checkpoint.state_dict import get_model_state_dict  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402
from torch.distributed.tensor import distribute_tensor  # noqa: E402
from torch.distributed.tensor.parallel import (ColwiseParallel, RowwiseParallel,  # noqa: E402
                                               parallelize_module)

HIDDEN, INNER, LAYERS, VOCABULARY = 512, 1536, 6, 4096
LINEAR = {"q": (HIDDEN, HIDDEN), "k": (HIDDEN, HIDDEN // 4), "v": (HIDDEN, HIDDEN // 4),
          "o": (HIDDEN, HIDDEN), "gate": (HIDDEN, INNER), "up": (HIDDEN, INNER), "down": (INNER, HIDDEN)}


Sizes = dict[str, tuple[int, int]]


class Block(nn.Module):
    def __init__(self, linear: Sizes) -> None:
        super().__init__()
        for name, (inputs, outputs) in linear.items():
            setattr(self, name, nn.Linear(inputs, outputs, bias=False))
        self.norm1, self.norm2 = nn.RMSNorm(HIDDEN), nn.RMSNorm(HIDDEN)


class Model(nn.Module):
    def __init__(self, linear: Sizes = LINEAR) -> None:
        super().__init__()
        self.emb = nn.Embedding(VOCABULARY, HIDDEN)
        self.layers = nn.ModuleList([Block(linear) for _ in range(LAYERS)])
        self.norm = nn.RMSNorm(HIDDEN)
        self.head = nn.Linear(HIDDEN, VOCABULARY, bias=False)


def cut(model: Model, layout: str, ranks: int) -> dict[str, Any]:
    plan: dict[str, Any] = {
        f"layers.{layer}.{name}": RowwiseParallel() if name in ("o", "down") else ColwiseParallel()
        for layer in range(LAYERS) for name in LINEAR}
    plan |= {"emb": RowwiseParallel(), "head": ColwiseParallel()}
    if layout == "FSDP2":
        fully_shard(model, mesh=init_device_mesh("cpu", (ranks,)))
    elif layout == "TP":
        parallelize_module(model, init_device_mesh("cpu", (ranks,)), plan)
    else:
        mesh = init_device_mesh("cpu", (2, ranks // 2), mesh_dim_names=("dp", "tp"))
        parallelize_module(model, mesh["tp"], plan)
        fully_shard(model, mesh=mesh["dp"])
    return get_model_state_dict(model)


def local(tensor: Any) -> torch.Tensor:
    return (tensor.to_local() if hasattr(tensor, "to_local") else tensor).detach()


def drop_pages(directory: Path) -> None:
    for path in filter(Path.is_file, directory.iterdir()):
        file = os.open(path, os.O_RDONLY)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)


def asked_for() -> int:
    """Bytes that system calls of this process have read."""
    return int(Path("/proc/self/io").read_text().split()[1])


def delivered(way: dict[str, Any]) -> int:
    """Bytes that the mount has given to the kernel."""
    lines = Path(way["metrics"]).read_text().splitlines() if way["metrics"] else []
    (count,) = [int(line.split()[-1]) for line in lines
                if line.startswith("reshardfs_read_bytes_total{") and f'view="{way["form"]}"' in line] or [0]
    return count


def load(way: dict[str, Any], state: dict[str, Any], alone: bool) -> None:
    reader = dcp.HuggingFaceStorageReader if way["form"] == "dcp-hf" else dcp.FileSystemReader
    dcp.load(state, storage_reader=reader(way["directory"]), no_dist=alone)


def measure(way: dict[str, Any], state: dict[str, Any], want: dict[str, torch.Tensor], rank: int,
            ranks: int, rounds: int) -> dict[str, Any]:
    own = sum(local(tensor).nbytes for tensor in state.values())
    found: dict[str, Any] = {"own": own, "asked": 0, "delivered": 0}
    seconds = []
    for _ in range(rounds):
        for tensor in state.values():
            local(tensor).zero_()
        dist.barrier()
        if rank == 0:
            drop_pages(Path(way["directory"]))
        dist.barrier()
        before, begin = asked_for(), time.monotonic()
        load(way, state, alone=False)
        seconds.append(time.monotonic() - begin)
        found["asked"] = asked_for() - before
        if problems := differing({name: local(tensor) for name, tensor in state.items()}, want):
            raise AssertionError(f"{way['name']}: {problems[:3]}")
    for turn in range(ranks):  # one after the other: they share the page cache
        dist.barrier()
        if turn == rank and way["metrics"]:
            drop_pages(Path(way["directory"]))
            count = delivered(way)
            load(way, state, alone=True)
            found["delivered"] = delivered(way) - count
    return found | {"seconds": statistics.median(seconds)}


def load_all(job: dict[str, Any]) -> None:
    whole = read_tensors(Path(job["model"]))
    ranks = job["ranks"]

    def work(rank: int) -> None:
        state = cut(Model().to(torch.bfloat16), job["layout"], ranks)
        for name, tensor in state.items():
            full = whole[name]
            if hasattr(tensor, "placements"):
                full = distribute_tensor(full, tensor.device_mesh, tensor.placements).to_local()
            local(tensor).copy_(full)
        want = {name: local(tensor).clone() for name, tensor in state.items()}
        dcp.save(state, checkpoint_id=job["saved"])
        for way in job["ways"]:
            every: list[Any] = [None] * ranks
            dist.all_gather_object(every, measure(way, state, want, rank, ranks, job["rounds"]))
            if rank == 0:
                print(json.dumps({"name": way["name"], "ranks": every}), flush=True)

    on_ranks(ranks, Path(job["saved"]).with_suffix(".meeting"), work)


def main() -> None:
    if sys.argv[1] == "make":
        torch.manual_seed(0)
        write_tensors(Path(sys.argv[2]), {name: torch.randn(tensor.shape).to(torch.bfloat16)
                                          for name, tensor in Model().state_dict().items()})
    else:
        load_all(json.loads(Path(sys.argv[2]).read_text()))


if __name__ == "__main__":
    main()
