# SPDX-License-Identifier: Apache-2.0
"""Random checkpoints of DeepSpeed's ZeRO: every tensor must have the bytes that it was made of.

data/deepspeed_sets.py writes them by the rules in DeepSpeed's own script. Of each set that fails, the seed is
printed. Some sets lack a file, or have one of another set: these must be refused.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

import numpy as np  # noqa: E402
from deepspeed_cuts import random_cuts, write_cut_set  # noqa: E402
from deepspeed_sets import Spec, random_set, write_set  # noqa: E402
from format_files import read_safetensors  # noqa: E402
from mounted import run  # noqa: E402
from random_seeds import run_seeds, unless_refused  # noqa: E402


def wrong_names(spec: Spec, out: Path) -> list[str]:
    want = {name: (kind, array.shape, array.tobytes()) for name, (kind, array) in spec.reference().items()}
    got = {name: (kind, array.shape, array.tobytes()) for name, (kind, array) in read_safetensors(out)[0].items()}
    return sorted(name for name in want.keys() | got.keys() if want.get(name) != got.get(name))


def check(seed: int, root: Path) -> str:
    """What is wrong with one set; empty: nothing."""
    spec = random_set(seed)
    source = root / "set"
    if seed % 3 == 0:
        rng = np.random.default_rng([seed])
        ranks = int(rng.integers(2, 6))
        write_cut_set(source, spec, random_cuts(rng, spec, ranks), ranks)
    else:
        write_set(source, spec)
    place = source if spec.latest else source / spec.tag
    out = root / "out.safetensors"
    result = run("export", place, out, "--force")
    if result.code != 0:
        return result.stderr
    verified = run("verify", place)
    if verified.code != 0:
        return verified.stdout + verified.stderr
    if names := wrong_names(spec, out):
        return f"wrong: {names[:5]}"
    return check_damaged(seed, source / spec.tag, place, out)


def check_damaged(seed: int, files: Path, place: Path, out: Path) -> str:
    """Without one of its files, or with one that is cut off, nothing is shown."""
    chooser = random.Random(seed)
    victim = chooser.choice(sorted(files.glob("*_states.pt")))
    if chooser.random() < 0.5:
        victim.unlink()
    else:
        victim.write_bytes(victim.read_bytes()[:chooser.randrange(victim.stat().st_size)])
    return unless_refused(f"damaged {victim.name}", run("export", place, out, "--force"))


if __name__ == "__main__":
    sys.exit(run_seeds(check))
