# SPDX-License-Identifier: Apache-2.0
"""config/reshardfs.toml is what packaging/sample_config.py writes, and with all its keys uncommented mount
accepts it."""

import os
import re
import subprocess
import tempfile

import report
import sample_config

KEY = re.compile(r"^#?([a-z][a-z0-9-]*) = (.+)$", re.MULTILINE)
TABLE = re.compile(r"^#(\[mount\..+\])$", re.MULTILINE)


def run_with(binary, text):
    """Standard error of a mount that gets the configuration, but whose source is not there."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/reshardfs.toml"
        with open(path, "w") as file:
            file.write(text)
        mountpoint = f"{folder}/mountpoint"
        os.mkdir(mountpoint)
        done = subprocess.run([binary, "mount", f"{folder}/no-such-source",
                               mountpoint, "--config", path, "--wait-for-source", "0s"], text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder)
        return done.stderr


def main():
    arguments = report.arguments("binary")
    text = (arguments.root / "config/reshardfs.toml").read_text()
    problems = []
    if text != sample_config.sample(arguments.binary):
        problems.append("config/reshardfs.toml is not what packaging/sample_config.py writes; regenerate it with\n"
                        "  packaging/sample_config.py build/release/bin/reshardfs >config/reshardfs.toml")

    # An unknown key or a wrong value stops the program at its line; with none of those it gets as
    # far as the first file that is not there.
    message = run_with(arguments.binary, TABLE.sub(r"\1", KEY.sub(r"\1 = \2", text)))
    if "no such file" not in message.lower() or "reshardfs.toml" in message:
        problems.append(f"with all keys uncommented: {message.strip()}")
    if "no-such-source" not in run_with(arguments.binary, text):
        problems.append("as it stands it changes what mount does: comment all keys out")
    if "no-such-key" not in run_with(arguments.binary, "no-such-key = 1\n"):
        problems.append("mount accepts a key that does not exist: this check proves nothing")
    report.finish(problems, f"{len(KEY.findall(text))} keys, all accepted")


main()
