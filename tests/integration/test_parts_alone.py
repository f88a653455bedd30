# SPDX-License-Identifier: Apache-2.0
"""A part does not pass for the whole: slices without a strategy, one rank's directory or file, ranks that are
not all there."""

from __future__ import annotations

import re
import shutil
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

import deepspeed_sets as zero  # noqa: E402
import megatron_ranks as megatron  # noqa: E402
import numpy as np  # noqa: E402
from all_commands import COMMANDS, ask, refusals, silent  # noqa: E402
from format_files import Tensors, read_safetensors, same, write_ckpt, write_safetensors  # noqa: E402
from meta_sets import whole_model, write_release  # noqa: E402
from mounted import run, run_unittests, scratch  # noqa: E402
from torch_archive import ordered, stored, write_archive  # noqa: E402

HIDDEN, FFN, ROWS = 16, 24, 32
CONFIG = """{"model_type": "llama", "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": %d,
"num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 4, "vocab_size": 32, "tie_word_embeddings": %s}"""
LAYER = {"attention.wq": (HIDDEN, HIDDEN), "attention.wk": (HIDDEN, HIDDEN), "attention.wv": (HIDDEN, HIDDEN),
         "attention.wo": (HIDDEN, HIDDEN), "feed_forward.w1": (FFN, HIDDEN), "feed_forward.w2": (HIDDEN, FFN),
         "feed_forward.w3": (FFN, HIDDEN), "attention_norm": (HIDDEN,), "ffn_norm": (HIDDEN,)}
RULES = """[devices]
axes = ["tp=%d"]
[[rule]]
match = ["*wq*", "*wk*", "*wv*", "*w1*", "*w3*", "*lm_head*", "*embedding_weight*"]
cut = ["tp", ""]
[[rule]]
match = ["*wo*", "*w2*"]
cut = ["", "tp"]
[[rule]]
match = ["*norm*"]
"""
SLICES = "hold slices, and no strategy"


def llama(layers: int = 2) -> Tensors:
    """By the names of MindSpore Transformers; all values differ."""
    shapes: dict[str, tuple[int, ...]] = {"model.tok_embeddings.embedding_weight": (ROWS, HIDDEN)}
    for layer in range(layers):
        shapes |= {f"model.layers.{layer}.{name}.weight": shape for name, shape in LAYER.items()}
    shapes |= {"model.norm_out.weight": (HIDDEN,), "lm_head.weight": (ROWS, HIDDEN)}
    rng = np.random.default_rng(5)
    return {name: ("F32", rng.standard_normal(shape).astype("<f4")) for name, shape in shapes.items()}


def cut(tensors: Tensors, rank: int, ranks: int) -> Tensors:
    out: Tensors = {}
    for name, (kind, array) in tensors.items():
        axis = None if "norm" in name else 1 if re.search(r"\.(wo|w2)\.", name) else 0
        out[name] = (kind, array if axis is None else np.split(array, ranks, axis)[rank])
    return out


class PartsTest(unittest.TestCase):
    def setUp(self) -> None:
        self.root = self.enterContext(scratch())
        self.source = self.root / "set"
        self.rules = self.root / "rules.toml"

    def write_rules(self, ranks: int) -> tuple[str, Path]:
        self.rules.write_text(RULES % ranks)
        return "--src-strategy", self.rules

    def config(self, layers: int = 2, tied: str = "false") -> Path:
        place = self.root / "config"
        place.mkdir(exist_ok=True)
        (place / "config.json").write_text(CONFIG % (layers, tied))
        return place

    def assert_named(self, words: str, *options: str | Path, source: Path | None = None,
                     commands: tuple[str, ...] = COMMANDS) -> None:
        self.assertEqual(silent(source or self.source, self.root, words, *options, commands=commands), {})

    def assert_shows(self, want: Tensors, *options: str | Path, source: Path | None = None) -> None:
        result = ask("export", source or self.source, self.root, *options)
        self.assertEqual((result.code, "warning" in result.stderr), (0, False), result.stderr)
        same(self, read_safetensors(self.root / "asked.safetensors")[0], want)


class SlicesUnderMaps(PartsTest):
    """A map does not make a model of one rank's slices."""

    def setUp(self) -> None:
        super().setUp()
        for rank in range(2):
            write_ckpt(self.source / f"rank_{rank}/net-1_10.ckpt", cut(llama(), rank, 2))
        self.model = ("--map", "mindformers-llama", "--model-config", self.config())

    def test_no_map_is_a_strategy(self) -> None:
        for maps in (self.model, ("--map", "auto", *self.model[2:])):
            with self.subTest(maps[1]):
                self.assert_named(SLICES, *maps, commands=("inspect", "plan", "export", "diff", "hash", "cat", "mount"))
        self.assertIn("the ranks hold slices, and no strategy says how they were cut", run("verify", self.source).stderr)
        checked = run("map", "check", self.model[1], "--source", self.source, *self.model[2:])
        self.assertEqual((checked.code, SLICES in checked.stderr), (2, True), checked.stderr)

    def test_no_option_is_a_strategy(self) -> None:
        for more in (("--src-strategy", "none"), ("--weights-only",), ("--replicas", "same"),
                     ("--dst-strategy", "tp=2"), ("--include", "*layers.0*")):
            with self.subTest(more):
                self.assert_named(SLICES, *self.model, *more, commands=("plan", "mount"))

    def test_the_lowest_rank_is_taken_if_the_user_says_so(self) -> None:
        self.assert_named("because of --replicas first", *self.model, "--replicas", "first", "--partial",
                          commands=("export",))

    def test_with_the_strategy_all_is_shown(self) -> None:
        result = ask("export", self.source, self.root, *self.model, *self.write_rules(2))
        self.assertEqual((result.code, "warning" in result.stderr), (0, False), result.stderr)
        got = read_safetensors(self.root / "asked.safetensors")[0]["model.embed_tokens.weight"][1]
        self.assertEqual(got.tobytes(), llama()["model.tok_embeddings.embedding_weight"][1].tobytes())

    def test_copies_need_none(self) -> None:
        for rank in range(2):
            write_ckpt(self.source / f"rank_{rank}/net-1_10.ckpt", llama())
        self.assertEqual(refusals(self.source, self.root, *self.model, commands=("inspect", "plan", "export")), {})

    def test_one_tensor_that_differs_is_named(self) -> None:
        other = llama()
        other["lm_head.weight"] = ("F32", other["lm_head.weight"][1] + 1)
        write_ckpt(self.source / "rank_0/net-1_10.ckpt", llama())
        write_ckpt(self.source / "rank_1/net-1_10.ckpt", other)
        self.assert_named("lm_head.weight.*differs between rank 0 and rank 1", *self.model, commands=("plan", "export"))
        options = (*self.model, "--exclude", "lm_head.weight")
        self.assertEqual(refusals(self.source, self.root, *options, commands=("export",)), {})

    def test_slices_of_vllm(self) -> None:
        shutil.rmtree(self.source)
        rng = np.random.default_rng(2)
        for rank in range(2):
            write_safetensors(self.source / f"model-rank-{rank}-part-0.safetensors", {
                f"model.layers.{layer}.{name}.weight": ("F32", rng.standard_normal(shape).astype("<f4"))
                for layer in range(2)
                for name, shape in (("self_attn.qkv_proj", (24, 16)), ("mlp.gate_up_proj", (24, 16)))})
        self.assert_named("no strategy says.*--src-strategy", "--map", "vllm-llama", commands=("plan", "export"))


class OneRank(PartsTest):
    def test_a_directory_of_one_rank(self) -> None:
        model = llama()
        for rank in range(4):
            write_ckpt(self.source / f"rank_{rank}/llama_rank_{rank}-3_100.ckpt", cut(model, rank, 4))
        for rank in (0, 3):
            with self.subTest(rank):
                self.assert_refused(f"is of rank {rank} alone, and .*set has ranks 0-3", self.source / f"rank_{rank}")
                alone = self.source / f"rank_{rank}/llama_rank_{rank}-3_100.ckpt"
                self.assert_named("is one rank's file, and is read alone", source=alone)
        self.assert_shows(model, *self.write_rules(4))
        shutil.move(self.source / "rank_3", self.root / "rank_3")
        self.assert_named("'rank_3' is one rank's directory", source=self.root / "rank_3")

    def assert_refused(self, words: str, source: Path) -> None:
        """By all commands and by Python; inspect describes it."""
        for command in COMMANDS:
            result = ask(command, source, self.root)
            code = 0 if command == "inspect" and result.stdout else 2
            said = result.stderr + result.stdout
            self.assertEqual((command, result.code), (command, code), said)
            if code == 2:
                self.assertRegex(said, words)

    def test_a_directory_of_one_rank_in_any_format(self) -> None:
        """Also where it looks like a whole model: one file of safetensors, or of torch.save."""
        model = llama()
        for form, name in (("safetensors", "rank_%d/model.safetensors"), ("pt", "rank_%d/checkpoint.pt"),
                           ("safetensors", "node%d/m.safetensors"), ("safetensors", "ckpt_%d/m.safetensors"),
                           ("safetensors", "mp_rank_%02d/m.safetensors"), ("pt", "rank%d/model.pt")):
            with self.subTest(name):
                shutil.rmtree(self.source, ignore_errors=True)
                for rank in range(4):
                    path = self.source / (name % rank)
                    path.parent.mkdir(parents=True)
                    part = cut(model, rank, 4)
                    if form == "pt":
                        write_archive(path, ordered({key: stored(array) for key, (_, array) in part.items()}))
                    else:
                        write_safetensors(path, part)
                self.assert_refused("is of rank 3 alone, and .*set has ranks 0-3", (self.source / (name % 3)).parent)
                self.assert_named("is one rank's file, and is read alone", source=self.source / (name % 3))

    def test_directories_of_ranks_with_two_numbers(self) -> None:
        for rank in range(2):
            write_safetensors(self.source / f"pp0_tp{rank}/m.safetensors", cut(llama(), rank, 2))
        self.assert_refused("belongs to one rank alone, and .* has the directories 'pp0_tp0', 'pp0_tp1'",
                            self.source / "pp0_tp1")

    def test_names_of_sizes_are_none_of_ranks(self) -> None:
        for name in ("tp4", "tp8", "pp2_tp4", "pp2_tp8", "rank_16", "rank_32"):
            write_safetensors(self.source / name / "m.safetensors", llama())
        for name in ("tp8", "pp2_tp4"):
            self.assertEqual(refusals(self.source / name, self.root), {})
        self.assert_named("'rank_16' is one rank's directory", source=self.source / "rank_16")

    def test_ranks_in_names_of_files(self) -> None:
        self.source.mkdir()
        for name in ("model_rank3", "tp_rank_3_pp_rank_0", "rank_3"):
            with self.subTest(name):
                write_safetensors(self.source / f"{name}.safetensors", cut(llama(), 3, 4))
                self.assert_named("is one rank's file, and is read alone", source=self.source / f"{name}.safetensors")
        (self.source / "rank_3.safetensors").unlink()
        (self.source / "tp_rank_3_pp_rank_0.safetensors").unlink()
        self.assert_named("'model_rank3.safetensors' is one rank's file: its tensors may be slices")

    def test_a_rank_of_vllm_alone(self) -> None:
        self.source.mkdir()
        write_safetensors(self.source / "model-rank-0-part-0.safetensors", llama())
        words = "unknown whether 'model-rank-0-part-0.safetensors' is of the only rank, or its tensors are slices"
        for command in ("inspect", "plan", "export", "verify"):
            with self.subTest(command):
                answer = ask(command, self.source, self.root)
                self.assertEqual((answer.code, "warning" in answer.stderr), (0, False), answer)
                self.assertIn(words, answer.stdout)

    def test_one_parameter_of_a_universal_checkpoint(self) -> None:
        file = self.source / "global_step10_universal/zero/bias/fp32.pt"
        file.parent.mkdir(parents=True)
        write_archive(file, ordered({"param": stored(llama()["model.norm_out.weight"][1])}))
        self.assert_named("of parameter 'bias' alone in a universal checkpoint of DeepSpeed", source=file)

    def test_a_file_of_one_rank(self) -> None:
        flat = self.root / "flat"
        for name in ("rank_1/net-3_100.ckpt", "rank_0/net-3_100.ckpt", "llama_rank_3-3_100.ckpt"):
            write_ckpt(flat / name, llama())
        for name in ("rank_0/net-3_100.ckpt", "rank_1/net-3_100.ckpt", "llama_rank_3-3_100.ckpt"):
            with self.subTest(name):
                self.assert_named("is one rank's file, and is read alone", source=flat / name)

    def test_a_rank_of_which_lower_ones_are_missing(self) -> None:
        write_ckpt(self.source / "rank_3/net-3_100.ckpt", llama())
        self.assert_named("rank 0 to 2 have no file, but rank 3 has one|ranks? 0-2 ha(s|ve) no file")

    def test_the_rank_of_an_adapter_is_no_rank(self) -> None:
        self.source.mkdir()
        write_safetensors(self.source / "lora_rank_16.safetensors", llama())
        self.assertEqual(refusals(self.source / "lora_rank_16.safetensors", self.root), {})

    def test_a_rank_of_hyper_parallel_without_the_table(self) -> None:
        self.source.mkdir()
        write_safetensors(self.source / "_rank0_.safetensors", llama())
        self.assert_named("no .metadata, which hyper-parallel writes last")
        self.assertEqual(ask("export", self.source, self.root).code, 2)
        self.assert_named("is one rank's file of hyper-parallel", source=self.source / "_rank0_.safetensors")

    def test_a_pattern_that_misses_a_rank(self) -> None:
        model = llama()
        for rank in range(2):
            tensors = {name: stored(array) for name, (_, array) in cut(model, rank, 2).items()}
            (self.source / f"rank_{rank}").mkdir(parents=True)
            write_archive(self.source / f"rank_{rank}/checkpoint_{rank}.pt", ordered(tensors))
        result = ask("export", self.source, self.root)
        pattern = re.search(r"--src-pattern '([^']+)'", result.stderr)
        assert pattern is not None, result.stderr
        self.assertEqual(pattern[1], "rank_{rank}/checkpoint_{rank}.pt")
        self.assert_shows(model, "--src-pattern", pattern[1], *self.write_rules(2))
        self.assert_named("rank 1 has no file that matches|rank 1", "--src-pattern", "rank_{rank}/checkpoint_0.pt")
        self.assertEqual(ask("export", self.source, self.root, "--src-pattern", "rank_{rank}/checkpoint_0.pt").code, 2)

    def test_a_file_of_megatron(self) -> None:
        spec = megatron.filled(megatron.Spec(2), 1)
        megatron.write_set(self.source, spec)
        file = self.source / megatron.rank_file(spec, megatron.Place(1))
        self.assert_named("one rank's part of a model by Megatron-LM .tensor_model_parallel_size 2", source=file)
        shutil.copy(file, self.root / "model.pt")
        self.assert_named("one rank's part of a model by Megatron-LM", source=self.root / "model.pt")
        megatron.write_set(self.root / "one", megatron.filled(megatron.Spec(1), 1))
        alone = self.root / "one" / megatron.rank_file(megatron.Spec(1))
        self.assertEqual(refusals(alone, self.root), {})

    def test_a_file_of_deepspeed(self) -> None:
        rng = np.random.default_rng(1)
        weights = {"w": zero.weights(rng, (6, 4))}
        for stage, name in ((1, "zero_pp_rank_1_mp_rank_00_optim_states.pt"), (3, "zero_pp_rank_1_mp_rank_00_optim_states.pt"),
                            (3, "zero_pp_rank_0_mp_rank_00_model_states.pt")):
            with self.subTest(stage=stage, name=name):
                spec = zero.Spec(2, stage, [{"w": (6, 4)}], weights)
                place = self.root / f"stage{stage}"
                zero.write_set(place, spec)
                self.assert_named("is one rank's .*, and is read alone", source=place / spec.tag / name)
                if "optim" in name:
                    shutil.copy(place / spec.tag / name, self.root / "states.pt")
                    self.assert_named("one rank's states of the optimizer", source=self.root / "states.pt")

    def test_files_of_meta(self) -> None:
        write_release(self.source, whole_model(), 2)
        for number in (0, 1):
            self.assert_named("is a file of a release of Meta, and is read alone",
                              source=self.source / f"consolidated.0{number}.pth")
        for kept in ("consolidated.00.pth", "consolidated.01.pth"):
            for params in (False, True):
                with self.subTest(kept=kept, params=params):
                    alone = self.root / f"{kept}{params}"
                    alone.mkdir()
                    shutil.copy(self.source / kept, alone)
                    if params:
                        shutil.copy(self.source / "params.json", alone)
                    self.assert_named("lacks files|consolidated.00.pth" if params else "no params.json", source=alone)
                    self.assertEqual(ask("export", alone, self.root).code, 2)
        write_release(self.root / "one", whole_model(), 1)
        self.assertEqual(refusals(self.root / "one", self.root), {})
        self.assertEqual(refusals(self.root / "one/consolidated.00.pth", self.root), {})


class Stages(PartsTest):
    """Sizes are of all ranks: those of a part of them do not make other stages."""

    def write(self, ranks: range, layers: int = 4, copies: int = 2, tied: bool = False) -> Tensors:
        model = llama(layers)
        for rank in ranks:
            stage = rank // (2 * copies)
            own = {}
            for name, tensor in model.items():
                layer = re.search(r"layers\.(\d+)\.", name)
                at = int(layer[1]) * 2 // layers if layer else 0 if "embed" in name else 1
                if at == stage or (tied and "embed" in name):
                    own[name] = tensor
            write_safetensors(self.source / f"rank_{rank}/m.safetensors", cut(own, rank % 2, 2))
        return model

    def test_half_of_the_ranks(self) -> None:
        self.write(range(4))
        (self.source / "config.json").write_text(CONFIG % (4, "false"))
        self.assert_named("is in the pipeline stages 0 and 1", "--src-strategy", "tp=2,pp=2",
                          commands=("plan", "export", "hash", "cat", "mount"))

    def test_the_other_half(self) -> None:
        self.write(range(4, 8))
        (self.source / "config.json").write_text(CONFIG % (4, "false"))
        self.assert_named("no file of pipeline stage 0", "--src-strategy", "tp=2,pp=2",
                          commands=("plan", "export", "hash", "cat", "mount"))

    def test_all_ranks(self) -> None:
        model = self.write(range(8))
        (self.source / "config.json").write_text(CONFIG % (4, "false"))
        self.assert_shows(model, "--src-strategy", "tp=2,pp=2")

    def test_a_tied_embedding_is_on_two_stages(self) -> None:
        model = self.write(range(8), tied=True)
        (self.source / "config.json").write_text(CONFIG % (4, "true"))
        self.assert_shows(model, "--src-strategy", "tp=2,pp=2")
        (self.source / "config.json").write_text(CONFIG % (4, "false"))
        self.assert_named("states no tied embedding", "--src-strategy", "tp=2,pp=2", commands=("plan", "export"))


if __name__ == "__main__":
    run_unittests()
