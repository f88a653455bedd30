# SPDX-License-Identifier: Apache-2.0
"""Random checkpoints of torch_checkpointing: every tensor must have the bytes that it was made of.

data/item_sets.py writes them: meshes of all shapes, strided shards, replicas, uneven and empty parts, several groups of
ranks, boxes anywhere in what is stored, files of torch.save and safetensors, tables of both versions. Of each set that
fails, the seed is printed. Each set is then damaged, and must be refused.
"""

from __future__ import annotations

import json
import pickle
import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

import numpy as np  # noqa: E402
from format_files import read_safetensors  # noqa: E402
from item_sets import TYPES, Item, Set, Tensor, file_of, random_set, table_of, write_set  # noqa: E402
from mounted import run  # noqa: E402
from random_seeds import run_seeds, unless_refused  # noqa: E402

Damage = Callable[[Set, Path, random.Random], bool]
Held = tuple[Item, int, Tensor]


def wrong_names(made: Set, out: Path) -> list[str]:
    def shown(array: np.ndarray) -> tuple[tuple[int, ...], bytes]:
        return array.shape, array.tobytes()

    want = {f"{item.name}.{tensor.name}": shown(tensor.whole) for item in made.items for tensor in item.tensors}
    got = {name: shown(array) for name, (_, array) in read_safetensors(out)[0].items()}
    return sorted(name for name in want.keys() | got.keys() if want.get(name) != got.get(name))


def held(made: Set) -> list[Held]:
    """What ranks have stored, if it has elements of the tensor."""
    return [(item, rank, tensor) for item in made.items for tensor in item.tensors for rank in range(made.ranks)
            if made.stored.get((item.name, rank, tensor.name), np.empty(0)).size]


def written_anew(made: Set, source: Path) -> bool:
    shutil.rmtree(source)
    write_set(source, made)
    return True


def chosen(made: Set, chooser: random.Random) -> Held:
    return chooser.choice(held(made))


def without_a_file(made: Set, source: Path, chooser: random.Random) -> bool:
    item, rank, _ = chosen(made, chooser)
    (source / file_of(item, rank)).unlink()
    return True


def cut_off(made: Set, source: Path, chooser: random.Random) -> bool:
    item, rank, _ = chosen(made, chooser)
    path = source / file_of(item, rank)
    path.write_bytes(path.read_bytes()[:chooser.randrange(path.stat().st_size)])
    return True


def without_its_part(made: Set, source: Path, chooser: random.Random) -> bool:
    item, rank, tensor = chosen(made, chooser)
    del made.stored[item.name, rank, tensor.name]
    return written_anew(made, source)


def of_another_shape(made: Set, source: Path, chooser: random.Random) -> bool:
    """One dimension more; boxes may be in a larger tensor."""
    item, rank, tensor = chosen(made, chooser)
    key = item.name, rank, tensor.name
    made.stored[key] = made.stored[key][np.newaxis]
    return written_anew(made, source)


def of_another_type(made: Set, source: Path, chooser: random.Random) -> bool:
    item, _, tensor = chosen(made, chooser)
    table = table_of(made)
    new = "torch.float64" if TYPES[tensor.kind][0] == "I64" else "torch.int64"
    for group in groups_of(table, made, item, tensor):
        group["sharding_metadata"]["data"]["dtype"] = new
    (source / "metadata.pkl").write_bytes(pickle.dumps(table, protocol=4))
    return True


def groups_of(table: dict, made: Set, item: Item, tensor: Tensor) -> list[dict]:
    if made.version == "1.0":
        return table["metadata"][json.dumps([item.name, *tensor.path], separators=(",", ":"))]
    return table["metadata"][item.name]["nested_path_to_metadata"][json.dumps(tensor.path, separators=(",", ":"))]


def with_a_table(change: Callable[[dict, Set, Item, Tensor, random.Random], bool]) -> Damage:
    def damage(made: Set, source: Path, chooser: random.Random) -> bool:
        item, _, tensor = chosen(made, chooser)
        table = table_of(made)
        if not change(table, made, item, tensor, chooser):
            return False
        (source / "metadata.pkl").write_bytes(pickle.dumps(table, protocol=4))
        return True

    damage.__name__ = change.__name__
    return damage


def without_a_group(table: dict, made: Set, item: Item, tensor: Tensor, chooser: random.Random) -> bool:
    """Then files have parts that are not stated."""
    groups = groups_of(table, made, item, tensor)
    del groups[chooser.randrange(len(groups))]
    return True


def in_two_groups(table: dict, made: Set, item: Item, tensor: Tensor, chooser: random.Random) -> bool:
    groups = groups_of(table, made, item, tensor)
    groups.append(chooser.choice(groups))
    return True


def of_an_unknown_sharding(table: dict, made: Set, item: Item, tensor: Tensor, chooser: random.Random) -> bool:
    chooser.choice(groups_of(table, made, item, tensor))["sharding_metadata"]["type"] = "mylib.Sharding"
    return True


def of_another_full_shape(table: dict, made: Set, item: Item, tensor: Tensor, chooser: random.Random) -> bool:
    data = [group["sharding_metadata"]["data"] for group in groups_of(table, made, item, tensor)]
    if not tensor.whole.shape:
        return False
    dim = chooser.randrange(tensor.whole.ndim)
    for one in data:
        one["global_shape"] = [size + (at == dim) * 40 for at, size in enumerate(one["global_shape"])]
    return True


def of_a_rank_twice(table: dict, made: Set, item: Item, tensor: Tensor, chooser: random.Random) -> bool:
    data = chooser.choice(groups_of(table, made, item, tensor))["sharding_metadata"]["data"]
    if "mesh_spec" not in data or len(data["mesh_spec"]["mesh_data"]) < 2:
        return False
    ranks = list(data["mesh_spec"]["mesh_data"])
    ranks[0] = ranks[1]
    data["mesh_spec"] = data["mesh_spec"] | {"mesh_data": tuple(ranks)}
    return True


def of_another_mesh(table: dict, made: Set, item: Item, tensor: Tensor, chooser: random.Random) -> bool:
    data = chooser.choice(groups_of(table, made, item, tensor))["sharding_metadata"]["data"]
    if "mesh_spec" not in data:
        return False
    data["mesh_spec"] = data["mesh_spec"] | {"mesh_shape": (*data["mesh_spec"]["mesh_shape"], 2)}
    return True


def of_another_world(table: dict, made: Set, _item: Item, _tensor: Tensor, chooser: random.Random) -> bool:
    table["world_size"] += chooser.choice((-1, 1))
    return True


def of_another_version(table: dict, _made: Set, _item: Item, _tensor: Tensor, _chooser: random.Random) -> bool:
    table["version"] = "3.0"
    return True


def leading_out(table: dict, made: Set, item: Item, _tensor: Tensor, chooser: random.Random) -> bool:
    rank = chooser.randrange(made.ranks)
    layout = {"file_path": chooser.choice(("../outside.pt", "/etc/passwd", "a/../../outside.pt")),
              "serialization_format": {"type": "TorchSerialization"}}
    if made.version == "1.0":
        table["rank_to_layout_info_mappings"][str(rank)][item.name] = layout
    else:
        table["metadata"][item.name]["rank_to_layout_info"][rank] = layout
    return True


def overlapping(table: dict, made: Set, item: Item, tensor: Tensor, _chooser: random.Random) -> bool:
    """A box that is moved by one element, onto others."""
    for group in groups_of(table, made, item, tensor):
        data = group["sharding_metadata"]["data"]
        for offsets in data.get("global_offsets", []):
            moved = [at for at, offset in enumerate(offsets) if offset > 0]
            if moved:
                offsets[moved[0]] -= 1
                return True
    return False


DAMAGE: list[Damage] = [without_a_file, cut_off, without_its_part, of_another_shape, of_another_type,
                        *map(with_a_table, (without_a_group, in_two_groups, of_an_unknown_sharding,
                                            of_another_full_shape, of_a_rank_twice, of_another_mesh, of_another_world,
                                            of_another_version, leading_out, overlapping))]


def check(seed: int, root: Path) -> str:
    """What is wrong with one set; empty: nothing."""
    made = random_set(seed)
    source, out = root / "set", root / "out.safetensors"
    write_set(source, made)
    result = run("export", source, out, "--force")
    if result.code != 0:
        return result.stderr
    if names := wrong_names(made, out):
        return f"wrong: {names[:5]}"
    if not held(made):
        return ""
    chooser = random.Random(seed)
    damage = chooser.choice(DAMAGE)
    if not damage(made, source, chooser):
        return ""
    return unless_refused(damage.__name__, run("export", source, out, "--force"), lines=2, fewest=0)


if __name__ == "__main__":
    sys.exit(run_seeds(check))
