# SPDX-License-Identifier: Apache-2.0
"""The Kubernetes objects that packaging/deploy/kubernetes makes: of the manifest for a sidecar, of each Kustomization
as kubectl renders it, and of the chart with render_chart.go."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

FOLDER = "packaging/deploy/kubernetes"
KUSTOMIZATIONS = ("helper", "overlays/volume", "overlays/s3")
# Of sprig and yaml.v3, which Debian packages as sources of this path.
GO_PACKAGES = Path("/usr/share/gocode")
# Releases of the chart: namespace, and which of ci/*-values.yaml; as values.yaml describes them.
RELEASES = {
    "chart helper": ("reshardfs", "reader: {enabled: false}", None),
    "chart volume": ("models", "helper: {enabled: false}", None),
    "chart s3": ("models", "helper: {enabled: false}", "ci/s3-values.yaml"),
}

Object = dict[str, Any]


@dataclass
class Sets:
    """Documents by where they come from, and why others are missing."""

    documents: dict[str, list[Object]] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)


def parsed(text: str) -> list[Object]:
    return [document for document in yaml.safe_load_all(text) if document is not None]


def printed(words: list[str | Path], **settings: Any) -> str:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, **settings)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, words))}: {done.stderr}")
    return done.stdout


def kustomized(root: Path) -> dict[str, list[Object]] | str:
    """Or why not."""
    if shutil.which("kubectl") is None:
        return "Kustomizations: there is no kubectl"
    return {name: parsed(printed(["kubectl", "kustomize", root / FOLDER / name])) for name in KUSTOMIZATIONS}


class Renderer:
    """render_chart.go, compiled."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.chart = root / FOLDER / "chart"
        self.folder = folder
        self.program = folder / "render"
        environment = {**os.environ, "GO111MODULE": "off", "GOPATH": str(GO_PACKAGES), "GOFLAGS": "",
                       "GOCACHE": os.environ.get("RESHARDFS_GO_CACHE", str(folder / "cache"))}
        printed(["go", "build", "-o", self.program, root / "tests/packaging/render_chart.go"], env=environment)

    def run(self, namespace: str, *values: str | Path) -> subprocess.CompletedProcess[str]:
        """@param values text, or a path in the chart."""
        paths = []
        for number, given in enumerate(values):
            if isinstance(given, str):
                path = self.folder / f"values{number}.yaml"
                path.write_text(given)
                paths.append(path)
            else:
                paths.append(self.chart / given)
        return subprocess.run([str(self.program), str(self.chart), "release", namespace, *map(str, paths)],
                              capture_output=True, text=True, check=False)

    def documents(self, namespace: str, *values: str | Path) -> list[Object]:
        done = self.run(namespace, *values)
        if done.returncode:
            raise SystemExit(f"the chart, {values}: {done.stderr}")
        return parsed(done.stdout)


def renderer_problem() -> str | None:
    if shutil.which("go") is None:
        return "the chart: there is no go"
    for name in ("github.com/Masterminds/sprig", "gopkg.in/yaml.v3"):
        if not (GO_PACKAGES / "src" / name).exists():
            return f"the chart: {name} is not installed"
    return None


def charted(root: Path) -> dict[str, list[Object]] | str:
    if problem := renderer_problem():
        return problem
    with tempfile.TemporaryDirectory() as folder:
        renderer = Renderer(root, Path(folder))
        return {name: renderer.documents(namespace, text, *([Path(path)] if path else []))
                for name, (namespace, text, path) in RELEASES.items()}


def all_sets(root: Path) -> Sets:
    sets = Sets()
    # Whole objects by themselves, so that there is something to check without any tool.
    for path in (root / FOLDER / "sidecar.yaml", root / FOLDER / "device-plugin.yaml",
                 *sorted((root / FOLDER).glob("helper/*.yaml")),
                 *sorted((root / FOLDER).glob("reader/*.yaml"))):
        if path.name != "kustomization.yaml":
            sets.documents[str(path.relative_to(root / FOLDER))] = parsed(path.read_text())
    for made in (kustomized(root), charted(root)):
        if isinstance(made, str):
            sets.missing.append(made)
        else:
            sets.documents |= made
    return sets


def each(sets: Sets) -> Iterator[tuple[str, Object]]:
    """Every object, with a name of its place."""
    for name, documents in sets.documents.items():
        for document in documents:
            yield f"{name}: {document.get('kind')} {document.get('metadata', {}).get('name')}", document


def pod_of(document: Object) -> Object | None:
    """The specification of a pod, or of the pods that an object makes."""
    if document["kind"] == "Pod":
        return document["spec"]
    if document["kind"] in ("DaemonSet", "Deployment"):
        return document["spec"]["template"]["spec"]
    return None


def containers_of(pod: Object) -> list[Object]:
    return pod.get("initContainers", []) + pod["containers"]
