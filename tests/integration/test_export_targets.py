# SPDX-License-Identifier: Apache-2.0
"""Runs the suite of tests/conformance on every place that an export can write to."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import unittest
from pathlib import Path

from memory_store import BUCKET, MemoryStore, error, serving
from mounted import parse_binary, scratch
from object_store import object_store
from s3_proxy import Answer, Pass, Request, proxy

SUITE_SECONDS = 300.0


class Programs:
    suite = Path("export_conformance")


def refuse(request: Request, pass_on: Pass) -> Answer:
    """Takes no object that is named so."""
    path = request.path.partition("?")[0]
    if request.method == "PUT" and path.endswith("/refused"):
        return error(403, "AccessDenied")
    return pass_on(request)


class Targets(unittest.TestCase):
    def passes(self, target: str | Path, environment: dict[str, str] | None = None) -> None:
        # A proxy would be asked for what is on this machine.
        inherited = {name: value for name, value in os.environ.items()
                     if not name.lower().endswith("_proxy") and not name.startswith("AWS_")}
        done = subprocess.run(
            [str(Programs.suite), f"--target={target}", "--gtest_color=no"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace", timeout=SUITE_SECONDS, check=False,
            env={**inherited, **(environment or {})})
        problems = [line for line in done.stdout.splitlines()
                    if not line.startswith(("[ RUN", "[       OK", "[---"))]
        self.assertEqual(done.returncode, 0, "\n".join(problems[-80:]))
        self.assertNotIn("[  SKIPPED ]", done.stdout)
        self.assertGreater(done.stdout.count("[       OK ]"), 15)

    def test_directory(self) -> None:
        with scratch() as root:
            self.passes(root / "out")
            left = [path for path in (root / "out").rglob("*") if "partial" in path.name]
            self.assertEqual(left, [])

    def test_store_in_memory(self) -> None:
        store = MemoryStore()
        store.fault = refuse
        with serving(store) as environment:
            self.passes(f"s3://{BUCKET}/run/a b", environment)
        # What is not written to its end is paid for, and nobody sees it.
        self.assertEqual(store.uploads, {})
        self.assertTrue(all(key.startswith("run/a b/") for key in store.objects))

    def test_object_store(self) -> None:
        with object_store() as store:
            client = store.client()
            client.create_bucket(Bucket=BUCKET)
            with proxy(store.endpoint, refuse) as endpoint:
                self.passes(f"s3://{BUCKET}/run/out",
                            {**store.environment, "AWS_ENDPOINT_URL": endpoint})
            self.assertNotIn("Uploads", client.list_multipart_uploads(Bucket=BUCKET))
            client.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--conformance", type=Path, required=True, help="the suite's program")
    parser.add_argument("tests", nargs="*", help="Class or Class.test; default: all")
    args = parse_binary(parser)
    Programs.suite = args.conformance.resolve()
    unittest.main(argv=[sys.argv[0], "-v", *args.tests])


if __name__ == "__main__":
    main()
