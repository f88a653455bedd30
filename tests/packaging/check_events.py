# SPDX-License-Identifier: Apache-2.0
"""The events of the log: docs/operations.md lists those that src/base/process/log_event.h has, in its order, each with
the levels at which it is logged; and nothing is logged without an event."""

import re

import report

HEADER = "src/base/process/log_event.h"
PAGE = "docs/operations.md"
# The way to the log, which says the event, and what is logged inside a scope that says it.
LOGGERS = {"src/fuse/event_log.h": 2, "src/fuse/event_log.cpp": 3, "src/fuse/operations.cpp": 1,
           "src/daemon/process/log.cpp": 1}
CALL = re.compile(r"\b(?:spdlog::|log\.)(?:log|trace|debug|info|warn|error|critical)\(|\bwrite_log\(")
LEVELS = {"error": "error", "warning": "warning", "info": "info"}
USE = re.compile(r"\blog_(error|warning|info)\(\s*LogEvent::k(\w+)")


def names_in_code(text):
    enumerators = re.search(r"enum class LogEvent [^{]*\{(.*?)\}", text, re.DOTALL)[1]
    names = re.search(r"kLogEventNames = \{(.*?)\}", text, re.DOTALL)[1]
    return re.findall(r"\bk(\w+)", enumerators), re.findall(r'"(\w+)"', names)


def snake(name):
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def listed(text):
    """(name, levels) of each row of the table."""
    table = re.search(r"^\| Event \| Level .*?\n\n", text, re.MULTILINE | re.DOTALL)[0]
    return re.findall(r"^\| `(\w+)` \| ([^|]*) \|", table, re.MULTILINE)


def problems_of(header, page, sources):
    enumerators, names = names_in_code(header)
    if [snake(name) for name in enumerators] != names:
        yield f"{HEADER}: the names are not those of the enumeration: {enumerators}, {names}"
    rows = listed(page)
    if [name for name, _ in rows] != names:
        yield f"{PAGE} lists {[name for name, _ in rows]}, {HEADER} has {names}"
    used = {}
    for path, text in sources.items():
        calls = len(CALL.findall(text))
        if calls != LOGGERS.get(path, 0):
            yield f"{path}: calls spdlog {calls} times, which says no event; see {next(iter(LOGGERS))}"
        for level, name in USE.findall(text):
            used.setdefault(snake(name), set()).add(level)
    everything = "".join(text for path, text in sources.items() if path != HEADER)
    for name, enumerator, (_, levels) in zip(names, enumerators, rows):
        if f"LogEvent::k{enumerator}" not in everything:
            yield f"{HEADER}: nothing is logged as {name}"
        told = set(levels.split(", "))
        if levels != "all" and not used.get(name, set()) <= told:
            yield f"{PAGE}: {name} is logged as {sorted(used[name])}, not only as {sorted(told)}"


# Each of these must be found: what is changed in (header, page, a source).
PLANTED = [
    ("header", '"mounted"', '"made"'),
    ("page", "| `mounted` |", "| `mount` |"),
    ("page", "| `mount_failed` | error |", "| `mount_failed` | info |"),
    ("source", "log_error(", "spdlog::error("),
]


def main():
    root = report.arguments().root
    header, page = ((root / name).read_text() for name in (HEADER, PAGE))
    sources = {path.relative_to(root).as_posix(): path.read_text()
               for path in sorted((root / "src").rglob("*")) if path.suffix in (".h", ".cpp")}
    problems = list(problems_of(header, page, sources))
    for where, old, new in PLANTED:
        planted = {name: text.replace(old, new, 1) if where == "source" and old in text and name.endswith(".cpp")
                   else text for name, text in sources.items()}
        parts = [text.replace(old, new, 1) if where == part else text
                 for part, text in (("header", header), ("page", page))]
        if (*parts, planted) != (header, page, sources) and not list(problems_of(*parts, planted)):
            problems.append(f"the check does not find '{new}' in the {where}")
    report.finish(problems, f"{len(names_in_code(header)[1])} events")


main()
