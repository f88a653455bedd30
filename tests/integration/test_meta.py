# SPDX-License-Identifier: Apache-2.0
"""Meta's releases of Llama: consolidated.NN.pth with params.json, joined and with the names of Hugging Face.

meta_sets.py cuts the files with numpy.split; the rows of query and key are put in the order of transformers with
the operations of its converter.
"""

from __future__ import annotations

import json
import shutil
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

import numpy as np  # noqa: E402
from format_files import Tensors, read_safetensors, write_safetensors  # noqa: E402
from meta_sets import (DIM, FFN, GROUPS, HEAD, HEADS, LAYERS, VOCABULARY, Arrays, part_of, whole_model,  # noqa: E402
                       write_release)
from mounted import mounted, one_line, run, run_unittests, scratch  # noqa: E402
from torch_archive import stored, write_archive  # noqa: E402


def of_hugging_face(model: Arrays) -> Arrays:
    out = {"model.embed_tokens.weight": model["tok_embeddings.weight"], "model.norm.weight": model["norm.weight"],
           "lm_head.weight": model["output.weight"]}
    words = {"attention.wq": "self_attn.q_proj", "attention.wk": "self_attn.k_proj", "attention.wv": "self_attn.v_proj",
             "attention.wo": "self_attn.o_proj", "feed_forward.w1": "mlp.gate_proj", "feed_forward.w2": "mlp.down_proj",
             "feed_forward.w3": "mlp.up_proj", "attention_norm": "input_layernorm",
             "ffn_norm": "post_attention_layernorm"}
    for layer in range(LAYERS):
        for meta, word in words.items():
            array = model[f"layers.{layer}.{meta}.weight"]
            if meta in ("attention.wq", "attention.wk"):
                heads = array.shape[0] // HEAD
                array = array.reshape(heads, HEAD // 2, 2, DIM).swapaxes(1, 2).reshape(heads * HEAD, DIM)
            out[f"model.layers.{layer}.{word}.weight"] = np.ascontiguousarray(array)
    return out


def as_tensors(arrays: Arrays) -> Tensors:
    return {name: ("F32", array) for name, array in arrays.items()}


class Meta(unittest.TestCase):
    def setUp(self) -> None:
        self.root = self.enterContext(scratch())
        self.place = self.root / "Llama"
        self.model = whole_model()

    def check(self, source: Path, want: Arrays, *options: str | Path) -> None:
        out = self.root / "out.safetensors"
        result = run("export", source, out, "--force", *options)
        self.assertEqual(result.code, 0, result.stderr)
        got = read_safetensors(out)[0]
        self.assertEqual(sorted(got), sorted(want))
        for name, array in want.items():
            self.assertEqual((got[name][1].shape, got[name][1].tobytes()), (array.shape, array.tobytes()), name)

    def refused(self, *words: str, command: str = "export", options: tuple[str, ...] = ()) -> str:
        more = (self.root / "out", "--force") if command == "export" else ()
        result = run(command, self.place, *more, *options)
        self.assertEqual(result.code, 2, result.stdout)
        for word in words:
            self.assertIn(word, one_line(result))
        return one_line(result)

    def test_parts_are_joined(self) -> None:
        for files in (1, 2):
            for embedding in (0, 1):
                for vocabulary in (VOCABULARY, -1):
                    with self.subTest(files=files, embedding=embedding, vocabulary=vocabulary):
                        shutil.rmtree(self.place, ignore_errors=True)
                        write_release(self.place, self.model, files, embedding=embedding, vocab_size=vocabulary)
                        self.check(self.place, self.model)
                        self.assertEqual(run("verify", self.place).code, 0)
                        shown = run("inspect", self.place)
                        self.assertIn("complete, according to layers.*.attention.wq.weight and params.json", shown.stdout)
                        description = json.loads(run("inspect", self.place, "--json").stdout)["description"]
                        self.assertEqual(description["kind"], "meta")

    def test_with_the_names_of_hugging_face(self) -> None:
        for files, embedding in ((1, 0), (2, 0), (2, 1)):
            with self.subTest(files=files, embedding=embedding):
                shutil.rmtree(self.place, ignore_errors=True)
                write_release(self.place, self.model, files, embedding=embedding)
                self.check(self.place, of_hugging_face(self.model), "--map", "meta-llama")
                self.check(self.place, of_hugging_face(self.model), "--map", "auto")
        with mounted(self.place, "--map", "meta-llama", "--views", "hf") as mount:
            self.assertFalse((mount / "hf/config.json").exists())  # params.json is none

    def test_from_hugging_face(self) -> None:
        hub = self.root / "hub"
        hub.mkdir()
        write_safetensors(hub / "model.safetensors", as_tensors(of_hugging_face(self.model)))
        (hub / "config.json").write_text(json.dumps(
            {"model_type": "llama", "hidden_size": DIM, "num_attention_heads": HEADS, "num_key_value_heads": GROUPS,
             "num_hidden_layers": LAYERS, "intermediate_size": FFN, "vocab_size": VOCABULARY}))
        want = {name: array for name, array in self.model.items() if name != "rope.freqs"}
        self.check(hub, want, "--map", "meta-llama")

    def test_missing_files(self) -> None:
        write_release(self.place, self.model, 2)
        (self.place / "consolidated.01.pth").rename(self.root / "second")
        self.refused("prove that the model is in 2 files", "none of number 1", "consolidated.01.pth")
        self.refused("none of number 1", command="verify")
        (self.root / "second").rename(self.place / "consolidated.01.pth")
        (self.place / "consolidated.00.pth").unlink()
        self.refused("none of number 0", "consolidated.00.pth")

    def test_more_files_than_there_should_be(self) -> None:
        write_release(self.place, self.model, 2)
        shutil.copy(self.place / "consolidated.01.pth", self.place / "consolidated.02.pth")
        self.refused("has 3 files such as 'consolidated.02.pth'", "in 2 files")

    def test_without_params(self) -> None:
        write_release(self.place, self.model, 2)
        (self.place / "params.json").unlink()
        self.refused("has 2 files of a release of Meta, but no params.json")
        (self.place / "params.json").write_text('{"dim": 16}')
        self.refused("params.json", "has no number 'n_heads'")

    def test_params_of_another_model(self) -> None:
        write_release(self.place, self.model, 2, dim=32)
        self.refused("consolidated.00.pth", "layers.0.attention.wq.weight", "should have 32 columns")
        write_release(self.place, self.model, 2, vocab_size=VOCABULARY + 2)
        self.refused("output.weight", "is not what params.json states")

    def test_what_no_layout_states(self) -> None:
        """Its name is unknown, or each file has all key heads."""
        model = self.model | {"vision.weight": np.ones((4, 4), "<f4")}
        write_release(self.place, model, 2)
        self.refused("vision.weight", "does not state how the files cut")
        self.check(self.place, self.model, "--exclude", "vision.weight")
        write_release(self.place, self.model, 2, n_kv_heads=1)
        self.refused("layers.0.attention.wk.weight", "is not what params.json states")
        shutil.rmtree(self.place)
        write_release(self.place, model, 1)
        self.check(self.place, model)

    def test_copies_that_differ(self) -> None:
        write_release(self.place, self.model, 2)
        other = {name: stored(part_of(name, array, 2, 1, 0)) for name, array in self.model.items()}
        other["norm.weight"] = stored(self.model["norm.weight"] + 1)
        write_archive(self.place / "consolidated.01.pth", other)
        self.refused("norm.weight", "differ")
        result = run("verify", self.place)
        self.assertEqual(result.code, 1, result.stderr)
        self.assertIn("norm.weight", result.stdout + result.stderr)

    def test_damaged_files(self) -> None:
        write_release(self.place, self.model, 2)
        victim = self.place / "consolidated.01.pth"
        data = victim.read_bytes()
        for damaged in (b"", data[:100], data[:-200]):
            victim.write_bytes(damaged)
            self.refused("consolidated.01.pth")

    def test_beside_another_form(self) -> None:
        """A directory with safetensors, too, stands for these."""
        write_release(self.place, self.model, 2)
        write_safetensors(self.place / "model.safetensors", as_tensors({"w": np.ones((2, 2), "<f4")}))
        self.check(self.place, {"w": np.ones((2, 2), "<f4")})


if __name__ == "__main__":
    run_unittests()
