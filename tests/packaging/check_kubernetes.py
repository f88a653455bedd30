# SPDX-License-Identifier: Apache-2.0
"""The Kubernetes manifests: fields and their types (kubernetes_schema.json), what Kubernetes demands
across fields, and that the commands in them are ones that the program has."""

import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

import program_help
import report

SKIP = 77


def pods(document):
    """(containers, volumes) of a pod or of what makes pods."""
    spec = document["spec"]
    if document["kind"] == "DaemonSet":
        labels = spec["template"]["metadata"]["labels"]
        if not spec["selector"]["matchLabels"].items() <= labels.items():
            yield f"the selector does not take the pods, which have {labels}"
        spec = spec["template"]["spec"]
    containers = spec.get("initContainers", []) + spec["containers"]
    names = [container["name"] for container in containers]
    if len(names) != len(set(names)):
        yield f"two containers of one name: {names}"
    volumes = {volume["name"] for volume in spec["volumes"]}
    used = {mount["name"] for container in containers for mount in container.get("volumeMounts", [])}
    if volumes != used:
        yield f"volumes {sorted(volumes)}, mounted are {sorted(used)}"
    for container in containers:
        for problem in container_problems(container):
            yield f"{container['name']}: {problem}"


def amount(text):
    number, unit = re.fullmatch(r"(\d+)(\D*)", text).groups()
    return int(number) * {"": 1, "m": 0.001, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}[unit]


def container_problems(container):
    privileged = container.get("securityContext", {}).get("privileged", False)
    for mount in container.get("volumeMounts", []):
        if mount.get("mountPropagation") == "Bidirectional" and not privileged:
            yield "only a privileged container may have mountPropagation: Bidirectional"
    requests, limits = (container["resources"][kind] for kind in ("requests", "limits"))
    if "memory" not in limits:
        yield "no limit of memory"
    for name in requests.keys() & limits.keys():
        if amount(requests[name]) > amount(limits[name]):
            yield f"requests more {name} than its limit"
    if "reshardfs" in container["image"] and f":{VERSION}" not in container["image"]:
        yield f"its image is not of version {VERSION}"


def commands(container):
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


def command_problems(binary, words):
    known = {name for option in program_help.read_help(binary, [words[0]]).options
             for name in option.names}
    for word in words[1:]:
        if word.startswith("-") and word.split("=")[0] not in known:
            yield f"'reshardfs {words[0]}' has no {word}"
    if words[0] != "mount":
        return
    # It gets as far as the checkpoint, which is not there.
    with tempfile.TemporaryDirectory() as folder:
        words = [word if word.startswith("-") else word.replace("/mnt/tp4", folder) for word in words]
        done = subprocess.run([binary, *words, "--check-only"], stdin=subprocess.DEVNULL, text=True,
                              capture_output=True, check=False)
        if "no such file" not in done.stderr.lower():
            yield f"reshardfs {' '.join(words)}: {done.stderr.strip()}"


def shell_problems(container):
    words = container.get("command", []) + container.get("args", [])
    if words[:2] == ["/bin/sh", "-c"]:
        done = subprocess.run(["sh", "-n", "-c", words[2]], capture_output=True, text=True, check=False)
        yield from done.stderr.splitlines()


def main():
    global VERSION
    arguments = report.arguments("binary")
    try:
        import jsonschema
        import yaml
    except ImportError as error:
        print(f"skipped: {error}; install python3-yaml and python3-jsonschema")
        sys.exit(SKIP)
    VERSION = re.search(r"^project\(reshardfs VERSION (\S+)",
                        (arguments.root / "CMakeLists.txt").read_text(), re.MULTILINE)[1]
    schema = json.loads((pathlib.Path(__file__).parent / "kubernetes_schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    problems, count = [], 0
    for path in sorted((arguments.root / "packaging/deploy/kubernetes").glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            count += 1
            place = f"{path.name}: {document.get('kind')} {document.get('metadata', {}).get('name')}"
            wrong = [error.message if not error.context else str(
                         jsonschema.exceptions.best_match([error]).message)
                     for error in validator.iter_errors(document)]
            if not wrong:
                wrong = list(pods(document))
                spec = document["spec"].get("template", document)["spec"]
                for container in spec.get("initContainers", []) + spec["containers"]:
                    wrong += shell_problems(container)
                    for words in commands(container):
                        wrong += command_problems(arguments.binary, words)
            problems += [f"{place}: {text}" for text in wrong]
    if count == 0:
        problems.append("there are no manifests")
    report.finish(problems, f"{count} objects")


main()
