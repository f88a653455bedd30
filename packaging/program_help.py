# SPDX-License-Identifier: Apache-2.0
"""Reads what `reshardfs COMMAND --help` prints."""

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
    group: str        # the title above it, such as "Source"

    @property
    def long_name(self):
        return self.names[-1].lstrip("-")


@dataclasses.dataclass
class Help:
    options: list
    positionals: list   # as the usage line has them
    subcommands: dict   # name to description


def _entries(text):
    """(title above, what stands left, its description) of each option and command."""
    sections = re.split(r"^(\S.*):\n(?=  )", text, flags=re.MULTILINE)
    for title, body in zip(sections[1::2], sections[2::2]):
        if title in ("Arguments", "Example", "Examples"):
            continue
        body = body.partition("\n\n")[0] + "\n"
        for entry in re.split(r"^  (?=\S)", body, flags=re.MULTILINE)[1:]:
            # A description stands to the right of two blanks, or on a line of its own below.
            head, _, description = re.sub(r" {2,}|\n", "\t", entry, count=1).partition("\t")
            yield title, head, " ".join(description.split())


def _bracketed(name, description):
    """What stands in "[name: ...]", and the description without it."""
    match = re.search(rf" \[{name}: (.*?)\]", description)
    return (match.group(1), description.replace(match.group(), "")) if match else ("", description)


def _option(title, head, description):
    words = re.fullmatch(r"((?:-\S, )?--\S+)(?: (\S+))?", head)
    argument = words.group(2) or ""
    default, description = _bracketed("default", description)
    values, description = _bracketed("possible values", description)
    # Without a list of values, the words in lower case of "STEP|latest".
    choices = values.split(", ") if values else [
        word for word in argument.split("|") if re.fullmatch("[a-z]+|[0-9.]+", word)]
    if re.fullmatch("[A-Z0-9-]+(\\|[A-Z0-9-]+)+", argument) and "-" in argument:
        choices = argument.split("|")
    return Option(tuple(words.group(1).split(", ")), argument, default,
                  "(repeatable" in description, tuple(choices), description, title)


def _run_help(binary, command):
    return subprocess.run([binary, *command, "--help"], check=True, text=True,
                          stdout=subprocess.PIPE).stdout


def read_help(binary, command):
    """@param command: a list such as ["strategy", "show"]; empty: the program's own."""
    text = _run_help(binary, command)
    usage = re.search(r"^Usage: reshardfs(.*)$", text, re.MULTILINE).group(1)
    usage = [word for word in usage.split() if word not in ("[OPTIONS]", "COMMAND")]
    entries = list(_entries(text))
    return Help([_option(*entry) for entry in entries if entry[1].startswith("-")],
                usage[len(command):],
                {head: text for _, head, text in entries if not head.startswith("-")})


def all_commands(binary, command=()):
    """Every command that does something, as a list of words, with its help."""
    found = read_help(binary, list(command))
    if not found.subcommands:
        return {" ".join(command): found}
    commands = {}
    for name in found.subcommands:
        commands.update(all_commands(binary, (*command, name)))
    return commands
