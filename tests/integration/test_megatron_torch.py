# SPDX-License-Identifier: Apache-2.0
"""PyTorch 2 loads what --views megatron shows, asked as Megatron-Core asks it: see
tests/data/torch2_megatron.py. RESHARDFS_TORCH as in test_dcp_torch2.py; skipped where there is no PyTorch 2."""

from __future__ import annotations

import json
import sys
import unittest
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from format_files import write_safetensors  # noqa: E402
from map_sets import GOLDEN, golden  # noqa: E402
from mounted import SKIP, mounted, run, run_unittests, scratch  # noqa: E402
from test_dcp_torch2 import PROGRAMS, python, torch_problem  # noqa: E402
from test_megatron_view import NUMBERED, STACKED, forward  # noqa: E402



class Loaded(unittest.TestCase):
    def setUp(self) -> None:
        self.root = self.enterContext(scratch())

    def job(self, case: str, directory: Path, **more: Any) -> dict[str, Any]:
        return {"name": f"{case} {more}", "directory": str(directory), "tp": 1, "pp": 1,
                "expected": str(GOLDEN / case / "expected.safetensors")} | more

    def load_all(self, jobs: list[dict[str, Any]]) -> None:
        path = self.root / "jobs.json"
        path.write_text(json.dumps(jobs))
        result = python(PROGRAMS / "torch2_megatron.py", path)
        print(result.stdout, end="", flush=True)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_each_family_by_several_ranks(self) -> None:
        jobs = []
        for case in (*STACKED, *NUMBERED):
            out = self.root / case
            result = run("export", GOLDEN / case / "src.safetensors", out, "--views", "megatron", *forward(case))
            self.assertEqual(result.code, 0, result.stderr)
            for tp, pp in ((1, 1), (2, 1), (1, 2), (2, 2)):
                jobs.append(self.job(case, out / "megatron", tp=tp, pp=pp))
        self.load_all(jobs)

    def test_a_mount(self) -> None:
        case = "megatron_llama"
        with mounted(GOLDEN / case / "src.safetensors", "--views", "megatron", *forward(case)) as place:
            self.load_all([self.job(case, place / "megatron", tp=2, pp=2)])

    def test_another_padding_of_the_vocabulary(self) -> None:
        case = "megatron_llama"
        with mounted(GOLDEN / case / "src.safetensors", "--views", "megatron", *forward(case)) as place:
            self.load_all([self.job(case, place / "megatron", tp=2, vocabulary=rows) for rows in (64, 256)])

    def test_another_value_is_noticed(self) -> None:
        case = "megatron_llama"
        expected = golden(case, "expected")
        kind, array = expected["decoder.final_layernorm.weight"]
        other = self.root / "other.safetensors"
        write_safetensors(other, expected | {"decoder.final_layernorm.weight": (kind, array + array.dtype.type(1))})
        with mounted(GOLDEN / case / "src.safetensors", "--views", "megatron", *forward(case)) as place:
            job = self.job(case, place / "megatron") | {"expected": str(other)}
            with self.assertRaises(AssertionError):
                self.load_all([job])


def main() -> None:
    problem = torch_problem()
    if problem:
        print(f"skipped: {problem}")
        raise SystemExit(SKIP)
    run_unittests()


if __name__ == "__main__":
    main()
