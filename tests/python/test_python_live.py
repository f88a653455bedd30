# SPDX-License-Identifier: Apache-2.0
"""Live models of PyTorch 2 get their tensors without a mount: live_ranks.py has the cases."""

from __future__ import annotations

import subprocess
import unittest
from pathlib import Path

from cached_programs import torch_python
from mounted import scratch
from python_sets import run_unittests_without_mounts

PROGRAM = Path(__file__).resolve().parent / "live_ranks.py"
SECONDS = 300.0


class Live(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.python = torch_python()
        found = subprocess.run([*cls.python, "-c", "import torch, reshardfs; assert int(torch.__version__[0]) > 1"],
                               capture_output=True, text=True, check=False)
        if found.returncode:
            raise unittest.SkipTest("RESHARDFS_TORCH names no Python with PyTorch 2 that the module was built for: "
                                    + (found.stderr.strip().splitlines() or ["?"])[-1])

    def require(self, case: str) -> None:
        with scratch() as directory:
            done = subprocess.run([*self.python, "-B", PROGRAM, case, directory], capture_output=True, text=True,
                                  timeout=SECONDS, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_distributed_checkpoint_reads_every_layout(self) -> None:
        self.require("distributed")

    def test_states_of_an_optimizer(self) -> None:
        self.require("optimizer")

    def test_every_rank_gets_the_same_error(self) -> None:
        self.require("refused")

    def test_source_that_changes(self) -> None:
        self.require("changed")

    def test_state_dict_of_one_process(self) -> None:
        self.require("alone")


if __name__ == "__main__":
    run_unittests_without_mounts()
