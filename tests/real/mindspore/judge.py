# SPDX-License-Identifier: Apache-2.0
"""MindSpore's own converters against `reshardfs export` and mounts: the same bytes where MindSpore's are determined
and right, else the same values; and always the values of the tensors that were cut."""

from __future__ import annotations

import collections
import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import files
import mindspore as ms
import numpy as np
import pairs
from pairs import Pair, ranks
from product import Refused, limited, mounted, reshardfs


def strategy_file(directory: Path, side: str) -> str | None:
    path = directory / f"{side}.ckpt"
    return str(path) if path.exists() else None


def strategies(directory: Path, rng: random.Random) -> list[str | Path]:
    """The options, with a strategy in any of its forms: one file, a directory of stages, JSON."""
    words: list[str | Path] = []
    for side in ("src", "dst"):
        folder = directory / f"{side}_strategies"
        forms = [path for path in (folder, directory / f"{side}.ckpt", directory / f"{side}.json") if path.exists()]
        words += [f"--{side}-strategy", rng.choice(forms) if forms else "none"]
    return words


@contextmanager
def shown(directory: Path, words: list[str | Path], rng: random.Random) -> Iterator[Path]:
    """The files of reshardfs: exported, or every fourth time in a mount."""
    if rng.random() < 0.25:
        with mounted(directory / "src", directory / "mnt", *words) as mountpoint:
            yield mountpoint
    else:
        reshardfs("export", directory / "src", directory / "out", *words)
        yield directory / "out"


# --- what MindSpore is known to do otherwise ---------------------------------------------------


def known_limit(pair: Pair) -> str | None:
    """A limit of MindSpore's converter that this pair meets."""
    both = [one for one in (pair.source, pair.target) if one]
    layouts = [layout for strategy in both for by_stage in strategy.layouts.values() for layout in by_stage.values()]
    if pair.target and pair.target.stages > 1 and pair.target.devices == 1:
        return "target stages of one device"
    if pair.target and any(not any(stage in pair.target.layouts[name] for name in pair.full)
                           for stage in range(pair.target.stages)):
        return "a target stage without parameters"
    if any(layout.cut and not layout.is_descending() for layout in layouts):
        return "optimizer cut of axes that do not descend"
    return None


def other_order(pair: Pair) -> str | None:
    """Why the order of records in .ckpt files is another."""
    if pair.kind == "safetensors" and pair.output == "ckpt":
        return "in an order that MindSpore does not fix"
    both = [one for one in (pair.source, pair.target) if one]
    if any(len(by_stage) > 1 for strategy in both for by_stage in strategy.layouts.values()):
        # MindSpore begins with the last stage's file, also where it takes nothing from it.
        return "in another order: a parameter is in several stages"
    return None


# --- transform_checkpoints ---------------------------------------------------------------------


def transform(directory: Path, pair: Pair) -> str | None:
    """What MindSpore raised."""
    try:
        with limited():
            ms.transform_checkpoints(str(directory / "src"), str(directory / "dst"), "checkpoint_",
                                     strategy_file(directory, "src"), strategy_file(directory, "dst"),
                                     output_format=pair.output)
        return None
    except Exception as error:  # whatever it is, reshardfs has to be right
        return f"{type(error).__name__}: {error}"


def verdict_of(ours: Path, theirs: Path, expected: dict[str, files.Entry], pair: Pair) -> str:
    files.assert_equal(files.read(ours), expected, ours)
    if not theirs.exists():
        return "missing"
    if files.same_bytes(ours, theirs):
        return "identical"
    try:
        files.assert_equal(files.read(theirs), expected, theirs)
    except AssertionError as error:
        assert known_limit(pair), f"MindSpore differs from the tensors that were cut: {error}"
        return "wrong"
    assert other_order(pair), f"{ours} has the values of {theirs} and other bytes"
    return "other order"


def convert(directory: Path, pair: Pair, seed: int) -> dict[str, int]:
    rng = random.Random(seed)
    error = transform(directory, pair)
    words = [*strategies(directory, rng), "--format", pair.output, "--views", "ranks"]
    counts: collections.Counter[str] = collections.Counter()
    with shown(directory, words, rng) as out:
        for rank in range(ranks(pair.target)):
            path = f"rank_{rank}/checkpoint_{rank}.{pair.output}"
            verdict = verdict_of(out / path, directory / "dst" / path, pair.expected(pair.target, rank), pair)
            counts[verdict] += 1
    rank = rng.randrange(ranks(pair.target))
    counts += from_needed_ranks(directory, pair, rank, words)
    if pair.kind == "ckpt" and not error and not known_limit(pair):
        counts += by_rank(directory, pair, rank, words)
    check_merged(directory, pair, words)
    kinds = [kind for kind in ("wrong", "missing", "other order", "identical") if counts.pop(kind, 0)]
    if error or kinds[0] == "missing":
        counts[f"MindSpore fails ({known_limit(pair) or short(error)}), right by value"] += 1
    elif kinds[0] == "wrong":
        counts[f"MindSpore is wrong ({known_limit(pair)}), right by value"] += 1
    else:
        counts[other_order(pair) if kinds[0] == "other order" else "byte-identical"] += 1
    return counts


def short(error: str | None) -> str:
    return re.sub(r"\d+", "N", error.splitlines()[0])[:60] if error else "files missing"


def from_needed_ranks(directory: Path, pair: Pair, rank: int, words: list[str | Path]) -> collections.Counter[str]:
    """For a rank, reshardfs needs no files but those that MindSpore's list names, if it is told what the set has."""
    try:
        needed = ms.rank_list_for_transform(rank, strategy_file(directory, "src"), strategy_file(directory, "dst"))
    except Exception:
        return collections.Counter({"rank_list_for_transform fails": 1})
    if not needed:
        return collections.Counter()
    source = directory / "needed"
    source.mkdir()
    for one in needed:
        (source / f"rank_{one}").symlink_to(directory / f"src/rank_{one}")
    names = [word for name in (*pair.full, *pair.same) for word in ("--include", name)]
    reshardfs("export", source, directory / "from_needed", *words, "--ranks", rank, *names, "--allow-unmatched")
    out = directory / f"from_needed/rank_{rank}/checkpoint_{rank}.{pair.output}"
    files.assert_equal(files.read(out), pair.expected(pair.target, rank), out)
    return collections.Counter({"rank_list_for_transform names enough": 1})


def by_rank(directory: Path, pair: Pair, rank: int, words: list[str | Path]) -> collections.Counter[str]:
    needed = ms.rank_list_for_transform(rank, strategy_file(directory, "src"), strategy_file(directory, "dst"))
    sources = {source: str(directory / f"src/rank_{source}/net-2_3.ckpt") for source in sorted(needed, reverse=True)}
    theirs = directory / "by_rank/one.ckpt"
    theirs.parent.mkdir()
    ms.transform_checkpoint_by_rank(rank, sources, str(theirs), strategy_file(directory, "src"),
                                    strategy_file(directory, "dst"))
    reshardfs("export", directory / "src", directory / "one", *words, "--ranks", rank)
    ours = directory / f"one/rank_{rank}/checkpoint_{rank}.ckpt"
    if other_order(pair):
        files.assert_equal(files.read(theirs), files.read(ours), theirs)
        return collections.Counter({"transform_checkpoint_by_rank equal in another order": 1})
    assert files.same_bytes(ours, theirs), f"{ours} and transform_checkpoint_by_rank's {theirs} differ"
    return collections.Counter({"transform_checkpoint_by_rank byte-identical": 1})


def check_merged(directory: Path, pair: Pair, words: list[str | Path]) -> None:
    """The whole model in one file, from the source."""
    out = directory / "merged.safetensors"
    reshardfs("export", directory / "src", out, *words[:2])
    files.assert_equal(files.read(out), pair.expected(None, 0), out)


def random_pair(directory: Path, seed: int) -> dict[str, int]:
    pair = pairs.random_pair(seed)
    pairs.write_strategies(directory, pair)
    pairs.save_source(directory, pair)
    return convert(directory, pair, seed)


def real_pair(directory: Path, source: str, target: str, kind: str, seed: int) -> dict[str, int]:
    pair = pairs.real_pair(directory, source, target, kind, seed)
    pairs.save_source(directory, pair)
    return convert(directory, pair, seed)


def accumulated_gradients(directory: Path, seed: int) -> None:
    """The compiler's strategy says that the optimizer cuts accu_grads, and its graph leaves them whole: only the
    shapes of the slices tell. reshardfs has to show the whole tensors, or to refuse."""
    pair = pairs.real_pair(directory, "d4t1p2oall", "d2t1", "ckpt", seed)
    source = pair.source
    for name in [name for name in source.layouts if name.startswith("accu_grads.") and name.endswith((".wo", ".w1"))]:
        pair.types[name] = "Float32"
        pair.full[name] = pairs.random_array(np.random.default_rng(seed), pairs.REAL_SHAPES[name.split(".")[-1]],
                                             "Float32")
        source.layouts[name] = {stage: replace(layout, cut=0) for stage, layout in source.layouts[name].items()}
    pairs.save_source(directory, pair)
    out = directory / "merged.safetensors"
    try:
        reshardfs("export", directory / "src", out, "--src-strategy", directory / "src.ckpt")
    except Refused:
        return
    files.assert_equal(files.read(out), pair.expected(None, 0), out)
