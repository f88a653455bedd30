# SPDX-License-Identifier: Apache-2.0
"""Writes checkpoints as Megatron-LM's format `torch` has them, and says what they have. Needs NumPy alone.

megatron_ranks.py DIRECTORY SEED...: DIRECTORY/<seed>/ gets a random model and `expected.safetensors`.
megatron_ranks.py --golden DIRECTORY [--torch]: the fixed cases of tests/goldentorch; with --torch, PyTorch
saves the files.

iter_0000100/mp_rank_TT[_PPP][_EEE]/model_optim_rng.pt is one file for each tensor-parallel, pipeline and
expert-parallel rank, PPP and EEE only where there are several. Layers are numbered from 0 in each stage, and in
each of its virtual stages, which are below `model0`, `model1`, ... in place of `model`. Rows are cut for
embeddings, output, linear_qkv and linear_fc1; columns for linear_proj and linear_fc2. With SwiGLU a rank's
part of linear_fc1 is its part of the gate, and below it its part of the rest. Each expert-parallel rank has as
many experts, numbered from 0. Expected are the names below `model`; those of experts are stacked.
"""

from __future__ import annotations

import json
import math
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from deepspeed_sets import Save, Tensors, torch_save, write_expected
from torch_archive import Call, Global, ordered, stored, write_archive

ITERATION = 100
KINDS = {"BF16": "<u2", "F32": "<f4", "F16": "<u2"}
EMBEDDING = "embedding.word_embeddings.weight"
SHOWN = ("tensor_model_parallel_size", "pipeline_model_parallel_size", "virtual_pipeline_model_parallel_size",
         "expert_model_parallel_size", "num_layers", "padded_vocab_size")


@dataclass
class Spec:
    tensor: int = 1
    pipeline: int = 1
    layers: int = 2
    hidden: int = 8
    heads: int = 4
    query_groups: int = 2
    ffn: int = 6
    vocabulary: int = 16  # padded
    swiglu: bool = True
    untied: bool = True
    bias: bool = False
    qkv_bias: bool = False
    qk_norm: bool = False
    fused_norms: bool = True  # those of TransformerEngine
    extra_state: bool = True
    optimizer: bool = False
    kind: str = "BF16"
    release: bool = False
    virtual: int = 1
    experts: int = 0  # 0: the MLP is dense
    expert: int = 1  # expert parallelism
    expert_tensor: int = 0  # tensor parallelism of experts; 0: that of all
    grouped: bool = False  # experts as TransformerEngine's grouped module has them
    head_dim: int = 0  # 0: the heads share the hidden size
    processes: bool = False  # each file names the process that saved it, as in training
    whole: Tensors = field(default_factory=dict)

    @property
    def channels(self) -> int:
        return self.head_dim or self.hidden // self.heads

    @property
    def chunk_layers(self) -> int:
        return self.layers // (self.pipeline * self.virtual)


@dataclass(frozen=True)
class Place:
    """Of a file."""
    tensor: int = 0
    stage: int = 0
    expert: int = 0


def places(spec: Spec) -> list[Place]:
    """With whole experts on each rank, the process r has tensor rank r % tensor and expert rank r % expert."""
    step = math.gcd(spec.tensor, spec.expert) if spec.expert_tensor not in (0, spec.tensor) else 1
    return [Place(tensor, stage, expert) for tensor in range(spec.tensor) for stage in range(spec.pipeline)
            for expert in range(spec.expert) if (tensor - expert) % step == 0]


def shapes_of(spec: Spec) -> dict[str, tuple[int, ...]]:
    """Of whole tensors, with global numbers of layers."""
    wide, qkv = spec.hidden, (spec.heads + 2 * spec.query_groups) * spec.channels
    first = 2 * spec.ffn if spec.swiglu else spec.ffn
    out: dict[str, tuple[int, ...]] = {EMBEDDING: (spec.vocabulary, wide)}
    for number in range(spec.layers):
        layer = f"decoder.layers.{number}"
        norms = [layer + (".self_attention.linear_qkv.layer_norm_weight" if spec.fused_norms
                          else ".input_layernorm.weight"),
                 layer + (".mlp.linear_fc1.layer_norm_weight" if spec.fused_norms and not spec.experts
                          else ".pre_mlp_layernorm.weight")]
        out |= {norm: (wide,) for norm in norms}
        out |= {f"{layer}.self_attention.linear_qkv.weight": (qkv, wide),
                f"{layer}.self_attention.linear_proj.weight": (wide, wide)}
        stack = (spec.experts,) if spec.experts else ()
        mlp = f"{layer}.mlp.experts.experts" if spec.experts else f"{layer}.mlp"
        out |= {f"{mlp}.linear_fc1.weight": (*stack, first, wide), f"{mlp}.linear_fc2.weight": (*stack, wide,
                                                                                               spec.ffn)}
        if spec.experts:
            out[f"{layer}.mlp.router.weight"] = (spec.experts, wide)
        if spec.bias or spec.qkv_bias:
            out[f"{layer}.self_attention.linear_qkv.bias"] = (qkv,)
        if spec.bias:
            out |= {f"{layer}.self_attention.linear_proj.bias": (wide,),
                    f"{mlp}.linear_fc1.bias": (*stack, first), f"{mlp}.linear_fc2.bias": (*stack, wide)}
        if spec.qk_norm:
            out |= {f"{layer}.self_attention.{norm}_layernorm.weight": (spec.channels,) for norm in "qk"}
    out["decoder.final_layernorm.weight"] = (wide,)
    if spec.untied:
        out["output_layer.weight"] = (spec.vocabulary, wide)
    return out


def filled(spec: Spec, seed: int) -> Spec:
    rng = np.random.default_rng(seed)
    for name, shape in shapes_of(spec).items():
        if spec.kind == "F32":
            spec.whole[name] = ("F32", rng.standard_normal(shape, np.float32))
        else:
            spec.whole[name] = (spec.kind, rng.integers(0, 1 << 16, shape).astype("<u2"))
    return spec


def part(spec: Spec, name: str, array: np.ndarray, rank: int, ranks: int) -> np.ndarray:
    """What a tensor-parallel rank has."""
    if "linear_fc1" in name and "layer_norm" not in name and spec.swiglu:
        halves = np.split(array, 2)
        return np.concatenate([np.split(half, ranks)[rank] for half in halves])
    rows = ("word_embeddings.weight", "output_layer.weight", "linear_qkv.weight", "linear_qkv.bias",
            "linear_fc1.weight", "linear_fc1.bias", "softmax_offset")
    if name.endswith(rows):
        return np.split(array, ranks)[rank]
    if name.endswith(("linear_proj.weight", "linear_fc2.weight")):
        return np.split(array, ranks, axis=1)[rank]
    return array


def parts(spec: Spec, name: str, array: np.ndarray, place: Place) -> dict[str, np.ndarray]:
    """By the names in a rank's file, but for the number of the layer. Experts have tensors of their own."""
    if ".experts.experts." not in name:
        return {name: part(spec, name, array, place.tensor, spec.tensor)}
    begin, _, rest = name.partition("experts.experts.")
    each = spec.experts // spec.expert
    whole = spec.expert_tensor not in (0, spec.tensor)
    rank, ranks = (0, 1) if whole else (place.tensor, spec.tensor)
    return {begin + (f"experts.{rest}{number}" if spec.grouped else f"experts.local_experts.{number}.{rest}"):
            part(spec, name, array[place.expert * each + number], rank, ranks) for number in range(each)}


def name_on(spec: Spec, name: str, stage: int, chunk: int) -> str | None:
    """The name that a tensor has in a virtual stage; None if it is not there."""
    each, at = spec.chunk_layers, chunk * spec.pipeline + stage
    if name.startswith("decoder.layers."):
        number, _, rest = name.removeprefix("decoder.layers.").partition(".")
        return f"decoder.layers.{int(number) % each}.{rest}" if int(number) // each == at else None
    if name.startswith("embedding."):
        return name if at == 0 else None
    return name if at == spec.pipeline * spec.virtual - 1 else None


def model_of(spec: Spec, place: Place, chunk: int = 0) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, (kind, array) in spec.whole.items():
        local = name_on(spec, name, place.stage, chunk)
        if local is None:
            continue
        for own, piece in parts(spec, local, array, place).items():
            out[own] = stored(piece, kind)
        if spec.extra_state and local.endswith("linear_qkv.weight"):
            out[local.replace(".weight", "._extra_state")] = None
            stream = Call(Global("_io", "BytesIO"), (),
                          (Call(Global("_codecs", "encode"), ("x", "latin1")), 0, None))
            out[local.replace("qkv.weight", "proj._extra_state")] = stream
    # The last stage keeps a copy of a tied embedding.
    if not spec.untied and spec.pipeline > 1 and "decoder.final_layernorm.weight" in out:
        kind, array = spec.whole[EMBEDDING]
        out["output_layer.weight"] = stored(part(spec, EMBEDDING, array, place.tensor, spec.tensor), kind)
    return out


def args_of(spec: Spec, place: Place = Place()) -> Call:
    process = 0
    if spec.processes:  # of as many processes as are needed
        block = math.lcm(spec.tensor, spec.expert)
        if spec.expert_tensor in (0, spec.tensor):
            block, process = spec.tensor * spec.expert, place.expert * spec.tensor + place.tensor
        else:
            process = next(rank for rank in range(block) if rank % spec.tensor == place.tensor
                           and rank % spec.expert == place.expert)
        process += place.stage * block
    values = {"tensor_model_parallel_size": spec.tensor, "pipeline_model_parallel_size": spec.pipeline,
              "virtual_pipeline_model_parallel_size": spec.virtual if spec.virtual > 1 else None,
              "num_layers": spec.layers,
              "hidden_size": spec.hidden,
              "num_attention_heads": spec.heads, "num_query_groups": spec.query_groups,
              "group_query_attention": spec.query_groups != spec.heads, "ffn_hidden_size": spec.ffn,
              "kv_channels": spec.channels, "padded_vocab_size": spec.vocabulary, "swiglu": spec.swiglu,
              "untie_embeddings_and_output_weights": spec.untied, "add_bias_linear": spec.bias,
              "add_qkv_bias": spec.qkv_bias, "qk_layernorm": spec.qk_norm, "normalization": "RMSNorm",
              "position_embedding_type": "rope", "rotary_base": 10000, "max_position_embeddings": 64,
              "params_dtype": Global("torch", {"BF16": "bfloat16", "F32": "float32",
                                               "F16": "float16"}[spec.kind]),
              "bf16": spec.kind == "BF16", "fp16": spec.kind == "F16",
              "world_size": spec.tensor * spec.pipeline,
              "rank": process, "data_path": ["data/a"], "num_experts": spec.experts or None,
              "expert_model_parallel_size": spec.expert,
              "expert_tensor_parallel_size": spec.expert_tensor or spec.tensor,
              "transformer_impl": "transformer_engine" if spec.fused_norms else "local",
              "iteration": ITERATION,
              "attention_backend": Call(Global("megatron.core.transformer.enums", "AttnBackend"), (5,))}
    return Call(Global("argparse", "Namespace"), (), values, new=True)


def file_of(spec: Spec, place: Place = Place()) -> dict[str, Any]:
    out: dict[str, Any] = {"args": args_of(spec, place), "checkpoint_version": 3.0, "iteration": ITERATION,
                           "num_floating_point_operations_so_far": 10**15}
    for chunk in range(spec.virtual):
        key = f"model{chunk}" if spec.virtual > 1 else "model"
        out[key] = ordered(model_of(spec, place, chunk), {"_metadata": ordered({"": {"version": 1}})})
    if spec.optimizer:
        masters = [stored(np.full(3, place.tensor + number, np.float32)) for number in range(2)]
        state = {number: {"exp_avg": stored(np.zeros(3, np.float32)),
                          "exp_avg_sq": stored(np.ones(3, np.float32))} for number in range(2)}
        groups = [{"lr": 0.001, "params": [0, 1], "is_expert": False}]
        out["optimizer"] = {"optimizer": {"state": state, "param_groups": groups},
                            "fp32_from_fp16_params": [masters]}
    out["opt_param_scheduler"] = {"max_lr": 0.001, "num_steps": 6400, "lr_decay_style": "cosine"}
    if spec.optimizer:
        random = {"random_rng_state": (3, (1, 2, 3), None), "np_rng_state": ("MT19937", [1, 2], 3, 0, 0.0),
                  "torch_rng_state": stored(np.arange(16, dtype=np.uint8), "U8"),
                  "cuda_rng_state": stored(np.arange(16, dtype=np.uint8), "U8"),
                  "rng_tracker_states": {"model-parallel-rng": stored(np.arange(16, dtype=np.uint8), "U8")}}
        out["rng_state"] = [random]
    return out


def folder(spec: Spec) -> str:
    return "release" if spec.release else f"iter_{ITERATION:07}"


def rank_file(spec: Spec, place: Place = Place()) -> str:
    name = f"mp_rank_{place.tensor:02}"
    if spec.pipeline > 1:
        name += f"_{place.stage:03}"
    if spec.expert > 1:
        name += f"_{place.expert:03}"
    return f"{folder(spec)}/{name}/model_optim_rng.pt"


def write_set(directory: Path, spec: Spec, save: Save = write_archive) -> None:
    for place in places(spec):
        save(directory / rank_file(spec, place), file_of(spec, place))
    tracker = "release" if spec.release else str(ITERATION)
    (directory / "latest_checkpointed_iteration.txt").write_text(tracker)


def random_set(seed: int) -> Spec:
    """The same for the same seed, on every machine."""
    rng = np.random.default_rng(seed)
    tensor, pipeline = int(rng.choice([1, 2, 4])), int(rng.integers(1, 4))
    groups = tensor * int(rng.integers(1, 3))
    heads = groups * int(rng.integers(1, 3))
    spec = Spec(tensor, pipeline, pipeline * int(rng.integers(1, 4)), heads * 2 * int(rng.integers(1, 3)),
                heads, groups, tensor * int(rng.integers(1, 6)), tensor * int(rng.integers(1, 9)))
    spec.swiglu, spec.untied = bool(rng.random() < 0.6), bool(rng.random() < 0.6)
    spec.bias, spec.qkv_bias, spec.qk_norm = (bool(rng.random() < 0.3) for _ in range(3))
    spec.fused_norms, spec.extra_state = bool(rng.random() < 0.6), bool(rng.random() < 0.5)
    spec.optimizer, spec.release = bool(rng.random() < 0.3), bool(rng.random() < 0.2)
    spec.kind = str(rng.choice(list(KINDS)))
    spec.processes = bool(rng.random() < 0.5)
    if pipeline > 1 and rng.random() < 0.3:
        spec.virtual = int(rng.integers(2, 4))
        spec.layers *= spec.virtual
    if rng.random() < 0.4:
        spec.expert = int(rng.choice([1, 2, 4]))
        spec.experts = spec.expert * int(rng.integers(1, 4))
        spec.expert_tensor = int(rng.choice([0, 1]))
        spec.grouped = bool(rng.random() < 0.5)
    return filled(spec, seed)


# -------------------------------------------------------------------------------------------------- golden


def objects_of(spec: Spec) -> list[str]:
    """What is told beside the tensors."""
    beside = [key for key in file_of(spec) if key != "model"] + [f"args.{name}" for name in SHOWN]
    return [*beside, "*._extra_state"] if spec.extra_state else beside


def golden(out: Path, save: Save, written_by: str) -> None:
    def made(name: str, what: str, spec: Spec, must: str = "same", source: str = "src") -> Path:
        directory = out / name
        shutil.rmtree(directory, ignore_errors=True)
        write_set(directory / "src", filled(spec, len(name)), save)
        if must == "same":
            write_expected(directory / "expected.safetensors", spec.whole)
        note = "expected are the tensors below `model`, without that word"
        objects = [] if must == "refuse" else sorted(objects_of(spec))
        case = {"name": name, "what": what, "written_by": written_by, "source": source, "must": must,
                "options": [], "refused": [], "objects": objects, "note": note}
        (directory / "case.json").write_text(json.dumps(case, indent=1) + "\n")
        return directory / "src"

    small: dict[str, Any] = {"layers": 1, "extra_state": False}
    made("megatron_tp1", "one rank; tied embeddings, the optimizer and states of random generators",
         Spec(layers=1, untied=False, optimizer=True))
    made("megatron_tp2", "two tensor-parallel ranks: SwiGLU, grouped queries, biases of queries",
         Spec(2, layers=1, qkv_bias=True))
    made("megatron_pp2", "two stages: layers are numbered from 0 in each", Spec(1, 2, extra_state=False))
    made("megatron_tp2_pp2", "two by two, named by the directory of the iteration",
         Spec(2, 2, extra_state=False, kind="F32"), source="src/iter_0000100")
    made("megatron_gelu_tp2", "no SwiGLU, biases, norms of their own, all heads are groups; release/",
         Spec(2, query_groups=4, swiglu=False, bias=True, fused_norms=False, release=True, **small))
    place = made("megatron_missing_tensor", "tensor-parallel rank 1 is missing", Spec(2, **small), "refuse")
    shutil.rmtree(place / "iter_0000100" / "mp_rank_01")
    place = made("megatron_missing_stage", "the second stage is missing", Spec(1, 2, extra_state=False),
                 "refuse")
    shutil.rmtree(place / "iter_0000100" / "mp_rank_00_001")
    place = made("megatron_other_save", "rank 1 is of a model with other sizes", Spec(2, **small), "refuse")
    save(place / "iter_0000100/mp_rank_01/model_optim_rng.pt",
         file_of(filled(Spec(2, ffn=10, **small), 5), Place(1)))


def main() -> None:
    if sys.argv[1] == "--golden":
        if "--torch" in sys.argv:
            import torch
            golden(Path(sys.argv[2]), torch_save(), f"PyTorch {'.'.join(torch.__version__.split('.')[:2])}")
        else:
            golden(Path(sys.argv[2]), write_archive, "made by hand")
        return
    for seed in map(int, sys.argv[2:]):
        directory = Path(sys.argv[1]) / str(seed)
        spec = random_set(seed)
        write_set(directory, spec)
        write_expected(directory / "expected.safetensors", spec.whole)


if __name__ == "__main__":
    main()
