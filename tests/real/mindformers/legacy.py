# SPDX-License-Identifier: Apache-2.0
"""Networks of MindFormers for use_legacy: True, with qkv_concat and without."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import files
import hub
import mindspore as ms
import networks
import numpy as np
import truth
from hub import Model, Tensors
from mindformers.core.context.build_context import Context
from mindformers.models.llama import LlamaConfig, LlamaForCausalLM
from mindformers.models.llama.convert_weight import convert_qkv_concat_weight
from models import assert_fits, exported
from product import mounted

NAMES = (("model.embed_tokens.weight", "model.tok_embeddings.embedding_weight"), ("model.norm.", "model.norm_out."),
         (".self_attn.q_proj.", ".attention.wq."), (".self_attn.k_proj.", ".attention.wk."),
         (".self_attn.v_proj.", ".attention.wv."), (".self_attn.o_proj.", ".attention.wo."),
         (".mlp.gate_proj.", ".feed_forward.w1."), (".mlp.down_proj.", ".feed_forward.w2."),
         (".mlp.up_proj.", ".feed_forward.w3."), (".input_layernorm.", ".attention_norm."),
         (".post_attention_layernorm.", ".ffn_norm."))


@contextlib.contextmanager
def in_legacy() -> Iterator[None]:
    settings = Context().mf_ctx_opr
    settings.use_legacy = True
    try:
        yield
    finally:
        settings.use_legacy = False


def network_of(model: Model, joined: bool) -> ms.nn.Cell:
    config = model.config
    with in_legacy():
        return LlamaForCausalLM(LlamaConfig(
            vocab_size=config["vocab_size"], hidden_size=config["hidden_size"], seq_length=16,
            intermediate_size=config["intermediate_size"], num_layers=config["num_hidden_layers"],
            num_heads=config["num_attention_heads"], n_kv_heads=config["num_key_value_heads"], qkv_concat=joined,
            use_flash_attention=False, param_init_type="float32", compute_dtype="float32",
            embedding_init_type="float32", qkv_has_bias=model.family == "qwen2"))


def renamed(name: str) -> str:
    for here, there in NAMES:
        name = name.replace(here, there)
    return name


def parameters(model: Model, joined: bool) -> Tensors:
    found = {renamed(name): tensor for name, tensor in model.tensors.items()}
    for layer in hub.layers(model.config) if joined else ():
        start = f"model.layers.{layer}."
        for word in ("weight", "bias") if model.family == "qwen2" else ("weight",):
            parts = [found.pop(f"{start}attention.w{name}.{word}") for name in "qkv"]
            found[f"{start}attention.w_qkv.{word}"] = truth.by_groups(model, parts)
        gate, up = (found.pop(f"{start}feed_forward.w{number}.weight") for number in (1, 3))
        found[f"{start}feed_forward.w_gate_hidden.weight"] = truth.gate_and_up(truth.Settings(), gate, up)
    return {name: np.ascontiguousarray(tensor) for name, tensor in found.items()}


def converted(model: Model, joined: bool) -> Tensors:
    """By MindFormers; its order of biases is not that of its network."""
    found = LlamaForCausalLM.convert_weight_dict(dict(model.tensors))
    if joined:
        config = {"num_heads": model.config["num_attention_heads"], "hidden_size": model.config["hidden_size"],
                  "n_kv_heads": model.config["num_key_value_heads"],
                  "intermediate_size": model.config["intermediate_size"]}
        held = {name: ms.Parameter(ms.Tensor(tensor), name=name) for name, tensor in found.items()}
        held = convert_qkv_concat_weight(held, SimpleNamespace(model_config=config))
        found = {name: parameter.asnumpy() for name, parameter in held.items()}
    return {name: tensor for name, tensor in found.items() if not (joined and name.endswith(".bias"))}


def both_ways(directory: Path, family: str, seed: int, joined: bool) -> None:
    model = hub.random_model(family, seed)
    model.write(directory / "hub")
    words = ["--map", f"mindformers-llama{'-qkv-concat' if joined else ''}", "--model-config", str(directory / "hub")]
    said = f"{family}, qkv_concat {joined}, of {model.config}"
    expected = networks.entries(parameters(model, joined))
    assert_fits(network_of(model, joined), expected, said)
    ours = exported(directory / "hub", directory / "ours.safetensors", *words)
    files.assert_equal(ours, expected, said)
    theirs = networks.entries(converted(model, joined))
    files.assert_equal({name: ours[name] for name in theirs}, theirs, f"MindFormers' converter of {said}")
    network = network_of(model, joined)
    with mounted(directory / "hub", directory / "mnt", *words, "--views", "merged-safetensors") as mountpoint:
        (path,) = (mountpoint / "merged").glob("*.safetensors")
        networks.load(network, path)
    files.assert_equal(networks.weights(network), expected, f"{said}, loaded")
    (directory / "trained").mkdir()
    ms.save_checkpoint(network, str(directory / "trained/net.safetensors"), format="safetensors")
    files.assert_equal(exported(directory / "trained", directory / "back", *words, "--views", "hf"),
                       networks.entries(model.tensors), f"{said}, back")
