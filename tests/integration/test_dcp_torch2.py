# SPDX-License-Identifier: Apache-2.0
"""Distributed checkpoints between reshardfs and PyTorch 2 itself, both ways.

PyTorch is judge of all values. RESHARDFS_TORCH is the command of a Python that has it, which must see
the temporary files and this checkout at the same paths: for a system in a directory,
"tests/support/in_chroot.sh DIRECTORY python3". Skipped where neither it nor this Python has PyTorch 2.
"""

from __future__ import annotations

import json
import subprocess
import sys
import unittest
from pathlib import Path
from typing import Any, ClassVar

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

import numpy as np  # noqa: E402
from cached_programs import torch_python  # noqa: E402
from format_files import (Tensors, full_model, random_array, read_ckpt, read_params,  # noqa: E402
                          read_safetensors, same, write_safetensors)
from layouts import Layout  # noqa: E402
from mounted import SKIP, mounted, run, run_unittests, scratch  # noqa: E402
from strategy_files import Strategy, write_protobuf  # noqa: E402

TESTS = Path(__file__).resolve().parents[1]
PROGRAMS = TESTS / "data"
PYTHON = torch_python()
PATIENCE = 300.0
WHOLE = ("--dst-strategy", "none")
# Cases of which nothing can be shown.
REFUSED = ("transformed", "as_safetensors", "hf_with_objects")
# What --views dcp-hf can have.
PLAIN = ("F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U8")


def python(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PYTHON, "-B", *map(str, words)], text=True, capture_output=True,
                          timeout=PATIENCE, check=False)


def torch_problem() -> str | None:
    """Why there is no PyTorch 2, or nothing."""
    result = python("-c", f"import sys; sys.path.insert(0, {str(PROGRAMS)!r}); import torch2_common; "
                          "print('PyTorch', torch2_common.torch.__version__)")
    if result.returncode == 0:
        print(result.stdout.strip(), flush=True)
        return None
    lines = result.stderr.strip().splitlines() or [f"exit code {result.returncode}"]
    return f"{lines[-1]}; RESHARDFS_TORCH names a Python that has PyTorch 2"


def excluded(names: list[str]) -> list[str]:
    return [word for name in names for word in ("--exclude", name)]


class TorchTest(unittest.TestCase):
    root: ClassVar[Path]

    @classmethod
    def setUpClass(cls) -> None:
        cls.root = cls.enterClassContext(scratch())

    def setUp(self) -> None:
        self.jobs: list[dict[str, Any]] = []

    def export(self, source: Path, out: str, *words: str | Path, views: str) -> Path:
        result = run("export", source, self.root / out, "--views", views, *words)
        self.assertEqual(result.code, 0, result.stderr)
        return self.root / out

    def load(self, how: str, directory: Path, expected: Path, **more: Any) -> None:
        """To be done by load_all()."""
        self.jobs.append({"name": f"{directory.parent.name}/{directory.name}", "how": how,
                          "directory": str(directory), "expected": str(expected)} | more)

    def load_all(self) -> None:
        path = self.root / "jobs.json"
        path.write_text(json.dumps(self.jobs))
        result = python(PROGRAMS / "torch2_load.py", path)
        print(result.stdout, end="", flush=True)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)


class Back(TorchTest):
    """What PyTorch saved comes out as it went in."""

    cases: ClassVar[dict[str, dict[str, Any]]]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        result = python(PROGRAMS / "torch2_save.py", cls.root)
        print(result.stdout, end="", flush=True)
        if result.returncode:
            raise AssertionError(result.stdout + result.stderr)
        cls.cases = {path.parent.name: json.loads(path.read_text())
                     for path in sorted(cls.root.glob("*/case.json"))}
        cls.cases = {name: case for name, case in cls.cases.items() if "cannot" not in case}

    def whole_cases(self) -> list[str]:
        return [name for name in self.cases if name not in REFUSED]

    def sources_of(self, name: str) -> list[Path]:
        """The consolidated files, and the shards that they were made of."""
        saved = self.root / name / "set"
        return [path for path in (saved, saved / "sharded") if path.exists()]

    def test_tensors_are_those_that_were_saved(self) -> None:
        names = self.whole_cases()
        self.assertGreater(len(names), 20)
        for name, source in ((name, source) for name in names for source in self.sources_of(name)):
            with self.subTest(case=name, source=source.name):
                want, _ = read_safetensors(self.root / name / "expected.safetensors")
                words = (*WHOLE, *excluded(self.cases[name]["refused"]))
                out = self.export(source, f"{source.name}/{name}", *words, views="ranks")
                same(self, read_safetensors(out / "rank_0/checkpoint_0.safetensors")[0], want)
                if self.cases[name]["refused"]:
                    continue
                result = run("verify", source)
                # Files of shards state the place of each, and nothing states the whole.
                is_open = name.startswith("hf_shard") and source.name == "set"
                self.assertEqual(result.code, 1 if is_open else 0, result.stdout + result.stderr)
                self.assertEqual("not known to be complete" in result.stdout, is_open, result.stdout)

    def test_a_mount_shows_the_same(self) -> None:
        for name in ("default", "dtensor_3", "hf_shards_2", "rank_tables_3", "sharded_tensor_3"):
            if name not in self.cases:
                continue
            want, _ = read_safetensors(self.root / name / "expected.safetensors")
            views = "merged-safetensors,params"
            with self.subTest(case=name), mounted(self.root / name / "set", "--views", views,
                                                  *WHOLE) as place:
                same(self, read_safetensors(place / "merged/checkpoint_merged.safetensors")[0], want)
                if not any(kind.startswith("F8_") for kind, _ in want.values()):
                    same(self, read_params(place / "merged"), want)

    def test_pytorch_loads_all_of_it_again(self) -> None:
        for name in self.whole_cases():
            if name.startswith("hf_"):
                continue
            words = (*WHOLE, *excluded(self.cases[name]["refused"]), "--dcp-shards", "2")
            saved = self.export(self.root / name / "set", f"again/{name}", *words, views="dcp") / "dcp"
            self.load("whole", saved, self.root / name / "expected.safetensors",
                      objects=str(self.root / name / "objects.pickle"))
            self.load("torch_save", saved, self.root / name / "expected.safetensors",
                      objects=str(self.root / name / "objects.pickle"))
        self.load_all()

    def test_what_cannot_be_read_in_place_is_refused(self) -> None:
        for name, words in (("transformed", ("model.w", "transformed")),
                            ("as_safetensors", ("model.w", "is safetensors")),
                            ("hf_with_objects", ("ZIP archive",)),
                            ("unrepresentable", ("odd.complex64", "torch.complex64", "--exclude"))):
            if name not in self.cases:
                continue
            result = run("export", self.root / name / "set", self.root / "refused", *WHOLE)
            self.assertEqual(result.code, 2, result.stderr)
            self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
            for word in words:
                self.assertIn(word, result.stderr)


class Out(TorchTest):
    """What PyTorch loads of the views."""

    def model(self) -> tuple[Path, Tensors]:
        """Of all types and shapes, and what cuts it for four ranks."""
        model = full_model(1)
        model |= {"f8": ("F8_E4M3", random_array(np.random.default_rng(1), "u1", (6, 2))),
                  "f8b": ("F8_E5M2", random_array(np.random.default_rng(2), "u1", (5,))),
                  "grid": ("F32", random_array(np.random.default_rng(3), "<f4", (300, 40))),
                  "rows": ("BF16", random_array(np.random.default_rng(4), "<u2", (12, 6)))}
        write_safetensors(self.root / "model.safetensors", model)
        layouts = {name: Layout((2, 2), ((1,), (0,))) for name in ("grid", "rows")}
        layouts |= {name: Layout((2, 2), ((0,), ())) for name, (_, array) in model.items()
                    if array.shape == (4, 3)}
        write_protobuf(Strategy([layouts]), self.root / "dst.ckpt")
        return self.root / "model.safetensors", model

    def targets(self) -> dict[str, tuple[str | Path, ...]]:
        return {"one": (), "three": ("--dcp-shards", "3"),
                "ranks": ("--dst-strategy", self.root / "dst.ckpt")}

    def test_every_tensor_of_a_model(self) -> None:
        source, _ = self.model()
        for name, words in self.targets().items():
            saved = self.export(source, name, *words, views="dcp") / "dcp"
            for how in ("whole", "torch_save", "archives"):
                self.load(how, saved, source)
            for world in (2, 3, 4):
                self.load("ranks", saved, source, world=world)
        with mounted(source, "--views", "dcp", *self.targets()["ranks"]) as place:
            for how in ("whole", "torch_save"):
                self.load(how, place / "dcp", source)
            self.load("ranks", place / "dcp", source, world=3)
            self.load_all()

    def test_every_tensor_of_the_hugging_face_form(self) -> None:
        _, model = self.model()
        # Its reader knows no others in all releases, and the library no names of these.
        plain = {name: tensor for name, tensor in model.items() if tensor[0] in PLAIN}
        source = self.root / "plain.safetensors"
        write_safetensors(source, plain)
        for name, words in self.targets().items():
            saved = self.export(source, f"hf_{name}", *words, views="dcp-hf") / "dcp-hf"
            self.load("safetensors", saved, source)
            self.load("hugging_face", saved, source)
            self.load("hugging_face_ranks", saved, source, world=3)
        self.load_all()

    def test_sets_of_mindspore(self) -> None:
        golden = TESTS / "golden/tp8_to_full"
        expected = self.root / "golden.safetensors"
        write_safetensors(expected, read_ckpt(golden / "dst/rank_0/ckpt_0.ckpt"))
        result = run("demo", self.root / "sample")
        self.assertEqual(result.code, 0, result.stderr)
        source = self.root / "sample/source"
        sets: list[tuple[str, Path, Path, tuple[str | Path, ...]]] = [
            ("golden", golden / "src", golden / "src_strategy.ckpt", ()),
            ("demo", source, source / "src_strategy.ckpt",
             ("--dst-strategy", source / "dst_strategy.ckpt"))]
        for name, directory, strategy, more in sets:
            words: tuple[str | Path, ...] = ("--src-strategy", strategy, *more)
            out = self.export(directory, name, *words, views="dcp,merged-safetensors")
            if name == "demo":
                expected = out / "merged/checkpoint_merged.safetensors"
            self.load("whole", out / "dcp", expected)
            self.load("ranks", out / "dcp", expected, world=3)
        self.load_all()

    def test_pytorch_notices_another_value(self) -> None:
        """So that the tests above can fail."""
        source, model = self.model()
        saved = self.export(source, "noticed", views="dcp") / "dcp"
        other = self.root / "other.safetensors"
        write_safetensors(other, model | {"scalar": ("F32", np.array(8.5, "<f4"))})
        for how in ("whole", "torch_save", "archives", "ranks"):
            self.jobs.clear()
            self.load(how, saved, other, world=2)
            with self.assertRaises(AssertionError):
                self.load_all()


def main() -> None:
    problem = torch_problem()
    if problem:
        print(f"skipped: {problem}")
        raise SystemExit(SKIP)
    run_unittests()


if __name__ == "__main__":
    main()
