# SPDX-License-Identifier: Apache-2.0
"""export --share auto by the ranks that mpirun of Open MPI and of MPICH start."""

from __future__ import annotations

import shutil
import subprocess
import sys

# First, because it finds the modules of tests/data.
from share_tests import SECONDS, TASKS, SharedExport, environment

from command_tests import run_command_tests
from mounted import SKIP


STARTERS = ("mpirun.openmpi", "mpiexec.hydra")


class Mpi(SharedExport):
    def start(self, *words: str) -> subprocess.CompletedProcess[str]:
        if shutil.which(words[0]) is None:
            self.skipTest(f"{words[0]} is not installed")
        variables = environment(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        return subprocess.run(words, env=variables, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=SECONDS, check=False)

    def killed_and_run_again(self, *starter: str, number: str) -> None:
        """Open MPI kills all ranks when one has been killed: it is started until each has been."""
        words = [*starter, "-n", str(TASKS), str(self.task_script(number))]
        done = self.start(*words)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        for _ in range(TASKS):
            if len(list(self.directory.glob("killed-*"))) == TASKS and done.returncode == 0:
                break
            done = self.start(*words)
        self.check_killed()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("all shares are complete", self.start(*words).stdout)
        self.check_complete()

    def test_open_mpi(self) -> None:
        self.killed_and_run_again("mpirun.openmpi", "--oversubscribe",
                                  number="$OMPI_COMM_WORLD_RANK")

    def test_mpich(self) -> None:
        self.killed_and_run_again("mpiexec.hydra", number="$PMI_RANK")


if __name__ == "__main__":
    if not any(shutil.which(name) for name in STARTERS):
        print(f"skipped: none of {', '.join(STARTERS)} is installed")
        sys.exit(SKIP)
    run_command_tests()
