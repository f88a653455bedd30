# SPDX-License-Identifier: Apache-2.0
"""What Ray takes from `reshardfs://` and from the module: files of a mount for data sets and for checkpoints of Ray Train,
by way of PyArrow, and tensors that a task reads by itself."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import torch
from product import module
from safetensors.torch import save


def without_mount(directory: Path) -> dict[str, int]:
    module()
    import fsspec
    import ray
    import ray.data
    import ray.train
    import reshardfs
    from pyarrow.fs import FSSpecHandler, PyFileSystem
    from reshardfs.fsspec import ReshardFileSystem

    tensors = {"w": torch.randn(5, 7), "b": torch.arange(9)}
    (directory / "model.safetensors").write_bytes(save(tensors))
    os.environ["PYTHONPATH"] = os.environ["RESHARDFS_MODULE"]  # of Ray's processes
    fsspec.register_implementation("reshardfs", ReshardFileSystem, clobber=True)
    shown = fsspec.filesystem("reshardfs", source=str(directory / "model.safetensors"), views=["merged-safetensors"])
    (name,) = shown.glob("merged/*.safetensors")
    content = shown.cat_file(name)
    arrow = PyFileSystem(FSSpecHandler(shown))
    # Ray's sockets have long names, of which a path has room for few.
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp") as sockets:
        ray.init(num_cpus=1, include_dashboard=False, logging_level="ERROR", _temp_dir=sockets)
        try:
            rows = ray.data.read_binary_files([name], filesystem=arrow, include_paths=True).take_all()
            assert [(row["path"], row["bytes"]) for row in rows] == [(name, content)], rows
            with ray.train.Checkpoint("merged", filesystem=arrow).as_directory() as copied:
                assert Path(copied, Path(name).name).read_bytes() == content
            state = reshardfs.open(directory / "model.safetensors").merged
            read = ray.remote(lambda tensor: (os.getpid(), bytes(tensor)))
            process, found = ray.get(read.remote(state["w"]))
            assert process != os.getpid() and found == tensors["w"].numpy().tobytes()
        finally:
            ray.shutdown()
    return {"Ray reads files and tensors without a mount": 1}
