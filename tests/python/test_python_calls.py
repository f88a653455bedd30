# SPDX-License-Identifier: Apache-2.0
"""Commands in the interpreter's process: their answers, how far they are, and what ends them."""

from __future__ import annotations

import json
import logging
import os
import pickle
import signal
import subprocess
import sys
import threading
import unittest
from collections.abc import Callable
from pathlib import Path

from format_files import full_model, write_safetensors
from mounted import run, scratch
from python_sets import WAIT_SECONDS, Gate, opened, options_of, run_unittests_without_mounts, small_set
from web_server import serving

import reshardfs

Call = Callable[..., object]


class Answers(unittest.TestCase):
    def test_attributes_are_the_members(self) -> None:
        with small_set() as made, scratch() as directory:
            options = options_of(made)
            source = {"src_strategy": options["src_strategy"]}
            plan = reshardfs.plan(made.source, **options)
            self.assertEqual([each.rank for each in plan.ranks], [0, 1, 2, 3])
            self.assertEqual(plan.ranks[1].sources[0].bytes, plan["ranks"][1]["sources"][0]["bytes"])
            one = reshardfs.plan(made.source, rank=1, **options)
            self.assertEqual(one.ranks, plan.ranks[1:2])
            nodes = reshardfs.plan(made.source, simulate=2, **options).nodes
            self.assertEqual([each.ranks for each in nodes], [(0, 1), (2, 3)])
            found = reshardfs.inspect(made.source, stats=True, **source)
            self.assertEqual((found.step, len(found.files)), ("3_100", 4))
            weight = next(each for each in found.parameters if each.name == "lm_head.weight")
            with opened(made) as checkpoint:
                self.assertEqual(weight.full_shape, checkpoint.merged["lm_head.weight"].shape)
            counted = next(each for each in found.statistics if each.name == "lm_head.weight")
            self.assertEqual((counted.nan, counted.shape), (0, weight.full_shape))
            assert found.completeness is not None
            self.assertTrue(found.completeness.stated)
            report = reshardfs.verify(made.source, **source)
            self.assertTrue(report.good and report.completeness.stated)
            self.assertEqual((report.files, report.problems), (4, ()))
            done = reshardfs.export(made.source, directory / "out", **options)
            self.assertEqual((done.written_files, done.kept_files), (4, 0))
            done = reshardfs.export(made.source, directory / "out", **options)
            self.assertEqual((done.written_files, done.kept_files, done["kept_files"]), (0, 4, 4))
            sides = {"a_strategy": options["src_strategy"], "b_strategy": options["dst_strategy"]}
            result = reshardfs.diff(made.source, directory / "out", **sides)
            self.assertTrue(result.equal)
            self.assertEqual({each.status for each in result.parameters}, {"equal"})
            self.assertEqual(result.counts["equal"], len(result.parameters))
            for answer in (plan, found, report, done, result):
                self.assertLess(len(repr(answer)), 1000)
                self.assertEqual(answer, json.loads(json.dumps(answer)))
                self.assertEqual(repr(pickle.loads(pickle.dumps(answer))), repr(answer))

    def test_a_part_has_a_description_alone(self) -> None:
        with scratch() as directory:
            cache = directory / "models--org--a-model"
            for snapshot in ("0123abcd", "89ef"):
                (cache / "snapshots" / snapshot).mkdir(parents=True)
                write_safetensors(cache / "snapshots" / snapshot / "model.safetensors", full_model(1))
            found = reshardfs.inspect(cache)
            self.assertEqual((found.files, found.completeness), ((), None))
            assert found.description is not None
            self.assertEqual(found.description["kind"], "hub_cache")

    def test_a_file_of_options(self) -> None:
        with small_set() as made, scratch() as directory:
            config = directory / "reshardfs.toml"
            config.write_text("".join(f"{name.replace('_', '-')} = '{value}'\n"
                                      for name, value in options_of(made).items()))
            self.assertEqual(reshardfs.plan(made.source, config=config), reshardfs.plan(made.source, **options_of(made)))

    def test_options_of_what_is_printed(self) -> None:
        for name, value in (("log_file", "x"), ("quiet", True), ("svg", "x"), ("list", True)):
            with self.subTest(name), self.assertRaisesRegex(reshardfs.Error, f"{name}="):
                (reshardfs.inspect if name == "list" else reshardfs.plan)("/", **{name: value})  # type: ignore[arg-type]

    def test_warnings_go_to_the_logger(self) -> None:
        with small_set() as made, self.assertLogs("reshardfs", logging.WARNING) as logs:
            reshardfs.inspect(made.source, include=["no.such"])
        self.assertIn("no.such", "".join(logs.output))

    def test_nothing_is_printed(self) -> None:
        with small_set() as made, scratch() as directory:
            code = ("import reshardfs, sys\n"
                    "reshardfs.export(sys.argv[1], sys.argv[2], src_strategy=sys.argv[3], dst_strategy=sys.argv[4])\n"
                    "reshardfs.inspect(sys.argv[1], include=['lm_head.*'])\n")
            done = subprocess.run([sys.executable, "-c", code, made.source, str(directory / "out"),
                                   *options_of(made).values()], capture_output=True, timeout=WAIT_SECONDS, check=False)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, b"", b""))


def reading_calls(made: object, out: Path) -> dict[str, Call]:
    options = options_of(made)  # type: ignore[arg-type]
    source = str(made.source)  # type: ignore[attr-defined]
    strategy = options["src_strategy"]
    return {
        "inspect": lambda **more: reshardfs.inspect(source, src_strategy=strategy, stats=True, **more),
        "verify": lambda **more: reshardfs.verify(source, src_strategy=strategy, **more),
        "diff": lambda **more: reshardfs.diff(source, source, a_strategy=strategy, b_strategy=strategy, **more),
        "export": lambda **more: reshardfs.export(source, out, **options, **more),
    }


class ProgressOfCalls(unittest.TestCase):
    def test_is_told_to_the_end(self) -> None:
        with small_set(scale=16) as made, scratch() as directory:
            for name, call in reading_calls(made, directory / "out").items():
                with self.subTest(name):
                    told: list[reshardfs.Progress] = []
                    call(progress=told.append)
                    self.assertGreater(told[-1].bytes, 0)
                    self.assertEqual(told[-1].bytes, told[-1].total_bytes)
                    self.assertEqual(told[-1].phase, "writing" if name == "export" else None)

    def test_what_it_raises_ends_the_call(self) -> None:
        def refuse(_: reshardfs.Progress) -> None:
            raise ZeroDivisionError

        with small_set(scale=16) as made, scratch() as directory:
            for name, call in reading_calls(made, directory / "out").items():
                for raised in (ZeroDivisionError, KeyboardInterrupt):
                    def refuse(_: reshardfs.Progress, raised: type[BaseException] = raised) -> None:
                        raise raised
                    with self.subTest(name), self.assertRaises(raised):
                        call(progress=refuse)
                with self.subTest(name), self.assertRaisesRegex(reshardfs.Error, "progress is a function"):
                    call(progress=3)


class Stopped(unittest.TestCase):
    def test_an_export_goes_on_where_it_was(self) -> None:
        """No file has its own name that is not complete."""
        def stop(told: reshardfs.Progress) -> None:
            if told.phase == "writing":
                raise ZeroDivisionError

        with small_set(scale=64) as made, scratch() as directory, opened(made) as checkpoint:
            whole = {}
            for rank in checkpoint.ranks:
                name = f"rank_{rank}/checkpoint_{rank}.ckpt"
                with checkpoint.file(name) as file:
                    whole[name] = file.read()
            with self.assertRaises(ZeroDivisionError):
                reshardfs.export(made.source, directory / "out", progress=stop, jobs=1, **options_of(made))
            for name, content in whole.items():
                if (path := directory / "out" / name).exists():
                    self.assertEqual(path.read_bytes(), content)
            done = reshardfs.export(made.source, directory / "out", **options_of(made))
            self.assertEqual(done.written_files + done.kept_files, len(whole))
            for name, content in whole.items():
                self.assertEqual((directory / "out" / name).read_bytes(), content)

    def test_ctrl_c_ends_a_call(self) -> None:
        """Of a process that waits for a server."""
        with small_set("tp=2", "tp=2", scale=256) as made:
            gate = Gate()
            with serving(made.directory, rules=[gate]) as server:
                gate.open.clear()
                code = ("import reshardfs, sys\n"
                        "try: reshardfs.verify(sys.argv[1], src_strategy=sys.argv[2])\n"
                        "except KeyboardInterrupt: print('interrupted')")
                process = subprocess.Popen([sys.executable, "-c", code, f"{server.url}/src", str(made.src_strategy)],
                                           stdout=subprocess.PIPE, text=True)
                self.assertTrue(gate.waiting.acquire(timeout=WAIT_SECONDS))
                process.send_signal(signal.SIGINT)
                said = process.communicate(timeout=WAIT_SECONDS)[0]
                gate.open.set()
                self.assertEqual((said, process.returncode), ("interrupted\n", 0))

    def test_other_threads_go_on(self) -> None:
        """The server is one of them, so that it answers only while the interpreter is free."""
        with small_set() as made, serving(made.directory) as server:
            report = reshardfs.verify(f"{server.url}/src", src_strategy=f"{server.url}/src_strategy.ckpt")
            self.assertTrue(report.good)
            results: list[object] = []
            threads = [threading.Thread(target=lambda: results.append(
                reshardfs.verify(made.source, src_strategy=str(made.src_strategy)))) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(WAIT_SECONDS)
            self.assertEqual(len(results), 4)

    def test_after_a_fork(self) -> None:
        with small_set() as made:
            reshardfs.verify(made.source, src_strategy=str(made.src_strategy))
            child = os.fork()
            if child == 0:
                signal.alarm(int(WAIT_SECONDS))
                good = reshardfs.verify(made.source, src_strategy=str(made.src_strategy)).good
                os._exit(0 if good else 1)
            self.assertEqual(os.waitpid(child, 0)[1], 0)


class SameAsTheCommand(unittest.TestCase):
    def test_json(self) -> None:
        with small_set() as made:
            options = [f"--{name.replace('_', '-')}={value}" for name, value in options_of(made).items()]
            for words, answer in (
                    (["inspect", made.source], reshardfs.inspect(made.source)),
                    (["plan", made.source, "--simulate=2", *options],
                     reshardfs.plan(made.source, simulate=2, **options_of(made)))):
                self.assertEqual(answer, json.loads(run(*words, "--json").stdout))


if __name__ == "__main__":
    run_unittests_without_mounts()
