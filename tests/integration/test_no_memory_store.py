# SPDX-License-Identifier: Apache-2.0
"""Exports to an object store with each of some allocations failing: what is there is whole."""

from __future__ import annotations

from conformance_suite import SuiteTest, run_suite_tests
from memory_store import BUCKET, MemoryStore, serving

TESTS = 2


class WatchedObjects(dict[str, tuple[bytes, str]]):
    """Notes each object that has other bytes than the first of its name."""

    def __init__(self) -> None:
        super().__init__()
        self.different: list[str] = []
        self.first: dict[tuple[str, str], bytes] = {}

    def __setitem__(self, key: str, value: tuple[bytes, str]) -> None:
        _, test, _, path = key.split("/", 3)
        if not path.startswith(".reshardfs-export"):  # lists what is there so far
            if self.first.setdefault((test, path), value[0]) != value[0]:
                self.different.append(key)
        super().__setitem__(key, value)


class Exports(SuiteTest):
    def test_store_in_memory(self) -> None:
        store = MemoryStore()
        objects = WatchedObjects()
        store.objects = objects
        with serving(store) as environment:
            done = self.suite(f"--target=s3://{BUCKET}/run", environment=environment)
        self.assertEqual(done.returncode, 0, done.stdout[-4000:])
        self.assertEqual(done.stdout.count("[       OK ]"), TESTS)
        self.assertEqual(objects.different, [])
        self.assertGreater(len(objects.first), TESTS)


if __name__ == "__main__":
    run_suite_tests()
