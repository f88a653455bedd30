# SPDX-License-Identifier: Apache-2.0
"""What DeepSpeed writes and reshardfs has to refuse, or what has become of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import forked
import judge
from product import Refused, reshardfs
from settings import Network, Settings


def require_refusal(directory: Path, source: Path, text: str) -> None:
    try:
        reshardfs("export", source, directory / "refused.safetensors")
    except Refused as error:
        assert text in str(error), f"is refused with other words: {error}"
        return
    raise AssertionError(f"is shown, although {text!r}")


def optimizer_files(source: Path) -> list[Path]:
    return sorted(source.rglob("*optim_states.pt"))


def exchanged(directory: Path, stage: int, round_robin: bool) -> None:
    """The mappings of the files tell it; those of stage 3 have none. Where DeepSpeed's are wrong, `module` does."""
    source, _ = judge.trained(directory, Settings(stage=stage, zero={"round_robin_gradients": round_robin}))
    first, second, _ = optimizer_files(source)
    first.rename(directory / "aside")
    second.rename(first)
    (directory / "aside").rename(second)
    require_refusal(directory, source, "of another rank" if round_robin else "not of one save")


def two_saves(directory: Path, stage: int) -> None:
    sources = []
    for steps in (2, 4):
        place = directory / str(steps)
        place.mkdir()
        sources.append(judge.trained(place, Settings(stage=stage, steps=steps))[0])
    one, other = (optimizer_files(source) for source in sources)
    shutil.copy(other[1], one[1])
    require_refusal(directory, sources[0], "is 2 in the first, and 4 in the second")


def converted_round_robin(directory: Path) -> None:
    """DeepSpeed's script then takes wrong elements, and `module` in the copied file shows it."""
    settings = Settings(stage=2, zero={"round_robin_gradients": True}, network=Network(frozen=False))
    source, _ = judge.trained(directory, settings)
    forked.alone(judge.to_universal, source / settings.tag, directory / "universal")
    require_refusal(directory, directory / "universal", "round_robin_gradients")
