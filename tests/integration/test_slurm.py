# SPDX-License-Identifier: Apache-2.0
"""export --share auto by the tasks of Slurm: of srun, of a job array, and of mpirun in a job."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import unittest
from pathlib import Path

# First, because it finds the modules of tests/data.
from share_tests import RANKS, TASKS, SharedExport

from command_tests import run_command_tests
from export_tests import files_below
from make_checkpoint import Parallel, make_set
from mounted import (
    NOBODY,
    SKIP,
    Settings,
    clean_up,
    fuse_problem,
    run,
    user_mount_problem,
    wait_until,
)
from slurm_cluster import NODES, SECONDS, Cluster, cluster, slurm_problem

BATCH_SCRIPT = Path(__file__).resolve().parents[2] / "packaging/deploy/slurm/export.sbatch"


class Slurm(SharedExport):
    cluster: Cluster

    @classmethod
    def setUpClass(cls) -> None:
        cls.cluster = cls.enterClassContext(cluster())
        super().setUpClass()

    def script(self, *lines: str) -> Path:
        path = self.directory / "job.sh"
        path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
        path.chmod(0o755)
        return path

    def output(self, job: str) -> str:
        return "".join(path.read_text() for path in sorted(self.directory.glob(f"log-{job}*")))

    def submit(self, *words: str | Path) -> tuple[list[str], str]:
        """How the elements of a job have ended, and what they have said."""
        job = self.cluster.submit("-o", self.directory / ("log-%A-%a" if "--array=0-3" in words else
                                                          "log-%j"), *words)
        return self.cluster.wait_for(job), self.output(job)

    def test_tasks_of_srun(self) -> None:
        """Each is killed, one is run again alone, then all are."""
        task = self.task_script("$SLURM_PROCID")
        words = ["srun", f"-N{TASKS}", f"-n{TASKS}", task]
        self.assertNotEqual(self.cluster.run(*words).returncode, 0)
        self.check_killed()
        alone = [word if word != "auto" else "2/4" for word in self.export()]
        self.assertIn("share 2/4: ranks 32-47", self.cluster.must(*alone))
        for _ in range(2):
            said = self.cluster.must(*words)
            self.assertIn("share 2/4: 0 B of 0 files written", said)
            self.assertIn("all shares are complete", said)
            self.check_complete()

    def test_nodes_have_neighbouring_ranks(self) -> None:
        said = self.cluster.must("srun", "-N2", "-n4", "--label", *self.export())
        for share in range(TASKS):
            ranks = f"{share * RANKS // TASKS}-{(share + 1) * RANKS // TASKS - 1}"
            self.assertIn(f"{share}: share {share}/4 (SLURM_PROCID): ranks {ranks}, ", said)
        self.check_complete()

    def test_elements_of_an_array(self) -> None:
        task = self.task_script("$SLURM_ARRAY_TASK_ID")
        states, said = self.submit("--array=0-3", task)
        self.assertIn("FAILED", states, said)
        self.check_killed()
        states, said = self.submit("--array=0-3", task)
        self.assertEqual(states, ["COMPLETED"] * TASKS, said)
        self.assertIn("share 3/4 (SLURM_ARRAY_TASK_ID): ranks 48-63", said)
        self.check_complete()

    def test_one_element_of_an_array_alone(self) -> None:
        """Of how many it was one, nobody tells."""
        states, said = self.submit("--array=2", self.script(" ".join(self.export())))
        self.assertEqual(states, ["FAILED"])
        self.assertIn("scontrol requeue", said)
        self.assertFalse(self.out.exists())

    def test_batch_script_without_srun(self) -> None:
        states, said = self.submit("-n4", self.script(" ".join(self.export())))
        self.assertEqual(states, ["FAILED"])
        self.assertIn("srun", said)
        self.assertFalse(self.out.exists())

    def test_mpirun_in_a_job(self) -> None:
        """Its daemons are tasks of Slurm, and the ranks have these daemons' variables, too."""
        starters = {name: f"{name} -n {TASKS}" for name in ("mpirun.openmpi", "mpiexec.hydra")
                    if shutil.which(name)}
        if not starters:
            self.skipTest("neither Open MPI nor MPICH is installed")
        for name, words in starters.items():
            with self.subTest(name):
                shutil.rmtree(self.out, ignore_errors=True)
                states, said = self.submit("-N2", f"-n{TASKS}",
                                           self.script(f"{words} {' '.join(self.export())}"))
                self.assertEqual(states, ["COMPLETED"], said)
                self.check_complete()

    def test_batch_script_of_the_package(self) -> None:
        self.cluster.environment["PATH"] += f":{Settings.binary.parent}"
        arguments = [self.words[1], self.out, *self.words[2:]]
        states, said = self.submit(f"-N{TASKS}", f"-n{TASKS}", BATCH_SCRIPT, *arguments)
        self.assertEqual(states, ["COMPLETED"], said)
        self.check_complete()
        shutil.rmtree(self.out)
        states, said = self.submit("--array=0-3", "-n1", BATCH_SCRIPT, *arguments)
        self.assertEqual(states, ["COMPLETED"] * TASKS, said)
        self.check_complete()


SCRIPTS = BATCH_SCRIPT.parent


@unittest.skipIf(fuse_problem(), fuse_problem())
class Mounts(unittest.TestCase):
    """prolog.sh and epilog.sh, on nodes that have one file system."""

    cluster: Cluster

    @classmethod
    def prepare(cls, root: Path) -> dict[str, Path | str]:
        for name in ("prolog.sh", "epilog.sh"):
            shutil.copy(SCRIPTS / name, root)
        # Where any user can run it.
        program = shutil.copy(Settings.binary, root / "reshardfs")
        cls.base = root / "mounts"
        (root / "settings").write_text(f"base={cls.base}\nreshardfs={program}\n")
        return {"Prolog": root / "prolog.sh", "Epilog": root / "epilog.sh", "PrologFlags": "Alloc"}

    @classmethod
    def setUpClass(cls) -> None:
        cls.cluster = cls.enterClassContext(cluster(cls.prepare))
        cls.addClassCleanup(cls.unmount)
        cls.made = make_set(cls.cluster.root, Parallel(tp=4), Parallel(tp=8), layers=1, seed=7)
        cls.file = cls.cluster.root / "job.toml"
        cls.file.write_text(f'[mount.job]\nsource = "{cls.made.source}"\n'
                            f'src-strategy = "{cls.made.src_strategy}"\n'
                            f'dst-strategy = "{cls.made.dst_strategy}"\n')
        done = run("export", cls.made.source, cls.cluster.root / "out", *cls.made.options())
        assert done.code == 0, done.stderr

    @classmethod
    def unmount(cls) -> None:
        """What the scripts have left, if they do not work."""
        for line in Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines():
            mountpoint = Path(line.split(" ")[4])
            if mountpoint.is_relative_to(cls.base):
                clean_up(mountpoint)

    def tearDown(self) -> None:
        """Whatever has become of the job, nothing of it is left, and its nodes can take the next one."""
        for user in (0, NOBODY):
            self.cluster.run("scancel", "-u", str(user))
        gone = wait_until(lambda: not self.base.exists() or not list(self.base.iterdir()), SECONDS)
        self.assertTrue(gone, files_below(self.base))
        self.assertNotIn(str(self.base), Path("/proc/self/mountinfo").read_text(errors="surrogateescape"))
        self.assertTrue(wait_until(lambda: not self.daemons(), SECONDS))
        idle = ["sinfo", "-h", "-t", "idle", "-o", "%D"]
        self.assertTrue(wait_until(lambda: self.cluster.must(*idle).strip() == str(NODES), SECONDS))

    def daemons(self) -> list[int]:
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                words = path.read_bytes().split(b"\0")
                if any(word.startswith(os.fsencode(self.base)) for word in words) and \
                        words[0].endswith(b"reshardfs"):
                    found.append(int(path.parent.name))
        return found

    def srun(self, *words: str | Path, comment: str = "",
             user: int = 0) -> subprocess.CompletedProcess[str]:
        as_user = [f"--reuid={user}", f"--regid={user}", "--clear-groups"]
        return self.cluster.run("setpriv", *as_user, "srun", "--label",
                                f"--comment={comment or f'reshardfs:{self.file}'}", *words)

    def job(self, lines: str) -> list[str]:
        """Words that run lines of a shell which know `$mount`."""
        return ["sh", "-c", f"mount={self.base}/$SLURM_JOB_ID/$SLURMD_NODENAME; {lines}"]

    def each_node_has_its_own_ranks(self, user: int) -> None:
        """The files of a finished conversion."""
        for nodes in (2, 4):
            with self.subTest(nodes=nodes):
                each = 8 // nodes
                done = self.srun(f"-N{nodes}", "-n8", "--ntasks-per-node", str(each), user=user, *self.job(
                    'ls "$mount"; cmp "$mount"/rank_$SLURM_PROCID/checkpoint_$SLURM_PROCID.ckpt '
                    f'{self.cluster.root}/out/rank_$SLURM_PROCID/*'))
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                for task in range(8):
                    shown = [line[3:] for line in done.stdout.splitlines()
                             if line.startswith(f"{task}: rank_")]
                    first = task // each * each
                    self.assertEqual(shown, [f"rank_{rank}" for rank in range(first, first + each)])

    def test_each_node_has_its_own_ranks(self) -> None:
        self.each_node_has_its_own_ranks(0)

    @unittest.skipIf(user_mount_problem(), user_mount_problem())
    def test_each_node_has_its_own_ranks_of_a_user(self) -> None:
        self.each_node_has_its_own_ranks(NOBODY)

    def test_all_ranks(self) -> None:
        """Where they are asked for, or cannot be shared out among the nodes."""
        for comment, words in ((f"reshardfs-all:{self.file}", ["-N2", "-n2"]), ("", ["-N2", "-n3"])):
            done = self.srun(*words, *self.job('ls -d "$mount"/rank_* | wc -l'), comment=comment)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual([line[3:] for line in done.stdout.splitlines()], ["8"] * int(words[1][2:]))

    def test_no_mount_unless_asked_for(self) -> None:
        for comment in ("something else", "reshardfs", "reshardfs:relative.toml"):
            done = self.srun("-N1", *self.job('test ! -e "$mount"'), comment=comment)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_daemon_that_was_killed(self) -> None:
        done = self.srun("-N2", "-n2", *self.job(
            f'if [ $SLURM_PROCID = 0 ]; then kill -9 $(pgrep -f "^{self.cluster.root}/reshardfs mount"); '
            'fi; while ls "$mount" 2>/dev/null; do :; done'))
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_task_that_was_killed_in_the_mount(self) -> None:
        done = self.srun("-N2", "-n4", *self.job('cd "$mount" && exec 3<rank_0/checkpoint_0.ckpt; '
                                                 'kill -9 $$'))
        self.assertEqual(done.returncode, 137, done.stderr)

    def test_process_that_outlives_its_job(self) -> None:
        """With a file open, so that the mount is in use when the job ends."""
        pid = self.cluster.root / "pid"
        done = self.srun("-N1", "-n1", *self.job(
            f'(cd "$mount"; exec setsid sh -c \'echo $$ >{pid}; exec sleep 1000\') </dev/null '
            f'>/dev/null 2>&1 & while [ ! -s {pid} ]; do :; done'))
        self.assertEqual(done.returncode, 0, done.stderr)
        try:
            gone = wait_until(
                lambda: str(self.base) not in Path("/proc/self/mountinfo").read_text(errors="surrogateescape"), SECONDS)
            self.assertTrue(gone)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid.read_text()), signal.SIGKILL)

    def test_mistakes_of_the_user(self) -> None:
        """The job runs, can read why there is no mount, and its node stays in use."""
        secret = self.cluster.root / "secret.toml"
        secret.write_text("precious = 1\n")
        secret.chmod(0o600)
        strange = "/no/such $(touch /x)\n; touch /y"
        no_table = self.cluster.root / "empty.toml"
        no_table.write_text("")
        for path, word in ((secret, "ermission"), (strange, "no such file"), (no_table, "job"),
                           (self.made.src_strategy, "line 1")):
            done = self.srun("-N1", *self.job('ls "$mount"; cat "$mount.log"'), user=NOBODY,
                             comment=f"reshardfs:{path}")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(word, done.stdout)
            self.assertNotIn("precious", done.stdout)

    def test_neighbour_in_the_same_directory(self) -> None:
        """It looks for leftovers while this node has made the job's directory, and nothing in it yet."""
        scripts = self.cluster.root / "neighbours"
        scripts.mkdir()
        self.addCleanup(shutil.rmtree, scripts)
        for name in ("prolog.sh", "epilog.sh"):
            shutil.copy(SCRIPTS / name, scripts)
        base = scripts / "mounts"
        (scripts / "settings").write_text(
            f"base={base}\nreshardfs=true\n"
            'install() {\n'
            '  [ "$SLURMD_NODENAME" = n1 ] || exit 0\n'
            '  command install "$@" || return\n'
            f'  case "$*" in */n1) ;; *) SLURMD_NODENAME=n2 {scripts}/prolog.sh;'
            ' ls "$job" ;; esac\n'
            '}\n')
        job = {"SLURM_JOB_ID": "7", "SLURM_JOB_UID": "0", "SLURM_JOB_GID": "0",
               "SLURM_JOB_COMMENT": "reshardfs:/x", "SLURMD_NODENAME": "n1"}
        done = subprocess.run([scripts / "prolog.sh"], env=os.environ | job, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=SECONDS, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue((base / "7/n1").is_dir())
        subprocess.run([scripts / "epilog.sh"], env=os.environ | job, timeout=SECONDS, check=True)
        self.assertFalse((base / "7").exists())

    def test_users_cannot_read_mounts_of_others(self) -> None:
        job = self.cluster.submit("-o", "/dev/null", f"--comment=reshardfs:{self.file}", "--wrap",
                                  "sleep 1000")
        table = Path("/proc/self/mountinfo")
        self.assertTrue(wait_until(lambda: f"{self.base}/{job}/" in table.read_text(), SECONDS))
        (mountpoint,) = self.base.glob(f"{job}/n?")
        done = self.srun("-N1", "ls", mountpoint, user=NOBODY, comment="none")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("ermission", done.stderr)


if __name__ == "__main__":
    problem = slurm_problem()
    if problem:
        print(f"skipped: {problem}")
        sys.exit(SKIP)
    run_command_tests()
