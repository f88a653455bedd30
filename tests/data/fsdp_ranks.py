# SPDX-License-Identifier: Apache-2.0
"""Saves files of single ranks as verl does it: FSDP and DTensor of PyTorch 2 on several processes.

fsdp_ranks.py DIRECTORY [CASE...]: DIRECTORY/<case>/ gets `src` with model_world_size_W_rank_R.pt and what
lies beside it, `expected.safetensors` (the whole tensors of the model) and `case.json`; see
make_torch_golden.py.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch2_common import dist, on_ranks, torch
from torch_files import RELEASE, Case, bits_of, values

import numpy as np
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard

State = dict[str, Any]
SUFFIX = RELEASE.replace(".", "")
CASES: dict[str, tuple[int, Callable[[Case, int], None]]] = {}
MODEL_ALONE = "expected are the tensors of the model; what the optimizer has may be shown besides"


def case(world: int, *releases: str) -> Callable[[Callable[[Case, int], None]], Callable[[Case, int], None]]:
    """A case that so many ranks save, of these releases if any are named. One whose name begins with _ is
    what others are made of."""
    def register(function: Callable[[Case, int], None]) -> Callable[[Case, int], None]:
        if not releases or RELEASE in releases:
            CASES[f"{function.__name__}_{SUFFIX}"] = (world, function)
        return function
    return register


class Rotary(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("inv_freq", values(9, "F32", 3))


class Layer(nn.Module):
    def __init__(self, number: int) -> None:
        super().__init__()
        self.q_proj = nn.Linear(6, 8, dtype=torch.bfloat16)
        self.down = nn.Linear(5, 3, bias=False, dtype=torch.bfloat16)
        self.scale = nn.Parameter(torch.ones(1, dtype=torch.bfloat16) * number)


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(11, 6)
        self.layers = nn.ModuleList([Layer(1)])
        self.norm = nn.LayerNorm(6)
        self.rotary = Rotary()


class Whole(nn.Module):
    """Sizes that the numbers of ranks do not divide, and fewer rows than ranks."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Inner()
        self.lm_head = nn.Linear(6, 11, bias=False)


def whole(tied: bool = False, one_type: bool = False) -> tuple[nn.Module, State]:
    torch.manual_seed(11)
    module = Whole()
    if one_type:  # gloo does not know bfloat16
        module.float()
    if tied:
        module.lm_head.weight = module.model.embed_tokens.weight
    return module, {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}


def small() -> tuple[nn.Module, State]:
    torch.manual_seed(12)
    module = nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 2, bias=False))
    return module, {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}


def directory_files(c: Case, world: int, version: int) -> None:
    (c.src / "huggingface").mkdir(parents=True, exist_ok=True)
    (c.src /
     "fsdp_config.json").write_text(json.dumps({"FSDP_version": version, "world_size": world}, indent=4))
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 6,
              "vocab_size": 11, "num_hidden_layers": 1, "torch_dtype": "bfloat16"}
    (c.src / "huggingface" / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def save(c: Case, rank: int, world: int, model: State, optim: Any = None, version: int = 2) -> None:
    """The files of one rank."""
    if rank == 0:
        directory_files(c, world, version)
    if world > 1:
        dist.barrier()
    torch.save(model, c.src / f"model_world_size_{world}_rank_{rank}.pt")
    if optim is not None:
        torch.save(optim, c.src / f"optim_world_size_{world}_rank_{rank}.pt")
        extra = {"lr_scheduler": {"last_epoch": 1, "_last_lr": [0.0]},
                 "rng": {"cpu": torch.get_rng_state()[:32].clone(),
                         "numpy": np.random.RandomState(1).get_state()[0],
                         "random": random.Random(1).getstate()[0]}}
        torch.save(extra, c.src / f"extra_state_world_size_{world}_rank_{rank}.pt")


def stepped(module: nn.Module) -> State:
    """The state of an optimizer whose steps change nothing."""
    optimizer = torch.optim.AdamW(module.parameters(), lr=0.0, weight_decay=0.0, foreach=False)
    for parameter in module.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    return optimizer.state_dict()


def as_expected(state: State, full: State) -> None:
    """That PyTorch gathers the same."""
    for name, tensor in state.items():
        wide = torch.float32 if tensor.dtype == torch.bfloat16 else tensor.dtype  # which gloo knows
        got = tensor.to(wide).full_tensor() if isinstance(tensor, DTensor) else tensor.to(wide)
        if bits_of(got).tobytes() != bits_of(full[name].to(wide)).tobytes():
            raise RuntimeError(f"{name} is gathered otherwise")
    if state.keys() != full.keys():
        raise RuntimeError("other names")


# --------------------------------------------------------------------------------------------------- FSDP2


def fully_sharded(c: Case, rank: int, world: int, mesh: DeviceMesh, tied: bool = False, optim: bool = True,
                  few: bool = False) -> None:
    from torch.distributed.fsdp import fully_shard

    module, full = small() if few else whole(tied)
    for layer in module if few else module.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(module, mesh=mesh)
    state = module.state_dict()
    if world > 1:
        as_expected(state, full)
    save(c, rank, world, state, stepped(module) if optim else None)
    c.expect(full)


@case(1, "2.14")
def fsdp2_w1(c: Case, rank: int) -> None:
    c.tell("fully_shard over one rank")
    with tempfile.TemporaryDirectory() as place:
        dist.init_process_group("gloo", init_method=f"file://{place}/meeting", rank=0, world_size=1)
        fully_sharded(c, rank, 1, init_device_mesh("cpu", (1,), mesh_dim_names=("fsdp",)), optim=False)
        dist.destroy_process_group()


@case(2)
def fsdp2_w2(c: Case, rank: int) -> None:
    c.tell("fully_shard over two ranks, tied embeddings", note=MODEL_ALONE)
    fully_sharded(c, rank, 2, init_device_mesh("cpu", (2,), mesh_dim_names=("fsdp",)), tied=True,
                  optim=RELEASE == "2.14")


@case(4, "2.6")
def fsdp2_w4(c: Case, rank: int) -> None:
    c.tell("fully_shard over four ranks: uneven rows, the last ranks without any")
    fully_sharded(c, rank, 4, init_device_mesh("cpu", (4,), mesh_dim_names=("fsdp",)), optim=False)


@case(4, "2.14")
def fsdp2_hsdp(c: Case, rank: int) -> None:
    c.tell("fully_shard over a mesh of 2 replicas of 2 shards")
    fully_sharded(c, rank, 4, init_device_mesh("cpu", (2, 2), mesh_dim_names=("ddp", "fsdp")), optim=False,
                  few=True)


@case(4)
def fsdp2_submesh(c: Case, rank: int) -> None:
    c.tell("fully_shard over the part of a mesh: ranks 0, 1 and ranks 2, 3 have the same")
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("ddp", "fsdp"))
    fully_sharded(c, rank, 4, mesh["fsdp"], optim=False, few=True)


# --------------------------------------------------------------------------------------------------- FSDP1


def wrapped(c: Case, rank: int, world: int, *, mesh: DeviceMesh | None = None) -> None:
    from torch.distributed.fsdp import (FullyShardedDataParallel, ShardedOptimStateDictConfig,
                                        ShardedStateDictConfig, StateDictType)

    if mesh is not None:
        module, full = whole(one_type=True)
        layers = module.model.layers
    else:  # a small one: these take much room
        module, full = small()
        layers = nn.ModuleList()
    cpu = torch.device("cpu")
    options: State = {"device_id": cpu, "use_orig_params": True}
    if mesh is not None:
        options["device_mesh"] = mesh
    for number, layer in enumerate(layers):
        layers[number] = FullyShardedDataParallel(layer, **options)
    outer = FullyShardedDataParallel(module, **options)
    with FullyShardedDataParallel.state_dict_type(outer, StateDictType.SHARDED_STATE_DICT,
                                                  ShardedStateDictConfig(offload_to_cpu=True),
                                                  ShardedOptimStateDictConfig(offload_to_cpu=True)):
        state = outer.state_dict()
        if mesh is not None:
            as_expected(state, full)
        elif state.keys() != full.keys():
            raise RuntimeError("other names")
        save(c, rank, world, state, None, version=1)
    c.expect(full)


@case(2, "2.14")
def fsdp1_w2(c: Case, rank: int) -> None:
    c.tell("FullyShardedDataParallel with a mesh, SHARDED_STATE_DICT: DTensors")
    wrapped(c, rank, 2, mesh=init_device_mesh("cpu", (2,), mesh_dim_names=("fsdp",)))


@case(4, "2.14")
def fsdp1_sharded_tensor(c: Case, rank: int) -> None:
    c.tell("FullyShardedDataParallel without a mesh: ShardedTensors; the last ranks have none")
    wrapped(c, rank, 4)


# ------------------------------------------------------------------------------------------------ DTensors


def cut(full: torch.Tensor, mesh: DeviceMesh, *placements: Placement, copied: bool = True) -> DTensor:
    """As distribute_tensor() cuts it, which needs gloo to know the type."""
    local = full
    for axis, placement in enumerate(placements):
        if isinstance(placement, Shard):
            parts = torch.chunk(local, mesh.size(axis), placement.dim)
            number = mesh.get_local_rank(axis)
            local = parts[number] if number < len(parts) else local.narrow(placement.dim, 0, 0)
    local = local.detach().clone(memory_format=torch.contiguous_format) if copied else local
    return DTensor.from_local(local, mesh, placements, run_check=False,
                              shape=full.shape, stride=full.stride())


@case(4)
def fsdp_dtensors(c: Case, rank: int) -> None:
    c.tell("DTensors on a mesh of four: all axes, replicated, types, views, empty parts, plain tensors")
    mesh = init_device_mesh("cpu", (4,), mesh_dim_names=("fsdp",))
    full = {"rows": values(1, "F32", 10, 3), "columns": values(2, "F32", 3, 10),
            "depth": values(3, "F16", 2, 3, 7), "negative": values(4, "F32", 3, 6),
            "replicated": values(5, "F32", 4, 2), "short": values(6, "BF16", 2, 3),
            "empty": values(8, "F32", 0, 3), "int": values(9, "I64", 9), "f8": values(11, "F8_E4M3", 8, 2),
            "u16": values(12, "U16", 6), "scalar": values(13, "F32"), "view": values(14, "F32", 5, 9),
            "plain": values(15, "F32", 3), "parameter": values(16, "F32", 7, 2),
            "transposed": values(17, "F32", 8, 6)}
    kept = full["view"].clone(), full["transposed"].clone().t()
    as_view = RELEASE == "2.6"  # newer ones do not save DTensors over views with an offset
    last = -1 if RELEASE == "2.6" else 1
    state = {"rows": cut(full["rows"], mesh, Shard(0)), "columns": cut(full["columns"], mesh, Shard(1)),
             "depth": cut(full["depth"], mesh, Shard(2)),
             "negative": cut(full["negative"], mesh, Shard(last)),
             "replicated": cut(full["replicated"], mesh, Replicate()),
             "short": cut(full["short"], mesh, Shard(0)),
             "empty": cut(full["empty"], mesh, Shard(0)),
             "int": cut(full["int"], mesh, Shard(0)),
             "f8": cut(full["f8"], mesh, Shard(0)), "u16": cut(full["u16"], mesh, Shard(0)),
             "scalar": cut(full["scalar"], mesh, Replicate()),
             "view": cut(kept[0], mesh, Shard(1), copied=not as_view), "plain": full["plain"],
             "parameter": nn.Parameter(cut(full["parameter"], mesh, Shard(0))),
             "transposed": cut(kept[1], mesh, Shard(0), copied=not as_view)}
    full["transposed"] = full["transposed"].t()
    save(c, rank, 4, state)
    c.expect(full)


@case(3)
def fsdp_rows(c: Case, rank: int) -> None:
    c.tell("DTensors cut by rows, uneven, none of the last rank")
    mesh = init_device_mesh("cpu", (3,), mesh_dim_names=("fsdp",))
    full = {"a": values(1, "F32", 10, 3), "b": values(2, "BF16", 2, 2)}
    save(c, rank, 3, {name: cut(tensor, mesh, Shard(0)) for name, tensor in full.items()})
    c.expect(full)


@case(3, "2.14")
def _fsdp_rows_otherwise(c: Case, rank: int) -> None:
    c.tell("the same names with other shapes")
    mesh = init_device_mesh("cpu", (3,), mesh_dim_names=("fsdp",))
    full = {"a": values(1, "F32", 10, 4), "b": values(2, "BF16", 4, 2)}
    save(c, rank, 3, {name: cut(tensor, mesh, Shard(0)) for name, tensor in full.items()})
    c.expect(full)


@case(2, "2.14")
def _fsdp_rows_of_two(c: Case, rank: int) -> None:
    c.tell("the same names and shapes on two ranks")
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("fsdp",))
    full = {"a": values(4, "F32", 10, 3), "b": values(5, "BF16", 2, 2)}
    save(c, rank, 2, {name: cut(tensor, mesh, Shard(0)) for name, tensor in full.items()})
    c.expect(full)


@case(4)
def fsdp_mesh_2x2(c: Case, rank: int) -> None:
    c.tell("DTensors on a mesh of 2 x 2: two axes, one axis twice, one mesh dimension only")
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    full = {"rows.columns": values(1, "F32", 5, 7), "columns.rows": values(2, "F32", 7, 5),
            "rows.rows": values(3, "F32", 11, 2), "few.rows.rows": values(4, "F32", 3, 2),
            "one.row": values(5, "BF16", 1, 4), "rows": values(6, "F32", 5, 2),
            "columns": values(7, "F32", 2, 5), "depth": values(9, "F64", 2, 3, 4)}
    state = {"rows.columns": cut(full["rows.columns"], mesh, Shard(0), Shard(1)),
             "columns.rows": cut(full["columns.rows"], mesh, Shard(1), Shard(0)),
             "rows.rows": cut(full["rows.rows"], mesh, Shard(0), Shard(0)),
             "few.rows.rows": cut(full["few.rows.rows"], mesh, Shard(0), Shard(0)),
             "one.row": cut(full["one.row"], mesh, Shard(0), Shard(0)),
             "rows": cut(full["rows"], mesh, Shard(0), Replicate()),
             "columns": cut(full["columns"], mesh, Replicate(), Shard(1)),
             "depth": cut(full["depth"], mesh, Shard(2), Shard(1))}
    as_expected(state, full)
    save(c, rank, 4, state)
    c.expect(full)


@case(4, "2.14")
def fsdp_mesh_2x1x2(c: Case, rank: int) -> None:
    c.tell("a mesh of three dimensions, one of which has size 1; no names of dimensions")
    mesh = init_device_mesh("cpu", (2, 1, 2))
    full = {"a": values(1, "F32", 5, 3), "b": values(2, "F32", 3, 5), "c": values(3, "F32", 9)}
    state = {"a": cut(full["a"], mesh, Replicate(), Shard(1), Shard(0)),
             "b": cut(full["b"], mesh, Shard(1), Shard(0), Replicate()),
             "c": cut(full["c"], mesh, Shard(0), Shard(0), Shard(0))}
    as_expected(state, full)
    save(c, rank, 4, state)
    c.expect(full)


@case(4)
def fsdp_refused(c: Case, rank: int) -> None:
    c.tell("FSDP over tensor parallelism on one axis; sums that are not done are refused by name")
    from torch.distributed.tensor.placement_types import _StridedShard

    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    rows = values(1, "F32", 8, 3)
    local = torch.chunk(torch.chunk(rows, 2)[mesh.get_local_rank(1)], 2)[mesh.get_local_rank(0)].clone()
    strided = DTensor.from_local(local, mesh, (_StridedShard(0, split_factor=2), Shard(0)), run_check=False,
                                 shape=rows.shape, stride=rows.stride())
    partial = DTensor.from_local(values(2, "F32", 3), mesh, (Replicate(), Partial()), run_check=False)
    average = DTensor.from_local(values(2, "F32", 3), mesh, (Replicate(), Partial("avg")), run_check=False)
    good = values(3, "F32", 5, 2)
    save(c, rank, 4, {"strided": strided, "partial": partial, "average": average,
                      "good": cut(good, mesh, Shard(0), Shard(1))})
    c.expect({"strided": rows, "partial": good, "average": good, "good": good},
             refused=("partial", "average"))


@case(2, "2.14")
def fsdp_plain_differs(c: Case, rank: int) -> None:
    c.tell("plain tensors that differ between the ranks: no one says how they belong together", must="any",
           note="good and same are shown; differs is refused or joined by rows, or the set is refused")
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("fsdp",))
    good = values(1, "F32", 5, 2)
    save(c, rank, 2, {"good": cut(good, mesh, Shard(0)), "same": values(2, "F32", 3),
                      "differs": values(3 + rank, "F32", 3)})
    c.expect({"good": good, "same": values(2, "F32", 3), "differs": good}, refused=("differs",))


@case(2, "2.14")
def fsdp_other_names(c: Case, rank: int) -> None:
    c.tell("a tensor that only one of the ranks has", must="refuse")
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("fsdp",))
    state = {"good": cut(values(1, "F32", 5, 2), mesh, Shard(0)),
             "lost": cut(values(2, "F32", 5, 2), mesh, Shard(0))}
    if rank == 1:
        del state["lost"]
    save(c, rank, 2, state)


# -------------------------------------------------------------------------------------- what is made of them


def derived(out: Path, name: str, origin: str, what: str,
            change: Callable[[Path], None], **told: Any) -> None:
    directory = out / f"{name}_{SUFFIX}"
    shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(out / f"{origin}_{SUFFIX}", directory)
    for file in [*directory.glob("src/optim_*"), *directory.glob("src/extra_*")]:
        file.unlink()
    change(directory / "src")
    case_file = directory / "case.json"
    said = json.loads(case_file.read_text()) | {"name": directory.name, "what": what, "must": "refuse"} | told
    if said["must"] == "refuse":
        (directory / "expected.safetensors").unlink(missing_ok=True)
        said.pop("note", None)
        said.update(refused=[], objects=[])
    case_file.write_text(json.dumps(said, indent=1) + "\n")


def swap(src: Path, world: int, first: int, second: int) -> None:
    one, other = (src / f"model_world_size_{world}_rank_{rank}.pt" for rank in (first, second))
    one.rename(src / "held")
    other.rename(one)
    (src / "held").rename(other)


def all_derived(out: Path) -> None:
    def other_save(src: Path) -> None:
        shutil.copy(out / f"_fsdp_rows_otherwise_{SUFFIX}/src/model_world_size_3_rank_1.pt", src)

    def cut_short(src: Path) -> None:
        file = src / "model_world_size_3_rank_2.pt"
        file.write_bytes(file.read_bytes()[:-300])

    def both(src: Path) -> None:
        for file in (out / f"_fsdp_rows_of_two_{SUFFIX}/src").glob("model_*"):
            shutil.copy(file, src)

    def renamed(src: Path) -> None:
        for rank in range(2):
            (src / f"model_world_size_3_rank_{rank}.pt").rename(src / f"model_world_size_2_rank_{rank}.pt")
        (src / "model_world_size_3_rank_2.pt").unlink()
        directory_files(Case(src.parent, ""), 2, 2)

    def without_config(src: Path) -> None:
        (src / "fsdp_config.json").unlink()
        shutil.rmtree(src / "huggingface")

    def in_a_run(src: Path) -> None:
        actor = src / "global_step_10" / "actor"
        actor.mkdir(parents=True)
        for entry in [entry for entry in src.iterdir() if entry.name != "global_step_10"]:
            entry.rename(actor / entry.name)
        (src / "latest_checkpointed_iteration.txt").write_text("10")
        shutil.copy(actor / "model_world_size_2_rank_0.pt", src / "global_step_10" / "data.pt")

    derived(out, "fsdp_swapped", "fsdp_rows", "the files of ranks 0 and 1 have each other's names",
            lambda src: swap(src, 3, 0, 1))
    if RELEASE == "2.6":  # the rest is not of the form of the files
        return
    derived(out, "fsdp_swapped_sharded_tensor", "fsdp1_sharded_tensor",
            "the files of ranks 1 and 2 have each other's names", lambda src: swap(src, 4, 1, 2))
    derived(out, "fsdp_missing", "fsdp_rows", "the file of rank 1 is missing",
            lambda src: (src / "model_world_size_3_rank_1.pt").unlink())
    derived(out, "fsdp_missing_last", "fsdp_rows",
            "the file of the last rank is missing, which has nothing of one tensor",
            lambda src: (src / "model_world_size_3_rank_2.pt").unlink())
    derived(out, "fsdp_truncated", "fsdp_rows", "the file of rank 2 ends too early", cut_short)
    derived(out, "fsdp_other_save", "fsdp_rows", "the file of rank 1 is of another model", other_save)
    derived(out, "fsdp_twice", "fsdp_rows", "the file of rank 2 is there twice, and that of rank 1 is not",
            lambda src: shutil.copy(src / "model_world_size_3_rank_2.pt",
                                    src / "model_world_size_3_rank_1.pt"))
    derived(out, "fsdp_half", "fsdp_rows", "two of three files, named as a set of two", renamed)
    derived(out, "fsdp_two_worlds", "fsdp_rows", "a save of two ranks lies in the directory of one of three",
            both,
            must="any", note="refuse, or show the one that fsdp_config.json tells of; never mix")
    derived(out, "fsdp_without_config", "_fsdp_rows_of_two", "without fsdp_config.json and huggingface/",
            without_config, must="same")
    derived(out, "fsdp_in_run", "_fsdp_rows_of_two",
            "the directory of the run: latest_checkpointed_iteration.txt, "
            "global_step_10/actor", in_a_run,
            must="same", source="src/global_step_10/actor")


def main() -> None:
    out = Path(sys.argv[1])
    for name in sys.argv[2:] or CASES:
        world, function = CASES[name]
        directory = out / name
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        c = Case(directory, name)

        def work(rank: int, c: Case = c, function: Callable[[Case, int], None] = function) -> None:
            function(c, rank)
            if rank == 0:
                c.finish(False)

        with tempfile.TemporaryDirectory() as place:
            on_ranks(world, Path(place) / "meeting", work)
        print(name, flush=True)
    if len(sys.argv) == 2:
        all_derived(out)


if __name__ == "__main__":
    main()
