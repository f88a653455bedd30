# SPDX-License-Identifier: Apache-2.0
"""What a strategy means, by NumPy alone, and strategy files by MindSpore's own protobuf classes."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class Layout:
    devices: tuple[int, ...]  # the device matrix, major axis first
    # For each dimension the axes that cut it, the major one first; an axis is counted from the last.
    axes: tuple[tuple[int, ...], ...]
    cut: int = 0  # parts that the optimizer cuts dimension 0 into once more; -1: as many as there are replicas

    def count(self, axis: int) -> int:
        return self.devices[len(self.devices) - 1 - axis]

    def splits(self) -> list[int]:
        return [math.prod(map(self.count, axes)) for axes in self.axes]

    def replicas(self) -> int:
        return math.prod(self.devices) // math.prod(self.splits())

    def parts(self) -> int:
        return self.replicas() if self.cut == -1 else self.cut or 1

    def unit(self) -> list[int]:
        """What the tensor's dimensions must be multiples of."""
        splits = self.splits()
        return [splits[0] * self.parts(), *splits[1:]] if splits else []

    def place(self, device: int) -> tuple[int, ...]:
        """Which slice of each dimension the device holds."""
        coordinates = np.unravel_index(device, self.devices)
        place = []
        for axes in self.axes:
            index = 0
            for axis in axes:
                index = index * self.count(axis) + int(coordinates[len(self.devices) - 1 - axis])
            place.append(index)
        return tuple(place)

    def slice_of(self, full: np.ndarray, device: int) -> np.ndarray:
        place, splits = self.place(device), self.splits()
        lengths = [size // split for size, split in zip(full.shape, splits)]
        starts = [index * length for index, length in zip(place, lengths)]
        if self.parts() > 1:
            equal = [other for other in range(math.prod(self.devices)) if self.place(other) == place]
            lengths[0] //= self.parts()
            starts[0] += equal.index(device) % self.parts() * lengths[0]
        return np.ascontiguousarray(full[tuple(slice(start, start + length)
                                               for start, length in zip(starts, lengths))].reshape(lengths))

    def is_nested(self) -> bool:
        return any(len(axes) > 1 for axes in self.axes)

    def is_descending(self) -> bool:
        used = [axis for axes in self.axes for axis in axes]
        return used == sorted(used, reverse=True)


@dataclass
class Strategy:
    """Layouts by name and stage."""

    stages: int = 1
    devices: int = 1  # of each stage
    layouts: dict[str, dict[int, Layout]] = field(default_factory=dict)

    @property
    def ranks(self) -> int:
        return self.stages * self.devices

    def layout(self, name: str, rank: int) -> Layout | None:
        return self.layouts.get(name, {}).get(rank // self.devices)

    def slice_of(self, name: str, full: np.ndarray, rank: int) -> np.ndarray | None:
        """None where the rank's stage has no such parameter."""
        layout = self.layout(name, rank)
        return None if layout is None else layout.slice_of(full, rank % self.devices)


def read_strategy(path: Path) -> Strategy:
    from mindspore.train.node_strategy_pb2 import ParallelStrategyMap

    message = ParallelStrategyMap()
    message.ParseFromString(path.read_bytes())
    strategy = Strategy()
    for item in message.parallel_layout_item:
        found = item.parallel_layouts
        maps = [list(one.dim) for one in found.tensor_map]
        if len(maps) > 1:
            axes = tuple(tuple(axis for axis in one if axis >= 0) for one in maps if one)
        else:
            axes = tuple((axis,) if axis >= 0 else () for axis in maps[0])
        layout = Layout(tuple(found.dev_matrix[0].dim), axes, found.opt_weight_shard_size)
        stage, _, name = item.param_name.rpartition("-")
        strategy.layouts.setdefault(name, {})[int(stage or 0)] = layout
        strategy.stages = max(strategy.stages, int(stage or 0) + 1)
        strategy.devices = math.prod(layout.devices)
    return strategy


def write_stage(path: Path, strategy: Strategy, stage: int) -> None:
    """The file of one stage, as the compiler writes it."""
    from mindspore.train.node_strategy_pb2 import ParallelStrategyMap

    message = ParallelStrategyMap()
    message.current_stage = stage
    node = message.parallel_strategy_item.add()
    node.node_name = "MatMul_0"
    node.parallel_strategys.stage = stage
    node.parallel_strategys.parallel_strategy.add().dim.extend([1, 1])
    for name, by_stage in strategy.layouts.items():
        if stage not in by_stage:
            continue
        layout = by_stage[stage]
        item = message.parallel_layout_item.add()
        item.param_name = name
        out = item.parallel_layouts
        out.dev_matrix.add().dim.extend(layout.devices)
        if layout.is_nested():
            for axes in layout.axes:
                out.tensor_map.add().dim.extend(axes or [-1])
            if len(layout.axes) == 1:
                out.tensor_map.add()
        else:
            out.tensor_map.add().dim.extend(axes[0] if axes else -1 for axes in layout.axes)
        out.param_split_shape.add()
        out.indices_offset.add()
        out.field = 0
        out.opt_weight_shard_size = layout.cut
        equal = [device for device in range(strategy.devices) if layout.place(device) == layout.place(0)]
        step = (equal[-1] - equal[0]) // (len(equal) - 1) if len(equal) > 1 else 1
        out.opt_weight_shard_step = step if layout.cut else 0
    path.write_bytes(message.SerializeToString())


def write_json(path: Path, strategy: Strategy, shapes: dict[str, tuple[int, ...]]) -> None:
    """A strategy of one stage without nesting, in the JSON form."""
    items = {}
    for name, by_stage in strategy.layouts.items():
        layout = by_stage[0]
        items[name] = {"dev_matrix": layout.devices, "field": 0, "opt_weight_shard_size": layout.cut,
                       "opt_weight_shard_step": 1 if layout.cut else 0,
                       "tensor_map": [axes[0] if axes else -1 for axes in layout.axes],
                       "tensor_shape": shapes[name]}
    node = {"stage": 0, "parallel_strategy": [[1, 1]]}
    path.write_text(json.dumps({"current_stage": 0, "parallel_strategy_item": {"MatMul_0": node},
                                "parallel_layout_item": items}, sort_keys=True))
