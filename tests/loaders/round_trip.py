#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""From a model that transformers made, to MindFormers' or Megatron's ranks, and back through hf/.

For each installed map: transformers saves a small random model; reshardfs writes it as rank files of
the map's other side; a mount of these shows hf/, which transformers loads. Every tensor and the
model's logits must equal the original's, bit for bit.

Debian's unstable distribution has torch and transformers, and a chroot of it is enough:

    debootstrap --variant=minbase sid CHROOT
    chroot CHROOT apt-get install -y --no-install-recommends python3-torch python3-transformers
    tests/loaders/round_trip.py --binary build/release/bin/reshardfs --chroot CHROOT
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

# Map, families, the number of ranks whose files each tensor is cut into, and what shapes do not reveal.
RELEASE, VOCABULARY = ("release=1.7",), ("vocab_multiple=64",)
MAPS = (("mindformers-llama", ("llama", "llama_tied", "qwen2", "mistral"), 2, ()),
        ("mindformers-llama-qkv-concat", ("llama", "qwen2"), 2, ()),
        ("mindformers-mixtral", ("mixtral",), 2, ()),
        ("mindformers-mixtral-gmm", ("mixtral",), 2, ()),
        ("mindformers-qwen3", ("qwen3",), 4, RELEASE),
        ("mindformers-qwen3-moe", ("qwen3_moe",), 2, RELEASE),
        ("mindformers-deepseek-v3", ("deepseek_v3",), 2, RELEASE),
        ("mindformers-deepseek-legacy", ("deepseek_v3",), 2, ("grouped=1",)),
        ("megatron-ranks-llama", ("llama", "llama_tied", "qwen2", "qwen3", "mistral"), 2, VOCABULARY),
        ("vllm-llama", ("llama", "llama_tied", "qwen2", "qwen3", "mistral"), 2, ()),
        # Layers are stacked along dimension 0, three of them.
        ("megatron-llama", ("llama", "llama_tied", "qwen2", "qwen3", "mistral"), 1, VOCABULARY),
        ("megatron-llama-numbered", ("llama", "llama_tied", "qwen2", "qwen3", "mistral"), 1, VOCABULARY),
        ("megatron-qwen3-moe", ("qwen3_moe",), 1, VOCABULARY),
        ("megatron-qwen3-moe-numbered", ("qwen3_moe",), 1, VOCABULARY),
        ("megatron-deepseek-v3", ("deepseek_v3",), 1, VOCABULARY),
        ("megatron-glm4-moe", ("glm4_moe",), 1, VOCABULARY),
        ("megatron-mixtral", ("mixtral",), 1, VOCABULARY),
        ("megatron-mixtral-numbered", ("mixtral",), 1, VOCABULARY),
        ("megatron-minimax-m2", ("minimax_m2",), 1, VOCABULARY),
        ("megatron-minimax-m2-numbered", ("minimax_m2",), 1, VOCABULARY),
        ("megatron-gpt-oss", ("gpt_oss",), 1, VOCABULARY),
        ("megatron-gpt-oss-numbered", ("gpt_oss",), 1, VOCABULARY),
        ("megatron-gemma3", ("gemma3",), 1, VOCABULARY),
        ("packed-experts", ("qwen3_moe", "deepseek_v3", "glm4_moe"), 1, ()),
        ("packed-experts-mixtral", ("mixtral", "minimax_m2"), 1, ()))
RULES = '[devices]\naxes = ["tp={ranks}"]\n[[rule]]\nmatch = "*"\n{cut}\n'


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, required=True)
    parser.add_argument("--chroot", type=Path, default=Path("/"),
                        help="a system whose python3 has torch and transformers; default: this one")
    parser.add_argument("maps", nargs="*", help="those to try; default: all")
    arguments = parser.parse_args()
    binary = str(arguments.binary.absolute())
    with tempfile.TemporaryDirectory(dir=arguments.chroot / "tmp") as directory:
        root = Path(directory)
        # As Python in the chroot sees it.
        inside = Path("/") / root.relative_to(arguments.chroot)
        shutil.copy(Path(__file__).with_name("models.py"), root)

        def models(*words: object) -> subprocess.CompletedProcess[str]:
            command = [] if arguments.chroot == Path("/") else ["chroot", arguments.chroot]
            return subprocess.run([*command, "python3", inside / "models.py", *words],
                                  text=True, capture_output=True)

        made = models("make", inside / "hub")
        if made.returncode:
            sys.exit(made.stderr)
        wrong = 0
        for name, families, ranks, settings in MAPS:
            if arguments.maps and name not in arguments.maps:
                continue
            variables = [word for setting in settings for word in ("--map-var", setting)]
            rules = root / "rules.toml"
            rules.write_text(RULES.format(ranks=ranks, cut='cut = ["tp"]' if ranks > 1 else ""))
            for family in families:
                hub = root / "hub" / family
                cut, mountpoint = root / f"{name}-{family}", root / "mnt"
                mountpoint.mkdir(exist_ok=True)
                subprocess.run([binary, "export", hub, cut, "--map", name, *variables,
                                "--dst-strategy", rules, "--views", "ranks", "-q"], check=True)
                if name.startswith("packed"):
                    # What the map makes is what transformers has in memory.
                    subprocess.run([binary, "diff", root / "hub" / f"{family}_in_memory", cut], check=True,
                                   stdout=subprocess.DEVNULL)
                subprocess.run([binary, "mount", cut, mountpoint, "--src-strategy", rules, "--map",
                                name, *variables, "--model-config", hub, "-q"], check=True)
                try:
                    result = models("check", inside / "hub" / f"{family}.pt", inside / "mnt/hf")
                finally:
                    subprocess.run([binary, "umount", mountpoint], check=True)
                wrong += result.returncode != 0
                words = result.stderr if result.returncode else result.stdout
                print(f"{name:30} {family:12} {words.strip().splitlines()[-1]}", flush=True)
        print(f"{wrong} wrong")
    return int(wrong != 0)


if __name__ == "__main__":
    sys.exit(main())
