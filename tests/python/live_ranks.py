# SPDX-License-Identifier: Apache-2.0
"""Live models of PyTorch 2 that reshardfs.torch fills. Run by test_python_live.py: live_ranks.py CASE DIRECTORY."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from torch2_common import differing, on_ranks, torch, write_tensors  # noqa: E402

import torch.distributed as dist  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.checkpoint.state_dict import (get_model_state_dict, get_optimizer_state_dict,  # noqa: E402
                                                     set_optimizer_state_dict)
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module  # noqa: E402

import reshardfs  # noqa: E402
import reshardfs.torch  # noqa: E402

WIDTH, INNER, WORDS = 8, 20, 13
RANKS = {"FSDP2": 3, "TP": 2, "2-D": 4, "HSDP": 4}


class Model(nn.Module):
    def __init__(self, tied: bool = False) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH)
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        self.register_buffer("scale", torch.zeros(()))
        if tied:
            self.head.weight = self.embed.weight


def cut(model: nn.Module, layout: str) -> nn.Module:
    plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
    if layout == "FSDP2":
        return fully_shard(model, mesh=init_device_mesh("cpu", (RANKS[layout],)))
    if layout == "TP":
        return parallelize_module(model, init_device_mesh("cpu", (RANKS[layout],)), plan)
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    if layout == "HSDP":
        return fully_shard(model, mesh=mesh)
    return fully_shard(parallelize_module(model, mesh["tp"], plan), mesh=mesh["dp"])


def whole(tensor: Any) -> torch.Tensor:
    return (tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor).detach()


def make(directory: Path, **more: torch.Tensor) -> dict[str, torch.Tensor]:
    """A checkpoint of the model."""
    torch.manual_seed(5)
    tensors = {name: torch.randn(value.shape) for name, value in Model().state_dict().items()}
    directory.mkdir(exist_ok=True)
    write_tensors(directory / "model.safetensors", {**tensors, **more})
    return tensors


def require_same(found: dict[str, Any], want: dict[str, torch.Tensor]) -> None:
    problems = differing({name: whole(tensor) for name, tensor in found.items()}, want)
    assert not problems, problems


def distributed(directory: Path) -> None:
    """Every layout, in the checkpoint's type and another one."""
    want = make(directory / "source")
    for layout, ranks in RANKS.items():
        for dtype in (torch.float32, torch.bfloat16):
            def work(_: int, layout: str = layout, dtype: torch.dtype = dtype) -> None:
                model = cut(Model().to(dtype), layout)
                state = {"model": get_model_state_dict(model)}
                with reshardfs.open(directory / "source") as checkpoint:
                    reader = reshardfs.torch.DcpReader(checkpoint, prefix="model.", threads=2)
                    dcp.load(state, storage_reader=reader)
                require_same(model.state_dict(), {name: tensor.to(dtype) for name, tensor in want.items()})
                assert bool(reader.converted) == (dtype != torch.float32), reader.converted

            on_ranks(ranks, directory / "meeting", work)


def optimizer(directory: Path) -> None:
    """Adam's states under the names of the target."""
    shapes = {name: value.shape for name, value in Model().named_parameters()}
    states = {f"state.{name}.{kind}": torch.randn(shape) if kind != "step" else torch.tensor(7.0)
              for name, shape in shapes.items() for kind in ("exp_avg", "exp_avg_sq", "step")
              for shape in [shape]}
    (directory / "source").mkdir()
    write_tensors(directory / "source/model.safetensors", states)

    def work(_: int) -> None:
        model = cut(Model(), "FSDP2")
        adam = torch.optim.AdamW(model.parameters())
        state = get_optimizer_state_dict(model, adam)
        with reshardfs.open(directory / "source") as checkpoint:
            dcp.load({"state": state["state"]}, storage_reader=reshardfs.torch.DcpReader(checkpoint))
        set_optimizer_state_dict(model, adam, state)
        for name, parameter in model.named_parameters():
            require_same(adam.state[parameter], {kind: states[f"state.{name}.{kind}"]
                                                 for kind in ("exp_avg", "exp_avg_sq", "step")})

    on_ranks(RANKS["FSDP2"], directory / "meeting", work)


def same_error(load: Callable[[], None], words: str, case: str) -> None:
    """All ranks end with one error."""
    text = ""
    try:
        load()
    except dcp.api.CheckpointException as error:
        text = "\n".join(f"{rank}: {failure[0]}" for rank, failure in sorted(error.failures.items()))
    assert words in text, f"{case}: {text}"
    texts: list[str] = [""] * dist.get_world_size()
    dist.all_gather_object(texts, text)
    assert len(set(texts)) == 1, texts


def refused(directory: Path) -> None:
    """Of what the source lacks, or has otherwise; the error names the tensor."""
    tensors = make(directory / "source")
    wrong = {"missing": ({"up.weight": None}, "up.weight"), "shape": ({"up.weight": torch.zeros(3, 3)}, "up.weight"),
             "type": ({"up.bias": torch.zeros(INNER, dtype=torch.int32)}, "int32")}
    for case, (changes, words) in wrong.items():
        kept = {name: changes.get(name, tensor) for name, tensor in tensors.items()}
        write_tensors(directory / "source/model.safetensors",
                      {name: tensor for name, tensor in kept.items() if tensor is not None})

        def work(_: int, case: str = case, words: str = words) -> None:
            state = get_model_state_dict(cut(Model(), "TP"))
            with reshardfs.open(directory / "source") as checkpoint:
                same_error(lambda: dcp.load(state, storage_reader=reshardfs.torch.DcpReader(checkpoint)), words, case)

        on_ranks(RANKS["TP"], directory / "meeting", work)


def failing(directory: Path) -> None:
    """A source that changes between the plan and the read, and a rank that fails alone."""
    make(directory / "source")
    file = directory / "source/model.safetensors"

    class Late(reshardfs.torch.DcpReader):
        def read_data(self, plan: Any, planner: Any) -> Any:
            if dist.get_rank() == 0:
                file.write_bytes(file.read_bytes())
            dist.barrier()
            return super().read_data(plan, planner)

    class Alone(reshardfs.torch.DcpReader):
        def read_data(self, plan: Any, planner: Any) -> Any:
            if dist.get_rank() == 1:
                self._opened.close()
            return super().read_data(plan, planner)

    def work(rank: int) -> None:
        state = get_model_state_dict(cut(Model(), "TP"))
        nowhere = directory / ("source" if rank == 0 else "nowhere")
        for reader, words in ((Late(directory / "source"), "has been changed"),
                              (Alone(directory / "source"), "1: the checkpoint is closed"),
                              (reshardfs.torch.DcpReader(nowhere), "nowhere: no such file")):
            same_error(lambda reader=reader: dcp.load(state, storage_reader=reader), words, type(reader).__name__)
        dcp.load(state, storage_reader=reshardfs.torch.DcpReader(directory / "source"))

    on_ranks(RANKS["TP"], directory / "meeting", work)


def alone(directory: Path) -> None:
    """load_state_dict() does and says what PyTorch does."""
    source = directory / "source"
    want = make(source)
    model = Model().to(torch.bfloat16)
    before = {name: id(value) for name, value in model.state_dict(keep_vars=True).items()}
    assert reshardfs.torch.load_state_dict(model, source) == model.load_state_dict(want)
    require_same(model.state_dict(), {name: tensor.to(torch.bfloat16) for name, tensor in want.items()})
    assert before == {name: id(value) for name, value in model.state_dict(keep_vars=True).items()}
    with torch.device("meta"):
        model = Model()
    reshardfs.torch.load_state_dict(model, source)
    require_same(model.state_dict(), want)
    assert all(parameter.requires_grad for parameter in model.parameters())
    in_turn = list(reshardfs.torch.stream(source))
    require_same(dict(in_turn), want)
    # write_tensors() writes in the order of the state.
    assert [name for name, _ in in_turn] == list(want), in_turn
    reshardfs.torch.TURN_BYTES = 100
    streamed = reshardfs.torch.stream(source, names=["head.weight", "up.weight", "up.bias"])
    assert next(streamed)[0] == "up.weight" and [name for name, _ in streamed] == ["up.bias", "head.weight"]
    outer = nn.ModuleDict({"inner": Model()})
    reshardfs.torch.load_state_dict(outer, source, prefix="inner.")
    require_same(outer["inner"].state_dict(), want)
    other = make(source, surplus=torch.zeros(2), **{"up.weight": torch.zeros(2, 2)})
    other.pop("down.bias")
    write_tensors(source / "model.safetensors", {**other, "surplus": torch.zeros(2), "up.weight": torch.zeros(2, 2)})
    model = Model()
    texts = []
    for load in (lambda: model.load_state_dict({**other, "surplus": torch.zeros(2), "up.weight": torch.zeros(2, 2)}),
                 lambda: reshardfs.torch.load_state_dict(model, source)):
        try:
            load()
        except RuntimeError as error:
            texts.append(sorted(str(error).split("\n\t")))
    assert len(texts) == 2 and texts[0] == texts[1], texts
    write_tensors(source / "model.safetensors", {"embed.weight": want["embed.weight"], "surplus": torch.zeros(2)})
    before_down = model.down.weight.clone()
    found = reshardfs.torch.load_state_dict(model, source, strict=False)
    assert found.unexpected_keys == ["surplus"] and "down.weight" in found.missing_keys, found
    assert torch.equal(model.embed.weight, want["embed.weight"]) and torch.equal(model.down.weight, before_down)
    make(source)
    write_tensors(source / "model.safetensors", {**want, "head.weight": want["embed.weight"]})
    with torch.device("meta"):
        model = Model(tied=True)
    reshardfs.torch.load_state_dict(model, source)
    assert model.head.weight is model.embed.weight and not model.head.weight.is_meta


def main() -> None:
    cases = {"distributed": distributed, "optimizer": optimizer, "refused": refused, "failing": failing, "alone": alone}
    cases[sys.argv[1]](Path(sys.argv[2]))


if __name__ == "__main__":
    main()
