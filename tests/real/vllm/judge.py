# SPDX-License-Identifier: Apache-2.0
"""The plugin reshardfs-vllm, as pip installs it, in vLLM's own loading of plugins, formats and weights. The engine and
the model are played (stand_ins.py): a model whose ranks have parts of fused tensors, as those of vLLM do."""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import stand_ins
import torch
import transformers
import vllm.config
import vllm.distributed
import vllm.platforms
import vllm.plugins
from product import module, reshardfs
from safetensors.torch import load_file, save_file
from torch import nn
from vllm.config.load import LoadConfig
from vllm.model_executor.model_loader import base_loader, get_model_loader

assert stand_ins
TABLE = Path(__file__).resolve().parents[3] / "config/maps/parts/transformers-tp.toml"
# What layers of vLLM cut, in words of the table.
CUTS = {"ColumnParallelLinear": "rows", "QKVParallelLinear": "rows", "RowParallelLinear": "columns"}
# What vLLM joins of a model's modules.
JOINED = {"qkv_proj": ("q_proj", "k_proj", "v_proj")}
PLUGIN = Path(__file__).resolve().parents[3] / "python/vllm"
RANKS = 2
EXPERTS = 4
SOURCES = ("gate_proj.weight", "up_proj.weight")


class Model(nn.Module):
    """Fuses gate and up, whose rows the ranks share, and has all else whole."""

    def __init__(self, shapes: dict[str, torch.Size], rank: int) -> None:
        super().__init__()
        self.rank = rank
        self.seen: list[str] = []
        self.own = nn.ParameterDict()
        for name, shape in shapes.items():
            if name.endswith("gate_proj.weight"):
                self.own[self.place(name)] = nn.Parameter(torch.zeros(2, shape[0] // RANKS, *shape[1:]))
            elif not name.endswith("up_proj.weight"):
                self.own[self.place(name)] = nn.Parameter(torch.zeros(shape))

    @staticmethod
    def place(name: str) -> str:
        for part in SOURCES:
            name = name.replace(part, "gate_up.weight")
        return name.replace(".", "/")

    @torch.no_grad()
    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> set[str]:
        loaded = set()
        for name, tensor in weights:
            self.seen.append(name)
            target = self.own[self.place(name)]
            for number, part in enumerate(SOURCES):
                if name.endswith(part):
                    size = tensor.shape[0] // RANKS
                    target[number].copy_(tensor.narrow(0, self.rank * size, size))
                    break
            else:
                target.copy_(tensor)
            loaded.add(f"own.{self.place(name)}")
        return loaded


def play_engine(model: nn.Module) -> None:
    base_loader.initialize_model = lambda **_: model
    base_loader.current_platform = SimpleNamespace(is_cuda_alike=lambda: False, is_xpu=lambda: False)
    torch.accelerator.empty_cache = lambda: None
    group = SimpleNamespace(rank_in_group=0)
    vllm.distributed.get_dp_group = vllm.distributed.get_pcp_group = lambda: group
    vllm.distributed.get_tensor_model_parallel_rank = lambda: 1
    parallel = SimpleNamespace(enable_expert_parallel=True, enable_ep_weight_filter=True, enable_eplb=False,
                               data_parallel_size=1, tensor_parallel_size=RANKS, prefill_context_parallel_size=1,
                               expert_placement_strategy="linear")
    vllm.config.get_current_vllm_config = lambda: SimpleNamespace(parallel_config=parallel)


def installed(directory: Path) -> None:
    """By pip, and found by vLLM."""
    source = directory / "source"
    shutil.copytree(PLUGIN, source)
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation",
                    "--disable-pip-version-check", "--target", directory / "site", source], check=True)
    sys.path.insert(0, str(directory / "site"))
    version = metadata.version("reshardfs-vllm")
    assert version in reshardfs("--version"), f"python/vllm/pyproject.toml has another version: {version}"
    vllm.plugins.plugins_loaded = False
    vllm.plugins.load_general_plugins()


def ranks_of_mindspore(directory: Path) -> dict[str, Any]:
    config = transformers.LlamaConfig(vocab_size=60, hidden_size=16, intermediate_size=24, num_attention_heads=4,
                                      num_key_value_heads=4, num_hidden_layers=2, tie_word_embeddings=False)
    torch.manual_seed(3)
    transformers.LlamaForCausalLM(config).save_pretrained(directory / "hub")
    reshardfs("export", directory / "hub", directory / "run", "--map", "mindformers-llama", "--model-config",
              directory / "hub", "--dst-strategy", "tp=4", "--views", "ranks,strategy", "--format", "ckpt")
    return {"source": str(directory / "run"), "map": "mindformers-llama",
            "src_strategy": str(directory / "run/strategy/destination.ckpt")}


def load(directory: Path, model: Model, options: dict[str, Any]) -> None:
    """As vllm serve DIRECTORY/hub --load-format reshardfs --model-loader-extra-config OPTIONS."""
    load_config = LoadConfig(load_format="reshardfs", model_loader_extra_config=json.loads(json.dumps(options)))
    settings = SimpleNamespace(model=str(directory / "hub"), dtype=torch.float32, quantization=None,
                               is_moe="source of experts" in options["source"], get_num_experts=lambda: EXPERTS,
                               multimodal_config=None, revision=None, model_weights=None)
    engine = SimpleNamespace(device_config=SimpleNamespace(device="cpu"), load_config=load_config, quant_config=None)
    play_engine(model)
    get_model_loader(load_config).load_model(vllm_config=engine, model_config=settings)


def plugin(directory: Path) -> dict[str, int]:
    module()
    play_engine(nn.Module())
    installed(directory)
    options = ranks_of_mindspore(directory)
    whole = load_file(directory / "hub/model.safetensors")
    for rank in range(RANKS):
        model = Model({name: tensor.shape for name, tensor in whole.items()}, rank)
        load(directory, model, options)
        assert sorted(model.seen) == sorted(whole), model.seen
        for name, tensor in whole.items():
            found = model.own[model.place(name)].detach()
            for number, part in enumerate(SOURCES):
                if name.endswith(part):
                    found, tensor = found[number], tensor.chunk(RANKS)[rank]
            assert torch.equal(found, tensor), f"rank {rank}: another {name}"
    return {"vLLM loads ranks of MindSpore by the plugin": 1}


def experts(directory: Path) -> dict[str, int]:
    """A rank of expert parallelism reads no others than its own."""
    module()
    play_engine(nn.Module())
    installed(directory)
    source = directory / "source of experts.safetensors"
    tensors = {f"model.layers.0.mlp.experts.{number}.down_proj.weight": torch.randn(3, 4) for number in range(EXPERTS)}
    save_file({**tensors, "model.norm.weight": torch.ones(3)}, source)
    own = [*list(tensors)[EXPERTS // RANKS:], "model.norm.weight"]
    model = Model({name: torch.Size([3] if name not in tensors else [3, 4]) for name in own}, 1)
    load(directory, model, {"source": str(source)})
    assert sorted(model.seen) == sorted(own), model.seen
    return {"vLLM loads the experts of a rank by the plugin": 1}


def random_weight(rows: int, columns: int, bits: int, has_zeros: bool) -> dict[str, torch.Tensor]:
    """As compressed-tensors packs it, in groups of 32."""
    def words(*shape: int) -> torch.Tensor:
        return torch.randint(-1 << 31, 1 << 31, shape, dtype=torch.int32)

    parts = {"weight_packed": words(rows, columns * bits // 32), "weight_shape": torch.tensor([rows, columns]),
             "weight_scale": torch.rand(rows, columns // 32, dtype=torch.bfloat16)}
    if has_zeros:
        parts["weight_zero_point"] = words(rows * bits // 32, columns // 32)
    return parts


def packed(directory: Path) -> dict[str, int]:
    """What tp=N gives a rank is what the parameters of vLLM's scheme cut out of the whole model for it."""
    os.environ["VLLM_BATCH_INVARIANT"] = "1"  # needs no kernel of a GPU
    vllm.platforms.current_platform = SimpleNamespace(use_sync_weight_loader=lambda: False)
    compared = 0
    for bits, has_zeros in ((4, False), (4, True), (8, True)):
        weights = {"num_bits": bits, "type": "int", "strategy": "group", "group_size": 32, "symmetric": not has_zeros}
        whole = {"gate_proj": random_weight(64, 128, bits, has_zeros), "down_proj": random_weight(128, 64, bits, has_zeros)}
        shutil.rmtree(directory / "hub", ignore_errors=True)
        (directory / "hub").mkdir()
        (directory / "hub/config.json").write_text(json.dumps({"quantization_config": {
            "quant_method": "compressed-tensors", "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}}}}))
        save_file({f"model.layers.0.mlp.{name}.{part}": tensor for name, parts in whole.items()
                   for part, tensor in parts.items()}, directory / "hub/model.safetensors")
        reshardfs("export", directory / "hub", directory / "ranks", "--force", "--dst-strategy", f"tp={RANKS}",
                  "--format", "safetensors")
        for rank in range(RANKS):
            (file,) = (directory / f"ranks/rank_{rank}").glob("*.safetensors")
            own = load_file(file)
            for name, parts in whole.items():
                layer = layer_of_vllm(parts["weight_shape"].tolist(), rank, by_rows=name == "gate_proj", bits=bits,
                                      symmetric=not has_zeros)
                assert sorted(layer) == sorted(parts), (sorted(layer), sorted(parts))
                for part, tensor in parts.items():
                    load_part = "load_column_parallel_weight" if name == "gate_proj" else "load_row_parallel_weight"
                    getattr(layer[part], load_part)(loaded_weight=tensor)
                    found = own[f"model.layers.0.mlp.{name}.{part}"]
                    assert torch.equal(found, layer[part].data), (bits, has_zeros, rank, name, part)
                    compared += 1
    return {"parts of packed weights, as vLLM's parameters cut them": compared}


def layer_of_vllm(shape: list[int], rank: int, by_rows: bool, bits: int, symmetric: bool) -> dict[str, Any]:
    parameter = importlib.import_module("vllm.model_executor.parameter")
    parameter.get_tensor_model_parallel_rank = lambda: rank
    parameter.get_tensor_model_parallel_world_size = lambda: RANKS
    schemes = "vllm.model_executor.layers.quantization.compressed_tensors.schemes"
    scheme = importlib.import_module(f"{schemes}.compressed_tensors_wNa16").CompressedTensorsWNA16(
        "group", bits, 32, symmetric)
    rows, columns = shape
    layer = nn.Module()
    scheme.create_weights(layer, rows, columns, [rows // (RANKS if by_rows else 1)], columns // (1 if by_rows else RANKS),
                          torch.bfloat16, lambda *_: None)
    return dict(layer.named_parameters())


def refused(directory: Path) -> None:
    """Without a source, and where a weight gets nothing."""
    module()
    play_engine(nn.Module())
    installed(directory)
    options = ranks_of_mindspore(directory)
    shapes = {name: tensor.shape for name, tensor in load_file(directory / "hub/model.safetensors").items()}
    for words, more in (("needs --model-loader-extra-config", {"source": ""}),
                        ("Following weights were not initialized from checkpoint: {'own.lm_head/weight'}",
                         {"exclude": ["lm_head.weight"]}),
                        ("there is no argument 'colour'", {"colour": "red"}), ("nowhere: no such file", {"source": "nowhere"})):
        try:
            load(directory, Model(shapes, 0), {**options, **more})
        except Exception as error:
            assert words in str(error), f"{type(error).__name__}: {error}"
        else:
            raise AssertionError(f"it loads, without a word of {words}")


def parallel_layers(path: Path) -> dict[str, str]:
    """The modules that a model's classes make as layers that cut, by the names of their attributes."""
    found = {}
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call) or not isinstance(node.targets[0], ast.Attribute):
            continue
        cut = CUTS.get(getattr(node.value.func, "id", ""))
        for name in JOINED.get(node.targets[0].attr, (node.targets[0].attr,)) if cut else ():
            found[name] = cut
    return found


def plans(directory: Path) -> dict[str, int]:
    """Where the table names vLLM's classes, it has their layers."""
    del directory
    count = 0
    for plan in tomllib.loads(TABLE.read_text())["plan"]:
        if "source" not in plan:
            continue
        stated = {}
        for part in ("rows", "columns"):
            for pattern in plan[part]:
                last = pattern.rsplit(".", 1)[-1]
                words = re.fullmatch(r"\{w:(.*)\}", last)
                stated |= dict.fromkeys(words[1].split("|") if words else (last,), part)
        path = stand_ins.FOLDER / "model_executor/models" / plan["source"].rsplit(" ", 1)[-1]
        assert stated == parallel_layers(path), f"{plan['types']}: {stated}, and vLLM has {parallel_layers(path)}"
        count += len(stated)
    return {"vLLM cuts as the table says": count}
