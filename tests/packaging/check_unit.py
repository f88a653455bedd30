# SPDX-License-Identifier: Apache-2.0
"""The systemd unit: systemd finds nothing wrong with it, its commands are ones that the program
has, and nothing in it hides the mount from the rest of the machine."""

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import program_help
import report

# Each gives a service a mount namespace of its own, from which no mount gets out (systemd.exec(5)).
NAMESPACE = re.compile(
    r"PrivateTmp|PrivateDevices|PrivateMounts|PrivateIPC|PrivateUsers|ProtectSystem|ProtectHome|"
    r"ProtectProc|ProcSubset|ProtectKernel\w+|ProtectControlGroups|\w+Paths|Root\w+|MountAPIVFS|"
    r"MountFlags|MountImages|Extension\w+|TemporaryFileSystem|DynamicUser|\w+Directory|LogNamespace|"
    r"NetworkNamespacePath|PrivateNetwork|User")


def directives(text):
    """(section, key, value) of each line that sets something."""
    section = ""
    for line in text.splitlines():
        if match := re.fullmatch(r"\[(\w+)\]", line):
            section = match.group(1)
        elif match := re.match(r"(\w+)=(.*)", line):
            yield section, match.group(1), match.group(2)


def command_problems(binary, value):
    words = value.lstrip("-").split()
    if not words[0].endswith("/reshardfs"):
        return
    known = {name for option in program_help.read_help(binary, [words[1]]).options
             for name in option.names}
    for word in words[2:]:
        if word.startswith("-") and word not in known:
            yield f"{value}: 'reshardfs {words[1]}' has no {word}"


def verify_problems(text, binary):
    if not shutil.which("systemd-analyze"):
        return []  # the package systemd; what is above has been checked
    with tempfile.TemporaryDirectory() as folder:
        unit = Path(folder) / "reshardfs@.service"
        # The program need not be installed, but must be there.
        unit.write_text(re.sub(r"/\S+/reshardfs (?=mount|umount|reload)", f"{binary} ", text))
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", "--recursive-errors=no",
                               f"{folder}/reshardfs@sample.service"], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        problems = done.stdout.splitlines()
        return problems or ([f"systemd-analyze ends with {done.returncode}"] if done.returncode else [])


def main():
    arguments = report.arguments("binary", "unit")
    text = Path(arguments.unit).read_text()
    settings = list(directives(text))
    problems = [f"{key}= would hide the mount" for section, key, _ in settings
                if section == "Service" and NAMESPACE.fullmatch(key)]
    for _, key, value in settings:
        if key.startswith("Exec"):
            problems += command_problems(arguments.binary, value)
    problems += [f"{variable} was not replaced" for variable in re.findall(r"@\w+@", text)]
    problems += verify_problems(text, arguments.binary)
    report.finish(problems, f"{len(settings)} settings")


main()
