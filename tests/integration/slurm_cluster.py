# SPDX-License-Identifier: Apache-2.0
"""A Slurm cluster of four nodes in one directory of one machine."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from mounted import scratch, wait_until

NODES = 4
SECONDS = 60.0
PROGRAMS = ("munged", "mungekey", "slurmctld", "slurmd", "srun", "sbatch", "squeue", "sinfo")
FINISHED = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"}

CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={root}/munge.sock
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool/%n
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/slurmd-%n.pid
SlurmctldLogFile={root}/log/slurmctld.log
SlurmdLogFile={root}/log/slurmd-%n.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SchedulerParameters=bf_interval=1,sched_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
SlurmdParameters=config_overrides
MpiDefault=none
KillWait=2
MinJobAge=60
PartitionName=all Nodes=ALL Default=YES State=UP MaxTime=10
"""


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def is_running(pid: int) -> bool:
    """Zombies are not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Cluster:
    def __init__(self, root: Path, settings: Mapping[str, str | Path]) -> None:
        """@param settings more lines of slurm.conf"""
        self.root = root
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(("SLURM", "OMPI", "PMI"))}
        self.environment |= {"SLURM_CONF": str(root / "slurm.conf"),
                             "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        ports = free_ports(1 + NODES)
        text = CONFIGURATION.format(host=socket.gethostname().partition(".")[0], root=root, ports=ports)
        text += "".join(f"NodeName=n{node} NodeHostname={socket.gethostname().partition('.')[0]} "
                        f"NodeAddr=127.0.0.1 Port={ports[node]} CPUs=4 RealMemory=1000\n"
                        for node in range(1, NODES + 1))
        text += "".join(f"{name}={value}\n" for name, value in settings.items())
        (root / "slurm.conf").write_text(text)
        for name in ("state", "spool", "log"):
            (root / name).mkdir()

    def run(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run([str(word) for word in words], env=self.environment, cwd=self.root,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=4 * SECONDS, check=False)

    def start(self) -> None:
        root = self.root
        self.must("mungekey", "-c", "-k", root / "munge.key", "-b", "1024")
        # Daemons: a pipe that they kept would never end.
        self.daemon("munged", f"--key-file={root}/munge.key", f"--socket={root}/munge.sock",
                    f"--pid-file={root}/munged.pid", f"--log-file={root}/log/munged.log",
                    f"--seed-file={root}/munge.seed", "--force")
        self.daemon("slurmctld", "-f", root / "slurm.conf")
        for node in range(1, NODES + 1):
            self.daemon("slurmd", "-N", f"n{node}", "-f", root / "slurm.conf")
        idle = wait_until(
            lambda: self.run("sinfo", "-h", "-t", "idle", "-o", "%D").stdout.strip() == str(NODES),
            SECONDS)
        assert idle, "".join(path.read_text() for path in (root / "log").iterdir())

    def must(self, *words: str | Path) -> str:
        done = self.run(*words)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def daemon(self, *words: str | Path) -> None:
        subprocess.run([str(word) for word in words], env=self.environment, cwd=self.root,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, timeout=SECONDS, check=True)

    def stop(self) -> None:
        """Slurm first: its daemons talk through munge."""
        for pattern in ("slurm*.pid", "munged.pid"):
            pids = [int(path.read_text()) for path in self.root.glob(pattern)]
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)
            if not wait_until(lambda: not any(is_running(pid) for pid in pids), SECONDS):
                for pid in filter(is_running, pids):
                    os.kill(pid, signal.SIGKILL)

    def submit(self, *words: str | Path) -> str:
        """@return the number of the job, which may have any state."""
        return self.must("sbatch", "--parsable", *words).strip()

    def states(self, job: str) -> list[str]:
        return self.must("squeue", "-h", "-r", "-j", job, "-t", "all", "-o", "%T").split()

    def wait_for(self, job: str) -> list[str]:
        """The states of a job's elements when all have ended."""
        ended = wait_until(lambda: set(self.states(job)) <= FINISHED, 2 * SECONDS)
        assert ended, f"job {job}: {self.states(job)}"
        return self.states(job)


def slurm_problem() -> str | None:
    """Why Slurm cannot be started here, or nothing."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        return f"Slurm is not installed: no {', '.join(missing)}"
    return None if os.geteuid() == 0 else "only root can start a Slurm cluster"


@contextlib.contextmanager
def cluster(prepare: Callable[[Path], Mapping[str, str | Path]] = lambda _: {}) -> Iterator[Cluster]:
    """@param prepare is given the cluster's directory, and returns more lines of slurm.conf."""
    with scratch() as root:
        root.chmod(0o755)  # munged refuses a path that others could change
        made = Cluster(root, prepare(root))
        try:
            made.start()
            yield made
        finally:
            made.stop()
