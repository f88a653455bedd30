# SPDX-License-Identifier: Apache-2.0
"""The cases of each release of MindSpore. Imported by the driver: the standard library only."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jobs import Form, Job

STRATEGIES = sorted({path.name.split(".")[0]
                     for path in (Path(__file__).resolve().parents[1] / "data/strategies").iterdir()})


def jobs(program: str, form: Form) -> Iterator[Job]:
    version = tuple(map(int, program.rpartition("-")[2].split(".")))
    for name, function, arguments in writer(version):
        yield Job(f"save_checkpoint: {name}", f"writer.{function}", arguments)
    if version >= (2, 7):
        yield from judge(form)
        yield from converters(form)
        yield from loader(form)
    if version >= (2, 10):  # whose compiler wrote what is kept; earlier ones counted the slices of all ranks
        yield from compiler(form)
        yield Job("total_size of unified/", "converters.total_size", {"seed": form.seed})


def writer(version: tuple[int, ...]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(name, function, arguments) of each form that the release has."""
    suffixes = ("ckpt", "safetensors") if version >= (2, 3) else ("ckpt",)
    for suffix in suffixes:
        yield f"types in {suffix}", "types", {"suffix": suffix}
        yield f"names in {suffix}", "names", {"suffix": suffix}
        yield f"network in {suffix}", "cell", {"suffix": suffix}
        for background in (False, True):
            where = " in the background" if background else ""
            yield f"shapes in {suffix}{where}", "shapes", {"suffix": suffix, "background": background}
        if version >= (2, 0):
            yield f"append_dict in {suffix}", "appended", {"suffix": suffix}
        for mode in (True, "thread", "process") if version >= (2, 3) else (True,):
            yield f"async_save={mode} in {suffix}", "background", {"suffix": suffix, "mode": mode}
        if version >= (2, 3):
            yield f"choice_func in {suffix}", "cell", {"suffix": suffix, "chosen": True}
            yield f"crc_check in {suffix}", "types", {"suffix": suffix, "crc_check": True}
            for flag in (False, True):
                yield (f"remove_redundancy={flag} in {suffix}", "types",
                       {"suffix": suffix, "remove_redundancy": flag})
        if version >= (2, 7):
            yield f"run of ModelCheckpoint in {suffix}", "run_directory", {"suffix": suffix}
            yield f"Int4 in {suffix}", "int4", {"suffix": suffix}
        if version >= (2, 10):
            yield f"tensors in append_dict in {suffix}", "appended_tensors", {"suffix": suffix}
    if (2, 0) <= version < (2, 7):  # later ones cannot fill a map parameter on the CPU
        yield "map parameter", "map_parameter", {}
    if version >= (1, 1):
        for mode, sizes in (("AES-GCM", (128, 192, 256)), ("AES-CBC", (128, 192, 256)), ("SM4-CBC", (128,))):
            for bits in sizes:
                for background in (False, True) if bits == 128 else (False,):
                    yield (f"{mode} of {bits} bits{' in the background' if background else ''}", "encrypted",
                           {"mode": mode, "bits": bits, "background": background})


def judge(form: Form) -> Iterator[Job]:
    rng = random.Random(form.seed)
    yield Job("accu_grads that the optimizer does not cut", "judge.accumulated_gradients", {"seed": form.seed})
    for _ in range(form.pairs):
        seed = rng.randrange(1 << 30)
        yield Job(f"random pair {seed}", "judge.random_pair", {"seed": seed})
    for _ in range(form.pairs):
        source, target, kind = rng.choice(STRATEGIES), rng.choice(STRATEGIES), rng.choice(("ckpt", "safetensors"))
        seed = rng.randrange(1 << 30)
        yield Job(f"{source} to {target} in {kind}", "judge.real_pair",
                  {"source": source, "target": target, "kind": kind, "seed": seed})


def compiler(form: Form) -> Iterator[Job]:
    rng = random.Random(form.seed + 3)
    names = [("d2t2oall", "d1t2p2"), ("d4t1o2", "d2t4"), ("d2t2p2", "d4t2oall"), ("d1t8", "d2t4oall")]
    for source, target in names[:1] if form.short else names:
        yield Job(f"{source} to {target}, compiled now", "compiler.strategies_now",
                  {"source": source, "target": target, "kind": rng.choice(("ckpt", "safetensors")),
                   "seed": rng.randrange(1 << 30)})


def converters(form: Form) -> Iterator[Job]:
    rng = random.Random(form.seed + 1)
    for what in ("merge_slices", "deduplicated", "unify", "load_distributed_ckpt", "change_format"):
        for number in range(max(1, form.pairs // 4)):
            arguments = {"seed": rng.randrange(1 << 30)}
            if what == "unify" and number % 3 == 2:
                arguments["redundant"] = False
            yield Job(f"{what} {arguments['seed']}", f"converters.{what}", arguments)


def loader(form: Form) -> Iterator[Job]:
    rng = random.Random(form.seed + 2)
    for number in range(1 if form.short else 10):
        seed = rng.randrange(1 << 30)
        for kind in ("ckpt", "safetensors"):
            arguments = {"seed": seed, "kind": kind}
            yield Job(f"load a mounted {kind} {seed}", "loader.load_merged", arguments)
            yield Job(f"load mounted ranks in {kind} {seed}", "loader.load_ranks", arguments)
            yield Job(f"fill a network from {kind} {seed}", "loader.load_live", arguments)
        yield Job(f"load_checkpoint_async {seed}", "loader.load_merged",
                  {"seed": seed, "kind": "ckpt", "in_background": True})
        yield Job(f"load a mounted unified/ {seed}", "loader.load_unified", {"seed": seed})
