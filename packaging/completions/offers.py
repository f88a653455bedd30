# SPDX-License-Identifier: Apache-2.0
"""What may stand where on a command line, from what --help calls it."""

import dataclasses
import re

# Their MOUNTPOINT has a mount; that of others is to get one.
MOUNTED = {"umount", "reload", "status"}
# Their FILE is one that a mount would show.
OF_A_MOUNT = {"hash", "cat"}


@dataclasses.dataclass
class Offer:
    kind: str      # files, directories, mounts, parameters, users, groups, words, list (of words),
                   # text (anything)
    words: tuple   # that are right beside those, or alone


def for_option(option):
    """@returns None for an option that takes nothing."""
    if not option.argument:
        return None
    if option.names[-1] == "--param":
        return Offer("parameters", ())
    names = set(re.split(r"\||\.\w+", option.argument))
    if names & {"FILE", "PATH"}:
        return Offer("files", option.choices)
    if "DIR" in names:
        return Offer("directories", option.choices)
    if names & {"USER", "GROUP"}:
        return Offer("users" if "USER" in names else "groups", ())
    if option.choices:
        return Offer("list" if "LIST" in names else "words", option.choices)
    return Offer("text", ())


def for_help(tree):
    """What the two words of `help COMMAND` may be: a command, and one of a command that has some."""
    names = [list(shown.subcommands) for _, shown in tree]
    first, inner = names[0], [name for group in names[1:] for name in group]
    return (Offer("words", tuple(name for name in first if name != "help")),
            Offer("words", tuple(dict.fromkeys(inner))))


def for_positional(command, name):
    """@param name: as --help has it, such as [FILE...]."""
    name = name.strip("[].")
    if name == "MOUNTPOINT":
        return Offer("mounts" if command in MOUNTED else "directories", ())
    if name == "FILE" and command in OF_A_MOUNT:
        return Offer("text", ())
    return Offer("directories" if name in ("DIR", "OUTDIR") else "files", ())


def summary(description):
    """The beginning of a description, for a list of many."""
    return re.split(r"; | \(|, e\.g\. ", description, maxsplit=1)[0]
