# SPDX-License-Identifier: Apache-2.0
"""Models of Hugging Face as networks of MindFormers load them, and networks as Hugging Face has them."""

from __future__ import annotations

from pathlib import Path

import files
import hub
import mindspore as ms
import networks
import numpy as np
import truth
from files import Entry
from hub import Tensors
from mindformers.checkpoint import checkpoint
from networks import Training
from product import Refused, mounted, reshardfs


def exported(source: Path, target: Path, *words: str) -> dict[str, Entry]:
    """The tensors of one safetensors file, or of those in hf/."""
    reshardfs("export", source, target, *words)
    found: dict[str, Entry] = {}
    for path in [target] if target.is_file() else sorted(target.rglob("*.safetensors")):
        found.update(files.read(path))
    return found


def converted(training: Training, network: ms.nn.Cell, deep: Tensors) -> dict[str, dict[str, Entry]]:
    """By each converter of MindFormers that obeys these settings."""
    found = {}
    if hasattr(network, "template"):
        by_name = network.convert_weight_dict(dict(training.model.tensors))
        if truth.shares_head(training.model):  # the network has no such parameter
            by_name.pop("output_layer.weight", None)
        found["convert_weight_dict"] = networks.entries(by_name)
        if not training.settings.contiguous:
            found["load_hf_checkpoint"] = loaded(training, network, deep)
    return found


def loaded(training: Training, network: ms.nn.Cell, deep: Tensors) -> dict[str, Entry]:
    """By load_hf_checkpoint, which gives experts a dimension of their own, so that they do not fit into networks of
    this mode: they are kept in `deep`."""
    load = checkpoint.load_parameters

    def load_flat(target: ms.nn.Cell, parameters: dict[str, ms.Parameter], *words: object, **named: object) -> object:
        for name, parameter in parameters.items():
            if parameter.ndim == 3:
                deep[name] = parameter.asnumpy()
                flat = ms.Tensor(deep[name].reshape(-1, deep[name].shape[2]))
                parameters[name] = ms.Parameter(flat, name=name)
        return load(target, parameters, *words, **named)

    checkpoint.load_parameters = load_flat
    try:
        checkpoint.load_hf_checkpoint(str(training.hub), network)
    finally:
        checkpoint.load_parameters = load
    return networks.weights(network)


def assert_fits(network: ms.nn.Cell, expected: dict[str, Entry], said: str) -> None:
    """The network's own names, types and shapes."""
    found = networks.weights(network)
    assert set(found) == set(expected), f"the network of {said} has other names: {set(found) ^ set(expected)}"
    for name, entry in expected.items():
        assert found[name][:2] == entry[:2], f"the network of {said} has {name} {found[name][:2]}, not {entry[:2]}"


def both_ways(directory: Path, family: str, seed: int, mode: int = 0, contrary: str = "",
              **more: object) -> dict[str, int]:
    """Names, shapes and bytes, and a strict load into the network from a file and from a mount."""
    training = Training(directory, hub.random_model(family, seed, **more), seed, mode, contrary)
    network = training.network()
    expected = networks.entries(truth.parameters(training.model, training.settings))
    said = f"{family} with {training.stated} in mode {mode} of {training.model.config}"
    ours = exported(training.hub, directory / "ours.safetensors", *training.words())
    assert_fits(network, expected, said)
    files.assert_equal(ours, expected, said)
    deep: Tensors = {}
    theirs = converted(training, network, deep)
    for converter, tensors in theirs.items():
        files.assert_equal(ours, tensors, f"{converter} of {said}")
    if deep:
        other = exported(training.hub, directory / "deep.safetensors", *training.words(), "--map-var", "pynative=1")
        files.assert_equal(other, {**expected, **networks.entries(deep)}, f"PyNative form of {said}")
    for path in (directory / "ours.safetensors", directory / "mnt"):
        network = training.network()
        if path.is_file():
            networks.load(network, path)
        else:
            with mounted(training.hub, path, *training.words(), "--views", "merged-safetensors") as mountpoint:
                (file,) = (mountpoint / "merged").glob("*.safetensors")
                networks.load(network, file)
        files.assert_equal(networks.weights(network), expected, f"{said}, loaded from {path.name}")
    computes(training, network)
    return back(directory, training, said) | {f"{converter} equal": 1 for converter in theirs}


def back(directory: Path, training: Training, said: str) -> dict[str, int]:
    """What the network saves, with its counters, as the model that it was made from."""
    network = training.network()
    networks.fill(network, truth.parameters(training.model, training.settings), 1)
    (directory / "trained").mkdir()
    ms.save_checkpoint(network, str(directory / "trained/net.safetensors"), format="safetensors")
    original = networks.entries(training.model.with_aliases())
    ours = exported(directory / "trained", directory / "back", *training.words(), "--views", "hf")
    files.assert_equal(ours, original, f"{said}, back")
    template = getattr(network, "template", None)
    if template is None or training.settings.contiguous:  # which it does not obey
        return {}
    for converter in template.weight_converters:
        if hasattr(converter, "optimizer_parallel_size"):
            converter.optimizer_parallel_size = 1
    parameters = {name: parameter.asnumpy() for name, parameter in network.parameters_dict().items()
                  if not networks.is_counter(name)}
    theirs = networks.entries(template.get_hf_state_dict(parameters))
    files.assert_equal({name: ours[name] for name in theirs}, theirs, f"get_hf_state_dict of {said}")
    assert set(ours) - set(theirs) == set(hub.aliases(training.model.config)), f"get_hf_state_dict of {said}: names"
    return {"get_hf_state_dict equal": 1}


def silu(values: np.ndarray) -> np.ndarray:
    return values / (1 + np.exp(-values))


def computes(training: Training, network: ms.nn.Cell) -> None:
    """That a PyNative network understands its joined tensors as the model its own: other networks need an
    accelerator."""
    config = training.model.config
    for layer in range(config["num_hidden_layers"] if training.mode == 1 else 0):
        inside = {name.split(f"layers.{layer}.")[-1]: tensor for name, tensor in training.model.tensors.items()
                  if name.startswith(f"model.layers.{layer}.")}
        given = np.random.default_rng(layer).standard_normal((3, 1, config["hidden_size"])).astype("f4")
        block = network.model.decoder.layers[layer]
        with networks.in_mode(1):
            if "mlp.gate_proj.weight" in inside:
                gate, up, down = (inside[f"mlp.{name}_proj.weight"] for name in ("gate", "up", "down"))
                want = (silu(given @ gate.T) * (given @ up.T)) @ down.T
                assert_near(block.mlp(ms.Tensor(given)), want, f"the MLP of layer {layer}")
            if "self_attn.q_norm.weight" in inside:
                attention = block.self_attention
                attention.q_layernorm = attention.k_layernorm = None  # which the CPU does not have
                for name, found in zip("qkv", attention.get_query_key_value_tensors(ms.Tensor(given))):
                    assert_near(found, given @ inside[f"self_attn.{name}_proj.weight"].T, f"{name} of layer {layer}")


def assert_near(found: ms.Tensor, want: np.ndarray, where: str) -> None:
    assert np.allclose(found.asnumpy().reshape(want.shape), want, rtol=1e-3, atol=1e-3), f"{where} is another"


def unstated(directory: Path, family: str, seed: int) -> None:
    """What neither the YAML nor a release states, reshardfs asks for by its names."""
    training = Training(directory, hub.random_model(family, seed), seed)
    training.yaml.write_text("context:\n  mode: 0\n")
    words = training.words()[:6]
    needed = [setting for setting in networks.KEYS if networks.applies(setting, family)]

    def export(*settings: str) -> None:
        stated = [word for setting in settings for word in ("--map-var", f"{setting}=1")]
        reshardfs("export", training.hub, directory / "out.safetensors", *words, *stated)

    export(*needed)
    for setting in needed:
        try:
            export(*(other for other in needed if other != setting))
        except Refused as refusal:
            for text in (f"--map-var {setting}=0 or {setting}=1", "--training-config", networks.KEYS[setting]):
                assert text in str(refusal), f"{text} is not in {refusal}"
        else:
            raise AssertionError(f"{family} without {setting} is not refused")
