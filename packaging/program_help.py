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
    choices: tuple    # the words that it takes, all of them if nothing else fits; often empty
    description: str

    @property
    def long_name(self):
        return self.names[-1].lstrip("-")


@dataclasses.dataclass
class Help:
    options: list
    positionals: list   # as the usage line has them
    subcommands: dict   # name to description


def _section(text, title):
    """(what stands left, its description) of each entry of a section."""
    match = re.search(rf"^{title}:\n((?:  .*\n)+)", text + "\n", re.MULTILINE)
    entries = re.split(r"^  (?=\S)", match.group(1), flags=re.MULTILINE)[1:] if match else []
    # A description stands to the right of two blanks, or on a line of its own below.
    return [(head, " ".join(description.split()))
            for head, _, description in (re.sub(r" {2,}|\n", "\t", entry, count=1).partition("\t")
                                         for entry in entries)]


def _choices(argument, allowed):
    """@param allowed "ckpt,safetensors" or None. Without it the words in lower case of "STEP|latest"."""
    if allowed is not None:
        return tuple(allowed.split(","))
    return tuple(word for word in argument.split("|") if re.fullmatch("[a-z]+", word))


def _option(head, description):
    words = re.match(r"(-\S+)(?: ([^ -]\S*))?", head)
    # "NAME=checkpoint_", "STEP|latest=latest", "a|b:{a,b}=a"; "NAME=VALUE" is what is to be given
    argument, _, default = (words.group(2) or "").partition("=")
    if re.fullmatch("[A-Z]+", argument) and re.fullmatch("[A-Z]+", default):
        argument, default = f"{argument}={default}", ""
    argument, _, allowed = argument.partition(":")
    if re.match(r"\S+ Excludes:", head) or argument == "REQUIRED":
        argument, allowed, default = "", "", ""
    braces = re.fullmatch(r"\{(.*)\}", allowed)
    return Option(tuple(words.group(1).split(",")), argument, default,
                  "(repeatable" in description, _choices(argument, braces and braces.group(1)),
                  description)


def _run_help(binary, command):
    return subprocess.run([binary, *command, "--help"], check=True, text=True,
                          stdout=subprocess.PIPE).stdout


def read_help(binary, command):
    """@param command: a list such as ["strategy", "show"]; empty: the program's own."""
    text = _run_help(binary, command)
    usage = re.search(r"^Usage: reshardfs(.*)$", text, re.MULTILINE).group(1)
    usage = re.sub(r"\[OPTIONS\]|SUBCOMMAND", "", usage).split()
    return Help([_option(*entry) for entry in _section(text, "Options")],
                usage[len(command):], dict(_section(text, "Subcommands")))


def all_commands(binary, command=()):
    """Every command that does something, as a list of words, with its help."""
    found = read_help(binary, list(command))
    if not found.subcommands:
        return {" ".join(command): found}
    commands = {}
    for name in found.subcommands:
        commands.update(all_commands(binary, (*command, name)))
    return commands
