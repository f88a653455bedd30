# SPDX-License-Identifier: Apache-2.0
"""What is missing is refused, and what nothing states is said, in Python as by the command."""

from __future__ import annotations

import json
import unittest

from incomplete_sets import config, model, write_counted, write_shards
from mounted import scratch
from python_sets import run_unittests_without_mounts

import reshardfs


class Completeness(unittest.TestCase):
    def test_what_is_stated_and_missing_is_refused(self) -> None:
        with scratch() as root:
            write_counted(root, model(), 2, index=False)
            (root / "model-00002-of-00002.safetensors").unlink()
            with self.assertRaises(reshardfs.Error) as caught:
                reshardfs.open(root)
            self.assertEqual(caught.exception.kind, "missing")
            self.assertIn("'model-00002-of-00002.safetensors' is missing", str(caught.exception))
            with reshardfs.open(root / "model-00001-of-00002.safetensors") as one:
                self.assertIn("is file 1 of 2 of a model", one.warnings[0])

    def test_what_nothing_states_is_a_warning(self) -> None:
        with scratch() as root:
            write_shards(root, model(), 3)
            with reshardfs.open(root) as checkpoint:
                lines = [line for line in checkpoint.warnings if "unknown whether the tensors joined from 3 shards" in line]
                self.assertEqual(len(lines), 1, checkpoint.warnings)
            (root / "config.json").write_text(json.dumps(config()))
            with reshardfs.open(root) as checkpoint:
                self.assertEqual(checkpoint.warnings, [])
            (root / "shard-00003-model-00001-of-00001.safetensors").unlink()
            with self.assertRaises(reshardfs.Error) as caught:
                reshardfs.open(root)
            self.assertIn("has 8 rows in 2 shards", str(caught.exception))


if __name__ == "__main__":
    run_unittests_without_mounts()
