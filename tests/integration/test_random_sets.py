# SPDX-License-Identifier: Apache-2.0
"""Random sets of every kind of source, each with one fault: a part is removed, a copy of another, exchanged with
another, cut short or of an earlier save. Each command refuses the set, or names the fault, or shows what was saved;
and all commands say the same of it.

The seed of each set that fails is printed. RESHARDFS_RANDOM_SETS is the number of sets, where more are wanted.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import random
import re
import shutil
import sys
from pathlib import Path

# First, because it finds the modules of tests/data.
from random_kinds import KINDS, Made, files

from all_commands import MERGED, ask
from format_files import read_safetensors
from mounted import Result, mounted, parse_settings, run, scratch

# These have the same words for a set; the others describe it.
AGREEING = ("plan", "export", "cat", "hash", "mount", "report")
DESCRIBING = ("inspect", "verify")
FAULTS = ("removed", "doubled", "exchanged", "cut short", "older")
RANKS = ("MindSpore, .ckpt", "MindSpore, safetensors", "MindSpore, .ckpt of two steps", "vLLM")
# What no byte of a set shows, for the parts with these names.
KNOWN: dict[tuple[str, str], str] = {
    # Only a file's name and directory say whose rank, or whose parameter, it is. That of another shape is refused.
    **{(kind, fault): "*" for kind in (*RANKS, "Checkpoint 2.0", "DeepSpeed, universal")
       for fault in ("doubled", "exchanged")},
    # These state no step, neither in the files nor in their names.
    **{(kind, "older"): "*" for kind in ("a model hub's safetensors", "steps of a trainer", "a release of Meta",
                                         "PyTorch, shards", "vLLM")},
    ("Checkpoint 2.0", "older"): "*model-*",  # The step is with the states of the optimizer.
}
Values = dict[str, tuple[str, tuple[int, ...], bytes]]


# ---------------------------------------------------------------------------------------------------- faults


def take_away(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def copy(source: Path, to: Path) -> None:
    shutil.copytree(source, to) if source.is_dir() else shutil.copy(source, to)


def inner(path: Path) -> list[Path]:
    """A part is a file, or the directory of a parameter."""
    return files(path, "*.pt") if path.is_dir() else [path]


def damage(fault: str, made: Made, older: Made | None, rng: random.Random) -> list[Path]:
    """The parts that are not what they were; none where such a set has no such fault."""
    part = rng.choice(made.parts)
    content = [file.read_bytes() for file in inner(part)]
    others = [path for path in made.parts if path.suffix == part.suffix
              and [file.read_bytes() for file in inner(path)] != content]
    if fault == "removed":
        take_away(part)
    elif fault == "cut short":
        file = rng.choice(inner(part))
        file.write_bytes(file.read_bytes()[:rng.randrange(file.stat().st_size)])
    elif fault == "older" and older:
        earlier = older.parts[made.parts.index(part)]
        take_away(part)
        part = made.source / earlier.relative_to(older.source)  # its name may have a step
        if part.exists():
            take_away(part)
        copy(earlier, part)
    elif fault in ("doubled", "exchanged") and others:
        other = rng.choice(others)
        kept = made.source.parent / "kept"
        other.rename(kept)
        copy(part, other)
        if fault == "exchanged":
            take_away(part)
            kept.rename(part)
        return [part, other]
    else:
        return []
    return [part]


# ---------------------------------------------------------------------------------------------------- answers


def answers(made: Made, sound: Path, root: Path) -> dict[str, Result]:
    out = {command: ask(command, made.source, root, *made.options) for command in (*AGREEING, *DESCRIBING)
           if command != "report"}
    out["report"] = run("report", made.source, "--output", root / "page.html", "--force", *made.options)
    sides = [re.sub("^--(src-)?", f"--{side}-", str(word)) for side in "ab" for word in made.options]
    return out | {"diff": run("diff", sound, made.source, *sides)}


def exported(root: Path) -> Values:
    return {name: (kind, array.shape, array.tobytes())
            for name, (kind, array) in read_safetensors(root / "asked.safetensors")[0].items()}


def new_lines(after: Result, before: Result) -> list[str]:
    """What standard error does not have of the sound set."""
    return [line for line in after.stderr.splitlines() if line not in before.stderr.splitlines()]


def named(command: str, after: Result, before: Result, words: list[str]) -> bool:
    lines = new_lines(after, before)
    if command in DESCRIBING:
        lines += [line for line in after.stdout.splitlines() if line not in before.stdout.splitlines()]
    return any(word in line for line in lines for word in words)


def problems(before: dict[str, Result], after: dict[str, Result], words: list[str], wrong: bool,
             known: bool) -> list[str]:
    """@param wrong whether export refuses the set, or shows other values than were saved."""
    out = []
    for command, result in after.items():
        errors = [line for line in result.stderr.splitlines() if "reshardfs: warning: " not in line]
        if result.code not in (0, 1, 2, 3) or result.code > 1 and len(errors) != 1:
            out.append(f"{command} ends with {result.code}: {result.stderr}")
        differs = wrong or command in ("cat", "hash") and result.stdout != before[command].stdout
        silent = result.code == 0 and (command == "diff" or not named(command, result, before[command], words))
        # Without the values, inspect does not know what others refuse because of them.
        if differs and silent and not known and (command != "inspect" or after["export"].code == 0):
            out.append(f"{command} has no word of it: {result.stderr}")
    # What to run next is another command line for each.
    said = {command: (after[command].code, sorted(re.sub("; run: reshardfs .*", "", line)
                                                  for line in new_lines(after[command], before[command])))
            for command in AGREEING}
    if len(set(map(str, said.values()))) > 1:
        out.append("the commands disagree: " + json.dumps(said, indent=1))
    return out


def check(seed: int, root: Path, mounts: set[str]) -> tuple[str, list[str]]:
    """What was done to a set, and what is wrong then; '' where there was nothing to do."""
    kind = list(KINDS)[seed % len(KINDS)]
    made = KINDS[kind](random.Random(seed), root / "set", False)
    older = KINDS[kind](random.Random(seed), root / "older", True) if made.ages else None
    copy(root / "set", root / "sound")
    sound = root / "sound" / made.source.relative_to(root / "set")
    before = answers(made, sound, root)
    if refused := [f"{command}: {result.stderr}{result.stdout}" for command, result in before.items() if result.code]:
        return f"{kind}, sound", refused
    want = exported(root)
    if wrong := [name for name, (dtype, array) in made.expected.items()
                 if want.get(name) != (dtype, array.shape, array.tobytes())]:
        return f"{kind}, sound", [f"shown otherwise: {wrong[:5]}"]
    rng = random.Random(seed)
    fault = rng.choice(FAULTS)
    parts = damage(fault, made, older, rng)
    if not parts:
        return "", []
    after = answers(made, sound, root)
    unsound = after["export"].code != 0 or exported(root) != want
    words = [*(path.stem for path in parts), *(path.parent.name for path in parts if path.parent != root / "set"),
             *(name for name in want if len(name) > 4), "rank "]
    known = all(fnmatch.fnmatch(path.name, KNOWN.get((kind, fault), "")) for path in parts)
    found = problems(before, after, words, unsound, known)
    if after["export"].code == 0 and made.source.is_dir() and kind not in mounts:
        mounts.add(kind)
        with mounted(made.source, "--views", "merged-safetensors", *made.options) as mount:
            if (mount / MERGED).read_bytes() != (root / "asked.safetensors").read_bytes():
                found.append("a mount shows something else than export")
    return f"{kind}, {fault}: {', '.join(str(path.relative_to(root)) for path in parts)}", found


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sets", type=int, default=int(os.environ.get("RESHARDFS_RANDOM_SETS", "40")))
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    arguments = parse_settings(parser)
    failed = done = 0
    mounts: set[str] = set()
    for seed in range(arguments.seed, arguments.seed + arguments.sets):
        with scratch() as root:
            what, found = check(seed, root, mounts)
        done += bool(what)
        if found:
            failed += 1
            print(f"again with --sets 1 --seed {seed}: {what}", *found, sep="\n  ", flush=True)
    print(f"{arguments.sets} sets from seed {arguments.seed}, {done} with a fault: {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
