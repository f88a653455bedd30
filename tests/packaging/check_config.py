# SPDX-License-Identifier: Apache-2.0
"""config/reshardfs.toml and reshardfs.toml(5): with all its keys uncommented mount accepts the file, it
has every option that mount can take from a file, and the values it shows are the defaults that --help
prints. The manual page has the same keys."""

import os
import re
import subprocess
import tempfile

import program_help
import report

KEY = re.compile(r"^#?([a-z][a-z0-9-]*) = (.+)$", re.MULTILINE)
# What makes no sense in a file, or contradicts another key (verbose and quiet exclude each other).
NOT_IN_FILE = {"help", "config", "quiet"}
# Arguments, which have no option.
PLACES = {"source", "mountpoint"}
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
                               mountpoint, "--config", path], text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder)
        return done.stderr


def main():
    arguments = report.arguments("binary")
    text = (arguments.root / "config/reshardfs.toml").read_text()
    above_tables = text[:TABLE.search(text).start()]
    sample = dict(KEY.findall(above_tables))
    for place in PLACES:
        if sample.pop(place, None) is None:
            report.finish([f"{place}: missing in the sample"], "")
    options = {option.long_name: option
               for option in program_help.read_help(arguments.binary, ["mount"]).options}
    problems = [f"{key}: is no option of mount" for key in sorted(sample.keys() - options.keys())]
    problems += [f"{key}: an option of mount that the sample lacks"
                 for key in sorted(options.keys() - sample.keys() - NOT_IN_FILE)]
    for key, value in sample.items():
        default = options[key].default if key in options else ""
        if default and value.strip('"') != default:
            problems.append(f"{key}: shows {value}, but the default is {default}")

    # An unknown key or a wrong value stops the program at its line; with none of those it gets as
    # far as the first file that is not there.
    message = run_with(arguments.binary, TABLE.sub(r"\1", KEY.sub(r"\1 = \2", text)))
    if "no such file" not in message.lower() or "reshardfs.toml" in message:
        problems.append(f"with all keys uncommented: {message.strip()}")
    if "no-such-source" not in run_with(arguments.binary, text):
        problems.append("as it stands it changes what mount does: comment all keys out")
    if "no-such-key" not in run_with(arguments.binary, "no-such-key = 1\n"):
        problems.append("mount accepts a key that does not exist: this check proves nothing")
    page = (arguments.root / "man/reshardfs.toml.5").read_text()
    described = set(re.findall(r"^\.It Ic ([a-z0-9-]+)", page, re.MULTILINE))
    problems += [f"{key}: in only one of the sample and reshardfs.toml(5)"
                 for key in sorted(described ^ (sample.keys() | PLACES | {"quiet"}))]
    report.finish(problems, f"{len(sample)} keys, all accepted")


main()
