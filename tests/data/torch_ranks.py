# SPDX-License-Identifier: Apache-2.0
"""One process of several that save or load a distributed checkpoint with torch 1.13 itself.

torch_ranks.py save|load RANK WORLD RENDEZVOUS CHECKPOINT TENSORS.npz: every tensor is a ShardedTensor
whose rows are cut at places that neither a reader nor a writer of others would choose. `save` takes
the tensors from the file; `load` compares with them.
"""

from __future__ import annotations

import sys

import numpy as np
from torch_113 import (Shard, ShardedTensor, ShardMetadata, checkpoint, init_from_local_shards,
                       torch)


def bounds_of(rows: int, rank: int, world: int) -> tuple[int, int]:
    """The first ranks have fewer rows than the last one."""
    share = rows // (world + 1)
    return rank * share, rows if rank == world - 1 else (rank + 1) * share


def sharded(full: torch.Tensor, rank: int, world: int, *, filled: bool) -> ShardedTensor:
    begin, end = bounds_of(full.shape[0], rank, world)
    rest = [0] * (full.dim() - 1)
    part = full[begin:end].clone() if filled else torch.zeros_like(full[begin:end])
    shard = Shard(part, ShardMetadata([begin, *rest], list(part.shape), f"rank:{rank}/cpu"))
    return init_from_local_shards([shard], *full.shape)


def main() -> None:
    action, rank, world = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    meeting, directory, tensors = sys.argv[4:7]
    torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank,
                                         world_size=world)
    full = {name: torch.from_numpy(array) for name, array in np.load(tensors).items()}
    cut = [name for name, tensor in full.items() if tensor.dim() and tensor.shape[0] > world]
    if action == "save":
        state = {name: sharded(tensor, rank, world, filled=True) if name in cut else tensor
                 for name, tensor in full.items()}
        checkpoint.save_state_dict(state, checkpoint.FileSystemWriter(directory))
    else:
        state = {name: sharded(tensor, rank, world, filled=False) if name in cut
                 else torch.zeros_like(tensor) for name, tensor in full.items()}
        checkpoint.load_state_dict(state, checkpoint.FileSystemReader(directory))
        for name, tensor in full.items():
            want, got = tensor, state[name]
            if name in cut:
                begin, end = bounds_of(tensor.shape[0], rank, world)
                want, got = tensor[begin:end], got.local_shards()[0].tensor
            same = got.numpy().tobytes() == want.numpy().tobytes()  # NaN, too
            if got.dtype != want.dtype or not same:
                raise SystemExit(f"rank {rank}: {name} differs")
    torch.distributed.barrier()


if __name__ == "__main__":
    main()
