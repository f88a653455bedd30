# SPDX-License-Identifier: Apache-2.0
"""--views megatron: a model as the checkpoint from which a run of Megatron-Core starts, read by a reader of
its own (tests/data/dcp_reader.py) and by reshardfs itself. test_megatron_torch.py lets PyTorch load it."""

from __future__ import annotations

import io
import json
import os
import pickle
import shutil
import sys
import unittest
import zipfile
from itertools import product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

import numpy as np  # noqa: E402
from dcp_reader import Checkpoint, read_dcp  # noqa: E402
from format_files import Tensors, read_safetensors, same, write_safetensors  # noqa: E402
from map_sets import GOLDEN, golden, vars_of  # noqa: E402
from mounted import mounted, one_line, run, run_unittests, scratch  # noqa: E402

LLAMA = "megatron_llama"
STACKED = (LLAMA, "megatron_qwen3_moe", "megatron_mixtral", "megatron_minimax_m2", "megatron_gpt_oss",
           "megatron_gemma3")
NUMBERED = ("megatron_llama_numbered", "megatron_qwen3_moe_numbered", "megatron_mixtral_numbered",
            "megatron_minimax_m2_numbered", "megatron_gpt_oss_numbered", "megatron_deepseek_v3",
            "megatron_glm4_moe")
FILES = {"latest_checkpointed_iteration.txt", "release/.metadata", "release/__0_0.distcp",
         "release/common.pt", "release/metadata.json"}
BACKENDS = {"sharded_backend": "torch_dist", "sharded_backend_version": 1, "common_backend": "torch",
            "common_backend_version": 1}
# Two stages of two ranks.
RULES = """[devices]
axes = ["tp=2"]
stages = 2
[[layers]]
match = "decoder.layers.{n}."
split = [1, 1]
[[rule]]
match = ["*linear_qkv.weight", "embedding.*"]
cut = ["tp"]
[[rule]]
match = ["*linear_proj.weight", "*linear_fc2.weight"]
cut = ["", "tp"]
[[rule]]
match = "*"
"""
KINDS = {"BF16": "bfloat16", "F32": "float32", "F16": "float16"}


def map_of(case: str) -> tuple[str, ...]:
    return ("--map", case.replace("_", "-"), "--model-config", str(GOLDEN / case / "config.json"))


def forward(case: str) -> tuple[str | Path, ...]:
    return (*map_of(case), *vars_of(case))


def is_stacked(name: str) -> bool:
    rest = name.removeprefix("decoder.layers.")
    return rest != name and not rest.split(".")[0].isdigit()


def front_of(name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The axes of layers and experts."""
    return shape[:is_stacked(name) + (".experts.experts." in name)]


def extra_states(core: Tensors, attentions: bool = True) -> set[str]:
    """An object for each layer and expert of each module in the decoder, but for routers.
    @param attentions: also of those that have no tensor."""
    fronts: dict[str, tuple[int, ...]] = {}
    for name, (_, array) in core.items():
        if name.split(".")[0] not in ("decoder", "mtp"):
            continue
        front = front_of(name, array.shape)
        modules = [name.rpartition(".")[0]]
        if attentions and ".self_attention." in name:
            modules.append(name.split(".self_attention.")[0] + ".self_attention.core_attention")
        fronts |= {module: front for module in modules if not module.endswith(".router")}
    keys = set()
    for module, front in fronts.items():
        of = front or (1,)
        for at in product(*map(range, of)):
            keys.add(f"{module}._extra_state/shard_{'.'.join(map(str, at))}_{'.'.join(map(str, of))}")
    return keys


def unpickled(archive: bytes) -> object:
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        assert opened.testzip() is None
        assert opened.read("archive/version") == b"3\n"
        return pickle.loads(opened.read("archive/data.pkl"))


class MegatronTest(unittest.TestCase):
    def setUp(self) -> None:
        self.root = self.enterContext(scratch())
        self.exports = 0

    def export(self, source: Path, *words: str | Path, views: str = "megatron") -> Path:
        self.exports += 1
        out = self.root / f"out{self.exports}"
        result = run("export", source, out, "--views", views, *words)
        self.assertEqual(result.code, 0, result.stderr)
        return out / views

    def refused(self, source: Path, *words: str | Path) -> str:
        result = run("export", source, self.root / "refused", "--views", "megatron", *words)
        self.assertEqual(result.code, 2, result.stderr)
        self.assertFalse((self.root / "refused").exists())
        return one_line(result)

    def assert_core(self, got: Checkpoint, want: Tensors) -> None:
        self.assertEqual(sorted(got.tensors), sorted(want))
        for name, (kind, array) in want.items():
            self.assertEqual((got.tensors[name][0], got.tensors[name][1].shape),
                             (KINDS[kind], array.shape), name)
            self.assertEqual(got.tensors[name][1].tobytes(), array.tobytes(), name)

    def source_of(self, case: str) -> Path:
        return GOLDEN / case / "src.safetensors"


class Families(MegatronTest):
    def test_each_family(self) -> None:
        for case in (*STACKED, *NUMBERED):
            with self.subTest(case=case):
                core = golden(case, "expected")
                out = self.export(self.source_of(case), *forward(case))
                self.assertEqual({str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()},
                                 FILES)
                self.assertEqual((out / "latest_checkpointed_iteration.txt").read_text(), "release")
                self.assertEqual(json.loads((out / "release/metadata.json").read_text()), BACKENDS)
                self.assertEqual(unpickled((out / "release/common.pt").read_bytes()),
                                 {"checkpoint_version": 3.0, "iteration": 0,
                                  "content_metadata": {"non_homogeneous_layers": case in NUMBERED,
                                                       "singleton_local_shards": False}})
                got = read_dcp(out / "release")
                self.assert_core(got, core)
                self.assertEqual(set(got.objects), extra_states(core))
                for name, item in got.objects.items():
                    self.assertEqual(unpickled(item), [None], name)

    def test_extra_states_of_newer_releases(self) -> None:
        for case in (LLAMA, "megatron_gpt_oss", "megatron_deepseek_v3"):
            with self.subTest(case=case):
                out = self.export(self.source_of(case), *forward(case), "--map-var", "attention_states=0")
                self.assertEqual(set(read_dcp(out / "release").objects), extra_states(golden(case, "expected"), False))

    def test_names_of_own_layers(self) -> None:
        for case in ("megatron_qwen3_moe", "megatron_mixtral_numbered", "megatron_glm4_moe"):
            with self.subTest(case=case):
                core = {name.replace("pre_mlp_layernorm.weight", "mlp.linear_fc1.layer_norm_weight"): tensor
                        for name, tensor in golden(case, "expected").items()}
                out = self.export(self.source_of(case), *forward(case), "--map-var", "local_layers=1")
                self.assert_core(read_dcp(out / "release"), core)
                back = self.root / f"{case}.safetensors"
                result = run("export", out, back, *map_of(case))
                self.assertEqual(result.code, 0, result.stderr)
                self.assertEqual(back.read_bytes(), self.hub_of(case, out.parent))

    def hub_of(self, case: str, directory: Path) -> bytes:
        """What the map makes of the names of Transformer Engine."""
        out = self.export(self.source_of(case), *forward(case))
        back = directory / "hub.safetensors"
        result = run("export", out, back, *map_of(case))
        self.assertEqual(result.code, 0, result.stderr)
        return back.read_bytes()

    def test_each_layer_and_each_expert_is_an_archive(self) -> None:
        """Megatron reads them one by one, and PyTorch an archive as a whole."""
        for case in STACKED:
            with self.subTest(case=case):
                for shards in ((), ("--dcp-shards", "3")):
                    got = read_dcp(self.export(self.source_of(case), *forward(case), *shards) / "release")
                    for name, boxes in got.boxes.items():
                        front = front_of(name, got.tensors[name][1].shape)
                        for _, offsets, sizes in boxes:
                            self.assertEqual(sizes[:len(front)], (1,) * len(front), name)
                        self.assertEqual({offsets[:len(front)] for _, offsets, _ in boxes},
                                         set(product(*map(range, front))), name)

    def test_it_is_a_source_again(self) -> None:
        for case in (*STACKED, *NUMBERED):
            with self.subTest(case=case):
                saved = self.export(self.source_of(case), *forward(case))
                back = self.export(saved, *map_of(case), views="ranks").parent
                same(self, read_safetensors(back / "rank_0/checkpoint_0.safetensors")[0], golden(case, "src"))
                result = run("verify", saved)
                self.assertEqual(result.code, 0, result.stdout + result.stderr)

    def test_a_mount_and_an_export_are_equal(self) -> None:
        for case in (LLAMA, "megatron_deepseek_v3"):
            saved = self.export(self.source_of(case), *forward(case))
            with mounted(self.source_of(case), "--views", "megatron", *forward(case)) as place:
                self.assertEqual(sorted(os.listdir(place)), ["megatron"])
                for path in saved.rglob("*"):
                    if path.is_file():
                        shown = place / "megatron" / path.relative_to(saved)
                        self.assertEqual(shown.read_bytes(), path.read_bytes(), path)
                # As Megatron finds it.
                back = self.export(place / "megatron", *map_of(case), views="ranks").parent
                same(self, read_safetensors(back / "rank_0/checkpoint_0.safetensors")[0], golden(case, "src"))


class Choices(MegatronTest):
    def test_files_for_ranks(self) -> None:
        case = "megatron_llama_numbered"
        core = golden(case, "expected")
        rules = self.root / "rules.toml"
        rules.write_text(RULES)
        choices: list[tuple[tuple[str | Path, ...], int]] = [(("--dcp-shards", "3"), 3),
                                                             (("--dst-strategy", rules), 4)]
        for words, count in choices:
            with self.subTest(words=words):
                out = self.export(self.source_of(case), *map_of(case), "--map-var", "padded_vocab=24", *words)
                self.assertEqual(len(list(out.glob("release/*.distcp"))), count)
                got = read_dcp(out / "release")
                self.assert_core(got, core)
                self.assertEqual(set(got.objects), extra_states(core))

    def test_weights_alone(self) -> None:
        """A run that starts has no moments, though its source has some."""
        tensors = golden(LLAMA, "src")
        with_states = tensors | {f"exp_avg.{name}": tensor for name, tensor in tensors.items()}
        source = self.root / "model.safetensors"
        write_safetensors(source, with_states)
        got = read_dcp(self.export(source, *forward(LLAMA)) / "release")
        self.assert_core(got, golden(LLAMA, "expected"))

    def test_converted(self) -> None:
        tensors = {name: ("F32", np.ones_like(array)) for name, (_, array) in golden(LLAMA, "src").items()}
        source = self.root / "model.safetensors"
        write_safetensors(source, tensors)
        got = read_dcp(self.export(source, *forward(LLAMA), "--cast", "fp32->bf16") / "release")
        self.assertEqual({kind for kind, _ in got.tensors.values()}, {"bfloat16"})

    def test_without_padding(self) -> None:
        """Megatron takes a vocabulary of another length, whose rows it pads itself."""
        words = (*map_of(LLAMA), "--map-var", "padded_vocab=40")
        got = read_dcp(self.export(self.source_of(LLAMA), *words) / "release")
        core = golden(LLAMA, "expected")
        for name in ("embedding.word_embeddings.weight", "output_layer.weight"):
            self.assertEqual(got.tensors[name][1].shape[0], 40)
            self.assertEqual(got.tensors[name][1].tobytes(), core[name][1][:40].tobytes())

    def test_all_steps(self) -> None:
        for step in (5, 10):
            directory = self.root / f"run/checkpoint-{step}"
            directory.mkdir(parents=True)
            tensors = {name: (kind, array + np.asarray(step, array.dtype) if "norm" in name else array)
                       for name, (kind, array) in golden(LLAMA, "src").items()}
            write_safetensors(directory / "model.safetensors", tensors)
        with mounted(self.root / "run", "--step", "all", "--views", "megatron", *forward(LLAMA)) as place:
            for step in (5, 10):
                got = read_dcp(place / "steps" / str(step) / "megatron/release")
                norm = golden(LLAMA, "expected")["decoder.final_layernorm.weight"][1]
                self.assertEqual(got.tensors["decoder.final_layernorm.weight"][1].tobytes(),
                                 (norm + np.asarray(step, norm.dtype)).tobytes())

    def test_through_two_maps(self) -> None:
        """From the numbered form to the stacked one."""
        numbered = self.root / "numbered.safetensors"
        shutil.copy(GOLDEN / "megatron_llama_numbered/expected.safetensors", numbered)
        config = ("--model-config", GOLDEN / "megatron_llama_numbered/config.json")
        words: tuple[str | Path, ...] = ("--map", "megatron-llama-numbered", "--map", "megatron-llama", *config,
                                         *vars_of("megatron_llama_numbered"))
        got = read_dcp(self.export(numbered, *words) / "release")
        hub = self.root / "hub.safetensors"
        shutil.copy(self.source_of("megatron_llama_numbered"), hub)
        want = read_dcp(self.export(hub, "--map", "megatron-llama", *config,
                                    *vars_of("megatron_llama_numbered")) / "release")
        self.assertEqual(sorted(got.tensors), sorted(want.tensors))
        for name, (_, array) in want.tensors.items():
            self.assertEqual(got.tensors[name][1].tobytes(), array.tobytes())


class Refused(MegatronTest):
    def test_names_of_hugging_face(self) -> None:
        """With the maps that help."""
        error = self.refused(self.source_of(LLAMA))
        self.assertIn("needs a map that shows Megatron-Core torch_dist, but there is no map", error)
        self.assertRegex(error, "add --map megatron-llama$")
        error = self.refused(self.source_of("megatron_qwen3_moe"))
        self.assertRegex(error, "add --map megatron-qwen3-moe$")

    def test_names_of_megatron_without_a_map(self) -> None:
        """They may be those of ranks, whose rows are in another order."""
        error = self.refused(GOLDEN / LLAMA / "expected.safetensors")
        self.assertIn("add --map megatron-llama --map MAP", error)
        error = self.refused(GOLDEN / "megatron_ranks_tp2/expected.safetensors")
        self.assertIn("needs a map that shows Megatron-Core torch_dist", error)

    def test_a_map_that_shows_something_else(self) -> None:
        error = self.refused(GOLDEN / LLAMA / "expected.safetensors", *map_of(LLAMA))
        self.assertIn("but the last one shows Hugging Face", error)
        self.assertIn("add another map: --map megatron-llama", error)
        case = "megatron_ranks_tp2"
        config = ("--model-config", GOLDEN / case / "config.json")
        error = self.refused(self.source_of(case), "--map", "megatron-ranks-llama", *config, *vars_of(case))
        self.assertIn("but the last one shows Megatron-Core ranks", error)

    def test_names_of_mindformers(self) -> None:
        error = self.refused(GOLDEN / "llama_legacy/expected.safetensors")
        self.assertRegex(error, r"--map mindformers-llama --map MAP")

    def test_unknown_names(self) -> None:
        source = self.root / "odd.safetensors"
        write_safetensors(source, {"w": ("F32", np.ones((2, 2), "<f4"))})
        self.assertIn("'reshardfs map list'", self.refused(source))

    def test_other_names(self) -> None:
        names = self.root / "names.json"
        names.write_text(json.dumps({"decoder.final_layernorm.weight": "norm"}))
        error = self.refused(self.source_of(LLAMA), *forward(LLAMA), "--name-map", names)
        self.assertIn("--name-map", error)
        self.assertIn("decoder.final_layernorm.weight", error)

    def test_nothing_but_states(self) -> None:
        source = self.root / "states.safetensors"
        write_safetensors(source, {f"exp_avg.{name}": tensor for name, tensor in golden(LLAMA, "src").items()}
                          | golden(LLAMA, "src"))
        error = self.refused(source, *forward(LLAMA), "--include", "optimizer.*")
        self.assertIn("no tensor that is shown is a weight", error)

    def test_own_values_of_ranks(self) -> None:
        error = self.refused(self.source_of(LLAMA), *forward(LLAMA), "--replicas", "own")
        self.assertIn("--replicas", error)

    def test_options_of_other_views(self) -> None:
        error = self.refused(self.source_of(LLAMA), *forward(LLAMA), "--dcp-release", "1.13")
        self.assertIn("--dcp-release is for the view dcp", error)


if __name__ == "__main__":
    run_unittests()
