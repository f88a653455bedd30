# SPDX-License-Identifier: Apache-2.0
"""The network of MindFormers for ChatGLM2, ChatGLM3 and GLM-4, which is for use_legacy: True alone."""

from __future__ import annotations

import importlib
import random
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock, patch

import files
import mindspore as ms
import networks
import numpy as np
from hub import Config, Model, Tensors
from legacy import in_legacy
from mindformers.models.glm2 import ChatGLM2Config, ChatGLM2ForConditionalGeneration
from models import assert_fits, exported
from product import Refused, mounted, reshardfs

CACHES = (".key_cache", ".value_cache")


@dataclass(frozen=True)
class Form:
    """Settings of the network, which its YAML states."""

    rearranged: bool
    joined: bool
    joined_mlp: bool

    def words(self) -> list[str]:
        return [word for name, value in vars(self).items() for word in ("--map-var", f"{name}={int(value)}")]


def random_model(family: str, seed: int) -> Model:
    rng, values = random.Random(seed), np.random.default_rng(seed)
    groups, layers, head = rng.choice((1, 2, 4)), rng.randint(1, 3), rng.choice((4, 8, 16))
    heads, hidden, ffn, rows = groups * rng.choice((1, 2, 3)), 8 * rng.randint(1, 4), 8 * rng.randint(1, 5), 40
    config: Config = {"model_type": family, "hidden_size": hidden, "num_attention_heads": heads}
    if family == "chatglm":
        config |= {"num_layers": layers, "ffn_hidden_size": ffn, "kv_channels": head, "multi_query_attention": True,
                   "multi_query_group_num": groups, "padded_vocab_size": rows, "add_qkv_bias": True}
        layer = {"self_attention.query_key_value.weight": ((heads + 2 * groups) * head, hidden),
                 "self_attention.query_key_value.bias": ((heads + 2 * groups) * head,),
                 "self_attention.dense.weight": (hidden, heads * head),
                 "mlp.dense_h_to_4h.weight": (2 * ffn, hidden), "mlp.dense_4h_to_h.weight": (hidden, ffn)}
        shapes = {"transformer.embedding.word_embeddings.weight": (rows, hidden),
                  "transformer.encoder.final_layernorm.weight": (hidden,),
                  "transformer.output_layer.weight": (rows, hidden)}
        start = "transformer.encoder.layers"
    else:
        config |= {"num_hidden_layers": layers, "intermediate_size": ffn, "head_dim": head, "vocab_size": rows,
                   "num_key_value_heads": groups, "tie_word_embeddings": False}
        layer = {f"self_attn.{name}_proj.{word}": (count * head, hidden)[:2 if word == "weight" else 1]
                 for name, count in (("q", heads), ("k", groups), ("v", groups)) for word in ("weight", "bias")}
        layer |= {"self_attn.o_proj.weight": (hidden, heads * head), "mlp.gate_up_proj.weight": (2 * ffn, hidden),
                  "mlp.down_proj.weight": (hidden, ffn)}
        if family == "glm4":
            layer |= {"post_self_attn_layernorm.weight": (hidden,), "post_mlp_layernorm.weight": (hidden,)}
        shapes = {"model.embed_tokens.weight": (rows, hidden), "model.norm.weight": (hidden,),
                  "lm_head.weight": (rows, hidden)}
        start = "model.layers"
    layer |= {"input_layernorm.weight": (hidden,), "post_attention_layernorm.weight": (hidden,)}
    shapes |= {f"{start}.{number}.{name}": shape for number in range(layers) for name, shape in layer.items()}
    return Model(family, config, {name: values.standard_normal(shape).astype("f4") for name, shape in shapes.items()})


def config_of(model: Model, form: Form) -> ChatGLM2Config:
    def value(*names: str) -> Any:
        return next(model.config[name] for name in names if name in model.config)

    return ChatGLM2Config(
        num_layers=value("num_layers", "num_hidden_layers"), padded_vocab_size=value("padded_vocab_size", "vocab_size"),
        hidden_size=value("hidden_size"), ffn_hidden_size=value("ffn_hidden_size", "intermediate_size"),
        kv_channels=value("kv_channels", "head_dim"), num_attention_heads=value("num_attention_heads"),
        multi_query_group_num=value("multi_query_group_num", "num_key_value_heads"), add_qkv_bias=True,
        post_self_attn_layernorm=model.family == "glm4", post_mlp_layernorm=model.family == "glm4",
        use_rearrange_rope=form.rearranged, qkv_concat=form.joined, mlp_concat=form.joined_mlp, seq_length=16,
        param_init_type="float32", compute_dtype="float32")


def network_of(model: Model, form: Form) -> ms.nn.Cell:
    with in_legacy():
        return ChatGLM2ForConditionalGeneration(config_of(model, form))


def weights(network: ms.nn.Cell) -> dict[str, files.Entry]:
    return {name: entry for name, entry in networks.weights(network).items() if not name.endswith(CACHES)}


def renamed(model: Model) -> Tensors:
    """By the program, with query, key and value of each layer as one."""
    found: Tensors = {}
    parts: dict[str, dict[str, np.ndarray]] = {}
    for name, tensor in model.tensors.items():
        name = ChatGLM2ForConditionalGeneration.convert_name(name)
        for part in ("wq", "wk", "wv"):
            if f".{part}." in name:
                parts.setdefault(name.replace(part, "query_key_value"), {})[part] = tensor
                break
        else:
            found[name] = tensor
    for name, of in parts.items():
        found[name] = np.concatenate([of["wq"], of["wk"], of["wv"]])
    return found


def converted(model: Model, form: Form) -> Tensors:
    """By MindFormers' convert_weight.py. It asks for PyTorch, of which it uses one type of data here."""
    stand_ins = {"torch": SimpleNamespace(Tensor=None, bfloat16="bfloat16"), "transformers": Mock(),
                 "mindformers.utils.convert_utils": Mock()}
    with patch.dict(sys.modules, stand_ins):
        convert_weight = importlib.import_module("mindformers.models.glm2.convert_weight")
    config = config_of(model, form)
    items = [{"name": name, "data": Data(tensor)} for name, tensor in renamed(model).items()]
    if not form.joined or form.rearranged:
        convert_weight.attn_split(items, config, ms.float32)
    if not form.joined_mlp:
        convert_weight.mlp_split(items, config, ms.float32)
    return {item["name"]: item["data"].numpy() if isinstance(item["data"], Data) else item["data"].asnumpy()
            for item in items}


class Data:
    """What the program uses of a tensor of PyTorch."""

    dtype = "float32"

    def __init__(self, values: np.ndarray) -> None:
        self.numpy = lambda: values


def both_ways(directory: Path, family: str, seed: int) -> None:
    rng = random.Random(seed)
    model = random_model(family, seed)
    form = Form(*(rng.random() < 0.5 for _ in range(3)))
    model.write(directory / "hub")
    name = "mindformers-glm" if family == "chatglm" else "mindformers-glm-hf"
    words = ["--map", name, "--model-config", str(directory / "hub")]
    said = f"{family} with {form}, of {model.config}"
    expected = networks.entries({name: np.ascontiguousarray(tensor) for name, tensor in converted(model, form).items()})
    network = network_of(model, form)
    assert set(weights(network)) == set(expected), f"{said}: {set(weights(network)) ^ set(expected)}"
    ours = exported(directory / "hub", directory / "ours.safetensors", *words, *form.words())
    files.assert_equal(ours, expected, said)
    with mounted(directory / "hub", directory / "mnt", *words, *form.words(), "--views", "merged-safetensors") as at:
        (path,) = (at / "merged").glob("*.safetensors")
        loaded = ms.load_checkpoint(str(path), format="safetensors")
        missing, unused = ms.load_param_into_net(network, loaded, strict_load=True)
    missing = [name for name in missing if not name.endswith(CACHES)]
    assert not missing and not unused, f"not loaded: {missing}; without a parameter: {unused}"
    assert weights(network) == expected, f"{said}, loaded"
    (directory / "trained").mkdir()
    ms.save_checkpoint(network, str(directory / "trained/net.safetensors"), format="safetensors")
    back = ["--map-var", f"rearranged={int(form.rearranged)}", "--views", "hf"]
    files.assert_equal(exported(directory / "trained", directory / "back", *words, *back),
                       networks.entries(model.tensors), f"{said}, back")


def unstated(directory: Path, seed: int) -> None:
    """What neither names nor a release state, reshardfs asks for; a release has the defaults of the program."""
    model = random_model("chatglm", seed)
    model.write(directory / "hub")
    words = [directory / "hub", directory / "out.safetensors", "--map", "mindformers-glm"]
    for missing in ("rearranged", "joined", "joined_mlp"):
        stated = [word for name in ("rearranged", "joined", "joined_mlp") if name != missing
                  for word in ("--map-var", f"{name}=0")]
        try:
            reshardfs("export", *words, *stated)
        except Refused as refusal:
            assert f"--map-var {missing}=0 or {missing}=1" in str(refusal), refusal
        else:
            raise AssertionError(f"without {missing} it is not refused")
    defaults = ChatGLM2Config()
    form = Form(defaults.use_rearrange_rope, defaults.qkv_concat, defaults.mlp_concat)
    expected = networks.entries(converted(model, form))
    assert_fits(network_of(model, form), {**expected, **{
        name: entry for name, entry in networks.weights(network_of(model, form)).items() if name.endswith(CACHES)}},
        "defaults")
    files.assert_equal(exported(*words[:2], *words[2:], "--map-var", "release=2.1"), expected, "the defaults")
