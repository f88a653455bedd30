# SPDX-License-Identifier: Apache-2.0
"""The manual pages: every command has one, with each of its options once and no other; what a page refers to is
there, a page or a section of one; all pages bear the program's name and version, and mandoc finds nothing wrong
with them."""

import collections
import pathlib
import re
import shutil
import subprocess

import program_help
import report

# What refers to pages, beside the pages: folders, and what the names of their files end with.
TEXTS = {"src": (".cpp", ".h"), "include": (".h",), "docs": (".md",), "config": (".toml",), ".": (".md",),
         "packaging": (".in", ".sh"), "python": (".py", ".pyi", ".cpp")}
# On the page of a command, options stand below this title; where a page has several commands, each has its own.
OPTIONS = "OPTIONS"
# Of other programs, in what a command explains.
FOREIGN_OPTIONS = {"ckpt-format"}


def sections(page):
    """Title of each .Sh and .Ss to its text, up to the next .Sh or .Ss."""
    parts = re.split(r"^\.(?:Sh|Ss) (.+)\n", page, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


def listed_options(page, title):
    """Long name to how often an .It line below a title has it, up to the next .Sh."""
    found = re.search(rf"^\.Sh {re.escape(title)}\n(.*?)(?=^\.Sh |\Z)", page, re.M | re.S)
    items = re.findall(r"^\.It (?:Fl \w , )?((?:Fl -[a-z0-9-]+ ?,? ?)+)", found[1], re.M) if found else []
    return collections.Counter(name for item in items for name in re.findall(r"Fl -([a-z0-9-]+)", item))


def command_problems(commands, pages):
    """@param pages: "reshardfs.1" and so on to texts."""
    for command, shown in commands.items():
        first = command.split()[0]
        page = pages.get(f"reshardfs-{first}.1")
        if page is None:
            yield f"{command}: there is no page reshardfs-{first}(1)"
            continue
        if f".Cm {command}\n" not in sections(page)["SYNOPSIS"]:
            yield f"reshardfs-{first}(1): {command} is missing in SYNOPSIS"
        listed = listed_options(page, OPTIONS if command == first else command.upper())
        have = {option.long_name for option in shown.options}
        for name in sorted(have | listed.keys()):
            if listed[name] != (name in have):
                yield f"reshardfs-{first}(1): {command} --{name} is there {listed[name]} times, not {name in have:d}"


def text_problems(root, commands):
    """Hand-written parts that belong to nothing."""
    names = {command.replace(" ", "-") for command in commands} | {command.split()[0] for command in commands}
    for path in (root / "man/commands").iterdir():
        if path.suffix != ".man" or path.stem not in names:
            yield f"man/commands/{path.name}: there is no such command"


def option_problems(name, page, known):
    for option in sorted(set(re.findall(r"\bFl -([a-z][a-z0-9-]*)", page)) - known - FOREIGN_OPTIONS):
        yield f"{name}: there is no option --{option}"


def reference_problems(name, page, pages):
    for other, section in re.findall(r"^\.Xr (reshardfs\S*|mount\.reshardfs) (\d)", page, re.M):
        if f"{other}.{section}" not in pages:
            yield f"{name}: refers to {other}({section}), which is not there"
    for title, other, section in re.findall(r"^\.Dq (.+)\nin\n\.Xr (\S+) (\d)", page, re.M):
        if title not in sections(pages.get(f"{other}.{section}", "")):
            yield f"{name}: {other}({section}) has no section '{title}'"
    for title in re.findall(r"\.Sx (.+?)(?: [.,;:)])*$", page, re.M):
        if title not in sections(page):
            yield f"{name}: has no section '{title}'"


def mention_problems(root, pages):
    """Messages, documents and comments that send readers to a page."""
    for folder, endings in TEXTS.items():
        below = (root / folder).iterdir() if folder == "." else (root / folder).rglob("*")
        for path in (path for path in below if path.suffix in endings):
            for other, section in set(re.findall(r"\b((?:mount\.)?reshardfs[a-z.-]*)\((\d)\)", path.read_text())):
                if f"{other}.{section}" not in pages:
                    yield f"{path.relative_to(root)}: names {other}({section}), which is not there"


def lint_problems(path):
    if not shutil.which("mandoc"):
        return []
    messages = subprocess.run(["mandoc", "-T", "lint", path], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT).stdout.splitlines()
    # Whether the machine has an index of its manuals says nothing about this one. A page that names
    # its program in place of a system is wrong in NetBSD's own manuals alone.
    ignored = ("mandoc.db", "referenced manual not found", "operating system explicitly specified")
    return [line for line in messages if not any(words in line for words in ignored)]


def prologue_problems(path, version):
    """The footer names the program and its version; .ds keeps groff 1.22 from heading a page "BSD"."""
    found = re.search(r"^\.Dd \w+ \d+, \d{4}\n\.Dt (\S+) (\d)\n\.ds doc-volume [^\n]+ Manual\n\.Os (.+)\n",
                      path.read_text(), re.MULTILINE)
    if not found:
        return [f"{path.name}: does not begin with .Dd, .Dt, .ds doc-volume and .Os"]
    problems = []
    if f"{found.group(1)}.{found.group(2)}" != f"{path.stem.upper()}{path.suffix}":
        problems.append(f"{path.name}: .Dt has {found.group(1)} {found.group(2)}")
    if found.group(3) != version:
        problems.append(f"{path.name}: .Os has {found.group(3)}, but this is {version}")
    return problems


def main():
    arguments = report.arguments("binary", "pages")
    written = sorted(pathlib.Path(arguments.pages).glob("*.[1-8]"))
    if not written:
        report.finish([f"{arguments.pages}: nothing is written yet; build the target 'manual'"], "")
    paths = [*written, *sorted((arguments.root / "man").glob("*.[1-8]"))]
    pages = {path.name: path.read_text() for path in paths}
    commands = program_help.all_commands(arguments.binary)
    known = {option.long_name for shown in commands.values() for option in shown.options} | {"version"}
    version = subprocess.run([arguments.binary, "--version"], text=True, stdout=subprocess.PIPE,
                             check=True).stdout.strip()
    problems = [*command_problems(commands, pages), *text_problems(arguments.root, commands),
                *mention_problems(arguments.root, pages)]
    for path in paths:
        problems += prologue_problems(path, version) + lint_problems(path)
        problems += [*option_problems(path.name, pages[path.name], known),
                     *reference_problems(path.name, pages[path.name], pages)]
    count = sum(len(shown.options) for shown in commands.values())
    report.finish(problems, f"{len(commands)} commands with {count} options on {len(pages)} pages")


main()
