# SPDX-License-Identifier: Apache-2.0
"""DeepSeek-V4, for which MindFormers has a PyNative network and converters in both directions."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import files
import mindspore as ms
import networks
import numpy as np
import yaml
from files import Entry
from mindformers import AutoModelForCausalLM, MindFormerConfig
from models import exported
from product import mounted
from safetensors.numpy import save_file

# Ones that the network does not train, and that no model has.
CONSTANTS = (".q_rms_gamma", "_hc.rms_weight")


def random_config(rng: random.Random) -> dict[str, Any]:
    rope, nope, count = 8, rng.choice((8, 16)), rng.randint(1, 3)
    return {
        "architectures": ["DeepseekV4ForCausalLM"], "model_type": "deepseek_v4", "dtype": "float32",
        "vocab_size": 8 * rng.randint(3, 6), "hidden_size": 16 * rng.randint(1, 3), "hidden_act": "silu",
        "moe_intermediate_size": 8 * rng.randint(1, 3), "num_hidden_layers": count, "num_nextn_predict_layers": 1,
        "num_attention_heads": rng.choice((2, 4)), "num_key_value_heads": 1, "n_shared_experts": 1,
        "n_routed_experts": rng.choice((2, 4, 6)), "num_experts_per_tok": 2, "head_dim": rope + nope,
        "v_head_dim": rope + nope, "qk_rope_head_dim": rope, "q_lora_rank": 4 * rng.randint(1, 4), "o_lora_rank": 8,
        "o_groups": 2, "index_n_heads": 2, "index_head_dim": 16, "index_topk": 4,
        "num_hash_layers": rng.randint(0, count), "sliding_window": 128, "hc_mult": rng.choice((2, 4)),
        "compress_ratios": [*(rng.choice((0, 4, 128)) for _ in range(count)), 0], "max_position_embeddings": 32,
        "tie_word_embeddings": False, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    }


class Training:
    def __init__(self, directory: Path, seed: int) -> None:
        self.hub, self.yaml = directory / "hub", directory / "run.yaml"
        self.hub.mkdir()
        (self.hub / "config.json").write_text(json.dumps(random_config(random.Random(seed))))
        self.yaml.write_text(yaml.safe_dump({
            **networks.RUN, "context": {**networks.RUN["context"], "mode": 1}, "pretrained_model_dir": str(self.hub),
            "model": {"model_config": {**networks.TYPES, "qk_layernorm": True}}}))
        self.words = ["--map", "mindformers-deepseek-v4", "--model-config", str(self.hub), "--training-config",
                      str(self.yaml)]

    def network(self) -> ms.nn.Cell:
        with networks.in_mode(1):
            return AutoModelForCausalLM.from_config(MindFormerConfig(str(self.yaml)))


def is_own(name: str) -> bool:
    """Of the network alone."""
    return networks.is_counter(name) or name.endswith(CONSTANTS)


def weights(network: ms.nn.Cell) -> dict[str, Entry]:
    return {name: networks.entry(parameter) for name, parameter in network.parameters_dict().items()
            if not is_own(name)}


def trained(training: Training, seed: int) -> ms.nn.Cell:
    network = training.network()
    values = np.random.default_rng(seed)
    for name, parameter in network.parameters_dict().items():
        if not name.endswith(CONSTANTS):
            array = values.standard_normal(parameter.shape).astype("f4")
            parameter.set_data(ms.Tensor((array * 8).astype("i4") if parameter.dtype == ms.int32 else array))
    return network


def converted(network: ms.nn.Cell) -> dict[str, np.ndarray]:
    """To Hugging Face by MindFormers."""
    for converter in network.template.weight_converters:
        if hasattr(converter, "optimizer_parallel_size"):
            converter.optimizer_parallel_size = 1
    parameters = {name: parameter.asnumpy() for name, parameter in network.parameters_dict().items()
                  if not is_own(name)}
    found = network.template.get_hf_state_dict(parameters)
    return {name: np.ascontiguousarray(tensor) for name, tensor in found.items()}


def both_ways(directory: Path, seed: int, constants: bool) -> None:
    """`constants`: whether the file has the parameters that no model has, as those that the program saves."""
    training = Training(directory, seed)
    network = trained(training, seed)
    hub = converted(network)
    save_file(hub, training.hub / "model.safetensors", metadata={"format": "pt"})
    (directory / "trained").mkdir()
    ms.save_checkpoint(network, str(directory / "trained/net.safetensors"), format="safetensors",
                       choice_func=lambda name: constants or not name.endswith(CONSTANTS))
    files.assert_equal(exported(directory / "trained", directory / "back", *training.words, "--views", "hf"),
                       networks.entries(hub), "DeepSeek-V4 for Hugging Face")
    expected = weights(network)
    ours = exported(training.hub, directory / "ours.safetensors", *training.words)
    files.assert_equal(ours, expected, "DeepSeek-V4 for MindFormers")
    network = training.network()
    with mounted(training.hub, directory / "mnt", *training.words, "--views", "merged-safetensors") as mountpoint:
        (path,) = (mountpoint / "merged").glob("*.safetensors")
        missing, unused = ms.load_param_into_net(network, ms.load_checkpoint(str(path), format="safetensors"),
                                                 strict_load=True)
        assert not [name for name in missing if not is_own(name)] and not unused, f"not loaded: {missing}, {unused}"
    files.assert_equal(weights(network), expected, "DeepSeek-V4, loaded")
