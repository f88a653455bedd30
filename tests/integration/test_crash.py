# SPDX-License-Identifier: Apache-2.0
"""A mount whose process crashes, kept by a supervisor or by a service manager."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import unittest
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

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
    unmounted_at_end,
)
from mounted import (  # noqa: E402
    Settings,
    assert_gone,
    is_mounted,
    mountpoint_guard,
    processes_of,
    run,
    scratch,
    wait_until,
)


class Crash(unittest.TestCase):
    def kill_while_reading(self, made: Place, kills: int) -> None:
        readers = [subprocess.Popen(["sh", "-c", f"while [ -e {made.directory}/go ]; do cmp "
                                     f"{made.mountpoint / FILE} {made.source} || exit 1; done"])
                   for _ in range(4)]
        for _ in range(kills):
            before = made.pid()
            os.kill(before, signal.SIGKILL)
            self.assertTrue(wait_until(lambda: made.pid() != before))
            self.assertEqual(made.read(), DATA)
        (made.directory / "go").unlink()
        self.assertEqual([reader.wait(60) for reader in readers], [0] * 4)
        self.assertEqual(made.mount()["crash_restarts"], kills)

    def test_readers_do_not_notice(self) -> None:
        for resends in (True, False):
            for options in ([], ["--direct-io"]):
                with self.subTest(resends=resends, options=options), \
                        mounted("--supervise", "--crash-limit", "100", *options, program=OWN,
                                resends=resends) as made:
                    (made.directory / "go").touch()
                    self.kill_while_reading(made, 10)

    def test_upgrades_and_crashes_mix(self) -> None:
        with mounted("--supervise") as made:
            for _ in range(3):
                made.reload()
                os.kill(made.pid(), signal.SIGKILL)
                self.assertEqual(made.read(), DATA)
            self.assertEqual((made.mount()["upgrades"], made.mount()["crash_restarts"]), (3, 3))
            self.assertEqual(len(processes_of(made.mountpoint)), 2)

    def test_reads_that_wait_for_a_stalled_source_survive(self) -> None:
        for resends in (True, False):
            with self.subTest(resends=resends), scratch() as directory:
                (directory / "m.ckpt").write_bytes(DATA)
                with faulty(FaultFs.program, directory) as source, place() as made:
                    made.install_stand_in(OWN, resends)
                    words = [str(source.path / "m.ckpt"), str(made.mountpoint)]
                    self.assertEqual(made.run("mount", *words, "--direct-io", "--supervise").code, 0)
                    source.forget_pages()
                    source.set("m.ckpt operation=read from=400000 to=500000 stall")
                    with subprocess.Popen(["cat", made.mountpoint / FILE],
                                          stdout=subprocess.PIPE) as reader:
                        self.assertTrue(wait_until(lambda: in_flight(made) > 0))
                        os.kill(made.pid(), signal.SIGKILL)
                        source.set()
                        self.assertEqual(reader.stdout.read(), DATA)
                        self.assertEqual(reader.wait(), 0)
                    self.assertEqual(run("umount", made.mountpoint).code, 0)
                    assert_gone(made.mountpoint)

    def test_files_of_params_stay_what_they_were(self) -> None:
        """Their nodes are made when they are first needed: here for numbers that the process which
        the kernel has them from told it."""
        with mounted("--supervise") as made:
            params = made.mountpoint / "merged/params"
            names = sorted(os.listdir(params))
            before = [os.stat(params / name) for name in names]
            contents = (params / names[0]).read_bytes()
            with open(params / names[0], "rb", buffering=0) as array:
                listing = os.open(params, os.O_RDONLY)
                for end in (lambda: os.kill(made.pid(), signal.SIGKILL), made.reload):
                    end()
                    self.assertEqual(os.pread(array.fileno(), len(contents), 0), contents)
                    self.assertEqual(os.fstat(array.fileno()), before[0])
                    self.assertEqual(sorted(os.listdir(listing)), names)
                    self.assertEqual([os.stat(params / name) for name in names], before)
                    with self.assertRaises(FileNotFoundError):
                        os.stat(params / "none")
                os.close(listing)

    def test_a_text_that_was_open_is_stale_and_not_empty(self) -> None:
        with mounted("--supervise") as made, open(made.mountpoint / STATUS, "rb", buffering=0) as status:
            os.kill(json.loads(status.read())["pid"], signal.SIGKILL)
            self.assertEqual(made.read(), DATA)
            with self.assertRaises(OSError) as caught:
                os.pread(status.fileno(), 4096, 0)
            self.assertEqual(caught.exception.errno, 116)  # ESTALE

    def test_a_loop_ends_with_the_mount(self) -> None:
        with place() as made:
            self.assertEqual(made.run(*made.words("--supervise", "--crash-limit", "3")[1:]).code, 0)
            for _ in range(3):
                os.kill(made.pid(), signal.SIGKILL)
                self.assertEqual(made.read(), DATA)
            os.kill(made.pid(), signal.SIGKILL)
            assert_gone(made.mountpoint)
            self.assertIn("crashed 4 times within a minute", made.log())

    def test_links_into_the_mount_keep_nobody_from_going_on(self) -> None:
        """The next process would wait for itself."""
        with place() as made:
            for name, target in (("beside", made.mountpoint / FILE), ("whole", made.mountpoint),
                                 ("chain", Path("beside"))):
                (made.directory / name).symlink_to(target)
            self.assertEqual(made.run(*made.words("--supervise")[1:]).code, 0)
            pid = made.pid()
            os.kill(pid, signal.SIGKILL)
            self.assertEqual(made.read(), DATA)
            self.assertNotEqual(made.pid(), pid)

    def test_nor_do_links_to_where_the_mount_is_now(self) -> None:
        with place() as made:
            above, moved = made.directory / "above", made.directory / "moved"
            (above / "mnt").mkdir(parents=True)
            (made.directory / "beside").symlink_to(moved / "mnt" / FILE)
            made.mountpoint = above / "mnt"
            with mountpoint_guard(moved / "mnt"):
                self.assertEqual(made.run(*made.words("--supervise")[1:]).code, 0)
                above.rename(moved)
                made.mountpoint = moved / "mnt"
                with unmounted_at_end(made):
                    pid = made.pid()
                    os.kill(pid, signal.SIGKILL)
                    self.assertEqual(made.read(), DATA)
                    self.assertNotEqual(made.pid(), pid)

    def test_a_changed_source_is_shown_to_who_opens_it_then(self) -> None:
        with mounted("--supervise") as made, open(made.mountpoint / FILE, "rb", buffering=0) as old:
            self.assertEqual(os.pread(old.fileno(), 4096, 0), DATA[:4096])
            pid = made.pid()
            made.source.unlink()
            made.source.write_bytes(OTHER)
            os.kill(pid, signal.SIGKILL)
            self.assertTrue(wait_until(lambda: made.read() == OTHER))

            def is_stale() -> bool:  # once the kernel has dropped its pages
                try:
                    os.pread(old.fileno(), 4096, 0)
                except OSError as error:
                    return error.errno == 116  # ESTALE
                return False

            self.assertTrue(wait_until(is_stale))
            self.assertIn("shows other contents than before: source file", made.log())
            made.reload()
            self.assertEqual(made.read(), OTHER)

    def test_a_source_that_is_gone_ends_it(self) -> None:
        with place() as made:
            self.assertEqual(made.run(*made.words("--supervise")[1:]).code, 0)
            pid = made.pid()
            made.source.unlink()
            os.kill(pid, signal.SIGKILL)
            self.assertTrue(wait_until(lambda: not is_mounted(made.mountpoint), 60))
            assert_gone(made.mountpoint)

    def test_a_source_that_is_away_for_a_moment_is_waited_for(self) -> None:
        """As while it is renamed or written."""
        with place() as made:
            self.assertEqual(made.run(*made.words("--supervise")[1:]).code, 0)
            whole = made.source.read_bytes()
            was = made.read()
            away = made.source.with_name("away")
            for take, bring in ((lambda: made.source.rename(away), lambda: away.rename(made.source)),
                                (lambda: made.source.write_bytes(b""), lambda: made.source.write_bytes(whole)),
                                (lambda: made.source.write_bytes(whole[:-5]), lambda: made.source.write_bytes(whole))):
                told = made.log().count("waits for its source")
                pid = made.pid()
                take()
                os.kill(pid, signal.SIGKILL)
                self.assertTrue(wait_until(lambda: made.log().count("waits for its source") > told))
                bring()
                self.assertEqual(made.read(), was)
                self.assertNotEqual(made.pid(), pid)

    def test_without_its_supervisor_the_mount_lives(self) -> None:
        with mounted("--supervise") as made:
            (supervisor,) = set(processes_of(made.mountpoint)) - {made.pid()}
            os.kill(supervisor, signal.SIGKILL)
            self.assertEqual(made.read(), DATA)
            made.reload()
            self.assertEqual(made.read(), DATA)

    def test_a_reload_outlives_the_process_that_it_has_asked(self) -> None:
        """The request is made again of the one that goes on. The supervisor does not wait for what was to
        take over from the one that was killed."""
        for step in ("start", "hello", "offer"):
            with self.subTest(step=step), mounted("--supervise") as made:
                server = made.pid()
                made.install_script(step, "stay")
                words = [str(Settings.binary), "reload", "--timeout", "60", str(made.mountpoint)]
                with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as reload:
                    script = made.staying_script()
                    made.install(Settings.binary)
                    os.kill(server, signal.SIGKILL)
                    said, _ = reload.communicate(timeout=90)
                self.assertEqual(reload.returncode, 0, said)
                self.assertIn(f"process {made.pid()} ", said)
                mount = made.mount()
                self.assertEqual((mount["upgrades"], mount["crash_restarts"], mount["reloads"]), (1, 1, 1))
                self.assertEqual(made.read(), DATA)
                self.assertTrue(wait_until(lambda: not os.path.exists(f"/proc/{script}")))

    def test_signals_reach_the_process_through_the_supervisor(self) -> None:
        with place() as made:
            with subprocess.Popen(made.words("-f", "--supervise"), start_new_session=True) as process:
                self.assertTrue(wait_until(lambda: is_mounted(made.mountpoint)))
                before = made.pid()
                process.send_signal(signal.SIGUSR2)
                self.assertTrue(wait_until(lambda: made.pid() != before))
                os.kill(made.pid(), signal.SIGKILL)
                self.assertEqual(made.read(), DATA)
                process.send_signal(signal.SIGTERM)
                self.assertEqual(process.wait(60), 0, made.log())
            assert_gone(made.mountpoint)

    def test_bad_input_ends_it_as_ever(self) -> None:
        with place() as made:
            made.source.write_bytes(b"no checkpoint")
            result = made.run(*made.words("--supervise")[1:])
            self.assertEqual(result.code, 2)
            self.assertEqual(len(result.stderr.splitlines()), 1)
            self.assertEqual(processes_of(made.mountpoint), [])


class Manager:
    """A service manager with a store of descriptors, as systemd has one."""

    def __init__(self, made: Place) -> None:
        self.made = made
        self.address = str(made.directory / "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.address)
        self.socket.settimeout(20)
        self.store: dict[str, int] = {}
        self.process: subprocess.Popen | None = None
        self.main_pid = 0

    def start(self, *options: str) -> None:
        names = list(self.store)
        numbers = [self.store[name] for name in names]

        def prepare() -> None:
            os.environ["LISTEN_PID"] = str(os.getpid())
            high = [os.dup2(number, 200 + i) for i, number in enumerate(numbers)]
            for i, number in enumerate(high):
                os.dup2(number, 3 + i, inheritable=True)
            os.closerange(3 + len(high), 256)
            environment = {**os.environ, "NOTIFY_SOCKET": self.address}
            if numbers:
                environment |= {"LISTEN_FDS": str(len(numbers)), "LISTEN_FDNAMES": ":".join(names)}
            words = self.made.words("-f", *options)
            os.execve(words[0], words, environment)

        self.process = subprocess.Popen(["unused"], executable="/bin/false", preexec_fn=prepare,
                                        close_fds=False, start_new_session=True)
        self.main_pid = self.process.pid

    def wait_for(self, line: str) -> None:
        while True:
            data, rights, _, _ = self.socket.recvmsg(4096, socket.CMSG_SPACE(64))
            lines = data.decode().split("\n")
            found = dict(entry.split("=", 1) for entry in lines)
            if "FDSTORE" in found:
                (_, _, number), = rights
                kept = int.from_bytes(number[:4], sys.byteorder)
                if found["FDNAME"] in self.store:
                    os.close(kept)  # the manager sees that it is the same
                else:
                    self.store[found["FDNAME"]] = kept
            if "FDSTOREREMOVE" in found and found["FDNAME"] in self.store:
                os.close(self.store.pop(found["FDNAME"]))
            if "MAINPID" in found:
                self.main_pid = int(found["MAINPID"])
            if line in lines:
                return

    def close(self) -> None:
        for number in self.store.values():
            os.close(number)
        self.socket.close()


class Service(unittest.TestCase):
    @contextlib.contextmanager
    def managed(self, *options: str) -> Iterator[tuple[Place, Manager]]:
        with place() as made:
            manager = Manager(made)
            try:
                manager.start(*options)
                manager.wait_for("READY=1")
                yield made, manager
            finally:
                if manager.process and manager.process.poll() is None:
                    manager.process.kill()
                    manager.process.wait()
                manager.close()

    def test_what_the_manager_keeps_survives_a_crash(self) -> None:
        with self.managed() as (made, manager), open(made.mountpoint / FILE, "rb", buffering=0) as file:
            # So that the kernel knows that closing needs no answer: who starts a program closes.
            self.assertEqual(made.read(), DATA)
            self.assertEqual(sorted(manager.store),
                             ["reshardfs-fuse", "reshardfs-requests", "reshardfs-state"])
            for number in range(3):
                manager.process.kill()
                manager.process.wait()
                self.assertEqual(run("umount", "--if-dead", made.mountpoint).code, 0)
                self.assertTrue(is_mounted(made.mountpoint))
                manager.start()
                manager.wait_for("READY=1")
                forget_pages(made.mountpoint / FILE)
                self.assertEqual(os.pread(file.fileno(), 1 << 21, 0), DATA)
                self.assertEqual(made.mount()["crash_restarts"], number + 1)
            file.close()
            manager.process.send_signal(signal.SIGTERM)
            manager.wait_for("STOPPING=1")
            self.assertEqual(manager.process.wait(60), 0)
            self.assertEqual(manager.store, {})
            assert_gone(made.mountpoint)

    def test_an_upgrade_tells_the_manager_its_new_process(self) -> None:
        with self.managed() as (made, manager):
            first = manager.process
            result = run("reload", made.mountpoint)
            self.assertEqual(result.code, 0, result.stderr)
            manager.wait_for("RELOADING=1")
            manager.wait_for(f"MAINPID={made.pid()}")
            manager.wait_for("READY=1")
            self.assertEqual(first.wait(60), 0)
            self.assertEqual(made.read(), DATA)
            os.kill(manager.main_pid, signal.SIGTERM)
            manager.wait_for("STOPPING=1")
            assert_gone(made.mountpoint)

    def test_a_refused_upgrade_leaves_the_service_as_it_was(self) -> None:
        with self.managed() as (made, manager):
            made.program.unlink()
            self.assertEqual(run("reload", made.mountpoint).code, 3)
            manager.wait_for("RELOADING=1")
            manager.wait_for("READY=1")
            self.assertEqual(made.read(), DATA)
            self.assertEqual(manager.main_pid, made.pid())
            manager.process.send_signal(signal.SIGTERM)
            self.assertEqual(manager.process.wait(60), 0)

    def test_a_reload_outlives_the_process_that_it_has_asked(self) -> None:
        with self.managed() as (made, manager):
            made.install_script("offer", "stay")
            words = [str(Settings.binary), "reload", "--timeout", "60", str(made.mountpoint)]
            with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as reload:
                script = made.staying_script()
                made.install(Settings.binary)
                manager.process.kill()
                manager.process.wait()
                os.kill(script, signal.SIGKILL)
                manager.start()
                said, _ = reload.communicate(timeout=90)
            self.assertEqual(reload.returncode, 0, said)
            self.assertEqual((made.mount()["upgrades"], made.mount()["crash_restarts"]), (1, 1))
            os.kill(made.pid(), signal.SIGTERM)
            assert_gone(made.mountpoint)

    def test_a_loop_of_crashes_ends_with_the_mount(self) -> None:
        with self.managed("--crash-limit", "2") as (made, manager):
            for _ in range(2):
                manager.process.kill()
                manager.process.wait()
                manager.start("--crash-limit", "2")
                manager.wait_for("READY=1")
            manager.process.kill()
            manager.process.wait()
            manager.start("--crash-limit", "2")
            self.assertEqual(manager.process.wait(60), 2)  # RestartPreventExitStatus of the unit
            assert_gone(made.mountpoint)

    def test_a_changed_source_is_shown(self) -> None:
        with self.managed() as (made, manager):
            manager.process.kill()
            manager.process.wait()
            made.source.unlink()
            made.source.write_bytes(OTHER)
            manager.start()
            manager.wait_for("READY=1")
            self.assertEqual(made.read(), OTHER)

    def test_a_source_that_is_gone_ends_the_mount(self) -> None:
        with self.managed() as (made, manager):
            manager.process.kill()
            manager.process.wait()
            made.source.unlink()
            manager.start()
            self.assertEqual(manager.process.wait(60), 2)
            assert_gone(made.mountpoint)
            manager.wait_for("FDSTOREREMOVE=1")

    def test_if_dead_unmounts_what_nobody_keeps(self) -> None:
        with self.managed() as (made, manager):
            self.assertEqual(run("umount", "--if-dead", made.mountpoint).code, 0)
            self.assertTrue(is_mounted(made.mountpoint))
            manager.process.kill()
            manager.process.wait()
            for name in list(manager.store):
                os.close(manager.store.pop(name))
            self.assertEqual(run("umount", "--if-dead", made.mountpoint).code, 0)
            assert_gone(made.mountpoint)


if __name__ == "__main__":
    run_handover_tests()
