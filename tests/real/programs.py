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


PROGRAMS = (
    Program("mindspore-2.10.0", "mindspore", ("3.11", "3.10", "3.12"), True, "mindspore"),
    Program("mindspore-2.7.0", "mindspore", ("3.11", "3.10"), False, "mindspore"),
    Program("mindspore-2.0.0", "mindspore", ("3.9",), False, "mindspore"),
    Program("mindspore-1.0.0", "mindspore", ("3.7",), False, "mindspore"),
    Program("mindformers-2.1.0", "mindformers", ("3.11", "3.12"), True, "mindspore"),
    Program("deepspeed-0.19.8", "deepspeed", ("3.11", "3.12"), True, "deepspeed"),
    Program("torch-1.13.1", "torch", ("3.11",), False, "torch"),
)
