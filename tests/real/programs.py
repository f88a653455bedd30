# SPDX-License-Identifier: Apache-2.0
"""The programs that reshardfs is tested with. A row needs requirements/NAME.txt, and in its folder cases.py with a
function jobs(name, form)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Program:
    name: str
    folder: str
    pythons: tuple[str, ...]  # that it has files for, the preferred one first
    short: bool  # whether the short form has it
    module: str  # that can be imported where the program works
    base: str = ""  # another row, on whose environment that of this one builds


PROGRAMS = (
    Program("mindspore-2.10.0", "mindspore", ("3.11", "3.10", "3.12"), True, "mindspore"),
    Program("mindspore-2.7.0", "mindspore", ("3.11", "3.10"), False, "mindspore"),
    Program("mindspore-2.0.0", "mindspore", ("3.9",), False, "mindspore"),
    Program("mindspore-1.0.0", "mindspore", ("3.7",), False, "mindspore"),
    Program("mindformers-2.1.0", "mindformers", ("3.11", "3.12"), True, "mindspore"),
    Program("deepspeed-0.19.8", "deepspeed", ("3.12", "3.11"), True, "deepspeed"),
    Program("torch_checkpointing-0.1.1", "deepspeed", ("3.12", "3.11"), True, "torch_checkpointing",
            "deepspeed-0.19.8"),
    Program("transformers-5.24.0", "hub", ("3.12", "3.11"), True, "transformers", "deepspeed-0.19.8"),
    Program("megatron-0.19.2", "megatron", ("3.12",), True, "megatron.core", "transformers-5.24.0"),
    Program("megatron-0.14.0", "megatron", ("3.12",), False, "megatron.core", "transformers-5.24.0"),
    Program("vllm-0.33.0", "vllm", ("3.12",), True, "vllm", "transformers-5.24.0"),
    Program("ray-2.60.0", "ray", ("3.12",), True, "ray", "transformers-5.24.0"),
    Program("torch-1.13.1", "torch", ("3.11",), False, "torch"),
)


# Of the test of the Python module's types: pyright, with the Node.js that it needs.
PYRIGHT = Program("basedpyright-1.40.2", "", ("3.11", "3.12", "3.13"), False, "basedpyright")
# Of bench_live: a loader of safetensors files, beside PyTorch.
STREAMER = Program("runai-model-streamer-0.17.1", "", ("3.12", "3.11"), False, "runai_model_streamer",
                   "deepspeed-0.19.8")


def named(name: str) -> Program:
    (found,) = (program for program in (*PROGRAMS, PYRIGHT, STREAMER) if program.name == name)
    return found
