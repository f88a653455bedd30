# SPDX-License-Identifier: Apache-2.0
"""The checkpoints that the commands of README.md and docs/ are for, under the names that these give them: each
set in a directory of its own, with ckpt, train.ckpt and what else its commands name."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

# First, because it finds the modules of tests/data.
from map_sets import (config_of, golden, mcore_rules, mcore_strategy, megatron_spec, with_states, write_hub,
                      write_ranks)

import deepspeed_sets
import numpy as np
from ckpt_format import by_name, encode_checkpoint, record_of
from documents import ROOT, block_that_begins
from format_files import write_ckpt, write_safetensors
from layouts import Layout
from megatron_ranks import write_set
from meta_sets import whole_model, write_release
from mounted import run
from strategy_files import Strategy, write_protobuf

CONFIG = {"architectures": ["LlamaForCausalLM"], "hidden_size": 512, "intermediate_size": 1408,
          "num_attention_heads": 8, "num_hidden_layers": 4, "num_key_value_heads": 8,
          "tie_word_embeddings": False, "vocab_size": 7680}
# How the demo's matrices are cut.
CUTS = """[[rule]]
match = ["*.attention.wo.weight", "*.feed_forward.w2.weight"]
cut = ["", "tp"]
[[rule]]
match = ["*.attention.w[qkv].weight", "*.feed_forward.w[13].weight", "*embedding_weight",
         "*lm_head.weight"]
cut = ["tp", ""]
"""
TP8 = '[devices]\naxes = ["tp=8"]\n' + CUTS


def reshardfs(*words: str | Path) -> None:
    result = run(*words)
    if result.code:
        raise AssertionError(f"{words}: {result.stderr}")


class Sets:
    """Makes each set when a command needs it, once."""

    def __init__(self, top: Path) -> None:
        self.top = top

    def directory_of(self, command: str) -> Path:
        """Where to run a command: in the directory of the first set whose pattern finds something in it."""
        make = next(make for pattern, make in SETS if re.search(pattern, command))
        directory = self.top / make.__name__
        if not directory.exists():
            directory.mkdir()
            make(self, directory)
        return directory

    def sample(self, to: Path) -> Path:
        """The set of `reshardfs demo`, with its strategies as train.ckpt and serve.ckpt; its ranks."""
        made = self.top / "sample"
        if not made.exists():
            reshardfs("demo", made)
        for name, called in (("src_strategy.ckpt", "train.ckpt"), ("dst_strategy.ckpt", "serve.ckpt")):
            shutil.copy(made / "source" / name, to / called)
        return made / "source"

    def nothing(self, to: Path) -> None:
        """Where the sample is made."""

    def demo(self, to: Path) -> None:
        ranks = self.sample(to)
        source = ("ckpt", "--src-strategy", to / "train.ckpt")
        (to / "ckpt").symlink_to(ranks)
        (to / "config").symlink_to(ROOT / "config")
        (to / "config.json").write_text(json.dumps(CONFIG))
        (to / "renames.toml").write_text(block_that_begins("[[block]]"))
        (to / "names.json").write_text(json.dumps({"lm_head.weight": "head.weight"}))
        (to / "reshardfs.toml").write_text(
            f'[mount.tp4]\nsource = "{to}/ckpt"\nmountpoint = "{to}/mnt/tp4"\n'
            f'src-strategy = "{to}/train.ckpt"\ndst-strategy = "tp=4"\n')
        (to / "mnt/tp4").mkdir(parents=True)
        (to / "stages").mkdir()
        shutil.copy(to / "train.ckpt", to / "stages")
        source = (to / "ckpt", "--src-strategy", to / "train.ckpt")
        (to / "tp8.toml").write_text(TP8)
        reshardfs("strategy", "convert", to / "tp8.toml", "--source", self.whole(to), "-O", to / "tp8.json")
        reshardfs("export", *source, self.top / "hub", "--views", "hub")
        (to / "hub-model").symlink_to(self.top / "hub/merged")
        reshardfs("export", *source, self.top / "two", "--views", "iteration", "--dst-strategy", "tp=4")
        (to / "output").symlink_to(self.top / "two/iteration")
        reshardfs("export", *source, self.top / "one", "--views", "merged-safetensors")
        (to / "merged.safetensors").symlink_to(self.top / "one/merged/checkpoint_merged.safetensors")

    def whole(self, to: Path) -> Path:
        """model.ckpt, which a command of a page writes too."""
        out = self.top / "whole"
        reshardfs("export", to / "ckpt", out, "--src-strategy", to / "train.ckpt", "--views", "merged-ckpt")
        shutil.copy(out / "merged/checkpoint_merged.ckpt", to / "model.ckpt")
        return to / "model.ckpt"

    def steps(self, to: Path) -> None:
        """An older step and a newer one."""
        for path in self.sample(to).glob("rank_*/*.ckpt"):
            rank = to / "ckpt" / path.parent.name
            rank.mkdir(parents=True)
            for name in ("llama-9_50.ckpt", "llama-10_20.ckpt"):
                (rank / name).symlink_to(path)

    def workers(self, to: Path) -> None:
        for path in self.sample(to).glob("rank_*/*.ckpt"):
            worker = to / "ckpt" / path.parent.name.replace("rank_", "worker")
            worker.mkdir(parents=True)
            (worker / "net-3_100.ckpt").symlink_to(path)

    def guessed(self, to: Path) -> None:
        """Ranks whose slices tell how they were cut."""
        source = self.sample(to)
        reshardfs("export", source, to / "ckpt", "--src-strategy", to / "train.ckpt", "--dst-strategy", "tp=4")
        (to / "config.json").write_text(json.dumps(CONFIG))
        (to / "train.ckpt").unlink()

    def encrypted(self, to: Path) -> None:
        case = ROOT / "tests/golden/encrypted"
        name = "AES-GCM_256.ckpt"
        (to / "ckpt/rank_0").mkdir(parents=True)
        shutil.copy(case / "src" / name, to / "ckpt/rank_0/net-1_1.ckpt")
        (to / "key.hex").write_text(json.loads((case / "case.json").read_text())["keys_hex"][name]["key"])
        (to / "key.hex").chmod(0o600)
        records = by_name((case / "dst/plain.ckpt").read_bytes())
        write_protobuf(Strategy([{name: Layout((1,), ((),) * len(record.shape))
                                  for name, record in records.items() if record.shape}]), to / "train.ckpt")

    def floats(self, to: Path) -> None:
        """Weights, moments and counters of the same type, on one rank."""
        names = ("model.norm.weight", "lm_head.weight", "adam_m.lm_head.weight", "adam_v.lm_head.weight")
        records = [record_of(name, "Float32", np.full((4, 4), number / 3, "<f4"))
                   for number, name in enumerate(names)]
        records.append(record_of("global_step", "Float32", np.array([16777217 / 2], "<f4")))
        (to / "ckpt/rank_0").mkdir(parents=True)
        (to / "ckpt/rank_0/net-1_1.ckpt").write_bytes(encode_checkpoint(records))
        strategy = Strategy([{name: Layout((1,), ((), ())) for name in names}])
        for name in ("train.ckpt", "serve.ckpt"):
            write_protobuf(strategy, to / name)

    def qwen(self, to: Path) -> None:
        """A model from the hub, and the same as MindFormers trains it."""
        tensors = with_states(golden("qwen3_mcore", "expected"))
        write_protobuf(mcore_strategy(tensors), to / "train.ckpt")
        write_ranks(to / "ckpt", tensors, mcore_strategy(tensors))
        hub = to / "Qwen3-8B"
        hub.mkdir()
        write_hub(hub, golden("qwen3_mcore", "src"), config_of("qwen3_mcore"))
        (hub / "tokenizer.json").write_text("{}")
        mcore_rules(to / "rules.toml", tp=2, stages=1)
        (to / "run.yaml").write_text(
            "model:\n  model_config:\n    use_interleaved_weight_layout_mlp: True\n"
            "    use_contiguous_weight_layout_attention: False\n")

    def whole_qwen(self, to: Path) -> None:
        """A model that one device has trained."""
        write_ckpt(to / "ckpt/rank_0/net-1_1.ckpt", golden("qwen3_mcore", "expected"))
        hub = to / "Qwen3-8B"
        hub.mkdir()
        write_hub(hub, golden("qwen3_mcore", "src"), config_of("qwen3_mcore"))

    def megatron(self, to: Path) -> None:
        """What a training with Megatron-LM on two by two devices leaves."""
        case = "megatron_llama_numbered"
        write_set(to / "megatron-run", megatron_spec(case, tensor=2, pipeline=2))
        (to / "Qwen3-8B").mkdir()
        (to / "Qwen3-8B/config.json").write_text(json.dumps(config_of(case)))

    def hybrid(self, to: Path) -> None:
        """What a training of a HybridModel leaves, and the same model from the hub."""
        case = ROOT / "tests/golden_megatron/llama-optimizer"
        shutil.copytree(case / "hybrid", to / "hybrid-run")
        shutil.copytree(case / "gpt", to / "gpt-run")
        shutil.copytree(case / "hf", to / "Llama-3.1-8B")

    def zero(self, to: Path) -> None:
        """What a training with DeepSpeed on four devices leaves, beside the model's configuration and tokenizer."""
        weights = {name: array for name, (_, array) in golden("qwen3_mcore", "src").items()}
        shapes = {name: array.shape for name, array in weights.items()}
        moments = {kind: {name: np.zeros(shape, "<f4") for name, shape in shapes.items()} for kind in deepspeed_sets.MOMENTS}
        spec = deepspeed_sets.Spec(4, 3, [shapes], weights, moments, prefix="bf16_", tag="global_step500")
        run = to / "zero3-run"
        deepspeed_sets.write_set(run, spec)
        (run / "config.json").write_text(json.dumps(config_of("qwen3_mcore")))
        (run / "tokenizer.json").write_text("{}")

    def quantized(self, to: Path) -> None:
        """A model in 8-bit floats, with a scale for each block."""
        place = to / "DeepSeek-V3"
        place.mkdir()
        write_safetensors(place / "model.safetensors", {
            "model.layers.0.mlp.down_proj.weight": ("F8_E4M3", np.full((4, 6), 0x38, np.uint8)),
            "model.layers.0.mlp.down_proj.weight_scale_inv": ("F32", np.ones((2, 3), "<f4"))})
        (place / "config.json").write_text(json.dumps({"quantization_config": {"weight_block_size": [2, 2]}}))

    def items(self, to: Path) -> None:
        """What torch_checkpointing has saved."""
        shutil.copytree(ROOT / "tests/goldentorch/items_fsdp4_torch_215/src", to / "run/step_2")

    def torch(self, to: Path) -> None:
        """What PyTorch's trainers leave."""
        cases = ROOT / "tests/goldentorch"
        shutil.copy(cases / "nested_model_214/src/checkpoint.pt", to / "checkpoint.pt")
        shutil.copytree(cases / "fsdp2_w2_26/src", to / "global_step_10/actor")
        shutil.copytree(cases / "deepspeed_z2_w3_groups/src", to / "run")
        write_release(to / "Meta-Llama-3-70B", whole_model(), 2)


SETS: list[tuple[str, Callable[[Sets, Path], None]]] = [
    ("zero3-run", Sets.zero),
    ("run/step_2", Sets.items),
    ("megatron-run", Sets.megatron),
    ("--map megatron-hybrid", Sets.hybrid),
    ("--dequantize", Sets.quantized),
    (r"checkpoint\.pt|global_step_10|Meta-Llama|(export|mount) run ", Sets.torch),
    ("--map megatron", Sets.whole_qwen),
    ("qwen3|Qwen3", Sets.qwen),
    ("9_50|--step all", Sets.steps),
    (r"worker\{rank\}", Sets.workers),
    ("--dec-key-file", Sets.encrypted),
    ("--cast", Sets.floats),
    ("strategy guess|--src-strategy rules.toml", Sets.guessed),
    ("^reshardfs demo|sample/", Sets.nothing),
    ("", Sets.demo),
]
