# SPDX-License-Identifier: Apache-2.0
"""A rank that trains, saves and loads with Megatron-LM's own code, and writes down what it has (truth.py)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import megatron.core
import model
import torch
import truth
from megatron.core import dist_checkpointing, parallel_state
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.optimizer_param_scheduler import OptimizerParamScheduler
from settings import VOCABULARY, Settings, command_line

STEPS = 2
ITERATION = 7
RELEASE = tuple(map(int, megatron.core.__version__.split(".")[:2]))
HAS_MEGATRON_LM = (Path(megatron.core.__file__).parents[1] / "training").is_dir()


def arguments(settings: Settings, **paths: str) -> Any:
    """Of Megatron-LM, which its checkpoints have, and by which it loads."""
    from megatron.core.num_microbatches_calculator import init_num_microbatches_calculator
    from megatron.training import global_vars
    from megatron.training.arguments import parse_args, validate_args

    sys.argv = command_line(settings, **paths)
    args = parse_args()
    args.rank, args.world_size = torch.distributed.get_rank(), settings.world
    args = validate_args(args, {})
    args.save_tokenizer_assets = False
    args.padded_vocab_size = settings.padded
    args.consumed_train_samples = args.skipped_train_samples = args.consumed_valid_samples = 0
    global_vars.set_args(args)
    init_num_microbatches_calculator(args.rank, None, args.global_batch_size, args.micro_batch_size,
                                     args.data_parallel_size)
    return args


def trained(settings: Settings, network: torch.nn.Module) -> tuple[torch.nn.Module, Any, Any]:
    """After some steps with gradients that come from the values."""
    is_distributed = settings.optimizer != "plain"
    wrapped = DistributedDataParallel(
        config=network.config, module=network,
        ddp_config=DistributedDataParallelConfig(use_distributed_optimizer=is_distributed, bucket_size=settings.bucket,
                                                 grad_reduce_in_fp32=settings.type == "bf16"))
    said = OptimizerConfig(optimizer="adam", lr=1e-3, min_lr=1e-4, weight_decay=0.01, clip_grad=0.0, bf16=settings.type == "bf16",
                           params_dtype=model.TYPES[settings.type], use_distributed_optimizer=is_distributed)
    optimizer = get_megatron_optimizer(said, [wrapped], use_gloo_process_groups=True)
    scheduler = OptimizerParamScheduler(
        optimizer, init_lr=0.0, max_lr=1e-3, min_lr=1e-4, lr_warmup_steps=0, lr_decay_steps=20,
        lr_decay_style="cosine", start_wd=0.01, end_wd=0.01, wd_incr_steps=20, wd_incr_style="constant")
    for step in range(STEPS):
        for parameter in network.parameters():
            gradient = torch.sin(parameter.detach().float() * 37.0 + step) * 0.1
            (parameter.main_grad if hasattr(parameter, "main_grad") else parameter.grad).copy_(gradient)
        optimizer.step()
        scheduler.step(1)
    return wrapped, optimizer, scheduler


def state_of(network: torch.nn.Module, settings: Settings) -> dict[str, Any]:
    return network.sharded_state_dict(metadata={"non_homogeneous_layers": settings.numbered})


def save(settings: Settings, output: Path, place: Path) -> None:
    """`place` gets what the ranks have."""
    network = model.build(settings)
    model.fill(network, settings.seed)
    if not HAS_MEGATRON_LM:
        torch.distributed.barrier()
        output.mkdir(exist_ok=True)
        dist_checkpointing.save(state_of(network, settings), str(output))
        truth.write(place / "weights", state_of(network, settings))
        return
    from megatron.training import checkpointing

    arguments(settings, save=str(output))
    optimizer = scheduler = None
    whole = network
    if settings.optimizer != "none":
        whole, optimizer, scheduler = trained(settings, network)
    checkpointing.save_checkpoint(ITERATION, [whole], optimizer, scheduler, 0)
    state = state_of(network, settings)
    truth.write(place / "weights", state)
    if optimizer is not None:
        words = {"distrib_optim_sharding_type": "fully_reshardable", "chained_optim_avoid_prefix": True,
                 "dp_cp_group": parallel_state.get_data_parallel_group(with_context_parallel=True)}
        states = optimizer.sharded_state_dict(state, is_loading=False, metadata=words)
        truth.write(place / "states", states, copies=False)


def load_alone(network: torch.nn.Module, settings: Settings, source: Path, strictness: str) -> None:
    """By Megatron-Core, without Megatron-LM."""
    state = dist_checkpointing.load({"model": state_of(network, settings)}, str(source), strict=strictness)
    network.load_state_dict(state["model"])


def load(settings: Settings, source: Path, place: Path) -> None:
    """Into a network with other values. Megatron's strictest way of loading finds names too many and too few."""
    network = model.build(settings)
    model.fill(network, settings.seed + 1)
    # Its own layers have no extra states in some norms.
    strictness = "raise_all" if settings.engine else "assume_ok_unexpected"
    if HAS_MEGATRON_LM:
        from megatron.training import checkpointing

        arguments(settings, load=str(source), **{"dist-ckpt-strictness": strictness})
        checkpointing.load_checkpoint([network], None, None, strict=True, checkpointing_context={})
    else:
        load_alone(network, settings, source / "release", strictness)
    truth.write(place, state_of(network, settings))


def compute(settings: Settings, source: Path, output: Path) -> None:
    """What one process computes with what it loads."""
    network = model.build(settings)
    load_alone(network, settings, source, "assume_ok_unexpected")
    with torch.no_grad():
        logits = network.eval()(truth.tokens(), torch.arange(truth.LENGTH).unsqueeze(0), None)
        torch.save(logits[..., :VOCABULARY].float(), output)
