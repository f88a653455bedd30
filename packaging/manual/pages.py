# SPDX-License-Identifier: Apache-2.0
"""The manual page of a command, from the program's table of options and the texts in man/commands and
man/options. CONTRIBUTING.md says which text is for what."""

import re

import mdoc

# In --help, a command with fewer options has them in one list.
OPTIONS_WITHOUT_GROUPS = 9
# Commands that show a source under a target strategy, which have many texts in common.
CONVERSIONS = "conversions"
# Sections that stand behind all others, in this order.
LAST = ("EXIT STATUS", "EXAMPLES", "SEE ALSO", "CAVEATS")
OWN = "Options"
SIDES = ("First checkpoint (A)", "Second checkpoint (B)")
BOTH_SIDES = "First checkpoint (A) and second checkpoint (B)"
# Exit codes that mean the same for every command, unless its text says otherwise.
COMMON_CODES = ("0", "2", "3")


def without_comments(text):
    return re.sub(r'^\.\\".*\n', "", text, flags=re.MULTILINE)


def sections_of(text):
    """Title of each .Sh to its text; what stands before the first one has no title."""
    parts = re.split(r"^\.Sh (.+)\n", without_comments(text), flags=re.MULTILINE)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2]))}


def exit_codes(text):
    """Codes of .It lines to what they mean, and what stands behind them."""
    listed, _, rest = text.partition(".Pp\n")
    parts = re.split(r"^\.It (.+)\n", listed, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2])), rest


def names_in(option):
    """Of what it takes: FILE of FILE.toml|none."""
    return set(re.findall(r"(?<![a-z0-9.])[A-Z]+", option.argument))


class Texts:
    """The hand-written parts, and which of them were used."""

    def __init__(self, man):
        self.commands = {path.stem: path.read_text() for path in sorted((man / "commands").glob("*.man"))}
        self.options = {path.stem: without_comments(path.read_text()).rstrip("\n")
                        for path in sorted((man / "options").glob("*.man"))}
        self.used = set()

    def of_option(self, name, command, is_conversion):
        """What is to say of an option beyond its help: for every command, for conversions, for this one."""
        wanted = [name, f"{name}.{command.replace(' ', '-')}"]
        if is_conversion:
            wanted.insert(1, f"{name}.{CONVERSIONS}")
        found = [key for key in wanted if key in self.options]
        self.used.update(found)
        return [line for key in found for line in self.options[key].split("\n")]


class Writer:
    """Writes pages."""

    def __init__(self, tree, texts, version, overview):
        """@param tree: words of each command to its help.
        @param overview: the text of reshardfs(1), which says what exit codes mean and has the date."""
        self.tree, self.texts, self.version = tree, texts, version
        self.date = re.search(r"^\.Dd (.+)$", overview, re.MULTILINE)[1]
        listed = re.search(r"^\.Bl.*?\n(.*?)^\.El", sections_of(overview)["EXIT STATUS"], re.M | re.S)[1]
        self.codes = {code: text for code, text in exit_codes(listed)[0].items() if code in COMMON_CODES}

    # --- options ---------------------------------------------------------------------------------
    def option_lines(self, command, option, arguments):
        names, words = option.names, option.description
        if option.group in SIDES:
            other = "--b-" + option.long_name.removeprefix("a-")
            names, words = (*names, other), re.sub(r"\bA\b", "A or B", words).replace("--a-map", "--a-map or --b-map")
        head = " , ".join(f"Fl {name[1:]}" for name in names)
        lines = [f".It {head}" + (f" Ar {option.argument}" if option.argument else "")]
        if option.required:
            lines.append("Required.")
        repeated = re.search(r" \(repeatable(?:; ([^)]*))?\)", words)
        if repeated:
            words = words.replace(repeated[0], "")
        lines += mdoc.sentence(words, arguments | names_in(option))
        if option.choices and "|" not in option.argument:
            lines += ["Possible values:", *mdoc.listed("Cm", option.choices)]
        if option.default:
            lines += ["The default is", f".Cm {option.default} ."]
        if repeated or option.repeatable and "once per" in words:
            note = repeated[1] if repeated else ""
            lines += mdoc.sentence("May be repeated" + (f"; {note}" if note else ""), arguments)
        lines += self.texts.of_option(option.long_name, command, self.is_conversion(command))
        if option.excludes:
            others = [f".Fl -{other} " for other in option.excludes]
            lines.append("Cannot be combined with")
            lines += [other + (" ," if len(others) > 2 and i < len(others) - 2 else "")
                      for i, other in enumerate(others)]
            if len(others) > 1:
                lines.insert(len(lines) - 1, "or")
            lines[-1] += "."
        return [re.sub(r"  +", " ", line.rstrip()) for line in lines]

    def is_conversion(self, command):
        return any(option.long_name == "dst-strategy" for option in self.tree[command].options)

    def groups_of(self, command):
        """(title, options), as --help has them; the options of both sides of a comparison are one."""
        groups = {}
        options = self.tree[command].options
        for option in options:
            if option.group == SIDES[1]:
                continue
            title = BOTH_SIDES if option.group == SIDES[0] else option.group
            if title == OWN or len(options) < OPTIONS_WITHOUT_GROUPS:
                title = ""
            groups.setdefault(title, []).append(option)
        return groups.items()

    def options_lines(self, command):
        arguments = set(re.findall("[A-Z]+", " ".join(self.tree[command].positionals)))
        lines = []
        for title, options in self.groups_of(command):
            lines += [f".Ss {title}"] if title else []
            lines.append(".Bl -tag -width Ds")
            for option in options:
                lines += self.option_lines(command, option, arguments)
            lines.append(".El")
        return lines

    # --- the parts of a page ---------------------------------------------------------------------
    def synopsis_lines(self, commands):
        lines = []
        for command in commands:
            lines += [".Nm reshardfs", f".Cm {command}", ".Op Ar options"]
            for name in self.tree[command].positionals:
                lines.append(f".Op Ar {name[1:-1]}" if name.startswith("[") else f".Ar {name}")
        return lines

    def footer_parts(self, command):
        """(paragraphs, codes, examples) of what --help ends with."""
        paragraphs, codes, examples = [], {}, []
        for line in self.tree[command].footer.split("\n"):
            if found := re.match(r"Example: ?(.*)|Example:$", line):
                examples.append((found[1] or "", []))
            elif found := re.match(r"Exit status (\d+): (.+)", line):
                codes[found[1]] = "\n".join(mdoc.sentence(found[2])) + "\n"
            elif line.startswith("    ") and examples:
                examples[-1][1][-1] = examples[-1][1][-1].removesuffix("\\") + line.strip()
            elif line.startswith(" ") and examples:
                examples[-1][1].append(line.strip())
            elif line:
                paragraphs += [".Pp", *mdoc.sentence(line)]
        return paragraphs, codes, examples

    def exit_lines(self, own):
        """@param own: what the commands of the page say, in texts and in footers."""
        codes, rest = dict(self.codes), ""
        for given, text in own:
            for code, meaning in given.items():
                codes[code] = codes[code] + meaning if code in codes and code not in COMMON_CODES else meaning
            rest += text
        lines = [".Bl -tag -width Ds"]
        for code in sorted(codes, key=lambda code: int(code.split()[0])):
            lines += [f".It {code}", codes[code].rstrip("\n")]
        return [*lines, ".El", *([".Pp", rest.rstrip("\n")] if rest else [])]

    def see_also_lines(self, text):
        pages = {tuple(line.removeprefix(".Xr ").split()[:2]) for line in text.splitlines()} | {("reshardfs", "1")}
        ordered = sorted(pages, key=lambda page: (page[1], page[0]))
        return [" ,\n".join(f".Xr {name} {section}" for name, section in ordered)]

    def head_lines(self, name, summary):
        return [f".Dd {self.date}", f".Dt RESHARDFS-{name.upper()} 1", ".ds doc-volume General Commands Manual",
                f".Os {self.version}", ".Sh NAME", f".Nm reshardfs-{name}",
                f".Nd {summary[0].lower() + summary[1:]}"]

    def page(self, name):
        """Of a first word: the page of "strategy" has all commands that begin with it."""
        commands = [command for command, shown in self.tree.items()
                    if command.split()[0] == name and not shown.subcommands]
        sections = sections_of(self.texts.commands[name])
        codes, examples, ends = [], [], {title: sections.pop(title, "") for title in LAST}
        lines = ['.\\" Written by packaging/manual/generate.py.', *self.head_lines(name, self.tree[name].summary),
                 ".Sh SYNOPSIS", *self.synopsis_lines(commands),
                 ".Sh DESCRIPTION", sections.pop("DESCRIPTION").rstrip("\n")]
        details = sections.pop("OPTIONS", "")
        for command in commands:
            paragraphs, own_codes, own_examples = self.footer_parts(command)
            codes.append((own_codes, ""))
            # Among those of other commands, each says what it is for.
            examples += [(comment or ("" if command == name else self.tree[command].summary), shown)
                         for comment, shown in own_examples]
            lines.append(f".Sh {command.upper()}" if command != name else ".Sh OPTIONS")
            if command != name:
                inner = sections_of(self.texts.commands[command.replace(" ", "-")])
                lines.append(inner[""].rstrip("\n"))
                codes.append(exit_codes(inner.get("EXIT STATUS", "")))
            lines += [*self.options_lines(command), *paragraphs]
        lines += [details.rstrip("\n")] if details else []
        for title, text in sections.items():
            lines += [f".Sh {title}", text.rstrip("\n")] if title else []
        codes.append(exit_codes(ends["EXIT STATUS"]))
        lines += [".Sh EXIT STATUS", *self.exit_lines(codes), ".Sh EXAMPLES"]
        shown = ["\n".join(mdoc.example(comment, commands)) for comment, commands in examples]
        lines.append("\n.Pp\n".join([*shown, ends["EXAMPLES"].rstrip("\n")]).removesuffix("\n.Pp\n"))
        lines += [".Sh SEE ALSO", *self.see_also_lines(ends["SEE ALSO"])]
        lines += [".Sh CAVEATS", ends["CAVEATS"].rstrip("\n")] if ends["CAVEATS"] else []
        return with_own_sections("\n".join(lines) + "\n", f"reshardfs-{name}", "1")

    def commands_lines(self):
        """For reshardfs(1): each command, with a line about it."""
        lines, title = [], ""
        for name, shown in self.tree.items():
            if not name or " " in name:
                continue
            if shown.title != title:
                lines += [".El"] if title else []
                title = shown.title
                lines += [f".Ss {title}", ".Bl -tag -width Ds"]
            lines += [f".It Xr reshardfs-{name} 1", *mdoc.sentence(shown.summary)]
        return "\n".join([*lines, ".El"])

    def keys_lines(self, command):
        """For reshardfs.toml(5): each key with what its option does."""
        lines, title = [], ""
        for option in self.tree[command].options:
            if option.long_name in ("help", "config"):
                continue
            if option.group != title:
                lines += [".El"] if title else []
                title = option.group
                lines += [f".Ss {title}", ".Bl -tag -width Ds"]
            words = re.sub(r" \(repeatable(?:; ([^)]*))?\)", "", option.description)
            lines += [f".It Ic {option.long_name}", *mdoc.sentence(words, names_in(option))]
            if option.is_list:
                lines.append("A list.")
            if option.default:
                lines += ["The default is", f".Cm {option.default} ."]
        return "\n".join([*lines, ".El"])


def with_own_sections(text, name, section):
    """A reference to a section of the page itself does not name the page."""
    own = rf"^\.Dq (.+)\nin\n\.Xr {re.escape(name)} {section}(.*)$"
    return re.sub(own, r".Sx \1\2", text, flags=re.MULTILINE)
