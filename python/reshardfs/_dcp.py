# SPDX-License-Identifier: Apache-2.0
"""Checkpoints for torch.distributed.checkpoint: nothing is converted, and each rank reads its own boxes."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch.distributed.checkpoint import StorageReader
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import LoadItemType, LoadPlan, LoadPlanner
from torch.futures import Future

from ._arguments import name_text
from ._boxes import Reads
from ._checkpoint import Checkpoint, open_checkpoint
from ._errors import Error
from ._tensor import State
from ._torch_targets import Converted, Part, dtype_of, fill


class DcpReader(StorageReader):
    """For dcp.load(state_dict, storage_reader=DcpReader(source)).

    source: an opened checkpoint, of which the whole model is taken, the tensors of a rank, or what open() takes, with
    its options: then it is opened for each load, and a rank that cannot open it ends all ranks with its error, where
    the others would wait for one that fails before dcp.load(). prefix: is before each of the names in the state_dict,
    such as "model.". threads: how many read; by default one for each processor, but two at least.

    A target may have another floating type of at least 16 bits: elements are rounded as Tensor.to() does, and
    `converted` lists them after the load. Other types must be equal. `reads` counts the bytes that this rank read, as
    read_into_all() does.
    """

    def __init__(self, source: Checkpoint | State | str | os.PathLike[str], prefix: str = "", threads: int = 0,
                 **options: Any) -> None:
        super().__init__()
        self._source = source
        self._options = options
        self._opened: Checkpoint | None = None
        self._state: Any = None
        self._prefix = name_text(prefix)
        self._threads = threads
        self.converted: list[Converted] = []
        self.reads = Reads(0, 0)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        return True

    def reset(self, checkpoint_id: Any = None) -> None:
        self.converted = []
        self.reads = Reads(0, 0)

    def read_metadata(self, *_: Any, **__: Any) -> Metadata:
        """Of each tensor one chunk: the planner cuts it into the boxes of the rank."""
        self._open()
        tensors: dict[str, Any] = {}
        places: dict[MetadataIndex, str] = {}
        for name in self._state.arrays():
            lazy = self._state[name]
            shape, origin = torch.Size(lazy.shape), torch.Size([0] * lazy.ndim)
            tensors[self._prefix + name] = TensorStorageMetadata(TensorProperties(dtype=dtype_of(lazy)), shape,
                                                                 [ChunkStorageMetadata(origin, shape)])
            places[MetadataIndex(self._prefix + name, origin)] = name
        return Metadata(state_dict_metadata=tensors, planner_data=None, storage_data=places)

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *_: Any, **__: Any) -> None:
        pass

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        return plans

    def _open(self) -> None:
        source = self._source
        if not isinstance(source, (Checkpoint, State)):
            self._close()
            source = self._opened = open_checkpoint(source, **self._options)
        self._state = source.merged if isinstance(source, Checkpoint) else source

    def _close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        try:
            return self._read(plan, planner)
        finally:
            self._close()

    def _read(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        targets = []
        parts = []
        for item in plan.items:
            name = item.storage_index.fqn[len(self._prefix):]
            if item.type != LoadItemType.TENSOR:
                raise Error(f"'{name}' is no tensor in the state_dict; leave it out of what is loaded", "unsupported",
                            parameter=name)
            begin = tuple(item.storage_offsets)
            box = self._state[name].box(begin, [low + length for low, length in zip(begin, item.lengths)])
            target = planner.resolve_tensor(item)
            targets.append((item, target))
            parts.append(Part(box, target.detach()))
        self.converted, self.reads = fill(parts, self._threads)
        for item, target in targets:
            planner.commit_tensor(item, target)
        done: Future[None] = Future()
        done.set_result(None)
        return done
