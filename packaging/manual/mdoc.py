# SPDX-License-Identifier: Apache-2.0
"""Plain words of the program, such as the help of an option, as lines of mdoc."""

import re
import textwrap

WIDTH = 80
# In a display, which is indented.
COMMAND_WIDTH = 72
# What has a macro of its own: words in quotes, variables, options, pages, and names of arguments.
MARKED = re.compile(r"(?<![^\s(])(?:'(?P<Ql>[^']+)'|\$(?P<Ev>[A-Z][A-Z0-9_]+)|(?P<Fl>--?[a-z][a-z0-9-]*)|"
                    r"(?P<Xr>[a-z][a-z0-9.-]*\(\d\))|(?P<Ar>[A-Z]+))(?P<after>[.,;:)]*)(?=\s|$)")
ABBREVIATIONS = {"e.g. ": "for example "}


def _escaped(line):
    """A line of text must not begin like a macro."""
    return "\\&" + line if line.startswith((".", "'")) else line


def _macro(found):
    after = "".join(f" {mark}" for mark in found["after"])
    if found["Ql"]:
        return f".Ql {found['Ql']}{after}"
    if found["Ev"]:
        return f".Ev {found['Ev']}{after}"
    if found["Fl"]:
        return f".Fl {found['Fl'][1:]}{after}"
    if found["Xr"]:
        return f".Xr {found['Xr'].rstrip(')').replace('(', ' ')}{after}"
    return f".Ar {found['Ar']}{after}"


def text(words, arguments=()):
    """@param arguments: names that stand for what a user types, such as FILE.
    @returns lines."""
    for short, full in ABBREVIATIONS.items():
        words = words.replace(short, full)
    lines, plain = [], ""

    def end_plain():
        nonlocal plain
        lines.extend(_escaped(line) for line in textwrap.wrap(plain.strip(), WIDTH, break_on_hyphens=False))
        plain = ""

    place = 0
    for found in MARKED.finditer(words):
        if found["Ar"] and found["Ar"] not in arguments:
            continue
        plain += words[place:found.start()]
        end_plain()
        lines.append(_macro(found))
        place = found.end()
    plain += words[place:]
    end_plain()
    return lines


def sentence(words, arguments=()):
    """With a full stop."""
    return text(words[0].upper() + words[1:] + ("" if words.endswith(".") else "."), arguments)


def listed(macro, words):
    """".Cm a , b" and so on over as many lines as it takes, with a full stop."""
    lines = textwrap.wrap(" , ".join(words) + " .", WIDTH - len(macro) - 2, break_on_hyphens=False)
    return [f".{macro} {line}" for line in lines]


def _folded(command):
    """In parts of a line each. An option stays with its value."""
    parts = [""]
    for word in re.split(r" (?=-|[>&]+ )", command):
        longer = f"{parts[-1]} {word}".lstrip()
        parts[-1:] = [longer] if len(longer) <= COMMAND_WIDTH else [parts[-1], word]
    return parts


def example(comment, commands):
    """@param comment: what the commands do; may be empty.
    @param commands: lines, of which the long ones are continued."""
    lines = text(comment[0].upper() + comment[1:] + ("" if comment.endswith("?") else ":")) if comment else []
    lines.append(".Bd -literal -offset indent")
    lines += [" \\e\n    ".join(_folded(command)) for command in commands]
    return [*lines, ".Ed"]
