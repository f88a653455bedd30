# SPDX-License-Identifier: Apache-2.0
"""Model maps between real checkpoints: from a hub directory to the ranks of a training and back, with
the options that go with them, what is refused, and exports that are resumed."""

from __future__ import annotations

import json
import os
import shutil
import unittest
from pathlib import Path

# First, because it finds the modules of tests/data.
from map_sets import (
    GOLDEN,
    MAP,
    MapTest,
    Words,
    golden,
    hub_rules,
    hub_strategy,
    mcore_of,
    mcore_rules,
    mcore_strategy,
    rank_file,
    read_file,
    with_states,
    write_ranks,
)

import numpy as np
from checkpoint2_loader import load_checkpoint2
from ckpt_format import by_name, encode_checkpoint, string_record
from format_files import Tensors, read_safetensors, same, write_safetensors
from mounted import mounted, one_line, run, run_unittests
from strategy_files import write_protobuf

EXTENDS = (f"extends = {json.dumps(str(GOLDEN / 'qwen3_mcore/map.toml'))}\n"
           "[vars]\ninterleaved = 1\ncontiguous = 0\n")
STEP: Tensors = {"global_step": ("I32", np.array([70], "<i4"))}
STEP_RULE = '[[map]]\nto = "global_step"\nfrom = "global_step"\n'


def bf16_of(array: np.ndarray) -> np.ndarray:
    """Rounded to the nearest, ties to even; for finite numbers."""
    bits = array.astype("<f4").view("<u4").astype("u8")
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2")


def wide(bf16: np.ndarray) -> np.ndarray:
    return (bf16.astype("<u4") << 16).view("<f4")


class WayIn(MapTest):
    """A model of the hub for a training of two stages with two ranks each."""

    def setUp(self) -> None:
        super().setUp()
        self.source = self.hub_directory()
        self.strategy = mcore_strategy(self.mcore)
        self.words: Words = (*MAP, "--dst-strategy", mcore_rules(self.root / "dst.toml"))

    def test_rank_files(self) -> None:
        with mounted(self.source, *self.words) as mountpoint:
            self.assert_ranks(mountpoint, self.mcore, self.strategy)
        self.assert_ranks(self.export("out", self.source, *self.words, "--format", "ckpt"), self.mcore,
                          self.strategy, ".ckpt")

    def test_from_ranks_of_the_other_side(self) -> None:
        """Cut otherwise, and by names of its own."""
        source = write_ranks(self.root / "cut", self.hub, hub_strategy(self.hub, 4))
        words = ("--src-strategy", hub_rules(self.root / "src.toml", 4), "--model-config", self.source)
        with mounted(source, *words, *self.words) as mountpoint:
            self.assert_ranks(mountpoint, self.mcore, self.strategy, ".ckpt")

    def test_unified(self) -> None:
        with mounted(self.source, *self.words) as mountpoint:
            self.assert_unified(mountpoint / "unified", self.mcore)

    def test_unified_of_what_is_cut(self) -> None:
        source = write_ranks(self.root / "cut", self.hub, hub_strategy(self.hub, 4))
        words = ("--src-strategy", hub_rules(self.root / "src.toml", 4), "--model-config", self.source)
        with mounted(source, *words, *self.words) as mountpoint:
            self.assert_unified(mountpoint / "unified", self.mcore)

    def assert_unified(self, unified: Path, want: Tensors) -> None:
        """One part has all, and counts the bytes of what is shown, whatever the slices are."""
        self.assertEqual(sorted(os.listdir(unified)), ["param_name_map.json", "part0.safetensors"])
        same(self, read_safetensors(unified / "part0.safetensors")[0], want)
        names = json.loads((unified / "param_name_map.json").read_text())
        self.assertEqual(names["weight_map"], dict.fromkeys(want, "part0.safetensors"))
        self.assertEqual(names["metadata"], {"total_size": sum(array.nbytes for _, array in want.values())})

    def test_iteration(self) -> None:
        words = (*self.words, "--views", "iteration")
        with mounted(self.source, *words) as mountpoint:
            self.assertEqual(os.listdir(mountpoint), ["iteration"])
            same(self, self.typed(load_checkpoint2(mountpoint / "iteration", 4)), self.mcore)
        out = self.export("out", self.source, *self.words, views="iteration")
        same(self, self.typed(load_checkpoint2(out / "iteration", 4)), self.mcore)

    def typed(self, tensors: Tensors) -> Tensors:
        return {name: (dtype, array.view("<f4")) for name, (dtype, array) in tensors.items()}

    def test_there_and_back(self) -> None:
        """As ranks or as Checkpoint 2.0, the way back ends with the bytes of the hub."""
        ranks = self.export("ranks", self.source, *self.words)
        saved = self.export("saved", self.source, *self.words, views="iteration") / "iteration"
        for source, words in ((ranks, ("--src-strategy", self.words[-1])), (saved, ())):
            words = (*words, *MAP, "--model-config", self.source)
            with self.subTest(source.name), mounted(source, *words) as mountpoint:
                same(self, read_safetensors(mountpoint / "hf/model-00001-of-00001.safetensors")[0],
                     self.hub)
                self.assertEqual((mountpoint / "hf/config.json").read_bytes(),
                                 (self.source / "config.json").read_bytes())

    def test_direction_is_found(self) -> None:
        ranks, *words = self.mcore_ranks()
        words += [*MAP, "--model-config", self.source]
        for direction, source, options, want in (("forward", self.source, MAP, self.mcore),
                                                 ("inverse", ranks, tuple(words), self.hub)):
            result = run("hash", source, *options, "-v")
            self.assertEqual(result.code, 0, result.stderr)
            self.assertIn(f"is read {direction}", result.stderr)
            for number, chosen in enumerate(("auto", direction)):
                got = self.exported(f"{direction}{number}", source, *options, "--map-direction", chosen)
                same(self, got, want)
            other = {"forward": "inverse", "inverse": "forward"}[direction]
            self.fails(2, "hash", source, *options, "--map-direction", other,
                       words=("no rule uses it", f"--map-direction {direction}"))

    def test_two_maps(self) -> None:
        """The second takes what the first shows."""
        middle = self.text_file("again.toml", '[sides]\nfrom = "MindFormers mcore"\nto = "Short"\n[[map]]\n'
                                'to = "b.{n}.fc"\nfrom = "decoder.layers.{n}.mlp.linear_fc1.weight"\n'
                                'ops = ["permute [1, 0]"]\n[drop]\nfrom = ["*"]\n')
        want = {f"b.{n}.fc": ("F32", np.ascontiguousarray(self.mcore[
            f"decoder.layers.{n}.mlp.linear_fc1.weight"][1].T)) for n in range(2)}
        same(self, self.exported("out", self.source, *MAP, "--map", middle), want)


class Options(MapTest):
    def shown(self, *words: str | Path) -> Tensors:
        directory = self.root / "hub"
        if not directory.exists():
            self.hub_directory()
        shutil.rmtree(self.root / "shown", ignore_errors=True)
        return self.exported("shown", directory, *MAP, *words)

    def test_names_that_are_shown_select(self) -> None:
        fused = {name: tensor for name, tensor in self.mcore.items() if "linear_qkv" in name}
        same(self, self.shown("--include", "*linear_qkv*"), fused)
        rest = {name: tensor for name, tensor in self.mcore.items() if name not in fused}
        same(self, self.shown("--exclude", "*linear_qkv*"), rest)
        # Names of the source are none here, whether they would select all or nothing.
        of_source = ("--exclude", "model.*", "--exclude", "*q_proj*")
        same(self, self.shown(*of_source, "--allow-unmatched"), self.mcore)
        refused = run("export", self.root / "hub", self.root / "no", *MAP, *of_source)
        self.assertEqual(refused.code, 2, refused)
        self.assertIn("--exclude '*q_proj*' matches no parameter", refused.stderr)
        self.assertEqual(run("cat", self.root / "hub", *MAP, "--include", "decoder.layers.1.*",
                             "--param", "model.norm.weight").code, 2)

    def test_what_is_not_shown_is_not_needed(self) -> None:
        """A rank that only the excluded tensors need may be missing."""
        source, *words = self.mcore_ranks()
        shutil.rmtree(source / "rank_1")
        words += [*MAP, "--model-config", self.config_file()]
        self.assertEqual(run("hash", source, *words).code, 2)
        chosen = [word for name in ("lm_head*", "*.layers.1.*") for word in ("--include", name)]
        want = {name: tensor for name, tensor in self.hub.items()
                if name.startswith("lm_head") or ".layers.1." in name}
        same(self, self.exported("out", source, *words, *chosen), want)

    def test_cast_by_shown_names(self) -> None:
        got = self.shown("--cast", "*linear_fc1.weight:fp32->fp16", "--cast", "*proj*:fp32->bf16",
                         "--cast", "model.*:fp32->fp64", "--allow-unmatched")
        want: Tensors = {}
        for name, (dtype, array) in self.mcore.items():
            want[name] = (dtype, array)
            if "linear_fc1" in name:
                want[name] = ("F16", array.astype("<f2"))
            elif "linear_proj" in name:
                want[name] = ("BF16", bf16_of(array))
        same(self, got, want)

    def test_name_map_on_top(self) -> None:
        """From the shown names to others; those of the source are not meant."""
        names = {name: f"net.{name}" for name in self.mcore if "layers.0" in name}
        names["model.norm.weight"] = "never"
        path = self.text_file("names.json", json.dumps(names))
        want = {names.get(name, name): tensor for name, tensor in self.mcore.items()}
        same(self, self.shown("--name-map", path, "--allow-unmatched"), want)
        del names["model.norm.weight"]
        path = self.text_file("names.json", json.dumps(names))
        rules = mcore_rules(self.root / "dst.toml", stages=1)
        out = self.export("out", self.root / "hub", *MAP, "--name-map", path, "--dst-strategy", rules)
        self.assert_ranks(out, want, mcore_strategy(want, stages=1))

    def test_variables(self) -> None:
        """--map-var counts more than config.json, which counts more than the map's own default."""
        plain = mcore_of(self.hub, self.config, interleaved=False)
        key = {"use_interleaved_weight_layout_mlp": False}
        config = self.config_file(**key)
        self.assertNotEqual(*(model["decoder.layers.0.mlp.linear_fc1.weight"][1].tobytes()
                              for model in (plain, self.mcore)))
        same(self, self.shown(), self.mcore)
        same(self, self.shown("--map-var", "interleaved=0"), plain)
        same(self, self.shown("--model-config", config), plain)
        same(self, self.shown("--model-config", config, "--map-var", "interleaved=1"), self.mcore)
        same(self, self.shown("--map-var", "interleaved=1", "--map-var", "interleaved=0"), plain)
        case = GOLDEN / "qwen3_mcore_plain"
        same(self, self.exported("plain", case / "src.safetensors", *MAP, "--map-var", "interleaved=0",
                                 "--model-config", case), golden(case.name, "expected"))

    def test_casts_of_map_and_option(self) -> None:
        """Both round: to the map's type first."""
        values = np.random.default_rng(5).normal(size=(64, 48)).astype("<f4")
        path = self.root / "casts.safetensors"
        names = {"bf16": ("BF16", bf16_of(values)), "fp32": ("F32", values)}
        write_safetensors(path, names)
        rules = self.text_file("casts.toml", "".join(
            f'[[map]]\nto = "new.{old}"\nfrom = "{old}"\nops = ["permute [1, 0]", "cast {old}->{new}"]\n'
            f'shape = "[A, B]"\nto_shape = "[B, A]"\n' for old, new in (("bf16", "fp32"), ("fp32", "bf16"))))
        words = ("--map", rules, "--map-direction", "forward")
        got = self.exported("out", path, *words)
        mapped: Tensors = {"new.bf16": ("F32", wide(names["bf16"][1]).T),
                           "new.fp32": ("BF16", bf16_of(values).T)}
        same(self, got, mapped)
        halves = {name: ("F16", wide(bf16_of(values)).astype("<f2").T) for name in mapped}
        self.assertNotEqual(halves["new.fp32"][1].tobytes(), values.astype("<f2").T.tobytes())
        casts = ("--cast", "fp32->fp16", "--cast", "bf16->fp16")
        same(self, self.exported("both", path, *words, *casts), halves)
        with mounted(path, *words, *casts, "--views", "merged") as mountpoint:
            same(self, read_file(mountpoint / "merged/checkpoint_merged.safetensors"), halves)
        # The way back converts the other way: both are bf16 in the end, one of them stored as fp32.
        back = self.exported("back", self.root / "out", "--map", rules, "--map-direction", "inverse")
        same(self, back, {"bf16": names["bf16"], "fp32": ("F32", wide(bf16_of(values)))})

    def test_scalars_and_states_that_the_destination_leaves_out(self) -> None:
        """States follow their weights, and a scalar is on all ranks."""
        full = with_states(self.mcore) | STEP
        source, *words = self.mcore_ranks(full)
        rules = self.text_file("steps.toml", EXTENDS + STEP_RULE)
        write_protobuf(hub_strategy(self.hub, 4), self.root / "dst.ckpt")
        words += ["--map", rules, "--model-config", self.config_file(), "--dst-strategy",
                  self.root / "dst.ckpt"]
        want = with_states(self.hub) | STEP
        with mounted(source, *words) as mountpoint:
            self.assert_ranks(mountpoint, want, hub_strategy(want, 4), ".ckpt")

    def with_text(self) -> tuple[Path, list[str | Path]]:
        """A rank file with a text behind its tensors."""
        source, *words = self.mcore_ranks(stages=1, tp=1)
        file = rank_file(source, 0, ".ckpt")
        file.write_bytes(file.read_bytes() + encode_checkpoint([string_record("note", "a text")]))
        return source, [*words, "--model-config", self.config_file()]

    def text_rule(self, *lines: str) -> Path:
        return self.text_file("text.toml", EXTENDS + "\n".join(
            ["[[map]]", 'to = "note"', 'from = "memo"', *lines, ""]))

    def test_texts(self) -> None:
        """Taken or dropped like tensors, and carried as they are."""
        source, words = self.with_text()
        self.fails(2, "hash", source, *words, *MAP, words=("note", "no rule uses it"))
        drop = self.text_file("drop.toml", EXTENDS + '[drop]\nto = ["note"]\n')
        same(self, self.exported("dropped", source, *words, "--map", drop), self.hub)
        words += ["--map", self.text_rule()]
        records = by_name(rank_file(self.export("taken", source, *words), 0, ".ckpt").read_bytes())
        self.assertEqual(records.pop("memo"), string_record("memo", "a text"))
        self.assertEqual(set(records), set(self.hub))
        with mounted(source, *words, "--views", "merged,params,hf") as mountpoint:
            listed = json.loads((mountpoint / "merged/params.json").read_text())
            self.assertEqual([entry["value"] for entry in listed if entry["name"] == "memo"], ["a text"])
            (weights,) = (mountpoint / "hf").glob("*.safetensors")
            same(self, read_file(weights), self.hub)

    def test_texts_are_no_arrays(self) -> None:
        """To move their bytes would make other texts, or none."""
        source, words = self.with_text()
        rule = self.text_rule('shape = "[24]"', 'to_shape = "[24]"',
                              'ops = ["reshape [2, 12]", "permute [1, 0]", "reshape [24]"]')
        self.assertEqual(run("hash", source, *words, "--map", rule).code, 2)


class Refused(MapTest):
    def setUp(self) -> None:
        super().setUp()
        self.source = self.hub_directory()

    def refused(self, *options: str | Path, words: tuple[str, ...], source: Path | None = None) -> None:
        """By what only looks, by what reads, and by what mounts."""
        place = self.root / "mnt"
        place.mkdir(exist_ok=True)
        for command in (("plan", source or self.source), ("mount", source or self.source, place)):
            self.fails(2, *command, *options, words=words)
        out = self.root / "out"
        self.fails(2, "export", source or self.source, out, *options, words=words)
        self.assertFalse(out.exists())

    def test_own_replicas(self) -> None:
        self.refused(*MAP, "--replicas", "own", words=("--replicas own", "--map", "--replicas first"))

    def test_unknown_map(self) -> None:
        installed = [entry["name"] for entry in
                     json.loads(run("map", "list", "--json").stdout)["maps"]]
        self.assertEqual(len(installed), 40)
        self.refused("--map", "no-such-one", words=("'no-such-one'", *installed, ".toml"))
        self.refused("--map", "mindformers-qwen9", words=("did you mean 'mindformers-qwen3'?",))
        self.refused("--map", "./qwen.toml", words=("qwen.toml", "no such file"))

    def test_number_of_directions(self) -> None:
        both = ("--map-direction", "forward", "--map-direction", "inverse")
        self.refused(*MAP, *both, words=("2 of --map-direction", "1 of --map"))
        self.refused(*MAP, *MAP, "--map-direction", "auto", words=("1 of --map-direction", "2 of --map"))

    def test_variables(self) -> None:
        self.refused(*MAP, "--map-var", "nope=1", words=("--map-var nope", "no rule uses it"))
        self.refused("--map-var", "interleaved=0", words=("--map-var needs --map",))
        for text in ("interleaved", "interleaved=", "=1", "interleaved=x", "interleaved=1.5"):
            self.refused(*MAP, "--map-var", text, words=("--map-var", "NAME=NUMBER"))

    def test_no_config(self) -> None:
        (self.source / "config.json").unlink()
        self.refused(*MAP, words=("q_proj.weight", "unknown variable", "--model-config", "--map-var"))
        self.refused(*MAP, "--model-config", self.source, words=("config.json", "no such file"))
        self.refused(*MAP, "--model-config", self.root / "gone", words=("gone", "--model-config"))
        broken = self.text_file("broken.json", "{")
        self.refused(*MAP, "--model-config", broken, words=("broken.json",))
        wrong = self.config_file(num_key_value_heads=4)
        self.refused(*MAP, "--model-config", wrong, words=("k_proj.weight", "is 32, the tensor has 16"))

    def test_no_toml(self) -> None:
        path = self.text_file("bad.toml", "[sides]\nthis is none\n")
        self.refused("--map", path, words=("bad.toml", "line 2"))
        path.write_bytes((self.source / "model-00001-of-00002.safetensors").read_bytes())
        self.refused("--map", path, words=("bad.toml",))
        path.write_text('[sides]\nform = "Hugging Face"\n')
        self.refused("--map", path, words=("bad.toml", "line 2", "form"))

    def test_unmatched_source(self) -> None:
        """There is no slice of a source rank that could be copied."""
        tensors = hub_strategy(self.hub, 4)
        source = write_ranks(self.root / "cut", self.hub, tensors)
        listed = {name: tensor for name, tensor in self.mcore.items() if "linear_fc1" not in name}
        write_protobuf(mcore_strategy(listed), self.root / "dst.ckpt")
        options = ("--src-strategy", hub_rules(self.root / "src.toml", 4), *MAP, "--model-config",
                   self.source, "--dst-strategy", self.root / "dst.ckpt")
        self.refused(*options, "--unmatched", "source", source=source,
                     words=("linear_fc1.weight", "made by the map", "--unmatched replicate"))
        self.refused(*options, "--unmatched", "error", source=source, words=("linear_fc1.weight",))
        out = self.export("dropped", source, *options)
        self.assert_ranks(out, listed, mcore_strategy(listed), ".ckpt")
        whole = self.export("whole", source, *options, "--unmatched", "replicate")
        for rank in range(4):
            found = read_file(rank_file(whole, rank, ".ckpt"))
            for name in set(self.mcore) - set(listed):
                self.assertEqual(found[name][1].tobytes(), self.mcore[name][1].tobytes())

    def test_no_layout_and_different_values(self) -> None:
        """A strategy that lacks a tensor says nothing of it: it may be cut."""
        other = {name: (dtype, array + 1) for name, (dtype, array) in self.hub.items()}
        listed = {name: tensor for name, tensor in self.hub.items() if name != "model.norm.weight"}
        source = write_ranks(self.root / "cut", self.hub, hub_strategy(self.hub, 2))
        write_protobuf(hub_strategy(listed, 2), self.root / "src.ckpt")
        options = ("--src-strategy", self.root / "src.ckpt", *MAP, "--model-config", self.source)
        same(self, self.exported("alike", source, *options), self.mcore)
        changed = read_file(rank_file(source, 1, ".ckpt"))
        changed["model.norm.weight"] = other["model.norm.weight"]
        write_ranks(self.root / "one", changed, hub_strategy(changed, 1))
        shutil.copy(rank_file(self.root / "one", 0, ".ckpt"), rank_file(source, 1, ".ckpt"))
        self.refused(*options, source=source,
                     words=("model.norm.weight", "differs between the ranks", "source strategy"))

    def test_a_rank_is_missing(self) -> None:
        """What cannot be made is named as it would be shown."""
        source, *options = self.mcore_ranks()
        shutil.rmtree(source / "rank_1")
        self.refused(*options, *MAP, "--model-config", self.source, source=source,
                     words=("source rank 1 is missing", "model.layers.0.mlp.gate_proj.weight",
                            "model.embed_tokens.weight", "8 parameters"))


class Resumed(MapTest):
    """An export goes on only as the one that was begun."""

    def setUp(self) -> None:
        super().setUp()
        self.base = self.text_file("base.toml", EXTENDS)
        self.map = self.text_file("map.toml", 'extends = "base.toml"\n')
        self.source, *self.words = self.mcore_ranks()
        self.out = self.root / "out"
        self.config_file("config.json")

    def run_export(self, *options: str | Path) -> tuple[int, str, str]:
        words = [*self.words, "--map", self.map, *options]
        if "--model-config" not in options:
            words += ["--model-config", self.root / "config.json"]
        result = run("export", self.source, self.out, *words)
        return result.code, result.stdout, result.stderr

    def goes_on(self, *options: str | Path) -> None:
        code, output, errors = self.run_export(*options)
        self.assertEqual(code, 0, errors)
        self.assertIn("0 B of 0 files written", output)
        self.assertIn("1 file was there already", output)

    def is_another(self, *options: str | Path) -> None:
        before = {path: path.read_bytes() for path in self.out.rglob("*") if path.is_file()}
        code, output, errors = self.run_export(*options)
        self.assertEqual((code, output), (2, ""), errors)
        self.assertRegex(errors, "different: map|file '.*' has different contents|it has no file '--map")
        self.assertIn("--force", errors)
        self.assertEqual(before, {path: path.read_bytes() for path in self.out.rglob("*")
                                  if path.is_file()})

    def test_unchanged(self) -> None:
        self.assertEqual(self.run_export()[0], 0)
        self.goes_on()

    def test_another_name_of_the_same(self) -> None:
        """What files hold counts, not where they are."""
        self.assertEqual(self.run_export()[0], 0)
        self.config_file("copy.json")
        (self.root / "copy.json").write_bytes((self.root / "config.json").read_bytes())
        self.goes_on("--model-config", self.root / "copy.json")

    def test_changed_rules(self) -> None:
        self.assertEqual(self.run_export()[0], 0)
        self.map.write_text('extends = "base.toml"\n[drop]\nto = ["*.bias"]\n')
        self.is_another()

    def test_changed_rules_that_are_inherited(self) -> None:
        self.assertEqual(self.run_export()[0], 0)
        self.base.write_text(self.base.read_text().replace("interleaved = 1", "interleaved = 0"))
        self.is_another()

    def test_changed_config(self) -> None:
        self.assertEqual(self.run_export()[0], 0)
        self.config_file("config.json", use_interleaved_weight_layout_mlp=False)
        self.is_another()

    def test_changed_variable(self) -> None:
        self.assertEqual(self.run_export("--map-var", "interleaved=1")[0], 0)
        self.goes_on("--map-var", "interleaved=1")
        self.is_another("--map-var", "interleaved=0")
        self.is_another()

    def test_other_maps(self) -> None:
        self.assertEqual(self.run_export()[0], 0)
        self.is_another("--map", self.map)
        result = run("export", self.source, self.out, *self.words)
        self.assertEqual(result.code, 2)
        self.assertRegex(one_line(result), "different: map|it was made with a file '--map 1'")

    def test_a_file_is_missing(self) -> None:
        """What was not finished is written again, with the right bytes."""
        self.words += ["--dst-strategy", hub_rules(self.root / "dst.toml", 2)]
        self.assertEqual(self.run_export()[0], 0)
        lost = rank_file(self.out, 1, ".ckpt")
        want = lost.read_bytes()
        lost.unlink()
        code, output, errors = self.run_export()
        self.assertEqual(code, 0, errors)
        self.assertIn("1 file was there already", output)
        self.assertEqual(lost.read_bytes(), want)
        self.assert_ranks(self.out, self.hub, hub_strategy(self.hub, 2), ".ckpt")


if __name__ == "__main__":
    run_unittests()
