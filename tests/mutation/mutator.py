# SPDX-License-Identifier: Apache-2.0
"""Small changes to a C++ file, each of which a test should notice.

A tokenizer is enough, as the sources are formatted by clang-format: a binary operator has blanks on
both sides, and the bracket of a template none before it. Comments, texts, preprocessor lines and
what stands in the brackets of templates are left alone, and of headers all but function bodies.
"""

from __future__ import annotations

import dataclasses
import re

PUNCTUATION = ["<<=", ">>=", "...", "->*", "<=>", "->", "++", "--", "<<", ">>", "<=", ">=", "==",
               "!=", "&&", "||", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "::"]
TOKEN = re.compile(
    r"""(?P<space>\s+)
      | (?P<comment>//[^\n]*|/\*.*?\*/)
      | (?P<directive>\#(?:\\\n|[^\n])*)
      | (?P<text>(?:u8|[uUL])?R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"|(?:u8|[uUL])?"(?:\\.|[^"\\\n])*"
               |(?:u8|[uUL])?'(?:\\.|[^'\\\n])+')
      | (?P<number>\.?\d(?:[eEpP][+-]|'\w|[\w.])*)
      | (?P<word>[A-Za-z_]\w*)
      | (?P<mark_of_code>""" + "|".join(re.escape(p) for p in PUNCTUATION) + r"""|.)""",
    re.VERBOSE | re.DOTALL)

# Operators that must have blanks on both sides, so that `*p`, `&x`, `-1` and `T&&` are none.
BINARY = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "+": "-", "-": "+",
          "*": "/", "/": "*", "%": "*", "&&": "||", "||": "&&", "+=": "-=", "-=": "+=", "*=": "/=",
          "/=": "*="}
ANYWHERE = {"++": "--", "--": "++"}
WORDS = {"true": "false", "false": "true"}
# Only behind `std::`: limits have a min() and a max() too.
FUNCTIONS = {"min": "max", "max": "min", "lower_bound": "upper_bound",
             "upper_bound": "lower_bound", "any_of": "all_of"}
# Only as `.name()`.
BOUNDS = {"begin": "begin() + 1", "end": "end() - 1", "front": "back()", "back": "front()"}
NO_CALL = {"return", "throw", "if", "for", "while", "do", "switch", "case", "else", "delete", "new",
           "const", "auto", "using", "static", "constexpr", "struct", "class", "typename", "try",
           "template", "break", "continue", "catch", "operator", "namespace", "enum"}
LOGIC = {"<", "<=", ">", ">=", "==", "!=", "&&", "||", "!", ";", "="}


@dataclasses.dataclass(frozen=True)
class Mutant:
    """The characters [begin, end) of a file replaced."""
    file: str
    begin: int
    end: int
    replacement: str
    line: int
    line_text: str  # without the blanks around it; "@2" behind it if it is the file's second such
    change: str     # "`<` -> `<=`", with "#2" behind it if it is the line's second such change
    form: str       # how switches.py writes it: "value", "operator", "not", "condition", "statement",
                    # or "expression", which repeats all around it
    token: int      # its first token's number

    def apply(self, text: str) -> str:
        return text[:self.begin] + self.replacement + text[self.end:]

    def key(self) -> tuple[str, str, str]:
        return (self.file, self.line_text, self.change)


@dataclasses.dataclass
class Token:
    kind: str
    text: str
    begin: int
    spaced: bool = False  # has blanks on both sides
    in_template: bool = False
    in_body: bool = False
    partner: int = -1  # the other bracket's position in the list

    @property
    def end(self) -> int:
        return self.begin + len(self.text)


def tokens_of(source: str) -> list[Token]:
    """Without blanks, comments and preprocessor lines."""
    tokens: list[Token] = []
    depth = 0  # of template brackets
    at = 0
    while at < len(source):
        match = TOKEN.match(source, at)
        kind = "mark" if match.lastgroup == "mark_of_code" else match.lastgroup
        text = match.group()
        if depth and text[0] == ">":
            text = ">"
        begin, at = at, at + len(text)
        if kind in ("space", "comment", "directive"):
            continue
        before = source[begin - 1:begin]
        token = Token(kind, text, begin,
                      spaced=before.isspace() and source[at:at + 1].isspace())
        previous = tokens[-1] if tokens else None
        if text == "<" and previous and (depth or previous.text == "template" or (
                previous.kind == "word" and not before.isspace())):
            depth += 1
        token.in_template = depth > 0
        if text == ">" and depth:
            depth -= 1
        tokens.append(token)
    mark_brackets(tokens)
    return tokens


def mark_brackets(tokens: list[Token]) -> None:
    """Finds the partners of brackets, and which tokens stand in a function's body."""
    opened: list[tuple[int, bool]] = []
    for i, token in enumerate(tokens):
        token.in_body = bool(opened) and opened[-1][1]
        if token.text in ("(", "[", "{"):
            body = token.in_body
            if token.text == "{" and i > 0:
                body = body or tokens[i - 1].text in (")", "noexcept", "override") or (
                    tokens[i - 1].text == "const" and tokens[i - 2].text == ")")
            opened.append((i, body))
        elif token.text in (")", "]", "}") and opened:
            token.partner = opened.pop()[0]
            tokens[token.partner].partner = i


def end_of_statement(tokens: list[Token], i: int) -> int:
    """The position of the semicolon, brackets skipped; -1: there is none."""
    while i < len(tokens) and tokens[i].text != ";":
        if tokens[i].text in ("(", "[", "{") and tokens[i].partner > i:
            i = tokens[i].partner
        elif tokens[i].text in (")", "]", "}"):
            return -1
        i += 1
    return i if i < len(tokens) else -1


def begins_statement(tokens: list[Token], i: int) -> bool:
    previous = tokens[i - 1] if i else None
    if previous is None or previous.text in (";", "{", "}", "else"):
        return previous is not None
    if previous.text != ")" or previous.partner < 1:
        return False
    return tokens[previous.partner - 1].text in ("if", "for", "while", "constexpr")


def end_of_call(tokens: list[Token], i: int) -> int:
    """If the statement at i is only a call, such as `a.b(c).d();`: where its semicolon is; else -1."""
    if tokens[i].kind != "word" or tokens[i].text in NO_CALL:
        return -1
    expects_name = True
    while i < len(tokens):
        token = tokens[i]
        if token.in_template:
            pass
        elif token.kind == "word" and expects_name:
            expects_name = False
        elif token.text in ("::", ".", "->") and not expects_name:
            expects_name = True
        elif token.text in ("(", "[") and not expects_name and token.partner > i:
            i = token.partner
        else:
            return i if token.text == ";" and tokens[i - 1].text == ")" else -1
        i += 1
    return -1


class Mutator:
    def __init__(self, file: str, source: str):
        self.file = file
        self.source = source
        self.tokens = tokens_of(source)
        self.lines: list[str] = []
        for line in (line.strip() for line in source.splitlines()):
            number = 1 + sum(known.partition(" @")[0] == line for known in self.lines)
            self.lines.append(line if number == 1 else f"{line} @{number}")
        self.found: list[Mutant] = []
        self.seen: dict[tuple[int, str], int] = {}

    def text(self, i: int) -> str:
        return self.tokens[i].text if 0 <= i < len(self.tokens) else ""

    def add(self, form: str, i: int, end: int, replacement: str, change: str = "") -> None:
        begin = self.tokens[i].begin
        line = self.source.count("\n", 0, begin) + 1
        change = change or f"`{self.source[begin:end]}` -> `{replacement}`"
        number = self.seen[(line, change)] = self.seen.get((line, change), 0) + 1
        if number > 1:
            change += f" #{number}"
        self.found.append(Mutant(self.file, begin, end, replacement, line, self.lines[line - 1],
                                 change, form, i))

    def replace(self, form: str, i: int, replacement: str) -> None:
        self.add(form, i, self.tokens[i].end, replacement)

    def mutants(self) -> list[Mutant]:
        header = self.file.endswith(".h")
        asserted = -1  # up to this token, a static_assert, which is no code
        for i, token in enumerate(self.tokens):
            if token.text == "static_assert":
                asserted = self.tokens[i + 1].partner
            if i <= asserted or token.in_template or (header and not token.in_body):
                continue
            if token.kind == "number":
                self.number(i)
            elif token.kind == "word":
                self.word(i)
            elif token.kind == "mark":
                self.mark(i)
            if begins_statement(self.tokens, i):
                self.statement(i)
        return self.found

    def number(self, i: int) -> None:
        match = re.fullmatch(r"(0|[1-9][\d']*)([uUlL]*)", self.tokens[i].text)
        if not match or self.text(i - 1) == "case":
            return  # hexadecimal ones are masks and hashes; behind `case` no switch can be
        value, suffix = int(match[1].replace("'", "")), match[2]
        if value == 1:
            self.replace("value", i, "0" + suffix)
        self.replace("value", i, str(value + 1) + suffix)

    def mark(self, i: int) -> None:
        token = self.tokens[i]
        if token.text in ANYWHERE:
            self.replace("expression", i, ANYWHERE[token.text])
        elif token.text in BINARY and token.spaced:
            # There is no difference of texts.
            texts = {self.tokens[i - 1].kind, self.tokens[i + 1].kind}
            if token.text not in ("+", "+=") or "text" not in texts:
                form = "expression" if token.text in ("&&", "||") else "operator"
                self.replace(form, i, BINARY[token.text])
        elif token.text == "!":
            self.add("not", i, token.end, "", "`!` dropped")

    def word(self, i: int) -> None:
        token = self.tokens[i]
        if token.text in WORDS and self.text(i - 1) == "return":
            self.replace("value", i, WORDS[token.text])
        elif token.text in FUNCTIONS and self.text(i - 1) == "::" and self.text(i - 2) == "std":
            self.replace("expression", i, FUNCTIONS[token.text])
        elif token.text in BOUNDS and self.text(i - 1) == "." and (
                self.text(i + 1) + self.text(i + 2) == "()"):
            self.add("expression", i, self.tokens[i + 2].end, BOUNDS[token.text])
        elif token.text in ("if", "while") and self.text(i + 1) == "(":
            self.condition(i + 1)

    def condition(self, i: int) -> None:
        """A condition in which nothing else is swapped is turned round."""
        inside = self.tokens[i + 1:self.tokens[i].partner]
        if not any(token.text in LOGIC and not token.in_template for token in inside):
            begin, end = self.tokens[i].begin, self.tokens[self.tokens[i].partner].end
            self.add("condition", i, end, f"(!{self.source[begin:end]})", "condition turned round")

    def statement(self, i: int) -> None:
        is_throw = self.text(i) == "throw"
        end = end_of_statement(self.tokens, i) if is_throw else end_of_call(self.tokens, i)
        if end >= 0:
            self.add("statement", i, self.tokens[end].end, ";",
                     "throw dropped" if is_throw else "call dropped")


def mutants_of(file: str, source: str) -> list[Mutant]:
    """@param file its path below the project, which tells headers from other files."""
    return Mutator(file, source).mutants()
