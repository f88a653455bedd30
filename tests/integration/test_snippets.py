# SPDX-License-Identifier: Apache-2.0
"""The Python snippets of README.md do what they say. Libraries that are not here are played by the
few lines below, which read files as the libraries' documentation says they do: so a wrong path,
option or name is found in any case, and with the libraries installed the real ones judge."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

DATA = Path(__file__).resolve().parents[1] / "data"
sys.path.insert(0, str(DATA))

import numpy as np  # noqa: E402
from ckpt_format import encode_checkpoint, record_of  # noqa: E402
from mounted import COMMAND_SECONDS, mounted, run_unittests, scratch  # noqa: E402

README = Path(__file__).resolve().parents[2] / "README.md"
SHAPE = (64, 16)

# What a snippet finds when it begins, and what it must have got when it ends.
PRELUDE = "network = object()\n"
CHECKS = {
    "import mindspore\nfrom": "import stand_in\n"
    "assert stand_in.loaded == {'model.embed.weight': (16, 16)}, stand_in.loaded\n",
    "import luojianet_ms": "import stand_in\n"
    "assert stand_in.loaded == {'model.embed.weight': (16, 16)}, stand_in.loaded\n",
    "load_distributed_checkpoint": "import stand_in\n"
    "assert stand_in.unified == {'model.embed.weight': (64, 16)}, stand_in.unified\n",
    "import numpy": "assert weight.shape == (64, 16) and float(weight[1, 0]) == 16\n",
    "safe_open": "",
    "safetensors.torch": "assert tuple(state['model.embed.weight'].shape) == (64, 16)\n",
}

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
        (directory / name / "communication.py").write_text("def get_rank():\n    return 2\n")
    if not is_installed("safetensors"):
        (directory / "safetensors").mkdir()
        (directory / "safetensors/__init__.py").write_text(SAFETENSORS)
        (directory / "safetensors/torch.py").write_text(
            "import stand_in\n"
            "class _Tensor:\n"
            "    def __init__(self, entry):\n        self.shape = entry['shape']\n"
            "def load_file(path):\n"
            "    return {n: _Tensor(e) for n, e in stand_in.header(path).items()}\n")


class Snippets(unittest.TestCase):
    def test_each_does_what_it_says(self) -> None:
        snippets = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.M | re.S)
        self.assertEqual(len(snippets), len(CHECKS))
        array = np.arange(SHAPE[0] * SHAPE[1], dtype=np.float32).reshape(SHAPE)
        with contextlib.ExitStack() as stack:
            directory = stack.enter_context(scratch())
            (directory / "m.ckpt").write_bytes(
                encode_checkpoint([record_of("model.embed.weight", "Float32", array)]))
            (directory / "tp4.toml").write_text(
                '[devices]\naxes = ["tp=4"]\n[[rule]]\nmatch = ["*.weight"]\ncut = ["tp", ""]\n')
            modules = directory / "modules"
            modules.mkdir()
            write_stand_ins(modules)
            mountpoint = stack.enter_context(mounted(
                directory / "m.ckpt", "--dst-strategy", directory / "tp4.toml",
                "--format", "ckpt,safetensors", "--params"))
            for snippet in snippets:
                (check,) = [check for word, check in CHECKS.items() if word in snippet]
                with self.subTest(snippet.splitlines()[0]):
                    self.assertIn("/mnt/tp4", snippet)
                    text = PRELUDE + snippet.replace("/mnt/tp4", str(mountpoint)) + check
                    done = subprocess.run(
                        [sys.executable, "-c", text], capture_output=True, text=True, check=False,
                        env={**os.environ, "PYTHONPATH": str(modules)}, timeout=COMMAND_SECONDS)
                    self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_the_configuration_names_the_same_mount(self) -> None:
        first, second = re.findall(r"^```yaml\n(.*?)^```", README.read_text(), re.M | re.S)
        self.assertIn("load_checkpoint: '/mnt/tp4'", first)
        self.assertIn("auto_trans_ckpt: False", first)
        self.assertIn("load_checkpoint: '/mnt/tp4/iteration'", second)
        self.assertIn("use_legacy_format: False", second)


if __name__ == "__main__":
    run_unittests()
