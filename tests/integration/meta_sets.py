# SPDX-License-Identifier: Apache-2.0
"""A small Llama as Meta releases it: consolidated.NN.pth, cut as the parallel layers of Meta's model cut it, and
params.json."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

import numpy as np  # noqa: E402
from torch_archive import stored, write_archive  # noqa: E402

DIM, HEADS, GROUPS, HEAD, FFN, VOCABULARY, LAYERS = 16, 4, 2, 4, 24, 20, 2
PARAMS = {"dim": DIM, "n_heads": HEADS, "n_kv_heads": GROUPS, "n_layers": LAYERS, "multiple_of": 8,
          "ffn_dim_multiplier": 1.3, "norm_eps": 1e-5, "vocab_size": VOCABULARY}
Arrays = dict[str, np.ndarray[Any, Any]]
ROWS = ("wq.weight", "wk.weight", "wv.weight", "w1.weight", "w3.weight", "output.weight")
COLUMNS = ("wo.weight", "w2.weight")


def whole_model() -> Arrays:
    rng = np.random.default_rng(11)
    shapes: dict[str, tuple[int, ...]] = {
        "tok_embeddings.weight": (VOCABULARY, DIM), "norm.weight": (DIM,), "output.weight": (VOCABULARY, DIM),
        "rope.freqs": (HEAD // 2,)}
    for layer in range(LAYERS):
        for name, shape in (("attention.wq", (HEADS * HEAD, DIM)), ("attention.wk", (GROUPS * HEAD, DIM)),
                            ("attention.wv", (GROUPS * HEAD, DIM)), ("attention.wo", (DIM, HEADS * HEAD)),
                            ("feed_forward.w1", (FFN, DIM)), ("feed_forward.w2", (DIM, FFN)),
                            ("feed_forward.w3", (FFN, DIM)), ("attention_norm", (DIM,)), ("ffn_norm", (DIM,))):
            shapes[f"layers.{layer}.{name}.weight"] = shape
    return {name: rng.standard_normal(shape).astype("<f4") for name, shape in shapes.items()}


def part_of(name: str, array: np.ndarray[Any, Any], files: int, number: int, embedding: int) -> np.ndarray[Any, Any]:
    if name == "tok_embeddings.weight":
        return np.split(array, files, embedding)[number]
    if name.endswith(ROWS):
        return np.split(array, files, 0)[number]
    return np.split(array, files, 1)[number] if name.endswith(COLUMNS) else array


def write_release(place: Path, model: Arrays, files: int, *, embedding: int = 0, **params: Any) -> None:
    place.mkdir(parents=True, exist_ok=True)
    for number in range(files):
        write_archive(place / f"consolidated.{number:02}.pth",
                      {name: stored(part_of(name, array, files, number, embedding)) for name, array in model.items()})
    (place / "params.json").write_text(json.dumps(PARAMS | params))
