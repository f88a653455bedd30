# SPDX-License-Identifier: Apache-2.0
"""Random model maps as files, with random tensors for them: see random_map.py for what a rule makes."""

from __future__ import annotations

import copy
import json
import random
import re
from dataclasses import dataclass, field
from itertools import count
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from random_map import (BITS, LITERALS, Captures, Env, Group, Length, Operation, PartsOf, Rule, Shape,
                        Shaper, Tensors, Unlucky, bound_names, literal, ordered, unbound_names)

FLOATS = ["BF16", "F16", "F32", "F64"]
KINDS = [FLOATS, ["I8", "I16", "I32", "I64"], ["U8", "U16", "U32", "U64"]]
CASTS = {"BF16", "F16"}


def kind_of(dtype: str) -> list[str]:
    return next(kind for kind in KINDS if dtype in kind)


def separated(shape: Shape) -> Shape:
    """The same with a dimension for each name that shapes bind."""
    rest = [name for length in shape for name in length.names if name[0].islower()]
    return [Length(prod(length.number for length in shape), tuple(sorted(rest))),
            *(Length(1, (name,)) for name in sorted(bound_names(shape)))]


class GroupMaker:
    """One group: sources, perhaps cut by several rules or by a spread, joined, moved about."""

    def __init__(self, rng: random.Random, number: int, known: Env, blocks: list[Captures],
                 both_ways: bool) -> None:
        self.rng = rng
        self.both_ways = both_ways
        self.number = number
        self.known = known
        self.in_blocks = bool(blocks) and rng.random() < 0.4
        self.places = blocks if self.in_blocks else [self.captures()]
        self.dtype = rng.choice(sum(KINDS, ["F32", "BF16"]))
        # Rules that share a source cast alike, or the inverse has two types for it.
        self.casts = self.dtype in CASTS and rng.random() < 0.3
        self.has_shape = both_ways or rng.random() < 0.8
        names = rng.sample(("K", "W", "Q"), rng.choice((0, 1, 1, 2))) if self.has_shape else []
        self.bound = [{name: rng.randint(1, 3) for name in names}
                      for place in self.places for _ in place.values]
        self.most = known | {name: max(env[name] for env in self.bound) for name in names}
        self.names = names
        self.shaper = Shaper(rng, self.most, self.dtype)
        self.collected = (f"e{i}" for i in count())

    def captures(self) -> Captures:
        """Numbers, perhaps counted otherwise on the other side, and words."""
        rng = self.rng
        parts: list[tuple[str, str]] = []
        values: list[Env] = [{}]
        if rng.random() < 0.7:
            parts.append(rng.choice((("{l}", "{l}"), ("{l}", "{l}"), ("{l+two}", "{l}"), ("{l}", "{l-1}"),
                                     ("{l}", "{l+two*10}"), ("{l}", "{l}.again{l}"))))
            numbers = rng.choice(([1, 2], [1], [1, 3, 12], [2, 3]))
            if rng.random() < 0.5 and parts[0][1] != "{l-1}":
                numbers = [n - 1 for n in numbers]
            values = [{"l": number} for number in numbers]
        if rng.random() < 0.3:
            parts.append(("{p:w|b}", rng.choice(("{p:w|b}", "{p:[a-z]}"))))
            values = [env | {"p": word} for env in values for word in rng.choice(("w", "wb"))]
        sides = [part[0] for part in parts], [part[1] for part in parts[::rng.choice((1, -1))]]
        return Captures(".".join([f"s{self.number}", *sides[0]]),
                        ".".join([f"d{self.number}", *sides[1]]), values)

    def start(self, side: str) -> str:
        if self.in_blocks:
            return f"@{'s' if side == 'from' else 'd'}{self.number}"
        return self.places[0].source if side == "from" else self.places[0].target

    def first_shape(self, sources: int) -> Shape:
        rng = self.rng
        lengths = [Length(rng.choice((1, 2, 2, 3, 4, 4, 5, 6, 8, 12))) for _ in range(rng.randint(1, 4))]
        for name in self.names + rng.choice(([], [], ["two"], ["wide"])):
            at = rng.randrange(len(lengths))
            lengths[at] = Length(lengths[at].number, lengths[at].names + (name,))
        lengths = [Length(part.number, ordered(list(part.names))) for part in lengths]
        if not self.shaper.fits(lengths + [Length(sources)]):
            raise Unlucky
        return lengths

    def bindable(self, ops: list[Operation], shape: Shape) -> tuple[list[Operation], Shape]:
        """With one more reshape if the shape alone would not tell what the names are."""
        if not unbound_names([shape]):
            return ops, shape
        return [self.shaper.reshape_to(shape), *ops], separated(shape)

    def make(self) -> Group:
        rng, shaper = self.rng, self.shaper
        sources = rng.choice((1, 1, 1, 2, 2, 3))
        cut = rng.choice(("none", "none", "rules", "rules", "spread"))
        first = self.first_shape(sources)
        join = rng.choice(("concat", "concat", "stack"))
        axis = rng.randrange(len(first) + (join == "stack" and sources > 1))
        parts = [list(first) for _ in range(sources)]
        if join == "concat" and sources > 1:
            for part in parts:
                part[axis] = first[axis].times(rng.randint(1, 4))
        if not shaper.fits([*parts[0], Length(4)]):
            raise Unlucky
        eaches, shapes, patterns, ranges = [], [], [], {}
        for i, part in enumerate(parts):
            ops, shape, collected = shaper.backward(part, rng.choice((0, 1, 2, 3)), self.collected,
                                                    repeats=cut == "none")
            ops, shape = self.bindable(ops, shape)
            if len(shape) > 6:
                raise Unlucky
            eaches.append(ops)
            shapes.append(shape)
            ranges |= collected
            patterns.append(f"{self.start('from')}.x{i}" + "".join(f".{{{name}}}" for name in collected))
        over_all = rng.random() < 0.15
        if over_all:
            ranges["c"] = rng.choice(("1", "2", "two"))
            number = rng.choice(("{c}", "{c}", "{c+two}"))
            patterns = [f"{pattern}.c{number}" for pattern in patterns]
        # Dimensions in which all parts are alike, so that one cut suits them.
        places = [d for d in range(len(first)) if sources == 1 or join == "stack" or d != axis]
        if cut != "none" and not places:
            raise Unlucky
        where = rng.choice(places) if places else 0
        spread, pieces = self.cuts(cut, first, where, ranges)
        rules, rule_shapes = [], {}
        for j, (op, left) in enumerate(pieces):
            held = [list(part) for part in parts]
            for part in held if cut != "none" else []:
                part[where:where + 1] = left
            at = axis - (cut != "none" and not left and where < axis)
            rule = self.joined(held, join, at, "c" if over_all else None, ranges)
            rule.to = f"{self.start('to')}.y{j}"
            rule.to += "".join(f".{{{name}{rng.choice(('', '+2'))}}}" for name in spread)
            rule.sources, rule.spread, rule.ranges = patterns, spread, dict(ranges)
            rule.each = [each + op for each in eaches]
            rule.shapes = shapes if self.has_shape else None
            rules.append(rule)
        rules += self.alternative(rules[-1]) if cut == "none" else []
        if not any(rule.moves for rule in rules) and rng.random() < 0.4:
            for rule in rules:
                rule.shapes = rule.shapes if self.names else None
        for rule in rules:
            rule_shapes[id(rule)] = shapes
            if self.both_ways and rule.inverse_problem():
                raise Unlucky
        return Group(self.number, self.dtype, self.places, self.in_blocks, rules, self.bound,
                     self.prefixes(rules), rule_shapes)

    def cuts(self, cut: str, shape: Shape, where: int,
             ranges: dict[str, str]) -> tuple[list[str], list[tuple[list[Operation], Shape]]]:
        """The captures that spread, and for each rule how it cuts a dimension, and what is left of it."""
        if cut == "none":
            return [], [([], shape[where:where + 1])]
        if cut == "rules":
            return [], [([op], left) for op, left in self.shaper.parts(shape[where], where, len(shape))]
        op, left, ranges["v"] = self.shaper.spread(shape[where], where, len(shape), "v")
        if not left or self.rng.random() < 0.7:
            return ["v"], [([op], left)]
        # What is left of the same dimension, by one more number.
        again, left, ranges["u"] = self.shaper.spread(left[0], where, len(shape), "u")
        return ["v", "u"], [([op, again], left)]

    def joined(self, parts: list[Shape], join: str, axis: int, collected: str | None,
               ranges: dict[str, str]) -> Rule:
        rng, shaper = self.rng, self.shaper
        shape, ops = list(parts[0]), []
        if len(parts) > 1 and join == "stack":
            axis = min(axis, len(shape))
            shape.insert(axis, Length(len(parts)))
        elif len(parts) > 1:
            shape[axis] = shape[axis].times(sum(part[axis].number for part in parts))
        if len(parts) > 1:
            ops.append((join, shaper.number(axis)))
        if collected:
            at, text = rng.randint(0, len(shape)), ranges[collected]
            shape.insert(at, Length(int(text)) if text.isdigit() else Length(1, (text,)))
            ops.append(("stack", shaper.number(at), collected))
        if not shaper.fits(shape):
            raise Unlucky
        more, shape = shaper.forward(shape, rng.choice((0, 1, 2, 3, 5)), repeats=True)
        ops += more
        if self.both_ways and unbound_names([shape]):
            shape, old = separated(shape), shape
            ops += [shaper.reshape_to(shape)] if shape != old else []
        if self.casts:
            ops.insert(rng.randint(min(len(ops), 1), len(ops)), ("cast", self.dtype, "F32"))
        return Rule("", [], [], ops,
                    to_shape=shape if self.both_ways or rng.random() < 0.7 else None)

    def alternative(self, rule: Rule) -> list[Rule]:
        """A rule for the same targets, of which some captures are for one and others for the other."""
        rng = self.rng
        if rng.random() < 0.6:
            return []
        conditions = ["heads > 2", "two*2 == four and wide <= 3"]
        if all("l" in env for place in self.places for env in place.values):
            # One of the rules may be for no tensor.
            rule.optional = True
            conditions = ["l % 2 == 0", "l < two", "l == 1 or l > two"]
        one = rng.choice(conditions)
        other = f"not ({one})"
        new = copy.copy(rule)
        at = next((i for i, op in enumerate(rule.ops) if op[0] == "cast"), len(rule.ops))
        if at < len(rule.ops) or rule.to_shape is None:
            return []
        new.ops, new.to_shape = self.shaper.forward(rule.to_shape, 2, repeats=True)
        new.ops = rule.ops + new.ops
        rule.when, new.when = one, other
        return [new]

    def prefixes(self, rules: list[Rule]) -> list[tuple[str, str, str]]:
        rng, out = self.rng, [("", "", self.dtype)]
        if any(rule.cast for rule in rules):
            return out
        kinds = [dtype for dtype in kind_of(self.dtype)
                 if BITS[dtype] != "u1" or self.dtype in ("U8", "I8")]
        for prefix in (("adam_m.", "adam_m."), ("exp_avg.", "optimizer.state.exp_avg.")):
            if rng.random() < 0.12:
                out.append((*prefix, rng.choice(kinds)))
        return out


def by_ranks(rng: random.Random, number: int) -> Group:
    """Halves that each rank has joined: the number of ranks is that of the target's strategy."""
    columns = rng.choice((24, 48))
    shapes = [[Length(24, ("K",)), Length(columns)]] * 2
    rule = Rule(f"d{number}.up", [f"s{number}.gate", f"s{number}.up"],
                [[("reshape", "tp", "-1", str(columns))]] * 2,
                [("concat", "1"), ("reshape", "48*K", "-1")], shapes,
                [Length(48, ("K",)), Length(columns)])
    return Group(number, "F32", [Captures("", "", [{}])], False, [rule], [{"K": 1}],
                 [("", "", rng.choice(("F32", "BF16")))], {id(rule): shapes}, uses_tp=True)


@dataclass
class Alias:
    side: str
    name: str
    of: str
    emit: bool
    count: str = ""  # an expression: so many, numbered

    def text(self) -> str:
        name = self.name + (".{i}" if self.count else "")
        lines = ["[[alias]]", f'side = "{self.side}"', f"name = {json.dumps(name)}",
                 f"of = {json.dumps(self.of)}"]
        lines += [f"range = {{ i = {json.dumps(self.count)} }}"] if self.count else []
        lines += [f"emit = {json.dumps(self.emit)}"] if not self.emit or len(self.of) % 2 else []
        return "\n".join(lines) + "\n"

    def names(self, known: Env) -> list[str]:
        return [f"{self.name}.{i}" for i in range(known[self.count])] if self.count else [self.name]


@dataclass
class RandomMap:
    """A map, whole sources for it, and what must be refused: words of the message, or nothing."""

    rng: random.Random
    known: Env
    groups: list[Group]
    blocks: list[Captures]
    sources: Tensors = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)  # sources that the inverse cannot make
    aliases: list[Alias] = field(default_factory=list)
    refused: str | None = None
    words: list[str | Path] = field(default_factory=list)

    def weights(self) -> Tensors:
        """The sources that rules take."""
        return {name: tensor for name, tensor in self.sources.items()
                if name not in self.absent and not name.startswith("copy")}

    def targets(self, parts_of: PartsOf) -> Tensors:
        out: Tensors = {}
        for group in self.groups:
            out |= group.targets(self.known, self.sources, parts_of)
        return out | self.copies(out, "to")

    def copies(self, tensors: Tensors, side: str) -> Tensors:
        return {name: tensors[alias.of] for alias in self.aliases if alias.side == side and alias.emit
                for name in alias.names(self.known)}

    def inverse(self) -> Tensors:
        weights = self.weights()
        return weights | self.copies(weights, "from")

    def inverse_problems(self) -> set[str]:
        """Of rules that make something."""
        return {problem for group in self.groups for _, rule, _, _ in group.applications(self.known)
                if (problem := rule.inverse_problem())}

    # --- making ----------------------------------------------------------------------------

    def fill_sources(self) -> None:
        rng, first = self.rng, 1
        for group in self.groups:
            shapes = group.source_shapes(self.known)
            for prefix, _, dtype in group.prefixes:
                total = sum(map(prod, shapes.values()))
                bits = self.bits(dtype, first, total)
                first += total
                for name, shape in shapes.items():
                    part, bits = bits[:prod(shape)], bits[prod(shape):]
                    self.sources[prefix + name] = (dtype, part.reshape(shape))
        for i in range(rng.choice((0, 0, 1, 2))):
            self.sources[f"junk.{i}"] = ("F32", np.arange(6, dtype="<u4").reshape(3, 2))
            self.absent.add(f"junk.{i}")

    def bits(self, dtype: str, first: int, total: int) -> np.ndarray:
        """Other ones in each place, none of which a pad has; of small types within the group alone."""
        kind = BITS[dtype]
        pads = np.array([literal(text, dtype) for text in LITERALS["F" if dtype == "BF16" else dtype[0]]]
                        + [literal(str(n), dtype) for n in range(12)], kind)
        width = 8 * np.dtype(kind).itemsize
        numbers = np.random.default_rng(self.rng.randrange(1 << 30))
        while True:
            if width <= 16:
                every = numbers.permutation(1 << width).astype(kind)
                exponent = {"F16": 0x7C00, "BF16": 0x7F80}.get(dtype)
                if exponent:  # a cast may change what is no number
                    every = every[every & exponent != exponent]
                every = every[~np.isin(every, pads)]
                if len(every) < total:
                    raise Unlucky
                return every[:total]
            odd = int(numbers.integers(1 << 30)) * 2 + 1
            out = (np.arange(first, first + total, dtype="<u8") * np.uint64(odd * 0x100000001)).astype(kind)
            if not np.isin(out, pads).any():
                return out

    def add_aliases(self) -> None:
        rng = self.rng
        weights = [name for group in self.groups for name in group.source_shapes(self.known)
                   if not self.inverse_problems()]
        targets = [name for group in self.groups if not group.uses_tp
                   for name in group.targets(self.known, self.sources, lambda _: 1)
                   if not name.startswith(("adam_m.", "optimizer."))]
        for i, names in enumerate((weights, targets)):
            if rng.random() < 0.3 and names:
                alias = Alias(("from", "to")[i], f"copy{i}", rng.choice(names), rng.random() < 0.7,
                              rng.choice(("", "two")))
                self.aliases.append(alias)
                if i == 0:
                    self.sources |= {name: self.sources[alias.of] for name in alias.names(self.known)
                                     if rng.random() < 0.6}

    def spoil(self) -> None:
        """Makes the map one that must be refused, or that leaves something out."""
        rng = self.rng
        way = rng.choice(("unused", "rest", "twice", "missing", "stranger", "types"))
        groups = list(self.groups)
        rng.shuffle(groups)
        if way == "stranger":
            self.sources["stranger"] = ("F32", np.zeros((2, 2), "<u4"))
            self.refused = "stranger: no rule uses it"
            return
        for group in groups:
            if group.uses_tp:
                continue
            names = list(group.source_shapes(self.known))
            several = len(group.rules[0].sources) > 1
            if way == "missing" and several:
                lost = rng.choice(names)
                del self.sources[lost]
                self.forget_aliases()
                self.refused = rf"{re.escape(lost)}: missing in the source"
                return
            if way == "types" and several and not any(rule.cast for rule in group.rules):
                odd = rng.choice(names)
                dtype, bits = self.sources[odd]
                other = rng.choice([d for d in kind_of(dtype) if d != dtype])
                self.sources[odd] = (other, np.zeros(bits.shape, BITS[other]))
                self.forget_aliases()
                self.refused = "its sources have different types"
                return
            rule = rng.choice(group.rules)
            if way not in ("unused", "rest", "twice") or len(group.rules) < 2 or rule.when != "1" \
                    or not self.reads(group, rule):
                continue
            if way == "twice":
                again = copy.copy(rule)
                again.to += ".twice"
                group.rules.append(again)
                group.shapes[id(again)] = group.shapes[id(rule)]
                self.refused = "takes elements"
                return
            group.rules.remove(rule)
            self.forget_aliases()
            for left in group.rules:
                left.drops_rest = way == "rest"
            if way == "unused":
                self.refused = "elements? (is|are) not used"
            return

    def forget_aliases(self) -> None:
        """They may be of a tensor that is changed."""
        self.aliases = []
        self.sources = {n: tensor for n, tensor in self.sources.items() if not n.startswith("copy")}

    def reads(self, group: Group, rule: Rule) -> bool:
        """Whether the rule takes more than literals."""
        alone = copy.copy(group)
        alone.rules = [rule]
        mine = np.concatenate([self.sources[name][1].ravel() for name in group.source_shapes(self.known)])
        made = alone.targets(self.known, self.sources, lambda _: 1)
        if rule.cast:
            return False
        return any(dtype == group.dtype and np.isin(mine, array).any() for dtype, array in made.values())

    # --- writing ---------------------------------------------------------------------------

    def write(self, directory: Path) -> None:
        rng, known = self.rng, self.known
        rules = [(rule, rule.text(rng)) for group in self.groups for rule in group.rules]
        rng.shuffle(rules)
        uses = {name: any(re.search(rf"\b{name}\b", text) for _, text in rules) for name in known}
        drop = '[drop]\nfrom = ["junk.*", "global_step"]\nto = ["global_step"]\n'
        variables = {"two": str(known["two"]), "four": '["nobody_knows", "two + two"]',
                     "wide": str(99 if uses["wide"] else known["wide"])}
        states = '[states]\n"exp_avg." = "optimizer.state.exp_avg."\n'
        blocks = "".join(f"[[block]]\nfrom = {json.dumps(b.source)}\nto = {json.dumps(b.target)}\n"
                         'when = "l < 90"\n' for b in self.blocks)
        files: dict[str, list[str]] = {"map.toml": [], "base.toml": []}
        with_base = rng.random() < 0.4
        if with_base:
            files["map.toml"].append('extends = "base.toml"\nwithout = ["nothing.like.it"]\n')
            files["base.toml"].append('[vars]\ntwo = 71\n')
            files["base.toml"].append('[[map]]\nto = "nothing.like.it"\nfrom = "there.is.none"\n')
        lines = "".join(f"{name} = {text}\n" for name, text in variables.items())
        files["map.toml"].append('[sides]\nfrom = "one"\nto = "other"\n[vars]\n' + lines)
        files["map.toml"].append(blocks)
        # Rules for the same target stay together: a file's own ones replace those that it inherits.
        alike: dict[str, str] = {}
        for rule, text in rules:
            alike[rule.to] = alike.get(rule.to, "") + text
        for text in (drop, states, *(alias.text() for alias in self.aliases), *alike.values()):
            files["base.toml" if with_base and rng.random() < 0.4 else "map.toml"].append(text)
        if with_base and rng.random() < 0.5:
            # One that the file's own rule for the same target replaces.
            to = next((to for to, text in alike.items() if text in files["map.toml"]), None)
            if to is not None:
                files["base.toml"].append(f'[[map]]\nto = {json.dumps(to)}\nfrom = "wrong"\n')
        for name, texts in files.items():
            if name == "map.toml" or with_base:
                (directory / name).write_text("# A map.\n" + "\n".join(texts))
        inner = {"inner": known["inner"], "deep": 55}  # the top level has its own "deep"
        config: dict[str, Any] = {"deep": known["deep"], "num_attention_heads": known["heads"],
                                  "ignored": None, "text_config": inner}
        (directory / "config.json").write_text(json.dumps(config))
        self.words = ["--map", directory / "map.toml", "--model-config", directory / "config.json"]
        self.words += ["--map-var", f"wide={known['wide']}"] if uses["wide"] else []


def random_map(seed: int) -> RandomMap:
    rng = random.Random(seed)
    known = {name: rng.randint(1, 4) for name in ("two", "wide", "deep", "inner", "heads")}
    known["two"] = rng.randint(2, 3)
    known["four"] = 2 * known["two"]
    blocks = []
    if rng.random() < 0.4:
        blocks = [Captures("left.{l}.", "links.{l}.", [{"l": n} for n in rng.choice(([0, 1], [1]))]),
                  Captures("more.{l+1}.deep.", "mehr.x{l}.", [{"l": 0}])]
    groups: list[Group] = []
    both_ways = rng.random() < 0.85
    while len(groups) < 5:
        try:
            maker = GroupMaker(rng, len(groups), known, blocks, both_ways)
            group = by_ranks(rng, len(groups)) if rng.random() < 0.06 else maker.make()
            sizes = [prod(shape) for shape in group.source_shapes(known).values()]
            if sum(sizes) <= (240 if group.dtype in ("U8", "I8") else 9000):
                groups.append(group)
        except Unlucky:
            continue
    if not any(group.in_blocks for group in groups):
        blocks = []
    made = RandomMap(rng, known, groups, blocks)
    made.fill_sources()
    made.add_aliases()
    if rng.random() < 0.2:
        made.spoil()
    return made
