# SPDX-License-Identifier: Apache-2.0
"""Random checkpoints of hyper-parallel: every tensor must have the bytes that it was made of.

data/hyper_tables.py writes them: boxes of grids and of flat intervals, empty ones, equal copies, keys, tables of all
ranks or of each. Of each set that fails, the seed is printed. Each set is then damaged: a box, a place, a tensor of a
file, a file or a table is missing, is of another shape or type, overlaps, or leads out. These must be refused.
--views hyper shows each set anew, which a loader of its own reads.
"""

from __future__ import annotations

import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

import numpy as np  # noqa: E402
from format_files import read_safetensors, write_safetensors  # noqa: E402
from hyper_tables import Place, Set, Tensor, random_set, write_set  # noqa: E402
from mounted import run  # noqa: E402
from random_seeds import run_seeds, unless_refused  # noqa: E402
from trainer_loader import Loader, LoadError, latest_step  # noqa: E402

Damage = Callable[[Set, Path, random.Random], bool]


def shown(array: np.ndarray) -> tuple[tuple[int, ...], bytes]:
    return array.shape, array.tobytes()


def wrong_names(made: Set, out: Path) -> list[str]:
    want = {tensor.name: shown(tensor.whole) for tensor in made.tensors}
    got = {name: shown(array) for name, (_, array) in read_safetensors(out)[0].items()}
    return sorted(name for name in want.keys() | got.keys() if want.get(name) != got.get(name))


def wrong_for_trainer(made: Set, root: Path) -> list[str]:
    """A name behind no key that a table tells of is behind one more."""
    loader = Loader(latest_step(root), whole_files=True)
    got = {}
    for name in (name for name in loader.table.state_dict_metadata if name.startswith("model.")):
        info = loader.place(name, (0,) * len(loader.table.state_dict_metadata[name].size), 0)
        got[name] = shown(loader.file(info).get(info.tensor_key)[1])
    want = {tensor.name if tensor.name in got else f"model.{tensor.name}": shown(tensor.whole)
            for tensor in made.tensors}
    return sorted(name for name in want.keys() | got.keys() if want.get(name) != got.get(name))


def listed(made: Set) -> list[tuple[Tensor, Place]]:
    """Boxes with elements that are written once, by one rank."""
    found = []
    for tensor in made.tensors:
        places = [place for _, place in made.places[tensor.name]]
        found += [(tensor, place) for place in places
                  if np.prod(place.box[1]) and sum(place.box == other.box for other in places) == 1]
    return found


def written_anew(made: Set, source: Path) -> bool:
    shutil.rmtree(source)
    write_set(source, made)
    return True


def without_a_box(made: Set, source: Path, chooser: random.Random) -> bool:
    tensor, place = chooser.choice(listed(made))
    made.places[tensor.name] = [pair for pair in made.places[tensor.name] if pair[1] is not place]
    return len(made.places[tensor.name]) > 0 and written_anew(made, source)


def of_another_shape(made: Set, source: Path, chooser: random.Random) -> bool:
    _, place = chooser.choice(listed(made))
    kind, array = made.files[place.file][place.key]
    made.files[place.file][place.key] = kind, np.concatenate([array.reshape(-1)] * 2)
    return written_anew(made, source)


def of_another_type(made: Set, source: Path, chooser: random.Random) -> bool:
    _, place = chooser.choice(listed(made))
    kind, array = made.files[place.file][place.key]
    with np.errstate(invalid="ignore"):  # of NaNs that signal
        made.files[place.file][place.key] = ("F64" if kind != "F64" else "F32"), array.astype("<f8")
    return written_anew(made, source)


def without_its_tensor(made: Set, source: Path, chooser: random.Random) -> bool:
    _, place = chooser.choice(listed(made))
    del made.files[place.file][place.key]
    return written_anew(made, source)


def overlapping(made: Set, source: Path, chooser: random.Random) -> bool:
    """One box more, which has an element that another has, too, and is not equal to that."""
    tensor, place = chooser.choice(listed(made))
    offsets, sizes = place.box
    wide = [axis for axis, size in enumerate(sizes) if size > 1]
    if not wide:
        return False
    axis = chooser.choice(wide)
    smaller = tuple(size - (number == axis) for number, size in enumerate(sizes))
    box = tuple(offset + (number == axis) for number, offset in enumerate(offsets)), smaller
    made.files[place.file]["more"] = tensor_part(made, place, box)
    owner = next(rank for rank, other in made.places[tensor.name] if other is place)
    made.places[tensor.name].append((owner, Place(place.file, "more", box)))
    return written_anew(made, source)


def tensor_part(made: Set, place: Place, box: tuple[tuple[int, ...], tuple[int, ...]]) -> tuple[str, np.ndarray]:
    kind, array = made.files[place.file][place.key]
    inside = tuple(slice(begin - first, begin - first + size)
                   for begin, first, size in zip(box[0], place.box[0], box[1]))
    return kind, np.array(array[inside], order="C")


def leading_out(made: Set, source: Path, chooser: random.Random) -> bool:
    _, place = chooser.choice(listed(made))
    outside = source.parent / "outside.safetensors"
    write_safetensors(outside, {place.key: made.files[place.file][place.key]})
    place.file, file = "../outside.safetensors", place.file
    content = made.files[file]
    made.files = {name: held for name, held in made.files.items() if name != place.file}
    written_anew(made, source)
    return bool(content)


def without_a_file(made: Set, source: Path, chooser: random.Random) -> bool:
    _, place = chooser.choice(listed(made))
    (source / place.file).unlink()
    return True


def cut_off(made: Set, source: Path, chooser: random.Random) -> bool:
    _, place = chooser.choice(listed(made))
    data = (source / place.file).read_bytes()
    (source / place.file).write_bytes(data[:chooser.randrange(len(data))])
    return True


def without_a_table(made: Set, source: Path, chooser: random.Random) -> bool:
    if not made.has_tables_of_ranks:
        (source / ".metadata").unlink()
        return bool(made.files)
    # That of the last rank lacks without a trace, unless it has something alone.
    if made.ranks == 1:
        return False
    (source / f"{chooser.randrange(made.ranks - 1)}.metadata").unlink()
    return True


DAMAGE: list[Damage] = [without_a_box, of_another_shape, of_another_type, without_its_tensor, overlapping, leading_out,
                        without_a_file, cut_off, without_a_table]


def check(seed: int, root: Path) -> str:
    """What is wrong with one set; empty: nothing."""
    made = random_set(seed)
    source, out = root / "set", root / "out.safetensors"
    write_set(source, made)
    result = run("export", source, out, "--force")
    if not any(tensor.whole.size for tensor in made.tensors):
        return ""  # no box is in a file
    if result.code != 0:
        return result.stderr
    if names := wrong_names(made, out):
        return f"wrong: {names[:5]}"
    result = run("export", source, root / "trainer", "--views", "hyper")
    if result.code != 0:
        return result.stderr
    try:
        if names := wrong_for_trainer(made, root / "trainer/hyper"):
            return f"wrong for the Trainer: {names[:5]}"
    except LoadError as error:
        return f"the Trainer refuses it: {error}"
    chooser = random.Random(seed)
    if not listed(made):
        return ""
    damage = chooser.choice(DAMAGE)
    if not damage(made, source, chooser):
        return ""
    return unless_refused(damage.__name__, run("export", source, out, "--force"), lines=2, fewest=0)


if __name__ == "__main__":
    sys.exit(run_seeds(check))
