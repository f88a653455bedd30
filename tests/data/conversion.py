# SPDX-License-Identifier: Apache-2.0
"""The naive conversion of a whole set: assemble every tensor, cut it again.

Works on any set in memory, gives the records of each destination rank in the order that reshardfs
promises, and the ranks it has to read. Covers `--unmatched source`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ckpt_format import Record, destination_record
from layouts import Layout, assemble, owner_map, shard, unsplit
from strategy_files import Strategy

Sources = Mapping[int, list[Record]]


@dataclass
class Destination:
    records: list[Record]
    needed_ranks: list[int]


@dataclass
class _Full:
    """A laid-out parameter put together; owners has the lowest source rank of each element."""

    type: str
    array: np.ndarray
    owners: np.ndarray


def _holders(name: str, sources: Sources, ranks: range) -> dict[int, Record]:
    """The local ranks of the stage whose file has the parameter."""
    found = {}
    for local, rank in enumerate(ranks):
        for record in sources.get(rank, ()):
            if record.name == name:
                found[local] = record
    return found


def _assemble_all(sources: Sources, strategy: Strategy | None) -> dict[str, _Full]:
    if strategy is None:
        rank = min(sources)
        arrays = {record.name: record for record in sources[rank] if record.type != "str"}
        return {
            name: _Full(record.type, record.array(), np.full(record.shape, rank))
            for name, record in arrays.items()
        }
    out: dict[str, _Full] = {}
    devices = strategy.devices_per_stage
    # The file of one stage of a pipeline: its ranks keep their global numbers where they exist.
    base = strategy.first_stage * devices if strategy.first_stage * devices in sources else 0
    for number, layouts in enumerate(strategy.stages):
        ranks = range(base + number * devices, base + (number + 1) * devices)
        for name, layout in layouts.items():
            holders = _holders(name, sources, ranks)
            if name in out or not holders:
                continue
            array = assemble({r: record.array() for r, record in holders.items()}, layout)
            owners = owner_map(array.shape, layout, holders) + ranks.start
            out[name] = _Full(next(iter(holders.values())).type, array, owners)
    return out


def convert(sources: Sources, src: Strategy | None, dst: Strategy | None) -> dict[int, Destination]:
    """Every destination rank's records."""
    fulls = _assemble_all(sources, src)
    count = dst.rank_count if dst else 1
    return {rank: _convert_rank(rank, sources, fulls, src, dst) for rank in range(count)}


def _layout_for(name: str, rank: int, dst: Strategy | None, dimensions: int) -> Layout | None:
    if dst is None:
        return unsplit(dimensions)
    return dst.stages[rank // dst.devices_per_stage].get(name)


def _convert_rank(
    rank: int,
    sources: Sources,
    fulls: Mapping[str, _Full],
    src: Strategy | None,
    dst: Strategy | None,
) -> Destination:
    resharded: dict[str, Record] = {}
    needed: set[int] = set()
    for name, full in fulls.items():
        if dst is not None and name not in dst:
            continue
        layout = _layout_for(name, rank, dst, full.array.ndim)
        if layout is None:
            continue
        local = rank % dst.devices_per_stage if dst else 0
        resharded[name] = destination_record(name, full.type, shard(full.array, layout, local))
        needed.update(np.unique(shard(full.owners, layout, local)).tolist())
    others: dict[str, Record] = {}
    for record in (record for number in sorted(sources) for record in sources[number]):
        both = record.name in fulls and (dst is None or record.name in dst)
        if not both and record.name not in others:
            holder = _holder_of_raw(record.name, rank, sources, src)
            others[record.name] = _as_written(_named(sources[holder], record.name))
            lowest = next(r for r in sorted(sources) if _has(sources[r], record.name))
            same = _as_written(_named(sources[lowest], record.name)) == others[record.name]
            needed.add(lowest if same else holder)
    order = [r.name for number in sorted(needed, reverse=True) for r in sources[number]]
    names = [n for n in dict.fromkeys(order) if n in resharded]
    names += [n for n in dict.fromkeys(order) if n in others]
    return Destination([(resharded | others)[name] for name in names], sorted(needed))


def _has(records: list[Record], name: str) -> bool:
    return any(record.name == name for record in records)


def _named(records: list[Record], name: str) -> Record:
    return next(record for record in records if record.name == name)


def _as_written(record: Record) -> Record:
    if record.type == "str":
        return record
    return destination_record(record.name, record.type, record.array())


def _holder_of_raw(name: str, rank: int, sources: Sources, src: Strategy | None) -> int:
    """The raw slice of source rank (destination rank modulo devices), lowest stage first."""
    devices = src.devices_per_stage if src else 1
    local = rank % devices
    candidates = [r for r in sorted(sources) if _has(sources[r], name)]
    return next((r for r in candidates if r % devices == local), candidates[0])
