# SPDX-License-Identifier: Apache-2.0
"""Links between pages lead to files and headings that are there, and a reader of README.md comes to every guide."""

import re
import urllib.parse

import report

# Links of these lead to other places of the world.
FOREIGN = re.compile(r"[a-z]+:")


def without_code(text):
    return re.sub(r"^```.*?^```|`[^`\n]*`", "", text, flags=re.M | re.S)


def anchors_of(text):
    """As GitHub makes them of headings."""
    found = set()
    for heading in re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M):
        heading = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", heading).replace(" ", "-")
        number = 0
        while (name := f"{anchor}-{number}" if number else anchor) in found:
            number += 1
        found.add(name)
    return found


def targets_of(text):
    """Of links and pictures."""
    return re.findall(r"\]\(([^)\s]+)\)|(?:src|srcset|href)=\"([^\"]+)\"", without_code(text))


def problems_of(page, root, reached):
    for target in ("".join(pair) for pair in targets_of(page.read_text())):
        if FOREIGN.match(target):
            continue
        path, _, anchor = urllib.parse.unquote(target).partition("#")
        leads = (page.parent / path).resolve() if path else page
        if not leads.exists() or not leads.is_relative_to(root):
            yield f"links to {target}, which is not there"
        elif anchor and anchor not in anchors_of(leads.read_text()):
            yield f"links to {target}: there is no such heading"
        reached.setdefault(page, set()).add(leads)


def main():
    root = report.arguments().root.resolve()
    guides = sorted((root / "docs").rglob("*.md"))
    reached, problems = {}, []
    for page in (*sorted(root.glob("*.md")), *guides):
        problems += [f"{page.relative_to(root)}: {problem}" for problem in problems_of(page, root, reached)]
    found, new = set(), {root / "README.md"}
    while new:
        found |= new
        new = {leads for page in new for leads in reached.get(page, ())} - found
    problems += [f"{guide.relative_to(root)}: no page that README.md leads to links to it"
                 for guide in guides if guide not in found]
    report.finish(problems, f"{sum(map(len, reached.values()))} links of {len(reached)} pages")


main()
