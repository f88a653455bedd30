# SPDX-License-Identifier: Apache-2.0
"""The generator of systemd, run as systemd runs it: it writes the mounts that each service needs, escaped as
systemd reads them, and nothing else; a wrong configuration file fails no boot."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import report

CONFIG = r'''
src-strategy = "/strategies/train.ckpt"
log-level = "info"

[mount.tp4]
source = "/data/ckpt"
dst-strategy = "tp=4"

[mount.odd]
source = "/da ta/100% \"a\\b\""
src-strategy = "/data/it's.toml"
dst-strategy = "/data/it's.toml"

[mount.remote]
source = "s3://bucket/ckpt"
src-strategy = "https://host/train.ckpt"

[mount.relative]
source = "data/ckpt"
src-strategy = "none"

["mount"."in/valid"]
source = "/data/ckpt"

[mount.newline]
source = "/a\tb"
src-strategy = "/line\nbreak"
'''
WANTED = {
    "reshardfs@tp4.service.d/source.conf": '"/data/ckpt" "/strategies/train.ckpt"',
    "reshardfs@odd.service.d/source.conf": r'''"/da ta/100%% \"a\\b\"" "/data/it's.toml"''',
}
WRONG = {"no TOML": "[mount", "an unknown key": "sauce = '/data'", "a deep key": "\n[" + "a." * 200_000 + "a]"}


class Generator:
    def __init__(self, folder, binary):
        self.folder = folder
        self.link = folder / "reshardfs-generator"
        self.link.symlink_to(Path(binary).resolve())
        self.config = folder / "reshardfs.toml"

    def run(self, text):
        """What it has written, what it said, and its exit code."""
        places = [self.folder / name for name in ("normal", "early", "late")]
        for place in places:
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
        if text is not None:
            self.config.write_text(text)
        done = subprocess.run([self.link, *places, self.config], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              check=False, timeout=50)
        written = {str(path.relative_to(place)): path.read_text()
                   for place in places for path in place.rglob("*") if path.is_file()}
        return written, done.stdout + done.stderr, done.returncode


def value_of(text):
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return lines[1].removeprefix("RequiresMountsFor=") if lines[:1] == ["[Unit]"] and len(lines) == 2 else text


def verify_problems(generator, unit, binary):
    """systemd reads what was written without a word."""
    if not shutil.which("systemd-analyze"):
        return
    place = generator.folder / "normal"
    text = "".join(f"ExecStart={Path(binary).resolve()}\n" if line.startswith("ExecStart=") else
                   "" if line.startswith(("ExecReload=", "ExecStopPost=")) else line
                   for line in Path(unit).read_text().splitlines(keepends=True))
    (place / "reshardfs@.service").write_text(text)
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", "--recursive-errors=no",
                           *(str(place / f"reshardfs@{name}.service") for name in ("tp4", "odd"))],
                          env={**os.environ, "SYSTEMD_UNIT_PATH": f"{place}:"}, text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    yield from (f"systemd-analyze: {line}" for line in done.stdout.splitlines())
    if done.returncode:
        yield f"systemd-analyze ends with {done.returncode}"


def problems_of(generator, unit, binary):
    for what, text in WRONG.items():
        written, said, code = generator.run(text)
        if written or code or "reshardfs.toml" not in said or said.count("\n") != 1:
            yield f"{what}: wrote {written}, ended with {code} and '{said[:200]}'"
    generator.config.unlink()
    os.mkfifo(generator.config)
    for what in ("a pipe", "no file"):
        if (found := generator.run(None)) != ({}, "", 0):
            yield f"{what}: {found}"
        generator.config.unlink(missing_ok=True)
    written, said, code = generator.run(CONFIG)
    if said or code:
        yield f"ended with {code} and '{said}'"
    found = {name: value_of(text) for name, text in written.items()}
    for name in sorted(set(found) | set(WANTED)):
        if found.get(name) != WANTED.get(name):
            yield f"{name}: {found.get(name)}, not {WANTED.get(name)}"
    yield from verify_problems(generator, unit, binary)


def main():
    arguments = report.arguments("binary", "unit")
    with tempfile.TemporaryDirectory() as folder:
        generator = Generator(Path(folder), arguments.binary)
        report.finish(list(problems_of(generator, arguments.unit, arguments.binary)),
                      f"{len(WANTED)} drop-ins, {len(WRONG)} wrong files")


main()
