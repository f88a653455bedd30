# SPDX-License-Identifier: Apache-2.0
"""Small checkpoints for tests of pictures and pages, with names that markup does not like."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from ckpt_format import Record, encode_checkpoint  # noqa: E402
from layouts import Layout, shard  # noqa: E402
from strategy_files import Strategy, write_protobuf  # noqa: E402

HOSTILE = [
    "</script><script>document.title='broken'</script>",
    "<!--<script>",
    "]]></style><b>&amp;\"quoted\" 'single'",
    "tab\there\x1b[31m\x07",
    "\ufffe\uffff\u202egnorw",
    "層.0.重み",
]


def rows(parts: int) -> Layout:
    return Layout((parts,), ((0,), ()))


def columns(parts: int) -> Layout:
    return Layout((parts,), ((), (0,)))


Layouts = dict[str, tuple[tuple[int, ...], Layout, Layout]]


def write_set(root: Path, layouts: Layouts) -> list[str]:
    """Parameters by name: the full shape, the source's and the destination's layout.
    @return the arguments of a command: the source and both strategies."""
    source = Strategy([{name: own[1] for name, own in layouts.items()}])
    target = Strategy([{name: own[2] for name, own in layouts.items()}])
    for rank in range(source.rank_count):
        records = []
        for name, (shape, layout, _) in layouts.items():
            piece = shard(np.zeros(shape, "f4"), layout, rank)
            records.append(Record(name, "Float32", piece.shape, piece.tobytes()))
        path = root / "ckpt" / f"rank_{rank}" / "net-1_1.ckpt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode_checkpoint(records))
    write_protobuf(source, root / "src.ckpt")
    write_protobuf(target, root / "dst.ckpt")
    return [str(root / "ckpt"), "--src-strategy", str(root / "src.ckpt"),
            "--dst-strategy", str(root / "dst.ckpt")]


def trained_set() -> Layouts:
    """Two weights with Adam's states before them, and a larger table that is whole everywhere."""
    whole = Layout((4,), ((), ()))
    layouts: Layouts = {}
    for prefix in ("adam_m.", "adam_v.", ""):
        layouts[prefix + "model.w1"] = ((64, 32), rows(4), columns(4))
        layouts[prefix + "model.w2"] = ((32, 48), columns(4), rows(4))
    return layouts | {"model.table": ((128, 64), whole, whole)}


def small_set(root: Path) -> list[str]:
    """Eight ranks to four, by rows and columns; some parameters have hostile names."""
    layouts = {"model.wq": ((64, 32), rows(8), columns(4)),
               "model.wo": ((128, 32), columns(8), columns(4)),
               "model.norm": ((64,), Layout((8,), ((),)), Layout((4,), ((),))),
               "model.experts": ((8, 4, 16), Layout((8,), ((0,), (), ())),
                                 Layout((2, 2), ((1,), (), (0,))))}
    for name in HOSTILE:
        layouts[name] = ((16, 8), rows(8), rows(4))
    return write_set(root, layouts)
