# SPDX-License-Identifier: Apache-2.0
"""--log-format json: each line is one object with what is known as fields; the journal's own fields."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import unittest
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from ckpt_format import Record, encode_checkpoint  # noqa: E402
from mounted import (  # noqa: E402
    COMMAND_SECONDS,
    Settings,
    mountpoint_guard,
    processes_of,
    run,
    run_unittests,
    scratch,
    wait_until,
)

FILE = "rank_0/checkpoint_0.ckpt"
DATA = encode_checkpoint([Record("w", "Float32", (65536,), bytes(262144))])
JOURNALD = "/lib/systemd/systemd-journald"


def has_ended(log: Path) -> bool:
    """umount(8) may return before the process of the mount has ended; this is its last line."""
    return wait_until(lambda: b"the mount has ended" in log.read_bytes(), COMMAND_SECONDS)


def objects(text: str) -> list[dict[str, Any]]:
    """Each line, which must be an object with what every one has."""
    lines = [json.loads(line) for line in text.splitlines()]
    for line in lines:
        assert {"time", "level", "event", "pid", "message"} <= line.keys(), line
    return lines


def read_fails(path: Path | bytes) -> int:
    """@return the number of the process that got the error."""
    with subprocess.Popen([sys.executable, "-c",
                           "import os, sys\nf = os.open(sys.argv[1].encode('utf-8', 'surrogateescape'), os.O_RDONLY | "
                           "os.O_DIRECT)\ntry:\n os.preadv(f, [__import__('mmap').mmap(-1, 4096)], 131072)\n"
                           "except OSError:\n sys.exit(0)\nsys.exit('it was read')", path],
                          stdin=subprocess.DEVNULL) as reader:
        assert reader.wait(COMMAND_SECONDS) == 0
        return reader.pid


class LogFormat(unittest.TestCase):
    def test_a_failed_read_has_all_that_is_known(self) -> None:
        with scratch() as directory:
            source, mountpoint, log = directory / "m.ckpt", directory / "mnt", directory / "log"
            source.write_bytes(DATA)
            mountpoint.mkdir()
            config = directory / "c.toml"
            config.write_text(f"log-format = 'json'\nlog-file = '{log}'\nlog-level = 'info'\n")
            with mountpoint_guard(mountpoint):
                self.assertEqual(run("mount", source, mountpoint, "--config", config).code, 0)
                (daemon,) = processes_of(mountpoint)
                for name in ("no_such_file", "rank_0/no_such_file", "merged/no_such_file"):
                    self.assertFalse((mountpoint / name).exists())
                os.truncate(source, 1000)
                reader = read_fails(mountpoint / FILE)
                for _ in range(50):
                    read_fails(mountpoint / FILE)
                metrics = (mountpoint / ".reshardfs/metrics").read_text()
                self.assertIn(f'reshardfs_request_failures_total{{mount="{mountpoint}"}} 51\n', metrics)
                self.assertEqual(run("umount", mountpoint).code, 0)
            self.assertTrue(has_ended(log))
            made, failed, again, ended = objects(log.read_text())
            self.assertEqual((made["event"], made["level"]), ("mounted", "info"))
            self.assertEqual((ended["event"], ended["level"], ended["message"]),
                             ("mount_ended", "info", "the mount has ended: it was unmounted"))
            for line in (made, failed, again, ended):
                self.assertEqual((line["mount"], line["source"], line["pid"]),
                                 (str(mountpoint), str(source), daemon))
            self.assertEqual(
                {key: failed[key] for key in ("event", "level", "operation", "file", "source_file", "errno",
                                              "errno_name", "client_pid")},
                {"event": "request_failed", "level": "error", "operation": "read", "file": FILE,
                 "source_file": str(source), "errno": 116, "errno_name": "ESTALE", "client_pid": reader})
            own = Path("/proc/self/cgroup").read_text().splitlines()
            path = next((line for line in own if line.startswith("0::")), own[0]).split(":", 2)[2]
            self.assertEqual(failed["client_cgroup"], path)
            self.assertTrue(0 < failed["duration_seconds"] < COMMAND_SECONDS)
            # Of 50 more there is one line, which names no client.
            self.assertEqual((again["event"], again["repeated"]), ("request_failed", 50))
            self.assertNotIn("client_pid", again)

    def test_lines_are_json_whatever_files_are_called(self) -> None:
        with scratch() as directory:
            hostile = os.fsencode(directory) + b"/a\xff\n\"\\\x1b[2J\xe4\xb8\xad\xe2\x80\xae"
            source, mountpoint, log = hostile + b".ckpt", hostile, directory / "log"
            Path(os.fsdecode(source)).write_bytes(DATA)
            os.mkdir(mountpoint)
            with mountpoint_guard(Path(os.fsdecode(mountpoint))):
                made = subprocess.run([Settings.binary, "mount", source, mountpoint, "-v", "--log-format", "json",
                                       "--log-file", log], stdin=subprocess.DEVNULL, timeout=COMMAND_SECONDS,
                                      check=False)
                self.assertEqual(made.returncode, 0)
                os.truncate(source, 1000)
                read_fails(mountpoint + b"/" + FILE.encode())
                collected = subprocess.run([Settings.binary, "status", "--metrics", mountpoint], check=True,
                                           capture_output=True, timeout=COMMAND_SECONDS).stdout.decode()
                gone = subprocess.run([Settings.binary, "umount", mountpoint], timeout=COMMAND_SECONDS, check=False)
                self.assertEqual(gone.returncode, 0)
            self.assertTrue(has_ended(log))
            lines = objects(log.read_bytes().decode())  # UTF-8
            self.assertEqual([line["event"] for line in lines], ["mounted", "request_failed", "mount_ended"])
            shown = hostile.decode(errors="replace")
            self.assertEqual((lines[1]["mount"], lines[1]["source_file"]), (shown, shown + ".ckpt"))
            name = hostile.replace(b"\xff", b"\\xff").decode()
            for raw, escaped in (("\x1b", "\\x1b"), ("\u202e", "\\xe2\\x80\\xae")):
                name = name.replace(raw, escaped)
            label = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
            self.assertIn(f'reshardfs_up{{mount="{label}"}} 1\n', collected)
            self.assertIn(f'reshardfs_source_changed{{mount="{label}"}} 1\n', collected)

    def test_standard_error_has_json_alone(self) -> None:
        with scratch() as directory:
            absent = directory / "absent.ckpt"
            (directory / "mnt").mkdir()
            result = run("mount", absent, directory / "mnt", "--log-format", "json")
            self.assertEqual((result.code, result.stdout), (2, ""))
            (line,) = objects(result.stderr)
            self.assertEqual((line["event"], line["level"], line["source_file"]),
                             ("command_failed", "error", str(absent)))
            (directory / "m.ckpt").write_bytes(DATA)
            result = run("inspect", directory / "m.ckpt", "--log-format", "json", "--log-level", "loud")
            self.assertEqual(result.code, 2)
            self.assertIn("loud", objects(result.stderr)[0]["message"])
            result = run("inspect", directory / "m.ckpt", "--log-format", "xml")
            self.assertEqual(result.code, 2)
            self.assertTrue(result.stderr.startswith("reshardfs: --log-format does not take 'xml'"), result.stderr)

    def test_text_stays_as_it_is(self) -> None:
        with scratch() as directory:
            (directory / "m.ckpt").write_bytes(DATA)
            (directory / "mnt").mkdir()
            log = directory / "log"
            with mountpoint_guard(directory / "mnt"):
                self.assertEqual(run("mount", directory / "m.ckpt", directory / "mnt", "-v", "--log-file", log).code, 0)
                self.assertEqual(run("umount", directory / "mnt").code, 0)
            self.assertTrue(has_ended(log))
            self.assertRegex(log.read_text(), r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d \[\d+\] info: "
                                              rf"mounted 1 target rank at {directory}/mnt\n"
                                              r"[^\n]* info: the mount has ended: it was unmounted\n$")

    def test_a_hand_over_keeps_the_format(self) -> None:
        with scratch() as directory:
            (directory / "m.ckpt").write_bytes(DATA)
            mountpoint, log = directory / "mnt", directory / "log"
            mountpoint.mkdir()
            with mountpoint_guard(mountpoint):
                self.assertEqual(run("mount", directory / "m.ckpt", mountpoint, "-v", "--log-format", "json",
                                     "--log-file", log).code, 0)
                (former,) = processes_of(mountpoint)
                self.assertEqual(run("reload", mountpoint).code, 0)
                self.assertTrue(wait_until(lambda: len(processes_of(mountpoint)) == 1, COMMAND_SECONDS))
                (pid,) = processes_of(mountpoint)
                os.kill(pid, signal.SIGHUP)
                self.assertTrue(wait_until(lambda: "log_reopened" in log.read_text()))
                with open(mountpoint / FILE, "rb"):
                    os.kill(pid, signal.SIGTERM)
                    self.assertTrue(has_ended(log))
            lines = objects(log.read_text())
            self.assertEqual({line["mount"] for line in lines}, {str(mountpoint)})
            self.assertEqual(sorted((line["event"], line["pid"]) for line in lines),
                             sorted([("mounted", former), ("handed_over", former), ("mounted", pid),
                                     ("log_reopened", pid), ("mount_ended", pid)]))
            (over,) = (line for line in lines if line["event"] == "handed_over")
            self.assertEqual(over["message"], f"process {pid} has the mount now")
            self.assertEqual(lines[-1]["message"],
                             "the mount has ended: a signal asked for it; programs still have 1 file open")


# In a mount namespace of its own: $1 the program, $2 a directory with m.ckpt and mnt.
WITH_JOURNAL = r"""
import json, os, subprocess, sys, time
program, directory = sys.argv[1:]
subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)
os.makedirs("/run/systemd/journal")
os.makedirs("/run/log/journal")
quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
journald = subprocess.Popen(["/lib/systemd/systemd-journald"], stderr=subprocess.DEVNULL, **quiet)
end = time.monotonic() + 20
while not os.path.exists("/run/systemd/journal/socket") and time.monotonic() < end:
    time.sleep(0.05)
errors = open(f"{directory}/stderr", "w")
about = os.fstat(errors.fileno())
environment = dict(os.environ, JOURNAL_STREAM=f"{about.st_dev}:{about.st_ino}")
for form in ("text", "json"):
    mount = subprocess.Popen([program, "mount", "-f", "-v", "--log-format", form, f"{directory}/m.ckpt",
                              f"{directory}/mnt"], stderr=errors, env=environment, **quiet)
    while not os.path.exists(f"{directory}/mnt/rank_0") and time.monotonic() < end:
        time.sleep(0.05)
    mount.terminate()
    mount.wait(60)
subprocess.run([program, "mount", "-f", f"{directory}/absent", f"{directory}/mnt"], stderr=errors, env=environment,
               check=False, **quiet)
found = []
while len(found) < 5 and time.monotonic() < end:
    time.sleep(0.2)
    (place,) = (entry.path for entry in os.scandir("/run/log/journal"))
    out = subprocess.run(["journalctl", "-D", place, "-o", "json", "--no-pager"], capture_output=True, text=True).stdout
    found = [line for line in map(json.loads, out.splitlines()) if "RESHARDFS_EVENT" in line]
journald.terminate()
journald.wait(60)
print(json.dumps(found))
"""


@unittest.skipUnless(os.path.exists(JOURNALD) and shutil.which("journalctl") and os.geteuid() == 0,
                     "needs systemd-journald, and root for a mount namespace")
class RealJournal(unittest.TestCase):
    def test_has_the_fields(self) -> None:
        with scratch() as directory:
            (directory / "m.ckpt").write_bytes(DATA)
            mountpoint = directory / "mnt"
            mountpoint.mkdir()
            with mountpoint_guard(mountpoint):
                done = subprocess.run(["unshare", "-m", "--propagation", "private", "/usr/bin/python3", "-c",
                                       WITH_JOURNAL, Settings.binary, directory],
                                      capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
            text, text_end, as_json, json_end, failed = json.loads(done.stdout)
            self.assertEqual((directory / "stderr").read_text(), "", "what the journal has")
            for entry in (text, as_json):
                self.assertEqual((entry["RESHARDFS_EVENT"], entry["RESHARDFS_MOUNT"], entry["RESHARDFS_SOURCE"],
                                  entry["PRIORITY"], entry["SYSLOG_IDENTIFIER"]),
                                 ("mounted", str(mountpoint), f"{directory}/m.ckpt", "6", "reshardfs"))
            for entry in (text_end, json_end):
                self.assertEqual((entry["RESHARDFS_EVENT"], entry["RESHARDFS_MOUNT"]),
                                 ("mount_ended", str(mountpoint)))
            self.assertEqual(text["MESSAGE"], f"reshardfs: info: mounted 1 target rank at {mountpoint}")
            self.assertEqual(json.loads(as_json["MESSAGE"])["event"], "mounted")
            self.assertEqual((failed["RESHARDFS_EVENT"], failed["PRIORITY"], failed["RESHARDFS_SOURCE_FILE"]),
                             ("command_failed", "3", f"{directory}/absent"))
            self.assertTrue(failed["MESSAGE"].startswith(f"reshardfs: {directory}/absent: "), failed["MESSAGE"])


if __name__ == "__main__":
    run_unittests()
