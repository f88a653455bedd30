# SPDX-License-Identifier: Apache-2.0
"""A random sound set of every kind of source: by the writers of the tests, or one that others have written."""

from __future__ import annotations

import dataclasses
import json
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# First, because it finds the modules of tests/data.
import map_sets

import deepspeed_sets as zero
import megatron_ranks as megatron
import numpy as np
import support_kinds
from format_files import Tensors, read_safetensors, write_safetensors
from incomplete_sets import config, model, write_counted, write_shards
from meta_sets import whole_model, write_release
from random_checkpoint2 import RandomSet
from torch_archive import write_archive

Words = tuple[str | Path, ...]


@dataclass
class Made:
    source: Path
    parts: list[Path]
    options: Words = ()
    expected: Tensors = dataclasses.field(default_factory=dict)
    ages: bool = True
    """Whether it can be made as an earlier save, whose values and step differ, and nothing else."""


Maker = Callable[[random.Random, Path, bool], Made]
"""In a directory that it makes; as an earlier save or not."""


def of_save(tensors: Tensors, older: bool) -> Tensors:
    return {name: (kind, array + np.float32(1000)) if older else (kind, array)
            for name, (kind, array) in tensors.items()}


def files(place: Path, pattern: str) -> list[Path]:
    return sorted(place.rglob(pattern))


def hub(rng: random.Random, place: Path, older: bool) -> Made:
    place.mkdir()
    rows = rng.choice((8, 12))
    tensors = of_save(model(rows), older)
    if rng.random() < 0.5:
        (place / "config.json").write_text(json.dumps(config(rows)))
    if rng.random() < 0.2:
        write_safetensors(place / "model.safetensors", tensors)
    else:
        write_counted(place, tensors, rng.randint(2, 4), index=rng.random() < 0.5)
    return Made(place, files(place, "*.safetensors"), expected=tensors)


def shards(rng: random.Random, place: Path, older: bool) -> Made:
    place.mkdir()
    rows = rng.choice((8, 12))
    tensors = of_save(model(rows), older)
    write_shards(place, tensors, rng.randint(2, 4), rng.randint(1, 2))
    (place / "config.json").write_text(json.dumps(config(rows)))
    return Made(place, files(place, "*.safetensors"), expected=tensors)


def ranks(suffix: str, name: str, steps: bool = False) -> Maker:
    """Under this name, with a rank and the step of a save; of an earlier step, too."""
    def make(rng: random.Random, place: Path, older: bool) -> Made:
        tp = rng.choice((2, 4))
        for earlier in ({True, older} if steps else {older}):
            tensors = of_save(model(8), earlier)
            map_sets.write_ranks(place / "made", tensors, map_sets.hub_strategy(tensors, tp), suffix)
            for rank in range(tp):
                path = place / name.format(rank=rank, step=5 if earlier else 10)
                path.parent.mkdir(exist_ok=True)
                map_sets.rank_file(place / "made", rank, suffix).rename(path)
        shutil.rmtree(place / "made")
        rules = map_sets.hub_rules(place.parent / f"{place.name}.toml", tp)
        parts = [path for path in files(place, f"*{suffix}") if not steps or older or "_5" not in path.name]
        return Made(place, parts, ("--src-strategy", rules), of_save(model(8), older))
    return make


def hub_steps(rng: random.Random, place: Path, older: bool) -> Made:
    place.mkdir()
    state = rng.getstate()
    for step, earlier in ((5, True), (10, older)):
        rng.setstate(state)
        made = hub(rng, place / f"checkpoint-{step}", earlier)
    return Made(place, made.parts, expected=made.expected)


def release(rng: random.Random, place: Path, older: bool) -> Made:
    whole = {name: array + older for name, array in whole_model().items()}
    write_release(place, whole, rng.choice((1, 2, 4)), embedding=rng.randint(0, 1))
    return Made(place, files(place, "*.pth"), expected={name: ("F32", array) for name, array in whole.items()})


def at_step(older: bool) -> zero.Save:
    """What is saved says which step it is of."""
    def save(path: Path, saved: Any) -> None:
        if older and isinstance(saved, dict):
            if "global_steps" in saved:
                saved |= {"global_steps": 5, "global_samples": 5 * saved["dp_world_size"]}
            states = saved.get("optimizer_state_dict", {})
            states = states.get("base_optimizer_state") or states.get("optimizer_state_dict") or {"state": {}}
            for state in states if isinstance(states, list) else states["state"].values():
                state["step"] = 5
            if "iteration" in saved:
                saved["iteration"] = saved["args"].state["iteration"] = 50
        elif older:
            saved = 5
        write_archive(path, saved)
    return save


def deepspeed(stage: int, universal: bool = False) -> Maker:
    def make(rng: random.Random, place: Path, older: bool) -> Made:
        spec = zero.random_set(rng.randrange(1 << 30))
        # The step is with the moments; an optimizer may have made fewer than the model, but all parameters the same.
        while spec.stage != stage or spec.world < 2 or not spec.moments or len(spec.weights) < 2:
            spec = zero.random_set(rng.randrange(1 << 30))
        spec.latest, spec.tag = True, "global_step10" if universal else spec.tag
        if universal:  # DeepSpeed's script makes wrong ones of such runs
            spec.round_robin = False
        if older:
            spec.weights = {name: array + np.float32(1) for name, array in spec.weights.items()}
            spec.moments = {kind: {name: array + np.float32(1) for name, array in arrays.items()}
                            for kind, arrays in spec.moments.items()}
        (zero.write_universal if universal else zero.write_set)(place, spec, at_step(older))
        if not universal:
            return Made(place, files(place, "*_states.pt"), expected=spec.reference())
        parameters = [path for path in (place / f"{spec.tag}_universal/zero").iterdir() if path.is_dir()]
        alone = dataclasses.replace(spec, frozen={}, buffers={}, shared={})
        return Made(place, sorted(parameters) + files(place, "*_model_states.pt"), expected=alone.reference())
    return make


def megatron_ranks(rng: random.Random, place: Path, older: bool) -> Made:
    spec = megatron.random_set(rng.randrange(1 << 30))
    # Only training tells which process saved a file, and two files of process 0 may have been converted.
    while len(megatron.places(spec)) < 3:
        spec = megatron.random_set(rng.randrange(1 << 30))
    spec = dataclasses.replace(spec, processes=True)
    if older:
        spec = megatron.filled(dataclasses.replace(spec, whole={}), rng.randrange(1 << 30))
    megatron.write_set(place, spec, at_step(older))
    return Made(place, files(place, "*.pt"), expected=spec.whole)


def checkpoint2(rng: random.Random, place: Path, older: bool) -> Made:
    made = RandomSet(rng.randrange(1 << 30), 8)
    while made.world < 2:
        made = RandomSet(rng.randrange(1 << 30), 8)
    for tensor in made.tensors:
        if older:
            tensor.full = (~tensor.full if tensor.dtype == "BOOL" else
                           (np.ascontiguousarray(tensor.full).view("u1") ^ 1).view(tensor.full.dtype))
    made.write(place)
    for path in files(place, "*opt-*.safetensors") if older else ():
        tensors, metadata = read_safetensors(path)
        tensors["global_step"] = ("I32", np.array([5], "<i4"))
        write_safetensors(path, tensors, metadata)
    (table,) = files(place, "metadata.json")
    read = [path for path in files(place, "*opt-*.safetensors") if path.name in table.read_text()]
    # One step alone contradicts none; of pipeline stages that differ, the value of the lowest counts.
    return Made(place, files(place, "*.safetensors"), expected={t.name: (t.dtype, t.full) for t in made.tensors},
                ages=made.stages == 1 and len(read) > 1)


def copied(*choices: Callable[[Path], support_kinds.Kind]) -> Maker:
    """Of sets that others than reshardfs have written."""
    def make(rng: random.Random, place: Path, older: bool) -> Made:
        kind = rng.choice(choices)(place.parent)
        if kind.source.is_dir():
            shutil.copytree(kind.source, place)
            source = place
        else:
            place.mkdir()
            source = Path(shutil.copy(kind.source, place))
        data = {".safetensors", ".ckpt", ".distcp", ".pt", ".pth", ".bin", ".bytes"}
        parts = [path for path in files(place, "*") if path.suffix in data]
        return Made(source, parts, tuple(kind.options), kind.tensors, ages=False)
    return make


def saved(*names: str) -> Maker:
    return copied(*map(support_kinds.saved, names))


def distributed(*cases: str) -> Maker:
    return copied(*map(support_kinds.distributed, cases))


KINDS: dict[str, Maker] = {
    "a model hub's safetensors": hub,
    "a model hub's .bin": saved("bin_shards_214", "bin_shards_by_index_113"),
    "one file": copied(support_kinds.whole, support_kinds.encrypted, support_kinds.saved("nested_model_214"),
                       support_kinds.saved("module_state_214"), support_kinds.saved("stream_nested_113")),
    "MindSpore, .ckpt": ranks(".ckpt", "rank_{rank}/net-1_{step}.ckpt"),
    "MindSpore, safetensors": ranks(".safetensors", "rank_{rank}/net-1_{step}.safetensors"),
    "MindSpore, .ckpt of two steps": ranks(".ckpt", "rank_{rank}/net-1_{step}.ckpt", steps=True),
    "vLLM": ranks(".safetensors", "model-rank-{rank}-part-0.safetensors"),
    "FSDP's ranks": saved("fsdp2_w2_214", "fsdp2_w4_26", "fsdp1_w2_214", "fsdp1_sharded_tensor_214",
                          "fsdp2_hsdp_214", "fsdp_rows_214", "fsdp_mesh_2x2_26", "fsdp_dtensors_26"),
    "torch_checkpointing": copied(support_kinds.items, *map(support_kinds.saved, (
        "items_fsdp4_torch_215", "items_fsdptp22_nometa_215", "items_hsdp22_safetensors_215"))),
    "DeepSpeed, ZeRO 1": deepspeed(1),
    "DeepSpeed, ZeRO 2": deepspeed(2),
    "DeepSpeed, ZeRO 3": deepspeed(3),
    "DeepSpeed, universal": deepspeed(1, universal=True),
    "Megatron-LM's ranks": megatron_ranks,
    "PyTorch, .distcp": distributed("rows4_113", "fsdp_tp_2x", "golden_mesh_4_torch214", "sharded_tensor_2_torch26",
                                    "threads_2x", "rank_tables_2_torch214"),
    "PyTorch, shards": shards,
    "Megatron-Core and hyper-parallel": distributed("mcore_gpt_tp2pp2", "mcore_moe_buckets", "hyper_torch_tp2dp2",
                                                    "hyper_safetensors_tp2dp2"),
    "a release of Meta": release,
    "Checkpoint 2.0": checkpoint2,
    "steps of a trainer": hub_steps,
}
