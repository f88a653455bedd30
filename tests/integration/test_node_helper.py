# SPDX-License-Identifier: Apache-2.0
"""The helper of a node is upgraded, drained and killed while a pod reads: the reader sees no error, and the next
helper takes over the mount. Pods and helper are namespaces of this machine; no cluster takes part."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import unittest
from pathlib import Path
from types import ModuleType

from mounted import SKIP, Settings, is_mounted, is_sanitized, run_unittests, wait_until
from node_containers import READER, SECONDS, SIDECAR, Container, Node, become_a_node, node

MANIFESTS = Path(__file__).resolve().parents[2] / "packaging/deploy/kubernetes"

KEEPS = ("--keep", "--make-directories")


class NodeHelper(unittest.TestCase):
    def assert_ended(self, container: Container, sent: int, code: int = 0) -> None:
        self.assertEqual(container.stop(sent), (code, ""))

    def served(self, place: Node) -> tuple[Container, Container]:
        """Sidecar and reader, which has read."""
        sidecar = place.sidecar()
        place.wait_for_mount(True)
        reader = place.reader()
        place.wait_for_reads(reader)
        return sidecar, reader

    def test_an_upgrade_with_a_reader(self) -> None:
        with node() as place:
            helper = place.helper(*KEEPS)
            sidecar, reader = self.served(place)
            # A rolling update ends the old pod first.
            self.assert_ended(helper, signal.SIGTERM)
            self.assertFalse(place.socket.exists())
            place.wait_for_reads(reader)
            # And once more, so that a helper hands on what it has taken over itself.
            helper = place.helper(*KEEPS)
            self.assertTrue(wait_until(place.socket.exists, SECONDS))
            place.wait_for_reads(reader)
            self.assert_ended(helper, signal.SIGTERM)
            helper = place.helper(*KEEPS)
            place.wait_for_reads(reader)
            self.assertEqual(place.stop_reader(reader), (0, ""))
            # The pod ends. The newest helper takes the mount away on the node, and makes the next one.
            self.assert_ended(sidecar, signal.SIGTERM)
            place.wait_for_mount(False)
            sidecar, reader = self.served(place)
            self.assertEqual(place.stop_reader(reader), (0, ""))
            self.assert_ended(sidecar, signal.SIGTERM)
            place.wait_for_mount(False)
            self.assert_ended(helper, signal.SIGTERM)
            self.assertFalse(place.socket.exists())

    def test_a_helper_that_is_killed(self) -> None:
        with node() as place:
            helper = place.helper(*KEEPS)
            sidecar, reader = self.served(place)
            helper.kill()
            place.wait_for_reads(reader)
            helper = place.helper(*KEEPS)
            place.wait_for_reads(reader)
            self.assertEqual(place.stop_reader(reader), (0, ""))
            sidecar.kill()
            place.wait_for_mount(False)
            self.assert_ended(helper, signal.SIGTERM)

    def test_the_old_one_is_there_still(self) -> None:
        """As with maxSurge: the new pod runs before the old one ends."""
        with node() as place:
            old = place.helper(*KEEPS)
            sidecar, reader = self.served(place)
            new = place.helper(*KEEPS)
            self.assertFalse(wait_until(lambda: new.outer.poll() is not None, 1))
            self.assert_ended(old, signal.SIGTERM)
            self.assertTrue(wait_until(place.socket.exists, SECONDS))
            place.wait_for_reads(reader)
            self.assertEqual(place.stop_reader(reader), (0, ""))
            self.assert_ended(sidecar, signal.SIGTERM)
            place.wait_for_mount(False)
            self.assert_ended(new, signal.SIGTERM)

    def test_the_pod_ends_while_there_is_no_helper(self) -> None:
        with node() as place:
            helper = place.helper(*KEEPS)
            sidecar, reader = self.served(place)
            self.assert_ended(helper, signal.SIGTERM)
            place.stop_reader(reader)
            sidecar.kill()
            self.assertTrue(is_mounted(place.mountpoint))  # a dead one
            helper = place.helper(*KEEPS)
            place.wait_for_mount(False)
            sidecar, reader = self.served(place)
            self.assertEqual(place.stop_reader(reader), (0, ""))
            # Both are told to end at the same time, as on a node that shuts down.
            os.kill(sidecar.first_process(), signal.SIGTERM)
            self.assertEqual(helper.stop(signal.SIGTERM)[0], 0)
            code, said = sidecar.ended()
            self.assertEqual(code, 0, said)

    def test_a_daemon_waits_for_the_next_helper(self) -> None:
        with node() as place:
            helper = place.helper(*KEEPS)
            self.assertTrue(wait_until(place.socket.exists, SECONDS))
            self.assert_ended(helper, signal.SIGTERM)
            sidecar = place.sidecar()
            self.assertIsNone(sidecar.outer.poll())
            helper = place.helper(*KEEPS)
            place.wait_for_mount(True)
            reader = place.reader()
            place.wait_for_reads(reader)
            self.assertEqual(place.stop_reader(reader), (0, ""))
            self.assert_ended(sidecar, signal.SIGTERM)
            place.wait_for_mount(False)
            self.assert_ended(helper, signal.SIGTERM)

    def test_the_manifests_as_they_are(self) -> None:
        """Their commands, configuration and probes, with another source."""
        if is_sanitized(Settings.binary):
            self.skipTest("sanitizers look for leaks by tracing, which these containers may not")
        yaml = import_yaml(self)
        (daemon_set,) = yaml.safe_load_all((MANIFESTS / "helper/helper.yaml").read_text())
        (deployment,) = yaml.safe_load_all((MANIFESTS / "reader/reader.yaml").read_text())
        (helper_container,) = daemon_set["spec"]["template"]["spec"]["containers"]
        pod = deployment["spec"]["template"]["spec"]
        (sidecar_container,), (application,) = pod["initContainers"], pod["containers"]
        self.assertEqual(sidecar_container["securityContext"]["runAsUser"], SIDECAR)
        with node() as place:
            configuration = place.directory / "reshardfs.toml"
            text = (MANIFESTS / "overlays/volume/reshardfs.toml").read_text()
            text = text.replace('"/data/ckpt"', f'"{place.source}"').replace('src-strategy = "/data/train.ckpt"\n', "")
            configuration.write_text(text.replace('dst-strategy = "tp=4"\n', ""))
            helper = place.helper_with(helper_container["args"])
            sidecar = place.sidecar_with([str(configuration) if word == "/etc/reshardfs/reshardfs.toml" else word
                                          for word in sidecar_container["args"]])
            place.wait_for_mount(True)
            reader = place.reader()
            place.wait_for_reads(reader)
            ready = sidecar_container["startupProbe"]["exec"]["command"]
            self.assertEqual(ready, sidecar_container["readinessProbe"]["exec"]["command"])
            self.assertEqual(sidecar.run([str(place.directory / ready[0]), *ready[1:]], SIDECAR), 0)
            # The application has the directory in another place.
            looks = [word.replace("/models/", "/run/reshardfs/")
                     for word in application["readinessProbe"]["exec"]["command"]]
            self.assertEqual(reader.run(looks, READER), 0)
            self.assertEqual(helper.run(helper_container["readinessProbe"]["exec"]["command"], 0), 0)
            # Nobody but the sidecar's user reaches the socket.
            self.assertNotEqual(reader.run(["ls", "/run/reshardfs/s"], READER), 0)
            self.assert_ended(helper, signal.SIGTERM)
            place.wait_for_reads(reader)
            self.assertEqual(place.stop_reader(reader), (0, ""))
            self.assert_ended(sidecar, signal.SIGTERM)
            self.assertNotEqual(place.helper_with(helper_container["args"]).outer.pid, 0)
            place.wait_for_mount(False)

    def test_without_keeping_the_reader_notices(self) -> None:
        """That the reader of these tests does notice a mount that goes away."""
        with node() as place:
            helper = place.helper("--make-directories")
            sidecar, reader = self.served(place)
            self.assert_ended(helper, signal.SIGTERM)
            code, said = reader.ended()
            self.assertNotEqual(code, 0)
            self.assertIn("Error", said)
            code, said = sidecar.ended()
            self.assertEqual(code, 0, said)


def import_yaml(test: unittest.TestCase) -> ModuleType:
    try:
        import yaml
    except ImportError:
        test.skipTest("python3-yaml is not installed")
    return yaml


def why_not() -> str | None:
    if os.geteuid() != 0:
        return "needs root to make namespaces"
    if any(shutil.which(name) is None for name in ("setpriv", "unshare")):
        return "setpriv and unshare are not installed"
    try:
        become_a_node()
    except OSError as error:
        return f"no mount namespace can be made: {error.strerror}"
    return None


if __name__ == "__main__":
    if problem := why_not():
        print(f"skipped: {problem}")
        sys.exit(SKIP)
    run_unittests()
