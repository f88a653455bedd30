# SPDX-License-Identifier: Apache-2.0
"""Each message that docs/troubleshooting.md quotes is one of the program's: a file in src/ has all of its words, but
for those that '...' stands for."""

import re

import report

PAGE = "docs/troubleshooting.md"
LEAST = 40   # messages; a table that is no longer found must not go unnoticed


def quoted(text):
    """The first cells of tables of messages."""
    for table in re.findall(r"^\| message \|.*\n\|[-|]+\n((?:\|.*\n)+)", text, re.M):
        for row in table.splitlines():
            yield re.match(r"\| `([^`]+)` \|", row)[1]


def literals_of(path):
    """The texts in a source file, a text over several lines as one, each on a line."""
    code = re.sub(r'"\s*\n\s*"', "", path.read_text())
    return "\n".join(text.replace('\\"', '"') for text in re.findall(r'"((?:[^"\\\n]|\\.)*)"', code))


def main():
    root = report.arguments().root
    sources = [literals_of(path) for folder in ("src", "include") for path in (root / folder).rglob("*.[ch]*")]
    messages = list(quoted((root / PAGE).read_text()))
    problems = [] if len(messages) >= LEAST else [f"{PAGE}: only {len(messages)} messages were found"]
    for message in messages:
        parts = [part.strip() for part in message.split("...") if part.strip(" ,;:()")]
        if not any(all(part in source for part in parts) for source in sources):
            problems.append(f"{PAGE}: no file in src/ has the words of '{message}'")
    report.finish(problems, f"{len(messages)} messages")


main()
