# SPDX-License-Identifier: Apache-2.0
"""README.zh-CN.md is README.md in Chinese: section by section the same code but for its comments, the
same commands, options, links, figures, and tables of the same size. Links lead to files that exist."""

import collections
import re

import report

NAMES = ("README.md", "README.zh-CN.md")
# The tree of a mount: names are followed by what they are.
NAME_IN_TREE = re.compile(r"^(?! {8})[│├└─ ]*\S+")
SHOWN_LINES = 5   # of each kind of difference; one line that is missing makes many
WIDE = "[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]"   # Chinese characters and punctuation


Section = collections.namedtuple("Section", "title level code prose")


def sections(text):
    """The page cut at its headings; code holds (language, lines) of each fenced or indented block."""
    found, fence, block = [Section("(top)", 0, [], [])], None, None
    for line in text.splitlines():
        current = found[-1]
        if fence is not None:
            if line == "```":
                fence = None
            else:
                current.code[-1][1].append(line)
        elif line.startswith("```"):
            fence = line[3:]
            current.code.append((fence, []))
        elif line.startswith("    "):
            if block is not current:
                current.code.append(("indented", []))
            current.code[-1][1].append(line)
            block = current
        elif heading := re.match(r"(#+) (.+)", line):
            found.append(Section(heading.group(2), len(heading.group(1)), [], []))
        else:
            current.prose.append(line)
    return found


def without_comments(language, lines):
    """A comment may be longer in one language: its lines count as one."""
    if not language:
        names = (NAME_IN_TREE.match(line) for line in lines)
        return [name.group() for name in names if name]
    bare = [re.sub(r"(^|  )# .*", r"\1#", line) for line in lines]
    return [line for line, before in zip(bare, ["", *bare]) if line != "#" or before != "#"]


def tables(lines):
    """Columns of each row of tables."""
    return [str(len(re.split(r"(?<!\\)\|", line)) - 2) for line in lines if line.startswith("|")]


def facts(section):
    """What must be equal in both languages: name to list of texts."""
    prose = "\n".join(section.prose)
    code = re.findall(r"`[^`]+`", prose.replace("\n", " "))
    links = re.findall(r"\]\(([^)]+)\)", prose)
    plain = re.sub(r"`[^`]+`|\]\([^)]*\)", "", prose)
    return {
        "level of heading": [str(section.level)],
        "code block": [line for language, lines in section.code
                       for line in [f"```{language}", *without_comments(language, lines)]],
        "columns of the row": tables(section.prose),
        "link": sorted(link for link in links if link not in NAMES),
        "word of code": sorted(set(code)),
        # Words for numbers are no figures.
        "figure": sorted(re.findall(r"\d[\d.,]*\d|\d", plain)),
    }


def differences(english, chinese):
    titles = f"'{english.title}' and '{chinese.title}'"
    theirs = facts(chinese)
    for what, ours in facts(english).items():
        if ours == theirs[what]:
            continue
        missing = collections.Counter(ours) - collections.Counter(theirs[what])
        added = collections.Counter(theirs[what]) - collections.Counter(ours)
        for name, lines in zip(NAMES, (missing, added)):
            for line in list(lines.elements())[:SHOWN_LINES]:
                yield f"{titles}: only {name} has the {what} {line.strip()}"
        if not missing and not added:
            yield f"{titles}: {what}s are the same, but in another order"


def link_problems(root, name, text):
    other = NAMES[1 - NAMES.index(name)]
    if f"({other})" not in "\n".join(text.splitlines()[:4]):
        yield f"{name}: no link to {other} at its top"
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        if not (root / target).exists():
            yield f"{name}: links to {target}, which is not there"


def main():
    arguments = report.arguments()
    texts = [(arguments.root / name).read_text() for name in NAMES]
    problems = []
    for name, text in zip(NAMES, texts):
        problems += link_problems(arguments.root, name, text)
    pages = [sections(text) for text in texts]
    if len(pages[0]) != len(pages[1]):
        for name, page in zip(NAMES, pages):
            problems.append(f"{name} has the {len(page)} sections "
                            f"{', '.join(section.title for section in page)}")
    else:
        for english, chinese in zip(*pages):
            problems += differences(english, chinese)
    # It would be shown as a blank.
    problems += [f"{NAMES[1]}: a line break within the sentence: {line}"
                 for line in re.findall(f"^.*{WIDE}\n(?={WIDE}).*", texts[1], re.MULTILINE)]
    report.finish(problems, f"{len(pages[0])} sections")


main()
