# SPDX-License-Identifier: Apache-2.0
"""docs/troubleshooting.md and the program agree. Each message that the page quotes is one of the program's: a file in
src/ has all of its words, but for those that '...' stands for. Each message of the program either says itself what to
do, or the page quotes it, or belongs to a group that the page has a line for."""

import re

import report
import source_messages

PAGE = "docs/troubleshooting.md"
LEAST = 100     # quoted messages; a table that is no longer found must not go unnoticed
SHORTEST = 9   # letters of an entry; fewer would fit messages of any kind
SITES = 900     # messages in the sources; likewise

# A message says what to do if a hint follows it, it names an option, or it states what must be there instead.
ADVICE = re.compile(r"--[a-z]|, expected |; see | must (?!not )|, as in |\b(use|give|choose|run|remove|export them) ")

# Lines of the page's table of groups: the kinds of errors, and where they are found.
GROUPS = {
    "bytes of a checkpoint's file": ({"BadInput"}, r"src/(format|storage|base)/"),
    "files of a checkpoint that contradict each other": (
        {"BadInput", "Missing"}, r"src/(checkpoint/(?!ranks|series)|plan/)"),
    "a map, rules, a strategy or a name map": (
        {"BadInput"}, r"src/(modelmap|strategy|layout|conversion|cli|view|plan/target)/"),
    "the configuration file": ({"Usage"}, r"src/cli/words/config_"),
    "a form that is not supported": ({"Unsupported"}, r"src/"),
    "the answer of a server": ({"BadInput", "Io"}, r"src/(transport|storage/remote)/"),
    "processes that hand a mount over": (
        {"BadInput", "Io", "Unsupported"}, r"src/(daemon/handover|cli/reload|fuse/mounting/fuse_socket)"),
    "a bug": ({"Internal"}, r"src/"),
}


def rows(text, heading):
    """The first cells of the tables with this heading."""
    for table in re.findall(rf"^\| {heading} \|.*\n\|[-|]+\n((?:\|.*\n)+)", text, re.M):
        for row in table.splitlines():
            yield row.split(" |")[0][2:]


def parts_of(quoted):
    return [part.strip() for part in quoted.split("...") if part.strip(" ,;:()'")]


def literals_of(path):
    """The texts in a source file, a text over several lines as one, each on a line."""
    code = source_messages.code_of(path)
    return "\n".join(text.replace('\\"', '"') for text in re.findall(r'"((?:[^"\\\n]|\\.)*)"', code))


def quotes(quoted, words):
    """Whether a message has the parts of an entry, in their order."""
    return re.search(".*".join(re.escape(part) for part in parts_of(quoted)), words) is not None


def in_group(message, path):
    return any(message.kind in kinds and re.match(place, path) for kinds, place in GROUPS.values())


def main():
    root = report.arguments().root
    page = (root / PAGE).read_text()
    sources = [literals_of(path) for folder in ("src", "include") for path in (root / folder).rglob("*.[ch]*")]
    entries = [cell.strip("`") for cell in rows(page, "message")]
    problems = [] if len(entries) >= LEAST else [f"{PAGE}: only {len(entries)} messages were found"]
    for entry in entries:
        if len("".join(parts_of(entry))) < SHORTEST:
            problems.append(f"{PAGE}: '{entry}' has too few words to be found")
        if not any(all(part in source for part in parts_of(entry)) for source in sources):
            problems.append(f"{PAGE}: no file in src/ has the words of '{entry}'")

    groups = set(rows(page, "the message is about"))
    problems += [f"{PAGE}: there is no line for messages about {group}" for group in sorted(GROUPS.keys() ^ groups)]
    messages = list(source_messages.all_messages(root))
    if len(messages) < SITES:
        problems.append(f"src: only {len(messages)} messages were found")
    for message in messages:
        path = str(message.path.relative_to(root))
        if not (message.advised or ADVICE.search(message.words) or in_group(message, path)
                or any(quotes(entry, message.words) for entry in entries)):
            problems.append(f"{path}: '{message.words}' neither says what to do nor has an entry in {PAGE}")
    report.finish(problems, f"{len(entries)} entries, {len(messages)} messages")


main()
