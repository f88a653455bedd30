# SPDX-License-Identifier: Apache-2.0
"""GPTModel and HybridModel of Megatron-Core: what Megatron-Core wrote of both, and random models against plain
Python."""

from __future__ import annotations

import json
import random
import shutil
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

import numpy as np  # noqa: E402
from format_files import Tensors, read_safetensors, write_safetensors  # noqa: E402
from mounted import run, run_unittests, scratch  # noqa: E402
from torch_archive import Call, Global, ordered, stored, write_archive  # noqa: E402

GOLDEN = Path(__file__).resolve().parents[1] / "golden_megatron"
STACKED = "megatron-hybrid"
NUMBERED = "megatron-hybrid-numbered"
STATE = "optimizer.state.exp_avg."


class GoldenMegatron(unittest.TestCase):
    def equal(self, a: str, b: str, count: int, *options: str) -> None:
        result = run("diff", GOLDEN / a, GOLDEN / b, "--allow-unmatched", *options)
        self.assertEqual(result.code, 0, result.stdout + result.stderr)
        self.assertIn(f"are equal: {count} equal", result.stdout)

    def test_gpt_and_hybrid_are_what_megatron_makes_of_each_other(self) -> None:
        for case, name, hybrid, gpt in (("llama-optimizer", STACKED, 60, 36),
                                        ("deepseek-v3", NUMBERED, 44, 44),
                                        ("qwen35", NUMBERED, 62, 62)):
            with self.subTest(case):
                self.equal(f"{case}/gpt", f"{case}/hybrid", hybrid, "--a-map", name)
                self.equal(f"{case}/gpt", f"{case}/hybrid", gpt, "--b-map", name)

    def test_gpt_comes_back_as_it_was_with_its_optimizer(self) -> None:
        self.equal("llama-optimizer/gpt", "llama-optimizer/gpt", 36, "--a-map", STACKED,
                   "--a-map", STACKED)
        self.equal("deepseek-v3/gpt", "deepseek-v3/gpt", 44, "--a-map", NUMBERED, "--a-map", NUMBERED)

    def test_hybrid_is_the_model_of_hugging_face(self) -> None:
        for case, source, count, maps in (
                ("llama-optimizer", "hybrid", 21, (STACKED, "megatron-llama")),
                ("llama-optimizer", "hybrid", 21, (NUMBERED, "megatron-llama-numbered")),
                ("deepseek-v3", "hybrid", 67, (NUMBERED, "megatron-deepseek-v3")),
                ("qwen3-moe-ranks-ep2", "ranks", 45, (STACKED, "megatron-qwen3-moe")),
                ("qwen35", "hybrid2", 28, (NUMBERED, "megatron-qwen35")),
                ("nemotron-h", "torch_dist", 29, ("megatron-nemotron-h",)),
                ("nemotron-h", "ranks", 29, ("megatron-nemotron-h",))):
            with self.subTest(case=case, maps=maps):
                options = [word for one in maps for word in ("--a-map", one)]
                model = f"{case}/hf2" if source == "hybrid2" else f"{case}/hf"
                self.equal(f"{case}/{source}", model, count, *options, "--a-model-config", str(GOLDEN / model),
                           "--exclude", "exp_avg*", "--exclude", "param.*")

    def test_auto_finds_the_way_to_hugging_face(self) -> None:
        # The names of a HybridModel without Mamba are all in the map of Nemotron-H, too.
        for case, source, count in (("llama-optimizer", "hybrid", 21), ("llama-optimizer", "gpt", 21),
                                    ("deepseek-v3", "hybrid", 67), ("qwen3-moe-ranks-ep2", "ranks", 45),
                                    ("nemotron-h", "torch_dist", 29), ("nemotron-h", "ranks", 29)):
            with self.subTest(case=case, source=source):
                self.equal(f"{case}/{source}", f"{case}/hf", count, "--a-map", "auto", "--a-model-config",
                           str(GOLDEN / case / "hf"), "--exclude", "exp_avg*", "--exclude", "param.*")

    def test_a_gated_mlp_is_not_that_of_nemotron(self) -> None:
        with scratch() as root:
            for config in (("--map-var", "vocab=60", "--map-var", "tied=0", "--map-var", "heads=4", "--map-var",
                            "groups=2"), ("--model-config", str(GOLDEN / "llama-optimizer/hf"))):
                result = run("export", GOLDEN / "llama-optimizer/hybrid", root / "out", "--map",
                             "megatron-nemotron-h", "--weights-only", *config)
                self.assertEqual(result.code, 2, result.stdout)
                self.assertIn("mlp.linear_fc1", result.stderr)

    def test_hugging_face_is_the_hybrid_model(self) -> None:
        # Padding of the vocabulary is not zero in Megatron's.
        vocabulary = ("--exclude", "embedding.*", "--exclude", "output_layer.*")
        for case, target, count, maps in (
                ("nemotron-h", "torch_dist", 41, ("megatron-nemotron-h",)),
                ("deepseek-v3", "hybrid", 42, ("megatron-deepseek-v3", NUMBERED))):
            with self.subTest(case):
                options = [word for one in maps for word in ("--a-map", one)]
                self.equal(f"{case}/hf", f"{case}/{target}", count, *options, "--a-map-var",
                           "padded_vocab=64", *vocabulary)

    def test_qwen35_of_hugging_face_is_the_hybrid_model(self) -> None:
        # The norm of Hugging Face was rounded where 1 was added to it.
        self.equal("qwen35/hf2", "qwen35/hybrid2", 25, "--a-map", "megatron-qwen35", "--a-map", NUMBERED,
                   "--a-map-var", "padded_vocab=64", "--exclude", "embedding.*", "--exclude", "output_layer.*",
                   "--exclude", "*.out_norm.weight")

    def test_ranks_are_put_together_as_torch_dist_has_them(self) -> None:
        self.equal("llama-ranks-tp2/ranks", "llama-ranks-tp2/expected", 15)
        self.equal("llama-ranks-pp2/ranks", "llama-ranks-tp2/expected", 15)
        self.equal("nemotron-h/ranks", "nemotron-h/torch_dist", 43)

    def test_a_view_starts_a_hybrid_model(self) -> None:
        with scratch() as root:
            for case, source, target, count, options in (
                    ("llama-optimizer", "gpt", "hybrid", 15, ("--map", STACKED)),
                    ("deepseek-v3", "gpt", "hybrid", 44, ("--map", NUMBERED)),
                    ("nemotron-h", "hf", "torch_dist", 41, ("--map", "megatron-nemotron-h", "--map-var",
                                                            "padded_vocab=64"))):
                out = root / case
                result = run("export", GOLDEN / case / source, out, "--views", "megatron", *options)
                self.assertEqual(result.code, 0, result.stderr)
                exclude = ("--exclude", "optimizer.*")
                if source == "hf":
                    exclude += ("--exclude", "embedding.*", "--exclude", "output_layer.*")
                self.equal(str(out / "megatron"), f"{case}/{target}", count, *exclude)
                # Without its pattern, Megatron-LM takes it for a GPTModel's.
                state = (out / "megatron/release/common.pt").read_bytes()
                self.assertIn(b"hybrid_layer_pattern", state)
                self.assertIn(b"output_layer._extra_state", (out / "megatron/release/.metadata").read_bytes())

    def test_the_pattern_is_named(self) -> None:
        for source, pattern in (("nemotron-h/ranks", "M-M*"), ("nemotron-h/torch_dist", "M-M*"),
                                ("deepseek-v3/hybrid", "+-+E+E")):
            result = run("inspect", GOLDEN / source)
            self.assertIn(f"'{pattern}'", result.stdout)

    def test_a_pattern_that_the_names_contradict_is_refused(self) -> None:
        for pattern, layers, words in (
                ("M-MM", 4, "has 'M' for layer 3, whose tensors are those of '*'"),
                ("M-M*-", 5, "has 5 layers, but the names of the tensors have 4"),
                ("M-M*", 2, "has 4 layers, but the arguments state num_layers 2"),
                ("M-M[*]", 4, "groups of layers are not supported")):
            with self.subTest(pattern), scratch() as root:
                shutil.copytree(GOLDEN / "nemotron-h/torch_dist", root / "run")
                args = {"hybrid_layer_pattern": pattern, "num_layers": layers}
                write_archive(root / "run/iter_0000007/common.pt",
                              {"args": Call(Global("argparse", "Namespace"), (), args, new=True), "iteration": 7})
                result = run("export", root / "run", root / "out")
                self.assertNotEqual(result.code, 0, result.stdout)
                self.assertIn(words, result.stderr)

    def test_what_has_no_counterpart_is_refused(self) -> None:
        def refusal(source: str, *options: str) -> str:
            with scratch() as root:
                result = run("export", GOLDEN / source, root / "out", *options)
                self.assertEqual(result.code, 2, result.stdout)
                return result.stderr

        self.assertIn("decoder.layers.0.mixer.",
                      refusal("nemotron-h/torch_dist", "--map", NUMBERED))
        self.assertIn("asks for 'M' layers", refusal("llama-optimizer/gpt", "--map", STACKED, "--map-var",
                                                     "hybrid_layer_pattern=M*-*-"))
        self.assertIn("pairs with 3 layers, but the names of the tensors have 2",
                      refusal("llama-optimizer/gpt", "--map", STACKED, "--map-var",
                              "hybrid_layer_pattern=*-*-*-"))
        self.assertIn("'*-' for multi-token prediction, of which no name of a tensor is",
                      refusal("llama-optimizer/gpt", "--map", STACKED, "--map-var", "hybrid_layer_pattern=*-*-/*-"))
        self.assertIn("groups of layers", refusal("llama-optimizer/gpt", "--map", STACKED, "--map-var",
                                                  "hybrid_layer_pattern=[*-*-]"))
        self.assertIn("has 4 layers, but the names of the tensors have 6",
                      refusal("deepseek-v3/hybrid", "--map", NUMBERED, "--map-var", "hybrid_layer_pattern=+-+E"))


class RandomModel:
    """A GPTModel, and the pattern of a HybridModel with the same halves in random order."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.stacked = rng.random() < 0.5
        self.layers = rng.randrange(1, 6)
        attention = rng.choice(("*G", "+DG"))
        one = rng.choice(attention) + rng.choice("-E")
        self.kinds = [one if self.stacked else rng.choice(attention) + rng.choice("-E")
                      for _ in range(self.layers)]
        halves = [0] * self.layers + [1] * self.layers
        rng.shuffle(halves)
        following = [iter([kind[half] for kind in self.kinds]) for half in (0, 1)]
        self.pattern = "".join(next(following[half]) for half in halves)
        # The number in the HybridModel of each attention and each MLP.
        self.places = [[p for p, which in enumerate(halves) if which == half] for half in (0, 1)]

    def array(self, shape: tuple[int, ...]) -> tuple[str, np.ndarray]:
        data = self.rng.randbytes(4 * int(np.prod(shape)))
        return "F32", np.frombuffer(data, "<u4").reshape(shape)

    def tensors_of(self, kind: str) -> list[tuple[int, str, tuple[int, ...]]]:
        names = {"*": ["self_attention.linear_qkv.weight", "self_attention.linear_qkv.bias"],
                 "+": ["self_attention.linear_kv_down_proj.weight", "input_layernorm.weight"],
                 "D": ["self_attention.linear_kv_down_proj.weight",
                       "self_attention.core_attention.indexer.k_norm.bias"],
                 "G": ["self_attention.in_proj.weight.query", "self_attention.A_log"],
                 "-": ["mlp.linear_fc1.weight", "mlp.linear_fc1.layer_norm_weight"],
                 "E": ["mlp.router.weight", "mlp.experts.experts.linear_fc1.weight",
                       "pre_mlp_layernorm.weight"]}
        return [(half, name, tuple(1 + (len(name) + d) % 3 for d in range(1 + len(name) % 3)))
                for half in (0, 1) for name in names[kind[half]]]

    def both(self) -> tuple[Tensors, Tensors]:
        """The tensors of the GPTModel and of the HybridModel."""
        gpt: Tensors = {}
        hybrid: Tensors = {}
        for prefix in ("", STATE):
            for name in ("embedding.word_embeddings.weight", "output_layer.weight"):
                gpt[prefix + name] = hybrid[prefix + name] = self.array((2, 3))
            norm = self.array((3,))
            gpt[prefix + "decoder.final_layernorm.weight"] = norm
            hybrid[prefix + "decoder.final_norm.weight"] = norm
            for layer, kind in enumerate(self.kinds):
                for half, name, shape in self.tensors_of(kind):
                    value = self.array(shape)
                    place = self.places[half][layer]
                    hybrid[f"{prefix}decoder.layers.{place}.{name}"] = value
                    gpt[f"{prefix}decoder.layers.{layer}.{name}"] = value
            if self.stacked:
                for half, name, _ in self.tensors_of(self.kinds[0]):
                    of = [gpt.pop(f"{prefix}decoder.layers.{layer}.{name}")[1]
                          for layer in range(self.layers)]
                    gpt[f"{prefix}decoder.layers.{name}"] = ("F32", np.stack(of))
        return gpt, hybrid


class RandomMaps(unittest.TestCase):
    def shown(self, source: Tensors, root: Path, *options: str) -> Tensors:
        write_safetensors(root / "source/model.safetensors", source)
        result = run("export", root / "source", root / "out", "--views", "merged", "--force", *options)
        self.assertEqual(result.code, 0, result.stderr)
        files = sorted((root / "out/merged").rglob("*.safetensors"))
        tensors: Tensors = {}
        for file in files:
            tensors.update(read_safetensors(file)[0])
        return tensors

    def same(self, a: Tensors, b: Tensors) -> None:
        self.assertEqual(sorted(a), sorted(b))
        for name, (kind, array) in a.items():
            self.assertEqual((kind, array.shape, array.tobytes()),
                             (b[name][0], b[name][1].shape, b[name][1].tobytes()), name)

    def test_random_models_go_both_ways(self) -> None:
        seed = random.randrange(1 << 30)
        for number in range(12):
            with self.subTest(seed=seed + number), scratch() as root:
                model = RandomModel(random.Random(seed + number))
                gpt, hybrid = model.both()
                name = STACKED if model.stacked else NUMBERED
                self.same(self.shown(gpt, root, "--map", name, "--map-var",
                                     f"hybrid_layer_pattern={model.pattern}"), hybrid)
                # The names of the other side tell the pattern.
                words = () if "-numbered" in name else ("--map-var", "layers=stacked")
                self.same(self.shown(hybrid, root, "--map", name, *words), gpt)

    def test_without_a_pattern_each_attention_stands_before_its_mlp(self) -> None:
        with scratch() as root:
            model = RandomModel(random.Random(3))
            model.places = [[2 * i + half for i in range(model.layers)] for half in (0, 1)]
            gpt, hybrid = model.both()
            name = STACKED if model.stacked else NUMBERED
            self.same(self.shown(gpt, root, "--map", name), hybrid)

    def test_config_json_may_state_the_pattern(self) -> None:
        with scratch() as root:
            model = RandomModel(random.Random(5))
            gpt, hybrid = model.both()
            (root / "config").mkdir()
            (root / "config/config.json").write_text(json.dumps({"hybrid_override_pattern": model.pattern}))
            name = STACKED if model.stacked else NUMBERED
            self.same(self.shown(gpt, root, "--map", name, "--model-config", str(root / "config")), hybrid)


class RandomRanks:
    """The files of ranks of a HybridModel, whose segments differ and may be empty."""

    HIDDEN = 4
    # By symbol: names in rank files with the dimension that is cut, and the parts of joined rows in torch_dist.
    # Parts are (name, rows in all ranks); the heads of Mamba are 4, those of a gated delta net 4.
    JOINED = {"M": {"mixer.in_proj.weight": ("mixer.in_proj.weight.", ("z", 8), ("x", 8), ("B", 4), ("C", 4),
                                             ("dt", 4)),
                    "mixer.conv1d_weight": ("mixer.conv1d.weight.", ("x", 8), ("B", 4), ("C", 4)),
                    "mixer.conv1d_bias": ("mixer.conv1d.bias.", ("x", 8), ("B", 4), ("C", 4))},
              "G": {"self_attention.in_proj.weight": ("self_attention.in_proj.weight.", ("query", 6), ("key", 6),
                                                      ("value", 8), ("z", 8), ("beta", 4), ("alpha", 4)),
                    "self_attention.conv1d.weight": ("self_attention.conv1d.weight.", ("query", 6), ("key", 6),
                                                     ("value", 8))}}
    ENDS = {"mixer.in_proj.weight": (4,), "mixer.conv1d_weight": (1, 3), "mixer.conv1d_bias": (),
            "self_attention.in_proj.weight": (4,), "self_attention.conv1d.weight": (1, 3)}
    PLAIN = {"M": {"mixer.A_log": ((4,), 0), "mixer.D": ((4,), 0), "mixer.dt_bias": ((4,), 0),
                   "mixer.norm.weight": ((8,), 0), "mixer.out_proj.weight": ((4, 8), 1),
                   "mixer.in_proj.layer_norm_weight": ((4,), None)},
             "G": {"self_attention.A_log": ((4,), 0), "self_attention.dt_bias": ((4,), 0),
                   "self_attention.out_norm.weight": ((2,), None), "self_attention.out_proj.weight": ((4, 8), 1),
                   "self_attention.in_proj.layer_norm_weight": ((4,), None)},
             "*": {"self_attention.linear_qkv.weight": ((8, 4), 0), "self_attention.linear_proj.weight": ((4, 4), 1)},
             "-": {"mlp.linear_fc1.weight": ((6, 4), 0), "mlp.linear_fc2.weight": ((4, 6), 1)}}

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.tensor = int(rng.choice([1, 2]))
        self.pipeline, self.virtual = (int(rng.integers(1, 4)), int(rng.integers(1, 3)))
        count = self.pipeline * self.virtual
        if self.pipeline == 1:
            self.virtual = count = 1
        self.segments = ["".join(rng.choice(list("M*-G"), rng.integers(0, 4))) for _ in range(count)]
        self.segments[0] += "*"
        self.pattern = ""  # that of the segments
        self.groups = 2
        self.whole: Tensors = {}
        self.files: dict[tuple[int, int], dict[str, dict[str, np.ndarray]]] = {}

    def array(self, shape: tuple[int, ...]) -> np.ndarray:
        return self.rng.integers(0, 1 << 32, shape, np.uint32).view("<f4")

    def add(self, chunk: dict[int, dict[str, np.ndarray]], local: str, name: str, shape: tuple[int, ...],
            axis: int | None) -> None:
        array = self.array(shape)
        self.whole[name] = ("F32", array)
        for rank, part in enumerate([array] * self.tensor if axis is None
                                    else np.split(array, self.tensor, axis)):
            chunk[rank][local] = part

    def add_layer(self, chunk: dict[int, dict[str, np.ndarray]], symbol: str, local: str, name: str) -> None:
        for end, (shape, axis) in self.PLAIN[symbol].items():
            self.add(chunk, local + end, name + end, shape, axis)
        for end, (begin, *parts) in self.JOINED.get(symbol, {}).items():
            pieces: dict[int, list[np.ndarray]] = {rank: [] for rank in range(self.tensor)}
            for part, rows in parts:
                array = self.array((rows, *self.ENDS[end]))
                self.whole[name + begin + part] = ("F32", array)
                for rank, piece in enumerate(np.split(array, self.tensor)):
                    pieces[rank].append(piece)
            for rank, all_pieces in pieces.items():
                chunk[rank][local + end] = np.concatenate(all_pieces)

    def write(self, directory: Path) -> None:
        position, count = 0, len(self.segments)
        for number, segment in enumerate(self.segments):
            chunk: dict[int, dict[str, np.ndarray]] = {rank: {} for rank in range(self.tensor)}
            if number == 0:
                self.add(chunk, "embedding.word_embeddings.weight", "embedding.word_embeddings.weight", (8, 4), 0)
            for local, symbol in enumerate(segment):
                self.add_layer(chunk, symbol, f"decoder.layers.{local}.", f"decoder.layers.{position}.")
                position += 1
            if number == count - 1:
                self.add(chunk, "decoder.final_norm.weight", "decoder.final_norm.weight", (4,), None)
                self.add(chunk, "output_layer.weight", "output_layer.weight", (8, 4), 0)
            key = f"model{number // self.pipeline}" if self.virtual > 1 else "model"
            for rank, tensors in chunk.items():
                self.files.setdefault((rank, number % self.pipeline), {})[key] = tensors
        args = {"tensor_model_parallel_size": self.tensor, "pipeline_model_parallel_size": self.pipeline,
                "virtual_pipeline_model_parallel_size": self.virtual if self.virtual > 1 else None,
                "num_layers": position, "hybrid_layer_pattern": self.pattern or "|".join(self.segments),
                "hidden_size": 4, "mamba_num_groups": self.groups, "mamba_num_heads": 4, "linear_num_key_heads": 2,
                "linear_num_value_heads": 4, "untie_embeddings_and_output_weights": True, "swiglu": False}
        for (rank, stage), models in self.files.items():
            name = f"mp_rank_{rank:02}" + (f"_{stage:03}" if self.pipeline > 1 else "")
            content = {"args": Call(Global("argparse", "Namespace"), (), args, new=True), "iteration": 100}
            if self.rng.random() < 0.5:  # without --no-save-rng
                content["rng_state"] = [{"torch_rng_state": stored(np.arange(16, dtype=np.uint8), "U8")}]
            for key, tensors in models.items():
                content[key] = ordered({end: stored(array) for end, array in tensors.items()})
            write_archive(directory / f"iter_0000100/{name}/model_optim_rng.pt", content)
        (directory / "latest_checkpointed_iteration.txt").write_text("100")


class HybridRanks(unittest.TestCase):
    def test_random_segments_are_put_together(self) -> None:
        seed = random.randrange(1 << 30)
        for number in range(12):
            with self.subTest(seed=seed + number), scratch() as root:
                ranks = RandomRanks(np.random.default_rng(seed + number))
                ranks.write(root / "run")
                write_safetensors(root / "expected/model.safetensors", ranks.whole)
                result = run("diff", root / "run", root / "expected")
                self.assertEqual(result.code, 0, f"{ranks.segments}: {result.stdout}{result.stderr}")
                self.assertIn(f"{len(ranks.whole)} equal", result.stdout)

    def test_other_layers_than_the_pattern_states_are_refused(self) -> None:
        for pattern, words in (("*-|M|", "which has 3 segments for 2 parts of the model"),
                               ("*-|-", "has '-' for layer 2, whose tensors are those of 'M'"),
                               ("*|-M", "has layer 1 of pipeline stage 0, which the arguments do not state"),
                               ("*-M|", "has no layer 2 of pipeline stage 0"),
                               ("[*-]|M", "groups of layers are not supported"),
                               ("*-|+", "'*' together with '+'")):
            with self.subTest(pattern), scratch() as root:
                ranks = RandomRanks(np.random.default_rng(1))
                ranks.tensor, ranks.pipeline, ranks.virtual = 1, 2, 1
                ranks.segments, ranks.pattern = ["*-", "M"], pattern
                ranks.write(root / "run")
                result = run("export", root / "run", root / "out")
                self.assertNotEqual(result.code, 0, result.stdout)
                self.assertIn(words, result.stderr)

    def test_ranks_that_share_groups_unevenly_are_refused(self) -> None:
        with scratch() as root:
            ranks = RandomRanks(np.random.default_rng(2))
            ranks.tensor, ranks.pipeline, ranks.virtual, ranks.groups = 2, 1, 1, 3
            ranks.segments = ["M*"]
            ranks.write(root / "run")
            result = run("export", root / "run", root / "out")
            self.assertNotEqual(result.code, 0, result.stdout)
            self.assertIn("mamba_num_groups 3, which 2 ranks cannot share equally", result.stderr)


if __name__ == "__main__":
    run_unittests()
