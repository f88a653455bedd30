# SPDX-License-Identifier: Apache-2.0
"""`reshardfs doctor` on a machine that can mount, and with something that is wrong."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

import numpy as np  # noqa: E402
from ckpt_format import encode_checkpoint, record_of  # noqa: E402
from mounted import Settings, run, run_unittests, scratch  # noqa: E402


class Doctor(unittest.TestCase):
    def test_all_is_well(self) -> None:
        with scratch() as directory:
            (directory / "m.ckpt").write_bytes(
                encode_checkpoint([record_of("w", "Float32", np.ones((2, 3), np.float32))]))
            before = set(os.listdir(tempfile.gettempdir()))
            result = run("doctor", "--json", directory / "m.ckpt")
            self.assertEqual((result.code, result.stderr), (0, ""))
            report = json.loads(result.stdout)
            self.assertTrue(report["good"])
            found = {f["what"]: f for f in report["findings"]}
            self.assertEqual(found["mount, read, unmount"]["health"], "good")
            self.assertIn("files: 1", found[str(directory / "m.ckpt")]["found"])
            left = set(os.listdir(tempfile.gettempdir())) - before
            self.assertEqual([name for name in left if "doctor" in name], [])
            text = run("doctor").stdout
            self.assertIn("good    FUSE device", text)

    def test_something_is_wrong(self) -> None:
        result = run("doctor", "/nowhere/at/all")
        self.assertEqual(result.code, 1)
        self.assertRegex(result.stdout, r"(?m)^bad +/nowhere/at/all .*no such")

    def test_no_temporary_directory(self) -> None:
        before = os.environ.get("TMPDIR")
        os.environ["TMPDIR"] = "/nowhere"
        try:
            result = run("doctor")
        finally:
            if before is None:
                del os.environ["TMPDIR"]
            else:
                os.environ["TMPDIR"] = before
        self.assertEqual(result.code, 1, f"{Settings.binary}: {result.stdout}")
        self.assertIn("bad     mount, read, unmount", result.stdout)
        self.assertIn("TMPDIR", result.stdout)
        self.assertNotIn("lines above", result.stdout)  # there are none


if __name__ == "__main__":
    run_unittests()
