# SPDX-License-Identifier: Apache-2.0
"""Upgrades of a mount in place: between programs of several versions, and with each step made to fail."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import unittest
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from ckpt_format import Record, encode_checkpoint  # noqa: E402
from faulty_source import FaultFs, faulty, forget_pages  # noqa: E402
from handover_place import (  # noqa: E402
    DATA,
    FILE,
    OTHER,
    OWN,
    STATUS,
    Place,
    in_flight,
    mounted,
    place,
    run_handover_tests,
)
from mounted import (  # noqa: E402
    Settings,
    assert_gone,
    is_mounted,
    processes_of,
    run,
    scratch,
    status_of,
    wait_until,
)


class Upgrade(unittest.TestCase):
    def test_another_process_goes_on(self) -> None:
        with mounted() as made, open(made.mountpoint / FILE, "rb", buffering=0) as file:
            before = made.pid()
            self.assertEqual(os.pread(file.fileno(), 4096, 0), DATA[:4096])
            told = made.reload()
            after = made.pid()
            self.assertNotEqual(before, after)
            self.assertIn(f"process {after}", told)
            forget_pages(made.mountpoint / FILE)
            self.assertEqual(os.pread(file.fileno(), 1 << 21, 0), DATA)
            self.assertEqual(made.read(), DATA)
            mount = made.mount()
            self.assertEqual((mount["upgrades"], mount["crash_restarts"], mount["reloads"]), (1, 0, 1))
            self.assertIsNone(mount["reload_refused"])
            metrics = (made.mountpoint / ".reshardfs/metrics").read_text()
            self.assertIn(f'\nreshardfs_upgrades_total{{mount="{made.mountpoint}"}} 1\n', metrics)
            table = status_of(made.mountpoint).stdout
            self.assertRegex(table, r"live; 1 upgrade, 0 crashes, last \d+ s ago, version \d")

    def test_sigusr2_does_the_same_and_sighup_does_not(self) -> None:
        with mounted() as made:
            before = made.pid()
            os.kill(before, signal.SIGHUP)
            self.assertEqual(made.pid(), before)
            os.kill(before, signal.SIGUSR2)
            self.assertTrue(wait_until(lambda: made.pid() != before))

    def test_texts_that_are_open_stay_as_they_were(self) -> None:
        with mounted() as made, open(made.mountpoint / STATUS, "rb", buffering=0) as status, \
                open(made.mountpoint / ".reshardfs/report.html", "rb", buffering=0) as report:
            text, page = os.pread(status.fileno(), 1 << 20, 0), os.pread(report.fileno(), 1 << 20, 0)
            for _ in range(3):
                made.reload()
                self.assertEqual(os.pread(status.fileno(), 1 << 20, 0), text)
                self.assertEqual(os.pread(report.fileno(), 1 << 20, 0), page)
            self.assertNotEqual(json.loads(text)["pid"], made.pid())

    def test_relative_paths_mean_what_they_meant(self) -> None:
        with place() as made:
            before = os.getcwd()
            os.chdir(made.directory)
            try:
                self.assertEqual(made.run("mount", "m.ckpt", "mnt").code, 0)
            finally:
                os.chdir(before)
            made.reload()
            self.assertEqual(made.read(), DATA)
            self.assertEqual(run("umount", made.mountpoint).code, 0)

    def test_readers_of_a_stalled_source_get_their_bytes(self) -> None:
        # Where the new process looks for headers, all is well.
        begin, end = 20 << 20, 21 << 20
        large = encode_checkpoint([Record("w", "UInt8", (32 << 20,), bytes(range(256)) * (32 << 12))])
        with scratch() as directory:
            (directory / "m.ckpt").write_bytes(large)
            # With pages of its own, the file could not be opened while one is stalled.
            with faulty(FaultFs.program, directory, "--direct-io") as source, place() as made:
                words = [str(source.path / "m.ckpt"), str(made.mountpoint)]
                self.assertEqual(made.run("mount", *words, "--direct-io").code, 0)
                source.set(f"m.ckpt operation=read from={begin} to={end} stall")
                with subprocess.Popen(
                    ["dd", f"if={made.mountpoint / FILE}", "bs=64K", f"skip={begin >> 16}", "count=1",
                     "status=none"], stdout=subprocess.PIPE) as reader:
                    try:
                        self.assertTrue(wait_until(lambda: in_flight(made) > 0), "no read has come")
                        made.reload()
                        self.assertEqual(made.mount()["upgrades"], 1)
                    finally:
                        source.set()
                    self.assertEqual(reader.stdout.read(), large[begin:begin + (64 << 10)])
                    self.assertEqual(reader.wait(), 0)
                self.assertEqual(run("umount", made.mountpoint).code, 0)
                assert_gone(made.mountpoint)

    def test_whoever_waits_for_a_foreground_mount_waits_for_all_its_processes(self) -> None:
        with place() as made:
            with subprocess.Popen(made.words("-f"), start_new_session=True) as process:
                self.assertTrue(wait_until(lambda: is_mounted(made.mountpoint)))
                self.assertEqual(made.read(), DATA)
                for _ in range(3):
                    made.reload()
                    self.assertIsNone(process.poll())
                # Those that have handed the mount over end when their reads have ended.
                self.assertTrue(wait_until(lambda: len(processes_of(made.mountpoint)) == 2))
                process.send_signal(signal.SIGTERM)
                self.assertEqual(process.wait(60), 0)
            assert_gone(made.mountpoint)


class Leaving(unittest.TestCase):
    """Signals for a process that has handed its mount over and has not ended yet."""

    @contextlib.contextmanager
    def stalled_mount(self, *options: str) -> Iterator[tuple[Place, subprocess.Popen]]:
        """A read of it stalls for as long as the mount is there, so that a process which hands it over
        takes its time to end."""
        large = encode_checkpoint([Record("w", "UInt8", (32 << 20,), bytes(range(256)) * (32 << 12))])
        with scratch() as directory:
            (directory / "m.ckpt").write_bytes(large)
            with faulty(FaultFs.program, directory, "--direct-io") as source, place() as made:
                made.source = source.path / "m.ckpt"
                process = subprocess.Popen(made.words("--direct-io", *options), start_new_session=True)
                try:
                    self.assertTrue(wait_until(lambda: is_mounted(made.mountpoint)))
                    source.set(f"m.ckpt operation=read from={20 << 20} to={21 << 20} stall")
                    with subprocess.Popen(
                        ["dd", f"if={made.mountpoint / FILE}", "bs=64K", "skip=320", "count=1",
                         "status=none"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
                        try:
                            self.assertTrue(wait_until(lambda: in_flight(made) > 0))
                            yield made, process
                            self.assertTrue(wait_until(lambda: not is_mounted(made.mountpoint)))
                        finally:
                            source.set()  # for as long as a thread waits for it, its process cannot end
                    self.assertEqual(process.wait(60), 0)
                    assert_gone(made.mountpoint)
                finally:
                    process.kill()
                    process.wait()

    def test_the_end_of_a_foreground_mount(self) -> None:
        with self.stalled_mount("-f") as (made, process):
            made.reload()
            process.send_signal(signal.SIGTERM)

    def test_the_end_of_a_foreground_mount_that_a_successor_has_handed_over(self) -> None:
        with self.stalled_mount("-f") as (made, process):
            made.reload()
            successor = made.pid()
            self.assertTrue(wait_until(lambda: in_flight(made) > 0), "the read has not come")
            made.reload()
            os.kill(successor, signal.SIGSTOP)
            process.send_signal(signal.SIGTERM)
            os.kill(successor, signal.SIGCONT)

    def test_the_end_of_a_supervised_mount(self) -> None:
        with self.stalled_mount("-f", "--supervise") as (made, process):
            before = made.pid()
            made.reload()
            os.kill(before, signal.SIGSTOP)
            process.send_signal(signal.SIGTERM)
            os.kill(before, signal.SIGCONT)

    def test_the_end_of_a_mount_in_the_background(self) -> None:
        with self.stalled_mount() as (made, process):
            self.assertEqual(process.wait(60), 0)
            before = made.pid()
            made.reload()
            self.assertNotEqual(made.pid(), before)
            os.kill(before, signal.SIGTERM)

    def test_another_reload(self) -> None:
        with self.stalled_mount() as (made, process):
            self.assertEqual(process.wait(60), 0)
            before = made.pid()
            made.reload()
            os.kill(before, signal.SIGUSR2)
            self.assertTrue(wait_until(lambda: made.mount()["upgrades"] == 2))
            os.kill(made.pid(), signal.SIGTERM)


class Refusal(unittest.TestCase):
    """The old process goes on, and says why."""

    def expect(self, made: Place, *words: str) -> None:
        before = made.pid()
        told = made.reload(code=3)
        for word in words:
            self.assertIn(word, told)
            self.assertIn(word, made.mount()["reload_refused"])
            self.assertIn(word, made.log())
        self.assertEqual(made.pid(), before)
        self.assertEqual(made.mount()["upgrades"], 0)
        self.assertEqual(made.read(), DATA)

    def test_of_a_changed_source(self) -> None:
        with mounted() as made:
            made.source.unlink()
            made.source.write_bytes(OTHER)
            self.expect(made, "source file", "different")
            made.source.write_bytes(DATA)  # another file all the same
            self.expect(made, "source file", "different")

    def test_of_a_source_that_is_gone(self) -> None:
        with mounted() as made:
            made.source.unlink()
            self.expect(made, "no such file")

    def test_of_a_program_that_is_gone_or_is_none(self) -> None:
        with mounted() as made:
            made.program.unlink()
            self.expect(made, "No such file")
            made.program.write_text("#!/bin/sh\nexit 2\n")
            made.program.chmod(0o755)
            self.expect(made, "exit code 2", "cannot take mounts over")

    def test_of_a_changed_strategy(self) -> None:
        with place() as made:
            config = made.directory / "c.toml"
            config.write_text(f"[mount.m]\nsource = '{made.source}'\nmountpoint = '{made.mountpoint}'\n")
            self.assertEqual(made.run("mount", "m", "--config", config, "--log-file", made.log_file).code, 0)
            config.write_text(config.read_text() + "prefix = 'other_'\n")
            self.expect(made, "prefix")
            config.write_text(f"[mount.m]\nsource = '{made.source}'\nmountpoint = '{made.mountpoint}'\n"
                              "nothing-known = 1\n")
            self.expect(made, "nothing-known")
            self.assertEqual(run("umount", made.mountpoint).code, 0)

    def test_with_options_that_exclude_it(self) -> None:
        with mounted("--passthrough") as made:
            self.expect(made, "--passthrough")
        with place() as made:
            for option, word in (("--passthrough", "--passthrough"), ("-oauto_unmount", "auto_unmount")):
                result = made.run(*made.words("--supervise", option)[1:])
                self.assertEqual(result.code, 2)
                self.assertIn(word, result.stderr)
                self.assertFalse(is_mounted(made.mountpoint))


class Versions(unittest.TestCase):
    """Programs whose versions of the hand-over differ."""

    def test_neighbours_take_mounts_over_both_ways(self) -> None:
        for older, newer in (("1 2", OWN), (OWN, "2 3"), ("1 2", "2 3")):
            with self.subTest(older=older, newer=newer), mounted(program=older) as made:
                for installed in (newer, older, newer):
                    made.install_stand_in(installed)
                    made.reload()
                    self.assertEqual(made.read(), DATA)
                self.assertEqual(made.mount()["upgrades"], 3)

    def test_strangers_refuse_each_other(self) -> None:
        for running, installed in ((OWN, "3 3"), ("3 3", OWN), (OWN, "1 1"), ("1 1", OWN)):
            with self.subTest(running=running, installed=installed), mounted(program=running) as made:
                made.install_stand_in(installed)
                before = made.pid()
                self.assertIn("version", made.reload(code=3))
                self.assertEqual(made.pid(), before)
                self.assertEqual(made.read(), DATA)

    def test_a_crash_is_survived_by_a_neighbour_only(self) -> None:
        for running, installed, survives in ((OWN, "2 3", True), ("2 3", OWN, True), (OWN, "3 3", False),
                                             ("3 3", OWN, False)):
            with self.subTest(running=running, installed=installed), place() as made:
                made.install_stand_in(running)
                self.assertEqual(made.run(*made.words("--supervise")[1:]).code, 0)
                made.install_stand_in(installed)
                os.kill(made.pid(), signal.SIGKILL)
                if survives:
                    self.assertEqual(made.read(), DATA)
                    self.assertEqual(run("umount", made.mountpoint).code, 0)
                assert_gone(made.mountpoint)


class EachStep(unittest.TestCase):
    """The hand-over fails at each of its steps: the mount lives with one process, or is gone."""

    STEPS = ("start", "hello", "offer", "ready", "mount")

    def test_the_new_process_ends_or_says_nonsense(self) -> None:
        for step in self.STEPS:
            for deed in ("exit", "end", "nonsense", "refuse"):
                with self.subTest(step=step, deed=deed), mounted() as made:
                    before = made.pid()
                    made.install_script(step, deed)
                    told = made.reload(code=3)
                    if deed == "refuse" and step != "start":
                        self.assertIn("for a reason of its own", told)
                    self.assertEqual(made.pid(), before)
                    self.assertEqual(made.read(), DATA)
                    made.install(Settings.binary)
                    made.reload()
                    self.assertEqual(made.read(), DATA)

    def test_the_new_process_takes_a_request_and_ends(self) -> None:
        with mounted("--direct-io") as made:
            before = made.pid()
            made.install_script("mount", "take, end")
            os.kill(before, signal.SIGUSR2)
            # Readers that come again and again: one of their requests is lost with the new process.
            readers = [subprocess.Popen(
                ["sh", "-c", f"for i in $(seq 300); do cmp {made.mountpoint / FILE} {made.source} || exit 1; done"])
                for _ in range(3)]
            self.assertEqual([reader.wait(60) for reader in readers], [0, 0, 0])
            self.assertTrue(wait_until(lambda: made.mount()["reloads"] == 1))
            self.assertEqual(made.pid(), before)

    def test_the_old_process_is_killed(self) -> None:
        for step in self.STEPS:
            for deed in ("old", "old, end"):
                with self.subTest(step=step, deed=deed), mounted("--supervise") as made:
                    before = made.pid()
                    made.install_script(step, deed, before)
                    os.kill(before, signal.SIGUSR2)
                    # The supervisor starts what is installed, too.
                    self.assertTrue(wait_until(lambda: not self.lives(before)))
                    made.install(Settings.binary)
                    if is_mounted(made.mountpoint) and self.answers(made):
                        self.assertEqual(made.read(), DATA)
                    else:
                        self.assertTrue(wait_until(lambda: not is_mounted(made.mountpoint)))
                        break_out(made)

    @staticmethod
    def lives(pid: int) -> bool:
        with contextlib.suppress(OSError):
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        return False

    @staticmethod
    def answers(made: Place) -> bool:
        return run("status", "--ready", made.mountpoint).code == 0

    def test_a_signal_ends_both_while_the_new_process_prepares(self) -> None:
        with place() as made:
            self.assertEqual(made.run(*made.words()[1:]).code, 0)
            made.install_script("offer", "stay")
            os.kill(made.pid(), signal.SIGUSR2)
            self.assertTrue(wait_until(lambda: len(made.successors()) == 1))
            self.assertEqual(made.read(), DATA)
            self.assertEqual(run("umount", made.mountpoint).code, 0)
            assert_gone(made.mountpoint)
            self.assertTrue(wait_until(lambda: not made.successors()))


def break_out(made: Place) -> None:
    """For mounted(), which unmounts at its end."""
    result = made.run(*made.words()[1:])
    assert result.code == 0, result.stderr


if __name__ == "__main__":
    run_handover_tests()
