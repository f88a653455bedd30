#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the sample configuration, with the options of mount as its keys:

    packaging/sample_config.py build/release/bin/reshardfs >config/reshardfs.toml
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
from pathlib import Path

import program_help

WIDTH = 100
TEMPLATE = Path(__file__).with_suffix(".toml.in")
# What makes no sense in a file, or contradicts another key (verbose and quiet exclude each other).
NOT_IN_FILE = {"help", "config", "quiet"}
# Values of keys that have no default.
EXAMPLES = {
    "align": 4096, "ca-file": "/etc/ssl/certs/store-ca.pem", "cache-dir": "/var/cache/reshardfs", "cast": ["model.*:fp32->bf16"],
    "dcp-shards": 8, "dec-key-file": "key.hex", "drop": ["learning_rate"],
    "exclude": ["adam_m.*", "adam_v.*"],
    "format": ["ckpt", "safetensors"], "fuse-option": ["noatime"], "fuse-socket": "/run/reshardfs/fuse.sock",
    "gid": 0, "include": ["*"], "log-file": "reshardfs.log", "map": ["mindformers-qwen3"],
    "map-direction": ["forward"], "map-var": ["interleaved=0"], "model-config": "Qwen3-8B",
    "name-map": "names.json", "quantize": "nvfp4", "ranks": "0-3,7", "read-ahead-kb": 1024, "rename": ["model.language_model.*=model.*"],
    "s3-addressing": "path",
    "s3-endpoint": "https://store.example.com:9000", "s3-profile": "default", "s3-region": "us-east-1",
    "src-join": ["*.embedding_table"], "src-pattern": "rank_{rank}/*.ckpt", "src-prefix": "net_1", "state-key": "model",
    "src-strategy": "train_strategy.ckpt", "stage-layers": "10,9,9,8", "state-prefix": ["my_state."],
    "training-config": "run.yaml", "uid": "root", "views": ["ranks", "merged", "hf"], "wait-for-source": "10m", "warm": ["rank_3"],
}


def value_of(option: program_help.Option) -> str:
    if not option.argument:
        return "false"
    if option.default:
        return option.default if option.is_number else json.dumps(option.default)
    if option.long_name not in EXAMPLES:
        sys.exit(f"--{option.long_name} has no default: give it a value in EXAMPLES of {__file__}")
    return json.dumps(EXAMPLES[option.long_name])


def comment_of(option: program_help.Option) -> str:
    words = re.sub(r" \(repeatable(?:; ([^)]*))?\)", lambda found: f"; {found[1]}" if found[1] else "",
                   option.description)
    text = words[0].upper() + words[1:] + "."
    # "STEP|latest" says itself what it takes; a comment has no such words.
    if option.choices and ("|" not in option.argument or set(option.choices) == set(option.argument.split("|"))):
        text += " Possible values: " + ", ".join(option.choices) + "."
    return textwrap.fill(text, WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)


def sample(binary: str) -> str:
    lines, group = [], ""
    for option in program_help.read_help(binary, ["mount"]).options:
        if option.long_name in NOT_IN_FILE:
            continue
        if option.group != group:
            group = option.group
            lines += ["", f"# --- {group} ".ljust(WIDTH, "-")]
        lines += ["", comment_of(option), f"#{option.long_name} = {value_of(option)}"]
    return TEMPLATE.read_text().replace("@OPTIONS@", "\n".join(lines[1:]) + "\n")


if __name__ == "__main__":
    sys.stdout.write(sample(str(Path(sys.argv[1]).resolve())))
