# SPDX-License-Identifier: Apache-2.0
"""No two types of one namespace have the same name: the linker would take the functions of either for
both, and tell nobody."""

import collections
import re

import report

ANONYMOUS = re.compile(r"^namespace \{$.*?^\}  // namespace$", re.MULTILINE | re.DOTALL)
NAMESPACE = re.compile(r"^namespace ([\w:]+) \{$", re.MULTILINE)
TYPE = re.compile(r"^(?:class|struct|enum class) (?:RESHARDFS_EXPORT )?(\w+)(?: final)?(?: : [^{;]*)? \{",
                  re.MULTILINE)


def types_of(text):
    """(namespace, name) of each type that other files can see."""
    text = ANONYMOUS.sub("", text)
    for found in TYPE.finditer(text):
        namespaces = NAMESPACE.findall(text, 0, found.start())
        yield (namespaces[-1] if namespaces else "", found.group(1))


def main():
    root = report.arguments().root
    places = collections.defaultdict(list)
    files = [path for folder in ("include", "src") for path in (root / folder).rglob("*")
             if path.suffix in (".h", ".cpp")]
    for path in sorted(files):
        for name in set(types_of(path.read_text())):
            places[name].append(str(path.relative_to(root)))
    problems = [f"{namespace}::{name}: in {' and '.join(found)}"
                for (namespace, name), found in sorted(places.items()) if len(found) > 1]
    report.finish(problems, f"{len(places)} types of {len(files)} files have names of their own")


main()
