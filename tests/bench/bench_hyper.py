#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures --views hyper for a training of MindSpore Transformers of 66 GiB: the ranks' files are sparse, and have
weights and moments with the names of a Qwen3 model of the given number of layers. Prints the seconds from the command
to the first tensor in a program, and to the last of all bytes, and the largest memory of the mount's process.

--check fails (exit code 1) where the process took more than 64 MiB beyond what it has before the first read.
"""

from __future__ import annotations

import argparse
import json
import struct
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integration"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from layouts import Layout  # noqa: E402
from map_sets import config_of  # noqa: E402
from mounted import SKIP, Settings, fuse_problem, mounted, processes_of, scratch  # noqa: E402
from strategy_files import Strategy, write_protobuf  # noqa: E402
from trainer_loader import Loader, latest_step  # noqa: E402

RANKS = 8
HIDDEN, FFN, HEAD, GROUPS, VOCABULARY = 4096, 12288, 128, 8, 151936
MIB = 1 << 20
MOST_GROWTH = 64 * MIB
ROWS, COLUMNS, WHOLE = (0,), (1,), ()


def shapes(layers: int) -> dict[str, tuple[tuple[int, ...], tuple[int, ...]]]:
    """Of each weight its shape, and the dimension that the ranks share."""
    out = {"embedding.word_embeddings.weight": ((VOCABULARY, HIDDEN), ROWS),
           "output_layer.weight": ((VOCABULARY, HIDDEN), ROWS), "decoder.final_layernorm.weight": ((HIDDEN,), WHOLE)}
    for layer in range(layers):
        at = f"decoder.layers.{layer}."
        out |= {f"{at}input_layernorm.weight": ((HIDDEN,), WHOLE), f"{at}pre_mlp_layernorm.weight": ((HIDDEN,), WHOLE),
                f"{at}self_attention.q_layernorm.weight": ((HEAD,), WHOLE),
                f"{at}self_attention.k_layernorm.weight": ((HEAD,), WHOLE),
                f"{at}self_attention.linear_qkv.weight": ((HIDDEN + 2 * GROUPS * HEAD, HIDDEN), ROWS),
                f"{at}self_attention.linear_proj.weight": ((HIDDEN, HIDDEN), COLUMNS),
                f"{at}mlp.linear_fc1.weight": ((2 * FFN, HIDDEN), ROWS),
                f"{at}mlp.linear_fc2.weight": ((HIDDEN, FFN), COLUMNS)}
    return out


def write_sparse(path: Path, tensors: dict[str, tuple[int, ...]]) -> int:
    header, at = {}, 0
    for name, shape in tensors.items():
        length = 4
        for size in shape:
            length *= size
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [at, at + length]}
        at += length
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.parent.mkdir(parents=True)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + at)
    return at


def write_training(root: Path, layers: int) -> int:
    total, layouts = 0, {}
    parts: dict[str, tuple[int, ...]] = {}
    for weight, (shape, cut) in shapes(layers).items():
        layout = Layout((RANKS,), tuple((0,) if d in cut else () for d in range(len(shape))))
        for name in (weight, f"adam_m.{weight}", f"adam_v.{weight}"):
            layouts[name] = layout
            parts[name] = tuple(size // RANKS if d in cut else size for d, size in enumerate(shape))
    for rank in range(RANKS):
        total += write_sparse(root / f"ckpt/rank_{rank}/qwen3-1_100.safetensors", parts)
    write_protobuf(Strategy([layouts]), root / "train.ckpt")
    config = config_of("qwen3_mcore") | {
        "hidden_size": HIDDEN, "intermediate_size": FFN, "head_dim": HEAD, "num_attention_heads": HIDDEN // HEAD,
        "num_key_value_heads": GROUPS, "num_hidden_layers": layers, "vocab_size": VOCABULARY}
    (root / "config.json").write_text(json.dumps(config))
    return total


def peak_of(mountpoint: Path) -> int:
    """Bytes, of the process that serves the mount."""
    peaks = []
    for pid in processes_of(mountpoint):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                peaks.append(int(line.split()[1]) * 1024)
    return max(peaks)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", type=Path, required=True)
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--first", action="store_true", help="do not read the rest")
    arguments = parser.parse_args()
    Settings.binary, Settings.mount_seconds = arguments.binary, 3600
    if problem := fuse_problem():
        print(problem)
        return SKIP
    with scratch() as root:
        stored = write_training(root, arguments.layers)
        print(f"{stored / (1 << 30):.1f} GiB in the files of {RANKS} ranks")
        begin = time.monotonic()
        with mounted(root / "ckpt", "--src-strategy", root / "train.ckpt", "--map", "mindformers-qwen3",
                     "--model-config", root / "config.json", "--map-var", "interleaved=1", "--map-var", "contiguous=0",
                     "--map-var", "trainer_step=100", "--views", "hyper") as mountpoint:
            step = latest_step(mountpoint / "hyper")
            loader = Loader(step)
            name = "model.model.layers.0.mlp.up_proj.weight"
            info = loader.place(name, (0, 0), 0)
            first = loader.file(info).get(info.tensor_key)[1].copy()
            print(f"{time.monotonic() - begin:.2f} s to the first tensor, of {first.nbytes / MIB:.0f} MiB")
            del loader  # whose files would keep the mount
            before = peak_of(mountpoint)
            shown = 0
            for path in () if arguments.first else sorted(step.iterdir()):
                with path.open("rb", buffering=0) as file:
                    while part := file.read(8 * MIB):
                        shown += len(part)
            print(f"{time.monotonic() - begin:.0f} s to the last of {shown / (1 << 30):.1f} GiB")
            after = peak_of(mountpoint)
        print(f"{before / MIB:.0f} MiB of memory at most before, {after / MIB:.0f} MiB after all was read")
        return int(arguments.check and after - before > MOST_GROWTH)


if __name__ == "__main__":
    sys.exit(main())
