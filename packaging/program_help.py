# SPDX-License-Identifier: Apache-2.0
"""Reads what `reshardfs COMMAND --help` says."""

import dataclasses
import re
import subprocess


@dataclasses.dataclass
class Option:
    names: tuple      # ("-v", "--verbose")
    argument: str     # "FILE|DIR", empty for a flag
    default: str      # empty: none is printed
    repeatable: bool

    @property
    def long_name(self):
        return self.names[-1].lstrip("-")


@dataclasses.dataclass
class Help:
    options: list
    positionals: list   # as the usage line has them
    subcommands: list


def _section(text, title):
    """The lines of a section, without those that continue a description."""
    match = re.search(rf"^{title}:\n((?:  .*\n)+)", text + "\n", re.MULTILINE)
    if not match:
        return []
    return [line.strip() for line in match.group(1).splitlines() if re.match(r"  \S", line)]


def _option(line):
    words = re.match(r"(-\S+)(?: ([^ -]\S*))?", line)
    # "NAME=checkpoint_", "STEP|latest=latest", "a|b:{a,b}=a"
    argument, _, default = (words.group(2) or "").partition("=")
    argument = argument.partition(":")[0]
    if re.match(r"\S+ Excludes:", line) or argument == "REQUIRED":
        argument, default = "", ""
    return Option(tuple(words.group(1).split(",")), argument, default, "(repeatable)" in line)


def _run_help(binary, command):
    return subprocess.run([binary, *command, "--help"], check=True, text=True,
                          stdout=subprocess.PIPE).stdout


def read_help(binary, command):
    """@param command: a list such as ["strategy", "show"]; empty: the program's own."""
    text = _run_help(binary, command)
    usage = re.search(r"^Usage: reshardfs(.*)$", text, re.MULTILINE).group(1)
    usage = re.sub(r"\[OPTIONS\]|SUBCOMMAND", "", usage).split()
    return Help([_option(line) for line in _section(text, "Options")],
                usage[len(command):],
                [line.split()[0] for line in _section(text, "Subcommands")])


def all_commands(binary, command=()):
    """Every command that does something, as a list of words, with its help."""
    found = read_help(binary, list(command))
    if not found.subcommands:
        return {" ".join(command): found}
    commands = {}
    for name in found.subcommands:
        commands.update(all_commands(binary, (*command, name)))
    return commands
