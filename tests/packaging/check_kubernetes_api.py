# SPDX-License-Identifier: Apache-2.0
"""The Kubernetes objects against the schema of Kubernetes' API: no field that it does not have, every value of the
field's type, and all fields that it requires. The schema is the one that npm's @kubernetes/client-node was generated
from, as its models state it; packaging/test.sh installs that, and RESHARDFS_NODE_MODULES names the directory."""

from __future__ import annotations

import copy
import functools
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import report

try:
    import kubernetes_objects
    from kubernetes_objects import Object
except ImportError as error:
    print(f"skipped: {error}; install python3-yaml")
    sys.exit(77)

MODELS = Path(os.environ.get("RESHARDFS_NODE_MODULES", "build/npm/node_modules")) / "@kubernetes/client-node/dist/gen/models"
SIMPLE: dict[str, tuple[type, ...]] = {"string": (str,), "number": (int, float), "boolean": (bool,),
                                       "IntOrString": (int, str)}


@functools.cache
def fields(model: str) -> dict[str, tuple[str, bool]]:
    """Of a model: names, their types, and whether they must be there."""
    text = (MODELS / f"{model}.js").read_text()
    listed = re.search(r"^\w+\.attributeTypeMap = (\[.*?\n\]|\[\]);", text, re.S | re.M)
    assert listed, model
    declared = dict(re.findall(r"^    '(\w+)'(\??): ", (MODELS / f"{model}.d.ts").read_text(), re.M))
    return {field["baseName"]: (field["type"], declared[field["name"]] == "") for field in json.loads(listed[1])}


def problems_of(value: Any, kind: str, place: str = "") -> Iterator[str]:
    if kind == "any":
        return
    if kind in SIMPLE:
        if not isinstance(value, SIMPLE[kind]) or (isinstance(value, bool) and kind != "boolean"):
            yield f"{place}: {value!r} is no {kind}"
    elif found := re.fullmatch(r"Array<(.+)>", kind):
        if not isinstance(value, list):
            yield f"{place}: is no list"
            return
        for number, item in enumerate(value):
            yield from problems_of(item, found[1], f"{place}/{number}")
    elif found := re.fullmatch(r"\{ \[key: string\]: (.+?);? \}", kind):
        if not isinstance(value, dict):
            yield f"{place}: is no map"
            return
        for key, item in value.items():
            yield from problems_of(item, found[1], f"{place}/{key}")
    elif not isinstance(value, dict):
        yield f"{place}: is no object"
    else:
        known = fields(kind)
        yield from (f"{place}: {kind} has no {key}" for key in value.keys() - known.keys())
        yield from (f"{place}: lacks {key}" for key, (_, needed) in known.items() if needed and key not in value)
        for key in value.keys() & known.keys():
            yield from problems_of(value[key], known[key][0], f"{place}/{key}")


def object_problems(document: Object) -> Iterator[str]:
    # The objects here are all of a version v1, whose models are named so whatever the group.
    if document["apiVersion"].split("/")[-1] != "v1":
        yield f"its version is {document['apiVersion']}"
        return
    yield from problems_of(document, f"V1{document['kind']}")


def faults() -> Iterator[tuple[str, Callable[[Object], object]]]:
    """What is said of a Deployment, and how to make it so."""
    def pod(document: Object) -> Object:
        return document["spec"]["template"]["spec"]

    yield "has no replica", lambda document: document["spec"].update(replica=1)
    yield "has no imag", lambda document: pod(document)["containers"][0].update(imag="x")
    yield "is no number", lambda document: document["spec"].update(replicas="1")
    yield "is no boolean", lambda document: pod(document).update(hostPID="no")
    yield "is no string", lambda document: pod(document)["containers"][0].update(image=1)
    yield "is no list", lambda document: pod(document).update(volumes={})
    yield "lacks containers", lambda document: pod(document).pop("containers")
    yield "lacks selector", lambda document: document["spec"].pop("selector")


def main() -> None:
    arguments = report.arguments()
    if not MODELS.is_dir():
        print(f"skipped: {MODELS} is not there; npm install @kubernetes/client-node")
        sys.exit(77)
    sets = kubernetes_objects.all_sets(arguments.root)
    problems, kinds = [], set()
    for place, document in kubernetes_objects.each(sets):
        kinds.add(document["kind"])
        problems += [f"{place}: {text}" for text in object_problems(document)]
    (sample,) = sets.documents["reader/reader.yaml"]
    for says, spoil in faults():
        spoilt = copy.deepcopy(sample)
        spoil(spoilt)
        if not any(says in problem for problem in object_problems(spoilt)):
            problems.append(f"the schema does not find: {says}")
    release = re.search(r"OpenAPI spec version: (\S+)", (MODELS / "V1Pod.js").read_text())
    report.finish(problems, f"{len(kinds)} kinds, {release[1] if release else 'an unknown release'}"
                  + "".join(f"; not checked: {text}" for text in sets.missing))


main()
