# SPDX-License-Identifier: Apache-2.0
"""Live models of PyTorch 2 get their tensors without a mount: live_ranks.py has the cases."""

from __future__ import annotations

import os
import subprocess
import unittest
from pathlib import Path

from cached_programs import Unavailable, module_for, torch_python
from mounted import Settings, scratch
from python_sets import class_context, run_unittests_without_mounts

PROGRAM = Path(__file__).resolve().parent / "live_ranks.py"
SECONDS = 300.0


class Live(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.python = torch_python()
        try:
            module = module_for(cls.python, Settings.binary.parents[1], class_context(cls, scratch()) / "module")
        except Unavailable as reason:
            raise unittest.SkipTest(str(reason)) from None
        cls.environment = {**os.environ, "PYTHONPATH": str(module)}
        found = subprocess.run([*cls.python, "-c", "import torch, reshardfs; assert int(torch.__version__[0]) > 1"],
                               capture_output=True, text=True, check=False, env=cls.environment)
        if found.returncode:
            raise unittest.SkipTest("RESHARDFS_TORCH names no Python with PyTorch 2: "
                                    + (found.stderr.strip().splitlines() or ["?"])[-1])

    def require(self, case: str) -> None:
        with scratch() as directory:
            done = subprocess.run([*self.python, "-B", PROGRAM, case, directory], capture_output=True, text=True,
                                  timeout=SECONDS, check=False, env=self.environment)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_distributed_checkpoint_reads_every_layout(self) -> None:
        self.require("distributed")

    def test_states_of_an_optimizer(self) -> None:
        self.require("optimizer")

    def test_every_rank_gets_the_same_error(self) -> None:
        self.require("refused")

    def test_source_that_changes_and_rank_that_fails(self) -> None:
        self.require("failing")

    def test_state_dict_of_one_process(self) -> None:
        self.require("alone")


if __name__ == "__main__":
    run_unittests_without_mounts()
