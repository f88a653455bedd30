# SPDX-License-Identifier: Apache-2.0
"""hf/: the directory that transformers and vLLM load, made of a training checkpoint by a model map."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

# First, because it finds the modules of tests/data.
from map_sets import (
    GOLDEN,
    MAP,
    MapTest,
    Words,
    golden,
    vars_of,
    with_states,
)

from format_files import Tensors, read_safetensors, same, write_safetensors
from mounted import errno_name, mounted, run, run_unittests

INDEX = "model.safetensors.index.json"
# Each glob of what is taken, with a name that no other one has.
TAKEN = ("config.json", "generation_config.json", "chat_template.jinja", "tokenizer.model",
         "tokenizer.model.v3", "qwen.tiktoken", "modeling_qwen3.py", "merges.txt", "vocab.txt",
         "LICENSE", "LICENSE.txt", "NOTICE", "README.md", "notes.txt", "config.yaml", "amerges.txt")
# Globs of what is never taken, also where one of the others fits; and what no glob is for.
LEFT = ("model.safetensors.index.json", "pytorch_model.bin.index.json", "old.safetensors",
        "README.safetensors", "pytorch_model.bin", "x.model.bin", "weights.pt", "LICENSE.pt",
        "checkpoint.ckpt", "NOTICE.ckpt", "quantized.gguf", "tokenizer.model.gguf",
        "training.log", "latest_step.txt", "my_LICENSE", "tokenizer.JSON")


class HfTest(MapTest):
    def model_directory(self, **changes: object) -> Path:
        """What is downloaded of a model, without its weights."""
        directory = self.root / "model"
        directory.mkdir()
        for name in (*TAKEN, *LEFT):
            (directory / name).write_text(f"{name}\n" * 3)
        (directory / "config.json").write_text(json.dumps(self.config | changes))
        return directory

    def assert_hf(self, hf: Path, want: Tensors, companions: set[str],
                  **metadata: str) -> list[Tensors]:
        """Shards and index are as libraries expect them; gives the shards in their order."""
        names = set(os.listdir(hf))
        shards = sorted(name for name in names if name.endswith(".safetensors"))
        count = len(shards)
        self.assertEqual(shards, [f"model-{i + 1:05}-of-{count:05}.safetensors" for i in range(count)])
        self.assertEqual(names, {*shards, INDEX, *companions})
        found: Tensors = {}
        weight_map = {}
        out = []
        for shard in shards:
            tensors, stated = read_safetensors(hf / shard)
            self.assertEqual(stated, {"format": "pt"} | metadata)
            self.assertFalse(set(tensors) & set(found), "a tensor appears twice")
            found |= tensors
            weight_map |= dict.fromkeys(tensors, shard)
            out.append(tensors)
        same(self, found, want)
        index = json.loads((hf / INDEX).read_text())
        self.assertEqual(index["weight_map"], weight_map)
        self.assertEqual(index["metadata"],
                         {"total_size": sum(array.nbytes for _, array in want.values())})
        return out

    def warnings(self, source: Path, *words: str | Path) -> str:
        result = run("hash", source, "--views", "hf", *words)
        self.assertEqual(result.code, 0, result.stderr)
        return result.stderr


class Weights(HfTest):
    def test_of_ranks(self) -> None:
        """Two stages of two ranks; the mount and an export show the same."""
        source, *words = self.mcore_ranks()
        words += [*MAP, "--model-config", self.config_file()]
        with mounted(source, *words) as mountpoint:
            self.assert_hf(mountpoint / "hf", self.hub, {"config.json"})
        self.assert_hf(self.export("out", source, *words, views="hf") / "hf", self.hub, {"config.json"})

    def test_states_are_left_out(self) -> None:
        """The golden case in its own direction, and what it makes turned round again."""
        case = GOLDEN / "qwen3_mcore_states"
        for name, direction, other in (("src", "inverse", "expected"), ("expected", "forward", "src")):
            want = {key: tensor for key, tensor in golden(case.name, other).items()
                    if not key.startswith("adam_")}
            self.assertEqual(len(want), 25 if direction == "inverse" else 19)
            words = ("--map", case / "map.toml", "--map-direction", direction, "--model-config",
                     case / "config.json", *vars_of(case.name), "--views", "hf,merged")
            with self.subTest(direction), mounted(case / f"{name}.safetensors", *words) as mountpoint:
                self.assert_hf(mountpoint / "hf", want, {"config.json"})
                whole = read_safetensors(mountpoint / "merged/checkpoint_merged.safetensors")[0]
                same(self, whole, golden(case.name, other))

    def test_states_of_pytorch_are_left_out(self) -> None:
        """No map tells which ones they are."""
        case = GOLDEN.parent / "goldendcp/fsdp_tp_2x"
        everything = read_safetensors(case / "expected.safetensors")[0]
        want = {name: tensor for name, tensor in everything.items() if name.startswith("model.")}
        self.assertEqual({name.partition(".")[0] for name in everything} - {"model"}, {"optim"})
        words = ("--views", "hf,merged", "--dst-strategy", "none")
        with mounted(case / "src", *words) as mountpoint:
            self.assert_hf(mountpoint / "hf", want, set())
            same(self, read_safetensors(mountpoint / "merged/checkpoint_merged.safetensors")[0],
                 everything)

    def test_states_whose_prefix_the_map_changes(self) -> None:
        """They are no longer known by their names alone."""
        text = (f"extends = {json.dumps(str(GOLDEN / 'qwen3_mcore/map.toml'))}\n"
                "[vars]\ninterleaved = 1\ncontiguous = 0\n")
        text += '[states]\n"first." = "adam_m."\n"second." = "adam_v."\n'
        renamed = self.text_file("renamed.toml", text)
        source, *words = self.mcore_ranks(with_states(self.mcore))
        words += ["--map", renamed, "--model-config", self.config_file(), "--views", "hf,merged"]
        with mounted(source, *words) as mountpoint:
            self.assert_hf(mountpoint / "hf", self.hub, {"config.json"})
            index = json.loads((mountpoint / "merged" / INDEX).read_text())
            self.assertIn("first.lm_head.weight", index["weight_map"])

    def test_shard_size(self) -> None:
        """Each shard takes the tensors that fit, in their order; what fits in none has its own."""
        source, *words = self.mcore_ranks()
        limit = 2500  # embed_tokens and lm_head have 2560 bytes
        words += [*MAP, "--model-config", self.config_file(), "--shard-size", f"{limit}B"]
        with mounted(source, *words) as mountpoint:
            shards = self.assert_hf(mountpoint / "hf", self.hub, {"config.json"})
        self.assertGreater(len(shards), 10)
        sizes = [sum(array.nbytes for _, array in shard.values()) for shard in shards]
        for number, shard in enumerate(shards):
            self.assertTrue(sizes[number] <= limit or len(shard) == 1, shard.keys())
            if number:
                first = min(array.nbytes for _, array in list(shard.values())[:1])
                self.assertGreater(sizes[number - 1] + first, limit)

    def test_cast_and_selection(self) -> None:
        """The index counts what is shown."""
        source, *words = self.mcore_ranks()
        words += [*MAP, "--model-config", self.config_file(torch_dtype="float16"), "--cast", "fp32->fp16",
                  "--exclude", "*norm.weight"]
        want = {name: ("F16", array.astype("<f2")) for name, (_, array) in self.hub.items()
                if not name.endswith("norm.weight")}
        with mounted(source, *words) as mountpoint:
            self.assert_hf(mountpoint / "hf", want, {"config.json"}, cast="fp32->fp16")


class WhereItIs(HfTest):
    def views_of(self, source: Path, *words: str | Path) -> set[str]:
        with mounted(source, *words) as mountpoint:
            return set(os.listdir(mountpoint))

    def test_only_where_hugging_face_is_shown(self) -> None:
        source, *words = self.mcore_ranks()
        config = ("--model-config", self.config_file())
        self.assertIn("hf", self.views_of(source, *words, *MAP, *config))
        self.assertNotIn("hf", self.views_of(self.hub_directory(), *MAP))
        self.assertNotIn("hf", self.views_of(source, *words))
        self.assertNotIn("hf", self.views_of(source, *words, *MAP, *config, "--views", "merged,ranks"))
        installed = json.dumps(str(GOLDEN / "qwen3_mcore/map.toml"))
        other = self.text_file("other.toml", f'extends = {installed}\n[vars]\ninterleaved = 1\ncontiguous = 0\n[sides]\nfrom = "hugging face"\n')
        self.assertNotIn("hf", self.views_of(source, *words, "--map", other, *config))

    def test_without_being_asked_for(self) -> None:
        """Of what has a config.json: where the names are another framework's, the map that is missing is named."""
        with mounted(self.hub_directory()) as mountpoint:
            self.assert_hf(mountpoint / "hf", self.hub, {"config.json"})
        source, *words = self.mcore_ranks()
        (self.root / "mnt").mkdir()
        self.addCleanup(run, "umount", self.root / "mnt")
        result = run("mount", source, self.root / "mnt", *words, "--model-config", self.config_file())
        self.assertEqual(result.code, 0, result.stderr)
        self.assertRegex(result.stderr, "warning: no hf/: .* not those of Hugging Face's models.*--map mindformers-qwen3")
        self.assertNotIn("hf", os.listdir(self.root / "mnt"))

    def test_asked_for_with_names_of_others(self) -> None:
        """Without a config.json, for which loaders ask: they are shown as they are, and the map is named."""
        source, *words = self.mcore_ranks()
        result = run("export", source, self.root / "out", *words, "--views", "hf")
        self.assertEqual(result.code, 0, result.stderr)
        self.assertRegex(result.stderr, "warning: .* not those of Hugging Face's models.*; give --map mindformers-qwen3")

    def test_without_a_map(self) -> None:
        file = self.root / "plain.safetensors"
        write_safetensors(file, with_states(self.hub))
        model = self.model_directory()
        with mounted(file, "--views", "hf") as mountpoint:
            self.assertEqual(os.listdir(mountpoint), ["hf"])
            self.assert_hf(mountpoint / "hf", self.hub, set())
        with mounted(file, "--views", "hf", "--model-config", model) as mountpoint:
            self.assert_hf(mountpoint / "hf", self.hub, set(TAKEN))

    def test_beside_a_destination_strategy(self) -> None:
        """It is the whole model there, too."""
        source, *words = self.mcore_ranks()
        words += [*MAP, "--model-config", self.config_file()]
        rules = self.text_file("dst.toml", '[devices]\naxes = ["tp=2"]\n[[rule]]\nmatch = "*_proj.weight"\n'
                               'cut = ["tp"]\n[[rule]]\nmatch = "*"\n')
        with mounted(source, *words, "--dst-strategy", rules, "--ranks", "1") as mountpoint:
            self.assertEqual(set(os.listdir(mountpoint)) & {"rank_0", "rank_1"}, {"rank_1"})
            self.assert_hf(mountpoint / "hf", self.hub, {"config.json"})


class Companions(HfTest):
    def mount_words(self, model: Path) -> Words:
        return (*self.mcore_ranks(), *MAP, "--model-config", model)

    def test_links_below_the_source_are_refused_if_asked(self) -> None:
        """They may lead to what the owner of the source may not read."""
        source = self.hub_directory()
        outside = self.text_file("secret", "{}")
        words = ("hash", source, "--views", "hf")
        self.assertEqual(run(*words, "--no-symlinks").code, 0)
        (source / "tokenizer.json").symlink_to(outside)
        self.assertIn("hf/tokenizer.json", run(*words).stdout)
        refused = run(*words, "--no-symlinks")
        self.assertEqual(refused.code, 2)
        self.assertIn("tokenizer.json: is a symbolic link", refused.stderr)
        (source / "tokenizer.json").unlink()
        (source / "config.json").rename(self.root / "elsewhere.json")
        (source / "config.json").symlink_to(self.root / "elsewhere.json")
        refused = run("plan", source, *MAP, "--no-symlinks")
        self.assertEqual(refused.code, 2)
        self.assertIn("config.json: is a symbolic link", refused.stderr)

    def test_which_are_taken(self) -> None:
        model = self.model_directory()
        for name in ("folder.json", "LICENSES"):
            (model / name).mkdir()
            (model / name / "inner.json").write_text("{}")
        outside = self.text_file("blob-1234", "the tokenizer\n")
        links = {"tokenizer.json": outside, "linked.json": model / "folder.json", "gone.json": "nowhere",
                 "model-00001-of-00001.safetensors": outside}
        for name, target in links.items():
            (model / name).symlink_to(target)
        os.mkfifo(model / "pipe.json")  # opened, it would block
        source, *words = self.mount_words(model)
        companions = {*TAKEN, "tokenizer.json"}
        with mounted(source, *words) as mountpoint:
            hf = mountpoint / "hf"
            self.assert_hf(hf, self.hub, companions)
            for name in companions:
                self.assertEqual((hf / name).read_bytes(), (model / name).read_bytes(), name)
                self.assertFalse((hf / name).is_symlink())
        out = self.export("out", source, *words, views="hf") / "hf"
        self.assert_hf(out, self.hub, companions)
        self.assertEqual((out / "tokenizer.json").read_text(), "the tokenizer\n")

    def test_a_file_is_shown_alone(self) -> None:
        """Whatever it is called, and whatever is beside it."""
        model = self.model_directory()
        (model / "config.json").rename(model / "qwen.json")
        source, *words = self.mount_words(model / "qwen.json")
        with mounted(source, *words) as mountpoint:
            self.assert_hf(mountpoint / "hf", self.hub, {"config.json"})
            self.assertEqual((mountpoint / "hf/config.json").read_bytes(),
                             (model / "qwen.json").read_bytes())

    def test_the_source_directory_is_the_default(self) -> None:
        source, *words = self.mcore_ranks()
        (source / "config.json").write_text(json.dumps(self.config))
        (source / "tokenizer.json").write_text("of the source")
        with mounted(source, *words, *MAP) as mountpoint:
            self.assert_hf(mountpoint / "hf", self.hub, {"config.json", "tokenizer.json"})
        model = self.model_directory()
        with mounted(source, *words, *MAP, "--model-config", model) as mountpoint:
            self.assert_hf(mountpoint / "hf", self.hub, set(TAKEN))

    def test_one_that_changes_is_refused(self) -> None:
        """The others go on, and so do the weights."""
        model = self.model_directory()
        changed = {"merges.txt": lambda path: path.write_bytes(b"y" * path.stat().st_size),
                   "vocab.txt": lambda path: os.truncate(path, 5),
                   "README.md": lambda path: path.write_text("longer than it was" * 9)}
        source, *words = self.mount_words(model)
        with mounted(source, *words, "--direct-io") as mountpoint:
            hf = mountpoint / "hf"
            for name, change in changed.items():
                self.assertEqual((hf / name).read_bytes(), (model / name).read_bytes(), name)
                change(model / name)
                with self.subTest(name), self.assertRaises(OSError) as caught:
                    (hf / name).read_bytes()
                self.assertIn(caught.exception.errno, (errno.EIO, errno.ESTALE),
                              errno_name(caught.exception))
            for name in set(TAKEN) - set(changed):
                self.assertEqual((hf / name).read_bytes(), (model / name).read_bytes(), name)
            self.assert_hf(hf, self.hub, set(TAKEN))


class Warnings(HfTest):
    def setUp(self) -> None:
        super().setUp()
        self.source, *self.words = self.mcore_ranks()

    def of_config(self, *words: str, **changes: object) -> str:
        return self.warnings(self.source, *self.words, *MAP, "--model-config",
                             self.config_file(**changes), *words)

    def test_type(self) -> None:
        self.assertEqual(self.of_config(), "")
        for key, changes in (("torch_dtype", {"torch_dtype": "bfloat16"}),
                             ("dtype", {"torch_dtype": None, "dtype": "bfloat16"}),
                             ("text_config", {"torch_dtype": None, "text_config": {"dtype": "bfloat16"}})):
            with self.subTest(key):
                text = self.of_config(**changes)
                for word in ("warning", "bfloat16", "float32", "--cast"):
                    self.assertIn(word, text)
                self.assertEqual(self.of_config("--cast", "fp32->bf16", **changes), "")

    def test_type_of_most_elements_counts(self) -> None:
        cast = ("--cast", "*norm.weight:fp32->bf16")
        self.assertEqual(self.of_config(*cast), "")
        self.assertIn("float32", self.of_config(*cast, torch_dtype="bfloat16"))

    def test_quantization(self) -> None:
        text = self.of_config(quantization_config={"quant_method": "fp8"})
        self.assertIn("warning", text)
        self.assertIn("quantization_config", text)

    def test_no_config(self) -> None:
        """Its numbers are variables then."""
        numbers = [f"{name}={self.config[key]}" for name, key in
                   (("heads", "num_attention_heads"), ("groups", "num_key_value_heads"),
                    ("head_dim", "head_dim"), ("tied", "tie_word_embeddings"))]
        words = [word for number in numbers for word in ("--map-var", number.replace("False", "0"))]
        text = self.warnings(self.source, *self.words, *MAP, *words)
        for word in ("warning", "config.json", "tokenizer", "--model-config"):
            self.assertIn(word, text)
        with mounted(self.source, *self.words, *MAP, *words) as mountpoint:
            self.assert_hf(mountpoint / "hf", self.hub, set())

    def test_nothing_where_it_is_not_shown(self) -> None:
        result = run("hash", self.source, *self.words, *MAP, "--views", "ranks", "--model-config",
                     self.config_file(torch_dtype="bfloat16", quantization_config={}))
        self.assertEqual((result.code, result.stderr), (0, ""))

    def test_a_rank_is_missing(self) -> None:
        """There is no whole model, and it was asked for."""
        for path in (self.source / "rank_1").iterdir():
            path.unlink()
        words = (*MAP, "--model-config", self.config_file())
        result = run("export", self.source, self.root / "out", "--views", "hf", *self.words, *words)
        self.assertEqual(result.code, 2, result)
        self.assertIn("rank 1 is missing", result.stderr)
        self.assertFalse((self.root / "out/hf").exists())


if __name__ == "__main__":
    run_unittests()
