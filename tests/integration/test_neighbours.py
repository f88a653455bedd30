# SPDX-License-Identifier: Apache-2.0
"""Two sets in one directory, and what trainers leave beside a model: every command names what it does not read, or
refuses the directory."""

from __future__ import annotations

import json
import random
import shutil
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from format_files import write_safetensors  # noqa: E402
from mounted import Result, mounted, run, run_unittests, scratch  # noqa: E402
from test_recognition import READ, copied, safetensors, saved, tensors  # noqa: E402

PAIRS = 40
ADAPTER = "base_model.model.model.layers.0.q_proj.lora_A.weight"


def names(place: Path) -> set[str]:
    return {path.name for path in place.rglob("*")}


def parameters(result: Result) -> list[str]:
    """Of `inspect --json`, with what two sets of one kind differ in."""
    contents = json.loads(result.stdout)
    return sorted(f"{one['name']} {one['shape']} {one['dtype']}" for one in contents["parameters"])


class Neighbours(unittest.TestCase):
    def setUp(self) -> None:
        self.root = self.enterContext(scratch())
        self.place = self.root / "set"

    def answers(self) -> list[tuple[str, Result]]:
        """Of all commands that read a source."""
        source, out = self.place, self.root / "out.safetensors"
        with_words = {"inspect": [], "plan": [], "hash": [], "verify": [], "report": ["--output", self.root / "page.html"],
                      "cat": ["merged/checkpoint_merged.safetensors"], "export": [out, "--force"]}
        found = [(command, run(command, source, *words)) for command, words in with_words.items()]
        return [*found, ("diff", run("diff", source, source))]

    def named_by_all(self, *words: str) -> None:
        for command, result in self.answers():
            with self.subTest(command):
                self.assertIn(result.code, (0, 1, 2), result.stderr)
                if result.code == 0:
                    said = result.stderr + (result.stdout if command == "verify" else "")
                    self.assertTrue(any(word in said for word in words), f"none of {words} in: {said}")

    def test_another_set_is_named(self) -> None:
        seed = random.randrange(1 << 30)
        rng = random.Random(seed)
        pairs = [(a, b) for a in READ for b in READ if a != b]
        for a, b in rng.sample(pairs, PAIRS):
            shutil.rmtree(self.root, ignore_errors=True)
            alone: dict[str, list[str]] = {}
            of: dict[str, set[str]] = {}
            for sign in (a, b):
                READ[sign](self.root / "alone" / sign.replace("/", "_"))
                alone[sign] = parameters(run("inspect", self.root / "alone" / sign.replace("/", "_"), "--json"))
                of[sign] = names(self.root / "alone" / sign.replace("/", "_"))
            if of[a] & of[b] - {"config.json", "params.json"} or alone[a] == alone[b]:
                continue
            for sign in (a, b):
                shutil.copytree(self.root / "alone" / sign.replace("/", "_"), self.place, dirs_exist_ok=True)
            with self.subTest(a, other=b, seed=seed):
                result = run("inspect", self.place, "--json")
                self.assertIn(result.code, (0, 2), result.stderr)
                if result.code == 2:
                    continue
                shown = [sign for sign in (a, b) if alone[sign] == parameters(result)]
                self.assertTrue(shown, "neither of the two is shown")
                other = b if shown == [a] else a
                words = [name for name in of[other] - of[shown[0]] if len(name) > 4]
                self.named_by_all(*words)

    def test_an_adapter_is_named_and_stays_out_of_hf(self) -> None:
        safetensors("model.safetensors")(self.place)
        write_safetensors(self.place / "adapter_model.safetensors", tensors(3, ADAPTER))
        for name in ("config.json", "adapter_config.json"):
            (self.place / name).write_text("{}")
        self.named_by_all("adapter_model.safetensors")
        with mounted(self.place, "--views", "hf") as mount:
            shown = [path.name for path in (mount / "hf").iterdir()]
            self.assertIn("config.json", shown)
            self.assertFalse([name for name in shown if "adapter" in name])

    def test_the_optimizer_is_no_model(self) -> None:
        safetensors("model.safetensors")(self.place)
        saved("optimizer.bin", "scheduler.bin")(self.place)
        self.named_by_all("'optimizer.bin'")
        self.assertNotIn("scheduler.bin", run("inspect", self.place).stderr)
        # Two models: which one is meant, only the user knows.
        write_safetensors(self.place / "model_1.safetensors", tensors(4, "v"))
        result = run("export", self.place, self.root / "out.safetensors")
        self.assertEqual(result.code, 2)
        self.assertIn("'model.safetensors', 'model_1.safetensors'", result.stderr)

    def test_models_below_the_optimizer_are_named(self) -> None:
        place = self.place / "checkpoint-10"
        for name in ("unet", "unet_ema"):
            safetensors("diffusion_pytorch_model.safetensors")(place / name)
        saved("optimizer.bin")(place)
        result = run("inspect", place)
        self.assertEqual(result.code, 2)
        self.assertIn("has 2 checkpoints: 'unet_ema', 'unet'; name one of them", result.stderr)
        self.assertEqual(run("inspect", self.place).code, 2)

    def test_a_file_beside_models_is_not_taken_for_the_checkpoint(self) -> None:
        saved("latents.pt")(self.place)
        self.assertEqual(run("plan", self.place).code, 0)
        for name in ("unet", "vae"):
            safetensors("diffusion_pytorch_model.safetensors")(self.place / name)
        for command, result in self.answers():
            with self.subTest(command):
                self.assertEqual(result.code, 2, result.stdout)
                self.assertIn("has 'latents.pt' beside models in 'unet', 'vae': which is the checkpoint?", result.stderr)
        self.assertEqual(run("plan", self.place / "latents.pt").code, 0)

    def test_a_name_in_an_older_index_and_another_file_is_named(self) -> None:
        write = {"a.safetensors": tensors(1, "x", "both"), "b.safetensors": tensors(2, "y", "both")}
        self.place.mkdir()
        for name, content in write.items():
            write_safetensors(self.place / name, content)
        (self.place / "model.safetensors.index.json").write_text(
            json.dumps({"weight_map": {"x": "a.safetensors", "both": "a.safetensors", "y": "b.safetensors"}}))
        self.named_by_all("in two files, and taken from the one that the index names: 'both'")

    def test_nothing_is_not_good(self) -> None:
        saved("model.pt")(self.place)
        for words in (["--state-key", "nothing"], ["--include", "nothing"]):
            result = run("verify", self.place / "model.pt", *words)
            self.assertEqual(result.code, 2, result.stdout)
        write_safetensors(self.root / "empty.safetensors", {})
        result = run("verify", self.root / "empty.safetensors")
        self.assertNotEqual(result.code, 0, result.stdout)

    def test_a_run_whose_checkpoints_lie_deeper(self) -> None:
        """Of verl with Megatron, and of NeMo RL: the trained model is one of several."""
        for inner, beside in (("actor/dist_ckpt", "actor/optimizer"),
                              ("policy/weights/iter_0000000", "policy/optimizer/iter_0000000"),
                              ("policy/weights", "policy/optimizer")):
            shutil.rmtree(self.place, ignore_errors=True)
            step = self.place / "global_step_10"
            copied("goldendcp/fsdp_tp_2x", inner, beside)(step)
            (self.place / "latest_checkpointed_iteration.txt").write_text("10")
            saved("data.pt")(step)
            with self.subTest(inner):
                for source in (self.place, step / inner.partition("/")[0]):
                    result = run("inspect", source, "--json")
                    self.assertEqual(result.code, 0, result.stderr)
                self.named_by_all(beside.split("/")[1])
                result = run("inspect", step)
                self.assertEqual(result.code, 2)
                self.assertIn(f"'{inner.partition('/')[0]}'", result.stderr)

    def test_steps_with_other_names(self) -> None:
        for one, two in (("step500", "step1000"), ("epoch_0_step_9", "epoch_1_step_3"), ("epoch0", "epoch1")):
            for number, name in enumerate((one, two)):
                (self.root / one / name).mkdir(parents=True)
                write_safetensors(self.root / one / name / "model.safetensors", tensors(number, f"of_{number}"))
            with self.subTest(one):
                result = run("inspect", self.root / one)
                self.assertEqual(result.code, 0, result.stderr)
                self.assertIn("of_1", result.stdout)


if __name__ == "__main__":
    run_unittests()
