# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of other programs and types, for models of transformers in memory: see live.py."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import forked
import live
import ranks
import small_models
import torch
import transformers
from product import require_module, reshardfs
from safetensors.torch import save_file
from worker import Skip

GOLDEN = Path(__file__).resolve().parents[2] / "golden_precision"
# Every rank's file by MindSpore itself.
SAVE_AGAIN = """
import sys
from pathlib import Path
import mindspore as ms
source, target = map(Path, sys.argv[1:])
for path in sorted(source.glob("rank_*/*.ckpt")):
    (target / path.parent.name).mkdir(parents=True)
    parameters = [{"name": name, "data": value} for name, value in ms.load_checkpoint(str(path)).items()]
    ms.save_checkpoint(parameters, str(target / path.parent.name / "net-1_1.ckpt"))
"""


def written(folder: Path, **words: Any) -> transformers.PreTrainedModel:
    """A model, as save_pretrained() writes it."""
    config = small_models.config_of("llama", **{"num_hidden_layers": 2, "num_key_value_heads": 4, "dtype": "bfloat16",
                                                "tie_word_embeddings": False, **words})
    model = ranks.network(config, 5).to(getattr(torch, config.dtype) if isinstance(config.dtype, str) else config.dtype)
    model.save_pretrained(folder)
    return model


def mindspore(directory: Path) -> dict[str, int]:
    """Four ranks, each with a fourth of most tensors."""
    python = os.environ.get("RESHARDFS_MINDSPORE")
    if not python:
        raise Skip("MindSpore is not installed")
    require_module()
    hub = directory / "hub"
    written(hub)
    shown = directory / "shown"
    words = ("--map", "mindformers-llama", "--model-config", hub)
    reshardfs("export", hub, shown, *words, "--dst-strategy", "tp=4", "--format", "ckpt", "--views", "ranks,strategy")
    subprocess.run([python, "-c", SAVE_AGAIN, shown, directory / "run"], check=True, stdin=subprocess.DEVNULL,
                   timeout=300)
    strategy = shown / "strategy/destination.ckpt"
    options = {"map": "mindformers-llama", "model_config": hub, "src_strategy": strategy}
    return live.check(directory, live.Source(directory / "run", hub, options,
                                             ("--map", "mindformers-llama", "--src-strategy", strategy)))


def blocks(directory: Path) -> dict[str, int]:
    """8-bit floats, a scale for each block of 128 by 128."""
    require_module()
    source = directory / "hub"
    model = written(source, hidden_size=192, intermediate_size=288, head_dim=48)
    (source / "model.safetensors").unlink()
    tensors = {}
    for name, tensor in model.state_dict().items():
        if not name.endswith("_proj.weight"):
            tensors[name] = tensor.contiguous()
            continue
        rows, columns = (-(-size // 128) for size in tensor.shape)
        scales = torch.rand(rows, columns) / 100 + 0.001
        large = scales.repeat_interleave(128, 0).repeat_interleave(128, 1)[:tensor.shape[0], :tensor.shape[1]]
        tensors[name] = (tensor.float() / large).clamp(-448, 448).to(torch.float8_e4m3fn)
        tensors[f"{name}_scale_inv"] = scales
    save_file(tensors, source / "model.safetensors")
    config = transformers.AutoConfig.from_pretrained(source)
    config.quantization_config = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    config.save_pretrained(source)
    return live.check(directory, live.Source(source, source, {"dequantize": True}, ("--dequantize",)))


def mxfp4(directory: Path) -> dict[str, int]:
    """As compressed-tensors wrote it."""
    source = GOLDEN / "ct_mxfp4/src"
    return live.check(directory, live.Source(source, source, {"dequantize": True}, ("--dequantize",)))


def deepspeed(directory: Path, stage: int) -> dict[str, int]:
    require_module()
    written(directory / "hub", dtype="float32")
    forked.run(2, live.rank_main, 2, train, (stage, directory / "hub", directory / "run"))
    return live.check(directory, live.Source(directory / "run", directory / "hub", states=True))


def train(rank: int, stage: int, hub: Path, output: Path) -> None:
    os.environ.update(DS_ACCELERATOR="cpu", DS_SKIP_CUDA_CHECK="1", RANK=str(rank), LOCAL_RANK=str(rank),
                      WORLD_SIZE="2", LOCAL_WORLD_SIZE="2", LOCAL_SIZE="2")
    import deepspeed as ds
    import deepspeed.ops

    deepspeed.ops.__compatible_ops__.update(deepspeed_shm_comm=False)  # would be compiled
    ds.init_distributed("gloo", auto_mpi_discovery=False)
    model = transformers.AutoModelForCausalLM.from_pretrained(hub, dtype=torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=False)
    config = {"train_micro_batch_size_per_gpu": 2, "zero_allow_untested_optimizer": True,
              "zero_force_ds_cpu_optimizer": False, "zero_optimization": {"stage": stage}}
    engine, *_ = ds.initialize(model=model, optimizer=optimizer, config=config)
    tokens = (torch.arange(24) * (rank + 3) % 60).reshape(2, 12)
    for _ in range(2):
        engine.backward(engine(input_ids=tokens, labels=tokens).loss)
        engine.step()
    engine.save_checkpoint(str(output))
