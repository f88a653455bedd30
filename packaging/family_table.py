#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the table of docs/support.md: which installed maps are for which types of models, and what tests them.
tests/packaging/check_families.py compares the two."""

from __future__ import annotations

import ast
import json
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MAPS = ROOT / "config/maps"
# By tests/real/mindformers.
BUILT = {"mindformers-deepseek-v3", "mindformers-deepseek-v4", "mindformers-glm", "mindformers-glm-hf", "mindformers-llama",
         "mindformers-qwen3", "mindformers-qwen3-moe", "mindformers-telechat3", "mindformers-telechat3-moe"}
BEGIN, END = "<!-- families -->", "<!-- end of families -->"
# The columns, and what the names of their maps begin with.
COLUMNS = {"Megatron-Core": ("megatron-",), "MindFormers": ("mindformers-",), "vLLM's ranks": ("vllm-",),
           "torchtitan, Meta": ("torchtitan-", "meta-"), "as in transformers' memory": ("packed-",)}


def tuples_of(path: Path) -> dict[str, set[str]]:
    """The tuples of texts that a module assigns."""
    found: dict[str, set[str]] = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple):
            found[node.targets[0].id] = {element.value for element in node.value.elts
                                         if isinstance(element, ast.Constant)}
    return found


def golden_cases() -> set[tuple[str, str]]:
    """Maps and types of goldenmap."""
    pairs = set()
    for case in (ROOT / "tests/goldenmap").iterdir():
        if not (case / "map.toml").is_file() or not (case / "config.json").is_file():
            continue
        extends = tomllib.loads((case / "map.toml").read_text()).get("extends", "")
        if isinstance(extends, str):
            pairs.add((Path(extends).stem.removesuffix("-numbered"), json.loads((case / "config.json").read_text()).get("model_type", "")))
    return pairs


def cells() -> dict[str, dict[str, list[str]]]:
    golden = golden_cases()
    words = tuples_of(ROOT / "tests/real/hub/cases.py")
    forms = words["FAMILIES"] | words["MORE_FAMILIES"]
    mapped = words["MAPPED"] | words["SEEING"]
    table: dict[str, dict[str, list[str]]] = {}
    for path in sorted(MAPS.glob("*.toml")):
        text = path.read_text()
        if "Not for use alone" in text:
            continue
        column = next((name for name, starts in COLUMNS.items() if path.stem.startswith(starts)), None)
        for model_type in tomllib.loads(text).get("types", ()):
            if column is None:
                continue
            tests = ["goldenmap"] if (path.stem, model_type) in golden else []
            if column == "as in transformers' memory" and model_type in forms or \
                    column == "Megatron-Core" and model_type in mapped:
                tests.append("real_transformers")
            if path.stem in BUILT and model_type != "mistral":
                tests.append("real_mindformers")
            shown = f"`{path.stem}`" + (f" ({', '.join(tests)})" if tests else "")
            table.setdefault(model_type, {}).setdefault(column, []).append(shown)
    return table


def markdown() -> str:
    lines = [f"| `model_type` | {' | '.join(COLUMNS)} |", "|---" * (len(COLUMNS) + 1) + "|"]
    # What only the last column has is told in one row.
    alone = []
    last = list(COLUMNS)[-1]
    for model_type, row in sorted(cells().items()):
        if set(row) == {last}:
            alone.append(model_type)
            continue
        lines.append(f"| {model_type} | {' | '.join(', '.join(row.get(column, ())) for column in COLUMNS)} |")
    lines.append(f"| {', '.join(alone)} |" + " |" * (len(COLUMNS) - 1) + " `packed-experts` (real_transformers) |")
    # tests/packaging/check_support.py reads the rows that are not indented.
    return "\n".join(" " + line for line in lines)


if __name__ == "__main__":
    print(markdown())
