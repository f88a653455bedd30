# SPDX-License-Identifier: Apache-2.0
"""Copies small sets of torch2_save.py to tests/goldendcp, so that tests without PyTorch have them.

make_torch2_golden.py SAVED RELEASE: SAVED is the directory that torch2_save.py filled under PyTorch
RELEASE, such as 2.14; what exists is replaced. What the case is about stands in torch2_save.py.
"""

from __future__ import annotations

import json
import pickle
import shutil
import sys
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).resolve().parents[1] / "goldendcp"
CASES = ("as_safetensors", "golden_mesh_4", "hf_shards_3", "rank_tables_2", "sharded_tensor_2",
         "transformed")
MOST_BYTES = 20_000


def copy(saved: Path, name: str, release: str) -> None:
    told = json.loads((saved / "case.json").read_text())
    objects = pickle.loads((saved / "objects.pickle").read_bytes())
    key = f"{name}_torch{release.replace('.', '')}"
    target = GOLDEN / key
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(saved / "set", target / "src")
    case: dict[str, Any] = {"name": key, "what": f"the case {name} of tests/data/torch2_save.py",
                            "written_by": f"PyTorch {release}",
                            "must": "refuse" if told["refused"] else "same"}
    if told["refused"]:
        case["parameters_lost"] = told["refused"]
    else:
        shutil.copy(saved / "expected.safetensors", target)
    if objects:
        case["byte_items"] = sorted(objects)
    (target / "case.json").write_text(json.dumps(case, indent=1) + "\n")
    size = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
    if size > MOST_BYTES:
        raise SystemExit(f"{target} has {size} bytes")


def main() -> None:
    saved, release = Path(sys.argv[1]), sys.argv[2]
    for name in CASES:
        if "cannot" not in json.loads((saved / name / "case.json").read_text()):
            copy(saved / name, name, release)


if __name__ == "__main__":
    main()
