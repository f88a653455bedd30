# SPDX-License-Identifier: Apache-2.0
"""Copies what torch_files.py, fsdp_ranks.py, deepspeed_sets.py and megatron_ranks.py saved to
tests/goldentorch, so that tests without PyTorch have it.

make_torch_golden.py SAVED...: directories of cases; a case that exists is replaced. case.json says:
name, what, written_by; source (below the case, what its user names); must: same, refuse, or any (see note);
options of the command line; refused: tensors that cannot be shown though the others are; objects: values
that are no tensors; must_not_exist: files that are made where the pickle is run.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

GOLDEN = Path(__file__).resolve().parents[1] / "goldentorch"
MOST_BYTES = 120_000
MOST_IN_ALL = 1_500_000
KNOWN = {"name", "what", "written_by", "source", "must", "options", "refused", "objects", "note",
         "must_not_exist", "files"}


def bytes_below(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def copy(saved: Path) -> None:
    case = json.loads((saved / "case.json").read_text())
    problems = sorted(case.keys() - KNOWN)
    if case["name"] != saved.name:
        problems.append(f"is named {case['name']}")
    if case["must"] not in ("same", "refuse", "any") or (case["must"] == "any" and "note" not in case):
        problems.append(f"must {case['must']}")
    if not (saved / case["source"]).exists():
        problems.append(f"no {case['source']}")
    if (case["must"] == "same") > (saved / "expected.safetensors").exists():
        problems.append("no expected.safetensors")
    if bytes_below(saved) > MOST_BYTES:
        problems.append(f"{bytes_below(saved)} bytes")
    if problems:
        raise SystemExit(f"{saved}: {', '.join(problems)}")
    target = GOLDEN / saved.name
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(saved, target)


def main() -> None:
    for saved in sys.argv[1:]:
        for directory in sorted(Path(saved).iterdir()):
            if not directory.name.startswith("_"):  # what others were made of
                copy(directory)
    total = bytes_below(GOLDEN)
    print(f"{len(list(GOLDEN.iterdir()))} cases, {total} bytes")
    if total > MOST_IN_ALL:
        raise SystemExit("too many bytes")


if __name__ == "__main__":
    main()
