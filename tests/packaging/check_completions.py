# SPDX-License-Identifier: Apache-2.0
"""The completions of bash, zsh and fish have the commands and long options that --help has, no more
and no less; and each of these shells that is installed accepts its file."""

import pathlib
import re
import shutil
import subprocess

import program_help
import report

SYNTAX = {"reshardfs.bash": ["bash", "-n"], "_reshardfs": ["zsh", "-n"],
          "reshardfs.fish": ["fish", "--no-execute"]}
# Completes "reshardfs WORD... --" and "reshardfs WORD... " for the words of each line.
BASH = """. "$1"
compopt() { :; }
_reshardfs_mounts() { :; }
while read -r -a words; do
  for last in -- ''; do
    COMP_WORDS=(reshardfs "${words[@]}" "$last") COMP_CWORD=$((${#words[@]} + 1))
    _reshardfs reshardfs "$last"
    echo "${COMPREPLY[*]}"
  done
done"""


def commands_of(binary, command=()):
    """Words of each command, groups and the program itself among them, to its help."""
    shown = program_help.read_help(binary, list(command))
    found = {command: shown}
    for name in shown.subcommands:
        found.update(commands_of(binary, (*command, name)))
    return found


def offered_by_bash(path, commands):
    """Command to (long options, subcommands): what bash really completes."""
    done = subprocess.run(["bash", "-c", BASH, "bash", path], check=True, text=True,
                          input="".join(" ".join(command) + "\n" for command in commands),
                          stdout=subprocess.PIPE)
    lines = done.stdout.split("\n")
    offered = {}
    for number, command in enumerate(commands):
        options, words = lines[2 * number].split(), lines[2 * number + 1].split()
        # Where no argument is expected, options are offered again.
        offered[command] = ({option.lstrip("-") for option in options},
                            {word for word in words if not word.startswith("-")})
    return offered


def offered_by_zsh(path):
    offered = {}
    for name, body in re.findall(r"^_reshardfs((?:_\w+)*)\(\) \{\n(.*?)^\}", path.read_text(),
                                 re.MULTILINE | re.DOTALL):
        if "--help" not in body:
            continue  # a helper
        # '(-j --jobs)'{-j+,--jobs=}'[...' or '(--json)''--json''[...'
        names = re.findall(r"^ +'[^']*'(\{\S+\}|'\S+')'\[", body, re.MULTILINE)
        offered[tuple(name.strip("_") for name in name.split("_")[1:])] = (
            {option for name in names for option in re.findall(r"--([a-z0-9-]+)", name)},
            set(re.findall(r"^ +'(\w+):", body.partition("commands=(")[2], re.MULTILINE)))
    return offered


def offered_by_fish(path):
    offered = {}
    for condition, rest in re.findall(r"^complete -c reshardfs -n '__reshardfs_at ?(.*?)'(.*)$",
                                      path.read_text(), re.MULTILINE):
        options, words = offered.setdefault(tuple(condition.split()), (set(), set()))
        options.update(re.findall(r"^(?: -s \w)? -l (\S+)", rest))
        words.update(re.findall(r"^ -a (\w+) -d", rest))
    return offered


def differences(name, offered, commands):
    for command in sorted(offered.keys() ^ commands.keys()):
        yield f"{name}: 'reshardfs {' '.join(command)}' is in only one of it and --help"
    for command in offered.keys() & commands.keys():
        shown = commands[command]
        words = set(shown.subcommands)
        if command == ("help",) and name == "reshardfs.bash":
            words = set(commands[()].subcommands) - {"help"}  # its arguments
        expected = ({option.long_name for option in shown.options}, words)
        for what, have, want in zip(("--", ""), offered[command], expected):
            for word in sorted(have ^ want):
                where = "only in it" if word in have else "only in --help"
                yield f"{name}: {what}{word} of 'reshardfs {' '.join(command)}' is {where}"


def syntax_problems(path):
    checker = SYNTAX[path.name]
    if not shutil.which(checker[0]):
        return []
    done = subprocess.run([*checker, path], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    return done.stdout.splitlines() or ([f"{path.name}: {checker[0]} refuses it"]
                                        if done.returncode else [])


def main():
    arguments = report.arguments("binary", "completions")
    folder = pathlib.Path(arguments.completions)
    if not all((folder / name).is_file() for name in SYNTAX):
        report.finish([f"{folder}: not written yet; build the target 'completions'"], "")
    commands = commands_of(arguments.binary)
    problems = []
    for name in SYNTAX:
        problems += syntax_problems(folder / name)
    offered = {"reshardfs.bash": offered_by_bash(folder / "reshardfs.bash", commands),
               "_reshardfs": offered_by_zsh(folder / "_reshardfs"),
               "reshardfs.fish": offered_by_fish(folder / "reshardfs.fish")}
    for name, what in offered.items():
        problems += differences(name, what, commands)
    count = sum(len(shown.options) for shown in commands.values())
    report.finish(problems, f"{len(commands)} commands with {count} options, in three shells")


main()
