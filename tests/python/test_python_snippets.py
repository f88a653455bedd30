# SPDX-License-Identifier: Apache-2.0
"""The snippets of README.md and docs/ about the module do what these say, beside the sample."""

from __future__ import annotations

import os
import subprocess
import sys
import unittest
from pathlib import Path

from cached_programs import Unavailable, cached_python, module_for, torch_python
from documents import blocks
from mounted import Settings, fuse_problem, scratch
from python_sets import class_context, run_unittests_without_mounts
from readme_sets import Sets

SECONDS = 300.0
WANT = ("want = reshardfs.torch.tensor(reshardfs.open('ckpt', src_strategy='train.ckpt')"
        ".merged['lm_head.weight'])\n")
# What a snippet finds when it begins.
PRELUDES = {
    "init_process_group": "import os\nos.environ.update(RANK='0', WORLD_SIZE='1', MASTER_ADDR='127.0.0.1', "
                          "MASTER_PORT='0', GLOO_SOCKET_IFNAME='lo')\n",
    "load_into(": "import mindspore\n"
                  "class Network(mindspore.nn.Cell):\n"
                  "    def __init__(self):\n"
                  "        super().__init__()\n"
                  "        self.lm_head = mindspore.nn.Dense(512, 1920, weight_init='zeros', has_bias=False)\n"
                  "network = Network()\n",
}
# What a snippet must have got when it ends.
CHECKS = {
    "weight[10:20, :]": "assert rows.shape == (10, 512) and whole.shape == (7680, 512), whole.shape\n"
                        "assert rows.tobytes() == arrays['lm_head.weight'][10:20].tobytes()\n"
                        "assert len(begin) == 100 and ckpt.rank(3).nbytes == sum(a.nbytes for a in arrays.values())\n",
    "read_into_all(": "with reshardfs.open('ckpt', src_strategy='train.ckpt', dst_strategy='tp=4') as again:\n"
                      "    want = bytes(again.merged['lm_head.weight'].box([0, 64], [128, 128]))\n"
                      "assert larger[:, 1].tobytes() == want and not larger[:, 0].any() and reads == (16384, 16384), reads\n",
    "multiprocessing": "assert array.tobytes() == bytes(state['lm_head.weight'])\n",
    "reshardfs.torch.load_state_dict": "assert bytes(ckpt.merged['lm_head.weight']) == "
                                       "bytes(model['lm_head'].weight.detach().view(torch.uint8).numpy())\n",
    "fully_shard(": WANT + "assert torch.equal(model['lm_head'].weight.to_local(), want.float())\n"
                    "assert len(reader.converted) == 1, reader.converted\n",
    "ColwiseParallel": WANT + "assert torch.equal(model['lm_head'].weight.to_local(), want)\n",
    "AdamW": WANT.replace("lm_head.weight", "adam_v.lm_head.weight")
             + "found = optimizer.state[model['lm_head'].weight]['exp_avg_sq']\n"
             "assert want.count_nonzero() and torch.equal(found, want.float())\n",
    "load_into(": "assert not missing and network.lm_head.weight.asnumpy().any()\n",
    "reshardfs.torch.load(": "assert str(state['lm_head.weight'].dtype) == 'torch.bfloat16'\n"
                            "assert tuple(state['lm_head.weight'].shape) == (1920, 512)\n",
    "reshardfs.mount(": "import os\nassert os.path.exists('out/rank_3/checkpoint_3.ckpt') and not os.path.exists(path)\n",
}


class Snippets(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.pythons = {"torch": cls.python_of(torch_python()), "mindspore": cls.python_of(cached_python("mindspore-2.10.0"))}

    @classmethod
    def python_of(cls, command: list[str]) -> tuple[list[str], str]:
        """A command, and PYTHONPATH for it; or why there is none."""
        try:
            place = class_context(cls, scratch()) / "module"
            return command, str(module_for(command, Settings.binary.parents[1], place)) if command else "not installed"
        except Unavailable as reason:
            return [], str(reason)

    def test_each_does_what_it_says(self) -> None:
        snippets = [block for _, block in blocks("python") if "import reshardfs" in block]
        self.assertEqual(len(snippets), len(CHECKS))
        with scratch() as directory:
            here = Sets(directory).directory_of("")
            for snippet in snippets:
                (check,) = [check for words, check in CHECKS.items() if words in snippet]
                with self.subTest(snippet.splitlines()[0]):
                    if "reshardfs.mount(" in snippet and (problem := fuse_problem()):
                        self.skipTest(problem)
                    before = "".join(text for words, text in PRELUDES.items() if words in snippet)
                    self.run_there(before + snippet + check, here)

    def run_there(self, program: str, here: Path) -> None:
        python, path = [sys.executable], os.environ["PYTHONPATH"]
        for words, found in self.pythons.items():
            if f"reshardfs.{words}" in program:
                python, path = found
                if not python:
                    self.skipTest(f"{words}: {path}")
                python = [*python, "-W", "ignore"]  # theirs
        if "dcp." in program or "load_state_dict" in program:
            self.require_torch2(python)
        done = subprocess.run([*python, "-c", program], cwd=here, capture_output=True, text=True,
                              timeout=SECONDS, check=False, env={**os.environ, "PYTHONPATH": path})
        said = [line for line in done.stderr.splitlines() if "[WARNING]" not in line]  # of MindSpore itself
        self.assertEqual((done.returncode, said), (0, []))

    def require_torch2(self, python: list[str]) -> None:
        code = "import torch; assert int(torch.__version__.partition('.')[0]) > 1"
        if subprocess.run([*python, "-c", code], capture_output=True, check=False).returncode:
            self.skipTest(f"{python} has no PyTorch 2")


if __name__ == "__main__":
    run_unittests_without_mounts()
