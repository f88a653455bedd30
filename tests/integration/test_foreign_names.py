# SPDX-License-Identifier: Apache-2.0
"""Names that no map knows: those that wrappers of PyTorch change, and those of LoRA adapters. What is said of
them leads to what works."""

from __future__ import annotations

import json
import re
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

import numpy as np  # noqa: E402
from format_files import Tensors, read_safetensors, same, write_safetensors  # noqa: E402
from map_sets import GOLDEN, golden  # noqa: E402
from mounted import one_line, run, run_unittests, scratch  # noqa: E402
from torch_archive import Storage, Stored, write_archive  # noqa: E402

CASE = "qwen3_mcore"
MAP = ("--map", "mindformers-qwen3")
CONFIG = ("--model-config", GOLDEN / CASE / "config.json")
WRAPPERS = ("module", "model.module", "module.module", "module._orig_mod")


def settings() -> list[str]:
    case = json.loads((GOLDEN / CASE / "case.json").read_text())
    return [word for name, value in case.get("vars", {}).items() for word in ("--map-var", f"{name}={value}")]


class NamesTest(unittest.TestCase):
    def setUp(self) -> None:
        self.root = self.enterContext(scratch())
        self.out = self.root / "out.safetensors"

    def written(self, tensors: Tensors, name: str = "model.safetensors") -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".safetensors":
            write_safetensors(path, tensors)
        else:
            write_archive(path, {tensor: Stored(Storage(kind, array.tobytes()), array.shape)
                                 for tensor, (kind, array) in tensors.items()})
        return path

    def exported(self, source: Path, *options: str | Path) -> Tensors:
        result = run("export", source, self.out, "--force", *options)
        self.assertEqual(result.code, 0, result.stderr)
        return read_safetensors(self.out)[0]

    def refused(self, source: Path, *options: str | Path) -> str:
        result = run("export", source, self.root / "out", *options)
        self.assertEqual(result.code, 2, result.stdout)
        return one_line(result)


class Wrapped(NamesTest):
    def test_the_hint_leads_to_the_model(self) -> None:
        hub, core = golden(CASE, "src"), golden(CASE, "expected")
        for number, key in enumerate(WRAPPERS):
            for extension in ("safetensors", "pt"):
                source = self.written({f"{key}.{name}": tensor for name, tensor in hub.items()},
                                      f"{number}/model.{extension}")
                with self.subTest(key=key, extension=extension):
                    for wrong in ((*MAP, *settings(), *CONFIG), ("--map", "auto")):
                        line = self.refused(source, *wrong)
                        self.assertIn(f"the names begin with '{key}.'", line)
                        self.assertNotIn("did you mean --map", line)
                        (option,) = re.findall(r"(--state-key \S+) takes it off", line)
                    shown = run("inspect", source)
                    self.assertIn(option, re.sub(r"\s+", " ", shown.stdout))
                    words = option.split()
                    same(self, self.exported(source, *words), hub)
                    same(self, self.exported(source, *words, *MAP, *settings(), *CONFIG), core)
                    self.assertEqual(run("verify", source, *words).code, 0)

    def test_shards_with_an_index(self) -> None:
        hub = golden(CASE, "src")
        places, names = {}, sorted(hub)
        for number in (1, 2):
            file = f"model-0000{number}-of-00002.safetensors"
            part = {f"module.{name}": hub[name] for name in names[number - 1::2]}
            self.written(part, f"hub/{file}")
            places |= dict.fromkeys(part, file)
        source = self.root / "hub"
        total = sum(array.nbytes for _, array in hub.values())
        (source / "model.safetensors.index.json").write_text(
            json.dumps({"metadata": {"total_size": total}, "weight_map": places}))
        same(self, self.exported(source, "--state-key", "module"), hub)
        self.assertEqual(run("verify", source, "--state-key", "module").code, 0)

    def test_a_key_that_nothing_is_below(self) -> None:
        source = self.written(golden(CASE, "src"))
        for command in (("inspect", source), ("verify", source)):
            result = run(*command, "--state-key", "module")
            self.assertEqual(result.code, 2, result.stdout)
            self.assertIn("has no tensor below the key 'module' of --state-key", one_line(result))

    def test_words_that_are_wrappers_alone_go_by_themselves(self) -> None:
        hub, core = golden(CASE, "src"), golden(CASE, "expected")
        for number, (pattern, new) in enumerate(((r"^", "_orig_mod."), (r"(layers\.\d+)\.", r"\1._fsdp_wrapped_module."),
                                                 (r"mlp\.", "mlp._checkpoint_wrapped_module."))):
            source = self.written({re.sub(pattern, new, name): tensor for name, tensor in hub.items()},
                                  f"inside{number}/model.safetensors")
            with self.subTest(new=new):
                same(self, self.exported(source), hub)
                same(self, self.exported(source, *MAP, *settings(), *CONFIG), core)
                self.assertEqual(run("verify", source).code, 0)
                self.assertEqual(run("diff", source, self.written(hub, "plain/model.safetensors")).code, 0)

    def test_words_of_wrappers_stay_where_names_would_be_one(self) -> None:
        hub = golden(CASE, "src")
        name = next(iter(hub))
        tensors = hub | {"_orig_mod." + name: hub[name]}
        source = self.written(tensors, "twice/model.safetensors")
        same(self, self.exported(source), tensors)
        for command in ("plan", "inspect", "verify"):
            with self.subTest(command):
                self.assertIn(f"without these, '{name}' and '_orig_mod.{name}' would have the same name",
                              run(command, source).stderr)

    def test_a_name_map_has_the_stored_names(self) -> None:
        hub = golden(CASE, "src")
        source = self.written({"_orig_mod." + name: tensor for name, tensor in hub.items()})
        names = self.root / "names.json"
        names.write_text(json.dumps({"_orig_mod." + name: "new." + name for name in hub}))
        same(self, self.exported(source, "--name-map", names), {"new." + name: tensor for name, tensor in hub.items()})

    def test_where_two_names_would_become_one_both_stay(self) -> None:
        tensors = {"a.w": ("F32", np.ones((2, 2), "<u4")), "_orig_mod.a.w": ("F32", np.zeros((2, 2), "<u4"))}
        same(self, self.exported(self.written(tensors)), tensors)

    def test_other_names_are_left_alone(self) -> None:
        source = self.written(golden(CASE, "src") | {"module.w": ("F32", np.ones((2, 2), "<u4"))})
        self.assertNotIn("wrapper", run("inspect", source).stdout)


class Adapter(NamesTest):
    TENSORS = {f"base_model.model.model.layers.{layer}.self_attn.{word}_proj.lora_{half}.weight":
               ("F32", np.full((2, 8) if half == "A" else (8, 2), layer, "<u4"))
               for layer in range(2) for word in "qv" for half in "AB"}

    def adapter(self, base: str | None = "org/base") -> Path:
        source = self.written(self.TENSORS, "adapter/adapter_model.safetensors").parent
        if base is not None:
            (source / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": base}))
        return source

    def test_it_is_said_to_be_one(self) -> None:
        source = self.adapter()
        shown = re.sub(r"\s+", " ", run("inspect", source).stdout)
        self.assertIn("LoRA adapter of org/base", shown)
        same(self, self.exported(source), self.TENSORS)
        for options in (("--map", "megatron-llama", "--map-var", "vocab_multiple=1"), ("--map", "auto"),
                        ("--dst-strategy", "tp=2")):
            line = self.refused(source, *options)
            self.assertIn("LoRA adapter of org/base", line)
            self.assertIn("merge_and_unload", line)
            self.assertNotIn("did you mean --map", line)

    def test_without_its_configuration(self) -> None:
        self.assertIn("of a model that no adapter_config.json names",
                      re.sub(r"\s+", " ", run("inspect", self.adapter(None)).stdout))

    def test_beside_its_model(self) -> None:
        """The directory stands for the model."""
        model: Tensors = {"w": ("F32", np.ones((2, 2), "<u4"))}
        source = self.adapter()
        write_safetensors(source / "model.safetensors", model)
        same(self, self.exported(source), model)
        same(self, self.exported(source / "adapter_model.safetensors"), self.TENSORS)


if __name__ == "__main__":
    run_unittests()
