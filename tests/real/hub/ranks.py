# SPDX-License-Identifier: Apache-2.0
"""Ranks that hold a network of transformers in parts, and save them as verl and accelerate do."""

from __future__ import annotations

import json
import os
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Before PyTorch.
os.environ.update(OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo", TORCH_CPP_LOG_LEVEL="ERROR")

import absent  # noqa: E402

absent.stand_in(*absent.OF_VERL)

import forked  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from accelerate import FullyShardedDataParallelPlugin, PartialState  # noqa: E402
from accelerate.utils import fsdp_utils  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402
from tokenizers.models import WordLevel  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402
from verl.model_merger.base_model_merger import ModelMergerConfig  # noqa: E402
from verl.model_merger.fsdp_model_merger import FSDPModelMerger  # noqa: E402

torch.set_num_threads(1)


def rank_main(rank: int, directory: Path, world: int, function: Callable[..., None],
              arguments: tuple[Any, ...]) -> None:
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world),
                      MASTER_ADDR="127.0.0.1", MASTER_PORT="29500")  # accelerate wants them, and uses neither
    torch.distributed.init_process_group("gloo", init_method=f"file://{directory}/store", rank=rank, world_size=world)
    function(rank, world, *arguments)
    torch.distributed.barrier()  # the others may still speak with this one


def run(world: int, function: Callable[..., None], *arguments: Any) -> None:
    """`function(rank, world, *arguments)` in each of them."""
    forked.run(world, rank_main, world, function, arguments)


def network(config: transformers.PretrainedConfig, seed: int) -> torch.nn.Module:
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape))
    return model


def in_parts(model: torch.nn.Module, world: int, replicas: int) -> None:
    sizes, names = ((replicas, world // replicas), ("ddp", "fsdp")) if replicas > 1 else ((world,), ("fsdp",))
    mesh = init_device_mesh("cpu", sizes, mesh_dim_names=names)
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)


def save_as_verl(rank: int, world: int, config: transformers.PretrainedConfig, seed: int, replicas: int,
                 output: Path) -> None:
    model = network(config, seed)
    in_parts(model, world, replicas)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    end = f"world_size_{world}_rank_{rank}.pt"
    output.mkdir(parents=True, exist_ok=True)
    torch.save(model.state_dict(), output / f"model_{end}")
    torch.save(optimizer.state_dict(), output / f"optim_{end}")
    torch.save({"lr_scheduler": None, "rng": torch.get_rng_state()}, output / f"extra_state_{end}")
    if rank == 0:
        (output / "fsdp_config.json").write_text(json.dumps({"FSDP_version": 2, "world_size": world}))
        config.save_pretrained(output / "huggingface")
        words = Tokenizer(WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
        transformers.PreTrainedTokenizerFast(tokenizer_object=words).save_pretrained(output / "huggingface")


def merge_as_verl(source: Path, output: Path) -> None:
    FSDPModelMerger(ModelMergerConfig(operation="merge", backend="fsdp", local_dir=str(source), target_dir=str(output),
                                      hf_model_config_path=str(source / "huggingface"))).merge_and_save()


def save_as_accelerate(rank: int, world: int, config: transformers.PretrainedConfig, seed: int,
                       output: Path) -> None:
    """As Accelerator.save_state() does, which itself wants a GPU for FSDP."""
    model = network(config, seed)
    in_parts(model, world, 1)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    model(torch.arange(8).reshape(1, 8)).logits.square().mean().backward()
    optimizer.step()
    PartialState(cpu=True)  # its log wants one
    plugin = FullyShardedDataParallelPlugin(fsdp_version=2, state_dict_type="SHARDED_STATE_DICT")
    accelerator = types.SimpleNamespace(num_processes=world, process_index=rank)
    fsdp_utils.save_fsdp_model(plugin, accelerator, model, output)
    fsdp_utils.save_fsdp_optimizer(plugin, accelerator, optimizer, model, output)


def merge_as_accelerate(source: Path, output: Path) -> None:
    PartialState(cpu=True)
    fsdp_utils.merge_fsdp_weights(str(source / "pytorch_model_fsdp_0"), str(output))
