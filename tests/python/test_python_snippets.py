# SPDX-License-Identifier: Apache-2.0
"""The snippets of README.md and docs/ about the module do what these say, beside the sample."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import unittest
from pathlib import Path

from documents import blocks
from mounted import fuse_problem, scratch
from python_sets import run_unittests_without_mounts
from readme_sets import Sets

SECONDS = 300.0
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
    "DcpReader": "want = reshardfs.torch.tensor(ckpt.merged['lm_head.weight'])\n"
                 "assert torch.equal(state['model']['lm_head.weight'], want.float()) and len(reader.converted) == 1\n",
    "load_into(": "assert not missing\n",
    "reshardfs.torch.load(": "assert str(state['lm_head.weight'].dtype) == 'torch.bfloat16'\n"
                            "assert tuple(state['lm_head.weight'].shape) == (1920, 512)\n",
    "reshardfs.mount(": "import os\nassert os.path.exists('out/rank_3/checkpoint_3.ckpt') and not os.path.exists(path)\n",
}


class Snippets(unittest.TestCase):
    def test_each_does_what_it_says(self) -> None:
        snippets = [block for _, block in blocks("python") if "import reshardfs" in block]
        self.assertEqual(len(snippets), len(CHECKS))
        with scratch() as directory:
            here = Sets(directory).directory_of("")
            for snippet in snippets:
                (check,) = [check for words, check in CHECKS.items() if words in snippet]
                with self.subTest(snippet.splitlines()[0]):
                    if "torch" in snippet and not importlib.util.find_spec("torch"):
                        self.skipTest("python3-torch is not installed")
                    if words_of_newer := [words for words in ("load_state_dict", "DcpReader") if words in snippet]:
                        self.require_torch2(words_of_newer[0])
                    if "mindspore" in snippet and not importlib.util.find_spec("mindspore"):
                        self.skipTest("MindSpore is not installed")
                    if "reshardfs.mount(" in snippet and (problem := fuse_problem()):
                        self.skipTest(problem)
                    self.run_there(snippet + check, here)

    def require_torch2(self, why: str) -> None:
        import torch
        if int(torch.__version__.partition(".")[0]) < 2:
            self.skipTest(f"{why} needs PyTorch 2")

    def run_there(self, program: str, here: Path) -> None:
        done = subprocess.run([sys.executable, "-c", program], cwd=here, capture_output=True, text=True,
                              timeout=SECONDS, check=False, env=os.environ)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    run_unittests_without_mounts()
