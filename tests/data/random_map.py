# SPDX-License-Identifier: Apache-2.0
"""Makes random model maps, with what they make of random tensors.

The reference that tests judge reshardfs by: the operations are done with whole NumPy arrays. It shares
nothing with the program. Lengths of dimensions are monomials, so that rules can be written in names.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Any

import numpy as np

Tensors = dict[str, tuple[str, np.ndarray]]  # name to safetensors type and bits
Env = dict[str, Any]
Operation = tuple[str, ...]                  # its name and its operands, as they are written
PartsOf = Callable[[str], int]

BITS = {"U8": "u1", "I8": "u1", "F16": "<u2", "BF16": "<u2", "I16": "<u2", "U16": "<u2",
        "F32": "<u4", "I32": "<u4", "U32": "<u4", "F64": "<u8", "I64": "<u8", "U64": "<u8"}
MOST_ELEMENTS = 1500  # of a tensor
MOST_OF_8_BITS = 240  # so that no two elements need be equal
LITERALS = {"U": ("", "3", "7"), "I": ("", "5", "-2"), "F": ("", "1", "-2", "0.5", "-1.5")}


class Unlucky(Exception):
    """These choices make no map that is worth while; others must be tried."""


# --- lengths ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Length:
    """A number times names; those that shapes bind stand last."""

    number: int
    names: tuple[str, ...] = ()

    def text(self) -> str:
        if not self.names:
            return str(self.number)
        head = [] if self.number == 1 else [str(self.number)]
        return "*".join(head + list(self.names))

    def value(self, env: Env) -> int:
        return self.number * prod(env[name] for name in self.names)

    def times(self, number: int) -> Length:
        return Length(number, self.names)


Shape = list[Length]


def ordered(names: list[str]) -> tuple[str, ...]:
    return tuple(sorted(names, key=lambda name: (name[0].isupper(), name)))


def atoms_of(shape: Shape) -> list[int | str]:
    """Primes and names, whose product the shape is."""
    atoms: list[int | str] = []
    for length in shape:
        rest = length.number
        for prime in (2, 3, 5, 7, 11, 13):
            while rest % prime == 0:
                atoms.append(prime)
                rest //= prime
        atoms += [rest] if rest > 1 else []
        atoms += length.names
    return atoms


def length_of(atoms: list[int | str]) -> Length:
    return Length(prod(atom for atom in atoms if isinstance(atom, int)),
                  ordered([atom for atom in atoms if isinstance(atom, str)]))


def bound_names(shape: Shape) -> set[str]:
    return {name for length in shape for name in length.names if name[0].isupper()}


def unbound_names(shapes: list[Shape]) -> set[str]:
    """Names that no dimension NAME or EXPR*NAME gives a value."""
    known: set[str] = set()
    while True:
        new = set()
        for length in (length for shape in shapes for length in shape):
            *others, last = length.names or ("",)
            if last and all(name in known or not name[0].isupper() for name in others):
                new.add(last)
        if new <= known:
            return set().union(*map(bound_names, shapes)) - known
        known |= new


# --- the reference ---------------------------------------------------------------------------


def calculate(text: str, env: Env) -> int:
    return int(eval(text.replace("/", "//"), {}, env))  # pylint: disable=eval-used


def fill(pattern: str, env: Env) -> str:
    """The name that a pattern takes for these captures."""
    def one(match: re.Match[str]) -> str:
        name, sign, offset = match.groups()
        if sign in ("+", "-"):
            return str(calculate(name + sign + "(" + offset + ")", env))
        return str(env[name])
    return re.sub(r"\{(\w+)([-+:]?)([^}]*)\}", one, pattern)


def literal(text: str, dtype: str) -> int:
    """The bits of a pad's value."""
    value = float(text or "0")
    if dtype == "BF16":
        return int(np.float32(value).view(np.uint32)) >> 16
    kind = np.dtype({"U": "u", "I": "i", "F": "f"}[dtype[0]] + BITS[dtype][-1])
    return int(np.array([value]).astype(kind).view(BITS[dtype])[0])


def widened(bits: np.ndarray, cast: tuple[str, str]) -> np.ndarray:
    """Casts that are exact."""
    if cast == ("BF16", "F32"):
        return bits.astype("<u4") << 16
    assert cast == ("F16", "F32")
    return bits.view("<f2").astype("<f4").view("<u4")


def do(operation: Operation, array: np.ndarray, env: Env, dtype: str) -> np.ndarray:
    kind, *words = operation
    if kind == "cast":
        return array
    if kind in ("reshape", "permute"):
        numbers = [calculate(word, env) for word in words]
        return array.reshape(numbers) if kind == "reshape" else array.transpose(numbers)
    axis = calculate(words[0], env)
    if kind == "slice":
        bounds = [calculate(word, env) if word else None for word in words[1].split(":")]
        return array[(slice(None),) * axis + (slice(*bounds),)]
    if kind == "pad":
        shape = list(array.shape)
        shape[axis] = calculate(words[1], env) - shape[axis]
        behind = np.full(shape, literal(words[2] if len(words) > 2 else "", dtype), array.dtype)
        return np.concatenate([array, behind], axis)
    numbers = [calculate(word, env) for word in words[1:]]
    if kind == "split":
        return np.split(array, numbers[0], axis)[numbers[1]]
    if kind == "take":
        return array.take(numbers[0], axis)
    assert kind == "repeat"
    return array.repeat(numbers[0], axis)


def chain(operations: list[Operation], env: Env, dtype: str, ranges: dict[str, str],
          start: Callable[[Env], np.ndarray]) -> np.ndarray:
    """What stands before a stack of a capture is done for each of its values."""
    if not operations:
        return start(env)
    *before, last = operations
    if last[0] == "stack" and len(last) == 3:
        values = range(calculate(ranges[last[2]], env))
        return np.stack([chain(before, env | {last[2]: value}, dtype, ranges, start)
                         for value in values], calculate(last[1], env))
    return do(last, chain(before, env, dtype, ranges, start), env, dtype)


def written(operation: Operation) -> str:
    kind, *words = operation
    if kind in ("reshape", "permute"):
        return f"{kind} [{', '.join(words)}]"
    if kind == "stack" and len(words) == 2:
        return f"stack {words[0]} {{{words[1]}}}"
    return " ".join([kind, *(word for word in words if word)])


# --- rules -----------------------------------------------------------------------------------


@dataclass
class Rule:
    to: str
    sources: list[str]
    each: list[list[Operation]]
    ops: list[Operation]
    shapes: list[Shape] | None = None
    to_shape: Shape | None = None
    ranges: dict[str, str] = field(default_factory=dict)
    spread: list[str] = field(default_factory=list)
    when: str = "1"
    optional: bool = False
    drops_rest: bool = False

    @property
    def moves(self) -> bool:
        return any(op[0] != "cast" for ops in [*self.each, self.ops] for op in ops)

    @property
    def cast(self) -> tuple[str, str] | None:
        return next(((op[1], op[2]) for op in self.ops if op[0] == "cast"), None)

    def inverse_problem(self) -> str | None:
        if self.moves and self.shapes is None:
            return "cannot be turned round: the rule has no 'shape'"
        names = set().union(*map(bound_names, self.shapes or []))
        if self.moves and names - (set() if self.to_shape is None else bound_names(self.to_shape)):
            return "unknown variable"
        if self.moves and self.to_shape is not None and unbound_names([self.to_shape]):
            return "unknown variable"
        return "come from nowhere" if self.drops_rest else None

    def target(self, env: Env, dtype: str, tensors: Callable[[str], np.ndarray]) -> np.ndarray:
        def joined(outer: Env) -> np.ndarray:
            parts = [chain(ops, outer, dtype, self.ranges, lambda e, p=pattern: tensors(fill(p, e)))
                     for pattern, ops in zip(self.sources, self.each)]
            if len(parts) == 1:
                return parts[0]
            axis = calculate(self.ops[0][1], outer)
            return (np.stack if self.ops[0][0] == "stack" else np.concatenate)(parts, axis)
        after = self.ops[1:] if len(self.sources) > 1 else self.ops
        result = chain(after, env, dtype, self.ranges, joined)
        return widened(np.ascontiguousarray(result), self.cast) if self.cast else result

    def requirement(self, rng: random.Random) -> list[str]:
        """An assertion that holds: it must change nothing."""
        if rng.random() < 0.7:
            return []
        names = sorted(set().union(*map(bound_names, self.shapes or [])))
        name = rng.choice(names) if names else "1"
        that = rng.choice((f"{name} % 1 == 0", f"{name} >= 0 and {name} + 1 > {name}", "not 0", f"1 or {name}"))
        table = "{ that = " + json.dumps(that) + ', say = "it is true" }'
        return ["require = " + rng.choice((json.dumps(that), table, f"[{table}, {json.dumps(that)}]"))]

    def text(self, rng: random.Random) -> str:
        names = {"BF16": "bf16", "F16": "fp16", "F32": "fp32"}

        def shape_text(shape: Shape) -> str:
            return f"[{', '.join(length.text() for length in shape)}]"

        # What is padded on the way there has its values on the way back, too. What nothing of a source is left of has
        # no states, which is not tried here.
        cuts = any(op[0] in ("slice", "split", "take") for ops in [*self.each, self.ops] for op in ops)
        pad = "fill" if self.cast is None and not cuts and rng.random() < 0.5 else "pad"

        def texts(ops: list[Operation]) -> list[str]:
            return [f"cast {names[op[1]]}->{names[op[2]]}" if op[0] == "cast" else
                    written((pad, *op[1:]) if op[0] == "pad" else op) for op in ops]
        single = len(self.sources) == 1 and rng.random() < 0.8
        lines = ["[[map]]", f"to = {json.dumps(self.to)}",
                 f"from = {json.dumps(self.sources[0] if single else self.sources)}"]
        if self.shapes is not None:
            shapes = [shape_text(shape) for shape in self.shapes]
            alike = len(set(shapes)) == 1 and rng.random() < 0.8
            lines.append(f"shape = {json.dumps(shapes[0] if alike else shapes)}")
        each = [texts(ops) for ops in self.each]
        if any(each):
            alike = all(ops == each[0] for ops in each) and rng.random() < 0.8
            lines.append(f"each = {json.dumps(each[0] if alike else each)}")
        if self.ops:
            lines.append(f"ops = {json.dumps(texts(self.ops))}")
        if self.to_shape is not None:
            lines.append(f"to_shape = {json.dumps(shape_text(self.to_shape))}")
        if self.ranges:
            ranges = [f"{name} = {text if text.isdigit() else json.dumps(text)}"
                      for name, text in self.ranges.items()]
            lines.append(f"range = {{ {', '.join(ranges)} }}")
        lines += [f"when = {json.dumps(self.when)}"] if self.when != "1" else []
        lines += self.requirement(rng)
        lines += ["optional = true"] if self.optional else []
        lines += ['rest = "drop"'] if self.drops_rest else []
        return "\n".join(lines) + "\n"


# --- the shapes of a rule --------------------------------------------------------------------


class Shaper:
    """Random operations on shapes, within the sizes that are allowed."""

    def __init__(self, rng: random.Random, most: dict[str, int], dtype: str) -> None:
        self.rng = rng
        self.most = most  # the largest value of each name
        self.dtype = dtype
        self.limit = MOST_OF_8_BITS if dtype[1:] == "8" else MOST_ELEMENTS

    def fits(self, shape: Shape) -> bool:
        return prod(length.value(self.most) for length in shape) <= self.limit and len(shape) <= 6

    def number(self, value: int) -> str:
        """The number, perhaps calculated."""
        texts = [str(value)] * 4 + [f"{value + 1}-1", f"{2 * value}/2", f"{value}%{value + 3}",
                                    f"(1+{value})-1"]
        texts += [name for name, known in self.most.items() if known == value and name[0].islower()]
        return self.rng.choice(texts)

    def say(self, length: Length) -> str:
        return length.text() if length.names else self.number(length.number)

    def regrouped(self, shape: Shape) -> Shape:
        atoms = atoms_of(shape)
        if self.rng.random() < 0.5:
            self.rng.shuffle(atoms)
        cuts = sorted(self.rng.randint(0, len(atoms)) for _ in range(self.rng.randint(0, 3)))
        return [length_of(atoms[a:b]) for a, b in zip([0, *cuts], [*cuts, len(atoms)])]

    def reshape_to(self, shape: Shape) -> Operation:
        words = [self.say(length) for length in shape]
        if self.rng.random() < 0.4:
            words[self.rng.randrange(len(words))] = "-1"
        return ("reshape", *words)

    def pad_value(self) -> list[str]:
        text = self.rng.choice(LITERALS[self.dtype[0]] if self.dtype[0] in LITERALS
                               else LITERALS["F"])
        return [text] if text else []

    def forward(self, shape: Shape, steps: int, *, repeats: bool) -> tuple[list[Operation], Shape]:
        """Operations that lose nothing."""
        rng, ops = self.rng, []
        for _ in range(steps):
            axis = rng.randrange(len(shape))
            length, at, step = shape[axis], self.number(axis), []
            kind = rng.choice(("reshape", "reshape", "permute", "pad", "repeat", "whole", "undone"))
            new = list(shape)
            if kind == "reshape":
                new = self.regrouped(shape)
                step = [self.reshape_to(new)]
            elif kind == "permute":
                order = rng.sample(range(len(shape)), len(shape))
                new = [shape[i] for i in order]
                step = [("permute", *map(self.number, order))]
            elif kind == "pad":
                new[axis] = length.times(length.number + rng.randint(0, 2))
                step = [("pad", at, self.say(new[axis]), *self.pad_value())]
            elif kind == "repeat" and repeats:
                times = rng.randint(1, 3)
                new[axis] = length.times(length.number * times)
                step = [("repeat", at, self.number(times))]
            elif kind == "whole":
                part = rng.choice((":", f"0:{self.say(length)}", f":{self.say(length)}:1"))
                step = [rng.choice((("slice", at, part), ("split", at, "1", "0")))]
            elif kind == "undone" and rng.random() < 0.5:
                longer = length.times(length.number + rng.randint(1, 3))
                step = [("pad", at, self.say(longer), *self.pad_value()),
                        ("slice", at, f":{self.say(length)}")]
            elif kind == "undone" and repeats:
                times = rng.randint(2, 3)
                step = [("repeat", at, self.number(times)),
                        ("slice", at, f"{rng.randrange(times)}::{times}")]
            if self.fits(new):
                ops += step
                shape = new
        return ops, shape

    def backward(self, shape: Shape, steps: int, names: Iterator[str], *,
                 repeats: bool) -> tuple[list[Operation], Shape, dict[str, str]]:
        """Operations that end in the shape; where they start; and what they collect."""
        rng, ranges = self.rng, {}
        ops: list[Operation] = []
        for _ in range(steps):
            axis = rng.randrange(len(shape))
            length, at, before = shape[axis], self.number(axis), list(shape)
            kind = rng.choice(("reshape", "reshape", "permute", "pad", "repeat", "collect"))
            if kind == "reshape":
                before, step = self.regrouped(shape), self.reshape_to(shape)
            elif kind == "permute":
                order = rng.sample(range(len(shape)), len(shape))
                for i, source in enumerate(order):
                    before[source] = shape[i]
                step = ("permute", *map(self.number, order))
            elif kind == "pad" and length.number > 1:
                before[axis] = length.times(length.number - rng.randint(1, length.number - 1))
                step = ("pad", at, self.say(length), *self.pad_value())
            elif kind == "repeat" and repeats and length.number % 2 == 0:
                before[axis] = length.times(length.number // 2)
                step = ("repeat", at, "2")
            elif kind == "collect" and len(shape) > 1 and len(ranges) < 2 \
                    and not bound_names([length]) and length.value(self.most) <= 4:
                name = next(names)
                ranges[name] = length.text()
                del before[axis]
                step = ("stack", at, name)
            else:
                continue
            if len(before) <= 6:
                ops.insert(0, step)
                shape = before
        return ops, shape, ranges

    def parts(self, length: Length, axis: int, rank: int) -> list[tuple[Operation, Shape]]:
        """Operations that cut a dimension, and what is left of it."""
        rng, number, at = self.rng, length.number, str(axis)
        out: list[tuple[Operation, Shape]] = []
        ways = ["split"] if number % 2 == 0 or number % 3 == 0 else []
        ways += ["ranges", "ranges"] if number > 1 else []
        if not length.names:
            ways += ["steps", "mixed"] if number > 2 else []
            ways += ["take"] if 1 < number <= 6 and rank > 1 else []
        elif number % 2 == 0:
            ways.append("steps")
        if not ways:
            raise Unlucky
        way = rng.choice(ways)
        if way == "take":
            return [(("take", at, self.number(i)), []) for i in range(number)]
        if way == "split":
            count = rng.choice([n for n in (2, 3, 4) if number % n == 0])
            return [(("split", at, self.number(count), self.number(i)), [length.times(number // count)])
                    for i in range(count)]
        first = rng.randint(1, number - 2) if way == "mixed" else 0
        if way == "ranges":
            bounds = sorted(rng.sample(range(1, number), min(number - 1, rng.randint(1, 2))))
            for a, b in zip([0, *bounds], [*bounds, number]):
                start = "" if a == 0 and rng.random() < 0.5 else self.say(length.times(a))
                stop = "" if b == number and rng.random() < 0.5 else self.say(length.times(b))
                out.append((("slice", at, f"{start if a else start and '0'}:{stop}"),
                            [length.times(b - a)]))
            return out
        if first:
            out.append((("slice", at, f":{self.number(first)}"), [Length(first)]))
        step = 2 if length.names else rng.randint(2, min(4, number - first))
        for i in range(step):
            left = length.times(number // 2) if length.names else Length(-(-(number - first - i) // step))
            out.append((("slice", at, f"{self.number(first + i)}::{self.number(step)}"), [left]))
        return out

    def spread(self, length: Length, axis: int, rank: int,
               name: str) -> tuple[Operation, Shape, str]:
        """The same by one operation for all values of a capture; and how many these are."""
        rng, at = self.rng, str(axis)
        if not bound_names([length]) and rank > 1 and length.value(self.most) <= 6 \
                and rng.random() < 0.5:
            return ("take", at, name), [], length.text()
        counts = [n for n in (2, 3, 4) if length.number % n == 0]
        if not counts:
            raise Unlucky
        count = rng.choice(counts)
        left = length.times(length.number // count)
        kind = rng.choice(("split", "ranges", "steps"))
        if kind == "split":
            return ("split", at, str(count), name), [left], self.number(count)
        if kind == "steps":
            return ("slice", at, f"{name}::{count}"), [left], self.number(count)
        word = left.text()
        return ("slice", at, f"{name}*({word}):{name}*({word})+{word}"), [left], self.number(count)


# --- groups of rules that share their sources ------------------------------------------------


@dataclass
class Captures:
    """How the tensors of a group are numbered on both sides."""

    source: str
    target: str
    values: list[Env]


@dataclass
class Group:
    number: int
    dtype: str
    places: list[Captures]          # several: of blocks
    in_blocks: bool
    rules: list[Rule]
    bound: list[Env]                # of the names that shapes bind, by place and values
    prefixes: list[tuple[str, str, str]]  # of sets: on both sides, and the type
    shapes: dict[int, list[Shape]]  # by id of the rule, also of rules that say none
    uses_tp: bool = False

    def applications(self, known: Env) -> Iterator[tuple[Captures, Rule, Env, Env]]:
        """Each rule with its captures, without and with those that spread."""
        numbers = iter(self.bound)
        for place in self.places:
            for values in place.values:
                env = known | values | next(numbers)
                for rule in self.rules:
                    if not calculate(rule.when, env):
                        continue
                    ranges = [range(calculate(rule.ranges[name], env)) for name in rule.spread]
                    for spread in product(*ranges):
                        yield place, rule, env, env | dict(zip(rule.spread, spread))

    def name(self, place: Captures, pattern: str, side: str) -> str:
        if not self.in_blocks:
            return pattern
        assert pattern[0] == "@"
        return (place.source if side == "from" else place.target) + pattern[1:]

    def source_shapes(self, known: Env) -> dict[str, list[int]]:
        out: dict[str, list[int]] = {}
        for place, rule, env, _ in self.applications(known):
            for pattern, shape in zip(rule.sources, self.shapes[id(rule)]):
                names = [name for name in rule.ranges if re.search(rf"\{{{name}\b", pattern)]
                ranges = [range(calculate(rule.ranges[name], env)) for name in names]
                for values in product(*ranges):
                    name = fill(self.name(place, pattern, "from"), env | dict(zip(names, values)))
                    out[name] = [length.value(env) for length in shape]
        return out

    def targets(self, known: Env, sources: Tensors, parts_of: PartsOf) -> Tensors:
        out: Tensors = {}
        for from_prefix, to_prefix, dtype in self.prefixes:
            for place, rule, _, env in self.applications(known):
                name = to_prefix + fill(self.name(place, rule.to, "to"), env)
                if self.uses_tp:
                    env = env | {"tp": parts_of(name)}
                array = rule.target(env, dtype, lambda pattern, p=place, f=from_prefix, e=env:
                                    sources[f + fill(self.name(p, pattern, "from"), e)][1])
                assert name not in out
                out[name] = (rule.cast[1] if rule.cast else dtype, np.ascontiguousarray(array))
        return out
