# SPDX-License-Identifier: Apache-2.0
"""`reshardfs doctor` on a machine that can mount, and with something that is wrong."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

import numpy as np  # noqa: E402
from ckpt_format import encode_checkpoint, record_of  # noqa: E402
from faulty_source import FaultFs, faulty, run_unittests_with_faults  # noqa: E402
from mounted import Result, Settings, in_shell, run, scratch, wait_until  # noqa: E402
from nginx_server import nginx, openssl  # noqa: E402
from object_store import KEY, object_store  # noqa: E402
from web_server import Request, serving  # noqa: E402

DATA = encode_checkpoint([record_of("w", "Float32", np.ones((2, 3), np.float32))])
Check = dict[str, str]


def checks(result: Result, subject: str = "") -> dict[str, Check]:
    """By their names; of several with one name the worst."""
    order = ["skipped", "ok", "warning", "failed"]
    found: dict[str, Check] = {}
    for check in json.loads(result.stdout)["checks"]:
        if check.get("subject", "") != subject:
            continue
        before = found.get(check["name"])
        if before is None or order.index(check["status"]) > order.index(before["status"]):
            found[check["name"]] = check
    return found


def statuses(result: Result, subject: str = "") -> dict[str, str]:
    return {name: check["status"] for name, check in checks(result, subject).items()}


@contextlib.contextmanager
def environment(**variables: str) -> Iterator[None]:
    Settings.environment = variables
    try:
        yield
    finally:
        Settings.environment = {}


def certify(directory: Path, days: int) -> None:
    """Gives nginx a certificate for this time from now on; less than nothing: it has expired."""
    openssl("x509", "-req", "-in", directory / "srv.csr", "-CA", directory / "ca.pem", "-CAkey",
            directory / "ca.key", "-CAcreateserial", "-days", str(days), "-out", directory / "srv.pem",
            "-extfile", directory / "names")
    log = directory / "error.log"
    before = log.read_text().count("gracefully shutting down") if log.exists() else 0
    os.kill(int((directory / "nginx.pid").read_text()), signal.SIGHUP)
    # The workers of before end when the others are there.
    wait_until(lambda: log.read_text().count("gracefully shutting down") > before)
    time.sleep(0.5)


class Doctor(unittest.TestCase):
    def test_all_is_well(self) -> None:
        with scratch() as directory:
            (directory / "m.ckpt").write_bytes(DATA)
            before = set(os.listdir(tempfile.gettempdir()))
            result = run("doctor", "--json", directory / "m.ckpt")
            self.assertEqual((result.code, result.stderr), (0, ""))
            report = json.loads(result.stdout)
            self.assertIn(report["status"], ("ok", "warning"))
            self.assertEqual(sorted(report), ["checks", "status", "version"])
            for check in report["checks"]:
                self.assertLessEqual({"name", "status", "message", "remedy"}, set(check))
            self.assertEqual(statuses(result)["round-trip"], "ok")
            source = checks(result, str(directory / "m.ckpt"))["source"]
            self.assertIn("files: 1", source["message"])
            left = set(os.listdir(tempfile.gettempdir())) - before
            self.assertEqual([name for name in left if "doctor" in name], [])
            self.assertIn("ok       fuse-device", run("doctor").stdout)

    def test_a_source_that_is_not_there(self) -> None:
        result = run("doctor", "/nowhere/at/all")
        self.assertEqual(result.code, 1)
        self.assertRegex(result.stdout, r"(?m)^failed +source .*/nowhere/at/all.*no such")

    def test_no_temporary_directory(self) -> None:
        with environment(TMPDIR="/nowhere"):
            result = run("doctor")
        self.assertEqual(result.code, 1, f"{Settings.binary}: {result.stdout}")
        self.assertRegex(result.stdout, r"(?m)^failed +round-trip")
        self.assertIn("TMPDIR", result.stdout)

    def test_a_mount_that_fails_says_why(self) -> None:
        with scratch() as directory:
            result = in_shell("unshare -m sh -c 'mount --bind /dev/null /dev/fuse && exec reshardfs doctor'",
                              directory)
        if result.stdout == "":
            self.skipTest(f"no namespace: {result.stderr}")
        self.assertEqual(result.code, 1)
        self.assertRegex(result.stdout, r"failed +round-trip +mounting a small checkpoint failed: reshardfs: ")


class Config(unittest.TestCase):
    @contextlib.contextmanager
    def place(self) -> Iterator[Path]:
        with scratch() as directory:
            (directory / "m.ckpt").write_bytes(DATA)
            (directory / "mnt").mkdir()
            yield directory

    def config(self, directory: Path, *lines: str) -> Path:
        path = directory / "r.toml"
        path.write_text("\n".join((f'source = "{directory}/m.ckpt"', f'mountpoint = "{directory}/mnt"',
                                   *lines)) + "\n")
        text = path.read_text()
        path.write_text(f"[mount.one]\n{text}[mount.two]\nsource = '/nowhere/x'\n"
                        f"mountpoint = '{directory}/none'\n")
        return path

    def test_checks_each_mount(self) -> None:
        with self.place() as directory:
            config = self.config(directory, f'cache-dir = "{directory}/cache"')
            result = run("doctor", "--json", "--config", config)
            self.assertEqual(result.code, 1)
            self.assertEqual(statuses(result, str(config)), {"config-file": "ok"})
            self.assertEqual(statuses(result, "mount.one"), {
                "options": "ok", "source": "ok", "strategies": "skipped", "contents": "ok",
                "mount-point": "ok", "cache-directory": "ok", "cache-locks": "ok",
                "cache-space": checks(result, "mount.one")["cache-space"]["status"]})
            self.assertEqual(statuses(result, "mount.two"), {
                "options": "ok", "source": "failed", "strategies": "skipped", "contents": "skipped",
                "mount-point": "failed"})
            remedy = checks(result, "mount.two")["mount-point"]["remedy"]
            subprocess.run(["sh", "-c", remedy], check=True)
            self.assertTrue((directory / "none").is_dir())
            # Nothing was made.
            self.assertEqual(sorted(p.name for p in directory.iterdir()),
                             ["m.ckpt", "mnt", "none", "r.toml"])

    def test_checks_the_mounts_that_are_named(self) -> None:
        with self.place() as directory:
            config = self.config(directory)
            result = run("doctor", "--json", "--config", config, "one")
            self.assertEqual(result.code, 0, result.stdout)
            self.assertEqual(checks(result, "mount.two"), {})
            result = run("doctor", "--json", "--config", config, "onne")
            self.assertEqual(result.code, 1)
            found = checks(result, str(config))["config-file"]
            self.assertIn("did you mean 'one'", found["remedy"])

    def test_a_cache_inside_the_mount_point(self) -> None:
        with self.place() as directory:
            config = self.config(directory, f'cache-dir = "{directory}/mnt/cache"')
            found = checks(run("doctor", "--json", "--config", config, "one"), "mount.one")["mount-point"]
            self.assertEqual(found["status"], "failed")
            self.assertIn(f"{directory}/mnt/cache: lies inside the mount point", found["message"])

    def test_a_mount_without_a_name(self) -> None:
        with self.place() as directory:
            config = directory / "r.toml"
            config.write_text(f'source = "{directory}/m.ckpt"\nmountpoint = "{directory}/mnt"\n')
            result = run("doctor", "--json", "--config", config)
            self.assertEqual(result.code, 0, result.stdout)
            self.assertEqual(statuses(result, str(config))["contents"], "ok")

    def test_files_that_will_not_do(self) -> None:
        with self.place() as directory:
            config = directory / "r.toml"
            for text, expected in (("[mount.x]\nsorce = 'a'\n", "'sorce' is not an option"),
                                   ("[mount.x\n", "line 1"), (None, "no such file")):
                config.unlink(missing_ok=True)
                if text is not None:
                    config.write_text(text)
                result = run("doctor", "--json", "--config", config)
                self.assertEqual((result.code, result.stderr), (1, ""))
                self.assertIn(expected, checks(result, str(config))["config-file"]["message"])
                # The name of a mount of such a file is not taken for a source.
                named = run("doctor", "--json", "--config", config, "x")
                self.assertEqual((named.code, named.stderr), (1, ""))
                self.assertEqual(statuses(named, str(config)), {"config-file": "failed"})
                self.assertEqual(statuses(named, "x"), {})

    def test_what_a_mount_gets_wrong(self) -> None:
        with self.place() as directory:
            (directory / "bad.ckpt").write_bytes(DATA[:-1])
            for line, name, status in (
                    ('fuse-option = ["no_such"]', "options", "failed"),
                    ('views = "nothing"', "options", "failed"),
                    ('src-strategy = "/nowhere/s.ckpt"', "strategies", "failed"),
                    ('wait-for-source = "soon"', "options", "failed"),
                    ("passthrough = true", "passthrough", None)):
                config = self.config(directory, line)
                result = run("doctor", "--json", "--config", config, "one")
                found = checks(result, "mount.one")[name]
                if status is not None:
                    self.assertEqual(found["status"], status, line)
                    self.assertEqual(result.code, 1, line)
                self.assertNotEqual(found["message"], "")
            config = self.config(directory)
            config.write_text(config.read_text().replace("m.ckpt", "bad.ckpt"))
            result = run("doctor", "--json", "--config", config, "one")
            self.assertEqual(checks(result, "mount.one")["contents"]["status"], "failed")

    def test_a_source_that_is_waited_for(self) -> None:
        with self.place() as directory:
            config = self.config(directory, 'wait-for-source = "10m"')
            (directory / "m.ckpt").unlink()
            result = run("doctor", "--json", "--config", config, "one")
            self.assertEqual(result.code, 0, result.stdout)
            self.assertEqual(statuses(result, "mount.one"), {
                "options": "ok", "source": "warning", "strategies": "skipped",
                "contents": "skipped", "mount-point": "ok"})

    def test_a_file_system_that_is_not_mounted(self) -> None:
        """The command that mends it is told by all that read a source, also of the mount point itself."""
        if not os.path.exists("/etc/fstab"):
            self.skipTest("there is no /etc/fstab to put another one in its place")
        with self.place() as directory:
            disk = directory / "a disk"
            disk.mkdir()
            escaped = str(disk).replace(" ", "\\040")
            (directory / "fstab").write_text(f"server:/ckpt {escaped} nfs nofail 0 0\n")
            config = self.config(directory)
            config.write_text(config.read_text().replace(f"{directory}/m.ckpt", f"{disk}/m.ckpt"))
            listed = f"mount --bind {shlex.quote(str(directory / 'fstab'))} /etc/fstab && exec reshardfs"
            mend = f"mount {shlex.quote(str(disk))}"

            def answer(*words: str | Path) -> Result:
                inner = f"{listed} {shlex.join(map(str, words))}"
                return in_shell(f"unshare -m sh -c {shlex.quote(inner)}", directory)

            result = answer("doctor", "--json", "--config", config, "one")
            if result.stdout == "":
                self.skipTest(f"no namespace: {result.stderr}")
            source = checks(result, "mount.one")["source"]
            self.assertEqual((source["status"], source["remedy"]), ("failed", mend))
            self.assertIn(f"{disk} is not mounted", source["message"])
            for words in (("inspect", disk / "m.ckpt"), ("inspect", disk), ("mount", disk, directory / "mnt"),
                          ("plan", directory / "m.ckpt", "--dst-strategy", disk / "s.ckpt")):
                with self.subTest(words=words):
                    result = answer(*words)
                    self.assertNotEqual(result.code, 0)
                    self.assertIn(f"not mounted: {mend}", result.stderr)
                    self.assertEqual(result.stderr.count("\n"), 1)
            # Another path, and one that is mounted, are told of as ever.
            self.assertNotIn("not mounted", answer("inspect", directory / "absent").stderr)
            self.assertNotIn("not mounted", run("inspect", disk / "m.ckpt").stderr)

    def test_a_mount_that_is_there(self) -> None:
        with self.place() as directory:
            config = self.config(directory)
            self.assertEqual(run("mount", "--config", config, "one").code, 0)
            try:
                found = checks(run("doctor", "--json", "--config", config, "one"), "mount.one")
                self.assertEqual(found["mount-point"]["status"], "ok")
                self.assertIn("answers", found["mount-point"]["message"])
            finally:
                self.assertEqual(run("umount", directory / "mnt").code, 0)

    def test_a_source_whose_server_is_gone(self) -> None:
        """It is given up, and whoever looks at it holds up nothing."""
        with self.place() as directory:
            below = directory / "below"
            below.mkdir()
            (below / "m.ckpt").write_bytes(DATA)
            with faulty(FaultFs.program, below) as source:
                for operation in ("getattr", "read"):
                    config = self.config(directory)
                    config.write_text(config.read_text().replace(f"{directory}/m.ckpt",
                                                                 f"{source.path}/m.ckpt"))
                    source.forget_pages()
                    source.set(f"m.ckpt operation={operation} stall")
                    begin = time.monotonic()
                    result = run("doctor", "--json", "--timeout", "2", "--config", config, "one")
                    self.assertLess(time.monotonic() - begin, 40)
                    self.assertEqual(result.code, 1)
                    self.assertIn("no answer within 2 s", result.stdout)
                    self.assertEqual(statuses(result)["round-trip"], "ok")
                    source.set()


class Fstab(unittest.TestCase):
    def test_each_entry(self) -> None:
        with scratch() as directory:
            (directory / "a m.ckpt").write_bytes(DATA)
            (directory / "mnt").mkdir()
            source = f"{directory}/a\\040m.ckpt"
            fstab = directory / "fstab"
            fstab.write_text("\n".join((
                "UUID=1 / ext4 defaults 0 1",
                f"{source} {directory}/mnt reshardfs nofail,prefix=x_,x-y 0 0",
                f"{source} {directory}/mnt reshardfs allow_othr,nofail 0 0",
                f"{source} {directory}/mnt reshardfs wait_for_source=10m 0 0",
                f"s3://bucket/x {directory}/mnt reshardfs nofail,s3_endpoint=http://127.0.0.1:9 0 0",
                f"{source} {directory}/mnt fuse.reshardfs nofail 0 0", "")))
            result = run("doctor", "--json", "--fstab", fstab)
            self.assertEqual(result.code, 1)
            self.assertIn("5", checks(result, str(fstab))["fstab-file"]["message"])
            good = statuses(result, f"{fstab}:2")
            self.assertEqual((good["options"], good["contents"], good["boot"]), ("ok", "ok", "ok"))
            self.assertEqual(statuses(result, f"{fstab}:3")["options"], "failed")
            boot = checks(result, f"{fstab}:4")["boot"]
            self.assertEqual(boot["status"], "warning")
            far = checks(result, f"{fstab}:5")
            self.assertEqual(far["boot"]["status"], "warning")
            self.assertIn("_netdev", far["boot"]["message"])
            self.assertEqual((far["server"]["status"], far["s3-list"]["status"]),
                             ("failed", "skipped"))
            self.assertEqual(statuses(result, f"{fstab}:6"), {"type": "failed"})
            # Each problem of an entry has the command that mends it.
            for number in (4, 4, 5, 6):
                for check in json.loads(run("doctor", "--json", "--fstab", fstab).stdout)["checks"]:
                    if check.get("subject") == f"{fstab}:{number}" and "sed" in check["remedy"]:
                        subprocess.run(["sh", "-c", check["remedy"]], check=True)
                        break
            lines = fstab.read_text().splitlines()
            self.assertEqual(lines[0], "UUID=1 / ext4 defaults 0 1")
            self.assertRegex(lines[3], r" reshardfs \S*nofail\S* 0 0$")
            self.assertIn("x-systemd.mount-timeout=infinity", lines[3])
            self.assertIn(" reshardfs _netdev,nofail", lines[4])
            self.assertRegex(lines[5], " reshardfs nofail 0 0$")
            again = run("doctor", "--json", "--fstab", fstab)
            self.assertEqual(statuses(again, f"{fstab}:4")["boot"], "ok")
            self.assertEqual(statuses(again, f"{fstab}:6")["contents"], "ok")

    def test_a_misspelt_type(self) -> None:
        with scratch() as directory:
            (directory / "m.ckpt").write_bytes(DATA)
            (directory / "reshardf").mkdir()
            fstab = directory / "fstab"
            fstab.write_text("/dev/sda1 / reiserfs defaults 0 1\n"
                             f"{directory}/m.ckpt {directory}/reshardf reshardf nofail 0 0\n")
            result = run("doctor", "--json", "--fstab", fstab)
            self.assertEqual(result.code, 1)
            found = checks(result, f"{fstab}:2")["type"]
            self.assertEqual((found["status"], found["message"]),
                             ("failed", "the type is 'reshardf', not 'reshardfs'"))
            subprocess.run(["sh", "-c", found["remedy"]], check=True)
            self.assertEqual(fstab.read_text().splitlines()[1],
                             f"{directory}/m.ckpt {directory}/reshardf reshardfs nofail 0 0")
            self.assertEqual(statuses(run("doctor", "--json", "--fstab", fstab), f"{fstab}:2")["contents"], "ok")

    def test_what_is_no_fstab(self) -> None:
        with scratch() as directory:
            fstab = directory / "fstab"
            for content in (DATA, b"\x7fELF\0\0 a b\n", b"source mountpoint\n"):
                fstab.write_bytes(content)
                result = run("doctor", "--json", "--fstab", fstab)
                self.assertEqual(result.code, 1, content)
                found = checks(result, str(fstab))["fstab-file"]
                self.assertEqual(found["status"], "failed")
                self.assertRegex(found["message"], r"^\d+ lines? (is|are) no entry of fstab\(5\), from line \d+ on$")

    def test_prints_no_secret(self) -> None:
        with scratch() as directory:
            fstab = directory / "fstab"
            fstab.write_text("".join(f"{source} {directory}/mnt reshardfs {options} 0 0\n" for source, options in (
                ("http://127.0.0.1:9/m.safetensors?X-Amz-Signature=SECRET", "defaults"),
                ("http://user:SECRET@127.0.0.1:9/m.safetensors", "nofail"),
                ("/nowhere", "nofail,src_strategy=http://127.0.0.1:9/s.ckpt?signature=SECRET"))))
            for words in ((), ("--json",)):
                result = run("doctor", "--fstab", fstab, "--timeout", "5", *words)
                self.assertIn("127.0.0.1:9/m.safetensors", result.stdout)
                self.assertNotIn("SECRET", result.stdout + result.stderr)

    def test_none_of_ours(self) -> None:
        with scratch() as directory:
            (directory / "fstab").write_text("UUID=1 / ext4 defaults 0 1\n")
            result = run("doctor", "--json", "--fstab", directory / "fstab")
            self.assertEqual(result.code, 0)
            self.assertEqual(statuses(result, f"{directory}/fstab")["fstab-file"], "warning")


class Servers(unittest.TestCase):
    def examine(self, directory: Path, source: str, *lines: str) -> Result:
        (directory / "mnt").mkdir(exist_ok=True)
        config = directory / "r.toml"
        config.write_text("\n".join((f'source = "{source}"', f'mountpoint = "{directory}/mnt"',
                                     *lines)) + "\n")
        return run("doctor", "--json", "--config", config, "--timeout", "20")

    def found(self, directory: Path, source: str, *lines: str) -> dict[str, Check]:
        return checks(self.examine(directory, source, *lines), f"{directory}/r.toml")

    def test_a_store(self) -> None:
        with object_store() as store, scratch() as directory:
            root = directory / "set"
            root.mkdir()
            (root / "m.ckpt").write_bytes(DATA)
            store.upload("bucket", root, "sets/")
            with environment(**store.environment):
                found = self.found(directory, "s3://bucket/sets/m.ckpt")
                self.assertEqual({name: found[name]["status"] for name in (
                    "server", "server-certificate", "server-clock", "s3-list", "s3-read",
                    "contents")}, {"server": "ok", "server-certificate": "skipped",
                                   "server-clock": "ok", "s3-list": "ok", "s3-read": "ok",
                                   "contents": "ok"})
                missing = self.found(directory, "s3://no-such-bucket/x")
                self.assertEqual(missing["s3-list"]["status"], "failed")
                self.assertIn("no such bucket", missing["s3-list"]["message"])
                empty = self.found(directory, "s3://bucket/nothing")
                self.assertIn("no object", empty["s3-list"]["message"])
                deny = {"Version": "2012-10-17", "Statement": [{
                    "Effect": "Deny", "Principal": "*", "Action": "s3:GetObject",
                    "Resource": "arn:aws:s3:::bucket/*"}]}
                with contextlib.closing(store.client()) as client:
                    client.put_bucket_policy(Bucket="bucket", Policy=json.dumps(deny))
                denied = self.found(directory, "s3://bucket/sets")
                self.assertEqual((denied["s3-list"]["status"], denied["s3-read"]["status"]),
                                 ("ok", "failed"))
                self.assertIn("s3:GetObject", denied["s3-read"]["remedy"])
            with environment(**{**store.environment, "AWS_SECRET_ACCESS_KEY": "wrong"}):
                wrong = self.found(directory, "s3://bucket/sets")
                self.assertEqual(wrong["s3-list"]["status"], "failed")
                self.assertIn("secret", wrong["s3-list"]["remedy"])
            without = {name: value for name, value in store.environment.items() if "KEY" not in name}
            with environment(**without):
                unsigned = self.found(directory, "s3://bucket/sets")
                self.assertEqual(unsigned["s3-list"]["status"], "failed")
                self.assertIn("no keys were found", unsigned["s3-list"]["remedy"])

    def test_a_clock(self) -> None:
        for ahead, status in ((0, "ok"), (-400, "warning"), (3600, "failed")):
            def dated(request: Request, ahead: int = ahead) -> bool:
                handler = request.handler
                handler.send_response_only(403)
                handler.send_header("Date", time.strftime("%a, %d %b %Y %H:%M:%S GMT",
                                                          time.gmtime(time.time() + ahead)))
                handler.send_header("Content-Length", "0")
                handler.end_headers()
                return True

            with scratch() as directory, serving(directory, rules=[dated]) as server:
                with environment(AWS_ACCESS_KEY_ID=KEY, AWS_SECRET_ACCESS_KEY="x", HOME="/none",
                                 AWS_ENDPOINT_URL=server.url.rstrip("/")):
                    found = self.found(directory, "s3://bucket/x")
                self.assertEqual(found["server-clock"]["status"], status, found["server-clock"])
                if status != "ok":
                    self.assertIn("set-ntp", found["server-clock"]["remedy"])

    def test_certificates(self) -> None:
        with scratch() as directory:
            root = directory / "set"
            root.mkdir()
            (root / "m.ckpt").write_bytes(DATA)
            with nginx(root) as server:
                found = self.found(directory, f"{server.https}/m.ckpt",
                                   f'ca-file = "{server.authority}"')
                self.assertEqual((found["server-certificate"]["status"], found["contents"]["status"]),
                                 ("ok", "ok"))
                until = re.search(r"valid until (\d{4}-\d\d-\d\d)",
                                  found["server-certificate"]["message"])
                self.assertIsNotNone(until, found["server-certificate"]["message"])
                untrusted = self.found(directory, f"{server.https}/m.ckpt")["server-certificate"]
                self.assertEqual(untrusted["status"], "failed")
                self.assertIn("testCA", untrusted["message"])
                self.assertIn("--ca-file", untrusted["remedy"])
                certify(server.authority.parent, 3)
                soon = self.found(directory, f"{server.https}/m.ckpt", f'ca-file = "{server.authority}"')
                self.assertEqual((soon["server-certificate"]["status"], soon["contents"]["status"]),
                                 ("warning", "ok"))
                certify(server.authority.parent, -1)
                expired = self.found(directory, f"{server.https}/m.ckpt",
                                     f'ca-file = "{server.authority}"')["server-certificate"]
                self.assertEqual(expired["status"], "failed")
                self.assertIn("has expired on", expired["message"])

    def test_a_server_that_does_not_answer(self) -> None:
        with scratch() as directory:
            found = self.found(directory, "http://127.0.0.1:9/x")
            self.assertEqual(found["server"]["status"], "failed")
            self.assertIn("curl", found["server"]["remedy"])


if __name__ == "__main__":
    run_unittests_with_faults()
