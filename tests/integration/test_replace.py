# SPDX-License-Identifier: Apache-2.0
"""A mount that shows something else without being unmounted: open files, maps and listings go on as
they were."""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import shutil
import signal
import subprocess
import sys
import threading
import unittest
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from ckpt_format import Record, encode_checkpoint  # noqa: E402
from faulty_source import forget_pages  # noqa: E402
from handover_place import FILE, Place, place, run_handover_tests, unmounted_at_end  # noqa: E402
from mounted import NOBODY, Settings, assert_gone, run, status_of, user_mount_problem, wait_until  # noqa: E402

MIB = 1 << 20


def checkpoint(fill: int, mib: int = 4, names: tuple[str, ...] = ("w",)) -> bytes:
    """Each 8 bytes are other ones."""
    def data(i: int) -> bytes:
        return b"".join((fill << 56 | i << 48 | at).to_bytes(8, "little") for at in range(mib * MIB // 8))
    return encode_checkpoint([Record(name, "UInt8", (mib * MIB,), data(i)) for i, name in enumerate(names)])


A, B, C = checkpoint(1), checkpoint(2, 6), checkpoint(3, 2)


class Configured:
    """A mount by its name in a configuration file, of one of several sources."""

    def __init__(self, made: Place) -> None:
        self.place = made
        self.mountpoint = made.mountpoint
        self.config = made.directory / "config.toml"
        for name, data in zip("abc", (A, B, C)):
            self.source(name).write_bytes(data)

    def source(self, name: str) -> Path:
        return self.place.directory / f"{name}.ckpt"

    def configure(self, source: str | Path, *lines: str) -> None:
        path = self.source(source) if isinstance(source, str) else source
        text = "\n".join(['[mount.m]', f'source = "{path}"', f'mountpoint = "{self.mountpoint}"',
                          f'log-file = "{self.place.log_file}"', *lines, ""])
        new = self.config.with_suffix(".new")
        new.write_text(text)
        new.rename(self.config)

    def reload(self, *options: str, code: int = 0) -> str:
        result = run("reload", *options, self.mountpoint)
        assert result.code == code, f"exit code {result.code}: {result.stdout}{result.stderr}"
        return result.stdout + result.stderr

    def replace(self, source: str | Path, *lines: str) -> None:
        self.configure(source, *lines)
        self.reload("--replace")

    def sources_open(self) -> set[str]:
        """The sources that the process of the mount has open."""
        found = set()
        for link in Path(f"/proc/{self.place.pid()}/fd").iterdir():
            with contextlib.suppress(OSError):
                found.add(os.readlink(link))
        return {name for name in "abc" if str(self.source(name)) in found}


@contextlib.contextmanager
def configured(*options: str, source: str | Path = "a", lines: tuple[str, ...] = ()) -> Iterator[Configured]:
    with place() as made:
        mount = Configured(made)
        mount.configure(source, *lines)
        result = made.run("mount", "--config", mount.config, "m", *options)
        assert result.code == 0, result.stderr
        with unmounted_at_end(made):
            yield mount


class MountPoint(unittest.TestCase):
    """A reload cannot move a mount."""

    def test_another_one_in_the_configuration_is_refused(self) -> None:
        for options in ([], ["--replace"]):
            with self.subTest(options=options), configured() as mount:
                before = mount.place.pid()
                other = mount.place.directory / "other"
                other.mkdir()
                text = mount.config.read_text()
                mount.config.write_text(text.replace(str(mount.mountpoint), str(other)))
                said = mount.reload(*options, code=3)
                self.assertIn(f"the mount point is now '{other}', and a mount cannot move", said)
                self.assertIn(f"reshardfs umount {mount.mountpoint}", said)
                self.assertEqual(mount.place.pid(), before)
                # What it was, or a link to it, is the same place.
                link = mount.place.directory / "link"
                link.symlink_to(mount.mountpoint)
                for same in (f"{mount.mountpoint}/", link):
                    mount.config.write_text(text.replace(str(mount.mountpoint), str(same)))
                    mount.reload(*options)


class Replace(unittest.TestCase):
    def test_open_files_keep_their_contents_and_new_ones_have_the_new(self) -> None:
        for options in ([], ["--supervise"], ["--direct-io"]):
            with self.subTest(options=options), configured(*options) as mount:
                path = mount.mountpoint / FILE
                before = path.stat()
                with open(path, "rb", buffering=0) as old:
                    self.assertEqual(os.pread(old.fileno(), 4096, 0), A[:4096])
                    mount.replace("b")
                    self.assertEqual(path.stat().st_size, len(B))
                    self.assertNotEqual(path.stat().st_ino, before.st_ino)
                    with open(path, "rb", buffering=0) as new:
                        self.assertEqual(new.read(), B)
                        self.assertEqual(os.fstat(old.fileno()).st_size, len(A))
                        self.assertEqual(old.read(), A)
                    forget_pages(path)
                    self.assertEqual(path.read_bytes(), B)
                    status = mount.place.mount()
                    self.assertEqual((status["replacements"], status["replacing"]), (1, False))
                    told = status_of(mount.mountpoint).stdout
                    self.assertIn("; 1 upgrade (1 with other contents), 0 crashes", told)
                    self.assertIn(f" {mount.source('b')} ", told)
                    metrics = (mount.mountpoint / ".reshardfs/metrics").read_text()
                    self.assertIn(f'\nreshardfs_replacements_total{{mount="{mount.mountpoint}"}} 1\n', metrics)
                    self.assertEqual(mount.sources_open(), {"a", "b"})
                self.assertTrue(wait_until(lambda: mount.sources_open() == {"b"}),
                                "a former source stays open")

    def test_maps_are_held_across_the_change(self) -> None:
        with configured("--supervise", "--crash-limit", "20") as mount:
            path = mount.mountpoint / FILE
            maps = []
            for source in ("b", "c", "a", "b"):
                with open(path, "rb") as file:
                    maps.append((mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ), path.stat().st_size))
                self.assertEqual(maps[-1][0][:64], {len(A): A, len(B): B, len(C): C}[maps[-1][1]][:64])
                mount.replace(source)
                os.kill(mount.place.pid(), signal.SIGKILL)
            self.assertEqual(path.read_bytes(), B)
            for held, size in maps:
                # What has not been read yet comes from the former source.
                self.assertEqual(held[:], {len(A): A, len(B): B, len(C): C}[size])
            for held, _ in maps[1:]:
                held.close()
            self.assertEqual(maps[0][0][:], A)
            maps[0][0].close()
            self.assertTrue(wait_until(lambda: mount.sources_open() == {"b"}))
            self.assertEqual(mount.place.mount()["replacements"], 4)

    def test_former_files_outlive_upgrades_and_crashes(self) -> None:
        with configured("--supervise") as mount:
            path = mount.mountpoint / FILE
            with open(path, "rb", buffering=0) as old:
                mount.replace("b")
                mount.reload()
                os.kill(mount.place.pid(), signal.SIGKILL)
                self.assertEqual(os.pread(old.fileno(), len(A), 0), A)
                mount.replace("c")
                self.assertEqual(os.pread(old.fileno(), len(A), 0), A)
                self.assertEqual(path.read_bytes(), C)

    def test_readers_see_one_or_the_other(self) -> None:
        with configured("--supervise", "--crash-limit", "50") as mount:
            path, wrong, stop = mount.mountpoint / FILE, [], threading.Event()

            def read() -> None:
                while not stop.is_set():
                    try:
                        with open(path, "rb") as file:
                            if file.read() not in (A, B, C):
                                wrong.append("a mixture")
                    except OSError as error:
                        wrong.append(str(error))

            readers = [threading.Thread(target=read) for _ in range(4)]
            for reader in readers:
                reader.start()
            try:
                for i in range(12):
                    mount.replace("bca"[i % 3])
                    if i % 4 == 3:
                        os.kill(mount.place.pid(), signal.SIGKILL)
            finally:
                stop.set()
                for reader in readers:
                    reader.join()
            self.assertEqual(wrong, [])
            self.assertTrue(wait_until(lambda: mount.sources_open() == {"a"}), "former ones stay open")

    def test_names_that_come_and_go(self) -> None:
        with configured() as mount:
            source = mount.place.directory / "two.ckpt"
            source.write_bytes(checkpoint(4, 1, ("x", "y")))
            params = mount.mountpoint / "merged/params"
            mount.replace("a", 'views = ["ranks", "params"]')
            listed = {path.name for path in params.iterdir()}
            self.assertEqual(len([name for name in listed if name.startswith("w")]), 1)
            # That these are not there, the kernel has noted.
            self.assertFalse((params / "x.npy").exists())
            os.chdir(params)
            try:
                mount.replace(source, 'views = ["ranks", "params"]')
                self.assertIn("x.npy", os.listdir("."))
                self.assertTrue(os.path.exists("y.npy"))
                self.assertFalse(os.path.exists("w.npy"))
            finally:
                os.chdir("/")
            self.assertTrue((params / "x.npy").exists())
            with self.assertRaises(FileNotFoundError):
                (params / "w.npy").read_bytes()
            mount.replace(source, 'views = ["ranks"]')
            self.assertFalse(params.exists())

    def test_a_listing_under_way_goes_on_as_it_began(self) -> None:
        with configured() as mount:
            names = [f"p{i}" for i in range(10000)]
            source = mount.place.directory / "many.ckpt"
            source.write_bytes(encode_checkpoint([Record(name, "UInt8", (1,), b"x") for name in names]))
            mount.replace(source, 'views = ["params"]')
            params = mount.mountpoint / "merged/params"
            with os.scandir(params) as entries:
                seen = [next(entries).name for _ in range(10)]
                mount.replace("b", 'views = ["params"]')
                os.kill(mount.place.pid(), signal.SIGUSR2)
                self.assertTrue(wait_until(lambda: mount.place.mount()["upgrades"] == 3))
                seen += [entry.name for entry in entries]
            self.assertEqual(len(seen), len(set(seen)))
            self.assertLessEqual({name + ".npy" for name in names}, set(seen))
            self.assertNotIn("p0.npy", os.listdir(params))
            self.assertFalse((params / "p9999.npy").exists())
            self.assertEqual((params / "w.npy").stat().st_size > 6 * MIB, True)

    def test_a_link_that_leads_elsewhere_is_followed_if_asked_for(self) -> None:
        with place() as made:
            mount = Configured(made)
            for name, data in (("one", A), ("two", B)):
                (made.directory / name / "rank_0").mkdir(parents=True)
                (made.directory / name / "rank_0/m.ckpt").write_bytes(data)
            link, new = made.directory / "link", made.directory / "new"
            link.symlink_to("one")
            mount.configure(link)
            self.assertEqual(made.run("mount", "--config", mount.config, "m", "--supervise").code, 0)
            path = made.mountpoint / FILE
            with open(path, "rb", buffering=0) as old:
                new.symlink_to("two")
                new.rename(link)
                mount.reload()
                self.assertEqual(path.read_bytes(), A)
                os.kill(made.pid(), signal.SIGKILL)
                self.assertEqual(path.read_bytes(), A)
                mount.reload("--replace")
                self.assertEqual(path.read_bytes(), B)
                os.posix_fadvise(old.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                self.assertEqual(os.pread(old.fileno(), len(A), 0), A)
            self.assertEqual(run("umount", made.mountpoint).code, 0)

    def test_a_cache_of_a_hub_of_which_refs_main_moves(self) -> None:
        with place() as made:
            mount = Configured(made)
            cache = made.directory / "models--org--m"
            for name, data in (("one", A), ("two", B)):
                (cache / f"snapshots/{name}/rank_0").mkdir(parents=True)
                (cache / f"snapshots/{name}/rank_0/m.ckpt").write_bytes(data)
            (cache / "refs").mkdir()
            (cache / "refs/main").write_text("one")
            mount.configure(cache)
            self.assertEqual(made.run("mount", "--config", mount.config, "m", "--supervise").code, 0)
            path = made.mountpoint / FILE
            with open(path, "rb", buffering=0) as old:
                (cache / "refs/main").write_text("two")
                mount.reload()
                self.assertEqual(path.read_bytes(), A)
                # What the next snapshot lacks does not matter to a mount of this one.
                unfinished = cache / "blobs/0.incomplete"
                unfinished.parent.mkdir()
                unfinished.write_bytes(b"")
                os.kill(made.pid(), signal.SIGKILL)
                self.assertEqual(path.read_bytes(), A)
                unfinished.unlink()
                mount.reload("--replace")
                self.assertEqual(path.read_bytes(), B)
                self.assertEqual(os.pread(old.fileno(), len(A), 0), A)
            self.assertEqual(run("umount", made.mountpoint).code, 0)

    def test_a_newer_step_is_shown_if_asked_for(self) -> None:
        with place() as made:
            mount = Configured(made)
            source = made.directory / "steps"
            (source / "rank_0").mkdir(parents=True)
            (source / "rank_0/m-1_10.ckpt").write_bytes(A)
            mount.configure(source)
            self.assertEqual(made.run("mount", "--config", mount.config, "m", "--supervise").code, 0)
            path = made.mountpoint / FILE
            with open(path, "rb", buffering=0) as old:
                (source / "rank_0/m-1_20.ckpt").write_bytes(B)
                mount.reload()
                self.assertEqual(path.stat().st_size, len(A))
                os.kill(made.pid(), signal.SIGKILL)
                self.assertEqual(path.read_bytes(), A)
                mount.reload("--replace")
                self.assertEqual(path.read_bytes(), B)
                mount.reload()
                self.assertEqual(os.pread(old.fileno(), len(A), 0), A)
            self.assertEqual(run("umount", made.mountpoint).code, 0)


@unittest.skipIf(user_mount_problem(), user_mount_problem())
class AsAUser(unittest.TestCase):
    """Without any right, but for fusermount3."""

    def words(self, made: Place, *words: str | Path) -> list[str]:
        return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups",
                str(made.program), *map(str, words)]

    def test_all_that_root_can_do(self) -> None:
        with place() as made:
            mount = Configured(made)
            made.program.unlink()
            shutil.copy(Settings.binary, made.program)
            mount.configure("a")
            made.log_file.touch()
            for path in (made.directory, *made.directory.rglob("*")):
                os.chown(path, NOBODY, NOBODY)
            made.directory.chmod(0o755)

            def run_as_user(*words: str | Path) -> str:
                done = subprocess.run(self.words(made, *words), capture_output=True, text=True, timeout=60,
                                      check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
                return done.stdout

            def read() -> bytes:
                words = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "cat",
                         str(made.mountpoint / FILE)]
                return subprocess.run(words, capture_output=True, timeout=60, check=True).stdout

            run_as_user("mount", "--config", mount.config, "m", "--supervise")
            try:
                self.assertEqual(read(), A)
                run_as_user("reload", made.mountpoint)
                mount.configure("b")
                run_as_user("reload", "--replace", made.mountpoint)
                self.assertEqual(read(), B)
                listed = json.loads(run_as_user("status", made.mountpoint, "--json"))
                os.kill(listed["mounts"][0]["status"]["pid"], signal.SIGKILL)
                self.assertEqual(read(), B)
            finally:
                run_as_user("umount", made.mountpoint)
            assert_gone(made.mountpoint)


class Reconfigure(unittest.TestCase):
    """What another process applies at once."""

    def test_permissions_and_times(self) -> None:
        with configured() as mount:
            path = mount.mountpoint / FILE
            inode = path.stat().st_ino
            self.assertEqual(path.stat().st_mode & 0o777, 0o444)
            with open(path, "rb", buffering=0) as file:
                mount.configure("a", "uid = 12", "gid = 13", 'file-mode = "0440"', 'dir-mode = "0550"')
                mount.reload()
                for node, mode in ((path, 0o440), (path.parent, 0o550), (mount.mountpoint, 0o550)):
                    stat = node.stat()
                    self.assertEqual((stat.st_uid, stat.st_gid, stat.st_mode & 0o777), (12, 13, mode))
                self.assertEqual(path.stat().st_ino, inode)
                self.assertEqual(os.pread(file.fileno(), len(A), 0), A)
            self.assertEqual(mount.place.mount()["replacements"], 0)

    def test_log_level_and_read_ahead(self) -> None:
        with configured() as mount:
            device = os.stat(mount.mountpoint).st_dev
            setting = Path(f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}/read_ahead_kb")
            self.assertNotIn("info:", mount.place.log())
            mount.configure("a", 'log-level = "info"', "read-ahead-kb = 256")
            mount.reload()
            self.assertTrue(wait_until(lambda: setting.read_text().strip() == "256"))
            self.assertIn("info:", mount.place.log())


class Refusal(unittest.TestCase):
    def expect(self, mount: Configured, *options: str, words: tuple[str, ...]) -> None:
        before = mount.place.pid()
        told = mount.reload(*options, code=3)
        for word in words:
            self.assertIn(word, told)
        self.assertEqual(mount.place.pid(), before)
        self.assertEqual((mount.mountpoint / FILE).read_bytes(), A)

    def test_without_being_asked(self) -> None:
        with configured() as mount:
            mount.configure("b")
            self.expect(mount, words=("not what is mounted", "reload --replace"))

    def test_what_cannot_be_opened(self) -> None:
        with configured() as mount:
            mount.configure("a", 'dst-strategy = "nowhere.ckpt"')
            self.expect(mount, "--replace", words=("nowhere.ckpt",))
            mount.config.write_text("[mount.m]\nsource = 3 4\n")
            self.expect(mount, "--replace", words=("config.toml",))

    def test_options_that_the_kernel_was_told(self) -> None:
        with configured() as mount:
            mount.configure("a", "allow-other = true")
            self.expect(mount, words=("--allow-other", "unmount, and mount again"))
            self.expect(mount, "--replace", words=("--allow-other",))

    def test_a_former_source_that_is_gone(self) -> None:
        with configured("--supervise") as mount:
            path = mount.mountpoint / FILE
            with open(path, "rb", buffering=0) as old:
                mount.source("a").unlink()
                mount.configure("b")
                told = mount.reload("--replace", code=3)
                self.assertIn("programs have former files open", told)
                self.assertIn("a.ckpt", told)
                self.assertEqual(os.pread(old.fileno(), 10, 0), A[:10])
            self.assertTrue(wait_until(lambda: not self.refused(mount)), "it stays open")
            self.assertEqual(path.read_bytes(), B)
            # Names of a tree that nobody can show any more are forgotten, too.
            self.assertEqual(path.stat().st_size, len(B))

    def test_control_files_of_a_former_source_that_is_gone(self) -> None:
        """A collector of metrics may have one open at any moment: it goes on, and keeps nothing."""
        with configured("--supervise") as mount, contextlib.ExitStack() as stack:
            control = mount.mountpoint / ".reshardfs"
            texts = {}
            for path in sorted(control.iterdir()):
                file = stack.enter_context(open(path, "rb", buffering=0))
                texts[path.name] = (file, os.pread(file.fileno(), 64, 0))
            self.assertLessEqual({"metrics", "status.json", "report.html", "plan.json", "version"}, texts.keys())
            mount.source("a").unlink()
            mount.configure("b")
            mount.reload("--replace")
            self.assertEqual((mount.mountpoint / FILE).read_bytes(), B)
            for name, (file, begin) in texts.items():
                self.assertTrue(begin, name)
                whole = os.pread(file.fileno(), 1 << 20, 0)
                self.assertEqual(whole[:len(begin)], begin, name)
                if name.endswith(".json"):
                    json.loads(whole)
            stack.close()
            self.assertEqual(mount.sources_open(), {"b"})

    def refused(self, mount: Configured) -> bool:
        return run("reload", "--replace", mount.mountpoint).code != 0

    def test_a_program_that_ends_at_any_step(self) -> None:
        with configured("--supervise") as mount:
            mount.configure("b")
            with open(mount.mountpoint / FILE, "rb", buffering=0) as file:
                for step in ("start", "hello", "offer", "ready", "mount"):
                    mount.place.install_script(step, "end")
                    self.expect(mount, "--replace", words=("stays with process",))
                    self.assertEqual(mount.place.mount()["replacements"], 0)
                mount.place.install(Settings.binary)
                os.kill(mount.place.pid(), signal.SIGKILL)
                self.assertEqual(os.pread(file.fileno(), len(A), 0), A)
                mount.reload("--replace")
                self.assertEqual((mount.mountpoint / FILE).read_bytes(), B)
                self.assertEqual(os.pread(file.fileno(), len(A), 0), A)

    def test_a_changed_configuration_does_not_end_a_mount_that_crashes(self) -> None:
        with configured("--supervise") as mount:
            for text in ("b", None):
                mount.configure("b") if text else mount.config.unlink()
                os.kill(mount.place.pid(), signal.SIGKILL)
                self.assertEqual((mount.mountpoint / FILE).read_bytes(), A)


if __name__ == "__main__":
    run_handover_tests()
