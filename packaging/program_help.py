# SPDX-License-Identifier: Apache-2.0
"""The program's commands and options, from its own table of them."""

import dataclasses
import functools
import json
import re
import subprocess


@dataclasses.dataclass
class Option:
    names: tuple      # ("-v", "--verbose")
    argument: str     # "FILE|DIR", empty for a flag
    default: str      # empty: there is none
    repeatable: bool
    choices: tuple    # the words that it takes, all of them if nothing else fits; often empty
    description: str
    group: str        # the title above it in --help, such as "Source"
    required: bool = False
    excludes: tuple = ()   # names of options that may not stand beside it
    is_number: bool = False
    is_list: bool = False  # in a file of options

    @property
    def long_name(self):
        return self.names[-1].lstrip("-")


@dataclasses.dataclass
class Help:
    options: list
    positionals: list   # as the usage line has them
    subcommands: dict   # name to description
    title: str = ""     # what --help of the program lists it below
    summary: str = ""
    footer: str = ""    # what --help ends with: examples, and what else there is to say


@functools.lru_cache
def _table(binary):
    """Name to command, as the program has it."""
    done = subprocess.run([binary, "__complete", "options"], check=True, text=True,
                          stdout=subprocess.PIPE)
    return {command["name"]: command for command in json.loads(done.stdout)}


def _option(row):
    # Without a list of choices, the words in lower case of "STEP|latest".
    choices = row["choices"] or [word for word in row["type"].split("|")
                                 if re.fullmatch("[a-z]+", word)]
    names = ([f"-{row['letter']}"] if row["letter"] else []) + [f"--{row['name']}"]
    return Option(tuple(names), row["type"], row["default"], row["repeatable"] and not row["list"],
                  tuple(choices), row["help"], row["group"], row["required"], tuple(row["excludes"]),
                  row["number"], row["repeatable"] or row["list"])


def _positional(argument):
    """As the usage line has it: "SOURCE", "[FILE...]"."""
    name = argument["name"] + ("..." if argument["many"] else "")
    return name if argument["required"] else f"[{name}]"


def read_help(binary, command):
    """@param command: a list such as ["strategy", "show"]; empty: the program's own."""
    table = _table(binary)
    above = " ".join(command)
    row = table[above]
    below = {name.removeprefix(above).strip(): inner["summary"] for name, inner in table.items()
             if name and name != above and name.startswith(above and above + " ")
             and " " not in name.removeprefix(above).strip()}
    return Help([_option(option) for option in row["options"]],
                [_positional(argument) for argument in row["arguments"]], below, row["title"],
                row["summary"], row["footer"])


def all_commands(binary, command=()):
    """Every command that does something, as a list of words, with its help."""
    found = read_help(binary, list(command))
    if not found.subcommands:
        return {" ".join(command): found}
    commands = {}
    for name in found.subcommands:
        commands.update(all_commands(binary, (*command, name)))
    return commands
