# SPDX-License-Identifier: Apache-2.0
"""Loads distributed checkpoints with PyTorch 2, and compares every bit of them.

torch2_load.py JOBS.json: a list of {"name", "how", "directory", "expected" (safetensors), and, if they
are known, "objects" (pickle), "world" (processes)}. `how` is one of the functions below. Each prints a
line; any difference ends in exit code 1.
"""

from __future__ import annotations

import io
import json
import pickle
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch2_common import (cut, differing, flattened, forked, on_ranks, read_tensors,
                           torch)

import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard

Job = dict[str, Any]
Tensors = dict[str, torch.Tensor]
SKIPPED = "skipped: "


def objects_of(job: Job) -> dict[str, Any]:
    return pickle.loads(Path(job["objects"]).read_bytes()) if job.get("objects") else {}


def same_objects(got: dict[str, Any], want: dict[str, Any]) -> list[str]:
    return [f"{name}: {got.get(name)!r} is not {value!r}" for name, value in want.items()
            if name not in got or got[name] != value]


def whole(job: Job, want: Tensors, reader: Any = None) -> list[str]:
    """dcp.load() into tensors of one process."""
    objects = objects_of(job)
    state: dict[str, Any] = {name: torch.empty_like(tensor) for name, tensor in want.items()}
    state |= dict.fromkeys(objects, 0)
    if reader is None:
        reader = dcp.FileSystemReader(job["directory"])
    named = set(reader.read_metadata().state_dict_metadata)
    problems = [f"{name}: only in one of both" for name in named ^ state.keys()]
    dcp.load(state, storage_reader=reader)
    return (problems + differing({name: state[name] for name in want}, want)
            + same_objects(state, objects))


def torch_save(job: Job, want: Tensors) -> list[str]:
    """dcp_to_torch_save, as a program converts it."""
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "model.pt"
        dcp_to_torch_save(job["directory"], file)
        values = flattened(torch.load(file, weights_only=False))
    got = {name: value for name, value in values.items() if isinstance(value, torch.Tensor)}
    return differing(got, want) + same_objects(values, objects_of(job))


def archives(job: Job, want: Tensors) -> list[str]:
    """torch.load(weights_only=True) of each item, alone and at its place in the file."""
    directory = Path(job["directory"])
    table = dcp.FileSystemReader(directory).read_metadata()
    problems = []
    for index, place in table.storage_data.items():
        if index.fqn not in want:
            continue
        data = (directory / place.relative_path).read_bytes()[place.offset:][:place.length]
        item = torch.load(io.BytesIO(data), weights_only=True)
        box = tuple(slice(at, at + size)
                    for at, size in zip(index.offset or [0] * item.dim(), item.shape, strict=True))
        problems += differing({index.fqn: item}, {index.fqn: want[index.fqn][box]})
        with tempfile.NamedTemporaryFile() as file:
            file.write(data)
            file.flush()
            mapped = torch.load(file.name, weights_only=True, mmap=True)
        problems += differing({index.fqn: mapped}, {index.fqn: item})
    return problems


def target(full: torch.Tensor, mesh: Any, number: int) -> DTensor:
    """Cut by another rule for each."""
    axes = mesh.ndim
    choices: list[tuple[Any, ...]] = [(Replicate(),) * axes]
    for dim in range(min(full.dim(), 2)):
        choices += [(Shard(dim),) + (Replicate(),) * (axes - 1),
                    (Replicate(),) * (axes - 1) + (Shard(dim),)]
    if axes == 2 and full.dim() > 1:
        choices += [(Shard(0), Shard(1)), (Shard(1), Shard(0))]
    return cut(full, mesh, *choices[number % len(choices)])


def ranks(job: Job, want: Tensors, hugging_face: bool = False) -> list[str]:
    """dcp.load() by several processes into DTensors."""
    world = job["world"]

    def work(rank: int) -> None:
        meshes = [init_device_mesh("cpu", (world,))]
        if world == 4:
            meshes.append(init_device_mesh("cpu", (2, 2)))
        for turn in range(2):
            mesh = meshes[turn % len(meshes)]
            wanted = {name: target(tensor, mesh, number + turn)
                      for number, (name, tensor) in enumerate(want.items())}
            state = {name: DTensor.from_local(torch.empty_like(tensor.to_local()), mesh,
                                              tensor.placements, run_check=False, shape=tensor.shape,
                                              stride=tensor.stride())
                     for name, tensor in wanted.items()}
            reader = (dcp.HuggingFaceStorageReader if hugging_face
                      else dcp.FileSystemReader)(job["directory"])
            dcp.load(state, storage_reader=reader)
            problems = differing({name: tensor.to_local() for name, tensor in state.items()},
                                 {name: tensor.to_local() for name, tensor in wanted.items()})
            if problems:
                raise AssertionError("; ".join(problems[:5]))

    with tempfile.TemporaryDirectory() as directory:
        on_ranks(world, Path(directory) / "meeting", work)
    return []


def hugging_face(job: Job, want: Tensors) -> list[str]:
    """HuggingFaceStorageReader."""
    if not hasattr(dcp, "HuggingFaceStorageReader"):
        return [SKIPPED + "no HuggingFaceStorageReader"]
    return whole(job, want, dcp.HuggingFaceStorageReader(job["directory"]))


def hugging_face_ranks(job: Job, want: Tensors) -> list[str]:
    if not hasattr(dcp, "HuggingFaceStorageReader"):
        return [SKIPPED + "no HuggingFaceStorageReader"]
    return ranks(job, want, hugging_face=True)


def safetensors(job: Job, want: Tensors) -> list[str]:
    """Each file by the library itself; boxes are put together by what the files state."""
    from safetensors import safe_open
    from safetensors.torch import load_file
    got = {name: torch.empty_like(tensor) for name, tensor in want.items()}
    seen = {name: torch.zeros(tensor.shape, dtype=torch.bool) for name, tensor in want.items()}
    for file in sorted(Path(job["directory"]).glob("*.safetensors")):
        with safe_open(file, framework="pt") as opened:
            told = json.loads((opened.metadata() or {}).get("DCP_SHARDING_INFO", "{}"))
        for name, tensor in load_file(file).items():
            offsets = told[name]["saved_offsets"] if told else [0] * tensor.dim()
            box = tuple(slice(at, at + size) for at, size in zip(offsets, tensor.shape, strict=True))
            got[name][box] = tensor
            seen[name][box] = True
    return differing(got, want) + [f"{name}: has holes" for name in want if not bool(seen[name].all())]


HOWS: dict[str, Callable[..., list[str]]] = {
    function.__name__: function
    for function in (whole, torch_save, archives, ranks, hugging_face, hugging_face_ranks, safetensors)}


def run(job: Job) -> bool:
    problems: list[str] = []

    def work(_number: int) -> None:
        problems.extend(HOWS[job["how"]](job, read_tensors(Path(job["expected"]))))
        if problems and not problems[0].startswith(SKIPPED):
            raise AssertionError("; ".join(problems[:5]))
        if problems:
            print(f"{job['name']} {job['how']}: {problems[0]}", flush=True)

    try:
        forked(1, work)
    except RuntimeError as error:
        print(f"{job['name']} {job['how']}: FAILED: {error}", flush=True)
        return False
    return True


def main() -> None:
    jobs = json.loads(Path(sys.argv[1]).read_text())
    done = [run(job) for job in jobs]
    print(f"{sum(done)} of {len(done)} loads are right", flush=True)
    raise SystemExit(0 if all(done) else 1)


if __name__ == "__main__":
    main()
