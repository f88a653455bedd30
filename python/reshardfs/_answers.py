# SPDX-License-Identifier: Apache-2.0
"""What the commands answer. Each answer is also the dictionary that `--json` prints, with all that it has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Dict, TypeVar

_A = TypeVar("_A", bound="Answer")


@dataclass(frozen=True, eq=False, repr=False)
class Answer(Dict[str, Any]):
    """A dictionary whose most important members are attributes, too."""

    def __repr__(self) -> str:
        """Without what may be long."""
        parts = []
        for name in (each.name for each in fields(self)):
            value = getattr(self, name)
            if isinstance(value, tuple) and any(isinstance(item, Answer) for item in value):
                parts.append(f"{len(value)} {name}")
            elif not isinstance(value, Mapping):
                parts.append(f"{name}={value!r}")
        return f"<reshardfs.{type(self).__name__} {', '.join(parts)}>"


def _made(cls: type[_A], json: Mapping[str, Any], **made: Any) -> _A:
    """Members that `made` has not are those of the mapping; what it lacks is None."""
    own = {each.name: json.get(each.name) for each in fields(cls) if each.name not in made}
    answer = cls(**{name: tuple(value) if isinstance(value, list) else value for name, value in own.items()}, **made)
    answer.update(json)
    return answer


def _all(cls: type[_A], json: Mapping[str, Any], name: str) -> tuple[_A, ...]:
    return tuple(_made(cls, each) for each in json.get(name, ()))


@dataclass(frozen=True, eq=False, repr=False)
class Progress(Answer):
    """How far a call is. `phase` is "writing", for example, and None where the work has no phases."""

    phase: str | None
    bytes: int
    total_bytes: int
    files: int
    total_files: int
    file: str | None


def progress_of(phase: str, bytes_: int, total_bytes: int, files: int, total_files: int, file: str | None) -> Progress:
    return _made(Progress, {"phase": phase or None, "bytes": bytes_, "total_bytes": total_bytes, "files": files,
                            "total_files": total_files, "file": file})


@dataclass(frozen=True, eq=False, repr=False)
class Completeness(Answer):
    """What states that a checkpoint is complete, and what it lacks."""

    stated: bool
    by: tuple[str, ...]
    missing: tuple[str, ...]
    unstated: str | None


@dataclass(frozen=True, eq=False, repr=False)
class File(Answer):
    """A file of a checkpoint."""

    rank: int
    path: str
    bytes: int
    parameters: int


@dataclass(frozen=True, eq=False, repr=False)
class Parameter(Answer):
    """What files hold of a parameter. `full_shape` is None where it is unknown."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int
    ranks: tuple[int, ...]
    full_shape: tuple[int, ...] | None


@dataclass(frozen=True, eq=False, repr=False)
class Statistics(Answer):
    """Of a parameter's elements; None where it has none to count."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    elements: int | None
    min: float | None
    max: float | None
    mean: float | None
    std: float | None
    nan: int | None
    inf: int | None
    zeros: int | None


@dataclass(frozen=True, eq=False, repr=False)
class Inspection(Answer):
    """What inspect() finds. Of a part of a checkpoint there is a description alone."""

    step: str | None
    steps: tuple[str, ...]
    files: tuple[File, ...]
    parameters: tuple[Parameter, ...]
    statistics: tuple[Statistics, ...]
    completeness: Completeness | None
    description: Mapping[str, Any] | None

    @classmethod
    def of(cls, json: Mapping[str, Any]) -> Inspection:
        complete = json.get("completeness")
        return _made(cls, json, steps=tuple(json.get("steps", ())), files=_all(File, json, "files"),
                     parameters=_all(Parameter, json, "parameters"), statistics=_all(Statistics, json, "statistics"),
                     completeness=None if complete is None else _made(Completeness, complete))


@dataclass(frozen=True, eq=False, repr=False)
class SourceBytes(Answer):
    """What a target rank reads of a source file."""

    rank: int
    file: str
    bytes: int


@dataclass(frozen=True, eq=False, repr=False)
class RankPlan(Answer):
    """What a target rank reads."""

    rank: int
    needed_ranks: tuple[int, ...]
    sources: tuple[SourceBytes, ...]

    @classmethod
    def of(cls, json: Mapping[str, Any]) -> RankPlan:
        return _made(cls, json, sources=_all(SourceBytes, json, "sources"))


@dataclass(frozen=True, eq=False, repr=False)
class NodePlan(Answer):
    """What a node fetches, where `simulate` says how many there are."""

    ranks: tuple[int, ...]
    needed_bytes: int
    fetched_bytes: int
    fetched_bytes_with_cache: int
    cache_bytes: int


@dataclass(frozen=True, eq=False, repr=False)
class Plan(Answer):
    """What plan() finds: of all ranks, of one, or of nodes."""

    ranks: tuple[RankPlan, ...]
    nodes: tuple[NodePlan, ...]
    unstated: str | None

    @classmethod
    def of(cls, json: Mapping[str, Any]) -> Plan:
        ranks = (RankPlan.of(json),) if "needed_ranks" in json else tuple(map(RankPlan.of, json.get("ranks", ())))
        return _made(cls, json, ranks=ranks, nodes=_all(NodePlan, json, "nodes"))


@dataclass(frozen=True, eq=False, repr=False)
class Problem(Answer):
    """Something that is wrong with a checkpoint."""

    kind: str
    rank: int | None
    file: str | None
    parameter: str | None
    offset: int | None
    differing_bytes: int
    message: str


@dataclass(frozen=True, eq=False, repr=False)
class Verification(Answer):
    """What verify() finds. What could not be read is a problem, too."""

    source: str
    step: str
    good: bool
    files: int
    parameters: int
    quantized_weights: int
    bytes: int
    crc_good: int
    crc_none: int
    damaged_parameters: int
    differing_bytes: int
    problems: tuple[Problem, ...]
    warnings: tuple[str, ...]
    completeness: Completeness

    @classmethod
    def of(cls, json: Mapping[str, Any]) -> Verification:
        return _made(cls, json, problems=_all(Problem, json, "problems"),
                     completeness=_made(Completeness, json["completeness"]))


@dataclass(frozen=True, eq=False, repr=False)
class ParameterDifference(Answer):
    """How a parameter differs; status is "equal", "different", "only in A", "only in B", "other shape", "other type"
    or "per rank"."""

    name: str
    status: str
    rank: int | None
    elements: int
    different: int
    max_absolute: float | str | None
    max_relative: float | str | None


@dataclass(frozen=True, eq=False, repr=False)
class Difference(Answer):
    """What diff() finds."""

    a: str
    b: str
    equal: bool
    counts: Mapping[str, int]
    parameters: tuple[ParameterDifference, ...]

    @classmethod
    def of(cls, json: Mapping[str, Any]) -> Difference:
        return _made(cls, json, parameters=_all(ParameterDifference, json, "parameters"))


@dataclass(frozen=True, eq=False, repr=False)
class Exported(Answer):
    """What export() has done. `incomplete`: a share that is still to be written."""

    written_files: int
    written_bytes: int
    kept_files: int
    kept_bytes: int
    resumed_bytes: int
    shared_bytes: int
    removed_files: int
    share: str | None
    incomplete: str | None
    warnings: tuple[str, ...]
    unstated: str | None

    @classmethod
    def of(cls, json: Mapping[str, Any]) -> Exported:
        return _made(cls, json)


# As they are called, not where they are.
for _public in (Difference, Exported, Inspection, Plan, Progress, Verification):
    _public.__module__ = "reshardfs"
