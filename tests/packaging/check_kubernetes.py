# SPDX-License-Identifier: Apache-2.0
"""The Kubernetes objects: fields and their types (kubernetes_schema.json), what Kubernetes demands across fields and
objects, that the chart makes what the Kustomizations make, and that the commands and configurations in them are ones
that the program has."""

from __future__ import annotations

import copy
import json
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import program_help
import report

try:
    import jsonschema
    import kubernetes_objects
    import yaml
    from kubernetes_objects import Object, Sets
except ImportError as error:
    print(f"skipped: {error}; install python3-yaml and python3-jsonschema")
    sys.exit(77)

# What another object defines, by kind and name, which nobody here makes.
OF_OTHERS = {("PersistentVolumeClaim", "example-checkpoint"), ("Secret", "reshardfs-s3")}


def selector_problems(document: Object) -> Iterator[str]:
    if document["kind"] in ("DaemonSet", "Deployment"):
        labels = document["spec"]["template"]["metadata"]["labels"]
        if not document["spec"]["selector"]["matchLabels"].items() <= labels.items():
            yield f"the selector does not take the pods, which have {labels}"


def pod_problems(pod: Object, version: str) -> Iterator[str]:
    containers = kubernetes_objects.containers_of(pod)
    names = [container["name"] for container in containers]
    if len(names) != len(set(names)):
        yield f"two containers of one name: {names}"
    volumes = {volume["name"] for volume in pod["volumes"]}
    used = {mount["name"] for container in containers for mount in container.get("volumeMounts", [])}
    if volumes != used:
        yield f"volumes {sorted(volumes)}, mounted are {sorted(used)}"
    for container in containers:
        for problem in container_problems(container, version):
            yield f"{container['name']}: {problem}"


def amount(text: str) -> float:
    found = re.fullmatch(r"(\d+)(\D*)", text)
    assert found, text
    return int(found[1]) * {"": 1, "m": 0.001, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}[found[2]]


def container_problems(container: Object, version: str) -> Iterator[str]:
    privileged = container.get("securityContext", {}).get("privileged", False)
    paths = [mount["mountPath"] for mount in container.get("volumeMounts", [])]
    if len(paths) != len(set(paths)):
        yield f"two volumes at one path: {paths}"
    for mount in container.get("volumeMounts", []):
        if mount.get("mountPropagation") == "Bidirectional" and not privileged:
            yield "only a privileged container may have mountPropagation: Bidirectional"
    requests, limits = (container["resources"][kind] for kind in ("requests", "limits"))
    if "memory" not in limits:
        yield "no limit of memory"
    for name in requests.keys() & limits.keys():
        if amount(requests[name]) > amount(limits[name]):
            yield f"requests more {name} than its limit"
    if "reshardfs" in container["image"] and f":{version}" not in container["image"]:
        yield f"its image is not of version {version}"


def names_used(document: Object) -> Iterator[tuple[str, str]]:
    """Kind and name of the objects of its namespace that it needs."""
    for volume in (kubernetes_objects.pod_of(document) or {}).get("volumes", []):
        if "configMap" in volume:
            yield "ConfigMap", volume["configMap"]["name"]
        if "persistentVolumeClaim" in volume:
            yield "PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"]
        for source in volume.get("projected", {}).get("sources", []):
            yield from (("Secret", secret["name"]) for secret in [source.get("secret")] if secret)


def labels_of_pods(documents: list[Object]) -> list[dict[str, str]]:
    return [document["spec"]["template"]["metadata"]["labels"] for document in documents
            if document["kind"] in ("DaemonSet", "Deployment")]


def set_problems(documents: list[Object]) -> Iterator[str]:
    """Of objects that are applied together."""
    there = {(document["kind"], document["metadata"]["name"]) for document in documents}
    for document in documents:
        for used in names_used(document):
            if used not in there | OF_OTHERS:
                yield f"{document['kind']} {document['metadata']['name']}: there is no {' '.join(used)}"
        if document["kind"] in ("NetworkPolicy", "PodDisruptionBudget"):
            selector = document["spec"].get("podSelector") or document["spec"]["selector"]
            if not any(selector["matchLabels"].items() <= labels.items() for labels in labels_of_pods(documents)):
                yield f"{document['kind']} {document['metadata']['name']}: is about no pod"


def claim_problems(sets: Sets) -> Iterator[str]:
    """A reader's claim gets the helper's volume, which is where the helper mounts."""
    for helper, readers in (("helper", ("overlays/volume", "overlays/s3")),
                            ("chart helper", ("chart volume", "chart s3"))):
        if helper not in sets.documents:
            continue
        found = {document["kind"]: document for document in sets.documents[helper]}
        volume, pods = found["PersistentVolume"]["spec"], found["DaemonSet"]["spec"]["template"]["spec"]
        (directory,) = [entry["hostPath"]["path"] for entry in pods["volumes"] if "hostPath" in entry]
        if volume["hostPath"]["path"] != directory:
            yield f"{helper}: the volume is {volume['hostPath']['path']}, the helper's directory {directory}"
        terms = volume["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"]
        if {term["key"]: term["values"] for term in terms} != {
                key: [value] for key, value in pods["nodeSelector"].items()}:
            yield f"{helper}: the volume is on other nodes than the helper"
        for reader in readers:
            (claim,) = [document for document in sets.documents[reader] if document["kind"] == "PersistentVolumeClaim"]
            named = {key: claim["metadata"][key] for key in ("name", "namespace")}
            if {key: volume["claimRef"][key] for key in named} != named:
                yield f"{reader}: the volume is for another claim than {named}"
            for key in ("accessModes", "storageClassName"):
                if volume[key] != claim["spec"][key]:
                    yield f"{reader}: volume and claim differ in {key}"
            if claim["spec"]["volumeName"] != found["PersistentVolume"]["metadata"]["name"]:
                yield f"{reader}: claims {claim['spec']['volumeName']}"


def plain(documents: list[Object]) -> dict[tuple[str, str], Object]:
    """By kind and name, without what Kustomize and the chart are to do differently: namespaces, sums in names and in
    annotations; configurations as what they say."""
    text = re.sub(r"(name: (?:serve-tp4|reshardfs-helper))(?:-tp4)?-[a-z0-9]{10}$", r"\1", yaml.dump_all(documents),
                  flags=re.M)
    out = {}
    for document in kubernetes_objects.parsed(text):
        document = copy.deepcopy(document)
        if document["kind"] == "Namespace":
            continue
        if document["kind"] == "ConfigMap" and document["metadata"]["name"].startswith("reshardfs-helper"):
            document["metadata"]["name"] = "reshardfs-helper"
        if "reshardfs.toml" in document.get("data", {}):
            document["data"] = tomllib.loads(document["data"]["reshardfs.toml"])
        if pod := kubernetes_objects.pod_of(document):
            document["spec"].get("template", {})["metadata"].pop("annotations", None)
            for volume in pod["volumes"]:
                if volume.get("configMap", {}).get("name", "").startswith("reshardfs-helper"):
                    volume["configMap"]["name"] = "reshardfs-helper"
            pod["volumes"].sort(key=lambda volume: volume["name"])
            for container in kubernetes_objects.containers_of(pod):
                container["volumeMounts"].sort(key=lambda mount: mount["name"])
        out[document["kind"], document["metadata"]["name"]] = document
    return out


def difference(one: object, other: object, place: str = "") -> str | None:
    """The first one."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys(), key=str):
            if key not in one or key not in other:
                return f"{place}: only one has {key}"
            if found := difference(one[key], other[key], f"{place}/{key}"):
                return found
        return None
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        found = (difference(a, b, f"{place}/{i}") for i, (a, b) in enumerate(zip(one, other)))
        return next(filter(None, found), None)
    return None if one == other else f"{place}: {one!r} and {other!r}"


def chart_problems(sets: Sets) -> Iterator[str]:
    for chart, kustomization in (("chart helper", "helper"), ("chart volume", "overlays/volume"),
                                 ("chart s3", "overlays/s3")):
        if chart in sets.documents and kustomization in sets.documents:
            if found := difference(plain(sets.documents[chart]), plain(sets.documents[kustomization])):
                yield f"{chart} and {kustomization} differ: {found}"


def values_problems(root: Path) -> Iterator[str]:
    """What values.schema.json says of the values that are here, and of wrong ones."""
    chart = root / kubernetes_objects.FOLDER / "chart"
    schema = json.loads((chart / "values.schema.json").read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    validator = jsonschema.Draft7Validator(schema)
    values = yaml.safe_load((chart / "values.yaml").read_text())
    for path in sorted((chart / "ci").iterdir()):
        merged = values | {key: {**values[key], **given} if isinstance(given, dict) else given
                           for key, given in yaml.safe_load(path.read_text()).items()}
        yield from (f"{path.name}: {error.message}" for error in validator.iter_errors(merged))
    yield from (f"values.yaml: {error.message}" for error in validator.iter_errors(values))
    for wrong in ({"name": "TP4"}, {"mout": {}}, {"mount": {"tp": 4}}, {"cache": {"size": "600"}},
                  {"network": {"egressPort": "443"}}):
        if validator.is_valid(values | wrong):
            yield f"values.schema.json: takes {wrong}"
    described = yaml.safe_load((chart / "Chart.yaml").read_text())
    version = version_of(root)
    if (described["version"], described["appVersion"]) != (version, version):
        yield f"Chart.yaml: is not of version {version}"


def refusal_problems(root: Path) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        done = kubernetes_objects.Renderer(root, Path(folder)).run("default", "helper: {enabled: false}")
    if done.returncode == 0 or "the namespace of this release is default" not in done.stderr:
        yield f"the chart: takes a namespace that has no volume: {done.stderr}"


def commands(container: Object) -> Iterator[list[str]]:
    """Each command of the program in it, as words."""
    for probe in ("startupProbe", "readinessProbe"):
        words = container.get(probe, {}).get("exec", {}).get("command", [])
        if words[:1] == ["reshardfs"]:
            yield words[1:]
    words = container.get("command", []) + container.get("args", [])
    if "reshardfs" in container["image"] and "command" not in container:
        yield words
    if words[:2] == ["/bin/sh", "-c"]:
        for line in words[2].replace("\\\n", " ").splitlines():
            if match := re.search(r"\breshardfs (.+)$", line):
                if match[0].split()[1] in ("mount", "status", "umount"):
                    yield shlex.split(match[1])


def here(text: str, folder: Path) -> str:
    """Of a configuration or a word: paths of the pod, which are in this folder, and a store that nobody is at."""
    text = re.sub(r'(?<![\w/])/(cache|run/reshardfs|etc/reshardfs|mnt/tp4)', rf"{folder}/\1", text)
    return text.replace("https://s3.example.com", "http://127.0.0.1:9")


def command_problems(binary: Path, words: list[str], configuration: str | None) -> Iterator[str]:
    known = {name for option in program_help.read_help(binary, [words[0]]).options
             for name in option.names}
    for word in words[1:]:
        if word.startswith("-") and word.split("=")[0] not in known:
            yield f"'reshardfs {words[0]}' has no {word}"
    if words[0] != "mount":
        return
    # It gets as far as the checkpoint, which is not there.
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "cache").mkdir()
        (folder / "mnt/tp4").mkdir(parents=True)
        (folder / "etc/reshardfs").mkdir(parents=True)
        (folder / "etc/reshardfs/reshardfs.toml").write_text(here(configuration or "", folder))
        words = [here(word, folder) for word in words]
        done = subprocess.run([str(binary), *words, "--check-only", "--remote-timeout", "1"], check=False, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True,
                              env={"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"})
        said = done.stderr.lower()
        if "no such file" not in said and "failed to connect to 127.0.0.1 port 9" not in said:
            yield f"reshardfs {' '.join(words)}: {done.stderr.strip()}"


def shell_problems(container: Object) -> Iterator[str]:
    words = container.get("command", []) + container.get("args", [])
    if words[:2] == ["/bin/sh", "-c"]:
        done = subprocess.run(["sh", "-n", "-c", words[2]], capture_output=True, text=True, check=False)
        yield from done.stderr.splitlines()


def version_of(root: Path) -> str:
    found = re.search(r"^project\(reshardfs VERSION (\S+)", (root / "CMakeLists.txt").read_text(), re.MULTILINE)
    assert found
    return found[1]


def object_problems(document: Object, validator, version: str) -> Iterator[str]:
    wrong = [error.message if not error.context else str(jsonschema.exceptions.best_match([error]).message)
             for error in validator.iter_errors(document)]
    yield from wrong
    if wrong:
        return
    yield from selector_problems(document)
    if pod := kubernetes_objects.pod_of(document):
        yield from pod_problems(pod, version)
        for container in kubernetes_objects.containers_of(pod):
            yield from shell_problems(container)


def program_problems(sets: Sets, binary: Path) -> Iterator[str]:
    for name, documents in sets.documents.items():
        if name.startswith("reader/"):  # it has no configuration of its own
            continue
        texts = [text for document in documents for text in document.get("data", {}).values() if "[mount." in text]
        for document in documents:
            for container in kubernetes_objects.containers_of(kubernetes_objects.pod_of(document) or
                                                              {"containers": []}):
                for words in commands(container):
                    for problem in command_problems(binary, words, texts[0] if texts else None):
                        yield f"{name}: {container['name']}: {problem}"


def main() -> None:
    arguments = report.arguments("binary")
    root = arguments.root
    schema = json.loads((Path(__file__).parent / "kubernetes_schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    sets = kubernetes_objects.all_sets(root)
    problems, count = [], 0
    for place, document in kubernetes_objects.each(sets):
        count += 1
        problems += [f"{place}: {text}" for text in object_problems(document, validator, version_of(root))]
    if not problems:
        for name, documents in sets.documents.items():
            if name in kubernetes_objects.KUSTOMIZATIONS or name in kubernetes_objects.RELEASES:
                problems += [f"{name}: {text}" for text in set_problems(documents)]
        problems += [*claim_problems(sets), *chart_problems(sets), *values_problems(root),
                     *program_problems(sets, arguments.binary)]
        if kubernetes_objects.renderer_problem() is None:
            problems += refusal_problems(root)
    report.finish(problems, f"{count} objects" + "".join(f"; not checked: {text}" for text in sets.missing))


main()
