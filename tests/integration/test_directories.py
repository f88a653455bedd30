# SPDX-License-Identifier: Apache-2.0
"""Directories as hubs, trainers and loaders leave them: each is read as what it is, or says what is in it."""

from __future__ import annotations

import json
import shutil
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

import numpy as np  # noqa: E402
from deepspeed_sets import random_set, write_set, write_universal  # noqa: E402
from format_files import Tensors, read_safetensors, write_safetensors  # noqa: E402
from mounted import mounted, one_line, run, run_unittests, scratch  # noqa: E402

TESTS = Path(__file__).resolve().parents[1]
DCP, FSDP = TESTS / "goldendcp/fsdp_tp_2x", TESTS / "goldentorch/fsdp2_w2_26"


def tensors(seed: int, *names: str) -> Tensors:
    rng = np.random.default_rng(seed)
    return {name: ("F32", rng.standard_normal((4, 3)).astype("<f4")) for name in names}


def with_index(directory: Path, index: str, files: dict[str, Tensors]) -> Tensors:
    """The files, and an index that names the first one that has a tensor."""
    directory.mkdir(parents=True, exist_ok=True)
    places: dict[str, str] = {}
    whole: Tensors = {}
    for name, content in files.items():
        write_safetensors(directory / name, content)
        for tensor, value in content.items():
            if places.setdefault(tensor, name) == name:
                whole[tensor] = value
    total = sum(array.nbytes for _, array in whole.values())
    (directory / index).write_text(json.dumps({"metadata": {"total_size": total}, "weight_map": places}))
    return whole


class Directories(unittest.TestCase):
    def setUp(self) -> None:
        self.root = self.enterContext(scratch())
        self.place = self.root / "model"

    def exported(self, source: Path, *options: str | Path) -> Tensors:
        out = self.root / "out.safetensors"
        result = run("export", source, out, "--force", *options)
        self.assertEqual(result.code, 0, result.stderr)
        return read_safetensors(out)[0]

    def check(self, source: Path, want: Tensors, *options: str | Path) -> None:
        got = self.exported(source, *options)
        self.assertEqual(sorted(got), sorted(want))
        for name, (kind, array) in want.items():
            self.assertEqual((got[name][0], got[name][1].tobytes()), (kind, array.tobytes()), name)

    def refused(self, source: Path, *words: str) -> str:
        result = run("inspect", source)
        self.assertEqual(result.code, 2, result.stdout)
        line = one_line(result)
        for word in words:
            self.assertIn(word, line)
        return line

    def test_indexes_of_any_name(self) -> None:
        for index in ("model.safetensors.index.json", "diffusion_pytorch_model.safetensors.index.json",
                      "model.safetensors.index.fp16.json", "quant_model_weights.safetensors.index.json"):
            place = self.root / index.partition(".")[0] / index
            want = with_index(place, index, {"a.safetensors": tensors(1, "x"), "b.safetensors": tensors(2, "y")})
            with self.subTest(index):
                self.check(place, want)
                self.check(place / index, want)

    def test_a_name_in_two_files_is_where_the_index_has_it(self) -> None:
        want = with_index(self.place, "model.safetensors.index.json",
                          {"a.safetensors": tensors(1, "x", "both"), "b.safetensors": tensors(2, "y", "both")})
        self.check(self.place, want)
        self.assertEqual(run("verify", self.place).code, 0)

    def test_several_sets_in_one_directory_are_named(self) -> None:
        """As PaddleNLP saves them; the model is the one that the directory stands for."""
        sets = {name: with_index(self.place, f"{name}.safetensors.index.json",
                                 {f"{name}-0000{n}-of-00002.safetensors": tensors(n, f"{name}.{n}") for n in (1, 2)})
                for name in ("master_weights", "optimizer", "model")}
        self.check(self.place, sets["model"])
        shown = run("inspect", self.place)
        for name in ("master_weights", "optimizer"):
            self.assertIn(f"{name}.safetensors.index.json", shown.stdout + shown.stderr)
            self.check(self.place / f"{name}.safetensors.index.json", sets[name])
        (self.place / "model.safetensors.index.json").unlink()
        self.refused(self.place, "has 2 sets with an index", "master_weights.safetensors.index.json",
                     "name the index of one of them")

    def test_shards_without_an_index_count_each_other(self) -> None:
        self.place.mkdir()
        want = {}
        for n in (1, 2, 3):
            want |= tensors(n, f"t{n}")
            write_safetensors(self.place / f"ft-model-0000{n}-of-00003.safetensors", tensors(n, f"t{n}"))
        self.check(self.place, want)
        self.assertIn("complete, according to counts in 3 names", run("inspect", self.place).stdout)
        (self.place / "ft-model-00002-of-00003.safetensors").unlink()
        self.refused(self.place, "'ft-model-00002-of-00003.safetensors' is missing")
        write_safetensors(self.place / "other-00001-of-00002.safetensors", tensors(5, "z"))
        self.refused(self.place, "the files of 2 models, without an index")

    def test_files_of_mlx(self) -> None:
        self.place.mkdir()
        for n in (0, 1):
            write_safetensors(self.place / f"weights.0{n}.safetensors", tensors(n, f"t{n}"))
        self.check(self.place, tensors(0, "t0") | tensors(1, "t1"))
        self.assertIn("unknown whether these are all files", run("inspect", self.place).stdout)
        (self.place / "weights.01.safetensors").rename(self.place / "weights.02.safetensors")
        self.refused(self.place, "'weights.02.safetensors', but none of number 1")

    def test_steps_of_a_trainer(self) -> None:
        for step in (500, 1000):
            place = self.place / f"checkpoint-{step}"
            place.mkdir(parents=True)
            write_safetensors(place / "model.safetensors", tensors(step, "w"))
            (place / "optimizer.pt").write_bytes(b"")
        self.check(self.place, tensors(1000, "w"))
        self.check(self.place, tensors(500, "w"), "--step", "500")
        self.assertEqual(json.loads(run("inspect", self.place, "--json").stdout)["steps"], ["500", "1000"])
        self.refused_step("600", "there is no directory of step '600'", "available: 500, 1000")
        (self.place / "checkpoint-1500").mkdir()
        self.refused(self.place, "step 1500 has no checkpoint that can be read", "available: 500, 1000")

    def refused_step(self, step: str, *words: str) -> None:
        result = run("inspect", self.place, "--step", step)
        self.assertEqual(result.code, 2)
        for word in words:
            self.assertIn(word, one_line(result))

    def test_all_steps_are_shown(self) -> None:
        for step in (10, 20):
            shutil.copytree(DCP / "src", self.place / f"step-{step}")
        want = read_safetensors(DCP / "expected.safetensors")[0]
        with mounted(self.place, "--step", "all", "--views", "merged-safetensors") as mount:
            self.assertEqual(sorted(path.name for path in (mount / "steps").iterdir()), ["10", "20"])
            for place in (mount / "steps/10", mount / "latest"):
                (file,) = (place / "merged").glob("*.safetensors")
                self.assertEqual(sorted(read_safetensors(file)[0]), sorted(want))

    def test_a_cache_of_a_hub(self) -> None:
        """Its snapshot is read as if it had been named: with config.json, and through hf/."""
        cache = self.root / "models--org--m"
        blob = cache / "blobs/0123"
        blob.parent.mkdir(parents=True)
        write_safetensors(blob, tensors(1, "w"))
        (cache / "blobs/4567").write_text(json.dumps({"model_type": "made_up"}))
        snapshot = cache / "snapshots/89ab"
        snapshot.mkdir(parents=True)
        (snapshot / "model.safetensors").symlink_to("../../blobs/0123")
        (snapshot / "config.json").symlink_to("../../blobs/4567")
        for named in (cache, cache / "snapshots", snapshot):
            self.check(named, tensors(1, "w"))
            self.assertEqual(run("verify", named).code, 0)
            shown = json.loads(run("inspect", named, "--json").stdout)["description"]
            self.assertIn("snapshot 89ab of org/m", shown["place"][0])
            self.assertEqual(shown["model"]["model_type"], "made_up")
            with mounted(named, "--views", "hf") as mount:
                self.assertEqual((mount / "hf/config.json").read_text(), (cache / "blobs/4567").read_text())
        self.assertEqual(run("export", cache, self.root / "out", "--no-symlinks").code, 2)
        second = snapshot.with_name("cdef")
        shutil.copytree(snapshot, second, symlinks=True)
        result = run("verify", cache)
        self.assertEqual(result.code, 2)
        self.assertIn("has 2 snapshots, and there is no refs/main: '89ab', 'cdef'", result.stderr)
        shutil.rmtree(second)
        (cache / "blobs/fedc.incomplete").write_bytes(b"")
        self.refused(cache, "blobs/fedc.incomplete", "hf download org/m")
        self.assertIn("a download that has not ended", run("inspect", snapshot).stderr)
        (cache / "blobs/fedc.incomplete").unlink()
        blob.unlink()
        for named in (cache, snapshot):
            self.refused(named, "model.safetensors", "hf download org/m")

    def test_a_complex_buffer_of_deepspeed_is_named(self) -> None:
        """It keeps nobody from the rest."""
        for stage in (2, 3):
            spec = next(spec for spec in map(random_set, range(100)) if spec.stage == stage and spec.weights)
            want = spec.reference()
            spec.buffers["freqs_cis"] = ("C64", np.ones((2, 3), "<c8"))
            place = self.root / f"stage{stage}"
            write_set(place, spec)
            source = place if spec.latest else place / spec.tag
            self.check(source, want)
            for command in ("inspect", "verify"):
                result = run(command, source)
                self.assertEqual(result.code, 0, result.stderr)
                self.assertIn("freqs_cis", result.stdout + result.stderr)
                self.assertIn("ComplexFloatStorage", result.stdout + result.stderr)

    def test_a_complex_buffer_of_a_universal_checkpoint_is_named(self) -> None:
        spec = next(spec for spec in map(random_set, range(100)) if spec.stage == 2 and spec.weights)
        spec.buffers["freqs_cis"] = ("C64", np.ones((2, 3), "<c8"))
        place = self.root / "universal"
        place.mkdir()
        write_universal(place, spec)
        for command in ("inspect", "verify"):
            result = run(command, place)
            self.assertEqual(result.code, 0, result.stderr)
            self.assertIn("freqs_cis", result.stdout + result.stderr)
            self.assertIn("ComplexFloatStorage", result.stdout + result.stderr)

    def test_parents_of_distributed_checkpoints(self) -> None:
        """accelerate keeps the model below a directory, NeMo in weights/, OLMo-core and NeMo Automodel below each step."""
        want = read_safetensors(DCP / "expected.safetensors")[0]
        shutil.copytree(DCP / "src", self.root / "accelerate/pytorch_model_fsdp_0")
        shutil.copytree(DCP / "src", self.root / "accelerate/optimizer_0")
        self.check(self.root / "accelerate", want)
        shutil.copytree(DCP / "src", self.root / "nemo/weights")
        (self.root / "nemo/context").mkdir()
        self.check(self.root / "nemo", want)
        shutil.copytree(DCP / "src", self.root / "olmo/step100/model_and_optim")
        (self.root / "olmo/step100/train").mkdir()
        shutil.copy(next((FSDP / "src").rglob("*.pt")), self.root / "olmo/step100/train/rank0.pt")
        self.check(self.root / "olmo", want)
        shutil.copytree(DCP / "src", self.root / "automodel/epoch_0_step_10/model")
        self.check(self.root / "automodel", want)

    def test_ranks_of_internlm(self) -> None:
        source = self.root / "internlm/100"
        source.mkdir(parents=True)
        file = next((FSDP / "src").rglob("*.pt"))
        for name in ("model_tp0_pp0.pt", "model_tp1_pp0.pt", "optimizer_tp0_pp0_zo0.pt", "context.pt"):
            shutil.copy(file, source / name)
        self.assertIn("InternLM", one_line(run("inspect", source)))

    def test_a_key_selects_in_a_distributed_checkpoint(self) -> None:
        want = read_safetensors(DCP / "expected.safetensors")[0]
        key = next(iter(want)).partition(".")[0]
        below = {name.removeprefix(f"{key}."): value for name, value in want.items() if name.startswith(f"{key}.")}
        self.check(DCP / "src", below, "--state-key", key)
        result = run("inspect", DCP / "src", "--state-key", "nothing")
        self.assertEqual(result.code, 2)
        self.assertIn("has no tensor below the key 'nothing'", one_line(result))
        for case in ("deepspeed_z1_w2", "deepspeed_z3_w4", "deepspeed_universal"):
            result = run("inspect", TESTS / "goldentorch" / case / "src", "--state-key", key)
            self.assertEqual(result.code, 2, result.stdout)
            self.assertIn("has the names of the model, without a key before them", one_line(result))

    def test_a_tag_of_deepspeed_may_have_any_name(self) -> None:
        for case, step, tracker in (("deepspeed_z1_w2", "global_step10", "latest"),
                                    ("deepspeed_universal", "global_step10_universal", "latest_universal")):
            with self.subTest(case):
                shutil.rmtree(self.place, ignore_errors=True)
                shutil.copytree(TESTS / "goldentorch" / case / "src", self.place)
                (self.place / step).rename(self.place / "best")
                (self.place / tracker).write_text("best\n")
                self.check(self.place, read_safetensors(TESTS / "goldentorch" / case / "expected.safetensors")[0])

    def test_a_run_of_verl(self) -> None:
        shutil.copytree(FSDP / "src", self.place / "global_step_10/actor")
        (self.place / "latest_checkpointed_iteration.txt").write_text("10")
        want = read_safetensors(FSDP / "expected.safetensors")[0]
        self.check(self.place / "global_step_10/actor", want)
        self.check(self.place, want)
        with mounted(self.place / "global_step_10/actor", "--views", "hf") as mount:
            self.assertTrue((mount / "hf/config.json").is_file())

    def test_parts_of_a_rank(self) -> None:
        """As vLLM and SGLang write sharded_state: several files a rank."""
        self.place.mkdir()
        for rank in (0, 1):
            for part in (0, 1):
                write_safetensors(self.place / f"model-rank-{rank}-part-{part}.safetensors",
                                  tensors(10 * rank + part, f"t{part}"))
        rules = self.root / "rules.toml"
        rules.write_text('[devices]\naxes = ["tp=2"]\nunmatched = "replicate"\n[[rule]]\nmatch = "*"\ncut = ["tp"]\n')
        want = {f"t{part}": ("F32", np.concatenate([tensors(10 * rank + part, f"t{part}")[f"t{part}"][1]
                                                    for rank in (0, 1)])) for part in (0, 1)}
        self.check(self.place, want, "--src-strategy", rules)
        result = run("inspect", self.place, "--src-pattern", "model-rank-{rank}-part-{step}.safetensors")
        self.assertEqual(result.code, 2)
        self.assertIn("has {step} where a part of a file is counted", one_line(result))
        (self.place / "model-rank-1-part-0.safetensors").unlink()
        self.refused(self.place, "part 0 is missing beside 'model-rank-1-part-1.safetensors'")


if __name__ == "__main__":
    run_unittests()
