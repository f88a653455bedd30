#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the table of docs/support.md: which installed maps are for which types of models, and what tests them.
tests/packaging/check_families.py compares the two."""

from __future__ import annotations

import ast
import json
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
MAPS = ROOT / "config/maps"
# By tests/real/mindformers.
BUILT = {"mindformers-deepseek-v3", "mindformers-deepseek-v4", "mindformers-glm", "mindformers-glm-hf", "mindformers-llama",
         "mindformers-llama-qkv-concat", "mindformers-qwen3", "mindformers-qwen3-moe", "mindformers-telechat3",
         "mindformers-telechat3-moe"}
BEGIN, END = "<!-- families -->", "<!-- end of families -->"
# The columns, and what the names of their maps begin with.
COLUMNS = {"Megatron-Core": ("megatron-",), "MindFormers": ("mindformers-",), "vLLM's ranks": ("vllm-",),
           "torchtitan, Meta": ("torchtitan-", "meta-"), "as in transformers' memory": ("packed-",)}
Pairs = set[tuple[str, str]]  # maps and types


def tables_of(path: Path) -> dict[str, Any]:
    """What a module assigns to names, if it is written out."""
    found: dict[str, Any] = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple | ast.Dict):
            found[node.targets[0].id] = ast.literal_eval(node.value)
    return found


def pairs_of(*tables: dict[str, Iterable[str]]) -> Pairs:
    return {(name, model_type) for table in tables for name, types in table.items() for model_type in types}


def golden_cases() -> Pairs:
    pairs = set()
    for case in (ROOT / "tests/goldenmap").iterdir():
        if not (case / "map.toml").is_file() or not (case / "config.json").is_file():
            continue
        extends = tomllib.loads((case / "map.toml").read_text()).get("extends", "")
        if isinstance(extends, str):
            pairs.add((Path(extends).stem.removesuffix("-numbered"), json.loads((case / "config.json").read_text()).get("model_type", "")))
    return pairs


def column_of(name: str) -> str | None:
    return next((column for column, starts in COLUMNS.items() if name.startswith(starts)), None)


def stated(seeing: dict[str, Iterable[str]]) -> Iterator[tuple[str, str]]:
    """Maps and types: what the maps say, and models that see."""
    for path in sorted(MAPS.glob("*.toml")):
        text = path.read_text()
        if "Not for use alone" in text or column_of(path.stem) is None:
            continue
        types = tomllib.loads(text).get("types", [])
        for model_type in types:
            yield path.stem, model_type
        for model_type in seeing.get(path.stem, ()):
            if model_type not in types:
                yield path.stem, model_type


def cells() -> dict[str, dict[str, list[str]]]:
    hub = tables_of(ROOT / "tests/real/hub/cases.py")
    seeing = hub["SEEING"]
    golden, real = golden_cases(), pairs_of(hub["MAPPED"], hub["OTHER_FORMS"], seeing)
    # The text models of these have types of their own.
    real |= {(name, f"{model_type}_text") for name, model_type in pairs_of(seeing)}
    table: dict[str, dict[str, list[str]]] = {}
    for name, model_type in stated(seeing):
        is_form = name.startswith("packed-") and model_type in hub["FAMILIES"] + hub["MORE_FAMILIES"]
        tests = ["goldenmap"] if (name, model_type) in golden else []
        tests += ["real_transformers"] if is_form or (name, model_type) in real else []
        tests += ["real_mindformers"] if name in BUILT and model_type != "mistral" else []
        before = "`vision-language`, " if model_type in seeing.get(name, ()) else ""
        is_sure = tomllib.loads((MAPS / f"{name}.toml").read_text()).get("auto", True)
        shown = f"{before}`{name}`{'' if is_sure else ', not confirmed'}" + (f" ({', '.join(tests)})" if tests else "")
        table.setdefault(model_type, {}).setdefault(column_of(name), []).append(shown)
    return table


def untested() -> list[str]:
    """What no test shows."""
    return [f"{model_type}: {cell}" for model_type, row in sorted(cells().items()) for maps in row.values()
            for cell in maps if not cell.endswith(")")]


def markdown() -> str:
    lines = [f"| `model_type` | {' | '.join(COLUMNS)} |", "|---" * (len(COLUMNS) + 1) + "|"]
    # What only the last column has is told in one row for all with the same cell.
    alone: dict[str, list[str]] = {}
    last = list(COLUMNS)[-1]
    for model_type, row in sorted(cells().items()):
        if set(row) == {last}:
            alone.setdefault(", ".join(row[last]), []).append(model_type)
            continue
        lines.append(f"| {model_type} | {' | '.join(', '.join(row.get(column, ())) for column in COLUMNS)} |")
    lines += [f"| {', '.join(types)} |" + " |" * (len(COLUMNS) - 1) + f" {cell} |" for cell, types in alone.items()]
    # tests/packaging/check_support.py reads the rows that are not indented.
    return "\n".join(" " + line for line in lines)


if __name__ == "__main__":
    print(markdown())
