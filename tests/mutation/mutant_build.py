# SPDX-License-Identifier: Apache-2.0
"""Builds all mutants at once, each behind a switch, and judges one after another.

The build is of a copy of the checkout. Each test runs alone once, to learn which switches it reaches: a
mutant is judged by these tests alone. What a layer's own tests do not kill, tests that mount the program
may (mounted_judges.py).
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mounted_judges import MOUNTED, PROGRAMS
from mutator import Mutant
from switches import Switched, constants_of

HERE = Path(__file__).resolve().parent
MEMORY_KIB = 3 << 20
MOUNTED_SECONDS = 8  # of tests that mount, for one mutant; the quickest first
PROPERTY = ["--pairs", "60", "--seed", "1", "--tensors", "10"]
# Who judges a layer's mutants: its own tests first.
JUDGES = {"layout": ["unit_layout", "unit_plan", "property"],
          "plan": ["unit_plan", "unit_view", "unit_report", "property"],
          "fuse": ["unit_fuse", "protocol_tests", "no_memory"],
          "storage": ["unit_storage", "protocol_tests"]}
# A test that mounts leaves neither a process nor a mount, whatever a mutant does. The shell is the first
# process of a namespace, takes in daemons, and lets go of its copies of other mounts. A process that waits
# for its own mount cannot be killed: so the connections of all that are left are aborted first.
ALONE = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "/bin/sh", "-c", r"""
awk '$3 ~ /^fuse/ && $3 != "fusectl" { print $2 }' /proc/self/mounts | xargs -r umount -l 2> /dev/null
limit=$1; shift; timeout -s KILL "$limit" "$@"; code=$?
{ sed -n 's/^fuse_connection:[[:space:]]*//p' /proc/[0-9]*/fdinfo/* 2> /dev/null
  awk 'index($5, ENVIRON["TMPDIR"]) == 1 && / - fuse/ { sub(".*:", "", $3); print $3 }' /proc/self/mountinfo
} | while read -r number; do echo 1 > "/sys/fs/fuse/connections/$number/abort"; done
exit $code""", "sh"]
PLACE = re.compile(r"^(/[^:\n]+):(\d+):(\d+): (.*)$", re.MULTILINE)
# In what the compiler says about the operators of switches.h.
NUMBER = re.compile(r"^\S*: In .*kNumber = (\d+)\W", re.MULTILINE)
# Where a template of the standard library was used that has an error then.
USED = ("required from here",)
# A function that must not return, or not without a value, ends the process where it does: else the compiler takes for
# granted that the switch in it is off.
TRAPS = "-fsanitize=unreachable,return -fsanitize-undefined-trap-on-error"
NOT_CONSTANT = ("was not initialized with a constant expression", "was not declared 'constexpr'")


class BuildError(Exception):
    pass


def call(command: list[str], **more) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, **more)
    if done.returncode:
        raise BuildError(f"{command}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout


@dataclasses.dataclass(frozen=True)
class Test:
    program: str
    name: str  # empty: all that the program does

    def mounts(self) -> bool:
        return self.program in MOUNTED


@dataclasses.dataclass
class Verdict:
    outcome: str       # "killed", "survived", "not reached", "does not compile"
    judge: str = ""    # who killed it
    slow: bool = False  # by the time limit


def put(path: Path, content: bytes) -> None:
    """Keeps the time of what has not changed, so that the next build is short."""
    if path.exists() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


class Build:
    """@param mutants all of some files. @param mounts whether tests that mount judge, too."""

    def __init__(self, root: Path, directory: Path, mutants: list[Mutant], jobs: int, mounts: bool = False):
        self.root, self.directory, self.jobs, self.mounts = root, directory, jobs, mounts
        self.tree, self.build = directory / "tree", directory / "build"
        self.numbers = {mutant.key(): number for number, mutant in enumerate(mutants, 1)}
        self.switches = dict(enumerate(mutants, 1))
        for file in sorted({mutant.file for mutant in mutants}):
            for constant in constants_of(file, (root / file).read_text()):
                self.switches[len(self.switches) + 1] = constant
        self.files: dict[str, Switched] = {}
        self.left_out: set[int] = set()
        self.known = directory / "left_out.json"  # of an earlier run, which was as long
        self.commands: dict[str, list[str]] = {}  # of each program of tests
        self.seconds: dict[Test, float] = {}
        self.reached: dict[int, list[Test]] = {}

    def prepare(self) -> None:
        files = {mutant.file for mutant in self.switches.values()}
        listed = call(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=self.root)
        for name in filter(None, listed.split("\0")):
            if name not in files and (self.root / name).is_file():
                put(self.tree / name, (self.root / name).read_bytes())
                shutil.copymode(self.root / name, self.tree / name)
        if self.known.exists():
            before = {tuple(key) for key in json.loads(self.known.read_text())}
            self.left_out = {n for n, mutant in self.switches.items() if self.name(mutant) in before}
        for file in files:
            self.write(file)
        layers = sorted({Path(file).parts[1] for file in files})
        programs = list(dict.fromkeys(judge for layer in layers for judge in JUDGES[layer]))
        self.compile([*programs, *(PROGRAMS if self.mounts else [])])
        self.commands = {program: [str(next(path for path in self.build.rglob(program) if path.is_file()))]
                         for program in programs}
        if self.mounts:
            listed = call(["ctest", "--test-dir", str(self.build), "--show-only=json-v1"])
            self.commands |= {test["name"]: test["command"] for test in json.loads(listed)["tests"]
                              if test["name"] in MOUNTED}
        self.learn(list(self.commands))

    @staticmethod
    def name(switch: Mutant) -> tuple[str, str, str, int]:
        """The same in the next run, unless the file has changed."""
        return (*switch.key(), switch.begin)

    def write(self, file: str) -> None:
        own = {number: mutant for number, mutant in self.switches.items()
               if mutant.file == file and number not in self.left_out}
        self.files[file] = Switched((self.root / file).read_text(), own)
        put(self.tree / file, self.files[file].text.encode())

    def compile(self, programs: list[str]) -> None:
        call(["cmake", "-S", str(self.tree), "-B", str(self.build), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug",
              "-DCMAKE_CXX_FLAGS_DEBUG=-O1 -g0", f"-DCMAKE_CXX_FLAGS=-w {TRAPS} -include {HERE / 'switches.h'}",
              "-DRESHARDFS_BUILD_TESTS=ON", "-DRESHARDFS_BUILD_BENCH=OFF", "-DRESHARDFS_WERROR=OFF",
              "-DRESHARDFS_SANITIZE=", "-DRESHARDFS_UNITY=ON", "-DCMAKE_GTEST_DISCOVER_TESTS_DISCOVERY_MODE=PRE_TEST"])
        while True:
            done = subprocess.run(["ninja", "-C", str(self.build), "-k0", f"-j{self.jobs}", *programs],
                                  check=False, capture_output=True, text=True,
                                  env={**os.environ, "LC_ALL": "C"})
            if done.returncode == 0:
                return
            blamed = self.blame(done.stdout, ("error: ", *NOT_CONSTANT)) or self.blame(done.stdout, USED)
            if not blamed:
                raise BuildError(done.stdout[-6000:])
            print(f"# {len(blamed)} switches do not compile", file=sys.stderr, flush=True)
            self.left_out |= blamed
            self.known.write_text(json.dumps([self.name(self.switches[n]) for n in sorted(self.left_out)]))
            for file in {self.switches[number].file for number in blamed}:
                self.write(file)

    def blame(self, errors: str, words: tuple[str, ...]) -> set[int]:
        """The switches that the errors may come from. @param words in lines that name a place."""
        found = {int(number) for number in NUMBER.findall(errors)}
        for path, line, column, text in PLACE.findall(errors):
            if path.startswith(f"{self.tree}/") and any(word in text for word in words):
                file = self.files.get(str(Path(path).relative_to(self.tree)))
                if file:
                    found.update(file.numbers_at(int(line), int(column)))
        return found

    def learn(self, programs: list[str]) -> None:
        """Runs each test with no mutant. All must pass."""
        tests = [test for program in programs for test in self.tests_of(program)]
        with ThreadPoolExecutor(self.jobs) as pool:
            for test, numbers in zip(tests, pool.map(self.learn_one, tests)):
                for number in numbers:
                    self.reached.setdefault(number, []).append(test)

    def tests_of(self, program: str) -> list[Test]:
        if program == "property":
            return [Test(program, "")]
        if program in MOUNTED:
            return [Test(program, name) for name in MOUNTED[program]]
        tests, suite = [], ""
        for line in call([*self.commands[program], "--gtest_list_tests"]).splitlines():
            name = line.split("#")[0].rstrip()
            if not line.startswith(" "):
                suite = name
            elif suite.endswith("."):
                tests.append(Test(program, suite + name.strip()))
        return tests


    def learn_one(self, test: Test) -> list[int]:
        with tempfile.NamedTemporaryFile() as file:
            file.truncate(len(self.switches) + 1)
            os.chmod(file.name, 0o666)  # for programs of other users
            begin = time.monotonic()
            result = self.run([test], {"RESHARDFS_MUTANTS_REACHED": file.name}, 120)
            self.seconds[test] = time.monotonic() - begin
            if result != "passed":
                raise BuildError(f"{test.program} {test.name} fails without any mutant")
            return [number for number, byte in enumerate(Path(file.name).read_bytes()) if byte]

    def judge(self, mutant: Mutant) -> Verdict:
        number = self.numbers[mutant.key()]
        if number in self.left_out:
            return Verdict("does not compile")
        tests = self.reached.get(number, [])
        groups: dict[object, list[Test]] = {}  # one run each
        spent = 0.0
        for test in sorted(tests, key=lambda test: self.seconds[test] if test.mounts() else 0):
            spent += self.seconds[test] if test.mounts() else 0
            if spent <= MOUNTED_SECONDS:
                groups.setdefault(test if test.mounts() else test.program, []).append(test)
        for own in groups.values():
            limit = 5 + 6 * sum(self.seconds[test] for test in own)
            result = self.run(own, {"RESHARDFS_MUTANT": str(number)}, limit)
            if result != "passed":
                return Verdict("killed", own[0].program, result == "too slow")
        return Verdict("survived" if tests else "not reached")

    def run(self, tests: list[Test], environment: dict[str, str], limit: float) -> str:
        """"passed", "failed" or "too slow". @param tests of one program."""
        command = self.commands[tests[0].program]
        names = [test.name for test in tests]
        if tests[0].mounts():
            command = [*ALONE, str(math.ceil(limit)), *command, *names]
            limit += 60  # to end all processes
        elif names[0]:
            command = [*command, "--gtest_fail_fast", "--gtest_brief=1", "--gtest_filter=" + ":".join(names)]
        else:
            command = [*command, *PROPERTY]
        shell = f'ulimit -c 0; ulimit -d {MEMORY_KIB}; ulimit -t {math.ceil(limit)}; exec "$@"'
        with tempfile.TemporaryDirectory(prefix="mutant-") as scratch:
            os.chmod(scratch, 0o755)  # tests run the program as other users, too
            process = subprocess.Popen(["/bin/sh", "-c", shell, "sh", *command], cwd=scratch,
                                       env={**os.environ, **environment, "TMPDIR": scratch},
                                       start_new_session=True, stdin=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                code = process.wait(timeout=limit)
            except subprocess.TimeoutExpired:
                return "too slow"
            finally:
                with contextlib.suppress(ProcessLookupError):  # with the children that it left
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if code in (-signal.SIGXCPU, -signal.SIGKILL, 128 + signal.SIGKILL):
            return "too slow"
        return "passed" if code == 0 else "failed"
