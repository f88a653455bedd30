# SPDX-License-Identifier: Apache-2.0
"""Writes a source file that holds all of its mutants, each behind a switch (switches.h).

What compiles as it is must compile so, with the same types; where it does not, the compiler's errors
tell which switches to leave out. Lines keep their numbers.
"""

from __future__ import annotations

from mutator import TOKEN, Mutant, Token, end_of_statement, tokens_of

OPERATORS = {"<": "Less", "<=": "LessEqual", ">": "Greater", ">=": "GreaterEqual", "==": "Equal",
             "!=": "Unequal", "+": "Plus", "-": "Minus", "*": "Times", "/": "Over", "%": "Modulo",
             "+=": "Add", "-=": "Subtract", "*=": "Multiply", "/=": "Divide"}
# Where an expression ends, unless in brackets of its own.
ENDS = {",", ";", "?", ":", "=", "+=", "-=", "*=", "/=", "%=", "|=", "&=", "^=", "<<=", ">>=",
        "return", "else", "do", "case", "throw", "co_return"}
STATEMENTS = {"if", "for", "while", "switch", "constexpr", "catch"}


def is_block(tokens: list[Token], i: int) -> bool:
    """Whether the brace at i begins statements, not values."""
    before = tokens[i - 1].text if i else ";"
    return before in (")", "else", "do", "try", ";", "{", "}", "const", "noexcept", "override",
                      "mutable", ":")


def expression_around(tokens: list[Token], i: int) -> tuple[int, int]:
    """The first token, and the one behind the last, of the largest expression without a comma."""
    first = i
    while first > 0:
        before = tokens[first - 1]
        if before.in_template:
            first -= 1
        elif before.text in ENDS or before.text in ("(", "[", "{"):
            break
        elif before.text in (")", "]", "}") and before.partner >= 0:
            opener = before.partner
            if before.text == "}" and is_block(tokens, opener):
                break
            if before.text == ")" and opener and tokens[opener - 1].text in STATEMENTS:
                break
            first = opener
        else:
            first -= 1
    last = i + 1
    while last < len(tokens):
        token = tokens[last]
        if token.in_template:
            last += 1
        elif token.text in ENDS or token.text in (")", "]", "}"):
            break
        elif token.text in ("(", "[", "{") and token.partner > last:
            last = token.partner + 1
        else:
            last += 1
    return first, last


def constants_of(file: str, source: str) -> list[Mutant]:
    """The `constexpr` of each variable: dropped, its value can be switched."""
    tokens = tokens_of(source)
    found = []
    for i, token in enumerate(tokens):
        if token.text != "constexpr" or tokens[i - 1].text == "if":
            continue
        last = next((k for k in range(i, len(tokens)) if tokens[k].text in ("=", "(", "{", ";")), i)
        if tokens[last].text == "=":
            end = end_of_statement(tokens, last)
            of_class = i > 0 and tokens[i - 1].text == "static" and not token.in_body
            found.append(Mutant(file, token.begin, tokens[end].end, "inline const" if of_class else "const",
                                0, "", "", "constant", i))
    return found


def on_one_line(code: str) -> str:
    out, at = [], 0
    while at < len(code):
        match = TOKEN.match(code, at)
        out.append(" " if match.lastgroup in ("space", "comment") else match.group())
        at = match.end()
    return "".join(out)


class Switched:
    """One file's text with the switches, and which of them stands where in it."""

    def __init__(self, source: str, mutants: dict[int, Mutant]):
        """@param mutants by their numbers."""
        self.source = source
        self.tokens = tokens_of(source)
        # By position in the source: texts to put there. What ends comes first, inner before outer;
        # then what begins, outer before inner.
        self.ends: dict[int, list[tuple[int, str]]] = {}
        self.begins: dict[int, list[tuple[int, str]]] = {}
        self.replaced: dict[int, tuple[int, str]] = {}
        self.spans: dict[int, tuple[int, int]] = {}  # of each number, in the source
        self.group(mutants)
        self.text, self.places = self.write()

    def around(self, begin: int, end: int, head: str, tail: str) -> None:
        self.begins.setdefault(begin, []).append((-end, head))
        self.ends.setdefault(end, []).append((-begin, tail))

    def group(self, mutants: dict[int, Mutant]) -> None:
        values: dict[int, list[int]] = {}
        expressions: dict[tuple[int, int], list[int]] = {}
        for number, mutant in mutants.items():
            token = self.tokens[mutant.token]
            self.spans[number] = (mutant.begin, mutant.end)
            if mutant.form == "value":
                values.setdefault(mutant.token, []).append(number)
            elif mutant.form == "operator":
                name = f"::mutants::{OPERATORS[token.text]}<{number}>()"
                self.replaced[token.begin] = (token.end, f"{token.text} {name} {token.text}")
            elif mutant.form == "constant":
                self.replaced[token.begin] = (token.end, mutant.replacement)
            elif mutant.form == "not":
                self.replaced[token.begin] = (token.end, f"(::mutants::Not<{number}>)")
            elif mutant.form == "condition":
                self.around(mutant.begin + 1, mutant.end - 1,
                            f"::mutants::on({number}) != static_cast<bool>(", ")")
            elif mutant.form == "statement":
                self.around(mutant.begin, mutant.end, f"{{ if (!::mutants::on({number})) {{ ", " } }")
            else:
                expressions.setdefault(expression_around(self.tokens, mutant.token), []).append(number)
        constants = [(m.begin, m.end) for m in mutants.values() if m.form == "constant"]
        for i, numbers in values.items():
            token = self.tokens[i]
            of_constant = any(begin <= token.begin < end for begin, end in constants)
            on = "live" if of_constant else "on"
            choice = "".join(f"::mutants::{on}({n}) ? {mutants[n].replacement} : " for n in numbers)
            self.replaced[token.begin] = (token.end, f"({choice}{token.text})")
        for (first, last), numbers in expressions.items():
            begin, end = self.tokens[first].begin, self.tokens[last - 1].end
            choice = ""
            for number in numbers:
                mutant = mutants[number]
                changed = (self.source[begin:mutant.begin] + mutant.replacement +
                           self.source[mutant.end:end])
                choice += f"::mutants::on({number}) ? ({on_one_line(changed)}) : "
                self.spans[number] = (begin, end)
            self.around(begin, end, f"({choice}(", "))")

    def write(self) -> tuple[str, list[tuple[int, int, bool]]]:
        """The text, and of each piece its position in it and in the source, and whether it is copied."""
        out, places, length, at = [], [], 0, 0

        def put(text: str, position: int, copied: bool = False) -> None:
            nonlocal length
            if not text:
                return
            places.append((length, position, copied))
            out.append(text)
            length += len(text)

        cuts = sorted({*self.ends, *self.begins, *self.replaced})
        for cut in cuts:
            put(self.source[at:cut], at, copied=True)
            at = cut
            for _, text in sorted(self.ends.get(cut, []), key=lambda pair: pair[0]):
                put(text, cut - 1)
            for _, text in sorted(self.begins.get(cut, []), key=lambda pair: pair[0]):
                put(text, cut)
            if cut in self.replaced:
                end, text = self.replaced[cut]
                put(text, cut)
                at = end
        put(self.source[at:], at, copied=True)
        return "".join(out), places

    def numbers_at(self, line: int, column: int) -> list[int]:
        """The switches that an error there may come from: those of the smallest stretch around it,
        else all of the line. @param line, column from 1, as compilers count."""
        starts = [0]
        for i, char in enumerate(self.text):
            if char == "\n":
                starts.append(i + 1)
        encoded = self.text[starts[line - 1]:].split("\n", 1)[0].encode()[:column - 1]
        position = starts[line - 1] + len(encoded.decode(errors="ignore"))
        begin, source, copied = max(place for place in self.places if place[0] <= position)
        if copied:
            source += position - begin
        hits = [(end - begin, n) for n, (begin, end) in self.spans.items() if begin <= source < end]
        if hits:
            least = min(hits)[0]
            return [n for size, n in hits if size == least]
        begin = self.source.rfind("\n", 0, source) + 1
        end = self.source.find("\n", source)
        end = len(self.source) if end < 0 else end
        return [n for n, span in self.spans.items() if span[0] < end and span[1] > begin]
