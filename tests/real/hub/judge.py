# SPDX-License-Identifier: Apache-2.0
"""Ranks of FSDP and models of transformers against reshardfs: what the programs' own mergers make of them, and what
from_pretrained() takes from mounts."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import forked
import ranks
import small_models
import torch
import transformers
from product import mounted, reshardfs
from safetensors.torch import load_file

Counts = dict[str, int]
GOLDEN = Path(__file__).resolve().parents[2] / "golden_precision"
FAMILIES = ("llama", "qwen2", "qwen3")


def random_config(rng: random.Random, families: tuple[str, ...]) -> transformers.PretrainedConfig:
    words: dict[str, Any] = {"num_hidden_layers": rng.randint(1, 3), "num_key_value_heads": rng.choice((1, 2, 4)),
                             "tie_word_embeddings": rng.random() < 0.4, "vocab_size": rng.randint(9, 70),
                             "dtype": "float32"}
    return small_models.config_of(rng.choice(families), **words)


def require_loads(folder: Path, expected: dict[str, torch.Tensor]) -> None:
    """All of it, and nothing else."""
    model, loading = transformers.AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True, dtype="auto")
    for key in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        assert not loading[key], f"from_pretrained says {key} {loading[key]}"
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, expected[name]), f"from_pretrained has another {name}"


def exported(source: Path, directory: Path, *words: Any) -> dict[str, torch.Tensor]:
    output = directory / "shown.safetensors"
    reshardfs("export", source, output, *words)
    return load_file(output)


def require_same(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor], where: str) -> None:
    assert found.keys() == expected.keys(), f"{where}: {sorted(found.keys() ^ expected.keys())}"
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype, f"{where}: {name} is {found[name].dtype}"
        assert torch.equal(found[name], tensor), f"{where}: {name} has other values"


def from_mount(source: Path, directory: Path, expected: dict[str, torch.Tensor], *words: Any) -> None:
    with mounted(source, directory / "mnt", "--views", "hf", *words) as mountpoint:
        forked.alone(require_loads, mountpoint / "hf", expected)


def merged_file(folder: Path, tied: bool) -> dict[str, torch.Tensor]:
    """Mergers leave out the copy of tied embeddings."""
    tensors = load_file(folder / "model.safetensors")
    if tied and "lm_head.weight" not in tensors:
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"]
    return tensors


def loaded(folder: Path) -> dict[str, torch.Tensor]:
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="auto")
    return {name: tensor.detach() for name, tensor in model.state_dict().items()}


def quantized(directory: Path, name: str) -> Counts:
    """A set that a quantizer wrote, dequantized: the model that its own library's values make."""
    golden = GOLDEN / name
    plain = directory / "plain"
    plain.mkdir()
    shutil.copy(golden / "expected.safetensors", plain / "model.safetensors")
    config = json.loads((golden / "src/config.json").read_text())
    del config["quantization_config"]
    (plain / "config.json").write_text(json.dumps(config))
    # hf/ has the names of model hubs.
    names = ("--map", "packed-experts") if name == "hf_fp8_packed" else ()
    from_mount(golden / "src", directory, loaded(plain), "--dequantize", *names)
    return {"quantized: from_pretrained takes it from hf/, with the values of its own library": 1}


def verl(directory: Path, seed: int) -> Counts:
    rng = random.Random(seed)
    config = random_config(rng, FAMILIES)
    world, replicas = rng.choice(((1, 1), (2, 1), (3, 1), (4, 1), (4, 2)))
    actor = directory / "global_step_3/actor"
    ranks.run(world, ranks.save_as_verl, config, seed, replicas, actor)
    expected = {name: tensor.detach() for name, tensor in ranks.network(config, seed).state_dict().items()}
    require_same(exported(actor, directory), expected, "ranks of verl")
    forked.alone(ranks.merge_as_verl, actor, directory / "merged")
    require_same(merged_file(directory / "merged", config.tie_word_embeddings),
                 {name: tensor.bfloat16() for name, tensor in expected.items()}, "verl's own merger")
    from_mount(actor, directory, expected, "--model-config", actor / "huggingface")
    return {"verl: as its merger makes it, and from_pretrained takes it": 1}


def accelerate(directory: Path, seed: int) -> Counts:
    rng = random.Random(seed)
    config = random_config(rng, FAMILIES)
    saved = directory / "checkpoint"
    ranks.run(rng.choice((1, 2, 3, 4)), ranks.save_as_accelerate, config, seed, saved)
    forked.alone(ranks.merge_as_accelerate, saved, directory / "merged")
    expected = merged_file(directory / "merged", config.tie_word_embeddings)
    require_same(exported(saved, directory, "--state-key", "model"), expected, "accelerate's own merger")
    config.save_pretrained(directory / "config")
    from_mount(saved, directory, expected, "--state-key", "model", "--model-config", directory / "config")
    return {"accelerate: as merge_fsdp_weights makes it, and from_pretrained takes it": 1}


def whole_model(directory: Path, seed: int) -> Counts:
    """What save_pretrained() writes, in one file or several."""
    rng = random.Random(seed)
    config = random_config(rng, (*FAMILIES, "qwen3-moe", "mixtral"))
    config.dtype = rng.choice((torch.float32, torch.bfloat16))
    model = ranks.network(config, seed).to(config.dtype)
    hub = directory / "hub"
    model.save_pretrained(hub, max_shard_size=rng.choice(("5GB", "20KB", "6KB")))
    expected = {name: tensor for path in sorted(hub.glob("*.safetensors")) for name, tensor in load_file(path).items()}
    require_same(exported(hub, directory), expected, "save_pretrained")
    state = {name: tensor.detach() for name, tensor in model.state_dict().items()}
    from_mount(hub, directory, state)
    return {"transformers: as save_pretrained writes it, and from_pretrained takes it": 1}
