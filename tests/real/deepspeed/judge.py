# SPDX-License-Identifier: Apache-2.0
"""Runs of DeepSpeed against `reshardfs export` and mounts: the names, types, shapes and bytes of the running engine,
of zero_to_fp32.py and of ds_to_universal.py."""

from __future__ import annotations

import collections
import random
from pathlib import Path
from typing import Any

import files
import forked
import pipeline
import ranks
import settings as all_settings
import train
from product import Refused, mounted, reshardfs
from settings import Settings
from truth import KINDS

CONVERTED = ("exp_avg.", "exp_avg_sq.")

Entries = dict[str, files.Entry]


def trained(directory: Path, settings: Settings) -> tuple[Path, Entries]:
    """The directory of the run, and what it has to show."""
    is_pipe = settings.kind == "pipe"
    expected = directory / ("expected" if is_pipe else "expected.safetensors")
    if is_pipe:
        expected.mkdir()
    ranks.run(settings.world, (pipeline if is_pipe else train).run, settings, directory / "run", expected)
    entries: Entries = {}
    for path in sorted(expected.iterdir()) if is_pipe else [expected]:
        for name, entry in files.read(path).items():
            if is_pipe and not settings.stage:  # its files have no other name of a tied layer
                name = name.replace("tied_modules.embedding.", "0.")
            assert entries.setdefault(name, entry) == entry, f"two stages have another {name}"
    return directory / "run", entries


def exported(directory: Path, source: Path, *words: str) -> Entries:
    out = directory / "out.safetensors"
    reshardfs("export", source, out, *words)
    found = files.read(out)
    out.unlink()
    return found


def shown(directory: Path, source: Path, rng: random.Random, *words: str) -> Entries:
    """What reshardfs makes of it: exported, or every sixth time in a mount."""
    if rng.random() >= 1 / 6:
        return exported(directory, source, *words)
    with mounted(source, directory / "mnt", "--views", "merged-safetensors", *words) as mountpoint:
        (path,) = mountpoint.rglob("*.safetensors")
        found = files.read(path)
    (directory / "mnt").rmdir()
    return found


def states_of(expected: Entries) -> set[str]:
    """The names of states: a kind, and the name of a parameter."""
    return {f"{kind}.{name}" for kind in KINDS for name in expected} & set(expected)


def check_weights(directory: Path, source: Path, expected: Entries, rng: random.Random) -> None:
    """--weights-only leaves the states of the optimizer out."""
    states = states_of(expected)
    weights = {name: entry for name, entry in expected.items() if name not in states}
    files.assert_equal(shown(directory, source, rng, "--weights-only"), weights, f"{source} --weights-only")


# --- DeepSpeed's converters --------------------------------------------------------------------


def zero_to_fp32(source: Path, tag: str, output: Path) -> None:
    from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint
    from safetensors.torch import save_file

    found = get_fp32_state_dict_from_zero_checkpoint(str(source), tag=tag)
    save_file({name: tensor.detach().clone().contiguous() for name, tensor in found.items()}, output)


def check_zero_to_fp32(directory: Path, source: Path, settings: Settings, expected: Entries) -> None:
    """It makes all float32, and lacks what is frozen at stage 1; what it has must be the same."""
    output = directory / "fp32.safetensors"
    forked.alone(zero_to_fp32, source, settings.tag, output)
    found = files.read(output)
    trained_names = {name.partition(".")[2] for name in states_of(expected)} & set(found)
    for name, entry in found.items():
        assert name in expected, f"zero_to_fp32.py has {name}"
        if expected[name].type == "Float32":
            assert entry == expected[name], f"zero_to_fp32.py has another {name}"
    assert trained_names or settings.optimizer == "plain", "zero_to_fp32.py has no trained parameter"


def to_universal(source: Path, output: Path) -> None:
    from argparse import Namespace

    from deepspeed.checkpoint import ds_to_universal

    ds_to_universal.main(Namespace(input_folder=str(source), output_folder=str(output), num_extract_workers=1,
                                   num_merge_workers=1, keep_temp_folder=False, strict=True,
                                   inject_missing_state=True))


def converts(settings: Settings) -> bool:
    """Whether ds_to_universal.py takes it: it knows the states of Adam alone."""
    return settings.stage > 0 and not settings.is_elastic() and settings.optimizer in ("adamw", "amsgrad", "radam")


def check_universal(directory: Path, source: Path, settings: Settings, expected: Entries, rng: random.Random) -> str:
    """What is to be counted. DeepSpeed's script knows two states, and of a pipeline what is trained alone."""
    output = directory / "universal"
    try:
        forked.alone(to_universal, source / settings.tag, output)
    except forked.Failed as error:  # BF16_Optimizer states all of it in the last file
        if settings.is_bf16_optimizer() and "length must be non-negative" in str(error):
            return "ds_to_universal.py fails: a group has more padding than the last rank's part"
        raise
    states = states_of(expected)
    kept = {name: entry for name, entry in expected.items()
            if (name.startswith(CONVERTED) if name in states else
                settings.kind == "zero" or f"exp_avg.{name}" in states)}
    if settings.is_round_robin():  # the script's order is right only where a rank has one parameter of a group
        try:
            files.assert_equal(exported(directory, output), kept, output)
        except Refused as error:
            assert "round_robin_gradients" in str(error) and settings.world > 1, error
            return "universal of round_robin_gradients refused"
    else:
        files.assert_equal(shown(directory, output, rng), kept, output)
        reshardfs("verify", output)
    return "universal, as the engine says"


# --- what must be refused ----------------------------------------------------------------------


def check_refusal(directory: Path, source: Path, settings: Settings, rng: random.Random) -> None:
    """Without one of the files of the optimizer; pipelines without ZeRO, without that of the first stage."""
    is_unread = settings.kind == "pipe" and not settings.stage
    paths = sorted((directory / "run").rglob("mp_rank_00_model_states.pt" if is_unread else "*optim_states.pt"))
    if not paths:
        return
    path = rng.choice(paths)
    path.rename(directory / "aside")
    try:
        reshardfs("export", source, directory / "refused.safetensors")
    except Refused:
        return
    finally:
        (directory / "aside").rename(path)
    raise AssertionError(f"is shown without {path.name}")


# --- the cases ---------------------------------------------------------------------------------


def weights_only(directory: Path, optimizer: str) -> None:
    source, expected = trained(directory, Settings(optimizer=optimizer))
    check_weights(directory, source, expected, random.Random(optimizer))


def judged(directory: Path, settings: Settings, seed: int) -> dict[str, int]:
    rng = random.Random(seed + 1)
    print(settings, flush=True)
    source, expected = trained(directory, settings)
    files.assert_equal(shown(directory, source, rng), expected, source)
    counts = collections.Counter({f"{settings.title()}: as the engine says": 1})
    check_weights(directory, source, expected, rng)
    reshardfs("verify", source)
    check_refusal(directory, source, settings, rng)
    if settings.stage and settings.kind == "zero" and not settings.is_bf16_optimizer():
        check_zero_to_fp32(directory, source, settings, expected)
        counts["as zero_to_fp32.py says"] += 1
    if converts(settings):
        counts[check_universal(directory, source, settings, expected, rng)] += 1
    return counts


def fixed_run(directory: Path, seed: int, **changes: Any) -> dict[str, int]:
    return judged(directory, all_settings.changed(Settings(), changes), seed)


def random_run(directory: Path, seed: int) -> dict[str, int]:
    return judged(directory, all_settings.random_settings(seed), seed)
