# SPDX-License-Identifier: Apache-2.0
"""torch.distributed._shard.checkpoint of torch 1.13, which is older than the Python of Debian 12: that
refuses a class whose default is an object without a hash. ImportError where there is no such torch."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

_dataclass = dataclasses.dataclass


def _hashed(cls: Any = None, **options: Any) -> Any:
    if cls is None:
        return lambda made: _hashed(made, **options)
    if cls.__name__ == "TensorProperties":
        options["unsafe_hash"] = True
    return _dataclass(cls, **options)


warnings.filterwarnings("ignore", module="torch")
dataclasses.dataclass = _hashed  # type: ignore[assignment]
try:
    import torch
    if not torch.__version__.startswith("1.13"):
        raise ImportError(f"this is torch {torch.__version__}")
    import torch.distributed
    from torch.distributed._shard import checkpoint
    from torch.distributed._shard.metadata import ShardMetadata
    from torch.distributed._shard.sharded_tensor import Shard, ShardedTensor, init_from_local_shards
finally:
    dataclasses.dataclass = _dataclass

__all__ = ["Shard", "ShardMetadata", "ShardedTensor", "checkpoint", "init_from_local_shards", "torch"]
