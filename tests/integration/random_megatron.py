# SPDX-License-Identifier: Apache-2.0
"""Random checkpoints of Megatron-LM's ranks: every tensor must have the bytes that it was made of.

data/megatron_ranks.py writes them by the rules in Megatron-LM. Of each set that fails, the seed is printed. Each
set is then damaged: a rank is missing, cut off, of another model, of another iteration or in the place of
another rank, or lacks a tensor. These must be refused.
"""

from __future__ import annotations

import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from format_files import read_safetensors  # noqa: E402
from megatron_ranks import Place, Spec, file_of, filled, places, random_set, rank_file, write_set  # noqa: E402
from mounted import run  # noqa: E402
from random_seeds import run_seeds, unless_refused  # noqa: E402
from torch_archive import write_archive  # noqa: E402

Damage = Callable[[Spec, Path, random.Random], bool]


def wrong_names(spec: Spec, out: Path) -> list[str]:
    want = {name: (kind, array.shape, array.tobytes()) for name, (kind, array) in spec.whole.items()}
    got = {name: (kind, array.shape, array.tobytes()) for name, (kind, array) in read_safetensors(out)[0].items()}
    return sorted(name for name in want.keys() | got.keys() if want.get(name) != got.get(name))


def without(_: Spec, victim: Path, chooser: random.Random) -> bool:
    if chooser.random() < 0.5:
        victim.unlink()
    else:
        shutil.rmtree(victim.parent)
    return len(list(victim.parents[1].iterdir())) > 0


def cut_off(_: Spec, victim: Path, chooser: random.Random) -> bool:
    victim.write_bytes(victim.read_bytes()[:chooser.randrange(victim.stat().st_size)])
    return True


def altered(spec: Spec, victim: Path, alter: Callable[[dict[str, object], Place], None]) -> None:
    place = next(place for place in places(spec) if victim.match(rank_file(spec, place)))
    saved = file_of(spec, place)
    alter(saved, place)
    write_archive(victim, saved)


def of_other_model(spec: Spec, victim: Path, _: random.Random) -> bool:
    """With the same parallel sizes, but more heads."""
    def alter(saved: dict[str, object], place: Place) -> None:
        other = filled(Spec(**{key: value for key, value in vars(spec).items() if key != "whole"}
                            | {"hidden": 2 * spec.hidden}), 1)
        saved |= file_of(other, place)
    altered(spec, victim, alter)
    return len(places(spec)) > 1


def of_other_iteration(spec: Spec, victim: Path, _: random.Random) -> bool:
    altered(spec, victim, lambda saved, _: saved.update({"iteration": 99}))
    return len(places(spec)) > 1 or not spec.release


def without_a_tensor(spec: Spec, victim: Path, chooser: random.Random) -> bool:
    def alter(saved: dict[str, object], _: Place) -> None:
        model = saved["model0" if spec.virtual > 1 else "model"].items  # type: ignore[attr-defined]
        names = [name for name in model if not name.endswith("_extra_state")]
        del model[chooser.choice(names)]
    altered(spec, victim, alter)
    return sum(place.stage == 0 for place in places(spec)) > 1 and victim.match(rank_file(spec, Place()))


def exchanged(spec: Spec, victim: Path, chooser: random.Random) -> bool:
    """Only training tells which process saved a file."""
    others = [path for path in victim.parents[1].glob("*/model_optim_rng.pt") if path != victim]
    if not others or not spec.processes:
        return False
    other = chooser.choice(others)
    both = victim.read_bytes(), other.read_bytes()
    victim.write_bytes(both[1])
    other.write_bytes(both[0])
    return True


DAMAGE: list[Damage] = [without, cut_off, of_other_model, of_other_iteration, without_a_tensor, exchanged]


def check(seed: int, root: Path) -> str:
    """What is wrong with one set; empty: nothing."""
    spec = random_set(seed)
    source, out = root / "set", root / "out.safetensors"
    write_set(source, spec)
    chooser = random.Random(seed)
    place = source if spec.release or chooser.random() < 0.5 else source / "iter_0000100"
    result = run("export", place, out, "--force")
    if result.code != 0:
        return result.stderr
    if names := wrong_names(spec, out):
        return f"wrong: {names[:5]}"
    return check_damaged(spec, place, root, chooser)


def check_damaged(spec: Spec, place: Path, root: Path, chooser: random.Random) -> str:
    damage = chooser.choice(DAMAGE)
    files = sorted((root / "set").rglob("model_optim_rng.pt"))
    if not damage(spec, chooser.choice(files), chooser):
        return ""
    return unless_refused(damage.__name__, run("export", place, root / "out.safetensors", "--force"))


if __name__ == "__main__":
    sys.exit(run_seeds(check))
