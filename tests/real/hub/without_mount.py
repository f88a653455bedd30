# SPDX-License-Identifier: Apache-2.0
"""What transformers, safetensors and PyTorch take from `reshardfs://` and from the module, and what they do not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import forked
import live_sources
import torch
import torch.distributed.checkpoint as dcp
import transformers
from product import module, require_module
from safetensors import safe_open
from safetensors.torch import load as safetensors_load
from torch.distributed.checkpoint._fsspec_filesystem import FsspecReader


def fsspec(directory: Path) -> dict[str, int]:
    require_module()
    live_sources.written(directory / "hub")
    forked.alone(read, directory / "hub")
    return {"fsspec: what transformers, safetensors and PyTorch take": 1}


def require_same(found: dict[str, torch.Tensor], want: dict[str, torch.Tensor], where: str) -> None:
    assert found.keys() == want.keys(), f"{where}: {sorted(found.keys() ^ want.keys())}"
    for name, tensor in want.items():
        assert torch.equal(found[name], tensor), f"{where}: another {name}"


def require_refused(call: Callable[[], Any], words: str) -> None:
    try:
        call()
    except Exception as error:
        assert words in str(error), f"{type(error).__name__}: {error}"
    else:
        raise AssertionError(f"it works, and docs/python.md says that it does not: {words}")


def read(hub: Path) -> None:
    module()
    import fsspec as files
    import reshardfs.torch
    from reshardfs.fsspec import ReshardFileSystem

    want = transformers.AutoModelForCausalLM.from_pretrained(hub, dtype="auto").state_dict()
    files.register_implementation("reshardfs", ReshardFileSystem, clobber=True)
    shown = files.filesystem("reshardfs", source=str(hub), views=["hf", "dcp"])
    (weights,) = shown.glob("hf/*.safetensors")
    require_same(safetensors_load(shown.cat_file(weights)), want, "safetensors.torch.load")
    require_refused(lambda: safe_open(f"reshardfs://{weights}", framework="pt"), "No such file")
    require_refused(lambda: safe_open(shown.open(weights), framework="pt"), "filename")
    config = transformers.AutoConfig.for_model(**json.loads(shown.cat_file("hf/config.json")))
    model = type(transformers.AutoModelForCausalLM.from_config(config)).from_pretrained(
        None, config=config, state_dict=reshardfs.torch.load(shown.checkpoint), dtype="auto")
    require_same(model.state_dict(), want, "from_pretrained of a state_dict")
    require_refused(lambda: transformers.AutoModelForCausalLM.from_pretrained("reshardfs://hf"), "Repo id")
    state = {name: torch.zeros_like(tensor) for name, tensor in want.items()}
    dcp.load(state, storage_reader=FsspecReader("reshardfs://dcp", source=str(hub), views=["dcp"]), no_dist=True)
    require_same(state, want, "FsspecReader")
