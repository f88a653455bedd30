# SPDX-License-Identifier: Apache-2.0
"""Runs of Megatron-Core against reshardfs: what Megatron saves is shown as its ranks have it, Megatron loads
--views megatron strictly into another cut, and transformers computes with the views what Megatron computes."""

from __future__ import annotations

import collections
import random
from pathlib import Path
from typing import Any

import files
import forked
import hub
import ranks
import torch
import training
import truth
from product import Refused, mounted, reshardfs
from safetensors.torch import save_file
from settings import VOCABULARY, Settings, mesh, random_settings

Counts = dict[str, int]
# Rank files have the names of the modules, which of Megatron-Core's own are others than those in torch_dist.
OWN_NAMES = (("self_attention.linear_qkv.layer_norm_weight", "input_layernorm.weight"),
             ("mlp.linear_fc1.layer_norm_weight", "pre_mlp_layernorm.weight"))


def require_equal(output: Path, tensors: dict[str, torch.Tensor], where: Any) -> None:
    expected = output.with_name("expected.safetensors")
    save_file(tensors, expected)
    files.assert_equal(files.read(output), files.read(expected), where)


def names_in_rank_files(settings: Settings, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    if settings.engine:
        return tensors
    out = {}
    for name, tensor in tensors.items():
        for there, own in OWN_NAMES:
            if name.endswith(there):
                name = name.removesuffix(there) + own
        out[name] = tensor
    return out


def saved(directory: Path, settings: Settings) -> dict[str, torch.Tensor]:
    """The tensors that have to be shown of the run that this makes."""
    ranks.run(settings, training.save, directory / "run", directory / "truth")
    tensors = truth.whole(directory / "truth/weights")
    if settings.format == "torch":
        return names_in_rank_files(settings, tensors)
    if settings.optimizer != "none":
        tensors |= truth.whole(directory / "truth/states")
    return tensors


def without_doubts(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Of tied embeddings on four ranks, Megatron's form with names has states of neither copy."""
    other = {name for name, tensor in tensors.items()
             if (param := tensors.get(f"optimizer.state.param.{name}")) is not None
             and not torch.equal(param.to(tensor.dtype), tensor)}
    return {name: tensor for name, tensor in tensors.items()
            if name.removeprefix("optimizer.state.").partition(".")[2] not in other}


def fixed_run(directory: Path, **words: Any) -> Counts:
    return run(directory, Settings(**words), random.Random(words.get("seed", 1)))


def random_run(directory: Path, seed: int, core_alone: bool) -> Counts:
    rng = random.Random(seed)
    settings = random_settings(rng)
    if core_alone:
        settings = settings.cut(format="torch_dist", optimizer="none")
    return run(directory, settings, rng)


def norm_of_queries(directory: Path) -> None:
    """Megatron-Core normalizes the input of linear_q_proj once more; no model of Hugging Face does."""
    settings = Settings(family="deepseek-v3", query_rank=None, numbered=True)
    saved(directory, settings)
    hub.write_config(directory / "hf", settings)
    words = ("export", directory / "run", directory / "hf/model.safetensors", *settings.map, "--model-config",
             directory / "hf")
    try:
        reshardfs(*words)
    except Refused as error:
        assert "linear_q_proj.layer_norm_weight: no rule uses it" in str(error), error
    else:
        raise AssertionError("a norm of the network is lost without a word")
    reshardfs(*words, "--drop", "*.linear_q_proj.layer_norm_weight")
    forked.alone(hub.compute, directory / "hf", directory / "logits.pt")


def hybrid_run(directory: Path, pattern: str, cut: dict[str, int], **words: Any) -> Counts:
    """A HybridModel starts from the view of a GPTModel, and computes what that computes."""
    settings = Settings(**words)
    ranks.run(settings, training.save, directory / "run", directory / "truth")
    name = "megatron-hybrid-numbered" if settings.numbered else "megatron-hybrid"
    reshardfs("export", directory / "run", directory / "start", "--map", name, "--views", "megatron", "--map-var",
              "attention_states=0", "--map-var", f"num_attention_heads={settings.heads}", "--map-var",
              f"hybrid_layer_pattern={pattern}")
    hybrid = settings.cut(pattern=pattern, tensor=1, pipeline=1, data=1, expert=1)
    for where, other in (("loaded", hybrid.cut(**cut)), ("alone", hybrid.cut(pattern=pattern.replace("|", "")))):
        ranks.run(other, training.load, directory / "start/megatron", directory / where)
        expected = numbered(truth.whole(directory / "truth/weights"), settings.layers)
        require_same(truth.whole(directory / where), hybrid_names(expected, pattern.replace("|", "")), 0)
    alone = settings.cut(tensor=1, pipeline=1, data=1, expert=1)
    iteration = directory / "run" / f"iter_{training.ITERATION:07d}"
    ranks.run(alone, training.compute, iteration, directory / "gpt.pt")
    ranks.run(hybrid.cut(pattern=pattern.replace("|", "")), training.compute, directory / "start/megatron/release",
              directory / "hybrid.pt")
    one, other = torch.load(directory / "gpt.pt"), torch.load(directory / "hybrid.pt")
    assert torch.equal(one, other), f"logits differ by {(one - other).abs().max()}"
    return {"HybridModel loads --views megatron and computes what GPTModel does": 1}


def hybrid_names(tensors: dict[str, torch.Tensor], pattern: str) -> dict[str, torch.Tensor]:
    """Of a GPTModel whose layers have numbers: those of a HybridModel."""
    attention = [place for place, symbol in enumerate(pattern) if symbol in "*+"]
    other = [place for place, symbol in enumerate(pattern) if symbol in "-E"]
    out = {}
    for name, tensor in tensors.items():
        start, layers, rest = name.partition("decoder.layers.")
        if layers:
            number, _, part = rest.partition(".")
            places = attention if part.startswith(("self_attention.", "input_layernorm.")) else other
            name = f"{start}{layers}{places[int(number)]}.{part}"
        out[name.replace("decoder.final_layernorm", "decoder.final_norm")] = tensor
    return out


def run(directory: Path, settings: Settings, rng: random.Random) -> Counts:
    print(settings, flush=True)
    tensors = saved(directory, settings)
    words: tuple[str, ...] = ()
    if settings.optimizer == "dp_reshardable":
        expected = without_doubts(tensors)
        words = tuple(word for name in sorted(tensors.keys() - expected.keys()) for word in ("--exclude", name))
        tensors = expected
    reshardfs("export", directory / "run", directory / "shown.safetensors", *words)
    require_equal(directory / "shown.safetensors", tensors, "the run")
    reshardfs("verify", directory / "run")
    counts = collections.Counter({f"Megatron saved {settings.format}: shown as the ranks have it": 1})
    weights = truth.whole(directory / "truth/weights")
    counts.update(hugging_face(directory, settings))
    counts.update(loaded(directory, settings, weights, rng))
    if settings.type == "fp32" and training.RELEASE >= (0, 15):
        counts.update(computed(directory, settings))
    return counts


def computed(directory: Path, settings: Settings) -> Counts:
    """Megatron computes with the model of Hugging Face what transformers computes."""
    alone = settings.cut(tensor=1, pipeline=1, data=1, expert=1, numbered=settings.family == "deepseek-v3",
                         format="torch_dist", optimizer="none")
    reshardfs("export", directory / "hf", directory / "alone", *start_options(settings, alone))
    ranks.run(alone, training.compute, directory / "alone/megatron/release", directory / "own.pt")
    one, other = torch.load(directory / "logits.pt"), torch.load(directory / "own.pt")
    assert torch.allclose(one, other, rtol=1e-4, atol=1e-5), f"logits differ by {(one - other).abs().max()}"
    return {"Megatron and transformers compute the same": 1}


def hugging_face(directory: Path, settings: Settings) -> Counts:
    """The model of Hugging Face, from the run: transformers takes all of it, and computes the same."""
    hub.write_config(directory / "hf", settings)
    reshardfs("export", directory / "run", directory / "hf/model.safetensors", *settings.map,
              "--model-config", directory / "hf", "--weights-only")
    forked.alone(hub.compute, directory / "hf", directory / "logits.pt")
    return {f"transformers takes the run as {settings.family}": 1}


def start_options(settings: Settings, other: Settings) -> list[str]:
    words = [*other.map, "--map-var", f"padded_vocab={settings.padded}", "--views", "megatron"]
    if training.RELEASE >= (0, 15):
        words += ["--map-var", "attention_states=0"]
    if settings.has_experts and not settings.engine:
        words += ["--map-var", "local_layers=1"]
    return words


def loaded(directory: Path, settings: Settings, weights: dict[str, torch.Tensor], rng: random.Random) -> Counts:
    """Megatron starts from the model of Hugging Face, in another cut and perhaps in the other form."""
    other = settings.cut(format="torch_dist", optimizer="none", **mesh(rng, settings))
    if settings.family != "deepseek-v3":
        other = other.cut(numbered=rng.random() < 0.5)
    words = start_options(settings, other)
    if rng.random() < 0.5:
        with mounted(directory / "hf", directory / "mnt", *words) as mountpoint:
            ranks.run(other, training.load, mountpoint / "megatron", directory / "loaded")
    else:
        reshardfs("export", directory / "hf", directory / "start", *words)
        ranks.run(other, training.load, directory / "start/megatron", directory / "loaded")
    require_same(truth.whole(directory / "loaded"), weights, settings.layers)
    return {"Megatron loads --views megatron": 1}


def require_same(found: dict[str, torch.Tensor], weights: dict[str, torch.Tensor], layers: int) -> None:
    """In either form, with any padding of the vocabulary."""
    one, other = numbered(found, layers), numbered(weights, layers)
    assert one.keys() == other.keys(), sorted(one.keys() ^ other.keys())
    for name, tensor in other.items():
        assert torch.equal(one[name], tensor), f"Megatron has another {name}"


def numbered(tensors: dict[str, torch.Tensor], layers: int) -> dict[str, torch.Tensor]:
    out = {}
    for name, tensor in tensors.items():
        start, layer, rest = name.partition("decoder.layers.")
        if name in ("embedding.word_embeddings.weight", "output_layer.weight"):
            out[name] = tensor[:VOCABULARY]
        elif layer and not rest[0].isdigit():
            out |= {f"{start}{layer}{number}.{rest}": tensor[number] for number in range(layers)}
        else:
            out[name] = tensor
    return out
