# SPDX-License-Identifier: Apache-2.0
"""A reload that meets something else: a process that is stopped or crashes, another reload, or a mount
that nobody serves at the moment."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import unittest
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from faulty_source import FaultFs, faulty  # noqa: E402
from handover_place import (  # noqa: E402
    DATA,
    FILE,
    OTHER,
    Place,
    mounted,
    place,
    run_handover_tests,
    unmounted_at_end,
)
from mounted import Settings, assert_gone, processes_of, wait_until  # noqa: E402


def runs(pid: str) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


class Reload:
    """The command, in the background."""

    def __init__(self, made: Place, *options: str) -> None:
        words = [str(Settings.binary), "reload", *(options or ("--timeout", "60")), str(made.mountpoint)]
        self.helpers: list[str] = []
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def wait_until_nobody_answers(self) -> None:
        line = self.process.stdout.readline()
        assert "the mount does not answer; waiting for up to" in line, line
        own = self.process.pid
        self.helpers = Path(f"/proc/{own}/task/{own}/children").read_text().split()

    def end(self) -> tuple[int, str]:
        """The exit code, and what it has said since."""
        said = self.process.stdout.read()
        self.process.wait(90)
        # The one that has looked at the mount in vain, and was killed, uses the mount until it has ended.
        assert wait_until(lambda: not any(map(runs, self.helpers))), f"{self.helpers} go on"
        return self.process.returncode, said


@contextlib.contextmanager
def reloading(made: Place, *options: str) -> Iterator[Reload]:
    reload = Reload(made, *options)
    try:
        yield reload
    finally:
        reload.process.kill()
        reload.process.wait()
        reload.process.stdout.close()


def taken(made: Place) -> int:
    """Requests that the mount's processes have taken."""
    return made.mount()["reload_requests"]["taken"]


def answered(made: Place) -> int:
    return made.mount()["reload_requests"]["answered"]


def supervisor_of(made: Place) -> int:
    (supervisor,) = set(processes_of(made.mountpoint)) - {made.pid()}
    return supervisor


def stop(pid: int) -> None:
    """All threads: until then one may answer."""
    os.kill(pid, signal.SIGSTOP)

    def is_stopped() -> bool:
        threads = Path(f"/proc/{pid}/task").iterdir()
        return all("\nState:\tT" in (thread / "status").read_text() for thread in threads)

    assert wait_until(is_stopped), f"process {pid} goes on"


def has_taken_signals(pid: int) -> bool:
    """And waits for more."""
    lines = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(lines["ShdPnd"], 16) == 0 and lines["State"].startswith("S")


class Supervised(unittest.TestCase):
    def expect(self, made: Place, upgrades: int, crashes: int) -> None:
        mount = made.mount()
        self.assertEqual((mount["upgrades"], mount["crash_restarts"]), (upgrades, crashes))
        self.assertEqual(made.read(), DATA)

    def test_of_a_process_that_is_stopped_and_killed(self) -> None:
        with mounted("--supervise") as made:
            server = made.pid()
            stop(server)
            with reloading(made) as reload:
                reload.wait_until_nobody_answers()
                os.kill(server, signal.SIGKILL)
                code, said = reload.end()
            self.assertEqual(code, 0, said)
            self.expect(made, 1, 1)

    def test_of_a_process_that_is_stopped_and_goes_on(self) -> None:
        with mounted() as made:
            server = made.pid()
            stop(server)
            with reloading(made) as reload:
                reload.wait_until_nobody_answers()
                os.kill(server, signal.SIGCONT)
                code, said = reload.end()
            self.assertEqual(code, 0, said)
            self.expect(made, 1, 0)

    def test_it_waits_no_longer_than_it_may(self) -> None:
        with mounted() as made:
            server = made.pid()
            stop(server)
            try:
                with reloading(made, "--timeout", "1") as reload:
                    reload.wait_until_nobody_answers()
                    code, said = reload.end()
            finally:
                os.kill(server, signal.SIGCONT)
            self.assertEqual(code, 3)
            self.assertIn("the mount did not answer within 1 second;", said)
            self.assertIn(f"reshardfs status {made.mountpoint}", said)
            made.install_script("offer", "stay")
            with reloading(made, "--timeout", "1") as reload:
                script = made.staying_script()
                code, said = reload.end()
            self.assertEqual(code, 3)
            self.assertIn("the new process was not ready within 1 second;", said)
            os.kill(script, signal.SIGKILL)
            self.assertTrue(wait_until(lambda: made.mount()["reloads"] == 1))
            self.expect(made, 0, 0)

    def test_of_a_mount_that_nobody_serves_at_the_moment(self) -> None:
        with mounted("--supervise") as made:
            made.install_held()
            os.kill(made.pid(), signal.SIGKILL)
            made.held()
            with reloading(made) as reload:
                reload.wait_until_nobody_answers()
                made.install(Settings.binary)
                made.release()
                code, said = reload.end()
            self.assertEqual(code, 0, said)
            self.expect(made, 1, 1)

    def test_one_that_ends_each_process_is_not_made_until_the_mount_is_gone(self) -> None:
        with mounted("--supervise") as made:
            made.install_script("start", "stay")
            with reloading(made) as reload:
                for _ in range(3):
                    made.staying_script()
                    server = made.pid()
                    stop(reload.process.pid)
                    made.install(Settings.binary)
                    os.kill(server, signal.SIGKILL)
                    self.assertNotEqual(made.pid(), server)
                    made.install_script("start", "stay")
                    reload.process.send_signal(signal.SIGCONT)
                code, said = reload.end()
            self.assertEqual(code, 3, said)
            self.assertIn("has ended each time that it was asked", said)
            self.assertIn(f"process {made.pid()}", said)
            self.expect(made, 0, 3)

    def test_a_process_that_is_stopped_while_it_prepares(self) -> None:
        """The one that it was to take over from is killed: the supervisor starts another."""
        with mounted("--supervise") as made:
            made.install_held()
            server = made.pid()
            with reloading(made) as reload:
                held = made.held()
                stop(held)
                made.install(Settings.binary)
                os.kill(server, signal.SIGKILL)
                code, said = reload.end()
            self.assertEqual(code, 0, said)
            self.expect(made, 1, 1)
            self.assertTrue(wait_until(lambda: not os.path.exists(f"/proc/{held}")))
            made.release()

    def test_a_supervisor_that_the_configuration_does_not_name_any_more(self) -> None:
        """It keeps the mount all the same, and knows of the processes that serve it."""
        with place() as made:
            config = made.directory / "config.toml"
            text = (f"[mount.m]\nsource = '{made.source}'\nmountpoint = '{made.mountpoint}'\n"
                    f"log-file = '{made.log_file}'\n")
            config.write_text(f"{text}supervise = true\n")
            result = made.run("mount", "--config", config, "m")
            self.assertEqual(result.code, 0, result.stderr)
            with unmounted_at_end(made):
                config.write_text(text)
                made.reload()
                made.reload()
                server = made.pid()
                made.install_script("offer", "stay")
                with reloading(made) as reload:
                    made.staying_script()
                    made.install(Settings.binary)
                    os.kill(server, signal.SIGKILL)
                    code, said = reload.end()
                self.assertEqual(code, 0, said)
                self.expect(made, 3, 1)

    def test_signals_to_a_supervisor_do_not_end_what_it_has_started(self) -> None:
        for number, upgrades in ((signal.SIGUSR2, 1), (signal.SIGHUP, 0)):
            with self.subTest(signal=number), mounted("--supervise") as made:
                supervisor = supervisor_of(made)
                made.install_held()
                os.kill(made.pid(), signal.SIGKILL)
                held = made.held()
                made.install(Settings.binary)
                os.kill(supervisor, number)
                self.assertTrue(wait_until(lambda: has_taken_signals(supervisor)))
                self.assertEqual(made.successors(), [held])
                made.release()
                self.assertTrue(wait_until(lambda: made.mount()["upgrades"] == upgrades))
                self.expect(made, upgrades, 1)


class AtOnce(unittest.TestCase):
    """Several requests."""

    def test_one_that_comes_during_another_is_not_taken_for_it(self) -> None:
        """What the first one starts has read the configuration before it was changed for the second."""
        with place() as made:
            config, real = made.directory / "config.toml", made.directory / "real"
            real.mkdir()
            (real / "a.ckpt").write_bytes(DATA)
            made.source.write_bytes(OTHER)

            def configure(source: Path) -> None:
                config.write_text(f"[mount.m]\nsource = '{source}'\nmountpoint = '{made.mountpoint}'\n")

            with faulty(FaultFs.program, real) as source:
                configure(source.path / "a.ckpt")
                result = made.run("mount", "--config", config, "m", "--log-file", made.log_file)
                self.assertEqual(result.code, 0, result.stderr)
                with unmounted_at_end(made):
                    source.forget_pages()
                    source.set("a.ckpt stall")
                    with reloading(made) as first:
                        self.assertTrue(wait_until(lambda: source.stalled() > 0))
                        configure(made.source)
                        with reloading(made, "--replace") as second:
                            self.assertTrue(wait_until(lambda: taken(made) == 2))
                            source.set()
                            self.assertEqual(second.end()[0], 0)
                            self.assertEqual(first.end()[0], 0)
                    self.assertEqual((made.mountpoint / FILE).read_bytes(), OTHER)
                    mount = made.mount()
                    self.assertEqual((mount["upgrades"], mount["replacements"]), (2, 1))

    def test_the_mount_ends_while_the_new_process_is_beyond_killing(self) -> None:
        """As one is that waits for a file system which does not answer."""
        with place() as made:
            real = made.directory / "real"
            real.mkdir()
            (real / "a.ckpt").write_bytes(DATA)
            with faulty(FaultFs.program, real) as source:
                made.source = source.path / "a.ckpt"
                result = made.run(*made.words()[1:])
                self.assertEqual(result.code, 0, result.stderr)
                server = made.pid()
                source.forget_pages()
                source.set("a.ckpt operation=open stall")
                with reloading(made):
                    self.assertTrue(wait_until(lambda: source.stalled() > 0))
                    os.kill(server, signal.SIGTERM)
                    self.assertTrue(wait_until(lambda: not runs(str(server))), "the process goes on")
                    self.assertGreater(source.stalled(), 0)
                    source.set()
                    assert_gone(made.mountpoint)

    def test_one_that_comes_during_another_that_fails_is_made_after_it(self) -> None:
        with mounted() as made:
            made.install_script("offer", "stay")
            with reloading(made) as first:
                script = made.staying_script()
                made.install(Settings.binary)
                with reloading(made) as second:
                    self.assertTrue(wait_until(lambda: taken(made) == 2))
                    os.kill(script, signal.SIGKILL)
                    code, said = second.end()
                    self.assertEqual(code, 0, said)
                # Whichever it has seen: the refusal, or the process that has the mount now.
                self.assertIn(first.end()[0], (0, 3))
            mount = made.mount()
            self.assertEqual((mount["upgrades"], mount["reloads"]), (1, 2))

    def test_looks_at_the_state_never_fail(self) -> None:
        """Nor does any process that serves the mount end before it has handed it over."""
        with mounted("--supervise") as made:
            wrong, stop = [], threading.Event()

            def look() -> None:
                while not stop.is_set():
                    try:
                        made.status()
                    except (OSError, ValueError) as error:
                        wrong.append(repr(error))

            lookers = [threading.Thread(target=look) for _ in range(4)]
            for looker in lookers:
                looker.start()
            try:
                for _ in range(20):
                    made.reload()
            finally:
                stop.set()
                for looker in lookers:
                    looker.join()
            self.assertEqual(wrong, [])
            self.assertEqual((made.mount()["upgrades"], made.mount()["crash_restarts"]), (20, 0))

    def test_many(self) -> None:
        with mounted("--supervise") as made:
            with contextlib.ExitStack() as stack:
                all_ = [stack.enter_context(reloading(made)) for _ in range(6)]
                for code, said in [reload.end() for reload in all_]:
                    self.assertEqual(code, 0, said)
            # What was asked for again, since nobody had seen that it was taken, may be under way.
            self.assertTrue(wait_until(lambda: answered(made) == taken(made)))
            self.assertEqual(made.mount()["crash_restarts"], 0)
            self.assertEqual(made.read(), DATA)


if __name__ == "__main__":
    run_handover_tests()
