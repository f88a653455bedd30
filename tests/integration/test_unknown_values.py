# SPDX-License-Identifier: Apache-2.0
"""Numbers that decide where elements lie are stated or proven, or what needs them is refused: the number
of ranks, and the settings of a training that no shape shows. And what says where they come from."""

from __future__ import annotations

import re
from pathlib import Path

# First, because it finds the modules of tests/data.
from map_sets import GOLDEN, MapTest, golden, mcore_of, write_hub

import numpy as np
from format_files import Tensors, read_safetensors, same, write_safetensors
from mounted import run, run_unittests

# Gate and up of each rank, as Megatron's ranks have them.
RANKS = """[sides]
from = "Hugging Face"
to = "Ranks"
[states]
"exp_avg." = "state."
[[map]]
to = "fc1"
from = ["gate", "up"]
shape = "[F, H]"
each = ["reshape [tp, -1, H]"]
ops = ["concat 1", "reshape [2*F, H]"]
to_shape = "[2*F, H]"
"""
RULES = '[devices]\naxes = ["tp={}"]\n[[rule]]\nmatch = "{}"\ncut = ["tp"]\n'
QWEN3 = ("--map", "mindformers-qwen3")
PLAIN = {"use_interleaved_weight_layout_mlp": False, "use_contiguous_weight_layout_attention": False}


def halves() -> Tensors:
    return {"gate": ("F32", np.arange(24, dtype="<f4").reshape(8, 3)),
            "up": ("F32", 100 + np.arange(24, dtype="<f4").reshape(8, 3))}


def fused(tp: int) -> Tensors:
    parts = [np.split(array, tp) for _, array in halves().values()]
    return {"fc1": ("F32", np.concatenate([part for rank in zip(*parts, strict=True)
                                           for part in rank]))}


class NumberOfRanks(MapTest):
    def setUp(self) -> None:
        super().setUp()
        self.map = ("--map", self.text_file("ranks.toml", RANKS))

    def whole(self, name: str, tensors: Tensors) -> Path:
        write_safetensors(self.root / name, tensors)
        return self.root / name

    def cut(self, name: str, tensors: Tensors, tp: int) -> Path:
        for rank in range(tp):
            slices = {key: (kind, np.ascontiguousarray(np.split(array, tp)[rank]))
                      for key, (kind, array) in tensors.items()}
            write_safetensors(self.root / name / f"rank_{rank}/checkpoint_{rank}.safetensors", slices)
        return self.root / name

    def refused(self, source: Path, *words: str | Path, names: str = "fc1") -> None:
        for command in ("export", "plan", "inspect"):
            out = [self.root / "refused"] if command == "export" else []
            self.fails(2, command, source, *out, *self.map, *words,
                       words=(names, "unknown variable 'tp'", "--map-var tp=N"))
        self.assertFalse((self.root / "refused").exists())

    def test_a_merged_file_does_not_tell(self) -> None:
        source = self.whole("merged.safetensors", fused(2))
        self.refused(source)
        for tp in (1, 2, 4):
            other = self.whole(f"merged{tp}.safetensors", fused(tp))
            same(self, self.exported(f"out{tp}", other, *self.map, "--map-var", f"tp={tp}"), halves())

    def test_joined_slices_do_not_tell(self) -> None:
        source = self.cut("joined", fused(2), 2)
        self.fails(2, "export", source, self.root / "no", *self.map, "--src-join", "*",
                   words=("fc1", "unknown variable 'tp'", "--map-var tp=N"))
        same(self, self.exported("out", source, *self.map, "--src-join", "*", "--map-var", "tp=2"),
             halves())

    def test_the_sources_strategy_tells(self) -> None:
        source = self.cut("ranks", fused(4), 4)
        rules = self.text_file("src.rules.toml", RULES.format(4, "fc1"))
        same(self, self.exported("out", source, *self.map, "--src-strategy", rules), halves())

    def test_states_without_weights(self) -> None:
        """The strategy has the states' names, and the weights are nowhere."""
        states = {f"state.{name}": tensor for name, tensor in fused(2).items()}
        source = self.cut("states", states, 2)
        rules = self.text_file("src.rules.toml", RULES.format(2, "state.fc1"))
        got = self.exported("out", source, *self.map, "--map-direction", "inverse", "--src-strategy",
                            rules)
        same(self, got, {f"exp_avg.{name}": tensor for name, tensor in halves().items()})

    def test_target_strategies_tell(self) -> None:
        source = self.whole("hub.safetensors", halves() | {
            f"exp_avg.{name}": tensor for name, tensor in halves().items()})
        for tp in (2, 4):
            rules = self.text_file("dst.rules.toml", RULES.format(tp, "*fc1"))
            out = self.export(f"out{tp}", source, *self.map, "--dst-strategy", rules)
            for prefix in ("", "state."):
                parts = [read_safetensors(out / f"rank_{rank}/checkpoint_{rank}.safetensors")[0]
                         [f"{prefix}fc1"][1] for rank in range(tp)]
                np.testing.assert_array_equal(np.concatenate(parts), fused(tp)["fc1"][1])

    def test_a_target_of_one_rank_has_one_part(self) -> None:
        source = self.whole("hub.safetensors", halves())
        result = run("export", source, self.root / "out", "--views", "ranks", *self.map, "-v")
        self.assertEqual(result.code, 0, result.stderr)
        self.assertIn("tp is 1: the target is one rank's", result.stderr)
        same(self, read_safetensors(self.root / "out/rank_0/checkpoint_0.safetensors")[0], fused(1))

    def test_tensors_between_maps_have_no_strategy(self) -> None:
        back = self.text_file("back.toml", RANKS)
        source = self.whole("hub.safetensors", halves())
        self.fails(2, "export", source, self.root / "out", *self.map, "--map", back,
                   words=("fc1", "unknown variable 'tp'", "between two maps", "--map-var tp=N"))
        got = self.exported("both", source, *self.map, "--map", back, "--map-var", "tp=2")
        same(self, got, halves())

    def test_the_installed_map(self) -> None:
        case = GOLDEN / "megatron_ranks_tp2_back"
        words = (case / "src.safetensors", self.root / "out", "--map", "megatron-ranks-llama",
                 "--model-config", case)
        self.fails(2, "export", *words, words=(".weight: unknown variable 'tp'", "--map-var tp=N"))
        got = self.exported("out", *words[:1], *words[2:], "--map-var", "tp=2")
        same(self, got, golden(case.name, "expected"))

    def test_padding_of_the_vocabulary(self) -> None:
        """It is seen on the way back; on the way there it is a setting."""
        case, there = GOLDEN / "megatron_llama_back", GOLDEN / "megatron_llama"
        words = ("--map", "megatron-llama", "--model-config", case)
        same(self, self.exported("back", case / "src.safetensors", *words),
             golden(case.name, "expected"))
        self.fails(2, "plan", there / "src.safetensors", *words,
                   words=("word_embeddings", "unknown variable 'vocab_multiple'",
                          "--map-var vocab_multiple=N", "make_vocab_size_divisible_by"))
        same(self, self.exported("there", there / "src.safetensors", *words, "--map-var",
                                 "vocab_multiple=128"), golden(there.name, "expected"))


class SettingsOfTheTraining(MapTest):
    """The hub's model for MindFormers: shapes are the same whatever the training does."""

    def setUp(self) -> None:
        super().setUp()
        self.source = self.hub_directory()
        self.plain = mcore_of(self.hub, self.config, interleaved=False)

    def yaml(self, path: Path, **settings: object) -> Path:
        lines = "".join(f"    {key}: {value}\n" for key, value in settings.items())
        path.write_text(f"run_mode: train\nmodel:\n  model_config:\n    hidden_size: 16\n{lines}")
        return path

    def shown(self, *words: str | Path) -> Tensors:
        self.count = getattr(self, "count", 0) + 1
        return self.exported(f"out{self.count}", self.source, *QWEN3, *words)

    def test_nothing_states_them(self) -> None:
        readings = ("unknown variable 'contiguous'", "0 means query, key and value of each group in turn",
                    "1 means all queries, then all keys, then all values", "self_attn",
                    "--map-var contiguous=0 or contiguous=1", "--training-config",
                    "use_contiguous_weight_layout_attention", "release=N with the release of MindFormers that trains")
        commands: list[tuple[str | Path, ...]] = [
            ("mount", self.source, self.root / "mnt"), ("export", self.source, self.root / "out"),
            ("plan", self.source), ("inspect", self.source), ("hash", self.source)]
        (self.root / "mnt").mkdir()
        for command in commands:
            with self.subTest(command[0]):
                self.fails(2, *command, *QWEN3, words=readings)
        result = run("verify", self.source, *QWEN3)
        self.assertEqual(result.code, 1)
        for word in readings:
            self.assertIn(word, result.stdout)
        result = run("map", "check", QWEN3[1], "--source", self.source)
        self.assertEqual(result.code, 1)
        for word in (*readings, "unknown variable 'interleaved'", "0 means gate above up"):
            self.assertIn(word, result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 2, result.stderr)

    def test_only_what_is_needed_is_asked_for(self) -> None:
        """Without a fused MLP, how it would be fused does not matter."""
        tensors = {name: tensor for name, tensor in self.hub.items()
                   if not re.search(r"mlp\.(gate|up)_proj", name)}
        (self.root / "attention").mkdir()
        source = write_hub(self.root / "attention", tensors, self.config)
        got = self.exported("attention-out", source, *QWEN3, "--map-var", "contiguous=0")
        same(self, got, {name: tensor for name, tensor in self.mcore.items()
                         if "linear_fc1" not in name})

    def test_options_state_them(self) -> None:
        same(self, self.shown("--map-var", "interleaved=1", "--map-var", "contiguous=0"), self.mcore)
        same(self, self.shown("--map-var", "interleaved=0", "--map-var", "contiguous=0"), self.plain)

    def test_releases_state_them(self) -> None:
        for release in ("1.7", "1.7.0", "1.10", "2.0.1"):
            same(self, self.shown("--map-var", f"release={release}"), self.mcore)
        old = self.shown("--map-var", "release=1.6")
        qkv = "decoder.layers.0.self_attention.linear_qkv.weight"
        parts = [self.hub[f"model.layers.0.self_attn.{part}_proj.weight"][1] for part in "qkv"]
        np.testing.assert_array_equal(old[qkv][1], np.concatenate(parts))
        fc1 = "decoder.layers.0.mlp.linear_fc1.weight"
        np.testing.assert_array_equal(old[fc1][1], self.plain[fc1][1])
        for wrong in ("release=new", "release=", "release=1.x"):
            self.fails(2, "plan", self.source, *QWEN3, "--map-var", wrong, words=("release=1.7.0",))
        self.fails(2, "plan", self.source, "--map", "mindformers-llama", "--map-var", "release=1.6",
                   words=("--map-var",))

    def test_the_trainings_file_states_them(self) -> None:
        file = self.yaml(self.root / "run.yaml", **PLAIN)
        same(self, self.shown("--training-config", file), self.plain)
        # What it leaves out is the release's default; what an option states comes first.
        self.yaml(file, use_interleaved_weight_layout_mlp=False)
        self.fails(2, "plan", self.source, *QWEN3, "--training-config", file,
                   words=("unknown variable 'contiguous'",))
        same(self, self.shown("--training-config", file, "--map-var", "release=1.7"), self.plain)
        same(self, self.shown("--training-config", file, "--map-var", "release=1.7", "--map-var",
                              "interleaved=1"), self.mcore)

    def test_the_file_is_found_beside_the_checkpoint(self) -> None:
        file = self.yaml(self.source / "finetune.yaml", **PLAIN)
        same(self, self.shown(), self.plain)
        result = run("plan", self.source, *QWEN3, "-v")
        self.assertIn(f"interleaved is 0: {file}:5: use_interleaved_weight_layout_mlp", result.stderr)
        # Files of something else do not count; two of trainings must agree.
        (self.source / "other.yml").write_text("a: [1\n")
        (self.source / "more.yaml").write_text("model: {hidden_size: 1}\n")
        same(self, self.shown(), self.plain)
        self.yaml(self.source / "second.yaml", use_interleaved_weight_layout_mlp=True)
        self.fails(2, "plan", self.source, *QWEN3,
                   words=("unknown variable 'interleaved'", "finetune.yaml:5", "second.yaml:5"))
        same(self, self.shown("--training-config", self.source / "second.yaml", "--map-var",
                              "release=1.7"), self.mcore)

    def test_the_way_back(self) -> None:
        source, *words = self.mcore_ranks()
        words += [*QWEN3, "--model-config", self.source]
        self.fails(2, "export", source, self.root / "no", *words, words=("unknown variable",
                                                                        "linear_qkv.weight"))
        file = self.yaml(self.root / "run.yaml", use_interleaved_weight_layout_mlp=True,
                         use_contiguous_weight_layout_attention=False)
        same(self, self.exported("back", source, *words, "--training-config", file), self.hub)

    def test_contradictions_are_named(self) -> None:
        file = self.yaml(self.root / "run.yaml", **PLAIN)
        config = self.config_file(use_interleaved_weight_layout_mlp=True)
        self.fails(2, "plan", self.source, *QWEN3, "--training-config", file, "--model-config", config,
                   words=("interleaved", f"{file}:5", "is 0", str(config), "is 1"))
        self.yaml(file, use_interleaved_weight_layout_mlp="'False'")
        self.fails(2, "plan", self.source, *QWEN3, "--training-config", file, "--map-var", "contiguous=0",
                   words=(f"{file}:5", "'False'", "expected True, False or a number"))

    def test_files_that_are_none(self) -> None:
        for text, word in (("a: [1\n", "line"), ("a: " + "[" * 100_000, "nested more than 64"),
                           ("#" * (1 << 20) + "\n", "at most 1048576")):
            file = self.text_file("bad.yaml", text)
            self.fails(2, "plan", self.source, *QWEN3, "--training-config", file,
                       words=(str(file), word))
        self.fails(2, "plan", self.source, *QWEN3, "--training-config", self.root / "gone.yaml",
                   words=("gone.yaml",))
        self.fails(2, "plan", self.source, "--map", "mindformers-llama", "--training-config",
                   self.text_file("other.yaml", "epochs: 2\n"), words=("no map asks", "no numbers of the model"))

    def test_both_sides_of_a_diff(self) -> None:
        file = self.yaml(self.root / "run.yaml", **PLAIN)
        write_safetensors(self.root / "plain.safetensors", self.plain)
        result = run("diff", self.source, self.root / "plain.safetensors", "--a-map", QWEN3[1],
                     "--a-training-config", file)
        self.assertEqual(result.code, 0, result.stdout + result.stderr)
        self.fails(2, "diff", self.root / "plain.safetensors", self.source, "--b-map", QWEN3[1],
                   words=("unknown variable", "--b-training-config"))

    def test_names_prove_a_setting(self) -> None:
        """A MindFormers checkpoint has other names without grouped experts; the hub's has not."""
        there, back = GOLDEN / "deepseek_legacy", GOLDEN / "deepseek_legacy_back"
        words = ("--map", "mindformers-deepseek-legacy", "--model-config", there)
        same(self, self.exported("back", back / "src.safetensors", *words),
             golden(back.name, "expected"))
        self.fails(2, "plan", there / "src.safetensors", *words,
                   words=("unknown variable 'grouped'", "experts for grouped GEMM"))
        same(self, self.exported("there", there / "src.safetensors", *words, "--map-var", "grouped=1"),
             golden(there.name, "expected"))

    def test_shapes_prove_what_a_config_states_otherwise(self) -> None:
        """Without config.json: heads from o_proj and q_proj, groups from k_proj, by head_dim."""
        source = self.root / "bare.safetensors"
        write_safetensors(source, self.hub)
        words = (*QWEN3, "--map-var", "release=1.7", "--map-var", "head_dim=8")
        got = self.exported("bare", source, *words)
        same(self, got, self.mcore)
        whole = self.root / "mcore.safetensors"
        write_safetensors(whole, self.mcore)
        same(self, self.exported("back", whole, *words), self.hub)
        self.fails(2, "plan", source, *words[:4], words=("unknown variable 'heads'", "--model-config"))
        # A config.json that lacks the numbers is another model's.
        empty = self.text_file("empty.json", "{}")
        self.fails(2, "plan", source, *words, "--model-config", empty, words=("unknown variable",))


class Origins(MapTest):
    def setUp(self) -> None:
        super().setUp()
        self.source = self.hub_directory()
        self.file = self.text_file("run.yaml", "".join(f"{key}: {value}\n" for key, value in PLAIN.items()))
        self.words = (*QWEN3, "--training-config", self.file)

    def why(self, name: str, *words: str | Path) -> str:
        result = run("inspect", *words, "--why", name)
        self.assertEqual((result.code, result.stderr), (0, ""))
        return result.stdout

    def test_of_a_fused_tensor(self) -> None:
        text = self.why("decoder.layers.1.mlp.linear_fc1.weight", self.source, *self.words)
        for pattern in (r"decoder\.layers\.1\.mlp\.linear_fc1\.weight  Float32 \[48, 16\]",
                        r"rule of mindformers-mcore\.toml:\d+, of 'model\.layers\.1\.mlp\.gate_proj",
                        r"(?m)^F +24  the shape of 'model\.layers\.1\.mlp\.gate_proj\.weight'$",
                        rf"(?m)^interleaved +0  {re.escape(str(self.file))}:1: use_interleaved",
                        r"(?m)^layer +1  the tensor's name$"):
            self.assertRegex(text, pattern)
        self.assert_bytes(text, "decoder.layers.1.mlp.linear_fc1.weight")

    def test_of_all_that_a_pattern_matches(self) -> None:
        names = ("decoder.layers.0.mlp.linear_fc1.weight", "decoder.layers.1.mlp.linear_fc1.weight")
        each = [self.why(name, self.source, *self.words) for name in names]
        self.assertEqual(self.why("*.mlp.linear_fc1.*", self.source, *self.words), "\n".join(each))
        self.fails(2, "inspect", self.source, *self.words, "--why", "*.linear_fc9.*",
                   words=("no parameter matches this pattern",))

    def assert_bytes(self, text: str, name: str) -> None:
        """The ranges that are printed hold the tensor."""
        data = b""
        for path, offset, length in re.findall(r"(?m)^(/\S+) +offset (\d+), (\d+) bytes$", text):
            data += Path(path).read_bytes()[int(offset):int(offset) + int(length)]
        plain = mcore_of(self.hub, self.config, interleaved=False)
        self.assertEqual(data, plain[name][1].tobytes())

    def test_of_numbers_of_the_config(self) -> None:
        text = self.why("decoder.layers.0.self_attention.linear_qkv.weight", self.source, *self.words)
        config = re.escape(str(self.source / "config.json"))
        self.assertRegex(text, rf"(?m)^heads +4  {config}: num_attention_heads$")
        self.assertRegex(text, rf"(?m)^groups +2  {config}: num_key_value_heads$")
        self.assertRegex(text, r"(?m)^contiguous +0 ")

    def test_without_a_map(self) -> None:
        source, *words = self.mcore_ranks()
        name = "decoder.layers.0.mlp.linear_fc1.weight"
        text = self.why(name, source, *words)
        self.assertIn(f"{name}: device matrix [1, 2], tensor map [", text)
        self.assertIn("(the source strategy)", text)
        ranges = re.findall(r"(?m)^(/\S+) +offset (\d+), (\d+) bytes$", text)
        data = b"".join(Path(path).read_bytes()[int(offset):int(offset) + int(length)]
                        for path, offset, length in ranges)
        self.assertEqual(data, self.mcore[name][1].tobytes())
        self.assertEqual(len(ranges), 2)

    def test_of_what_is_not_there(self) -> None:
        self.fails(2, "inspect", self.source, *self.words, "--why", "decoder.layers.0.mlp.linear_fc1.weigh",
                   words=("did you mean", "linear_fc1.weight"))

    def test_map_show_has_them(self) -> None:
        result = run("map", "show", QWEN3[1], "--source", self.source, "--training-config", self.file,
                     "--param", "decoder.layers.1.mlp.linear_fc1.weight")
        self.assertEqual(result.code, 0, result.stderr)
        line = result.stdout.splitlines()[2]
        self.assertIn(f"interleaved = 0 ({self.file}:1: use_interleaved_weight_layout_mlp)", line)
        self.assertRegex(line, r"bytes: /\S+ offset \d+, 1536 bytes, /\S+ offset \d+, 1536 bytes$")


if __name__ == "__main__":
    run_unittests()
