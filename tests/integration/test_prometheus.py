# SPDX-License-Identifier: Apache-2.0
"""reshardfs status --metrics, and what packaging/deploy has for Prometheus and Grafana: with Prometheus itself."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from ckpt_format import Record, encode_checkpoint  # noqa: E402
from mounted import (  # noqa: E402
    SOON,
    Settings,
    mounted,
    mountpoint_guard,
    processes_of,
    run,
    run_unittests,
    scratch,
    wait_until,
)
from remote_tests import SHAPE  # noqa: E402
from two_arrays import HALVES, ROWS, TwoArrays, mounted_file  # noqa: E402
from web_server import serving  # noqa: E402

DEPLOY = Path(__file__).resolve().parents[2] / "packaging/deploy"
RULES = DEPLOY / "prometheus/reshardfs.rules.yml"
DASHBOARD = DEPLOY / "grafana/reshardfs.json"
FILE = "rank_0/checkpoint_0.ckpt"
DATA = encode_checkpoint([Record("w", "Float32", (65536,), bytes(262144))])


def metrics(*words: str | Path) -> str:
    """What status prints, in time and with success whatever the mounts are like."""
    began = time.monotonic()
    result = run("status", "--metrics", *words)
    assert (result.code, result.stderr) == (0, ""), result
    assert time.monotonic() - began < SOON
    return result.stdout


def families(text: str) -> list[str]:
    return re.findall(r"^# TYPE (\S+) ", text, re.MULTILINE)


@contextlib.contextmanager
def mounted_in(directory: Path, name: str, *options: str | Path) -> Iterator[Path]:
    """Until somebody takes it away."""
    source, mountpoint = directory / f"{name}.ckpt", directory / name
    source.write_bytes(DATA)
    mountpoint.mkdir()
    with mountpoint_guard(mountpoint):
        result = run("mount", source, mountpoint, *options)
        assert result.code == 0, result.stderr
        yield mountpoint


class StatusMetrics(unittest.TestCase):
    def test_all_mounts_are_in_one_text(self) -> None:
        with scratch() as directory, mounted_in(directory, "one") as one, mounted_in(directory, "two") as two:
            (one / FILE).read_bytes()
            text = metrics()
            self.assertEqual(len(families(text)), len(set(families(text))))
            self.assertEqual(families(text)[:2], ["reshardfs_up", "reshardfs_mount_state"])
            for mountpoint, read in ((one, len(DATA)), (two, 0)):
                for line in ("up", "mount_state", "build_info"):
                    self.assertRegex(text, rf'(?m)^reshardfs_{line}\{{mount="{mountpoint}"[^}}]*\}} 1$')
                self.assertIn(f'reshardfs_read_bytes_total{{mount="{mountpoint}",view="ranks"}} {read}\n', text)
            of_one = metrics(one)
            self.assertIn(f'mount="{one}"', of_one)
            self.assertNotIn(f'mount="{two}"', of_one)
            # Each family's samples stand together, and have a mount.
            family = ""
            for line in text.splitlines():
                if line.startswith("# TYPE "):
                    family = line.split()[2]
                elif not line.startswith("#"):
                    self.assertRegex(line, rf'^{family}(_bucket|_sum|_count)?\{{mount="')
            self.check_with_promtool(text)

    def check_with_promtool(self, text: str) -> None:
        if shutil.which("promtool"):
            done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True,
                                  timeout=60, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_nothing_is_mounted_there(self) -> None:
        with scratch() as directory:
            result = run("status", "--metrics", directory)
            self.assertEqual((result.code, result.stdout), (2, ""))
            for other in ("--json", "--ready"):
                result = run("status", "--metrics", other, directory)
                self.assertEqual((result.code, result.stdout), (2, ""))

    def test_dead_and_stalled_mounts_do_not_hide_others(self) -> None:
        with (scratch() as directory, mounted_in(directory, "live") as live, mounted_in(directory, "dead") as dead,
              mounted_in(directory, "stalled") as stalled):
            (pid,) = processes_of(dead)
            os.kill(pid, signal.SIGKILL)
            self.assertTrue(wait_until(lambda: not processes_of(dead)))
            (pid,) = processes_of(stalled)
            os.kill(pid, signal.SIGSTOP)
            try:
                text = metrics()
            finally:
                os.kill(pid, signal.SIGCONT)
            for mountpoint, up, state in ((live, 1, "live"), (dead, 0, "dead"), (stalled, 0, "stalled")):
                self.assertIn(f'reshardfs_up{{mount="{mountpoint}"}} {up}\n', text)
                self.assertIn(f'reshardfs_mount_state{{mount="{mountpoint}",state="{state}"}} 1\n', text)
            self.assertIn(f'reshardfs_build_info{{mount="{live}",', text)
            self.assertNotIn(f'reshardfs_build_info{{mount="{dead}",', text)
            self.check_with_promtool(text)

    def test_a_changed_source_shows_without_a_read(self) -> None:
        with scratch() as directory, mounted_in(directory, "m") as mountpoint:
            self.assertIn(f'reshardfs_source_changed{{mount="{mountpoint}"}} 0\n', metrics(mountpoint))
            os.truncate(directory / "m.ckpt", 1000)
            self.assertIn(f'reshardfs_source_changed{{mount="{mountpoint}"}} 1\n', metrics(mountpoint))

    def test_counters_of_hand_overs_go_on(self) -> None:
        with scratch() as directory, mounted_in(directory, "m") as mountpoint:
            made = re.search(r"^reshardfs_mounted_timestamp_seconds.*$", metrics(mountpoint), re.MULTILINE)
            assert made
            for count in (1, 2):
                self.assertEqual(run("reload", mountpoint).code, 0)
                text = metrics(mountpoint)
                self.assertIn(f'reshardfs_upgrades_total{{mount="{mountpoint}"}} {count}\n', text)
                self.assertIn(f'reshardfs_reload_refused{{mount="{mountpoint}"}} 0\n', text)
                self.assertIn(made[0] + "\n", text)

    def test_the_label_is_the_path_that_is_seen(self) -> None:
        """A bind mount shows the mount elsewhere, as a container does."""
        if os.geteuid() != 0:
            self.skipTest("needs root for a bind mount")
        with scratch() as directory, mounted_in(directory, "m") as mountpoint:
            other = directory / "other"
            other.mkdir()
            subprocess.run(["mount", "--bind", mountpoint, other], check=True)
            try:
                text = metrics(other)
            finally:
                subprocess.run(["umount", other], check=True)
            self.assertIn(f'mount="{other}"', text)
            self.assertNotIn(f'mount="{mountpoint}"', text)

    def test_stalled_source_shows_in_its_age(self) -> None:
        """A server that keeps a reader waiting."""
        with scratch() as directory:
            # More than is fetched ahead.
            made = TwoArrays(directory, ROWS, HALVES, (1024, 65536))
            gate = threading.Event()
            with serving(directory) as server, mounted(f"{server.url}/set", *made.options()) as mountpoint:
                server.rules = [lambda request: gate.wait(60) and False]
                reader = threading.Thread(target=mounted_file(mountpoint, 0).read_bytes, daemon=True)
                reader.start()
                age = re.compile(rf'^reshardfs_oldest_request_seconds{{mount="{mountpoint}"}} (\S+)$', re.MULTILINE)

                def oldest() -> float:
                    found = age.search((mountpoint / ".reshardfs/metrics").read_text())
                    assert found
                    return float(found[1])

                try:
                    self.assertTrue(wait_until(lambda: oldest() > 1))
                finally:
                    gate.set()
                reader.join(60)
                self.assertTrue(wait_until(lambda: oldest() == 0))


class Service(unittest.TestCase):
    """The unit that writes what node_exporter collects."""

    def collect(self, directory: Path) -> None:
        """What systemd would run, in that directory."""
        unit = (DEPLOY / "prometheus/reshardfs-metrics.service").read_text()
        line = re.search(r"^ExecStart=(.*)$", unit, re.MULTILINE)
        assert line
        environment = {**os.environ, "PATH": f"{Settings.binary.parent}:{os.environ['PATH']}"}
        subprocess.run(shlex.split(line[1]), cwd=directory, env=environment, check=True, timeout=60,
                       stdin=subprocess.DEVNULL)

    def test_systemd_finds_nothing_wrong(self) -> None:
        if shutil.which("systemd-analyze") is None:
            self.skipTest("needs systemd-analyze")
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", "--recursive-errors=no",
                               *(DEPLOY / "prometheus").glob("reshardfs-metrics.*")], capture_output=True, text=True,
                              timeout=60, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_node_exporter_collects_it(self) -> None:
        if shutil.which("prometheus-node-exporter") is None:
            self.skipTest("needs Debian's package prometheus-node-exporter")
        with scratch() as directory, mounted_in(directory, "m \"1\"") as mountpoint:
            (mountpoint / FILE).read_bytes()
            texts = directory / "texts"
            texts.mkdir()
            self.collect(texts)
            self.assertEqual(os.listdir(texts), ["reshardfs.prom"])
            url = f"http://127.0.0.1:{(port := free_port())}/metrics"
            with (directory / "exporter.log").open("w") as log, subprocess.Popen(
                    ["prometheus-node-exporter", f"--web.listen-address=127.0.0.1:{port}",
                     "--collector.disable-defaults", "--collector.textfile",
                     f"--collector.textfile.directory={texts}"],
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log) as exporter:
                try:
                    self.assertTrue(wait_until(lambda: "node_textfile" in page(url)))
                    collected = page(url)
                finally:
                    exporter.terminate()
            self.assertIn("\nnode_textfile_scrape_error 0\n", collected)
            self.assertRegex(collected, r'(?m)^node_textfile_mtime_seconds\{file=".*/reshardfs\.prom"\}')
            label = str(mountpoint).replace('"', '\\"')
            self.assertIn(f'\nreshardfs_up{{mount="{label}"}} 1\n', collected)
            self.assertIn(f'\nreshardfs_source_fetch_duration_seconds_count{{kind="file",mount="{label}"}} ', collected)


@unittest.skipUnless(shutil.which("promtool"), "needs promtool, of Debian's package prometheus")
class Rules(unittest.TestCase):
    def test_pass_their_tests(self) -> None:
        for verb, file in (("check", RULES), ("test", RULES.with_name("reshardfs.rules.test.yml"))):
            done = subprocess.run(["promtool", verb, "rules", file], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_every_alert_has_a_test_in_which_it_fires(self) -> None:
        alerts = re.findall(r"- alert: (\w+)", RULES.read_text())
        tests = RULES.with_name("reshardfs.rules.test.yml").read_text()
        self.assertGreater(len(alerts), 8)
        for alert in alerts:
            self.assertRegex(tests, rf"- alertname: {alert}\n\s+eval_time: \S+\n\s+exp_alerts:")
            self.assertRegex(tests, rf"\{{alertname: {alert}, eval_time: \S+\}}")


class Exporter(http.server.BaseHTTPRequestHandler):
    """Stands in for node_exporter's textfile collector. Of one mount: another test may have one that does not
    answer, for which status waits longer than Prometheus."""

    mountpoint = Path()

    def do_GET(self) -> None:
        body = run("status", "--metrics", self.mountpoint).stdout.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def prometheus(directory: Path, mountpoint: Path) -> Iterator[str]:
    """@return the URL of one that scrapes the mount again and again, with the rules loaded."""
    Exporter.mountpoint = mountpoint
    exporter = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Exporter)
    threading.Thread(target=exporter.serve_forever, daemon=True).start()
    config = directory / "prometheus.yml"
    config.write_text(f"global: {{scrape_interval: 2s, scrape_timeout: 2s, evaluation_interval: 1s}}\n"
                      f"rule_files: ['{RULES}']\n"
                      f"scrape_configs:\n- job_name: reshardfs\n  static_configs:\n"
                      f"  - targets: ['127.0.0.1:{exporter.server_address[1]}']\n")
    port = free_port()
    with (directory / "prometheus.log").open("w") as log:
        server = subprocess.Popen(["prometheus", f"--config.file={config}", f"--web.listen-address=127.0.0.1:{port}",
                                   f"--storage.tsdb.path={directory}/tsdb"],
                                  stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}"
    try:
        assert wait_until(lambda: is_ready(url)), (directory / "prometheus.log").read_text()
        yield url
    finally:
        server.terminate()
        server.wait(60)
        exporter.shutdown()
        exporter.server_close()


def page(url: str) -> str:
    """Empty where nothing answers."""
    with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=30) as answer:
        return str(answer.read().decode())
    return ""


def is_ready(url: str) -> bool:
    with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/-/ready", timeout=30) as answer:
        return bool(answer.status == 200)
    return False


def ask(url: str, path: str, **parameters: str) -> Any:
    try:
        with urllib.request.urlopen(f"{url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}", timeout=30) as answer:
            return json.load(answer)["data"]
    except urllib.error.HTTPError as error:
        raise AssertionError(f"{parameters}: {error.read().decode()}") from None


@unittest.skipUnless(shutil.which("prometheus"), "needs Debian's package prometheus")
class RealPrometheus(unittest.TestCase):
    """Each query of the dashboard has an answer where there is a mount of every kind."""

    def scraped(self, url: str, query: str) -> list[Any]:
        return list(ask(url, "query", query=query)["result"])

    def queries(self) -> list[str]:
        dashboard = json.loads(DASHBOARD.read_text())
        found = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
        self.assertGreater(len(found), 20)
        return found

    def test_answers_every_query(self) -> None:
        with scratch() as directory:
            made = TwoArrays(directory, ROWS, HALVES, SHAPE)
            cache = directory / "cache"
            with (serving(directory) as server,
                  mounted(f"{server.url}/set", *made.options(), "--cache-dir", cache) as mountpoint,
                  prometheus(directory, mountpoint) as url):
                of_mount = f'reshardfs_up{{mount="{mountpoint}"}}'
                self.assertTrue(wait_until(lambda: bool(self.scraped(url, of_mount))))
                # Between two scrapes, so that there are rates.
                for rank in range(2):
                    self.assertEqual(mounted_file(mountpoint, rank).read_bytes(), made.expected(rank))
                read = f'increase(reshardfs_read_bytes_total{{mount="{mountpoint}",view="ranks"}}[1m]) > 0'
                self.assertTrue(wait_until(lambda: bool(self.scraped(url, read))))
                for expression in self.queries():
                    query = (expression.replace("$instance", ".*").replace("$mount", str(mountpoint))
                             .replace("$__rate_interval", "1m"))
                    self.assertNotIn("$", query)
                    with self.subTest(query):
                        result = self.scraped(url, query)
                        self.assertTrue(result, "no answer")
                        for sample in result:
                            float(sample["value"][1])
                self.check_variables(url, mountpoint)
                self.check_rules(url)

    def check_variables(self, url: str, mountpoint: Path) -> None:
        variables = json.loads(DASHBOARD.read_text())["templating"]["list"]
        self.assertEqual([variable["name"] for variable in variables], ["datasource", "instance", "mount"])
        for variable in variables[1:]:
            match = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"])
            assert match
            series = ask(url, "series", **{"match[]": match[1].replace("$instance", ".*")})
            values = {one.get(match[2]) for one in series}
            self.assertNotIn(None, values)
            if variable["name"] == "mount":
                self.assertIn(str(mountpoint), values)

    def check_rules(self, url: str) -> None:
        """They are evaluated without an error."""
        def rules() -> list[Any]:
            return [rule for group in ask(url, "rules")["groups"] for rule in group["rules"]]

        self.assertTrue(wait_until(lambda: all(rule["health"] == "ok" for rule in rules())), rules())
        self.assertEqual(len(rules()), RULES.read_text().count("- alert: "))

    def test_an_alert_fires_and_clears(self) -> None:
        with scratch() as directory, mounted_in(directory, "m") as mountpoint, prometheus(directory, mountpoint) as url:
            labels = f'{{alertname="ReshardfsReadErrors",mount="{mountpoint}"}}'
            self.assertTrue(wait_until(lambda: bool(self.scraped(url, f'reshardfs_up{{mount="{mountpoint}"}}'))))
            self.assertEqual(self.scraped(url, f"ALERTS{labels}"), [])
            os.truncate(directory / "m.ckpt", 1000)
            with self.assertRaises(OSError):
                (mountpoint / FILE).read_bytes()
            self.assertTrue(wait_until(lambda: bool(self.scraped(url, f'ALERTS{labels} == 1'))))
            changed = f'ALERTS{{alertname="ReshardfsSourceChanged",mount="{mountpoint}"}}'
            self.assertTrue(wait_until(lambda: bool(self.scraped(url, changed))))
            (directory / "m.ckpt").write_bytes(DATA)
            # Refused while a program has a file of the former contents open, as Prometheus has the metrics.
            self.assertTrue(wait_until(lambda: run("reload", "--replace", mountpoint).code == 0))
            self.assertTrue(wait_until(lambda: not self.scraped(url, changed)))


if __name__ == "__main__":
    run_unittests()
