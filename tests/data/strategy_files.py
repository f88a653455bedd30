# SPDX-License-Identifier: Apache-2.0
"""Reads and writes MindSpore's strategy files: protobuf (merged or one file a stage) and JSON."""

from __future__ import annotations

import functools
import importlib
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from layouts import Layout, position

PROTO_DIRECTORY = Path(
    os.environ.get("RESHARDFS_PROTO_DIR", Path(__file__).resolve().parents[2] / "proto")
)


@functools.cache
def proto_module(name: str) -> ModuleType:
    """The Python classes of proto/<name>.proto, generated anew for this process."""
    with tempfile.TemporaryDirectory(prefix="reshardfs-proto-") as out:
        subprocess.run(
            ["protoc", f"-I{PROTO_DIRECTORY}", f"--python_out={out}", f"{name}.proto"],
            check=True,
            timeout=60,
        )
        sys.path.insert(0, out)
        try:
            return importlib.import_module(f"{name}_pb2")
        finally:
            sys.path.remove(out)


@dataclass
class Strategy:
    """The layouts of each pipeline stage; first_stage is not 0 for a single later stage's file."""

    stages: list[dict[str, Layout]] = field(default_factory=list)
    first_stage: int = 0

    @property
    def devices_per_stage(self) -> int:
        return next(layout.device_count for stage in self.stages for layout in stage.values())

    @property
    def rank_count(self) -> int:
        return len(self.stages) * self.devices_per_stage

    def __contains__(self, name: str) -> bool:
        return any(name in stage for stage in self.stages)


def shard_step(layout: Layout) -> int:
    """What MindSpore writes as opt_weight_shard_step: a mean distance, of no use to readers."""
    if not layout.opt_size:
        return 0
    own = position(layout, 0)
    same = [rank for rank in range(layout.device_count) if position(layout, rank) == own]
    return (same[-1] - same[0]) // (len(same) - 1) if len(same) > 1 else 1


def _is_flat(layout: Layout) -> bool:
    return all(len(axes) <= 1 for axes in layout.tensor_map)


# --- protobuf ----------------------------------------------------------------------------------


def _add_item(message: Any, name: str, layout: Layout) -> None:
    item = message.parallel_layout_item.add()
    item.param_name = name.encode()
    body = item.parallel_layouts
    body.dev_matrix.add().dim.extend(layout.device_matrix)
    if _is_flat(layout):
        body.tensor_map.add().dim.extend(axes[0] if axes else -1 for axes in layout.tensor_map)
    else:
        for axes in layout.tensor_map:
            body.tensor_map.add().dim.extend(axes or (-1,))
        if len(layout.tensor_map) == 1:
            body.tensor_map.add()  # so that one dimension still counts as several messages
    body.param_split_shape.add()
    body.indices_offset.add()
    body.field = 0
    body.opt_weight_shard_step = shard_step(layout)
    body.opt_weight_shard_size = layout.opt_size


def _message(layouts: dict[str, Layout], stage: int) -> Any:
    message = proto_module("strategy").ParallelStrategyMap()
    message.current_stage = 1
    operator = message.parallel_strategy_item.add()
    operator.node_name = f"MatMul-op{stage}".encode()
    operator.parallel_strategys.stage = stage
    operator.parallel_strategys.parallel_strategy.add().dim.extend((1, 1))
    for name, layout in layouts.items():
        _add_item(message, name, layout)
    return message


def _merged(strategy: Strategy) -> dict[str, Layout]:
    if len(strategy.stages) == 1:
        return strategy.stages[0]
    return {
        f"{number}-{name}": layout
        for number, stage in enumerate(strategy.stages)
        for name, layout in stage.items()
    }


def write_protobuf(strategy: Strategy, path: Path) -> None:
    path.write_bytes(_message(_merged(strategy), strategy.first_stage).SerializeToString())


def write_stages(strategy: Strategy, directory: Path, *, as_json: bool = False) -> None:
    directory.mkdir(parents=True)
    for number, layouts in enumerate(strategy.stages):
        path = directory / f"strategy_{number}.{'json' if as_json else 'ckpt'}"
        if as_json:
            path.write_text(_json_text(layouts, number))
        else:
            path.write_bytes(_message(layouts, number).SerializeToString())


def _axes_of(messages: list[list[int]]) -> tuple[tuple[int, ...], ...]:
    """A tensor map, flat (one message) or nested (several, empty ones not counting)."""
    if len(messages) == 1:
        return tuple(() if axis == -1 else (axis,) for axis in messages[0])
    return tuple(tuple(axis for axis in axes if axis != -1) for axes in messages if axes)


def _read_protobuf(data: bytes) -> tuple[dict[str, Layout], int]:
    message = proto_module("strategy").ParallelStrategyMap.FromString(data)
    layouts = {}
    for item in message.parallel_layout_item:
        body = item.parallel_layouts
        size = body.opt_weight_shard_size if body.opt_weight_shard_step else 0
        layouts[item.param_name.decode()] = Layout(
            tuple(body.dev_matrix[0].dim), _axes_of([list(m.dim) for m in body.tensor_map]), size
        )
    operators = message.parallel_strategy_item
    return layouts, operators[0].parallel_strategys.stage if operators else 0


# --- JSON --------------------------------------------------------------------------------------


def _json_text(layouts: dict[str, Layout], stage: int) -> str:
    """Nested maps are written as nested lists, which MindSpore cannot and reshardfs must read."""
    items = {}
    for name, layout in layouts.items():
        if _is_flat(layout):
            tensor_map: list[Any] = [axes[0] if axes else -1 for axes in layout.tensor_map]
        else:
            tensor_map = [list(axes) or [-1] for axes in layout.tensor_map]
        items[name] = {
            "dev_matrix": list(layout.device_matrix),
            "tensor_map": tensor_map,
            "tensor_shape": [],
            "field": 0,
            "opt_weight_shard_step": shard_step(layout),
            "opt_weight_shard_size": layout.opt_size,
        }
    operators = {f"MatMul-op{stage}": {"stage": stage, "parallel_strategy": [[1, 1]]}}
    document = {
        "current_stage": 1,
        "parallel_strategy_item": operators,
        "parallel_layout_item": items,
    }
    return json.dumps(document, separators=(",", ":"), sort_keys=True)


def write_json(strategy: Strategy, path: Path) -> None:
    path.write_text(_json_text(_merged(strategy), strategy.first_stage))


def _read_json(text: str) -> tuple[dict[str, Layout], int]:
    document = json.loads(text)
    layouts = {}
    for name, item in document["parallel_layout_item"].items():
        tensor_map = item["tensor_map"]
        nested = any(isinstance(axes, list) for axes in tensor_map)
        size = item["opt_weight_shard_size"] if item["opt_weight_shard_step"] else 0
        layouts[name] = Layout(
            tuple(item["dev_matrix"]), _axes_of(tensor_map if nested else [tensor_map]), size
        )
    operators = list(document.get("parallel_strategy_item", {}).values())
    return layouts, operators[0]["stage"] if operators else 0


# --- both --------------------------------------------------------------------------------------


def _read_file(path: Path) -> tuple[dict[str, Layout], int]:
    if path.suffix == ".json":
        return _read_json(path.read_text())
    return _read_protobuf(path.read_bytes())


def _is_prefixed(name: str) -> bool:
    head, dash, _ = name.partition("-")
    return bool(dash) and head.isdigit()


def read_strategy(path: Path) -> Strategy:
    """A merged file, the file of one stage, or a directory of stage files."""
    if path.is_dir():
        stages = {stage: layouts for layouts, stage in map(_read_file, sorted(path.iterdir()))}
        return Strategy([stages[number] for number in range(len(stages))])
    layouts, stage = _read_file(path)
    if not all(map(_is_prefixed, layouts)):
        return Strategy([layouts], stage)
    merged: dict[int, dict[str, Layout]] = {}
    for name, layout in layouts.items():
        head, _, rest = name.partition("-")
        merged.setdefault(int(head), {})[rest] = layout
    return Strategy([merged[number] for number in range(len(merged))])
