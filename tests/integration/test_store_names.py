# SPDX-License-Identifier: Apache-2.0
"""What is misspelt in an object store is answered with the nearest name there. Skipped where no store is installed."""

from __future__ import annotations

import contextlib

# First, because it finds the modules of tests/data.
from export_tests import BAD_INPUT

from command_tests import CommandTest, run_command_tests
from make_checkpoint import Parallel, make_set
from mounted import Settings, one_line, run, scratch
from object_store import object_store

BUCKET = "bucket"
THERE = f"s3://{BUCKET}/run"


class StoreNames(CommandTest):
    def setUp(self) -> None:
        store = self.enterContext(object_store())
        Settings.environment = store.environment
        self.addCleanup(setattr, Settings, "environment", {})
        made = make_set(self.enterContext(scratch()), Parallel(tp=2), Parallel(tp=1))
        store.upload(BUCKET, made.source, "run/source/")
        with contextlib.closing(store.client()) as client:
            client.put_object(Bucket=BUCKET, Key="run/strategies/trained.ckpt", Body=made.src_strategy.read_bytes())

    def test_are_near(self) -> None:
        plan = ("plan", f"{THERE}/source", "--dst-strategy", "tp=1", "--src-strategy")
        self.assertEqual(run(*plan, f"{THERE}/strategies/trained.ckpt").code, 0)
        for words, meant in ((("inspect", f"{THERE}/sorce"), f"{THERE}/source"),
                             ((*plan, f"{THERE}/strategies/traned.ckpt"), f"{THERE}/strategies/trained.ckpt")):
            with self.subTest(words=words):
                result = run(*words)
                self.assertEqual(result.code, BAD_INPUT, result.stderr)
                self.assertRegex(one_line(result), rf"no such file.*; did you mean '{meant}'\?$")
        for name in ("strategies/unlike.toml", "none/trained.ckpt"):
            result = run(*plan, f"{THERE}/{name}")
            self.assertEqual(result.code, BAD_INPUT, result.stderr)
            self.assertNotIn("did you mean", result.stderr)


if __name__ == "__main__":
    run_command_tests()
