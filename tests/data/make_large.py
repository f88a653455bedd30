#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a checkpoint of many ranks and parameters with tiny tensors, to measure opening at scale.

    make_large.py OUT --dp 64 --tp 8 --stages 1 --parameters 3000 --dst-tp 4 --dst-dp 2

writes OUT/src/rank_N/net-1_1.ckpt and the strategies OUT/src.ckpt and OUT/dst.ckpt. One third of
the parameters are weights, the others their Adam states. Of ten weights six are cut in rows and
three in columns, with the optimizer's shards on top; one is whole on every rank. With --columns
the tensors get larger, and --sparse leaves holes in place of their bytes.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ckpt_format import Record, encode_checkpoint
from layouts import Layout
from strategy_files import Strategy, write_protobuf


def weight_names(parameters: int) -> list[str]:
    """Of the weights; each comes with two Adam states."""
    kinds = ("attention.wq", "attention.wk", "attention.wv", "feed_forward.w1", "feed_forward.w3",
             "attention.wqkv_concat", "attention.wo", "feed_forward.w2", "adapter.down",
             "attention_norm")
    count = -(-parameters // 3)
    return [f"model.layers.{i // 10}.{kinds[i % 10]}.weight" for i in range(count)]


def names_of_stage(names: list[str], stage: int, stages: int) -> list[str]:
    size = -(-len(names) // stages)
    return names[stage * size : (stage + 1) * size]


def kind_of(number: int) -> str:
    return "rows" if number % 10 < 6 else "columns" if number % 10 < 9 else "whole"


def layout(kind: str, dp: int, tp: int) -> Layout:
    maps: dict[str, tuple[tuple[int, ...], ...]] = {
        "rows": ((0,), ()), "columns": ((), (0,)), "whole": ((),)}
    return Layout((dp, tp), maps[kind], 0 if kind == "whole" else -1)


def strategy(weights: list[str], dp: int, tp: int, stages: int) -> Strategy:
    out: list[dict[str, Layout]] = []
    for stage in range(stages):
        own: dict[str, Layout] = {}
        first = stage * -(-len(weights) // stages)
        for i, name in enumerate(names_of_stage(weights, stage, stages), start=first):
            for prefix in ("", "adam_m.", "adam_v."):
                own[prefix + name] = layout(kind_of(i), dp, tp)
        out.append(own)
    return Strategy(out)


def headers_of_stage(own: Strategy, stage: int, rows: int, columns: int) -> list[tuple[bytes, int]]:
    """Of each record: its bytes up to the content, and the content's length."""
    out = []
    for name, how in own.stages[stage].items():
        shape = (columns,) if len(how.tensor_map) == 1 else (rows, columns)
        length = 2 * columns * (1 if len(shape) == 1 else rows)
        whole = encode_checkpoint([Record(name, "Float16", shape, bytes(length))])
        out.append((whole[: len(whole) - length], length))
    return out


def make_large(root: Path, dp: int, tp: int, stages: int, parameters: int, dst_dp: int,
               dst_tp: int, *, rows: int = 1, columns: int = 8, sparse: bool = False) -> None:
    weights = weight_names(parameters)
    source = strategy(weights, dp, tp, stages)
    for stage in range(stages):
        headers = headers_of_stage(source, stage, rows, columns)
        for local in range(dp * tp):
            rank = stage * dp * tp + local
            folder = root / "src" / f"rank_{rank}"
            folder.mkdir(parents=True, exist_ok=True)
            with open(folder / "net-1_1.ckpt", "wb") as out:
                for i, (header, length) in enumerate(headers):
                    out.write(header)
                    if sparse:
                        out.seek(length, 1)
                    else:
                        # Replicas must be equal.
                        value = 0 if kind_of(i // 3) == "whole" else rank
                        out.write(value.to_bytes(2, "little") * (length // 2))
                out.truncate(out.tell())
    write_protobuf(source, root / "src.ckpt")
    write_protobuf(strategy(weights, dst_dp, dst_tp, 1), root / "dst.ckpt")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--dp", type=int, default=64)
    parser.add_argument("--tp", type=int, default=8)
    parser.add_argument("--stages", type=int, default=1)
    parser.add_argument("--parameters", type=int, default=3000, help="of the whole model")
    parser.add_argument("--dst-dp", type=int, default=2)
    parser.add_argument("--dst-tp", type=int, default=4)
    parser.add_argument("--rows", type=int, default=1, help="of a slice")
    parser.add_argument("--columns", type=int, default=8, help="of a slice")
    parser.add_argument("--sparse", action="store_true")
    a = parser.parse_args()
    make_large(a.out, a.dp, a.tp, a.stages, a.parameters, a.dst_dp, a.dst_tp,
               rows=a.rows, columns=a.columns, sparse=a.sparse)


if __name__ == "__main__":
    main()
