# SPDX-License-Identifier: Apache-2.0
"""Runs the suite of tests/conformance on every place that an export can write to."""

from __future__ import annotations

from pathlib import Path

from conformance_suite import SuiteTest, run_suite_tests
from memory_store import BUCKET, MemoryStore, error, serving
from mounted import scratch
from object_store import object_store
from s3_proxy import Answer, Pass, Request, proxy


def refuse(request: Request, pass_on: Pass) -> Answer:
    """Takes no object that is named so."""
    path = request.path.partition("?")[0]
    if request.method == "PUT" and path.endswith("/refused"):
        return error(403, "AccessDenied")
    return pass_on(request)


class Targets(SuiteTest):
    def passes(self, target: str | Path, environment: dict[str, str] | None = None) -> None:
        self.good(self.suite(f"--target={target}", environment=environment))

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


if __name__ == "__main__":
    run_suite_tests()
