# SPDX-License-Identifier: Apache-2.0
"""What exports and mounts are made of: each file that may change a byte is a part of them. One of these files is
changed in place, with its size kept: between two exports to one place, before a reload, and before a crash."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import unittest
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

# First, because it finds the modules of tests/data.
from export_tests import BAD_INPUT, DONE, MANIFEST

import numpy as np
from format_files import write_safetensors
from faulty_source import forget_pages
from memory_store import BUCKET, MemoryStore, serving
from mounted import Settings, mounted, run, run_unittests, scratch, wait_until

MERGED = ("--views", "merged-safetensors")
HF = ("--views", "hf")
RULES = '[devices]\naxes = ["tp=2"]\n[[rule]]\nmatch = "*"\ncut = ["tp", ""]\n'
ESTALE = 116


@dataclass
class Case:
    source: Path
    options: tuple[str | Path, ...]
    path: Path
    old: str
    new: str

    def change(self) -> None:
        text = self.path.read_text()
        assert self.old in text
        self.path.write_text(text.replace(self.old, self.new))

    def words(self, command: str, *place: str | Path) -> list[str | Path]:
        return [command, self.source, *place, *self.options]


def model(root: Path, **config: object) -> Path:
    source = root / "model"
    source.mkdir()
    rng = np.random.default_rng(5)
    write_safetensors(source / "model.safetensors",
                      {name: ("F32", rng.standard_normal((4, 4)).astype("<f4")) for name in ("a.weight", "b.weight")})
    (source / "config.json").write_text(json.dumps({"model_type": "own", "eps": 1e-5} | config))
    return source


def quantized(root: Path, views: tuple[str, str] = MERGED) -> Case:
    source = model(root, quantization_config={"quant_method": "fp8", "weight_block_size": [128, 128]})
    write_safetensors(source / "model.safetensors",
                      {"up_proj.weight": ("F8_E4M3", np.full((200, 200), 0x38, "u1")),
                       "up_proj.weight_scale_inv": ("F32", np.array([[1, 2], [3, 4]], "<f4"))})
    return Case(source, ("--dequantize", *views), source / "config.json", "128, 128", "100, 100")


def companion(root: Path, name: str, old: str, new: str) -> Case:
    source = model(root)
    for path, text in (("tokenizer.json", '{"vocab": {"a": 1}}'), ("generation_config.json", '{"eos": 2}')):
        (source / path).write_text(text)
    return Case(source, HF, source / name, old, new)


def other_config(root: Path) -> Case:
    source = model(root)
    (root / "other").mkdir()
    (source / "config.json").rename(root / "other/config.json")
    return Case(source, ("--model-config", root / "other", *HF), root / "other/config.json", "1e-05", "1e-06")


def in_two_shards(root: Path) -> Case:
    source = root / "model"
    source.mkdir()
    names = [f"model-0000{number}-of-00002.safetensors" for number in (1, 2)]
    for number, name in enumerate(names):
        write_safetensors(source / name, {key: ("F32", np.full(4, number, "<f4")) for key in ("xy"[number], "w")})
    index = source / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"x": names[0], "y": names[1], "w": names[0]}}))
    return Case(source, MERGED, index, f'"w": "{names[0]}"', f'"w": "{names[1]}"')


def named(root: Path, option: str, text: str, old: str, new: str, views: tuple[str, str] = MERGED) -> Case:
    path = root / ("rules.toml" if option != "--name-map" else "names.json")
    path.write_text(text)
    return Case(model(root), (option, path, *views), path, old, new)


def cut_by_rules(root: Path) -> Case:
    for rank in range(2):
        (root / f"ranks/rank_{rank}").mkdir(parents=True)
        write_safetensors(root / f"ranks/rank_{rank}/x.safetensors",
                          {"a": ("F32", np.arange(8, dtype="<f4").reshape(2, 4) + rank)})
    (root / "rules.toml").write_text(RULES)
    return Case(root / "ranks", ("--src-strategy", root / "rules.toml", *MERGED), root / "rules.toml",
                '["tp", ""]', '["", "tp"]')


MAP = '[[map]]\nfrom = "{x:a|b}.weight"\nto = "net.{x:a|b}.weight"\n'
CASES: dict[str, Callable[[Path], Case]] = {
    "blocks of --dequantize": quantized,
    "config.json of --dequantize": lambda root: quantized(root, HF),
    "config.json": lambda root: companion(root, "config.json", "1e-05", "1e-06"),
    "tokenizer": lambda root: companion(root, "tokenizer.json", '"a"', '"b"'),
    "tokenizer that becomes empty": lambda root: companion(root, "tokenizer.json", '{"vocab": {"a": 1}}', ""),
    "generation_config": lambda root: companion(root, "generation_config.json", "2", "3"),
    "--model-config": other_config,
    "index": in_two_shards,
    "--map": lambda root: named(root, "--map", MAP, "net.", "lib."),
    "--name-map": lambda root: named(root, "--name-map", '{"a.weight": "x"}', "x", "y"),
    "--src-strategy": cut_by_rules,
    "--dst-strategy": lambda root: named(root, "--dst-strategy", RULES, '["tp", ""]', '["", "tp"]',
                                         ("--views", "ranks")),
}
COMPANIONS = ("config.json", "tokenizer", "tokenizer that becomes empty", "generation_config", "--model-config")


def contents(top: Path) -> dict[str, bytes]:
    """All files but those of the export and of the mount themselves."""
    return {str(path.relative_to(top)): path.read_bytes() for path in sorted(top.rglob("*"))
            if path.is_file() and not str(path.relative_to(top)).startswith(".reshardfs")}


class InputsTest(unittest.TestCase):
    def each_case(self, check: Callable[[str, Path, Case], None]) -> None:
        for name, make in CASES.items():
            with self.subTest(name), scratch() as root:
                check(name, root, make(root))

    def good(self, *words: str | Path, code: int = DONE) -> str:
        result = run(*words)
        self.assertEqual(result.code, code, result.stderr)
        return result.stdout + result.stderr

    def exported(self, case: Case, place: Path) -> dict[str, bytes]:
        self.good(*case.words("export", place))
        return contents(place)


class Exports(InputsTest):
    def test_into_the_same_directory(self) -> None:
        def check(name: str, root: Path, case: Case) -> None:
            old = self.exported(case, root / "out")
            self.assertIn("there already", self.good(*case.words("export", root / "out")))
            case.change()
            new = self.exported(case, root / "new")
            self.assertNotEqual(new, old)
            told = self.good(*case.words("export", root / "out"), code=BAD_INPUT)
            self.assertIn("--force", told)
            if name not in COMPANIONS:
                self.assertRegex(told, r"file '[^']*' has different contents|source file")
            self.assertEqual(contents(root / "out"), old, "refused, and written")
            self.good(*case.words("export", root / "out"), "--force")
            self.assertLessEqual(new.items(), contents(root / "out").items())

        self.each_case(check)

    def test_of_shares(self) -> None:
        def check(name: str, root: Path, case: Case) -> None:
            for share in ("0/2", "1/2"):
                self.good(*case.words("export", root / "out"), "--share", share)
            case.change()
            new = self.exported(case, root / "new")
            codes = {run(*case.words("export", root / "out"), "--share", share).code for share in ("0/2", "1/2")}
            self.assertIn(BAD_INPUT, codes)
            for share in ("0/2", "1/2"):
                self.good(*case.words("export", root / "out"), "--share", share, "--force")
            self.assertLessEqual(new.items(), contents(root / "out").items())

        self.each_case(check)

    def test_to_a_store(self) -> None:
        def check(name: str, root: Path, case: Case) -> None:
            store = MemoryStore()
            with serving(store) as environment:
                Settings.environment = environment
                self.addCleanup(lambda: setattr(Settings, "environment", {}))
                words = case.words("export", f"s3://{BUCKET}/out")
                for _ in range(2):
                    self.good(*words)
                case.change()
                self.good(*words, code=BAD_INPUT)
                self.good(*words, "--force")
            objects = {key.removeprefix("out/"): data for key, (data, _) in store.objects.items()}
            self.assertLessEqual(self.exported(case, root / "new").items(), objects.items())

        self.each_case(check)

    def test_views_one_after_another(self) -> None:
        """What one view alone reads does not keep another one from being added."""
        with scratch() as root:
            case = companion(root, "tokenizer.json", '"a"', '"b"')
            self.good("export", case.source, root / "out", *MERGED)
            self.good("export", case.source, root / "out", *HF)
            case.change()
            self.good("export", case.source, root / "out", *MERGED)

    def test_a_companion_that_was_removed(self) -> None:
        for name in ("tokenizer.json", "config.json"):
            with self.subTest(name), scratch() as root:
                case = companion(root, name, "", "")
                self.good(*case.words("export", root / "out"))
                self.assertIn(f"hf/{name}", contents(root / "out"))
                case.path.unlink()
                told = self.good(*case.words("export", root / "out"), code=BAD_INPUT)
                self.assertIn(f"'hf/{name}' is no longer shown", told)
                self.assertIn("--force", told)
                self.good(*case.words("export", root / "out"), "--force")
                self.assertEqual(contents(root / "out"), self.exported(case, root / "new"))
                self.good(*case.words("export", root / "out"))

    def test_a_companion_that_was_removed_between_shares(self) -> None:
        with scratch() as root:
            case = companion(root, "tokenizer.json", "", "")
            shares = [("--share", f"{number}/2") for number in range(2)]
            for share in shares:
                self.good(*case.words("export", root / "out"), *share)
            case.path.unlink()
            told = "".join(self.good(*case.words("export", root / "out"), *share, code=BAD_INPUT) for share in shares)
            self.assertIn("--force", told)
            for share in shares:
                self.good(*case.words("export", root / "out"), *share, "--force")
            new = self.exported(case, root / "new")
            got = contents(root / "out")
            sums = got.pop("SHA256SUMS").decode().split()[1::2]
            self.assertEqual(got, new)
            self.assertEqual(sorted(name.lstrip("*") for name in sums), sorted(new))

    def test_manifest_of_an_older_version(self) -> None:
        with scratch() as root:
            case = quantized(root)
            new = self.exported(case, root / "out")
            manifest = root / "out" / MANIFEST
            text = manifest.read_text()
            for old in (text.replace('"reshardfs_export":3', '"reshardfs_export":2'),
                        text.replace('"version":"', '"version":"0.0.')):
                self.assertNotEqual(old, text)
                manifest.write_text(old)
                told = self.good(*case.words("export", root / "out"), code=BAD_INPUT)
                self.assertRegex(told, r"(earlier|another) version of reshardfs")
                self.assertIn("--force", told)
                self.good(*case.words("export", root / "out"), "--force")
                self.assertEqual(contents(root / "out"), new)


class Mounts(InputsTest):
    def test_reload(self) -> None:
        """The new contents, or those before and a reason; companions are always the new ones."""
        def check(name: str, root: Path, case: Case) -> None:
            with mounted(*case.words("mount")[1:]) as mountpoint:
                old = contents(mountpoint)
                case.change()
                result = run("reload", mountpoint)
                new = self.exported(case, root / "new")
                if name in COMPANIONS:
                    self.assertEqual(result.code, DONE, result.stderr)
                else:
                    self.assertRegex(result.stderr, "not what is mounted: (source )?file '[^']*' ")
                    self.assertEqual(contents(mountpoint), old)
                    self.good("reload", "--replace", mountpoint)
                self.assertLessEqual(new.items(), contents(mountpoint).items())

        self.each_case(check)

    def test_steps(self) -> None:
        """A step is taken anew when a small file of it is saved again in place."""
        def check(_name: str, root: Path, case: Case) -> None:
            if not case.path.is_relative_to(case.source):
                return
            run_directory = root / "run"
            run_directory.mkdir()
            step = case.source.rename(run_directory / "checkpoint-20")
            shutil.copytree(step, run_directory / "checkpoint-10")
            case = Case(step, case.options, step / case.path.name, case.old, case.new)
            with mounted(run_directory, "--step", "all", *case.options) as mountpoint:
                shown = mountpoint / "latest"
                self.assertEqual(self.exported(case, root / "old").items() - contents(shown).items(), set())
                case.change()
                new = self.exported(case, root / "new").items()
                self.assertTrue(wait_until(lambda: new <= contents(shown).items()))

        self.each_case(check)

    def test_crash(self) -> None:
        """Files that are open keep the contents that they began with, or are stale; others are new."""
        def check(name: str, root: Path, case: Case) -> None:
            with mounted(*case.words("mount")[1:], "--supervise") as mountpoint, contextlib.ExitStack() as stack:
                old = contents(mountpoint)
                files = {name: stack.enter_context(open(mountpoint / name, "rb", buffering=0)) for name in old}
                for name in old:
                    forget_pages(mountpoint / name)
                case.change()
                os.kill(json.loads((mountpoint / ".reshardfs/status.json").read_text())["pid"], signal.SIGKILL)
                for name, file in files.items():
                    try:
                        self.assertEqual(os.pread(file.fileno(), len(old[name]), 0), old[name], name)
                    except OSError as error:
                        self.assertEqual(error.errno, ESTALE)
                new = self.exported(case, root / "new")
                self.assertTrue(wait_until(lambda: new.items() <= contents(mountpoint).items()))

        self.each_case(check)

    def test_open_files_of_a_config_that_was_corrected(self) -> None:
        """A crash and a reload keep what they need of the former one."""
        with scratch() as root:
            case = quantized(root)
            with mounted(*case.words("mount")[1:], "--supervise") as mountpoint:
                path = next(mountpoint.glob("merged/*"))
                old = path.read_bytes()
                with open(path, "rb", buffering=0) as file:
                    case.change()
                    os.kill(json.loads((mountpoint / ".reshardfs/status.json").read_text())["pid"], signal.SIGKILL)
                    new = next(iter(self.exported(case, root / "new").values()))
                    self.assertTrue(wait_until(lambda: path.read_bytes() == new))
                    for _ in range(2):
                        forget_pages(path)
                        self.assertEqual(os.pread(file.fileno(), len(old), 0), old)
                        self.assertEqual(path.read_bytes(), new)
                        self.good("reload", mountpoint)


if __name__ == "__main__":
    run_unittests()
