# SPDX-License-Identifier: Apache-2.0
"""Writes checkpoints as DeepSpeed's ZeRO stages do, and says what they have. Needs NumPy alone.

deepspeed_sets.py DIRECTORY SEED...: DIRECTORY/<seed>/ gets a random set and `expected.safetensors`.
deepspeed_sets.py --golden DIRECTORY [--torch]: the fixed cases of tests/goldentorch; with --torch, PyTorch
saves the files, with stand-ins for DeepSpeed's classes.

Stages 1 and 2: the parameters of a group lie back to back, in the order of param_shapes, in a vector that is
padded to a multiple of twice the ranks; each rank has an equal part of it. Stage 3: each parameter is cut by
itself into as many pieces as there are ranks, of ceil(elements / ranks); the last is padded; on a rank its
pieces lie back to back in sub groups.
"""

from __future__ import annotations

import json
import math
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integration"))

import numpy as np  # noqa: E402
from format_files import Tensors, write_safetensors  # noqa: E402
from torch_archive import Call, Global, Storage, Stored, ordered, size, stored, write_archive  # noqa: E402

Save = Callable[[Path, Any], None]
Shape = tuple[int, ...]
MOMENTS = ("exp_avg", "exp_avg_sq")
FLOATS = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}
BUFFERS = {"F32": "<f4", "BF16": "<u2", "I64": "<i8", "BOOL": "?"}
MOST_ELEMENTS = 700
VERSION = "0.16.2"


@dataclass
class Spec:
    """What a checkpoint has, before it is cut."""
    world: int
    stage: int
    groups: list[dict[str, Shape]]
    weights: dict[str, np.ndarray]
    moments: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)
    frozen: Tensors = field(default_factory=dict)
    buffers: Tensors = field(default_factory=dict)
    shared: dict[str, str] = field(default_factory=dict)
    prefix: str = ""
    tag: str = "global_step10"
    latest: bool = True
    sub_groups: list[int] | None = None  # elements of a rank in each but the last, of stage 3
    count_listed: bool = False  # partition_count is a list
    script: bool = True
    slices: bool = True  # param_slice_mappings, of newer releases
    tensor_steps: bool = True
    # Of stages 1 and 2. What has the padding of the last rank: weights and states (a stand-in for other releases),
    # states alone, or with elastic_checkpoint neither.
    padded: str = "both"
    aligned: list[list[int]] | None = None  # param_alignment_paddings
    round_robin: bool = False  # param_slice_mappings are wrong
    scaled: str = ""  # states in 8 bits of bitsandbytes: "flat", or of later releases "inner"

    def group_sizes(self) -> list[int]:
        behind = self.aligned or [[0] * len(group) for group in self.groups]
        return [sum(map(elements, group.values())) + sum(more) for group, more in zip(self.groups, behind)]

    def paddings(self, rank: int) -> list[int]:
        """What the file of a rank states: its own, as ZeRO's files do; or all of it in the last one, as those of
        BF16_Optimizer, where weights have the padding, too."""
        behind = [(up(total, 2 * self.world), total) for total in self.group_sizes()]
        if self.padded == "both":
            return [whole - total if rank == self.world - 1 else 0 for whole, total in behind]
        return [min(whole // self.world, max(0, (rank + 1) * whole // self.world - total)) for whole, total in behind]

    def reference(self) -> Tensors:
        """Whole tensors by name, as they are to be shown."""
        out: Tensors = {name: ("F32", array) for name, array in self.weights.items()}
        for kind, arrays in self.moments.items():
            out |= {f"{kind}.{name}": ("F32", array) for name, array in arrays.items()}
        out |= self.frozen
        out |= self.buffers
        return out | {alias: out[name] for alias, name in self.shared.items()}


def step_of(tag: str) -> int:
    """The engine's global_steps, after which it names the directory; a program may name it otherwise."""
    name, number = tag[:11], tag[11:]
    return int(number) if name == "global_step" else 10


def elements(shape: Shape) -> int:
    return math.prod(shape)


def up(count: int, step: int) -> int:
    return -(-count // step) * step


def half(array: np.ndarray) -> Stored:
    """float32 values rounded to bfloat16, to nearest, ties to even."""
    bits = np.ascontiguousarray(array).view("<u4").astype("<u8")
    rounded = np.where(np.isnan(array).reshape(bits.shape), bits >> 16 | 0x40, bits + 0x7FFF + (bits >> 16 & 1) >> 16)
    return stored(rounded.astype("<u2").reshape(array.shape), "BF16")


def of_kind(kind: str, array: np.ndarray) -> Stored:
    return stored(array, kind)


def loss_scaler() -> Call:
    scaler = Global("deepspeed.runtime.fp16.loss_scaler", "LossScaler")
    return Call(scaler, (), {"cur_scale": 1.0, "dynamic": False}, new=True)


def fragment(numel: int, start: int) -> Call:
    address = Global("deepspeed.utils.tensor_fragment", "fragment_address")
    return Call(address, (), {"numel": numel, "start": start}, new=True)


def config_of(spec: Spec) -> dict[str, Any]:
    zero = {"stage": spec.stage} | ({"round_robin_gradients": True} if spec.round_robin else {})
    return {"train_batch_size": spec.world, "zero_optimization": zero,
            "bf16": {"enabled": True}, "gradient_clipping": 1.0}


# ------------------------------------------------------------------------------------------------- cutting


def partitions(spec: Spec, arrays: dict[str, np.ndarray], rank: int) -> list[np.ndarray]:
    """Of stages 1 and 2: what a rank has of each group."""
    out = []
    for number, group in enumerate(spec.groups):
        behind = spec.aligned[number] if spec.aligned else [0] * len(group)
        joined = np.concatenate([np.concatenate([arrays[name].reshape(-1), np.full(more, 7, np.float32)])
                                 for name, more in zip(group, behind)])
        whole = np.zeros(up(joined.size, 2 * spec.world), np.float32)
        whole[:joined.size] = joined
        part = whole.size // spec.world
        out.append(whole[rank * part:(rank + 1) * part])
    return out


def trimmed(spec: Spec, parts: list[np.ndarray], rank: int) -> list[np.ndarray]:
    return [part[:max(0, part.size - padding)] for part, padding in zip(parts, spec.paddings(rank))]


def piece(array: np.ndarray, world: int, rank: int) -> np.ndarray:
    """Of stage 3: what a rank has of a parameter."""
    flat = array.reshape(-1)
    length = -(-flat.size // world)
    out = np.zeros(length, array.dtype)
    mine = flat[rank * length:(rank + 1) * length]
    out[:mine.size] = mine
    return out


def sub_groups(spec: Spec, arrays: dict[str, np.ndarray], rank: int) -> list[np.ndarray]:
    """Of stage 3: what a rank has, in sub groups: one a group if nothing else is said."""
    if spec.sub_groups is None:
        return [np.concatenate([piece(arrays[name], spec.world, rank) for name in group])
                               for group in spec.groups]
    flat = np.concatenate([piece(arrays[name], spec.world, rank) for group in spec.groups for name in group])
    return np.split(flat, np.cumsum(spec.sub_groups))


def slices_of(spec: Spec, rank: int) -> list[Any]:
    """Of stages 1 and 2: where in a rank's part the parameters lie that it has something of."""
    out = []
    for number, (group, total) in enumerate(zip(spec.groups, spec.group_sizes())):
        part = up(total, 2 * spec.world) // spec.world
        behind = spec.aligned[number] if spec.aligned else [0] * len(group)
        begin, found = 0, {}
        for (name, shape), more in zip(group.items(), behind):
            first = max(begin, rank * part)
            last = min(begin + elements(shape), (rank + 1) * part)
            if first < last:
                found[name] = fragment(last - first, first - rank * part)
            begin += elements(shape) + more
        if spec.round_robin:
            found = dict(zip([*list(found)[1:], *list(found)[:1]], found.values()))
        out.append(ordered(found))
    return out


# ------------------------------------------------------------------------------------------------- writing


def optimizer_of(spec: Spec, cuts: dict[str, list[np.ndarray]]) -> dict[str, Any]:
    count = len(next(iter(cuts.values()))) if cuts else 0
    step: Any = stored(np.float32(10).reshape(())) if spec.tensor_steps else 10
    state = {number: {"step": step} | {kind: stored(parts[number]) for kind, parts in cuts.items()}
             for number in range(count)}
    if spec.scaled:
        for number, own in state.items():
            length = next(iter(cuts.values()))[number].size
            states = {"state1": of_kind("U8", np.arange(length).astype("u1")), "qmap1": stored(np.zeros(256, "f4")),
                      "absmax1": stored(np.zeros(-(-length // 256), "f4"))}
            state[number] = {"step": own["step"],
                             **(states if spec.scaled == "flat" else {"__bnb_optimizer_quant_state__": states})}
    groups = [{"lr": 0.001, "betas": (0.9, 0.999), "eps": 1e-08, "params": [number]}
                                      for number in range(count)]
    return {"state": state, "param_groups": groups}


def optim_states(spec: Spec, rank: int) -> dict[str, Any]:
    cutter = sub_groups if spec.stage == 3 else partitions
    weights = cutter(spec, spec.weights, rank)
    cuts = {kind: cutter(spec, arrays, rank) for kind, arrays in spec.moments.items()}
    if spec.stage < 3 and spec.padded != "both":
        weights = trimmed(spec, weights, rank)
    if spec.stage < 3 and spec.padded == "neither":
        cuts = {kind: trimmed(spec, parts, rank) for kind, parts in cuts.items()}
    parts = [stored(part) for part in weights]
    state: dict[str, Any] = {"loss_scaler": loss_scaler(), "dynamic_loss_scale": False, "overflow": False}
    if spec.stage == 3:
        state |= {"zero_stage": 3, "partition_count": spec.world,
                  "optimizer_state_dict": optimizer_of(spec, cuts), "fp32_flat_groups": parts}
    else:
        optimizer = optimizer_of(spec, cuts)
        base = [*optimizer["state"].values()] if spec.padded == "neither" else optimizer
        state |= {"clip_grad": 1.0, "base_optimizer_state": base,
                  "single_partition_of_fp32_groups": parts, "zero_stage": spec.stage,
                  "group_paddings": spec.paddings(rank), "ds_version": VERSION,
                  "partition_count": [spec.world] * len(spec.groups) if spec.count_listed else spec.world}
        if spec.slices:
            state["param_slice_mappings"] = slices_of(spec, rank)
        if spec.aligned:
            state["param_alignment_paddings"] = spec.aligned
    return {"optimizer_state_dict": state, "ds_config": config_of(spec), "ds_version": VERSION}


def model_states(spec: Spec, rank: int) -> dict[str, Any]:
    third = spec.stage == 3
    module: dict[str, Any] = {}
    for group in spec.groups:
        for name in group:
            module[name] = Stored(Storage("BF16", b""), (0,)) if third else half(spec.weights[name])
    for name, (kind, array) in spec.frozen.items():
        module[name] = Stored(Storage(kind, b""), (0,)) if third else of_kind(kind, array)
    module |= {name: of_kind(kind, array) for name, (kind, array) in spec.buffers.items()}
    module |= {alias: module[name] for alias, name in spec.shared.items()}
    fragments = {name: of_kind(kind, piece(array, spec.world, rank) if third else array)
                 for name, (kind, array) in spec.frozen.items()}
    sizes = {name: size(array.shape) for name, (_, array) in spec.frozen.items()}
    return {"module": ordered(module, {"_metadata": ordered({"": {"version": 1}})}),
            "buffer_names": list(spec.buffers), "optimizer": None,
            "param_shapes": [ordered({name: size(shape) for name,
                                      shape in group.items()}) for group in spec.groups],
            "frozen_param_shapes": ordered(sizes) if sizes else None,
            "frozen_param_fragments": ordered(fragments) if fragments else None,
            "shared_params": dict(spec.shared), "lr_scheduler": {"last_batch_iteration": 9,
                                                                 "total_num_steps": 100},
            "data_sampler": None, "random_ltd": None,
            "sparse_tensor_module_names": Call(Global("__builtin__", "set"), ([],)), "skipped_steps": 0,
            "global_steps": step_of(spec.tag), "global_samples": 10 * spec.world, "dp_world_size": spec.world,
            "mp_world_size": 1,
            "ds_config": config_of(spec), "ds_version": VERSION}


def write_set(directory: Path, spec: Spec, save: Save = write_archive, model_rank: int = 0,
              more: dict[str, Any] | None = None) -> None:
    """A run's directory: the tag's directory, latest and the script that DeepSpeed leaves.

    more: what model files have besides.
    """
    place = directory / spec.tag
    place.mkdir(parents=True, exist_ok=True)
    part = f"mp_rank_{model_rank:02}"
    for rank in range(spec.world):
        save(place / f"{spec.prefix}zero_pp_rank_{rank}_{part}_optim_states.pt", optim_states(spec, rank))
        if spec.stage == 3:
            save(place / f"zero_pp_rank_{rank}_{part}_model_states.pt", model_states(spec, rank) | (more or {}))
    if spec.stage != 3:
        save(place / f"{part}_model_states.pt", model_states(spec, 0) | (more or {}))
    if spec.latest:
        (directory / "latest").write_text(spec.tag)
    if spec.script:
        (directory / "zero_to_fp32.py").write_text("# a stand-in for DeepSpeed's script\n")


def write_universal(directory: Path, spec: Spec, save: Save = write_archive) -> None:
    """What ds_to_universal.py makes of a set: whole tensors, a directory for each parameter."""
    place = directory / f"{spec.tag}_universal"
    for number, (name, array) in enumerate(spec.weights.items()):
        more: dict[str, Any] = {"vocab_tensor": True} if "embed" in name else {}
        if number == 1:
            more = {"param_n_sub_params": 2}
        for kind, arrays in {"fp32": spec.weights, **spec.moments}.items():
            save(place / "zero" / name / f"{kind}.pt", {"param": stored(arrays[name]), "cat_dim": 0} | more)
        save(place / "zero" / name / "step.pt", stored(np.float32(10).reshape(())))
    save(place / "zero" / "optimizer_state.pt", {"param_groups": [{"lr": 0.1}], "loss_scaler": loss_scaler()})
    about = {"universal_checkpoint_version": 0.2, "vocabulary_parameter_patterns": ["embed"]}
    states = model_states(spec, 0) | {"universal_checkpoint_info": about}
    save(place / "mp_rank_00_model_states.pt", states)
    (directory / "latest_universal").write_text(place.name)


# -------------------------------------------------------------------------------------------------- random


def weights(rng: np.random.Generator, shape: Shape) -> np.ndarray:
    return rng.standard_normal(shape, np.float32).reshape(shape)


def any_bits(rng: np.random.Generator, numpy: str, shape: Shape) -> np.ndarray:
    dtype = np.dtype(numpy)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    return rng.integers(0, 256, elements(shape) * dtype.itemsize, np.uint8).view(dtype).reshape(shape)


def random_shape(rng: np.random.Generator) -> Shape:
    kind = rng.random()
    if kind < 0.12:
        return ((), (1,), (1, 1))[rng.integers(3)]
    if kind < 0.25:
        return (int(rng.integers(1, 40)),)
    while True:
        shape = tuple(int(axis) for axis in rng.integers(1, 24, int(rng.integers(1, 5))))
        if elements(shape) <= MOST_ELEMENTS:
            return shape


def random_name(rng: np.random.Generator, number: int) -> str:
    parts = ("weight", "bias", "q_proj.weight", "mlp.experts.3.w1", "scale", "層.重み")
    return f"model.layers.{number}.{parts[rng.integers(len(parts))]}"


def random_set(seed: int) -> Spec:
    """The same for the same seed, on every machine."""
    rng = np.random.default_rng(seed)
    world, stage = int(rng.integers(1, 17)), int(rng.integers(1, 4))
    count = int(rng.integers(1, 41)) if rng.random() < 0.5 else int(rng.integers(1, 8))
    names = [random_name(rng, number) for number in range(count)]
    rng.shuffle(names)
    shapes = {name: random_shape(rng) for name in names}
    cuts = sorted({0, count, *(int(cut) for cut in rng.integers(0, count + 1, int(rng.integers(0, 3))))})
    groups = [{name: shapes[name] for name in names[first:last]} for first, last in zip(cuts, cuts[1:])]
    arrays = {name: weights(rng, shape) for name, shape in shapes.items()}
    spec = Spec(world, stage, groups, arrays)
    if rng.random() < 0.7:
        spec.moments = {kind: {name: weights(rng, shape)
                                             for name, shape in shapes.items()} for kind in MOMENTS}
    if rng.random() < 0.4:
        for number in range(int(rng.integers(1, 4))):
            kind = list(FLOATS)[rng.integers(len(FLOATS))]
            spec.frozen[f"frozen.{number}.weight"] = (kind, any_bits(rng, FLOATS[kind], random_shape(rng)))
    if rng.random() < 0.5:
        for number in range(int(rng.integers(1, 4))):
            kind = list(BUFFERS)[rng.integers(len(BUFFERS))]
            spec.buffers[f"buffer.{number}"] = (kind, any_bits(rng, BUFFERS[kind], random_shape(rng)))
    if rng.random() < 0.3:
        spec.shared["lm_head.weight"] = names[rng.integers(count)]
    if stage == 3 and rng.random() < 0.6:
        length = sum(-(-elements(shape) // world) for shape in shapes.values())
        inner = sorted({int(cut) for cut in rng.integers(1, max(length, 2),
                                                         int(rng.integers(1, 4))) if cut < length})
        spec.sub_groups = [last - first for first, last in zip([0, *inner], inner)]
    spec.prefix = ("", "bf16_", "fp16_")[rng.integers(3)]
    spec.tag = ("global_step10", "global_step20", "step-7")[rng.integers(3)]
    spec.latest, spec.script = bool(rng.random() < 0.9), bool(rng.random() < 0.9)
    spec.count_listed, spec.slices = bool(rng.random() < 0.5), bool(rng.random() < 0.7)
    spec.tensor_steps = bool(rng.random() < 0.7)
    if stage < 3:
        spec.padded = ("both", "states", "neither")[rng.integers(3)]
        if rng.random() < 0.3:
            spec.aligned = [[*(int(more) for more in rng.integers(0, 4, len(group) - 1)), 0] for group in groups]
        spec.round_robin = bool(rng.random() < 0.2)
    return spec


def write_expected(path: Path, tensors: Tensors) -> None:
    write_safetensors(path, dict(sorted(tensors.items())), {"format": "pt"})


# ------------------------------------------------------------------------------------------ saved by PyTorch


def torch_save() -> Save:
    """torch.save of the same values, with classes that stand in for those of DeepSpeed."""
    import argparse
    import codecs
    import collections
    import io
    import types

    import torch

    made: dict[Global, Any] = {}
    dtypes = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
              "U8": torch.uint8, "BOOL": torch.bool}

    def class_of(name: Global) -> Any:
        known = {"OrderedDict": collections.OrderedDict, "Size": torch.Size, "set": set,
                 "encode": codecs.encode, "Namespace": argparse.Namespace, "BytesIO": io.BytesIO}
        if name.name in known:
            return known[name.name]
        if name.module == "torch":
            return getattr(torch, name.name)
        if name not in made:
            made[name] = type(name.name, (), {"__module__": name.module, "__init__": lambda self, *_: None})
            parts = name.module.split(".")
            for end in range(1, len(parts) + 1):
                sys.modules.setdefault(".".join(parts[:end]), types.ModuleType(".".join(parts[:end])))
            setattr(sys.modules[name.module], name.name, made[name])
        return made[name]

    def real(value: Any) -> Any:
        if isinstance(value, Stored):
            data = bytearray(value.storage.data)
            if not data:
                return torch.empty(value.shape, dtype=dtypes[value.storage.kind])
            flat = torch.frombuffer(data, dtype=torch.uint8).view(dtypes[value.storage.kind])
            return flat.reshape(value.shape).clone()
        if isinstance(value, Call):
            callee = class_of(value.callee)
            if callee is codecs.encode:
                return codecs.encode(*value.args)
            out = callee.__new__(callee) if value.new else callee(*real(value.args))
            for key, element in (value.items or {}).items():
                out[key] = real(element)
            if isinstance(value.state, tuple):
                out.__setstate__(real(value.state))
            elif value.state:
                vars(out).update(real(value.state))
            return out
        if isinstance(value, Global):
            return class_of(value)
        if isinstance(value, dict):
            return {key: real(element) for key, element in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(real(element) for element in value)
        return value

    def save(path: Path, value: Any) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(real(value), path)

    return save


# -------------------------------------------------------------------------------------------------- golden


def fixed(seed: int, world: int, stage: int, groups: list[dict[str, Shape]], small: bool = False,
          **more: Any) -> Spec:
    rng = np.random.default_rng(seed)
    shapes = {name: shape for group in groups for name, shape in group.items()}
    arrays = {name: weights(rng, shape) for name, shape in shapes.items()}
    moments = {kind: {name: weights(rng, shape) for name, shape in shapes.items()} for kind in MOMENTS}
    return Spec(world, stage, groups, arrays, {} if small else moments,
                prefix="bf16_", slices=not small, **more)


PLAIN = {"model.embed.weight": (7, 4), "model.norm.weight": (5,), "model.scale": (), "lm_head.bias": (3,)}
OTHER = {"model.layers.0.w": (3, 2, 5), "model.layers.0.b": (1,)}
BUFFER: Tensors = {"model.inv_freq": ("F32", np.arange(3, dtype="<f4")),
                   "model.mask": ("BOOL", np.eye(2, dtype=bool))}
FROZEN: Tensors = {"vision.w": ("BF16", np.arange(11, dtype="<u2").reshape(11, 1)),
                   "vision.s": ("F32", np.float32(2.5).reshape(()))}


def golden(out: Path, save: Save, written_by: str) -> None:
    def tell(name: str, what: str, spec: Spec | None, must: str = "same", source: str = "src",
             **more: Any) -> Path:
        directory = out / name
        if spec is not None and must != "refuse":
            write_expected(directory / "expected.safetensors", spec.reference())
        case = {"name": name, "what": what, "written_by": written_by, "source": source, "must": must,
                "options": [], "refused": [], "objects": []} | more
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "case.json").write_text(json.dumps(case, indent=1) + "\n")
        return directory / "src"

    def made(name: str, what: str, spec: Spec, must: str = "same", source: str = "src", **more: Any) -> Path:
        shutil.rmtree(out / name, ignore_errors=True)
        write_set(out / name / "src", spec, save)
        return tell(name, what, spec, must, source, **more) / spec.tag

    def optim(place: Path, rank: int) -> Path:
        return place / f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt"

    two = fixed(1, 2, 1, [PLAIN], buffers=BUFFER, shared={"lm_head.weight": "model.embed.weight"})
    three = fixed(2, 3, 2, [PLAIN, OTHER], frozen=FROZEN, buffers=BUFFER, count_listed=True)
    four = fixed(3, 4, 3, [PLAIN], sub_groups=[5, 4])
    made("deepspeed_z1_w2", "stage 1 on two ranks: one group, buffers, tied embeddings", two)
    small_two = fixed(1, 2, 1, [PLAIN], small=True)
    small_three = fixed(2, 3, 2, [PLAIN, OTHER], small=True)
    small_four = fixed(3, 3, 3, [PLAIN], small=True)
    made("deepspeed_z1_tag", "named by the directory of its step", small_two, source="src/global_step10")
    made("deepspeed_z2_w3_groups", "stage 2 on three ranks: two groups, frozen parameters", three)
    made("deepspeed_z3_w4", "stage 3 on four ranks: parameters that lie in two sub groups", four)
    made("deepspeed_z3_frozen", "stage 3 on three ranks with frozen parameters in pieces and buffers",
         fixed(4, 3, 3, [PLAIN, OTHER], small=True, frozen=FROZEN, buffers=BUFFER,
               shared={"lm_head.weight": "vision.w"}))
    shutil.rmtree(out / "deepspeed_universal", ignore_errors=True)
    whole = fixed(5, 2, 1, [PLAIN])
    src = tell("deepspeed_universal", "a universal checkpoint: whole tensors, a directory for each", whole)
    write_universal(src, whole, save)

    place = made("deepspeed_tp2", "files of a second tensor-parallel rank are there", small_two, "refuse")
    shutil.copy(place / "mp_rank_00_model_states.pt", place / "mp_rank_01_model_states.pt")
    for rank in range(2):
        shutil.copy(optim(place, rank), str(optim(place, rank)).replace("mp_rank_00", "mp_rank_01"))
    optim(made("deepspeed_missing_rank", "the file of the last rank is missing", small_three, "refuse"),
          2).unlink()
    optim(made("deepspeed_z3_missing_rank", "the file of rank 1 is missing", small_four, "refuse"),
          1).unlink()
    place = made("deepspeed_missing_model", "mp_rank_00_model_states.pt is missing: no one says the shapes",
                 small_two, "refuse")
    (place / "mp_rank_00_model_states.pt").unlink()
    short = optim(made("deepspeed_truncated", "the file of rank 1 ends too early", small_two, "refuse"), 1)
    short.write_bytes(short.read_bytes()[:-500])
    other = fixed(6, 3, 2, [PLAIN | {"model.norm.weight": (50,)}, OTHER], small=True)
    place = made("deepspeed_other_save", "the file of rank 1 is of a model with other lengths", small_three,
                 "refuse")
    save(optim(place, 1), optim_states(other, 1))
    place = made("deepspeed_other_world", "the file of rank 1 is of a run on six ranks", small_three,
                 "refuse")
    save(optim(place, 1), optim_states(fixed(2, 6, 2, [PLAIN, OTHER], small=True), 1))
    place = made("deepspeed_swapped", "the files of ranks 0 and 1 have each other's names", small_three, "refuse")
    held = optim(place, 0).read_bytes()
    shutil.copy(optim(place, 1), optim(place, 0))
    optim(place, 1).write_bytes(held)
    ten = fixed(7, 11, 1, [PLAIN], small=True)
    made("deepspeed_z1_w11", "stage 1 on eleven ranks: rank 10 comes behind rank 9; ranks with padding alone",
         ten)


def main() -> None:
    if sys.argv[1] == "--golden":
        if "--torch" in sys.argv:
            import torch
            release = ".".join(torch.__version__.split(".")[:2])
            written_by = f"PyTorch {release}, with stand-ins for DeepSpeed's classes"
            golden(Path(sys.argv[2]), torch_save(), written_by)
        else:
            golden(Path(sys.argv[2]), write_archive, "made by hand")
        return
    for seed in map(int, sys.argv[2:]):
        directory = Path(sys.argv[1]) / str(seed)
        spec = random_set(seed)
        write_set(directory, spec)
        write_expected(directory / "expected.safetensors", spec.reference())


if __name__ == "__main__":
    main()
