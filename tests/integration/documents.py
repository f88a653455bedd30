# SPDX-License-Identifier: Apache-2.0
"""README.md and the guides in docs/, whose snippets tests run. A translation of a page is left out: check_translation
compares its code with the page's. A page in another language that translates none is like any other."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def fenced(text: str) -> list[tuple[str, str]]:
    """(language, block) of each fenced block of a page in Markdown."""
    return re.findall(r"^```(\w*)\n(.*?)^```", text, re.M | re.S)


def read_pages() -> dict[str, str]:
    docs = ROOT / "docs"
    paths = [ROOT / "README.md", *sorted(docs.glob("*.md")),
             *(path for path in sorted(docs.glob("*/*.md")) if not (docs / path.name).exists())]
    return {str(path.relative_to(ROOT)): path.read_text() for path in paths}


PAGES = read_pages()


def blocks(*languages: str) -> list[tuple[str, str]]:
    """(page, block) of each block in one of the languages, page by page."""
    return [(page, block) for page, text in PAGES.items() for language, block in fenced(text)
            if language in languages]


def prose() -> str:
    """All pages without their blocks."""
    return "\n".join(re.sub(r"^```.*?^```", "", text, flags=re.M | re.S) for text in PAGES.values())


def block_that_begins(begin: str) -> str:
    (block,) = {block for text in PAGES.values() for _, block in fenced(text) if block.startswith(begin)}
    return block


def messages() -> list[str]:
    """The messages that docs/troubleshooting.md explains, where '...' stands for words that vary."""
    tables = re.findall(r"^\| message \|.*\n\|[-|]+\n((?:\|.*\n)+)", PAGES["docs/troubleshooting.md"], re.M)
    return re.findall(r"^\| `([^`]+)` \|", "".join(tables), re.M)


def is_explained(message: str) -> bool:
    return any(re.search(".*".join(map(re.escape, quoted.split("..."))), message) for quoted in messages())
