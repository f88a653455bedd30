# SPDX-License-Identifier: Apache-2.0
"""README.zh-CN.md is README.md in Chinese, and docs/zh-CN/NAME.md is docs/NAME.md: section by section the same
code but for its comments, the same commands, options, links, figures, and tables of the same size. A guide
in Chinese alone has no page to be compared with."""

import collections
import os.path
import re

import report

CHINESE = "docs/zh-CN"
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


def links(text, name, translated):
    """Where links lead, from the root: to the page itself and not to its translation, or to a guide that is in
    Chinese alone."""
    for target in re.findall(r"\]\(([^)]+)\)", text):
        path, mark, anchor = target.partition("#")
        path = os.path.normpath(os.path.join(os.path.dirname(name), path)) if path and ":" not in path else path
        path = translated.get(path, path)
        if not path.startswith(CHINESE):
            # A heading is called otherwise in the other language.
            yield path + mark if path.endswith(".md") else path + mark + anchor


def facts(section, name, translated):
    """What must be equal in both languages: name to list of texts."""
    prose = "\n".join(section.prose)
    code = re.findall(r"`[^`]+`", prose.replace("\n", " "))
    plain = re.sub(r"`[^`]+`|\]\([^)]*\)", "", prose)
    return {
        "level of heading": [str(section.level)],
        "code block": [line for language, lines in section.code
                       for line in [f"```{language}", *without_comments(language, lines)]],
        "columns of the row": tables(section.prose),
        "link": sorted(links(prose, name, translated)),
        "word of code": sorted(set(code)),
        # Words for numbers are no figures.
        "figure": sorted(re.findall(r"\d[\d.,]*\d|\d", plain)),
    }


def differences(english, chinese, names, translated):
    titles = f"'{english.title}' and '{chinese.title}'"
    theirs = facts(chinese, names[1], translated)
    for what, ours in facts(english, names[0], translated).items():
        if ours == theirs[what]:
            continue
        missing = collections.Counter(ours) - collections.Counter(theirs[what])
        added = collections.Counter(theirs[what]) - collections.Counter(ours)
        for name, lines in zip(names, (missing, added)):
            for line in list(lines.elements())[:SHOWN_LINES]:
                yield f"{titles}: only {name} has the {what} {line.strip()}"
        if not missing and not added:
            yield f"{titles}: {what}s are the same, but in another order"


def other_problems(text, name, other):
    if f"({os.path.relpath(other, os.path.dirname(name) or '.')})" not in "\n".join(text.splitlines()[:4]):
        yield f"{name}: no link to {other} at its top"


def page_problems(root, names, translated):
    texts = [(root / name).read_text() for name in names]
    for text, name, other in zip(texts, names, reversed(names)):
        yield from other_problems(text, name, other)
    pages = [sections(text) for text in texts]
    if len(pages[0]) != len(pages[1]):
        for name, page in zip(names, pages):
            yield f"{name} has the {len(page)} sections {', '.join(section.title for section in page)}"
        return
    for english, chinese in zip(*pages):
        yield from differences(english, chinese, names, translated)


def break_problems(name, text):
    """It would be shown as a blank."""
    for line in re.findall(f"^.*{WIDE}\n(?={WIDE}).*", text, re.MULTILINE):
        yield f"{name}: a line break within the sentence: {line}"


def main():
    root = report.arguments().root
    guides = sorted(path.name for path in (root / CHINESE).glob("*.md"))
    # The page in Chinese to the one in English.
    translated = {"README.zh-CN.md": "README.md"}
    translated |= {f"{CHINESE}/{name}": f"docs/{name}" for name in guides if (root / "docs" / name).exists()}
    problems = []
    for chinese, english in translated.items():
        problems += page_problems(root, (english, chinese), translated)
    for name in ("README.zh-CN.md", *(f"{CHINESE}/{name}" for name in guides)):
        problems += break_problems(name, (root / name).read_text())
    report.finish(problems, f"{len(translated)} pages")


main()
