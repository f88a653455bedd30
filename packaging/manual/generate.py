# SPDX-License-Identifier: Apache-2.0
"""Writes reshardfs(1), reshardfs.toml(5) and a page for each command, from the program's table of options and the
texts in man/."""

import argparse
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import pages  # noqa: E402
import program_help  # noqa: E402

OVERVIEW = "reshardfs.1"
KEYS = "reshardfs.toml.5"


def command_tree(binary, command=()):
    """Each command, with a blank between its words, to its help; that of the program is left out."""
    shown = program_help.read_help(binary, list(command))
    tree = {" ".join(command): shown} if command else {}
    for name in shown.subcommands:
        tree.update(command_tree(binary, (*command, name)))
    return tree


def filled(template, values):
    """Comments of a template are about the template."""
    text = pages.without_comments(template)
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text


def write_pages(binary, man, output):
    """@returns the texts of options that no page uses."""
    version = subprocess.run([binary, "--version"], check=True, text=True, stdout=subprocess.PIPE).stdout.strip()
    templates = {name: (man / f"{name}.in").read_text() for name in (OVERVIEW, KEYS)}
    tree, texts = command_tree(binary), pages.Texts(man)
    writer = pages.Writer(tree, texts, version, templates[OVERVIEW])
    values = {"VERSION": version, "COMMANDS": writer.commands_lines(), "KEYS": writer.keys_lines("mount")}
    written = {name: filled(template, values) for name, template in templates.items()}
    for name in tree:
        if " " not in name:
            written[f"reshardfs-{name}.1"] = writer.page(name)
    for name, text in written.items():
        (output / name).write_text(text)
    return sorted(texts.options.keys() - texts.used)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--man", type=pathlib.Path, required=True, help="the folder man of the sources")
    parser.add_argument("--output", type=pathlib.Path, required=True, help="a directory")
    arguments = parser.parse_args()
    unused = write_pages(arguments.binary, arguments.man, arguments.output)
    if unused:
        sys.exit("no command has these options: " + ", ".join(f"man/options/{name}.man" for name in unused))


main()
