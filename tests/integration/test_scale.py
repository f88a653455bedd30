# SPDX-License-Identifier: Apache-2.0
"""Many source files: under a small limit of open files, and with indexes left for later."""

from __future__ import annotations

import contextlib
import os
import resource
import sys
import unittest
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / folder) for folder in ("data", "bench")]

from bench_tensors import MAP, make_files  # noqa: E402
from ckpt_format import by_name  # noqa: E402
from make_large import make_large  # noqa: E402
from mounted import (  # noqa: E402
    command,
    errno_name,
    is_sanitized,
    mounted,
    open_file_limit,
    processes_of,
    program_of,
    run,
    run_unittests,
    scratch,
)

LIMIT = 256
FILES = 4096
PARAMETERS = 20_000
# Of one parameter, in bytes: what a mount holds after everything but tensors has been looked at.
# Some 400 of these are the texts that were read last.
MOST_FOR_A_PARAMETER = 2000
MOST_FOR_A_PARAMETER_OF_TWO_STRATEGIES = 2600


# Of commands, by tensors: processor time grows in proportion, and is no more than so many times that of a plan.
FEW_TENSORS, MANY_TENSORS = 5_000, 40_000
MOST_GROWTH = 3 * MANY_TENSORS / FEW_TENSORS
MOST_OF_A_PLAN = 6


def options(root: Path) -> list[str]:
    return ["--src-strategy", str(root / "src.ckpt"), "--dst-strategy", str(root / "dst.ckpt")]


class ManyFiles(unittest.TestCase):
    def test_more_files_than_may_be_open(self) -> None:
        with scratch() as root:
            make_large(root, dp=512, tp=8, stages=1, parameters=30, dst_dp=2, dst_tp=4)
            self.assertEqual(len(list((root / "src").iterdir())), FILES)
            with mounted(root / "src", *options(root)) as mountpoint:
                expected = [f.read_bytes() for f in sorted(mountpoint.glob("rank_*/*.ckpt"))]
            self.assertEqual(len(expected), 8)
            with open_file_limit(root, LIMIT):
                with mounted(root / "src", *options(root)) as mountpoint:
                    found = [f.read_bytes() for f in sorted(mountpoint.glob("rank_*/*.ckpt"))]
                    (daemon,) = processes_of(mountpoint)
                    self.assertLess(len(os.listdir(f"/proc/{daemon}/fd")), LIMIT)
            self.assertTrue(found == expected)

    def test_a_file_that_was_replaced_while_it_was_closed(self) -> None:
        with scratch() as root:
            make_large(root, dp=128, tp=8, stages=1, parameters=30, dst_dp=2, dst_tp=4)
            with open_file_limit(root, LIMIT):
                with mounted(root / "src", *options(root)) as mountpoint:
                    for folder in (root / "src").iterdir():
                        file = next(folder.iterdir())
                        file.with_suffix(".new").write_bytes(file.read_bytes())
                        file.with_suffix(".new").rename(file)
                    with self.assertRaises(OSError) as caught:
                        (mountpoint / "rank_0" / "checkpoint_0.ckpt").read_bytes()
                    self.assertEqual(errno_name(caught.exception), "ESTALE")


def anonymous_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no RssAnon")


def look_at_everything(mountpoint: Path) -> int:
    """All names and attributes, all texts, and the head of each array; their number."""
    command("ls", "-lR", mountpoint)
    for text in ("merged/params.json", "merged/model.safetensors.index.json",
                 "unified/param_name_map.json", ".reshardfs/plan.json"):
        (mountpoint / text).read_bytes()
    for text in (mountpoint / "strategy").iterdir():
        text.read_bytes()
    heads = 0
    for array in (mountpoint / "merged" / "params").rglob("*.npy"):
        with open(array, "rb") as file:
            heads += file.read(6) == b"\x93NUMPY"
    return heads


class ManyParameters(unittest.TestCase):
    def held(self, root: Path, parameters: int, tp: int) -> int:
        """What a mount of a checkpoint with `parameters` holds in the end, in bytes."""
        directory = root / str(parameters)
        make_large(directory, dp=1, tp=tp, stages=1, parameters=parameters, dst_dp=1, dst_tp=tp)
        strategies = options(directory) if tp > 1 else []
        with mounted(directory / "src", *strategies) as mountpoint:
            (daemon,) = processes_of(mountpoint)
            if is_sanitized(program_of(daemon)):
                self.skipTest("sanitizers have an allocator of their own")
            self.assertGreaterEqual(look_at_everything(mountpoint), parameters)
            return anonymous_bytes(daemon)

    def check_growth(self, tp: int, most: int) -> None:
        with scratch() as root:
            few = 300
            growth = self.held(root, PARAMETERS, tp) - self.held(root, few, tp)
            self.assertLess(growth / (PARAMETERS - few), most)

    def test_memory_of_a_whole_model(self) -> None:
        self.check_growth(1, MOST_FOR_A_PARAMETER)

    def test_memory_of_a_model_under_two_strategies(self) -> None:
        self.check_growth(2, MOST_FOR_A_PARAMETER_OF_TWO_STRATEGIES)

    def test_memory_of_a_report_that_many_have_open(self) -> None:
        with scratch() as root:
            make_large(root, dp=1, tp=1, stages=1, parameters=PARAMETERS, dst_dp=1, dst_tp=1)
            with mounted(root / "src") as mountpoint, contextlib.ExitStack() as opened:
                (daemon,) = processes_of(mountpoint)
                if is_sanitized(program_of(daemon)):
                    self.skipTest("sanitizers have an allocator of their own")
                report = mountpoint / ".reshardfs" / "report.html"
                whole = report.read_bytes()
                self.assertGreater(len(whole), 50 * PARAMETERS)
                before = anonymous_bytes(daemon)
                # Unbuffered: what is read takes a buffer for each of the daemon's threads.
                files = [opened.enter_context(report.open("rb", buffering=0)) for _ in range(100)]
                for file in files:
                    self.assertEqual(file.read(1024), whole[:1024])
                self.assertLess(anonymous_bytes(daemon) - before, 4 * len(whole))

    def test_a_damaged_file_fails_the_reads_that_need_it(self) -> None:
        with scratch() as root:
            make_large(root, dp=16, tp=8, stages=1, parameters=3000, dst_dp=8, dst_tp=8)
            # In the middle of a name, far from all that every file is looked at for.
            file = root / "src" / "rank_77" / "net-1_1.ckpt"
            data = bytearray(file.read_bytes())
            damaged = data.index(b"adam_v.model.layers.50.attention.wk.weight")
            data[damaged] = 0xFF
            file.write_bytes(data)
            with mounted(root / "src", *options(root)) as mountpoint:
                readable, failed = 0, []
                for rank in range(64):
                    path = mountpoint / f"rank_{rank}" / f"checkpoint_{rank}.ckpt"
                    try:
                        by_name(path.read_bytes())
                        readable += 1
                    except OSError as error:
                        failed.append(errno_name(error))
                self.assertEqual(set(failed), {"EIO"})
                self.assertGreater(readable, 0)
            refused = run("plan", root / "src", *options(root), "--rank", "0", "--check-crc")
            self.assertEqual(refused.code, 2)
            self.assertIn("rank_77", refused.stderr)


class ManyTensors(unittest.TestCase):
    def costs(self, root: Path, tensors: int) -> dict[str, float]:
        """Seconds of processor of each command, which other work on the machine changes little."""
        source = make_files(root / str(tensors), tensors)
        rules = root / "rules.toml"
        rules.write_text(MAP)
        commands: dict[str, tuple[str | Path, ...]] = {
            "plan": ("plan", source), "inspect": ("inspect", source), "verify": ("verify", source),
            "map check": ("map", "check", rules, "--source", source)}
        costs = {}
        for name, words in commands.items():
            seconds = []
            for _ in range(3):
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                found = run(*words)
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                self.assertEqual(found.code, 0, found.stderr)
                seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
            costs[name] = min(seconds)
        return costs

    def test_commands_cost_in_proportion_to_tensors(self) -> None:
        with scratch() as root:
            few, many = self.costs(root, FEW_TENSORS), self.costs(root, MANY_TENSORS)
        for name in few:
            with self.subTest(name):
                self.assertLess(many[name], MOST_GROWTH * max(few[name], 0.01))
                self.assertLess(many[name], MOST_OF_A_PLAN * many["plan"])


if __name__ == "__main__":
    run_unittests()
