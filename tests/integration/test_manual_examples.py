# SPDX-License-Identifier: Apache-2.0
"""The examples of the manual pages run, on sets that have what they name. The tutorial has its own test,
as have the examples of reshardfs-map(5) with a family of its own."""

from __future__ import annotations

import argparse
import os
import re
import sys
import unittest
from pathlib import Path

# First, because it finds the modules of tests/data.
from shown_commands import ROOT, Session, Shown, in_console, in_script, literal

from mounted import parse_settings, scratch
from readme_sets import CUTS, Sets

# Page to the sections whose commands are run, in this order; beside the examples of all commands.
PAGES = {
    "reshardfs-strategy.5": ("EXAMPLES", "Rules from a strategy file"),
    "reshardfs-map.5": ("Using an installed map", "SEVERAL MAPS"),
    "reshardfs.toml.5": ("DESCRIPTION", "Named mounts", "EXAMPLES"),
}
# Their examples are about a mount that is there.
OF_A_MOUNT = ("reshardfs-reload.1", "reshardfs-status.1", "reshardfs-umount.1", "reshardfs-warm.1")
# What a test cannot run, and why.
NOT_RUN = {"systemctl": "changes the machine", "journalctl": "needs the journal", "vllm": "needs a GPU"}
# The demo's layout as rules, for all of its parameters.
RULES = f"""[devices]
axes = ["dp=2", "tp=4"]
optimizer = "all"
{CUTS}[[rule]]
match = "*norm*.weight"
[[rule]]
match = ["learning_rate", "global_step"]
optimizer = "none"
"""


WRITTEN = ROOT  # main() sets it


def text_of(name: str) -> str:
    """Of a page that the build has written, or of one that stands in man/ as it is."""
    written = WRITTEN / name
    return (written if written.exists() else ROOT / "man" / name).read_text()


def section_of(page: str, title: str) -> str:
    found = re.search(rf"^\.S[hs] {re.escape(title)}\n(.*?)(?=^\.S[hs] |\Z)", page, re.M | re.S)
    return found.group(1) if found else ""


def commands_of(section: str) -> list[Shown]:
    """Of displays and single lines, in their order; what is no command is left out."""
    single = re.sub(r"^\.Dl (.*)$", r".Bd -literal\n\1\n.Ed", section, flags=re.M)
    shown = []
    for block in literal(single):
        if block.startswith("$ "):
            shown += in_console(block)
        elif re.match(r"(reshardfs|\(cd) |" + "|".join(NOT_RUN), block):
            shown += in_script(block)
    return shown


class Examples(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.sets = Sets(cls.enterClassContext(scratch()))

    def setUp(self) -> None:
        self.sessions: dict[Path, Session] = {}
        self.addCleanup(lambda: [session.unmount_all() for session in self.sessions.values()])

    def session_of(self, command: str) -> Session:
        directory = self.sets.directory_of(command)
        if directory not in self.sessions:
            self.sessions[directory] = Session(self, directory)
        return self.sessions[directory]

    def placed(self, command: str) -> str:
        """On this machine: paths of other directories are those of the set."""
        for path, here in ((r"/(old|new)/", ""), ("/local/", "local/"), (r"\bstrategy\.ckpt", "train.ckpt"),
                           (" mnt ", " mnt/here "), (r"\bmodel\.safetensors", "merged.safetensors"),
                           (r"\bhub-dir", "Qwen3-8B"),
                           ("/usr/share/reshardfs/maps", str(ROOT / "config/maps"))):
            command = re.sub(path, here, command)
        return command

    def prepare(self, name: str) -> None:
        """What examples find where they are run."""
        if name in OF_A_MOUNT:
            self.session_of("").print_of("reshardfs mount ckpt /mnt/tp4 --src-strategy train.ckpt "
                                         "--dst-strategy serve.ckpt")
        if name == "reshardfs-hash.1":
            self.session_of("").print_of("reshardfs export ckpt converted --src-strategy train.ckpt "
                                         "--dst-strategy serve.ckpt")

    def run_section(self, name: str, title: str) -> int:
        commands = commands_of(section_of(text_of(name), title))
        for shown in commands:
            command = self.placed(shown.command)
            if command.split()[0] in NOT_RUN:
                continue
            session = self.session_of(command)
            with self.subTest(page=name, command=command):
                if found := re.match(r"cat (\S+)$", command):
                    # It shows a file that the next command reads.
                    for each in self.sessions.values():
                        (each.top / found.group(1)).write_text(self.placed(shown.output or ""))
                    continue
                if found := re.search(r" (?:-O|--output) (\S+)", command):
                    (session.top / found.group(1)).unlink(missing_ok=True)
                session.print_of(command)
        return len(commands)

    def test_pages(self) -> None:
        self.session_of("qwen3")
        (self.session_of("").top / "rules.toml").write_text(RULES)
        commands = {page.name: ("EXAMPLES",) for page in sorted(WRITTEN.glob("*.1"))}
        self.assertIn("reshardfs-mount.1", commands)
        for name, titles in (commands | PAGES).items():
            with self.subTest(name):
                self.prepare(name)
                least = 2 if name in PAGES else 0
                self.assertGreater(sum(self.run_section(name, title) for title in titles), least)
            for session in self.sessions.values():
                session.unmount_all()

    def test_fstab(self) -> None:
        section = section_of((ROOT / "man/mount.reshardfs.8").read_text(), "EXAMPLES")
        entries = re.findall(r"^(?:\.Dl )?(\S+) (/mnt/\S+) reshardfs (\S+) 0 0$", section, re.M)
        self.assertEqual(len(entries), 2)
        session = self.session_of("")
        for source, mountpoint, options in entries:
            with self.subTest(options):
                options = options.replace("gid=ml", f"gid={os.getgid()}").replace("/etc/", "/data/")
                session.check_with_mount(source, mountpoint, options)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--pages", type=Path, required=True, help="where the build has written them")
    parser.add_argument("tests", nargs="*", help="Class or Class.test; default: all")
    arguments = parse_settings(parser)
    WRITTEN = arguments.pages.resolve()
    unittest.main(argv=[sys.argv[0], "-v", *arguments.tests])
