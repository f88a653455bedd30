# SPDX-License-Identifier: Apache-2.0
"""Saves files with torch.save of this PyTorch, from 1.13 on, each with the tensors that they have.

torch_files.py DIRECTORY [CASE...]: DIRECTORY/<case>/ gets `src`, `expected.safetensors` (tensors under their
names) and `case.json`; see make_torch_golden.py. Cases that this release cannot save are left out.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import torch
import torch_plain  # noqa: F401: its cases
import torch_objects  # noqa: F401: its cases
import torch_streams  # noqa: F401: its cases
import torch_traps  # noqa: F401: its cases
from torch_case import CASES, CannotSave, Case, OLD, RELEASE, bits_of, flattened


def check(c: Case) -> None:
    """That PyTorch itself reads back what is expected."""
    source = c.directory / c.told.get("source", "src")
    if c.told.get("must", "same") != "same" or source.is_dir():
        return
    options = {} if RELEASE == OLD else {"weights_only": False}
    if "hostile" in c.name:
        return
    state = torch.load(source, map_location="cpu", **options)
    for step in c.told.get("options", [None, ""])[1].split("."):
        state = state[step] if step else state
    got = flattened(state)
    for name, tensor in c.tensors.items():
        if got[name].dtype != tensor.dtype or bits_of(got[name]).tobytes() != bits_of(tensor).tobytes():
            raise RuntimeError(f"{c.name}: {name} comes back otherwise")
    rest = {*got} - {*c.tensors} - {*c.told.get("objects", [])} - {*c.told.get("refused", [])}
    if rest:
        raise RuntimeError(f"{c.name}: {sorted(rest)} is nothing")


def main() -> None:
    out = Path(sys.argv[1])
    for name in sys.argv[2:] or CASES:
        directory = out / name
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        c = Case(directory, name)
        try:
            CASES[name](c)
        except CannotSave as error:
            print(f"{name}: {error}", file=sys.stderr)
            shutil.rmtree(directory)
            continue
        c.finish(CASES[name].made)  # type: ignore[attr-defined]
        check(c)


if __name__ == "__main__":
    main()
