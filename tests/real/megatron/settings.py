# SPDX-License-Identifier: Apache-2.0
"""What a run of Megatron-Core consists of."""

from __future__ import annotations

import dataclasses
import random
from dataclasses import dataclass
from typing import Any

HIDDEN = 16
VOCABULARY = 60
EXPERTS = 4
# The families that maps relate to Hugging Face, each with its map.
FAMILIES = {"llama": "llama", "qwen2": "llama", "qwen3": "llama", "qwen3-moe": "qwen3-moe", "mixtral": "mixtral",
            "deepseek-v3": "deepseek-v3"}
WITH_EXPERTS = ("qwen3-moe", "mixtral", "deepseek-v3")


@dataclass(frozen=True)
class Settings:
    family: str = "llama"
    layers: int = 2
    # Of a HybridModel, with '|' between stages; empty: it is a GPTModel.
    pattern: str = ""
    groups: int = 2
    tied: bool = False
    query_rank: int | None = 12  # of deepseek-v3
    # Of the modules: Transformer Engine's, or Megatron-Core's own.
    engine: bool = True
    numbered: bool = False
    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    expert: int = 1
    type: str = "fp32"
    format: str = "torch_dist"
    # none, plain, or how the distributed one saves: dp_reshardable, fully_reshardable
    optimizer: str = "none"
    bucket: int | None = None
    seed: int = 1

    @property
    def world(self) -> int:
        return self.tensor * self.pipeline * self.data

    @property
    def heads(self) -> int:
        return 4

    @property
    def head(self) -> int:
        return 8

    @property
    def has_experts(self) -> bool:
        return self.family in WITH_EXPERTS

    @property
    def map(self) -> list[str]:
        """The options for the map of what is saved."""
        if self.format == "torch" and not self.engine and not self.has_experts:
            return ["--map", "megatron-ranks-llama", "--map-var", "tp=1"]
        name = f"megatron-{FAMILIES[self.family]}"
        return ["--map", f"{name}-numbered" if self.numbered and self.family != "deepseek-v3" else name]

    @property
    def padded(self) -> int:
        multiple = 16 * self.tensor
        return -(-VOCABULARY // multiple) * multiple

    def cut(self, **words: Any) -> Settings:
        """The same model otherwise."""
        return dataclasses.replace(self, **words)


def mesh(rng: random.Random, settings: Settings, most: int = 4) -> dict[str, int]:
    """Parallel sizes that the model can be cut to."""
    # Megatron's own norms are not for the sequence parallelism that experts need.
    can_cut = settings.groups % 2 == 0 and (settings.engine or not settings.has_experts)
    tensor = rng.choice((1, 2) if can_cut else (1,))
    pipeline = rng.choice([size for size in (1, 2) if settings.layers % size == 0 and tensor * size <= most])
    data = rng.choice([size for size in (1, 2) if tensor * pipeline * size <= most])
    expert = data if settings.has_experts and rng.random() < 0.6 else 1
    return {"tensor": tensor, "pipeline": pipeline, "data": data, "expert": expert}


def random_settings(rng: random.Random) -> Settings:
    family = rng.choice(tuple(FAMILIES))
    settings = Settings(family=family, layers=rng.randint(1, 4), groups=rng.choice((1, 2, 4)),
                        tied=rng.random() < 0.4 and family != "deepseek-v3",
                        engine=family == "deepseek-v3" or rng.random() < 0.7, numbered=family == "deepseek-v3" or rng.random() < 0.5,
                        type=rng.choice(("fp32", "bf16")), format=rng.choice(("torch_dist", "torch_dist", "torch")),
                        optimizer=rng.choice(("none", "none", "plain", "dp_reshardable", "fully_reshardable")),
                        bucket=rng.choice((None, 1000, 4000)), seed=rng.randrange(1 << 30))
    if settings.format == "torch":
        settings = settings.cut(numbered=True)
    return settings.cut(**mesh(rng, settings))


def fields(settings: Settings) -> dict[str, Any]:
    """Of Megatron's TransformerConfig."""
    out: dict[str, Any] = {
        "num_layers": len(settings.pattern.replace("|", "")) or settings.layers, "hidden_size": HIDDEN, "num_attention_heads": settings.heads,
        "ffn_hidden_size": 24, "kv_channels": settings.head, "num_query_groups": settings.groups,
        "normalization": "RMSNorm", "layernorm_epsilon": 1e-6, "add_bias_linear": False, "add_qkv_bias": settings.family == "qwen2",
        "gated_linear_unit": True, "qk_layernorm": settings.family in ("qwen3", "qwen3-moe", "deepseek-v3"),
        "tensor_model_parallel_size": settings.tensor, "pipeline_model_parallel_size": settings.pipeline,
        "expert_model_parallel_size": settings.expert}
    if settings.family == "deepseek-v3":
        out.update(multi_latent_attention=True, q_lora_rank=settings.query_rank, kv_lora_rank=8, qk_head_dim=8,
                   qk_pos_emb_head_dim=4, v_head_dim=8, num_query_groups=settings.heads, rope_type="rope")
    if settings.has_experts:
        out.update(num_moe_experts=EXPERTS, moe_ffn_hidden_size=12, moe_router_topk=2, moe_grouped_gemm=settings.engine,
                   moe_token_dispatcher_type="alltoall", moe_router_load_balancing_type="none")
        if settings.tensor > 1:
            out.update(sequence_parallel=True, expert_tensor_parallel_size=1)
    if settings.family == "deepseek-v3":
        out.update(moe_router_score_function="sigmoid", moe_router_enable_expert_bias=True,
                   moe_shared_expert_intermediate_size=12, moe_router_topk_scaling_factor=2.5)
    if settings.has_experts and settings.numbered and not settings.pattern:
        first_dense = settings.family == "deepseek-v3"
        out["moe_layer_freq"] = [int(not first_dense or layer > 0) for layer in range(settings.layers)]
    return out


# Fields that the command line has under another name, and what it has for some values.
SAID: dict[str, Any] = {
    "add_bias_linear": {False: ["--disable-bias-linear"]},
    "gated_linear_unit": {True: ["--swiglu"]},
    "moe_token_dispatcher_type": {"alltoall": ["--moe-token-dispatcher-type", "alltoall"]},
    "layernorm_epsilon": "--norm-epsilon",
    "num_moe_experts": "--num-experts",
}


def command_line(settings: Settings, **paths: str) -> list[str]:
    """As pretrain_gpt.py takes it."""
    words = ["pretrain_gpt.py"]
    if settings.family != "deepseek-v3":
        words.append("--group-query-attention")
    if settings.pattern:
        words += ["--hybrid-layer-pattern", settings.pattern]
    for name, value in fields(settings).items():
        if settings.pattern and name == "num_layers":  # the pattern says it
            continue
        said = SAID.get(name, f"--{name.replace('_', '-')}")
        if isinstance(said, dict):
            words += said[value]
        elif value is True:
            words.append(said)
        elif value is not None and value is not False:
            words += [said, str(value).replace(" ", "")]
    words += ["--seq-length", "32", "--max-position-embeddings", "64", "--micro-batch-size", "1",
              "--global-batch-size", str(settings.data), "--train-iters", "20", "--lr", "1e-3", "--min-lr", "1e-4",
              "--lr-decay-style", "cosine", "--ckpt-format", settings.format, "--use-cpu-initialization",
              "--transformer-impl", "transformer_engine" if settings.engine else "local",
              "--position-embedding-type", "rope", "--make-vocab-size-divisible-by", "16",
              "--tokenizer-type", "NullTokenizer", "--vocab-size", str(VOCABULARY),
              "--no-gradient-accumulation-fusion", "--attention-dropout", "0", "--hidden-dropout", "0",
              "--no-rope-fusion", "--no-masked-softmax-fusion", "--no-bias-swiglu-fusion", "--no-bias-dropout-fusion",
              "--no-persist-layer-norm", "--distributed-backend", "gloo", "--no-save-rng", "--eval-iters", "0",
              "--save-interval", "100", "--distributed-timeout-minutes", "2"]
    if not settings.tied:
        words.append("--untie-embeddings-and-output-weights")
    if settings.type == "bf16":
        words.append("--bf16")
    if settings.optimizer == "none":
        words.append("--no-save-optim")
    elif settings.optimizer != "plain":
        words.append("--use-distributed-optimizer")
    if settings.optimizer == "fully_reshardable":
        words.append("--dist-ckpt-optim-fully-reshardable")
    for name, path in paths.items():
        words += [f"--{name}", path]
    return words
