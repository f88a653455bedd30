# SPDX-License-Identifier: Apache-2.0
"""What compare.py has done by each way: sources saved, files converted, ranks loaded.

A task is run by compare_worker.py in one process for each rank. Loaders return what they have in memory of
their own, and note when they have FIRST. Converters write files and return nothing.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from compare_model import DTYPE, FIRST, Arrays, Model

First = Callable[[], None]
CONSOLIDATION = "torch.distributed.checkpoint._consolidate_hf_safetensors"
ZERO_SCRIPT = "deepspeed.utils.zero_to_fp32"
VERL_MERGER = "verl.model_merger.fsdp_model_merger"
torch: Any = None
mindspore: Any = None


@dataclass
class Job:
    """setup: what is known before the clock begins; files: what is known at its start."""
    rank: int
    ranks: int
    setup: dict[str, Any]
    files: list[str] = field(default_factory=list)

    def model(self) -> Model:
        return Model(Path(self.setup["model"]), self.setup["layers"], self.setup["hidden"])


def nothing(_job: Job) -> None:
    return None


@dataclass(frozen=True)
class Task:
    run: Callable[[Job, First], Arrays | None]
    prepare: Callable[[Job], None] = nothing


def import_all() -> None:
    """Before the first task, so that no figure has an import in it."""
    global mindspore, torch
    with contextlib.suppress(ImportError):
        mindspore = importlib.import_module("mindspore")
    with contextlib.suppress(ImportError):
        torch = importlib.import_module("torch")
        for name in ("distributed.checkpoint", "distributed.device_mesh", "distributed.tensor"):
            importlib.import_module(f"torch.{name}")
    with contextlib.suppress(ImportError):
        importlib.import_module(CONSOLIDATION)
    with contextlib.suppress(ImportError):
        importlib.import_module("safetensors.torch")
    with contextlib.suppress(ImportError):
        importlib.import_module(ZERO_SCRIPT)
    if importlib.util.find_spec("verl"):
        with contextlib.suppress(ImportError):
            import_verl()
    with contextlib.suppress(ImportError):
        importlib.import_module("reshardfs")
    with contextlib.suppress(ImportError, FileNotFoundError):
        proto_module()


def import_verl() -> None:
    """Without the packages that only its training needs."""
    sys.path.append(str(Path(__file__).resolve().parents[1] / "real/worker"))
    import absent
    absent.stand_in(*absent.OF_VERL)
    importlib.import_module(VERL_MERGER)


def proto_module() -> types.ModuleType:
    from strategy_files import proto_module as generated
    return generated("checkpoint")


def first_then_rest(names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda name: name != FIRST)


def share_processors(job: Job) -> None:
    if torch is not None:
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // job.ranks))


# --- torch.distributed.checkpoint --------------------------------------------------------------


def join(job: Job) -> None:
    share_processors(job)
    torch.distributed.init_process_group("gloo", init_method=f"file://{job.setup['meeting']}", rank=job.rank,
                                         world_size=job.ranks)
    torch.distributed.barrier()


def distributed(job: Job, model: Model, part_of: Callable[[str], Any]) -> dict[str, Any]:
    """The model's tensors as DTensors of this rank; part_of: what it has of one."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Replicate, Shard
    mesh = init_device_mesh("cpu", (job.ranks,), mesh_dim_names=("fsdp",))
    out = {}
    for name, cut in model.cuts.items():
        full = torch.empty(model.arrays[name].shape, device="meta")
        placement = Replicate() if cut is None else Shard(cut)
        out[name] = DTensor.from_local(part_of(name), mesh, [placement], run_check=False, shape=full.shape,
                                       stride=full.stride())
    return out


def saved_state(job: Job, model: Model) -> dict[str, Any]:
    return distributed(job, model, lambda name: torch.from_numpy(np.array(model.part(name, job.rank, job.ranks))))


def save_dcp(job: Job, _first: First) -> None:
    torch.distributed.checkpoint.save(saved_state(job, job.model()), checkpoint_id=job.setup["out"])


def save_dcp_safetensors(job: Job, _first: First) -> None:
    from torch.distributed.checkpoint import HuggingFaceStorageWriter
    writer = HuggingFaceStorageWriter(job.setup["out"], save_distributed=True)
    torch.distributed.checkpoint.save(saved_state(job, job.model()), storage_writer=writer)


def load_dcp(job: Job, _first: First) -> Arrays:
    """Into DTensors of this job's mesh. It returns when all are there."""
    model = job.model()

    def room(name: str) -> Any:
        shape, cut = list(model.arrays[name].shape), model.cuts[name]
        if cut is not None:
            shape[cut] //= job.ranks
        return torch.empty(shape)

    state = distributed(job, model, room)
    torch.distributed.checkpoint.load(state, checkpoint_id=job.setup["source"])
    return {name: tensor.to_local().numpy() for name, tensor in state.items()}


def consolidate(job: Job, _first: First) -> None:
    """The files of HuggingFaceStorageWriter to one of whole tensors."""
    Path(job.setup["out"]).mkdir()
    importlib.import_module(CONSOLIDATION).consolidate_safetensors_files(
        job.setup["source"], job.setup["out"], dict.fromkeys(job.setup["names"], 1), num_threads=os.cpu_count() or 1)


def convert_dcp(job: Job, _first: First) -> None:
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
    Path(job.setup["out"]).mkdir()
    dcp_to_torch_save(job.setup["source"], Path(job.setup["out"]) / "model.pt")


def load_torch(job: Job, _first: First) -> Arrays:
    """It returns when all are there."""
    return {name: tensor.numpy() for name, tensor in torch.load(job.files[job.rank]).items()}


# --- ranks of FSDP, as verl saves them ---------------------------------------------------------


def save_verl(job: Job, _first: First) -> None:
    """FSDP cuts all tensors by rows."""
    model, out = job.model(), Path(job.setup["out"])
    model.cuts = dict.fromkeys(model.cuts, 0)
    out.mkdir(exist_ok=True)
    torch.save(saved_state(job, model), out / f"model_world_size_{job.ranks}_rank_{job.rank}.pt")
    if job.rank == 0:
        import transformers
        from tokenizers import Tokenizer
        from tokenizers.models import WordLevel
        (out / "fsdp_config.json").write_text(json.dumps({"FSDP_version": 2, "world_size": job.ranks}))
        rows, hidden = model.arrays["model.embed_tokens.weight"].shape
        transformers.LlamaConfig(
            architectures=["LlamaForCausalLM"], vocab_size=rows, hidden_size=hidden, intermediate_size=3 * hidden,
            num_hidden_layers=job.setup["layers"], num_attention_heads=8, tie_word_embeddings=True,
        ).save_pretrained(out / "huggingface")
        words = Tokenizer(WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
        transformers.PreTrainedTokenizerFast(tokenizer_object=words).save_pretrained(out / "huggingface")


def convert_verl(job: Job, _first: First) -> None:
    from verl.model_merger.base_model_merger import ModelMergerConfig
    source = job.setup["source"]
    config = ModelMergerConfig(operation="merge", backend="fsdp", local_dir=source, target_dir=job.setup["out"],
                               hf_model_config_path=f"{source}/huggingface")
    importlib.import_module(VERL_MERGER).FSDPModelMerger(config).merge_and_save()


# --- safetensors -------------------------------------------------------------------------------


def save_safetensors(job: Job, _first: First) -> None:
    from safetensors.torch import save_file
    out = Path(job.setup["out"]) / f"rank_{job.rank}/model.safetensors"
    out.parent.mkdir(parents=True)
    model = job.model()
    save_file({name: torch.from_numpy(np.array(array))
               for name, array in model.parts(job.rank, job.ranks).items()}, out)


def load_safetensors(job: Job, first: First) -> Arrays:
    """The library's tensors are maps of the file: they are copied."""
    from safetensors import safe_open
    out = {}
    with safe_open(job.files[job.rank], framework="pt") as file:
        for name in first_then_rest(file.keys()):
            tensor = file.get_tensor(name).clone()
            out[name] = (tensor.view(torch.uint16) if tensor.dtype == torch.bfloat16 else tensor).numpy()
            first()
    return out


def convert_safetensors(job: Job, _first: First) -> None:
    """The slices of each target rank out of the files that overlap with it, one rank after the other."""
    from safetensors import safe_open
    from safetensors.torch import save_file
    model, targets = job.model(), job.setup["targets"]
    with contextlib.ExitStack() as stack:
        shards = [stack.enter_context(safe_open(path, framework="pt")) for path in job.setup["sources"]]
        for target in range(targets):
            out = Path(job.setup["out"]) / f"rank_{target}/model.safetensors"
            out.parent.mkdir(parents=True)
            save_file({name: joined(shards, name, cut, target, targets) for name, cut in model.cuts.items()}, out)


def joined(shards: list[Any], name: str, cut: int | None, target: int, targets: int) -> Any:
    if cut is None:
        return shards[0].get_tensor(name)
    length = shards[0].get_slice(name).get_shape()[cut]
    begin, end = (length * len(shards) * at // targets for at in (target, target + 1))
    pieces = []
    for number in range(begin // length, -(-end // length)):
        inner = slice(max(begin - number * length, 0), min(end - number * length, length))
        if inner == slice(0, length):
            pieces.append(shards[number].get_tensor(name))
        else:
            piece = shards[number].get_slice(name)
            pieces.append(piece[inner] if cut == 0 else piece[:, inner])
    return torch.cat(pieces, cut).contiguous()


# --- MindSpore ---------------------------------------------------------------------------------


def read_parameters(path: str) -> Iterator[tuple[str, np.ndarray]]:
    """Where MindSpore is missing: as its loader does, the whole file, the whole message, and a copy of each."""
    message = proto_module().Checkpoint()
    message.ParseFromString(Path(path).read_bytes())
    for value in message.value:
        content = np.frombuffer(value.tensor.tensor_content, DTYPE)
        yield value.tag, np.array(content.reshape(tuple(value.tensor.dims)))


def write_parameters(path: Path, arrays: Arrays) -> None:
    """As MindSpore's writer does: one message after the other. None is as large as its limit here."""
    with open(path, "wb") as out:
        for name, array in arrays.items():
            message = proto_module().Checkpoint()
            value = message.value.add()
            value.tag = name
            value.tensor.dims.extend(array.shape)
            value.tensor.tensor_type = "Float32"
            value.tensor.tensor_content = array.tobytes()
            out.write(message.SerializeToString())


def save_mindspore(job: Job, _first: First) -> None:
    path = Path(job.setup["out"]) / f"rank_{job.rank}/model-1_1.{job.setup['form']}"
    path.parent.mkdir(parents=True)
    arrays = job.model().parts(job.rank, job.ranks)
    if job.setup["form"] == "ckpt":
        return write_parameters(path, arrays)
    from safetensors.numpy import save_file
    save_file(dict(arrays), path, {"format": "ms"})
    return None


def load_mindspore(job: Job, first: First) -> Arrays:
    path, out = job.files[job.rank], {}
    if mindspore is None:
        for name, array in read_parameters(path):
            out[name] = array
            first()
        return out
    for name, parameter in mindspore.load_checkpoint(path, format=job.setup["form"]).items():
        array = parameter.asnumpy()  # of safetensors files, a map
        out[name] = array.copy() if job.setup["form"] == "safetensors" else array
        first()
    return out


def convert_mindspore(job: Job, _first: First) -> None:
    setup = job.setup
    mindspore.transform_checkpoints(setup["source"], setup["out"], "model", *setup["strategies"],
                                    output_format=setup["form"])


# --- DeepSpeed ---------------------------------------------------------------------------------


def convert_zero(job: Job, _first: First) -> None:
    importlib.import_module(ZERO_SCRIPT).convert_zero_checkpoint_to_fp32_state_dict(
        job.setup["source"], job.setup["out"], safe_serialization=True)


# --- reshardfs' module -------------------------------------------------------------------------


def load_module(job: Job, first: First) -> Arrays:
    """What the ranks have, or the whole model."""
    reshardfs = importlib.import_module("reshardfs")
    with reshardfs.open(job.setup["source"], **job.setup["options"]) as checkpoint:
        state = checkpoint.merged if job.setup["whole"] else checkpoint.rank(job.rank)
        out: Arrays = state.numpy([FIRST])
        first()
        out |= state.numpy([name for name in state if name != FIRST])
    return {name: array.view("<u2") if array.itemsize == 2 else array for name, array in out.items()}


TASKS = {
    "save_dcp": Task(save_dcp, join),
    "save_dcp_safetensors": Task(save_dcp_safetensors, join),
    "load_dcp": Task(load_dcp, join),
    "convert_dcp": Task(convert_dcp, share_processors),
    "load_torch": Task(load_torch, share_processors),
    "save_verl": Task(save_verl, join),
    "convert_verl": Task(convert_verl, share_processors),
    "consolidate": Task(consolidate, share_processors),
    "save_safetensors": Task(save_safetensors, share_processors),
    "load_safetensors": Task(load_safetensors, share_processors),
    "convert_safetensors": Task(convert_safetensors, share_processors),
    "save_mindspore": Task(save_mindspore),
    "load_mindspore": Task(load_mindspore),
    "convert_mindspore": Task(convert_mindspore),
    "convert_zero": Task(convert_zero, share_processors),
    "load_module": Task(load_module),
}
