# SPDX-License-Identifier: Apache-2.0
"""What a fork must not copy stands in the list of base/process/process_state.h: no object of static storage
in src/ and python/ has a mutex, a condition variable, a thread or a descriptor, itself or in what it
consists of, unless it is a ProcessState or is named below with the reason."""

import re

import report

# What a fork leaves locked, waited for, gone, or shared with another process.
PRIMITIVES = ("mutex", "shared_mutex", "recursive_mutex", "timed_mutex", "condition_variable",
              "condition_variable_any", "thread", "jthread", "once_flag", "promise", "future",
              "shared_future", "latch", "barrier", "counting_semaphore", "binary_semaphore",
              "pthread_mutex_t", "pthread_cond_t", "Descriptor", "OpenFile")
# "file: name": why it is not in the list.
EXCEPTIONS = {
    "src/base/process/process_state.cpp: fork_mutex": "is what renews the list, and is itself renewed by it",
    "src/guess/guess_shapes.cpp: names": "has a Tree of modelmap, which is an expression's",
    "src/daemon/process/log.cpp: faults": "of the command, which forks only while it has one thread",
}
WORD = r"[A-Za-z_]\w*"
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"", re.DOTALL)
CLASS = re.compile(rf"\b(?:class|struct)\s+((?:{WORD}::)*{WORD})\s*(?:final\s*)?(?::[^;{{]*)?\{{")
# With "static" anywhere; at namespace scope, that is not indented, without it as well.
OBJECT = re.compile(
    rf"^(?P<indent>[ ]*)(?P<words>(?:(?:static|inline|constinit|const|thread_local)\s+)*)"
    rf"(?P<type>(?:{WORD}::)*{WORD}(?:<[^;=(){{}}]*>)?[ &*]+(?:const )?)(?P<name>{WORD})"
    rf"(?=(?P<rest>\s*(?:;|[={{(][^;]*;)))", re.MULTILINE)
# What the parentheses of a function begin with, and those of an object do not.
PARAMETERS = re.compile(rf"\s*\(\s*(\)|(const\s+)?(?:{WORD}::)*{WORD}(<[^;{{}}]*>)?(\s*[&*]|\s+\(|\s+{WORD}\s*[,)=]))")
KEYWORDS = {"return", "using", "namespace", "class", "struct", "enum", "template", "throw", "friend",
            "typedef", "extern", "public", "private", "protected", "delete", "new", "else", "case", "goto",
            "operator", "co_return"}


def body_at(text, brace):
    """From an opening brace to the one that closes it."""
    depth = 0
    for at in range(brace, len(text)):
        depth += (text[at] == "{") - (text[at] == "}")
        if depth == 0:
            return text[brace + 1:at]
    return text[brace + 1:]


def members(body):
    """The declarations of data in a class: its text without the bodies of functions and classes."""
    out, depth = [], 0
    for part in re.split(r"([{}])", body):
        depth += (part == "{") - (part == "}")
        if depth == 0:
            out.append(";" if part == "}" else part)
    statements = " ".join(out).split(";")
    # A pointer to a thing is none; a smart one that owns it is.
    return [line for line in statements
            if "(" not in line and not re.search(r"\b(using|friend|static|enum|class|struct)\b", line)]


def words_of(text):
    return set(re.findall(WORD, text))


def plain(text):
    """Without comments and the contents of strings."""
    return COMMENT.sub(lambda match: '""' if match[0].startswith('"') else "", text)


def locking_types(files):
    """The names of all classes that consist of a primitive, however deep."""
    consist = {}
    for text in files.values():
        for match in CLASS.finditer(text):
            held = set()
            for line in members(body_at(text, match.end() - 1)):
                if not re.search(r"[*&]\s*(const\s+)?\w+\s*(=[^;]*)?$", line.strip()):
                    held |= words_of(line)
            consist.setdefault(match[1].split("::")[-1], set()).update(held)
    found = set(PRIMITIVES)
    while True:
        more = {name for name, held in consist.items() if name not in found and held & found}
        if not more:
            return found
        found |= more


def objects(text):
    """(name, text of its declaration) of each object of static storage."""
    for match in OBJECT.finditer(text):
        is_static = "static" in match["words"].split()
        if (match["indent"] and not is_static) or "thread_local" in match["words"]:
            continue
        if re.match(WORD, match["type"])[0] in KEYWORDS or PARAMETERS.match(match["rest"]):
            continue
        yield match["name"], match[0] + match["rest"]


def problems_of(files):
    """Of texts by their names."""
    texts = {name: plain(text) for name, text in files.items()}
    locking = locking_types(texts)
    found, used = [], set()
    for name, text in texts.items():
        for variable, declaration in objects(text):
            value = declaration.split("ProcessState<")
            if len(value) > 1 or not words_of(declaration) & locking:
                continue
            key = f"{name}: {variable}"
            used.add(key)
            if key not in EXCEPTIONS:
                what = ", ".join(sorted(words_of(declaration) & locking))
                found.append(f"{key}: has a {what}: make it a ProcessState (base/process/process_state.h)")
    return found, used


# Each of these must be found: (text, name).
PLANTED = [
    ("std::mutex plain_one;\n", "plain_one"),
    ("static std::condition_variable wake_up;\n", "wake_up"),
    ("int f() {\n  static std::mutex inside;\n  return 0;\n}\n", "inside"),
    ("class Pool {\n  int a_;\n  std::mutex mutex_;\n};\nPool& f() {\n  static Pool pool(3);\n  return pool;\n}\n",
     "pool"),
    ("class Pool { std::mutex mutex_; };\nstruct Outer { Pool pool; };\nstruct More { std::vector<Outer> all; };\n"
     "Pool& f() {\n  static auto* const hidden = new More;\n  return *hidden;\n}\n", "hidden"),
    ("class Pool { std::mutex mutex_; };\nstd::atomic<Pool*> the_pool = nullptr;\n", "the_pool"),
    ("Pool& f() {\n  static std::atomic<std::mutex*> at{new std::mutex()};\n  return at;\n}\n", "at"),
    ("struct Job { std::thread thread; };\nstd::unique_ptr<Job> one_job;\n", "one_job"),
    ("struct File { Descriptor fd; };\nstd::optional<File> kept_file;\n", "kept_file"),
    ("static std::once_flag once;\n", "once"),
]
# And none of these.
HARMLESS = [
    "class Pool { std::mutex mutex_; };\nProcessState<Pool> the_pool(\"a pool\", make_new<Pool>);\n",
    "class Pool { std::mutex mutex_; };\nPool& process_pool();\nstatic Pool& other();\nPool* make(const Pool* before);\n",
    "class User { std::mutex& mutex_; Pool* pool_; };\nstatic const User user;\n",
    "void f() {\n  std::mutex local;\n  const std::lock_guard lock(local);\n}\n",
    "// static std::mutex in_a_comment;\nconst char* const text = \"static std::mutex x;\";\n",
]


def main():
    root = report.arguments().root
    problems = []
    for text, name in PLANTED:
        if f"x.cpp: {name}" not in problems_of({"x.cpp": text})[1]:
            problems.append(f"this check does not find '{name}' in: {text!r}")
    for text in HARMLESS:
        problems += [f"this check complains of {text!r}: {found}" for found in problems_of({"x.cpp": text})[0]]
    files = {str(path.relative_to(root)): path.read_text()
             for folder in ("src", "python", "include")
             for path in sorted((root / folder).rglob("*")) if path.suffix in (".h", ".cpp")}
    found, used = problems_of(files)
    problems += found
    problems += [f"the exception '{key}' is of nothing that there is" for key in EXCEPTIONS if key not in used]
    count = sum(text.count("ProcessState<") for name, text in files.items() if name.endswith(".cpp"))
    report.finish(problems, f"{count} states of the process are in the list, and nothing is beside it")


main()
