# SPDX-License-Identifier: Apache-2.0
"""The other converters of MindSpore against reshardfs: slices merged by hand, unified safetensors and what is
distributed from them, and the change of formats."""

from __future__ import annotations

import collections
import json
from pathlib import Path

import files
import mindspore as ms
import numpy as np
import pairs
import psutil
from judge import known_limit, strategy_file
from mindspore import Parameter
from mindspore.train._utils import get_parameter_redundancy, remove_param_redundancy
from pairs import Limits, Pair, ranks
from product import Hangs, limited, mounted, reshardfs

# unified_safetensors waits while more than half of the machine's memory is in use, by whomever.
_memory = psutil.virtual_memory
psutil.virtual_memory = lambda: _memory()._replace(percent=10.0)

FLAT = Limits(stages=(1,), nested=False, whole=False)


def saved_pair(directory: Path, seed: int, limits: Limits) -> Pair:
    pair = pairs.random_pair(seed, limits)
    pairs.write_strategies(directory, pair)
    pairs.save_source(directory, pair)
    return pair


# --- merge_sliced_parameter --------------------------------------------------------------------


def merge_slices(directory: Path, seed: int) -> dict[str, int]:
    """MindSpore merges by the layout alone, so that it is wrong where the optimizer cuts."""
    pair = saved_pair(directory, seed, FLAT)
    merged = directory / "merged.safetensors"
    reshardfs("export", directory / "src", merged, "--src-strategy", directory / "src.ckpt")
    ours = files.read(merged)
    files.assert_equal(ours, pair.expected(None, 0), merged)
    strategy = ms.build_searched_strategy(str(directory / "src.ckpt"))
    counts: collections.Counter[str] = collections.Counter()
    for name, full in pair.full.items():
        kind = pair.types[name]
        slices = [Parameter(pairs.tensor_of(pair.source.slice_of(name, full, rank), kind), name=name)
                  for rank in range(pair.source.ranks)]
        theirs = ms.merge_sliced_parameter(slices, strategy).asnumpy()
        if kind == "BFloat16":  # which becomes Float32
            theirs = (theirs.view("u4") >> 16).astype("u2").reshape(theirs.shape)
        if theirs.shape == full.shape and theirs.tobytes() == ours[name].content:
            counts["merge_sliced_parameter equal"] += 1
        else:
            assert pair.source.layouts[name][0].parts() > 1, f"merge_sliced_parameter differs in {name}"
            counts["merge_sliced_parameter is wrong (optimizer cut), right by value"] += 1
    return counts


# --- unified_safetensors and load_distributed_checkpoint ---------------------------------------


def drop_redundant(directory: Path, pair: Pair) -> None:
    """Saves again what MindSpore leaves in each rank where the ranks share the saving."""
    kept = remove_param_redundancy(get_parameter_redundancy(str(directory / "src.ckpt"), initial_rank=0))
    # 2.7 lists nothing of which each rank has a slice of its own.
    listed = {name for names in kept.values() for name in names}
    for rank in range(pair.source.ranks):
        path = directory / f"src/rank_{rank}/net-2_3.{pair.kind}"
        path.unlink()
        expected = pair.expected(pair.source, rank)
        parameters = [{"name": name, "data": pairs.tensor_of(pairs.array_of(entry), entry.type)}
                      for name, entry in expected.items() if name in kept.get(rank, ()) or name not in listed]
        ms.save_checkpoint(parameters, str(path), format=pair.kind, remove_redundancy=True)


def deduplicated(directory: Path, seed: int) -> None:
    """Of what several ranks hold, one has it; MindSpore's transform_checkpoints loses parameters then."""
    pair = saved_pair(directory, seed, FLAT)
    drop_redundant(directory, pair)
    reshardfs("export", directory / "src", directory / "out", "--src-strategy", directory / "src.ckpt",
              "--dst-strategy", directory / "dst.ckpt", "--format", pair.output, "--views", "ranks")
    for rank in range(ranks(pair.target)):
        path = directory / f"out/rank_{rank}/checkpoint_{rank}.{pair.output}"
        files.assert_equal(files.read(path), pair.expected(pair.target, rank), path)


def unify(directory: Path, seed: int, redundant: bool = True) -> dict[str, int]:
    """The unified directory, and the ranks that MindSpore distributes from a mounted one."""
    limits = Limits(kinds=("safetensors",), whole=False, **({} if redundant else {"stages": (1,), "nested": False}))
    pair = saved_pair(directory, seed, limits)
    if not redundant:
        drop_redundant(directory, pair)
    counts: collections.Counter[str] = collections.Counter()
    words = ["--src-strategy", directory / "src.ckpt", "--views", "unified"]
    with mounted(directory / "src", directory / "mnt", *words) as mountpoint:
        compare_unified(directory, pair, mountpoint / "unified", counts, redundant)
        distribute(directory, pair, mountpoint / "unified", counts)
    return counts


def compare_unified(directory: Path, pair: Pair, ours: Path, counts: collections.Counter[str],
                    redundant: bool) -> None:
    parts = {path.name: files.read(path) for path in ours.glob("*.safetensors")}
    everything = {name: entry for part in parts.values() for name, entry in part.items()}
    files.assert_equal(everything, pair.expected(None, 0), ours)
    theirs = directory / "unified"
    try:
        with limited():
            ms.unified_safetensors(str(directory / "src"), str(directory / "src.ckpt"), str(theirs),
                                   merge_with_redundancy=redundant, max_process_num=2)
    except (Hangs, ValueError) as error:
        # MindSpore fails on deduplicated sets of which some tensors have no copies.
        if redundant and not isinstance(error, Hangs):
            raise
        counts[f"unified_safetensors fails ({type(error).__name__}), right by value"] += 1
        return
    limit = known_limit(Pair(pair.source, None, pair.kind, pair.kind))
    try:
        for path in sorted(theirs.glob("*.safetensors")):
            files.assert_equal(files.read(path), parts[path.name], path)
    except AssertionError:
        if not limit:
            raise
        counts[f"unified_safetensors is wrong ({limit}), right by value"] += 1
        return
    mine, other = ((json.loads((folder / "param_name_map.json").read_text())) for folder in (ours, theirs))
    assert mine["weight_map"] == other["weight_map"], f"weight_map is {mine}, not {other}"
    counts["unified_safetensors equal"] += 1


def total_size(directory: Path, seed: int) -> None:
    """The sum in param_name_map.json: each name once, with its whole size in bytes."""
    pair = saved_pair(directory, seed, Limits(kinds=("safetensors",), cuts=False, whole=False))
    strategy = directory / "src.ckpt"
    reshardfs("export", directory / "src", directory / "out", "--src-strategy", strategy, "--views", "unified")
    ms.unified_safetensors(str(directory / "src"), str(strategy), str(directory / "unified"), max_process_num=2)
    mine, other = (json.loads(next(directory.glob(f"{folder}/**/param_name_map.json")).read_text())["metadata"]
                   for folder in ("out", "unified"))
    assert mine == other, f"metadata is {mine}, not {other}"


def distribute(directory: Path, pair: Pair, unified: Path, counts: collections.Counter[str]) -> None:
    out = directory / "distributed"
    try:
        with limited():
            ms.load_distributed_checkpoint(None, predict_strategy=str(directory / "dst.ckpt"), format="safetensors",
                                           unified_safetensors_dir=str(unified), dst_safetensors_dir=str(out),
                                           max_process_num=1)
        for rank in range(ranks(pair.target)):
            path = out / f"rank_{rank}/net.safetensors"
            files.assert_equal(files.read(path), pair.expected(pair.target, rank), path)
    except Exception as error:
        limit = "hangs" if isinstance(error, Hangs) else known_limit(Pair(None, pair.target, pair.kind, pair.kind))
        if not limit:
            raise
        counts[f"load_distributed_checkpoint fails ({limit})"] += 1
    else:
        counts["load_distributed_checkpoint of a mounted unified/ equal"] += 1


def load_distributed_ckpt(directory: Path, seed: int) -> dict[str, int]:
    """MindSpore merges mounted rank files into a network. It misreads some that the optimizer cuts."""
    pair = saved_pair(directory, seed, Limits(kinds=("ckpt",), stages=(1,), nested=False, whole=False,
                                              cuts=seed % 4 == 0, types=("Float32", "Float16", "Int32")))
    cuts = any(layout.parts() > 1 for by_stage in pair.target.layouts.values() for layout in by_stage.values())

    class Network(ms.nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.held = ms.ParameterTuple([Parameter(ms.Tensor(np.zeros_like(full)), name=name)
                                           for name, full in pair.full.items()])

    network = Network()
    words = ["--src-strategy", directory / "src.ckpt", "--dst-strategy", directory / "dst.ckpt", "--views", "ranks"]
    with mounted(directory / "src", directory / "mnt", *words) as mountpoint:
        paths = [str(mountpoint / f"rank_{rank}/checkpoint_{rank}.ckpt") for rank in range(ranks(pair.target))]
        for rank, path in enumerate(paths):
            files.assert_equal(files.read(Path(path)), pair.expected(pair.target, rank), path)
        try:
            ms.load_distributed_checkpoint(network, paths, None, str(directory / "dst.ckpt"))
        except RuntimeError:
            if not cuts:
                raise
            return {"load_distributed_checkpoint fails (optimizer cut), mounted files right by value": 1}
    loaded = {parameter.name: parameter.asnumpy() for parameter in network.get_parameters()}
    for name, full in pair.full.items():
        assert loaded[name].tobytes() == full.tobytes(), f"{name} is loaded wrongly"
    return {"load_distributed_checkpoint of mounted .ckpt files equal": 1}


# --- formats -----------------------------------------------------------------------------------


def change_format(directory: Path, seed: int) -> dict[str, int]:
    pair = saved_pair(directory, seed, Limits(kinds=("ckpt", "safetensors"), whole=False))
    to = "safetensors" if pair.kind == "ckpt" else "ckpt"
    convert = ms.ckpt_to_safetensors if pair.kind == "ckpt" else ms.safetensors_to_ckpt
    strategy = strategy_file(directory, "src")
    reshardfs("export", directory / "src", directory / "out", "--src-strategy", strategy, "--dst-strategy", strategy,
              "--format", to, "--views", "ranks")
    counts: collections.Counter[str] = collections.Counter()
    for rank in range(ranks(pair.source)):
        theirs = directory / f"theirs_{rank}/net-2_3.{to}"
        theirs.parent.mkdir()
        convert(str(directory / f"src/rank_{rank}/net-2_3.{pair.kind}"), str(theirs.parent))
        ours = directory / f"out/rank_{rank}/checkpoint_{rank}.{to}"
        files.assert_equal(files.read(ours), pair.expected(pair.source, rank), ours)
        files.assert_equal(files.read(theirs), files.read(ours), theirs)
        counts[f"{convert.__name__} " + ("byte-identical" if files.same_bytes(ours, theirs) else "equal")] += 1
    return counts
