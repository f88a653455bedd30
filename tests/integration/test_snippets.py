# SPDX-License-Identifier: Apache-2.0
"""The snippets of README.md and docs/ do what these say: their Python about a mount (tests/python has the
other), and every line of their shells, with the output that they show. Libraries that are not here are played by
stand_ins.py."""

from __future__ import annotations

import contextlib
import json
import os
import re
import unittest
from collections.abc import Callable
from pathlib import Path

# First, because it finds the modules of tests/data.
from shown_commands import ROOT, Session, Shown, in_console, in_script, run_unittests

import numpy as np
from ckpt_format import encode_checkpoint, record_of
from documents import blocks, prose
from format_files import read_safetensors
from mounted import mounted, run, scratch
from readme_sets import Sets
from recording import recording
from stand_ins import run_python, write_stand_ins

SHAPE = (64, 16)

# What a snippet finds when it begins, and what it must have got when it ends.
PRELUDE = "network = object()\n"
LOADED = "{'model.embed.weight': (16, 16), 'lm_head.weight': (16, 16)}"
CHECKS = {
    "import mindspore\nfrom": f"import stand_in\nassert stand_in.loaded == {LOADED}, stand_in.loaded\n",
    "import luojianet_ms": f"import stand_in\nassert stand_in.loaded == {LOADED}, stand_in.loaded\n",
    "load_distributed_checkpoint": "import stand_in\n"
    "assert set(stand_in.unified.values()) == {(64, 16)}, stand_in.unified\n"
    "assert len(stand_in.unified) == 2\n",
    "weight[:2].mean()": "assert weight.shape == (64, 16) and float(weight[1, 0]) == 16\n",
    # The numbers 0 to 31 are exact in bfloat16.
    "numpy.load(\"/mnt/tp4/merged/params/lm_head": "assert raw.shape == (64, 16) and raw.dtype == 'V2'\n"
    "assert weight.tolist() == numpy.arange(32).reshape(2, 16).tolist()\n",
    "safe_open": "",
    "safetensors.torch": "assert tuple(state['model.embed.weight'].shape) == (64, 16)\n",
}

CHANGES_MACHINE = "it changes the machine"
# Lines that no test runs, with the reason; and what is looked at instead.
NOT_RUN: list[tuple[str, str, Callable[[Commands, str], None] | None]]


class Snippets(unittest.TestCase):
    def test_each_does_what_it_says(self) -> None:
        snippets = [block for _, block in blocks("python") if "import reshardfs" not in block]
        self.assertEqual({word for word in CHECKS for snippet in snippets if word in snippet}, set(CHECKS))
        array = np.arange(SHAPE[0] * SHAPE[1], dtype=np.float32).reshape(SHAPE)
        half = (array.view("<u4") >> 16).astype("<u2")
        with contextlib.ExitStack() as stack:
            directory = stack.enter_context(scratch())
            (directory / "m.ckpt").write_bytes(
                encode_checkpoint([record_of("model.embed.weight", "Float32", array),
                                   record_of("lm_head.weight", "BFloat16", half)]))
            (directory / "tp4.toml").write_text(
                '[devices]\naxes = ["tp=4"]\n[[rule]]\nmatch = ["*.weight"]\ncut = ["tp", ""]\n')
            modules = directory / "modules"
            modules.mkdir()
            write_stand_ins(modules)
            mountpoint = stack.enter_context(mounted(
                directory / "m.ckpt", "--dst-strategy", directory / "tp4.toml",
                "--format", "ckpt,safetensors", "--params"))
            for snippet in snippets:
                (check,) = [check for word, check in CHECKS.items() if word in snippet]
                with self.subTest(snippet.splitlines()[0]):
                    self.assertIn("/mnt/tp4", snippet)
                    done = run_python(PRELUDE + snippet.replace("/mnt/tp4", str(mountpoint)) + check, modules)
                    self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_the_configuration_names_the_same_mount(self) -> None:
        first, second = [block for _, block in blocks("yaml")]
        self.assertIn("load_checkpoint: '/mnt/tp4'", first)
        self.assertIn("auto_trans_ckpt: False", first)
        self.assertIn("load_checkpoint: '/mnt/tp4/iteration'", second)
        self.assertIn("use_legacy_format: False", second)


class Commands(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.sets = Sets(cls.enterClassContext(scratch()))

    def setUp(self) -> None:
        self.sessions: dict[Path, Session] = {}

    def session_of(self, command: str) -> Session:
        directory = self.sets.directory_of(command)
        if directory not in self.sessions:
            self.sessions[directory] = Session(self, directory)
        return self.sessions[directory]

    def run_block(self, commands: list[Shown]) -> None:
        session = None
        for shown in commands:
            skipped = [check for pattern, _, check in NOT_RUN if re.search(pattern, shown.command)]
            # A line that is not the program's own, or names no set, uses what the one before it has mounted.
            if session is None or re.search("reshardfs (?!umount)", shown.command):
                session = self.session_of(shown.command)
            with self.subTest(shown.command):
                if not skipped:
                    session.run(shown)
                elif skipped[0] is not None:
                    skipped[0](self, shown.command)

    def test_scripts(self) -> None:
        scripts = [(page, in_script(block)) for page, block in blocks("sh", "bash")]
        self.assertGreater(sum(len(script) for _, script in scripts), 50)
        for page, script in scripts:
            with self.subTest(page):
                self.run_block(script)

    def test_consoles(self) -> None:
        consoles = blocks("console")
        self.assertGreater(len(consoles), 3)
        # The reader of a block has made it, or another block has.
        (self.sets.directory_of("") / "tp4").mkdir(exist_ok=True)
        for page, block in consoles:
            with self.subTest(page):
                self.run_block(in_console(block))

    def test_all_that_is_not_run_is_on_a_page(self) -> None:
        lines = [shown.command for _, block in blocks("sh", "bash") for shown in in_script(block)]
        for pattern, reason, _ in NOT_RUN:
            with self.subTest(pattern, reason=reason):
                self.assertTrue(any(re.search(pattern, line) for line in lines))

    def test_fstab(self) -> None:
        """mount(8) passes the words of a line so. The group is one that is here."""
        ((_, entry),) = blocks("fstab")
        source, mountpoint, kind, options, *zeros = entry.split()
        self.assertEqual((kind, zeros), ("reshardfs", ["0", "0"]))
        self.assertIn("gid=ml", options)
        session = self.session_of("")
        session.check_with_mount(source, mountpoint, options.replace("gid=ml", f"gid={os.getgid()}"))

    def test_cast_keeps_moments_and_counters(self) -> None:
        (shown,) = [shown for _, block in blocks("sh") for shown in in_script(block)
                    if "--cast" in shown.command and "--map" not in shown.command]
        session = self.session_of(shown.command)
        session.run(shown)
        tensors = read_safetensors(session.top / "mnt/st/rank_0/checkpoint_0.safetensors")[0]
        self.assertEqual({name: dtype for name, (dtype, _) in tensors.items()},
                         {"model.norm.weight": "BF16", "lm_head.weight": "BF16", "adam_m.lm_head.weight": "F32",
                          "adam_v.lm_head.weight": "F32", "global_step": "F32"})

    def test_recording_of_the_readme(self) -> None:
        self.assertEqual(recording(self.sets), (ROOT / "docs/recording.svg").read_text(),
                         "make it anew, as tests/integration/recording.py says at its top")

    def test_picture_of_the_readme(self) -> None:
        (shown,) = [shown for _, block in blocks("sh") for shown in in_script(block) if "slices.svg" in shown.command]
        made = self.session_of(shown.command).print_of(shown.command.replace("slices.svg", "-"))
        self.assertEqual(made, (ROOT / "docs/slices.svg").read_text(), f"make it anew: {shown.command}")

    def test_commands_within_sentences(self) -> None:
        found = re.findall(r"`(reshardfs [^`]+)`", prose())
        self.assertGreater(len(found), 4)
        for command in found:
            self.session_of("").assert_parsed(command)

    # --- in place of what is not run ---

    def is_script(self, command: str) -> None:
        """The file is there, and a shell can read it."""
        (script,) = re.findall(r"packaging/\S+", command)
        self.assertTrue(os.access(ROOT / script, os.X_OK), script)
        self.session_of("").print_of(f"bash -n {ROOT / script}")
        for option in re.findall(r" (--\w+)", command):
            self.assertIn(option, (ROOT / script).read_text())

    def is_recipe(self, command: str) -> None:
        (recipe,) = re.findall(r"-f (\S+)", command)
        self.assertRegex((ROOT / recipe).read_text(), r"(?m)^FROM .*debian")
        self.assertIn('ENTRYPOINT ["reshardfs"]', (ROOT / recipe).read_text())

    def is_in_container(self, command: str) -> None:
        """The image starts the program with the last words."""
        words = command.partition(" reshardfs ")[2]
        self.session_of("").print_of(f"reshardfs {words}")

    def is_mounted_in_container(self, command: str) -> None:
        """The same with a directory in place of the descriptor: all that can be checked is right."""
        words = command.partition(" reshardfs ")[2].replace("/dev/fd/3", "/mnt/tp4")
        self.assertIn(" --foreground", words)
        session = self.session_of("")
        session.unmount_all()
        session.print_of(f"reshardfs {words.replace('--foreground', '--check-only')}")

    def is_named_mount(self, command: str) -> None:
        """The service starts this command."""
        (name,) = re.findall(r"reshardfs@(\w+)", command)
        self.session_of("").unmount_all()
        file = self.sets.directory_of("") / "reshardfs.toml"
        result = run("mount", "--config", file, name, "--check-only")
        self.assertEqual((result.code, result.stderr), (0, ""))

    def is_model(self, command: str) -> None:
        """What is loaded is there: the weights that the index names, of one type, and companions."""
        session = self.session_of("qwen3")
        (path,) = re.findall(r"/mnt/qwen3/\w+", command)
        hf = Path(session.placed(path))
        index = json.loads((hf / "model.safetensors.index.json").read_text())["weight_map"]
        self.assertIn("model.embed_tokens.weight", index)
        types = {tensor[0] for file in set(index.values()) for tensor in read_safetensors(hf / file)[0].values()}
        self.assertEqual(len(types), 1)
        self.assertLessEqual({"config.json", "tokenizer.json"}, set(os.listdir(hf)))

    def is_megatron(self, command: str) -> None:
        """What Megatron looks for first is there."""
        (path,) = re.findall(r"/mnt/m/\w+", command)
        place = Path(self.session_of("--map megatron").placed(path))
        tracked = (place / "latest_checkpointed_iteration.txt").read_text()
        self.assertTrue((place / tracked / "metadata.json").exists())

    def is_for_ranks(self, command: str) -> None:
        """Each of vLLM's ranks has a file."""
        (path,) = re.findall(r"/mnt/q/\w+", command)
        (ranks,) = re.findall(r"--tensor-parallel-size (\d+)", command)
        names = os.listdir(self.session_of("qwen3").placed(path))
        self.assertLessEqual({f"model-rank-{rank}-part-0.safetensors" for rank in range(int(ranks))}
                             | {"config.json", "tokenizer.json"}, set(names))


    def is_plugin(self, command: str) -> None:
        """The options of the loader are JSON, as `tests/real/vllm` gives them."""
        (options,) = re.findall(r"--model-loader-extra-config '(.*)'", command)
        self.assertIn("source", json.loads(options))

    def is_example(self, command: str) -> None:
        """Files that are installed as examples."""
        (pattern,) = re.findall(r"/usr/share/doc/reshardfs/examples/(\S+)", command)
        self.assertEqual({path.suffix for path in (ROOT / "packaging/deploy").glob(pattern)}, {".service", ".timer"})

    def is_manifest(self, command: str) -> None:
        """The directory that is named has a Kustomization, or a chart."""
        for path in re.findall(r"packaging/deploy/\S+", command):
            self.assertTrue(any((ROOT / path / name).exists() for name in ("kustomization.yaml", "Chart.yaml")), path)


NOT_RUN = [
    ("^kubectl|^helm", "it needs a cluster", Commands.is_manifest),
    ("^packaging/deploy/kubernetes/helper/mount_descriptor", "it needs Podman", Commands.is_mounted_in_container),
    ("^packaging/", CHANGES_MACHINE, Commands.is_script),
    ("^podman build", "it needs the network, and Podman", Commands.is_recipe),
    ("^install -d", CHANGES_MACHINE, None),
    ("^podman stop", "it needs Podman", None),
    ("^podman run -d", "it needs Podman", Commands.is_mounted_in_container),
    ("^podman run", "it needs Podman", Commands.is_in_container),
    ("s3://|https://|urls.json", "it needs a server; the test 'remote' has one", None),
    ("^srun|^sbatch", "it needs a cluster; the test 'slurm' has one", None),
    ("^cp .* /etc/systemd/system/", CHANGES_MACHINE, Commands.is_example),
    ("^printf .*/etc/reshardfs.toml", CHANGES_MACHINE, None),
    ("^systemctl enable --now reshardfs-metrics.timer", CHANGES_MACHINE, None),
    ("^systemctl", CHANGES_MACHINE, Commands.is_named_mount),
    ("^python3 .*transformers", "it needs PyTorch", Commands.is_model),
    ("^vllm.*sharded_state", "it needs a GPU", Commands.is_for_ranks),
    ("^vllm.*load-format reshardfs", "it needs a GPU", Commands.is_plugin),
    ("^vllm(?!.*(sharded_state|reshardfs))", "it needs a GPU", Commands.is_model),
    ("^torchrun", "it needs Megatron-Core, and GPUs", Commands.is_megatron),
    ("^cmake --build", "the tests are built already", None),
    ("^cmake --install", CHANGES_MACHINE, None),
    ("^apt-get install|^python3 -m venv|/pip install|^pip install|^uvx |^tar -C /opt|^ln -s|^podman load",
     "it changes the machine; tests/packaging/install_packages.sh does it elsewhere", None),
    ("^xargs rm", CHANGES_MACHINE, None),
    ("^AWS_SHARED_CREDENTIALS_FILE=", "it needs a server; the test 'doctor' has one", None),
    ("^journalctl|^lsof|^fuser|^cat /proc/PID", "it needs a service, or a program that reads", None),
]

if __name__ == "__main__":
    run_unittests()
