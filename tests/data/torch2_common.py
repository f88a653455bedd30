# SPDX-License-Identifier: Apache-2.0
"""What the programs have in common that run under PyTorch 2: the bits of tensors, files of them, and
several processes on one machine. ImportError where there is no such PyTorch."""

from __future__ import annotations

import ctypes
import datetime
import faulthandler
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Before torch starts its threads: processes are forked.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["GLOO_SOCKET_IFNAME"] = "lo"
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integration"))

import numpy as np  # noqa: E402
import torch  # noqa: E402
from format_files import Tensors, read_safetensors, write_safetensors  # noqa: E402

if int(torch.__version__.partition(".")[0]) < 2:
    raise ImportError(f"PyTorch 2 is needed, and this one is {torch.__version__}")
import torch.distributed as dist  # noqa: E402
from torch.distributed.tensor import DTensor, Shard  # noqa: E402

warnings.simplefilter("ignore")

KINDS = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
         "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8,
         "U8": torch.uint8, "BOOL": torch.bool, "U16": torch.uint16, "U32": torch.uint32,
         "U64": torch.uint64, "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2}
KIND_OF = {dtype: kind for kind, dtype in KINDS.items()}
PATIENCE = datetime.timedelta(seconds=60)
END_WITH_PARENT = 1  # PR_SET_PDEATHSIG


def bits_of(tensor: torch.Tensor) -> np.ndarray:
    """The bytes in C order, in an array of the tensor's shape."""
    size = tensor.element_size()
    dtype = np.dtype(f"V{size}") if size > 1 else np.dtype(np.uint8)
    if tensor.numel() == 0:
        return np.empty(tensor.shape, dtype)
    packed = torch.empty(tensor.numel(), dtype=tensor.dtype)  # whatever the strides are
    packed.view(tensor.shape).copy_(tensor.detach())
    return packed.view(torch.uint8).numpy().view(dtype).reshape(tensor.shape)


def tensor_of(kind: str, array: np.ndarray) -> torch.Tensor:
    if array.size == 0:
        return torch.empty(array.shape, dtype=KINDS[kind])
    packed = torch.frombuffer(bytearray(array.tobytes()), dtype=torch.uint8)
    return packed.view(KINDS[kind]).reshape(array.shape)


def is_opened(value: Any) -> bool:
    """Whether its elements are saved one by one: those of a dictionary, or of a list that has tensors
    or dictionaries in it."""
    if isinstance(value, list):
        return any(isinstance(element, torch.Tensor) or is_opened(element) for element in value)
    return isinstance(value, dict)


def flattened(state: Any, name: str = "") -> dict[str, Any]:
    """Every value that is saved by the path to it, joined by dots."""
    if not is_opened(state):
        return {name: state}
    pairs = state.items() if isinstance(state, dict) else enumerate(state)
    out: dict[str, Any] = {}
    for key, value in pairs:
        out |= flattened(value, f"{name}.{key}" if name else str(key))
    return out


def cut(full: torch.Tensor, mesh: Any, *placements: Any) -> DTensor:
    """As distribute_tensor() cuts it, which needs gloo to know the type."""
    local = full
    for axis, placement in enumerate(placements):
        if isinstance(placement, Shard):
            parts = torch.chunk(local, mesh.size(axis), placement.dim)
            number = mesh.get_local_rank(axis)
            local = parts[number] if number < len(parts) else local.narrow(placement.dim, 0, 0)
    tensor = DTensor.from_local(local, mesh, placements, run_check=False, shape=full.shape,
                                stride=full.stride())
    tensor.full = full
    return tensor


def write_tensors(path: Path, tensors: dict[str, torch.Tensor]) -> None:
    write_safetensors(path, {name: (KIND_OF[tensor.dtype], bits_of(tensor))
                             for name, tensor in tensors.items()})


def read_tensors(path: Path) -> dict[str, torch.Tensor]:
    tensors: Tensors = read_safetensors(path)[0]
    return {name: tensor_of(kind, array) for name, (kind, array) in tensors.items()}


def differing(got: dict[str, torch.Tensor], want: dict[str, torch.Tensor]) -> list[str]:
    """What is not the same in both, bit by bit."""
    problems = [f"{name}: only in one of both" for name in sorted(got.keys() ^ want.keys())]
    for name in sorted(got.keys() & want.keys()):
        mine, theirs = got[name], want[name]
        if (mine.dtype, mine.shape) != (theirs.dtype, theirs.shape):
            problems.append(f"{name}: {mine.dtype} {list(mine.shape)} is no {theirs.dtype} "
                            f"{list(theirs.shape)}")
        elif bits_of(mine).tobytes() != bits_of(theirs).tobytes():
            problems.append(f"{name}: other values")
    return problems


def forked(count: int, work: Callable[[int], None]) -> None:
    """Does the work in processes of its own, and waits for all of them.

    @throws RuntimeError if one fails: it has printed why.
    """
    sys.stdout.flush()
    # Its thread would be missing in a fork, which waits for it.
    faulthandler.cancel_dump_traceback_later()
    children = []
    for number in range(count):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                ctypes.CDLL(None).prctl(END_WITH_PARENT, signal.SIGKILL)
                # A process that waits for ever ends, and says where.
                faulthandler.dump_traceback_later(PATIENCE.seconds, exit=True)
                torch.set_num_threads(1)
                work(number)
                code = 0
            except BaseException:  # noqa: BLE001: the process ends below
                print(f"process {number} of {count}:\n{traceback.format_exc()}", file=sys.stderr)
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        children.append(child)
    failed = False
    while children:
        child, status = os.wait()
        children.remove(child)
        if status != 0 and not failed:
            failed = True
            for other in children:  # they would wait for it
                os.kill(other, signal.SIGKILL)
    if failed:
        raise RuntimeError("a process failed")


def on_ranks(world: int, meeting: Path, work: Callable[[int], None]) -> None:
    """The same, as the ranks of a job; of a job of one rank, without a process group."""
    def joined(rank: int) -> None:
        dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=world,
                                timeout=PATIENCE)
        work(rank)
        dist.barrier()
        dist.destroy_process_group()

    forked(world, joined if world > 1 else work)
    meeting.unlink(missing_ok=True)
