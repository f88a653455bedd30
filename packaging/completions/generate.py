# SPDX-License-Identifier: Apache-2.0
"""Writes the completions for bash, zsh and fish from what the program's --help says."""

import argparse
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import program_help  # noqa: E402
import shells  # noqa: E402

FILES = {"reshardfs.bash": shells.bash, "_reshardfs": shells.zsh, "reshardfs.fish": shells.fish}


def command_tree(binary, command=()):
    """(words of the command, its help) of the program and of all its commands, each after its group."""
    shown = program_help.read_help(binary, list(command))
    yield command, shown
    for name in shown.subcommands:
        yield from command_tree(binary, (*command, name))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True, help="a directory")
    arguments = parser.parse_args()
    tree = list(command_tree(arguments.binary))
    for name, write in FILES.items():
        parts = write(tree)
        text = (HERE / f"{name}.in").read_text()
        text = re.sub("@([A-Z]+)@", lambda match: parts[match.group(1)], text)
        (arguments.output / name).write_text(text)


main()
