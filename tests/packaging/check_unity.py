# SPDX-License-Identifier: Apache-2.0
"""Files of a layer, of the Python module, and the unit tests of a layer, can be compiled together
(RESHARDFS_UNITY): what they have for themselves, in namespaces without a name, has names that are one file's
alone, and no header's. Functions may have one name if their parameters differ. A test may have a namespace for its
file around the one without a name: reshardfs::rank_tests."""

import collections
import re

import report

NAMELESS = re.compile(r"^namespace \{\n(.*?)^\}  // namespace\n", re.DOTALL | re.MULTILINE)
FUNCTION = re.compile(r"^(?!return\b|using\b|struct\b|class\b|enum\b|template\b)[A-Za-z_\[][^\n;={}()]*?"
                      r"[ *&](\w+)\(([^;{]*?)\)[^;{}]*\{", re.MULTILINE)
CONSTANT = re.compile(r"^(?:constexpr|constinit|const|thread_local|std::)[^\n={]*?\b(k[A-Z]\w*)\s*[={;\[]",
                      re.MULTILINE)
TYPE = re.compile(r"^(?:enum class|enum|struct|class)\s+(\w+)[^;]*?\{", re.MULTILINE)
ALIAS = re.compile(r"^(?:using|namespace) (\w+) =([^;]*)", re.MULTILINE)
USING = re.compile(r"^using (?:::)?([\w:]+::(\w+));", re.MULTILINE)
TYPE_ALIAS = re.compile(r"^(?:using|namespace) (\w+) = ([\w:]+);", re.MULTILINE)
SHARED = re.compile(r"^(?:inline constexpr [^\n={]*?\b(k[A-Z]\w*)\s*[={;\[]|(?:enum class|struct|class)\s+(\w+)[^;]*?\{)",
                    re.MULTILINE)

OUTER = re.compile(r"^namespace (reshardfs[\w:]*) \{$", re.MULTILINE)
# Layers whose unit tests are compiled one by one.
NOT_TOGETHER = {"export"}

LAYER_LIST = re.compile(r"^set\(RESHARDFS_LAYERS ([^)]+)\)", re.MULTILINE)


def parameter_types(parameters, aliases):
    """As text, without the names; what is only another name for a type is that type."""
    types = re.sub(r"\s+", " ", re.sub(r"\b\w+(?=,|$)", "", parameters))
    return re.sub(r"\b(?<!::)\w+\b", lambda word: aliases.get(word[0], word[0]), types)


def own_names(text):
    """(name, what tells it from another one of that name) of all that a file has for itself."""
    names, aliases = set(), dict(TYPE_ALIAS.findall(text))
    for body in NAMELESS.findall(text):
        names |= {(name, parameter_types(parameters, aliases)) for name, parameters in FUNCTION.findall(body)}
        names |= {(name, "") for name in CONSTANT.findall(body) + TYPE.findall(body)}
        names |= {(name, "= " + target) for name, target in ALIAS.findall(body)}
        names |= {(name, "= " + target) for target, name in USING.findall(body)}
    return names


def clashes(names):
    """Whether two of them (what tells them apart, file) cannot be together."""
    files = {file for _, file in names}
    told = {what for what, _ in names}
    if len(files) < 2 or (len(told) == 1 and next(iter(told)).startswith("= ")):
        return False
    functions = all(what and not what.startswith("= ") for what in told)
    return not functions or any(len({file for what, file in names if what == one}) > 1 for one in told)


def problems_of_layer(layer, source, shared):
    """The files, what is wrong with them. Adds what the layer's headers have to `shared`."""
    shared |= {name for pattern in ("*.h", "*.h.in")
               for path in layer.rglob(pattern) for pair in SHARED.findall(path.read_text())
               for name in pair if name}
    names, files, problems = collections.defaultdict(set), sorted(layer.rglob("*.cpp")), []
    for path in files:
        for name, what in own_names(path.read_text()):
            names[name].add((what, str(path.relative_to(source))))
    for name, found in sorted(names.items()):
        where = ", ".join(sorted({file for _, file in found}))
        if clashes(found):
            problems.append(f"{name}: in {where}")
        elif name in shared and any(not what for what, _ in found):
            problems.append(f"{name}: in {where}, and in a header")
    return files, problems


def problems_of_tests(folder, root):
    """As above. Where headers and tests have the same name, the compiler says so."""
    names, files = collections.defaultdict(set), sorted(folder.glob("*_test.cpp"))
    for path in files:
        text = path.read_text()
        outer = OUTER.search(text)
        for name, what in own_names(text):
            names[outer and outer.group(1), name].add((what.replace("std::size_t", "std::uint64_t"),
                                                       str(path.relative_to(root))))
    return files, [f"{name}: in {', '.join(sorted({file for _, file in found}))}"
                   for (_, name), found in sorted(names.items()) if clashes(found)]


def main():
    root = report.arguments().root
    source = root / "src"
    layers = LAYER_LIST.search((source / "CMakeLists.txt").read_text()).group(1).split()
    shared, checked = set(), []
    for layer in layers:
        checked.append(problems_of_layer(source / layer, source, shared))
        if layer not in NOT_TOGETHER:
            checked.append(problems_of_tests(root / "tests" / "unit" / layer, root))
    checked.append(problems_of_layer(root / "python" / "core", root / "python", shared))
    report.finish([problem for _, problems in checked for problem in problems],
                  f"{sum(len(files) for files, _ in checked)} files can be compiled together")


main()
