# SPDX-License-Identifier: Apache-2.0
"""Libraries that are not here, for the Python in the texts: they read files as the documentation of the
libraries says they do. So a wrong path, option or name is found in any case; a library that is installed
is used itself."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

from mounted import COMMAND_SECONDS

DATA = Path(__file__).resolve().parents[1] / "data"
# The rank of the process, by mindspore.communication.
RANK = 2

STAND_IN = '''
import json, pathlib, sys
import numpy
sys.path.insert(0, {data!r})
from ckpt_format import by_name

loaded = unified = None

def load_checkpoint(path):
    return by_name(pathlib.Path(path).read_bytes())

def load_param_into_net(network, parameters):
    global loaded
    loaded = {{name: tuple(record.shape) for name, record in parameters.items()}}

def header(path):
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        tensors = json.loads(file.read(length))
    tensors.pop("__metadata__", None)
    return tensors

def load_distributed_checkpoint(network, checkpoint_filenames=None, *, format,
                                unified_safetensors_dir):
    global unified
    assert format == "safetensors"
    unified = {{name: tuple(entry["shape"])
               for path in sorted(pathlib.Path(unified_safetensors_dir).glob("*.safetensors"))
               for name, entry in header(path).items()}}
'''
SAFETENSORS = '''
import contextlib
import stand_in

class _Slice:
    def __init__(self, entry):
        self.entry = entry
    def get_shape(self):
        return self.entry["shape"]

class _File:
    def __init__(self, path):
        self.tensors = stand_in.header(path)
    def keys(self):
        return list(self.tensors)
    def get_slice(self, name):
        return _Slice(self.tensors[name])

@contextlib.contextmanager
def safe_open(path, framework):
    assert framework == "np"
    yield _File(path)
'''


def is_installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def write_stand_ins(directory: Path) -> None:
    (directory / "stand_in.py").write_text(STAND_IN.format(data=str(DATA)))
    for name in ("mindspore", "luojianet_ms"):
        (directory / name).mkdir()
        (directory / name / "__init__.py").write_text("from stand_in import *\n")
        (directory / name / "communication.py").write_text(f"def get_rank():\n    return {RANK}\n")
    if not is_installed("safetensors"):
        (directory / "safetensors").mkdir()
        (directory / "safetensors/__init__.py").write_text(SAFETENSORS)
        (directory / "safetensors/torch.py").write_text(
            "import stand_in\n"
            "class _Tensor:\n"
            "    def __init__(self, entry):\n        self.shape = entry['shape']\n"
            "def load_file(path):\n"
            "    return {n: _Tensor(e) for n, e in stand_in.header(path).items()}\n")


def run_python(text: str, modules: Path, directory: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Runs it in the directory, with the stand-ins that write_stand_ins() wrote to `modules`."""
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False,
                          cwd=directory, env={**os.environ, "PYTHONPATH": str(modules)},
                          timeout=COMMAND_SECONDS)
