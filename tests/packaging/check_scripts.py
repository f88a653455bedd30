# SPDX-License-Identifier: Apache-2.0
"""Who builds with warnings as errors: those who develop, and continuous integration; nobody who
installs the program, whatever their compiler warns of, and even if an earlier build had it on.
And shellcheck finds nothing in the scripts."""

import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import report

DEVELOPMENT = {"debug", "asan", "tsan"}
OPTION = "RESHARDFS_WERROR"
# What each script is to tell CMake.
SCRIPTS = {".ci/run": "ON", ".ci/run_single_files": "ON", "packaging/test.sh": "OFF",
           "packaging/setup.sh": "OFF", "packaging/deb.sh": "OFF", "packaging/install.sh": "OFF"}
# Every other program that the scripts call, but for those that only look.
STUBS = ("apt-get", "cpack", "ctest", "dpkg-query", "modprobe", "node", "npm", "sudo")


def preset_problems(root):
    presets = json.loads((root / "CMakePresets.json").read_text())["configurePresets"]
    on = {preset["name"] for preset in presets
          if preset.get("cacheVariables", {}).get(OPTION) == "ON"}
    if on != DEVELOPMENT:
        yield f"CMakePresets.json: {OPTION} is ON for {sorted(on)}, not for {sorted(DEVELOPMENT)}"
    text = (root / "CMakeLists.txt").read_text()
    if not re.search(rf'^option\({OPTION} "[^"]*" OFF\)$', text, re.MULTILINE):
        yield f"CMakeLists.txt: {OPTION} is not OFF by default"


def shellcheck_problems(root):
    if shutil.which("shellcheck"):
        scripts = [".ci/run", ".ci/run_single_files", "packaging/deploy/slurm/export.sbatch",
                   *sorted(str(path.relative_to(root))
                           for path in (root / "packaging").rglob("*.sh"))]
        done = subprocess.run(["shellcheck", "-x", "--format=gcc", *scripts], cwd=root,
                              capture_output=True, text=True, check=False)
        yield from done.stdout.splitlines() + done.stderr.splitlines()


def configuring(root, script):
    """The arguments with which a script has CMake configure a build."""
    with tempfile.TemporaryDirectory() as folder:
        checkout, programs = Path(folder, "checkout"), Path(folder, "programs")
        for name in (".ci", "packaging"):
            shutil.copytree(root / name, checkout / name)
        programs.mkdir()
        log = Path(folder, "calls")
        (programs / "cmake").write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >> {log}\n')
        for name in STUBS:
            (programs / name).write_text("#!/bin/sh\n")
        for stub in programs.iterdir():
            stub.chmod(0o755)
        environment = {key: value for key, value in os.environ.items() if key != OPTION}
        environment["RESHARDFS_PLATFORMS"] = ""  # it would fetch and compile
        environment["PATH"] = f"{programs}:{environment['PATH']}"
        # It may fail later on, where it runs what was not built.
        prefix = ["--prefix", f"{folder}/prefix"] if script.endswith("install.sh") else []
        subprocess.run(["bash", checkout / script, *prefix], env=environment, stdin=subprocess.DEVNULL,
                       capture_output=True, check=False, timeout=50)
        calls = log.read_text().splitlines() if log.exists() else []
    return [call for call in calls if "--preset" in call]


def script_problems(root):
    for script, wanted in SCRIPTS.items():
        calls = configuring(root, script)
        if not calls:
            yield f"{script}: does not configure"
        for call in calls:
            if f"-D{OPTION}={wanted}" not in call.split():
                yield f"{script}: configures without -D{OPTION}={wanted}: cmake {call}"


def missing_problems(root):
    """Without apt, what the build lacks is told before it begins, with the way without it."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("bash", "basename", "dirname", "id", "readlink", "realpath"):
            Path(folder, name).symlink_to(shutil.which(name))
        for script in ("setup.sh", "install.sh"):
            done = subprocess.run([shutil.which("bash"), root / "packaging" / script], env={"PATH": folder},
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=50)
            if done.returncode != 1 or "lacks cmake, ninja, g++" not in done.stderr or "tarball" not in done.stderr:
                yield f"{script}: without apt it says: {done.stdout}{done.stderr}"


def main():
    root = report.arguments().root
    problems = [*preset_problems(root), *script_problems(root), *missing_problems(root), *shellcheck_problems(root)]
    report.finish(problems, f"{len(SCRIPTS)} scripts, {len(DEVELOPMENT)} presets for development")


main()
