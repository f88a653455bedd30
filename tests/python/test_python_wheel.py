# SPDX-License-Identifier: Apache-2.0
"""The wheel, installed in an empty environment without network: it needs nothing but Python and glibc."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import unittest
import zipfile
from pathlib import Path

from cached_programs import cached_python
from mounted import SKIP, fuse_problem, parse_binary, run, scratch
from python_sets import ROOT, class_context, options_of, small_set

SECONDS = 300.0
# Without NumPy, too.
PROGRAM = """
import ctypes, json, sys
import reshardfs
source, options = sys.argv[1], json.loads(sys.argv[2])
with reshardfs.open(source, **options) as checkpoint:
    state = checkpoint.rank(1)
    tensors = {name: bytes(content).hex() for name, content in state.read().items()}
    state["run_name"].__dlpack_device__()
    into = bytearray(state["run_name"].nbytes)
    state["run_name"].read_into(into)
    plan = reshardfs.plan(source, rank=1, **options)
print(json.dumps({"file": reshardfs.__file__, "tensors": tensors, "into": into.hex(), "plan": plan}))
"""


# Tensors of PyTorch, by workers that have the state by each way of starting a process.
LOADER = """
import json, os, sys
import reshardfs.torch, torch
from torch.utils.data import DataLoader, Dataset

class Rows(Dataset):
    def __init__(self, state):
        self.state, self.names = state, sorted(state.arrays())
    def __len__(self):
        return len(self.names)
    def __getitem__(self, number):
        tensor = torch.frombuffer(bytearray(bytes(self.state[self.names[number]])), dtype=torch.uint8)
        return self.names[number], os.getpid(), tensor

if __name__ == "__main__":
    found = {}
    with reshardfs.open(sys.argv[1], **json.loads(sys.argv[2])) as checkpoint:
        for way in ("fork", "forkserver", "spawn"):
            loader = DataLoader(Rows(checkpoint.rank(1)), batch_size=None, num_workers=2, multiprocessing_context=way,
                                persistent_workers=True)
            for _ in range(2):  # epochs
                rows = list(loader)
                assert os.getpid() not in {process for _, process, _ in rows}
                found[way] = {name: bytes(tensor.numpy()).hex() for name, _, tensor in rows}
    print(json.dumps(found))
"""


class Wheel(unittest.TestCase):
    build: Path

    @classmethod
    def setUpClass(cls) -> None:
        cls.directory = class_context(cls, scratch())
        subprocess.run([sys.executable, str(ROOT / "packaging/bundle_wheel.py"), str(cls.build),
                        str(cls.directory)], check=True, timeout=SECONDS)
        (cls.wheel,) = cls.directory.glob("*.whl")
        cls.environment = {name: value for name, value in os.environ.items()
                           if not name.startswith(("PYTHON", "LD_"))} | {"PATH": "/usr/bin:/bin"}
        place = cls.directory / "venv"
        cls.python = place / "bin/python"
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True, env=cls.environment, timeout=SECONDS)
        # No index, and no proxy that could lead to one.
        subprocess.run([str(cls.python), "-m", "pip", "--quiet", "--disable-pip-version-check", "install",
                        "--no-index", str(cls.wheel)], check=True, timeout=SECONDS,
                       env={**cls.environment, "https_proxy": "http://127.0.0.1:9"})
        (cls.installed,) = (place / "lib").glob("python3*/site-packages/reshardfs")

    def output(self, *words: str | Path) -> str:
        done = subprocess.run([str(self.python), *map(str, words)], capture_output=True, text=True,
                              env=self.environment, cwd=self.directory, timeout=SECONDS, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def test_name_says_what_it_needs(self) -> None:
        self.assertRegex(self.wheel.name, rf"^reshardfs-\d+\.\d+\.\d+-py3-none-manylinux_2_28_{platform.machine()}\.whl$")

    def test_refuses_a_newer_glibc_by_name(self) -> None:
        check = [sys.executable, "-B", str(ROOT / "packaging/portable/check_symbols.py")]
        subprocess.run([*check, *self.products()], check=True, timeout=SECONDS)
        done = subprocess.run([*check, sys.executable], capture_output=True, text=True, timeout=SECONDS, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"(?m)^python\S* needs \w+ of glibc 2\.(29|[3-9]\d)$")

    def test_reads_without_numpy(self) -> None:
        with small_set() as made:
            said = json.loads(self.output("-c", PROGRAM, made.source, json.dumps(options_of(made))))
            self.assertTrue(said["file"].startswith(str(self.installed)))
            self.assertEqual(said["tensors"], {name: record.content.hex()
                                               for name, record in made.expected(1).items()})
            self.assertEqual(said["into"], said["tensors"]["run_name"])
            self.assertEqual(said["plan"]["rank"], 1)

    def test_workers_of_a_data_loader(self) -> None:
        python = cached_python("deepspeed-0.19.8")
        if not python:
            self.skipTest("no PyTorch is installed for tests/real")
        script = self.directory / "loader.py"  # a module that processes can import
        script.write_text(LOADER)
        with small_set() as made:
            done = subprocess.run([*python, str(script), made.source, json.dumps(options_of(made))], check=False,
                                  capture_output=True, text=True, timeout=SECONDS,
                                  env={**self.environment, "PYTHONPATH": str(self.installed.parent)})
            self.assertEqual(done.returncode, 0, done.stderr)
            records = made.expected(1)
            for way, found in json.loads(done.stdout).items():
                with self.subTest(way):
                    self.assertEqual(found, {name: records[name].content.hex() for name in found})
                    self.assertGreater(len(found), 1)

    def test_is_the_command_with_its_maps(self) -> None:
        self.assertEqual(self.output("-m", "reshardfs", "--version"), run("--version").stdout)
        script = subprocess.run([str(self.python.parent / "reshardfs"), "map", "list"], capture_output=True, text=True,
                                env=self.environment, timeout=SECONDS, check=True)
        self.assertEqual(script.stdout, run("map", "list").stdout)
        code = "import reshardfs\ntry: reshardfs.open('/', map='mindformers-qwen')\nexcept reshardfs.Error as e: print(e)"
        self.assertIn("mindformers-qwen3", self.output("-c", code))

    def test_says_which_pythons_it_is_for(self) -> None:
        """A Python that is newer than the wheel finds the command, at least."""
        other = self.directory / "other"
        shutil.copytree(self.installed, other / "reshardfs")
        for module in (other / "reshardfs").glob("_core.cpython-*"):
            module.replace(module.with_name("_core.cpython-399-x.so"))
        done = subprocess.run([str(self.python), "-c", f"import sys; sys.path.insert(0, {str(other)!r}); import reshardfs"],
                              capture_output=True, text=True, env=self.environment, timeout=SECONDS, check=False)
        self.assertEqual(done.stderr.splitlines()[-1],
                         "ImportError: reshardfs has no module for cpython {}.{} here, but for 3.99: use one of these; the "
                         "command needs no Python: {}/reshardfs/bin/reshardfs".format(*sys.version_info[:2], other))

    def test_says_which_systems_it_is_for(self) -> None:
        """As on musl, whose Pythons know no such name and cannot load the module, and with an older glibc."""
        for stand_in, has in (("raise ValueError", "another C library (musl?)"), ("return 'glibc 2.27'", "glibc 2.27"),
                              ("return 'glibc 2.28'", "")):
            code = (f"import os, sys\ndef confstr(name): {stand_in}\nos.confstr = confstr\n"
                    "sys.modules['reshardfs._core'] = None\nimport reshardfs")
            done = subprocess.run([str(self.python), "-c", code], capture_output=True, text=True, env=self.environment,
                                  timeout=SECONDS, check=False)
            said = done.stderr.splitlines()[-1]
            with self.subTest(has=has):
                if has:
                    self.assertRegex(said, rf"^ImportError: reshardfs needs glibc 2.28 or later, and this system has "
                                           rf"{re.escape(has)}: use a system or an image of ")
                else:
                    self.assertNotIn("glibc", said)

    def test_mounts(self) -> None:
        if problem := fuse_problem():
            self.skipTest(problem)
        with small_set() as made:
            code = ("import json, os, sys, reshardfs\n"
                    "with reshardfs.mount(sys.argv[1], **json.loads(sys.argv[2])) as path: print(sorted(os.listdir(path)))")
            self.assertIn("'rank_0', 'rank_1'", self.output("-c", code, made.source, json.dumps(options_of(made))))

    def products(self) -> list[Path]:
        return [*self.installed.glob("_core*.so"), *self.installed.glob("lib/*.so"), self.installed / "bin/reshardfs"]

    def test_needs_glibc_alone(self) -> None:
        for path in self.products():
            listed = subprocess.run(["readelf", "-d", "-W", str(path)], capture_output=True, text=True, check=True,
                                    timeout=SECONDS).stdout
            for name in re.findall(r"\(NEEDED\).*\[(.+)\]", listed):
                self.assertRegex(name, r"^(lib(c|m|dl|pthread)\.so\.\d|ld-linux\S+|libreshardfs_engine\.so)$", path.name)

    def test_packs_the_same_twice(self) -> None:
        again = self.directory / "again"
        environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
        contents = []
        for _ in range(2):
            subprocess.run([sys.executable, str(ROOT / "packaging/bundle_wheel.py"), str(self.build), str(again)],
                           check=True, timeout=SECONDS, env=environment)
            contents.append((again / self.wheel.name).read_bytes())
        self.assertEqual(contents[0], contents[1])
        with zipfile.ZipFile(again / self.wheel.name) as archive:
            names = archive.namelist()
        for licence in ("LICENSE", "protobuf.txt", "nlohmann-json3.txt", "pybind11.txt", "openssl.txt"):
            self.assertTrue(any(name.endswith(f".dist-info/licenses/{licence}") for name in names), (licence, names))

    def shown(self, path: Path) -> set[tuple[str, str]]:
        """Symbols that others can take: name and version."""
        listed = subprocess.run(["readelf", "--dyn-syms", "-W", str(path)], capture_output=True, text=True, check=True,
                                timeout=SECONDS).stdout
        found = re.findall(r"(?:GLOBAL|WEAK|UNIQUE)\s+DEFAULT\s+(\d+|ABS) ([^@\s]+)(?:@+(\S+))?", listed)
        return {(name, version) for section, name, version in found if section != "ABS"}

    def test_shows_what_modules_take(self) -> None:
        """No other module of the process takes a symbol of the C++ library for its own."""
        for module in self.installed.glob("_core*.so"):
            self.assertEqual({name for name, _ in self.shown(module)}, {"PyInit__core"}, module.name)
        engine = self.shown(self.installed / "lib/libreshardfs_engine.so")
        self.assertIn("__cxa_begin_catch", {name for name, _ in engine})
        self.assertEqual({version for _, version in engine}, {"RESHARDFS_ENGINE"})


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("tests", nargs="*", help="Class or Class.test; default: all")
    args = parse_binary(parser)
    missing = [name for name in ("readelf", "strip") if not shutil.which(name)]
    missing += [name for name in ("venv", "ensurepip") if not importlib.util.find_spec(name)]
    if missing:
        print(f"skipped: there is no {' and no '.join(missing)}")
        sys.exit(SKIP)
    Wheel.build = args.build.resolve()
    version = "{}{}".format(*sys.version_info[:2])
    if not list(Wheel.build.glob(f"portable/_core.cpython-{version}-*.so")):
        print(f"skipped: {Wheel.build} has no portable module of this Python (see CONTRIBUTING.md)")
        sys.exit(SKIP)
    unittest.main(argv=[sys.argv[0], "-v", *args.tests])


if __name__ == "__main__":
    main()
