# SPDX-License-Identifier: Apache-2.0
"""Who looks at the nodes of cluster_tasks.py from outside: readers, whose counts tell of errors, and a Prometheus with the
alert rules of the package."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from base_system import LONG
from cluster_nodes import Node, copy_in, wait_for

PROGRAM = Path(__file__).with_name("cluster_reader.py")
FOLDER = "/opt/cluster"
COUNTS = f"{FOLDER}/counts"
RULES = "/usr/share/doc/reshardfs/examples/prometheus/reshardfs.rules.yml"


class Reader:
    """A service of a node that reads a mount, as another user than the mount's."""

    def __init__(self, node: Node, unit: str, mountpoint: str, wanted: dict[str, str]) -> None:
        self.node, self.unit, self.mountpoint, self.wanted = node, unit, mountpoint, wanted
        self.name = f"{unit} on {node.name}"
        self.counts: dict[str, Any] = {}

    def start(self) -> Reader:
        copy_in(self.node, PROGRAM, f"{FOLDER}/reader.py")
        self.node.write(f"{FOLDER}/{self.unit}.json", json.dumps(self.wanted))
        self.node.run(f"install -d -m 1777 {COUNTS} && rm -f {COUNTS}/{self.unit}")
        self.node.run(f"systemd-run --quiet --collect --unit={self.unit} --uid=nobody "
                      f"/usr/bin/python3 -B {FOLDER}/reader.py {COUNTS}/{self.unit} {FOLDER}/{self.unit}.json "
                      f"{self.mountpoint}")
        wait_for(self.look, f"{self.name} to read")
        return self

    def look(self) -> dict[str, Any]:
        with contextlib.suppress(FileNotFoundError):
            self.counts = json.loads(self.node.path(f"{COUNTS}/{self.unit}").read_text())
        return self.counts

    @property
    def verified(self) -> int:
        return int(self.look().get("verified", 0))

    @property
    def errors(self) -> dict[str, int]:
        return dict(self.look().get("errors", {}))

    @property
    def pid(self) -> int:
        return int(self.look()["pid"])

    def goes_on(self, reads: int = 0) -> None:
        """Waits until it has verified so many more, or each file twice more."""
        goal = self.verified + (reads or 4 * len(self.wanted))
        wait_for(lambda: self.verified >= goal or not self.runs(), f"reads of {self.name}: {self.counts}")
        assert self.runs(), f"{self.name} has ended: {self.journal()}"

    def runs(self) -> bool:
        return self.node.path(f"/proc/{self.look()['pid']}").exists()

    def journal(self) -> str:
        return self.node.says(f"journalctl --no-pager --lines=20 --unit={self.unit}")

    def has_no_error(self) -> None:
        counts = self.look()
        assert not counts["errors"] and not counts["wrong"], f"{self.name}: {counts}"

    def stop(self) -> int:
        """@return how many reads were right."""
        self.node.run(f"systemctl stop {self.unit}")
        assert not self.look()["wrong"], f"{self.name}: {self.counts}"
        return self.verified


class Prometheus:
    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, query: str) -> list[dict[str, Any]]:
        path = f"{self.url}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
        try:
            with urllib.request.urlopen(path, timeout=LONG) as answer:
                return list(json.load(answer)["data"]["result"])
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{query}: {error.read().decode()}") from None

    def value(self, query: str) -> float | None:
        found = self.ask(query)
        return float(found[0]["value"][1]) if found else None

    def firing(self, alert: str, node: Node, mountpoint: str) -> bool:
        labels = f'alertname="{alert}",alertstate="firing",instance="{node.name}",mount="{mountpoint}"'
        return bool(self.ask(f"ALERTS{{{labels}}}"))

    def is_ready(self) -> bool:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.url}/-/ready", timeout=LONG) as answer:
            return bool(answer.status == 200)
        return False


@contextlib.contextmanager
def watching(nodes: list[Node], folder: Path, port: int) -> Iterator[Prometheus]:
    """One that scrapes the exporter of each node, with the rules that the package has installed."""
    folder.mkdir()
    shutil.copy(nodes[0].path(RULES), folder / "rules.yml")
    targets = "".join(f"  - targets: ['{node.address}:9100']\n    labels: {{instance: {node.name}}}\n" for node in nodes)
    (folder / "prometheus.yml").write_text(
        "global: {scrape_interval: 5s, scrape_timeout: 5s, evaluation_interval: 5s}\n"
        f"rule_files: ['{folder}/rules.yml']\n"
        f"scrape_configs:\n- job_name: nodes\n  static_configs:\n{targets}")
    with open(folder / "log", "wb") as log:
        server = subprocess.Popen(["prometheus", f"--config.file={folder}/prometheus.yml",
                                   f"--web.listen-address=127.0.0.1:{port}", f"--storage.tsdb.path={folder}/data"],
                                  stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        prometheus = Prometheus(f"http://127.0.0.1:{port}")
        wait_for(lambda: prometheus.is_ready() or server.poll() is not None, "Prometheus")
        assert server.poll() is None, (folder / "log").read_text()
        yield prometheus
    finally:
        server.terminate()
        server.wait(LONG)
