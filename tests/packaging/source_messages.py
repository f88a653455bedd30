# SPDX-License-Identifier: Apache-2.0
"""The messages that the sources can print: what is thrown as Error, and what is added to the warnings."""

import collections
import re

Message = collections.namedtuple("Message", "path kind words advised")

START = re.compile(r"\bError(?: \w+)?[({]\s*(?=ErrorKind::k)|\breturn \{(?=\s*ErrorKind::k)"
                   r"|(?<=[Ww]arnings)_?\.(?:push|emplace)_back\(")
TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)\'|[()\[\]{},]|[^()\[\]{},"\']+|\'')
FUNCTION = re.compile(r"^(?:\[\[noreturn\]\] )?[\w:<>&]+(?: [\w:<>&*]+)*? [&*]?(?:\w+::)*(\w+)\(", re.M)


def code_of(path):
    """A source without comments, a text over several lines as one."""
    code = re.sub(r'("(?:[^"\\\n]|\\.)*")|//[^\n]*', lambda match: match[1] or "", path.read_text())
    return re.sub(r'"\s*\n\s*"', "", code)


def arguments_from(code, start):
    """The tokens of each argument of the call whose bracket ends at `start`, and where the call ends."""
    arguments, depth, place = [[]], 0, start
    while match := TOKEN.match(code, place):
        token, place = match[0], match.end()
        if token in ("(", "[", "{"):
            depth += 1
        elif token in (")", "]", "}"):
            depth -= 1
            if depth < 0:
                break
        if token == "," and depth == 0:
            arguments.append([])
        else:
            arguments[-1].append(token)
    return arguments, place


def words_of(tokens):
    """The texts among the tokens; '...' stands for all between them."""
    parts = [re.sub(r"\{[^{}]*\}", "...", token[1:-1].replace('\\"', '"').replace("\\n", " "))
             if token.startswith('"') else "..." for token in tokens if token.strip() not in ("", "+")]
    return re.sub(r"\.\.\.(\s*\.\.\.)+", "...", "".join(parts)).strip()


def calls_of(name, code):
    """The words that calls of a function have, as in `throw damaged("it ends early")`."""
    for match in re.finditer(rf"\b{name}\(", code):
        words = words_of([token for argument in arguments_from(code, match.end())[0] for token in argument])
        if re.search(r"[a-z]{3} ", words):
            yield words


def messages_of(path):
    code = code_of(path)
    for match in START.finditer(code):
        arguments, end = arguments_from(code, match.end())
        kind = re.search(r"ErrorKind::k(\w+)", "".join(arguments[0]))
        texts = arguments[1:] if kind else arguments
        words = words_of([token for argument in texts for token in argument])
        rest = code[end:].split(";\n", 1)[0]
        found = [words]
        if not re.search("[a-z]{3}", words):
            before = FUNCTION.findall(code[:match.start()])
            found = calls_of(before[-1], code[:match.start()] + code[end:]) if before else []
        for one in found:
            yield Message(path, kind[1] if kind else "Warning", one, ".hint(" in rest)


def all_messages(root):
    for folder in ("src", "include"):
        for path in sorted((root / folder).rglob("*.[ch]*")):
            yield from messages_of(path)
