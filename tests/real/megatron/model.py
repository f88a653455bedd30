# SPDX-License-Identifier: Apache-2.0
"""A rank's part of a network of Megatron-Core, and what its tensors are to be: values that come from names and places
alone, so that every cut of the same network has the same."""

from __future__ import annotations

import contextlib
import hashlib
import os
import warnings
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

# Before PyTorch.
os.environ.update(OMP_NUM_THREADS="1", CUDA_DEVICE_MAX_CONNECTIONS="1", GLOO_SOCKET_IFNAME="lo", NO_VCS_VERSION="1",
                  TORCH_CPP_LOG_LEVEL="ERROR")
warnings.simplefilter("ignore")

import stand_ins  # noqa: E402, F401  before Megatron-Core
import torch  # noqa: E402
from megatron.core import parallel_state  # noqa: E402
from megatron.core.dist_checkpointing.dict_utils import nested_values  # noqa: E402
from megatron.core.dist_checkpointing.mapping import ShardedObject, ShardedTensor, ShardedTensorFactory  # noqa: E402
from megatron.core.models.gpt import GPTModel  # noqa: E402
from megatron.core.models.gpt import gpt_layer_specs as specs  # noqa: E402
from megatron.core.tensor_parallel import random as generators  # noqa: E402
from megatron.core.transformer.module import Float16Module  # noqa: E402
from megatron.core.transformer.transformer_config import MLATransformerConfig, TransformerConfig  # noqa: E402
from settings import Settings, fields  # noqa: E402

torch.set_num_threads(1)
TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def start(rank: int, directory: Path, settings: Settings) -> None:
    """Its groups of processes."""
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(settings.world))
    torch.distributed.init_process_group("gloo", init_method=f"file://{directory}/store", rank=rank,
                                         world_size=settings.world, timeout=timedelta(minutes=2))
    parallel_state.initialize_model_parallel(
        settings.tensor, settings.pipeline, expert_model_parallel_size=settings.expert,
        expert_tensor_parallel_size=1 if settings.has_experts else None, create_gloo_process_groups=True)
    generators.get_cuda_rng_tracker().fork = lambda *_, **__: contextlib.nullcontext()


def config_of(settings: Settings) -> TransformerConfig:
    kind = MLATransformerConfig if settings.family == "deepseek-v3" else TransformerConfig
    type_ = TYPES[settings.type]
    config = kind(**fields(settings), activation_func=torch.nn.functional.silu, params_dtype=type_,
                  pipeline_dtype=type_, bf16=settings.type == "bf16", use_cpu_initialization=True, hidden_dropout=0.0,
                  attention_dropout=0.0, bias_activation_fusion=False,
                  persist_layer_norm=False, masked_softmax_fusion=False, apply_rope_fusion=False)
    config.hetereogenous_dist_checkpoint = settings.numbered
    return config


def spec_of(settings: Settings, config: TransformerConfig) -> Any:
    if settings.has_experts:
        return specs.get_gpt_decoder_block_spec(config, settings.engine, normalization="RMSNorm")
    if settings.engine:
        return specs.get_gpt_layer_with_transformer_engine_spec(qk_layernorm=config.qk_layernorm)
    return specs.get_gpt_layer_local_spec(qk_layernorm=config.qk_layernorm, normalization="RMSNorm")


def build(settings: Settings) -> torch.nn.Module:
    config = config_of(settings)
    if settings.pattern:
        from megatron.core.models.hybrid.hybrid_layer_specs import hybrid_stack_spec
        from megatron.core.models.hybrid.hybrid_model import HybridModel

        return HybridModel(config, hybrid_stack_spec, settings.padded, 64, hybrid_layer_pattern=settings.pattern,
                           parallel_output=False, pre_process=parallel_state.is_pipeline_first_stage(),
                           post_process=parallel_state.is_pipeline_last_stage(),
                           share_embeddings_and_output_weights=settings.tied, position_embedding_type="rope")
    model = GPTModel(config, spec_of(settings, config), settings.padded, 64, parallel_output=False,
                     pre_process=parallel_state.is_pipeline_first_stage(),
                     post_process=parallel_state.is_pipeline_last_stage(),
                     share_embeddings_and_output_weights=settings.tied, position_embedding_type="rope")
    return Float16Module(config, model) if settings.type == "bf16" else model


def shards(state: dict[str, Any]) -> Iterator[ShardedTensor]:
    for value in nested_values(state):
        if isinstance(value, ShardedTensorFactory):
            yield from shards(value.build())
        elif isinstance(value, dict):
            yield from shards(value)
        elif isinstance(value, ShardedTensor):
            yield value


def objects(state: dict[str, Any]) -> set[str]:
    return {value.unique_key for value in nested_values(state) if isinstance(value, ShardedObject)}


def value_of(name: str, shape: tuple[int, ...], seed: int) -> torch.Tensor:
    number = int.from_bytes(hashlib.sha256(f"{seed} {name}".encode()).digest()[:6], "little")
    values = torch.randn(shape, generator=torch.Generator().manual_seed(number)) * 0.1
    return values + 1 if "norm" in name else values


@torch.no_grad()
def fill(model: torch.nn.Module, seed: int) -> None:
    """Rows of the vocabulary have values of their own: their number depends on the ranks."""
    for shard in shards(model.sharded_state_dict()):
        front = shard.prepend_axis_num
        place = tuple(slice(start, start + size)
                      for start, size in zip(shard.global_offset[front:], shard.data.shape, strict=True))
        if shard.allow_shape_mismatch:
            rows = [value_of(f"{shard.key} {row}", shard.data.shape[1:], seed)
                    for row in range(place[0].start, place[0].stop)]
            whole = torch.stack(rows)
        else:
            whole = value_of(f"{shard.key} {tuple(shard.global_offset[:front])}", shard.global_shape[front:],
                             seed)[place]
        if shard.data.is_floating_point():
            shard.data.copy_(whole)
