# SPDX-License-Identifier: Apache-2.0
"""What stands beside the tensors of a model: metadata of headers and of an index, config.json and its companions.
Each view keeps what it can hold and what is still true; a warning names the rest."""

from __future__ import annotations

import json
import unittest
from pathlib import Path

import numpy as np

from format_files import Tensors, read_safetensors, write_safetensors
from mounted import Result, mounted, run, run_unittests, scratch

INDEX = "model.safetensors.index.json"
# As torchao describes its tensors: one in two parts, one as it is.
CLASSES = {"a.weight": json.dumps({"_type": "Float8Tensor", "_data": {"block_size": [1, 8]}}),
           "n.weight": json.dumps({"_type": "Tensor"})}
TORCHAO = {"format": "pt", "tensor_names": json.dumps(list(CLASSES)), **CLASSES}
# The second name of a tied tensor, and what is about no tensor; what is about the file alone.
OTHERS = {"lm_head.weight": "n.weight", "title": "a model"}
OF_FILE = {"crc_num": "1", "remove_redundancy": "True"}


def ones(*shape: int) -> tuple[str, np.ndarray]:
    return "F32", np.ones(shape, "<f4")


def model() -> Tensors:
    return {"a._weight_qdata": ("F8_E4M3", np.full((4, 8), 0x38, "u1")), "a._weight_scale": ones(4, 1),
            "n.weight": ones(8)}


class BesideTest(unittest.TestCase):
    def setUp(self) -> None:
        self.root = self.enterContext(scratch())

    def source(self, metadata: dict[str, str] | None = None, name: str = "m", tensors: Tensors | None = None,
               **config: object) -> Path:
        directory = self.root / name
        write_safetensors(directory / "model.safetensors", tensors or model(),
                          TORCHAO | OTHERS | OF_FILE if metadata is None else metadata)
        (directory / "config.json").write_text(json.dumps({"model_type": "gecko"} | config))
        return directory

    def sharded(self, metadata: dict[str, object]) -> Path:
        directory = self.root / "sharded"
        names = {f"model-0000{number}-of-00002.safetensors": {f"w{number}": ones(4)} for number in (1, 2)}
        for name, tensors in names.items():
            write_safetensors(directory / name, tensors, {"format": "pt"})
        (directory / INDEX).write_text(json.dumps(
            {"metadata": {"total_size": 32} | metadata,
             "weight_map": {tensor: name for name, tensors in names.items() for tensor in tensors}}))
        return directory

    def exported(self, source: Path, *words: str | Path) -> tuple[Path, Result]:
        out = self.root / f"out{len(list(self.root.iterdir()))}"
        result = run("export", source, out, *words)
        self.assertEqual(result.code, 0, result.stderr)
        return out, result

    def headers(self, directory: Path) -> dict[str, str]:
        found: dict[str, str] = {}
        for path in sorted(directory.rglob("*.safetensors")):
            found |= read_safetensors(path)[1]
        return found

    def inspected(self, source: Path) -> str:
        return " ".join(run("inspect", source).stdout.split())

    def text(self, name: str, text: str) -> Path:
        (self.root / name).write_text(text)
        return self.root / name


class Headers(BesideTest):
    def test_kept_by_each_view_that_can_hold_it(self) -> None:
        source = self.source()
        want = TORCHAO | OTHERS
        for views in ("merged-safetensors", "hub", "hf"):
            with self.subTest(views):
                shards = () if views == "merged-safetensors" else ("--shard-size", "20B")
                out, result = self.exported(source, "--views", views, *shards)
                format_word = {"format": "ms" if views == "merged-safetensors" else "pt"}
                self.assertEqual(self.headers(out), want | format_word)
                self.assertNotIn("metadata", result.stderr)
        file = self.root / "one.safetensors"
        self.assertNotIn("metadata", run("export", source / "model.safetensors", file).stderr)
        self.assertEqual(read_safetensors(file)[1], want | {"format": "ms"})

    def test_a_view_that_cannot_hold_it_is_named(self) -> None:
        source = self.source(tensors={"n.weight": ones(8)}, metadata={"format": "pt", "title": "a model"})
        for views in ("merged-ckpt", "merged-torch", "ranks", "unified", "dcp"):
            with self.subTest(views):
                out, result = self.exported(source, "--views", views)
                self.assertIn("metadata of the source: 'title'", result.stderr)
                self.assertEqual(set(self.headers(out)) - {"format"}, set())
        out, result = self.exported(source, "--views", "ranks", "--metadata", "pt")
        self.assertEqual(self.headers(out), {"format": "pt", "title": "a model"})
        self.assertNotIn("metadata", result.stderr)

    def test_what_is_no_longer_true_is_left_out_and_named(self) -> None:
        source = self.source()
        rules = self.text("cut.toml", '[devices]\naxes = ["tp=2"]\n[[rule]]\nmatch = "a.*"\ncut = ["tp", ""]\n'
                                      '[[rule]]\nmatch = "*"\n')
        names = self.text("names.json", json.dumps({"n.weight": "norm.weight"}))
        cut = ("--views", "ranks", "--metadata", "pt", "--dst-strategy", rules)
        cases: list[tuple[tuple[str | Path, ...], set[str]]] = [
            (("--views", "hf", "--cast", "fp32->bf16"), {"a.weight"}), (cut, {"a.weight"}),
            (("--views", "hf", "--name-map", names), {"n.weight", "lm_head.weight"}),
            (("--views", "hf", "--rename", "n.weight=norm.weight"), {"n.weight", "lm_head.weight"})]
        for words, lost in cases:
            with self.subTest(words):
                out, result = self.exported(source, *words)
                found = self.headers(out)
                self.assertEqual(set(TORCHAO | OTHERS) - set(found), lost)
                self.assertEqual(set(json.loads(found["tensor_names"])), set(CLASSES) - lost)
                self.assertEqual(result.stderr.count("metadata"), 1, result.stderr)
                for name in lost:
                    self.assertIn(f"'{name}'", result.stderr)

    def test_what_is_left_out_takes_its_words_along(self) -> None:
        out, result = self.exported(self.source(), "--views", "hf", "--exclude", "a.*")
        found = self.headers(out)
        self.assertEqual(json.loads(found["tensor_names"]), ["n.weight"])
        self.assertNotIn("a.weight", found)
        self.assertNotIn("metadata", result.stderr)

    def test_files_that_contradict_each_other(self) -> None:
        directory = self.sharded({})
        for number in (1, 2):
            write_safetensors(directory / f"model-0000{number}-of-00002.safetensors", {f"w{number}": ones(4)},
                              {"both": "x", "part": str(number), "tensor_names": json.dumps([f"w{number}"])})
        out, result = self.exported(directory, "--views", "hf")
        self.assertEqual(self.headers(out), {"format": "pt", "both": "x", "tensor_names": '["w1", "w2"]'})
        self.assertIn("differs between the files of the source is left out: 'part'", result.stderr)

    def test_types_without_a_word_of_safetensors(self) -> None:
        """As MindSpore's own converter keeps them."""
        source = self.source({"format": "ms", "q": "Int4"}, tensors={"q": ("I8", np.ones((4, 2), "i1"))})
        for views, want in (("unified", {"q": "Int4"}), ("merged-safetensors", {"q": "Int4"}), ("ranks", {"q": "Int4"})):
            with self.subTest(views):
                out, result = self.exported(source, "--views", views)
                self.assertEqual(self.headers(out), {"format": "ms"} | want)
                self.assertNotIn("metadata", result.stderr)
        out, _ = self.exported(source, "--views", "merged-safetensors", "--name-map", self.text("n.json", '{"q": "p"}'))
        self.assertEqual(self.headers(out), {"format": "ms", "p": "Int4"})

    def test_mounts_show_it(self) -> None:
        with mounted(self.source()) as mountpoint:
            self.assertEqual(read_safetensors(mountpoint / "merged/checkpoint_merged.safetensors")[1],
                             TORCHAO | OTHERS | {"format": "ms"})

    def test_inspect_and_diff(self) -> None:
        source = self.source()
        self.assertIn("'a.weight'", self.inspected(source))
        described = json.loads(run("inspect", source, "--json").stdout)["description"]["metadata"]
        self.assertEqual(described, {"headers": {key: value for key, value in (TORCHAO | OTHERS).items()
                                                 if key != "format"}, "index": {}})
        other = self.source({"format": "ms", "title": "another"}, "other")
        result = run("diff", source, other)
        self.assertEqual(result.code, 0, result.stdout)
        self.assertIn("only in A 'a.weight', 'lm_head.weight', 'n.weight', 'tensor_names'; of other values 'title'",
                      result.stdout)
        stated = json.loads(run("diff", source, other, "--json").stdout)["metadata"]
        self.assertEqual((stated["only in B"], stated["different"]), ([], ["title"]))
        self.assertNotIn("metadata", run("diff", source, source).stdout)


class Index(BesideTest):
    def test_kept_but_for_the_size(self) -> None:
        stated = {"total_parameters": 8, "title": "é", "more": {"x": [1, 2.50]}}
        source = self.sharded(stated)
        out, result = self.exported(source, "--views", "hf", "--cast", "fp32->bf16")
        self.assertEqual(json.loads((out / "hf" / INDEX).read_text())["metadata"], {"total_size": 16} | stated)
        out, result = self.exported(source, "--views", "hf", "--exclude", "w2")
        kept = json.loads((out / "hf" / INDEX).read_text())["metadata"]
        self.assertEqual(kept, {"total_size": 16} | {key: stated[key] for key in ("title", "more")})
        _, result = self.exported(source, "--views", "merged-safetensors")
        self.assertIn("'title', 'more'", result.stderr)
        _, result = self.exported(self.sharded({"total_parameters": 8}), "--views", "merged-safetensors")
        self.assertNotIn("metadata", result.stderr)

    def test_one_of_other_files_is_not_read(self) -> None:
        source = self.source({"format": "pt"})
        (source / INDEX).write_text(json.dumps({"metadata": {"title": "x"}, "weight_map": {"w": "gone.safetensors"}}))
        out, _ = self.exported(source / "model.safetensors", "--views", "hf")
        self.assertEqual(list(json.loads((out / "hf" / INDEX).read_text())["metadata"]), ["total_size"])


class Config(BesideTest):
    def config(self, out: Path) -> dict[str, object]:
        config: dict[str, object] = json.loads((out / "hf/config.json").read_text())
        return config

    def test_the_type_that_was_asked_for(self) -> None:
        inner = {"dtype": "float32", "bnb_4bit_compute_dtype": "float32"}
        source = self.source({"format": "pt"}, tensors={"w": ones(4), "v": ones(2)}, torch_dtype="torch.float32",
                             text_config=inner, torch_type="float32")
        out, result = self.exported(source, "--views", "hf", "--cast", "fp32->bf16")
        self.assertEqual(self.config(out), {"model_type": "gecko", "torch_dtype": "torch.bfloat16",
                                            "text_config": inner | {"dtype": "bfloat16"}, "torch_type": "float32"})
        self.assertEqual(result.stderr.count("dtype"), 0, result.stderr)
        out, result = self.exported(source, "--views", "hf", "--cast", "w:fp32->bf16")
        self.assertEqual(self.config(out)["text_config"], inner)
        self.assertIn("of several: 'bfloat16', 'float32'", result.stderr)
        self.assertNotIn("--cast", result.stderr)

    def test_a_nested_quantization_is_as_the_top_one(self) -> None:
        stated = {"quant_method": "fp8", "weight_block_size": [8, 8]}
        other = stated | {"weight_block_size": [16, 16]}
        tensors = {"l.weight": ("F8_E4M3", np.full((16, 16), 0x38, "u1")),
                   "l.weight_scale_inv": ("F32", np.full((2, 2), .5, "<f4"))}
        key = "quantization_config"
        places: dict[str, dict[str, object]] = {
            "top": {key: stated}, "below": {"text_config": {key: stated}},
            "both": {key: stated, "text_config": {key: stated, "x": 1}}}
        for name, config in places.items():
            with self.subTest(name):
                source = self.source({}, name, tensors, **config)
                (source / "hf_quant_config.json").write_text("{}")
                out, _ = self.exported(source, "--views", "hf", "--dequantize")
                self.assertNotIn("quantization_config", (out / "hf/config.json").read_text())
                self.assertFalse((out / "hf/hf_quant_config.json").exists())
                self.assertEqual(self.headers(out), {"format": "pt"})
        source = self.source({}, "two", tensors, quantization_config=stated, text_config={"quantization_config": other})
        result = run("plan", source, "--dequantize")
        self.assertEqual(result.code, 2)
        self.assertIn("states two quantizations that differ", result.stderr)

    def test_methods_that_pass_unchanged(self) -> None:
        codes = {"awq": {"q.qweight": ("I32", np.zeros((8, 2), "<i4"))},
                 "bitsandbytes": {"q.weight": ("U8", np.zeros((64, 1), "u1"))},
                 "compressed-tensors": {"q.weight_packed": ("I32", np.zeros((8, 2), "<i4"))},
                 "gptq": {"q.qweight": ("I32", np.zeros((2, 8), "<i4")), "q.g_idx": ("I32", np.zeros(8, "<i4"))}}
        for method, tensors in codes.items():
            with self.subTest(method):
                source = self.source({}, method, tensors | {"n": ones(4)}, quantization_config={"quant_method": method})
                _, result = self.exported(source, "--views", "hf")
                self.assertNotIn("quantiz", result.stderr)
                self.assertIn(f"{method} (config.json): codes and scales pass as they are", self.inspected(source))
        plain = self.source({}, "plain", {"n": ones(4)}, quantization_config={"quant_method": "awq"})
        self.assertIn("the weights are not quantized", self.exported(plain, "--views", "hf")[1].stderr)
        self.assertIn("but no tensor is stored in such a form", self.inspected(plain))


class Companions(BesideTest):
    def test_folders_of_a_sentence_model(self) -> None:
        source = self.source({"format": "pt"})
        beside = {"modules.json": json.dumps([{"path": ""}, {"path": "1_Pooling"}, {"path": "head"}, {"path": "../x"}]),
                  "1_Pooling/config.json": "{}", "2_Dense/model.safetensors": "weights", "2_Dense/sub/a.txt": "a",
                  "head/config.json": "{}", "query_0_Static/tokenizer.json": "{}", "params.yaml": "a: 1",
                  "additional_chat_templates/tool.jinja": "x", "words.txt": "w"}
        left = {"onnx/model.onnx": "x", ".git/config.json": "{}", "checkpoint-5/config.json": "{}",
                "additional_chat_templates/x.bin": "x", "x.log": ""}
        for name, text in (beside | left).items():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_text(text)
        out, result = self.exported(source, "--views", "hf")
        shown = {str(path.relative_to(out / "hf")) for path in (out / "hf").rglob("*") if path.is_file()}
        self.assertEqual(shown, {*beside, "config.json", INDEX, "model-00001-of-00001.safetensors"})
        self.assertIn("folders of the source: 'onnx';", result.stderr)
        with mounted(source, "--views", "hf") as mountpoint:
            for name, text in beside.items():
                self.assertEqual((mountpoint / "hf" / name).read_text(), text)

    def test_an_adapters_configuration_needs_the_adapter(self) -> None:
        source = self.source({"format": "pt"})
        (source / "adapter_config.json").write_text("{}")
        out, _ = self.exported(source, "--views", "hf")
        self.assertFalse((out / "hf/adapter_config.json").exists())
        adapter = self.root / "adapter"
        write_safetensors(adapter / "adapter_model.safetensors", {"base_model.model.q.lora_A.weight": ones(2, 4)})
        (adapter / "adapter_config.json").write_text("{}")
        out, result = self.exported(adapter, "--views", "hf")
        self.assertEqual({path.name for path in (out / "hf").iterdir()},
                         {"adapter_config.json", "adapter_model.safetensors"})
        self.assertNotIn("config.json", result.stderr)

    def test_those_of_the_step_of_a_run(self) -> None:
        for step in (5, 10):
            place = self.source({"format": "pt"}, f"run/checkpoint-{step}", x=step)
            if step == 10:  # as verl has it
                (place / "huggingface").mkdir()
                place = (place / "config.json").rename(place / "huggingface/config.json").parent
            (place / "tokenizer.json").write_text(f'{{"step": {step}}}')
        for words, step in (((), 10), (("--step", "5"), 5)):
            out, result = self.exported(self.root / "run", "--views", "hf", *words)
            self.assertEqual(json.loads((out / "hf/config.json").read_text())["x"], step)
            self.assertEqual(json.loads((out / "hf/tokenizer.json").read_text())["step"], step)
            self.assertNotIn("no config.json", result.stderr)


if __name__ == "__main__":
    run_unittests()
