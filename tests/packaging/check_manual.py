# SPDX-License-Identifier: Apache-2.0
"""reshardfs(1) against --help, both ways: commands and what they take, options, the names of their
arguments, defaults. All pages bear the program's name and version, and mandoc finds nothing wrong
with them."""

import re
import shutil
import subprocess

import program_help
import report

# Options that several commands share have a section of their own, with a subsection for each group
# of --help. A command's section names what it accepts of them.
SHARED = "SHARED OPTIONS"
# In --help, --config is in the group of a command's own options.
UNGROUPED = "Options"
# In the manual once, before the commands.
EVERYWHERE = {"help"}


def subsections(page):
    """Title of each .Ss to its text."""
    parts = re.split(r"^\.(?:Ss|Sh) (.+)$", page, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


def documented_options(text):
    """Long name to (short name or None, argument, what follows) from the .It lines."""
    found = {}
    items = re.split(r"^\.It ", text, flags=re.MULTILINE)[1:]
    for item in items:
        head, _, body = item.partition("\n")
        match = re.fullmatch(r"(?:Fl (\w) , )?((?:Fl -[a-z0-9-]+ , )*Fl -[a-z0-9-]+)(?: Ar (\S+))?", head)
        if match:
            for name in re.findall(r"Fl -([a-z0-9-]+)", match.group(2)):
                found[name] = (match.group(1), match.group(3) or "", body)
    return found


def shared_sections(page):
    """Title of each subsection of SHARED to its options, as documented_options() has them."""
    text = re.search(rf"^\.Sh {SHARED}\n(.*?)^\.Sh ", page, re.MULTILINE | re.DOTALL).group(1)
    return {title: documented_options(body) for title, body in subsections(text).items()}


def accepted_options(text, shared):
    """Name of each shared option that a command's section accepts to its subsection: all of them, or
    those that the sentence names, by subsection or one by one. A name of neither has None."""
    sentence = re.search(rf"^([^\n]*)\n\.Sx {SHARED}\b(.*?)(?=^\.(?:Pp|Bl|El)\b|\Z)", text,
                         re.MULTILINE | re.DOTALL)
    if not sentence:
        return {}
    title_of = {name: title for title, options in shared.items() for name in options}
    if sentence.group(1).endswith("ccepts all"):
        return title_of
    titles = re.findall(r"^\.Sx (.+?)(?: [.,])?$", sentence.group(2), re.MULTILINE)
    flags = " ".join(re.findall(r"^\.Fl (.+)$", sentence.group(2), re.MULTILINE))
    names = [name for title in titles for name in shared.get(title, [title])]
    return {name: title_of.get(name) for name in names + re.findall(r"-([a-z0-9-]+)", flags)}


def synopsis(page):
    """Command to the names of what it takes."""
    text = re.search(r"^\.Sh SYNOPSIS\n(.*?)^\.Sh ", page, re.MULTILINE | re.DOTALL).group(1)
    commands = {}
    for part in text.split(".Nm\n"):
        command = re.search(r"^\.Cm (.+)$", part, re.MULTILINE)
        if command:
            takes = re.findall(r"^\.(Op )?Ar (.+)$", part, re.MULTILINE)
            commands[command.group(1)] = [f"[{name}]" if optional else name
                                          for optional, names in takes if names != "options"
                                          for name in names.split()]
    return commands


def option_problems(command, option, documented):
    name = option.long_name
    if name not in documented:
        yield f"{command} --{name}: in --help only"
        return
    short, argument, body = documented[name]
    if option.names != ((f"-{short}", f"--{name}") if short else (f"--{name}",)):
        yield f"{command} --{name}: --help has {option.names}, the manual the short name {short}"
    if argument != option.argument:
        yield f"{command} --{name}: takes {option.argument or 'nothing'}, in the manual " \
              f"{argument or 'nothing'}"
    if option.default and not re.search(rf"default\b.*?\b{re.escape(option.default)}|"
                                        rf"{re.escape(option.default)}\b.*?default", body, re.DOTALL):
        yield f"{command} --{name}: the manual lacks the default, {option.default}"
    if option.repeatable and "repeated" not in body:
        yield f"{command} --{name}: the manual does not say that it may be repeated"


def command_problems(command, help_text, sections, shared):
    section = f"reshardfs {command}"
    if section not in sections:
        yield f"{command}: the manual has no section for it"
    accepted = accepted_options(sections.get(section, ""), shared)
    own = documented_options(sections.get(section, ""))
    documented = {name: shared[title][name] for name, title in accepted.items() if title} | own
    options = [option for option in help_text.options if option.long_name not in EVERYWHERE]
    for option in options:
        yield from option_problems(command, option, documented)
        title = accepted.get(option.long_name)
        if title and option.long_name not in own and option.group not in (title, UNGROUPED):
            yield f"{command} --{option.long_name}: under {option.group}, in the manual {title}"
    for name in sorted(name for name, title in accepted.items() if not title):
        yield f"{command}: accepts {name}, which is not under {SHARED}"
    for name in sorted(documented.keys() - {option.long_name for option in options}):
        yield f"{command} --{name}: in the manual only"


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
    arguments = report.arguments("binary")
    path = arguments.root / "man/reshardfs.1"
    page = path.read_text()
    sections = subsections(page)
    shared = shared_sections(page)
    commands = program_help.all_commands(arguments.binary)
    described = synopsis(page)
    problems = [f"{name}: only in one of --help and SYNOPSIS"
                for name in sorted(commands.keys() ^ described.keys())]
    for name, help_text in commands.items():
        problems += command_problems(name, help_text, sections, shared)
        if name in described and described[name] != help_text.positionals:
            problems.append(f"{name}: takes {help_text.positionals}, in SYNOPSIS {described[name]}")
    version = subprocess.run([arguments.binary, "--version"], text=True, stdout=subprocess.PIPE,
                             check=True).stdout.strip()
    for manual in sorted((arguments.root / "man").glob("*.[1-8]")):
        problems += prologue_problems(manual, version) + lint_problems(manual)
    count = sum(len(help_text.options) for help_text in commands.values())
    report.finish(problems, f"{len(commands)} commands with {count} options are as in the manual")


main()
