# SPDX-License-Identifier: Apache-2.0
"""Commands and options in the words of bash, zsh and fish: what replaces @NAME@ in their templates.

Each function takes the tree of commands: a list of (words of the command, its Help), groups first.
"""

import re

import offers


def _argument_offers(tree, command, shown):
    """(number or "+", name, offer) of each argument."""
    if command == ("help",):
        for number, offer in enumerate(offers.for_help(tree), 1):
            yield number, "COMMAND", offer
        return
    for number, name in enumerate(shown.positionals, 1):
        yield ("+" if name.rstrip("]").endswith("...") else number), name.strip("[]."), \
            offers.for_positional(" ".join(command), name)


# --- bash ----------------------------------------------------------------------------------------


def _bash_entry(key, words):
    return f'  ["{" ".join(("reshardfs", *key))}"]="{" ".join(words)}"'


def bash(tree):
    subcommands, options, takes = [], [], []
    for command, shown in tree:
        if shown.subcommands:
            subcommands.append(_bash_entry(command, shown.subcommands))
        options.append(_bash_entry(command, (",".join(option.names) + "*" * option.repeatable
                                             for option in shown.options)))
        for option in shown.options:
            if offer := offers.for_option(option):
                takes += [_bash_entry((*command, name), (offer.kind, *offer.words))
                          for name in option.names]
        takes += [_bash_entry((*command, str(number)), (offer.kind, *offer.words))
                  for number, _, offer in _argument_offers(tree, command, shown)]
    return {"SUBCOMMANDS": "\n".join(subcommands), "OPTIONS": "\n".join(options),
            "TAKES": "\n".join(takes)}


# --- zsh -----------------------------------------------------------------------------------------

ZSH_ACTIONS = {"files": "_files", "directories": "_files -/", "mounts": " _reshardfs_mounts",
               "users": "_users", "groups": "_groups", "text": " ",
               "parameters": " _reshardfs_parameters"}


def _zsh_quoted(text):
    return "'" + text.replace("'", r"'\''") + "'"


def _zsh_escaped(text):
    return re.sub(r"([\\:\[\]])", r"\\\1", text)


def _zsh_action(offer):
    words = " ".join(offer.words)
    if offer.kind == "words":
        return f"({words})"
    if offer.kind == "list":
        return f" _sequence compadd - {words}"
    if offer.words:
        return f" _reshardfs_files_or {words}"
    return ZSH_ACTIONS[offer.kind]


def _zsh_option(option):
    names = option.names
    offer = offers.for_option(option)
    ends, value = {}, ""
    if offer:
        ends = {name: "=" if name.startswith("--") else "+" for name in names}
        value = f":{_zsh_escaped(option.argument)}:{_zsh_action(offer)}"
    what = _zsh_quoted(f"[{_zsh_escaped(offers.summary(option.description))}]{value}")
    spelled = [name + ends.get(name, "") for name in names]
    if option.repeatable:
        before = "'*'"
    elif names[-1] in ("--help", "--version"):
        before = "'(- *)'"
    else:
        before = f"'({' '.join(names)})'"
    middle = f"{{{','.join(spelled)}}}" if len(spelled) > 1 else f"'{spelled[0]}'"
    return before + middle + what


def _zsh_function(tree, command, shown):
    name = "_".join(("_reshardfs", *command))
    specs = [_zsh_option(option) for option in shown.options]
    if shown.subcommands:
        lines = ["local -a options_here=(", *(f"  {spec}" for spec in specs), ")",
                 "local -a commands=(",
                 *(f"  {_zsh_quoted(f'{word}:{_zsh_escaped(text)}')}"
                   for word, text in shown.subcommands.items()), ")", f"_reshardfs_choose {name}"]
    else:
        configured = any(option.names[-1] == "--config" for option in shown.options)
        for number, argument, offer in _argument_offers(tree, command, shown):
            place = "*" if number == "+" else str(number)
            action = _zsh_action(offer)
            if number == 1 and configured and offer.kind == "files":
                action = " _reshardfs_named_mounts_or_files"
            specs.append(_zsh_quoted(f"{place}:{argument}:{action}"))
        lines = ["_arguments -s \\", *(f"  {spec} \\" for spec in specs[:-1]), f"  {specs[-1]}"]
    return "\n".join([f"{name}() {{", *("  " + line for line in lines), "}"])


def zsh(tree):
    return {"COMMANDS": "\n\n".join(_zsh_function(tree, *entry) for entry in tree)}


# --- fish ----------------------------------------------------------------------------------------

FISH_ACTIONS = {"directories": "(__fish_complete_directories)", "mounts": "(__reshardfs_mounts)",
                "users": "(__fish_complete_users)", "groups": "(__fish_complete_groups)",
                "parameters": "(__reshardfs_parameters)"}


def _fish_quoted(text):
    return "'" + re.sub(r"(['\\])", r"\\\1", text) + "'"


def _fish_values(offer):
    words = " ".join(offer.words)
    if offer.kind == "files":
        return f" -F -a {_fish_quoted(words)}" if words else " -F"
    if offer.kind == "list":
        words = f"(__fish_append , {words})"
    words = " ".join(filter(None, (FISH_ACTIONS.get(offer.kind), words)))
    return f" -f -a {_fish_quoted(words)}" if words else " -f"


def _fish_lines(tree, command, shown):
    start = f"complete -c reshardfs -n {_fish_quoted(' '.join(('__reshardfs_at', *command)))}"
    for word, text in shown.subcommands.items():
        yield f"{start} -a {word} -d {_fish_quoted(offers.summary(text))}"
    kinds = {}
    for _, _, offer in _argument_offers(tree, command, shown):
        known = kinds.get(offer.kind, offers.Offer(offer.kind, ()))
        kinds[offer.kind] = offers.Offer(offer.kind,
                                         tuple(dict.fromkeys((*known.words, *offer.words))))
    if "files" in kinds:
        kinds.pop("directories", None)  # are among the files
    for offer in kinds.values():
        yield start + _fish_values(offer)
    if kinds and any(option.names[-1] == "--config" for option in shown.options):
        yield start + " -f -a '(__reshardfs_named_mounts)'"
    for option in shown.options:
        names = "".join(f" -l {name[2:]}" if name.startswith("--") else f" -s {name[1:]}"
                        for name in option.names)
        offer = offers.for_option(option)
        yield f"{start}{names}{' -r' + _fish_values(offer) if offer else ''} " \
              f"-d {_fish_quoted(offers.summary(option.description))}"


def fish(tree):
    groups = [_fish_quoted(" ".join(command)) for command, shown in tree
              if command and shown.subcommands]
    return {"GROUPS": " ".join(groups),
            "COMMANDS": "\n".join(line for entry in tree for line in _fish_lines(tree, *entry))}
