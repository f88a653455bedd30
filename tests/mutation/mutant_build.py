# SPDX-License-Identifier: Apache-2.0
"""Builds and judges mutants.

All programs are built once, without optimisation. A mutant is then one object more, which a
program is linked with before the libraries: the library's own object of that name is not looked at
any more. Nothing in the checkout or in the build is changed: a mutant's file stands in a directory
of its own, and where it is a header, that directory is the first to be searched.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import threading
from pathlib import Path

MEMORY_KIB = 3 << 20
UNIT = ["--gtest_fail_fast", "--gtest_brief=1"]
# Tests that are slow without optimisation.
SLOW = "NarrowAndWide/*"
# How a judge is called: the program and its arguments.
CALLS = {"unit_layout": ["unit_layout", *UNIT],
         "unit_plan": ["unit_plan", *UNIT, f"--gtest_filter=-{SLOW}"],
         "unit_plan, slow tests": ["unit_plan", *UNIT, f"--gtest_filter={SLOW}"],
         "unit_report": ["unit_report", *UNIT],
         "unit_fuse": ["unit_fuse", *UNIT],
         "unit_storage": ["unit_storage", *UNIT],
         "protocol": ["protocol_tests", *UNIT],
         "unit_view": ["unit_view", *UNIT],
         "property": ["property", "--pairs", "60", "--seed", "1", "--tensors", "10"]}
# Who judges a layer's mutants: its own tests first.
JUDGES = {"layout": ["unit_layout", "unit_plan", "property"],
          "plan": ["unit_plan", "unit_view", "unit_report", "property", "unit_plan, slow tests"],
          "fuse": ["unit_fuse", "protocol"],
          "storage": ["unit_storage", "protocol"]}


class BuildError(Exception):
    pass


def call(command: list[str] | str, **more) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, **more)
    if done.returncode:
        raise BuildError(f"{command}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout


def processor_time() -> float:
    """Of all programs that have ended, in seconds: what else the machine does matters little."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@dataclasses.dataclass
class Unit:
    """One object: how it is compiled, and from which file."""
    source: Path
    command: list[str]  # without source and output


@dataclasses.dataclass
class Verdict:
    outcome: str      # "killed", "survived", "does not compile"
    judge: str = ""   # who killed it
    slow: bool = False  # by the time limit


class Build:
    def __init__(self, root: Path, directory: Path):
        self.root = root
        self.directory = directory
        self.units: dict[str, Unit] = {}        # by the object's name
        self.includers: dict[str, list[str]] = {}  # objects, by a header's path below src
        self.links: dict[str, list[str]] = {}
        self.limits: dict[str, int] = {}  # seconds of a processor's time, by judge
        self.mutants = directory / "mutants"

    def prepare(self, layers: set[str], jobs: int) -> None:
        judges = sorted({judge for layer in layers for judge in JUDGES[layer]})
        linker = next((name for name in ("mold", "lld") if shutil.which(
            {"lld": "ld.lld"}.get(name, name))), None)
        configure = ["cmake", "-S", str(self.root), "-B", str(self.directory), "-G", "Ninja",
                     "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=-O0 -g0",
                     "-DRESHARDFS_BUILD_TESTS=ON", "-DRESHARDFS_BUILD_BENCH=OFF",
                     "-DRESHARDFS_WERROR=OFF", "-DRESHARDFS_SANITIZE=",
                     "-DCMAKE_GTEST_DISCOVER_TESTS_DISCOVERY_MODE=PRE_TEST"]
        if linker:
            configure.append(f"-DCMAKE_EXE_LINKER_FLAGS=-fuse-ld={linker}")
        call(configure)
        programs = sorted({CALLS[judge][0] for judge in judges})
        subprocess.run(["ninja", "-C", str(self.directory), f"-j{jobs}", *programs], check=True,
                       stdout=subprocess.DEVNULL)
        self.read_compile_commands()
        self.read_includers()
        for program in programs:
            self.read_link_command(program)
        self.remove_mutants()
        for judge in judges:
            self.measure(judge)

    def remove_mutants(self) -> None:
        shutil.rmtree(self.mutants, ignore_errors=True)

    def read_compile_commands(self) -> None:
        for entry in json.loads((self.directory / "compile_commands.json").read_text()):
            words = shlex.split(entry["command"])
            name = words[words.index("-o") + 1]
            for option in ("-o", "-c"):
                at = words.index(option)
                del words[at:at + 2]
            self.units[name] = Unit(Path(entry["file"]), [*words, "-w"])

    def read_includers(self) -> None:
        name = None
        prefix = str(self.root / "src") + "/"
        for line in call(["ninja", "-C", str(self.directory), "-t", "deps"]).splitlines():
            if line.startswith("    "):
                if line.strip().startswith(prefix):
                    self.includers.setdefault(line.strip()[len(prefix):], []).append(name)
            else:
                name = line.split(":")[0]

    def read_link_command(self, program: str) -> None:
        ninja = ["ninja", "-C", str(self.directory), "-t"]
        path = call([*ninja, "query", program]).splitlines()[2].strip()
        line = call([*ninja, "commands", "-s", path])
        link = next(part for part in line.split(" && ") if f" -o {path}" in part)
        self.links[program] = shlex.split(link)

    def precompile(self, file: str) -> None:
        """Reads once what the file includes."""
        text = (self.root / file).read_text()
        header = self.precompiled_of(file)
        header.parent.mkdir(parents=True, exist_ok=True)
        header.write_text("\n".join(re.findall(r"^#include .*$", text, re.MULTILINE)) + "\n")
        call([*self.quick_command(file), "-x", "c++-header", str(header), "-o", f"{header}.gch"],
             cwd=self.directory)

    def precompiled_of(self, file: str) -> Path:
        return self.mutants / "precompiled" / (Path(file).stem + ".h")

    def quick_command(self, file: str) -> list[str]:
        """How a mutant of the file is compiled: by Clang if there is one, as it is quicker."""
        command = self.unit_of(file).command
        return [shutil.which("clang++") or command[0], *command[1:]]

    def unit_of(self, file: str) -> Unit:
        return self.units[self.object_of(file)]

    def object_of(self, file: str) -> str:
        return next(name for name, unit in self.units.items() if unit.source == self.root / file)

    def measure(self, judge: str) -> None:
        """A time limit from a run without a mutant, which must pass. Loops without an end are many,
        so that it should not be long."""
        place = Place(self, self.mutants / "measure")
        link = self.links[CALLS[judge][0]]
        program = self.directory / link[link.index("-o") + 1]
        self.limits[judge] = 60
        begin = processor_time()
        if place.run(judge, program) != "passed":
            raise BuildError(f"{judge} fails without any mutant")
        self.limits[judge] = math.ceil(4 * (processor_time() - begin) + 1)


class Place:
    """Where one mutant at a time is built and judged."""

    def __init__(self, build: Build, directory: Path):
        self.build = build
        self.directory = directory
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)

    def judge(self, file: str, text: str, only_first: bool = False) -> Verdict:
        """@param text the file's contents, with a mutant or as it is.
        @param only_first ask the first judge alone."""
        judges = JUDGES[Path(file).parts[1]]
        if only_first:
            judges = judges[:1]
        if file.endswith(".h"):
            return self.judge_header(file, text, judges, only_first)
        objects = self.compile_file(file, text)
        if not objects:
            return Verdict("does not compile")
        return self.first_to_fail(judges, lambda program: objects)

    def judge_header(self, file: str, text: str, judges: list[str], quick: bool) -> Verdict:
        """Functions of a header stand in every object that uses them, and the linker takes the
        first: those of the header's own .cpp file, at first. Among them are some of the standard
        library's that nobody calls or defines. Only if it survives so, all that includes the header
        is compiled again."""
        below_src = file.removeprefix("src/")
        header = self.directory / "overlay" / below_src
        shutil.rmtree(self.directory / "overlay", ignore_errors=True)
        header.parent.mkdir(parents=True)
        header.write_text(text)
        own = self.build.object_of(file.removesuffix(".h") + ".cpp")
        objects = self.compile_objects([own], ["-fkeep-inline-functions"])
        if objects is None:
            return Verdict("does not compile")
        verdict = self.first_to_fail(judges, lambda program: objects,
                                     ["-Wl,--unresolved-symbols=ignore-all"])
        if quick or verdict.outcome == "killed":
            return verdict
        made: dict[str, Path] = {}

        def all_of(program: str) -> dict[str, Path] | None:
            link = self.build.links[program]
            libraries = {Path(word).name for word in link}
            wanted = [name for name in self.build.includers[below_src] if name not in made and (
                name in link or f"lib{Path(name).parent.name.removesuffix('.dir')}.a" in libraries)]
            new = self.compile_objects(wanted, [])
            if new is None:
                return None
            made.update(new)
            return {name: path for name, path in made.items() if name in link or
                    f"lib{Path(name).parent.name.removesuffix('.dir')}.a" in libraries}
        return self.first_to_fail(judges, all_of)

    def compile_file(self, file: str, text: str) -> dict[str, Path] | None:
        source = self.directory / "mutant.cpp"
        source.write_text(text)
        name = self.build.object_of(file)
        path = self.directory / "mutant.o"
        command = [*self.build.quick_command(file), "-include",
                   str(self.build.precompiled_of(file)), "-c", str(source), "-o", str(path)]
        return {name: path} if self.compiles(command) else None

    def compile_objects(self, names: list[str], options: list[str]) -> dict[str, Path] | None:
        out = {}
        for name in names:
            unit = self.build.units[name]
            path = self.directory / "objects" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            command = [unit.command[0], f"-I{self.directory / 'overlay'}", *unit.command[1:],
                       *options, "-c", str(unit.source), "-o", str(path)]
            if not self.compiles(command):
                return None
            out[name] = path
        return out

    def compiles(self, command: list[str]) -> bool:
        return subprocess.run(command, cwd=self.build.directory, check=False,
                              stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL).returncode == 0

    def first_to_fail(self, judges: list[str], objects_for, options: list[str] = ()) -> Verdict:
        """@param objects_for the objects with the mutant that a program needs, by their names;
        None if they do not compile."""
        linked: dict[str, Path | None] = {}
        for judge in judges:
            program = CALLS[judge][0]
            if program not in linked:
                objects = objects_for(program)
                linked[program] = None if objects is None else self.link(
                    program, objects, options)
            if linked[program] is None:
                return Verdict("does not compile")
            result = self.run(judge, linked[program])
            if result != "passed":
                return Verdict("killed", judge, result == "too slow")
        return Verdict("survived")

    def link(self, program: str, objects: dict[str, Path], options: list[str]) -> Path | None:
        words = [*self.build.links[program], *options]
        path = self.directory / program
        words[words.index("-o") + 1] = str(path)
        words = [str(objects[word]) if word in objects else word for word in words]
        first = next(i for i, word in enumerate(words) if word.endswith(".o"))
        words[first:first] = [str(path) for path in objects.values() if str(path) not in words]
        return path if self.compiles(words) else None

    def run(self, judge: str, program: Path) -> str:
        """"passed", "failed" or "too slow"."""
        scratch = self.directory / "tmp"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        limit = self.build.limits[judge]
        shell = f'ulimit -c 0; ulimit -v {MEMORY_KIB}; ulimit -t {limit}; exec "$@"'
        process = subprocess.Popen(
            ["/bin/sh", "-c", shell, "sh", str(program), *CALLS[judge][1:]], cwd=scratch,
            env={**os.environ, "TMPDIR": str(scratch)}, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            code = process.wait(timeout=20 * limit)  # if it waits for something
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return "too slow"
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        if code in (-signal.SIGXCPU, -signal.SIGKILL):
            return "too slow"
        return "passed" if code == 0 else "failed"


class Places:
    """One for each thread."""

    def __init__(self, build: Build):
        self.build = build
        self.local = threading.local()
        self.lock = threading.Lock()
        self.count = 0

    def mine(self) -> Place:
        if not hasattr(self.local, "place"):
            with self.lock:
                self.count += 1
                name = f"place-{self.count}"
            self.local.place = Place(self.build, self.build.mutants / name)
        return self.local.place
