# SPDX-License-Identifier: Apache-2.0
"""Cases of torch_files.py: tensors of all types and forms, as programs save models."""

from __future__ import annotations

import collections
import json

import torch
from torch import nn
from torch_case import CannotSave, Case, KINDS, NEW, OLD, OLDER_2, RELEASE, State, case, values


def plain_state() -> State:
    return {"embed.weight": values(1, "F32", 12, 5), "layers.0.w": values(2, "F32", 5, 7),
            "layers.0.b": values(3, "F32", 7), "layers.1.w": values(4, "BF16", 7, 5),
            "norm": values(5, "F16", 5), "steps": values(6, "I64", 1)}


@case(OLD, OLDER_2, NEW)
def plain(c: Case) -> None:
    c.tell("a dictionary of tensors")
    c.save(plain_state())


@case(NEW)
def plain_pth(c: Case) -> None:
    c.tell("the same in a file that ends with .pth")
    c.save(collections.OrderedDict(plain_state()), "a model.pth")


@case(OLD, NEW)
def pytorch_model_bin(c: Case) -> None:
    c.tell("pytorch_model.bin beside config.json, named by its directory", source="src")
    c.save(plain_state(), "pytorch_model.bin")
    (c.src / "config.json").write_text(json.dumps({"architectures": ["LlamaForCausalLM"],
                                                   "model_type": "llama", "hidden_size": 5}) + "\n")


@case(NEW)
def bin_shards(c: Case) -> None:
    c.tell("two shards with pytorch_model.bin.index.json, split as transformers does it", source="src")
    try:
        from huggingface_hub import save_torch_state_dict
    except ImportError as error:
        raise CannotSave(str(error)) from error
    state = {f"model.layers.{n}.w": values(20 + n, "F32", 8, 4) for n in range(4)}
    state["lm_head.weight"] = state["model.embed.weight"] = values(30, "BF16", 9, 4)
    c.src.mkdir(parents=True)
    kept = {name: tensor for name, tensor in state.items() if name != "lm_head.weight"}
    save_torch_state_dict(kept, c.src, filename_pattern="pytorch_model{suffix}.bin", max_shard_size=400,
                          safe_serialization=False)
    if len(list(c.src.glob("*.bin"))) != 2:
        raise RuntimeError("not two shards")
    c.expect(kept)


@case(OLD)
def bin_shards_by_index(c: Case) -> None:
    c.tell("two shards and an index, which says whose the tensor is that both have", source="src")
    c.src.mkdir(parents=True)
    state = plain_state()
    names = sorted(state)
    files = ["pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"]
    first, second = {n: state[n] for n in names[:3]}, {n: state[n] for n in names[3:]}
    torch.save(first, c.src / files[0])
    torch.save({**second, names[0]: torch.zeros(2)}, c.src / files[1])
    index = {"metadata": {"total_size": sum(t.numel() * t.element_size() for t in state.values())},
             "weight_map": {**dict.fromkeys(first, files[0]), **dict.fromkeys(second, files[1])}}
    (c.src / "pytorch_model.bin.index.json").write_text(json.dumps(index, indent=2) + "\n")
    c.expect(state)


@case(NEW)
def consolidated(c: Case) -> None:
    c.tell("consolidated.00.pth with params.json, named by its directory", source="src")
    c.save({"tok_embeddings.weight": values(1, "BF16", 12, 8), "output.weight": values(2, "BF16", 12, 8),
            "layers.0.attention.wq.weight": values(3, "BF16", 8, 8), "norm.weight": values(4, "BF16", 8),
            "rope.freqs": values(5, "F32", 2)}, "consolidated.00.pth")
    (c.src / "params.json").write_text(json.dumps({"dim": 8, "n_layers": 1, "n_heads": 2, "vocab_size": 12,
                                                   "norm_eps": 1e-5, "multiple_of": 8}) + "\n")


@case(OLD, NEW)
def dtypes(c: Case) -> None:
    c.tell("all types that this release has a name for in safetensors; complex numbers have none")
    state = {f"type.{kind}": values(n, kind, 5, 3) for n, kind in enumerate(KINDS)}
    state.update({f"scalar.{kind}": values(40 + n, kind) for n, kind in enumerate(KINDS)})
    state["complex64"] = torch.view_as_complex(torch.ones(3, 2))
    state["complex128"] = torch.view_as_complex(torch.ones(3, 2, dtype=torch.float64))
    c.save(state)


@case(OLD, NEW)
def shapes(c: Case) -> None:
    c.tell("no dimension, no elements, one element, many dimensions")
    c.save({"scalar": values(1, "F32"), "none": values(0, "F32", 0), "none.rows": values(0, "F32", 0, 5),
            "none.columns": values(0, "BF16", 5, 0), "none.middle": values(0, "I8", 2, 0, 3),
            "one": values(2, "F64", 1), "ones": values(3, "F64", 1, 1, 1),
            "eight": values(4, "U8", 1, 2, 1, 2, 2, 1, 2, 3), "nothing.of.a.view": values(5, "F32", 6)[3:3]})


def tied_state() -> State:
    table = values(1, "F32", 9, 4)
    return {"embed.weight": table, "head.weight": table,
        "head.part": table[2:5], "alone": values(2, "F32", 4), "turned": table.t()}


@case(OLD, NEW)
def tied(c: Case) -> None:
    c.tell("one storage under several names, whole, in part and transposed")
    c.save(tied_state())


def views_state() -> State:
    base = values(50, "F32", 6, 8)
    deep = values(51, "F64", 2, 3, 4)
    return {"transposed": base.t(), "row": base[2], "column": base[:, 3], "step": base[::2, 1::3],
            "every.second": values(56, "I16", 11)[::2], "rows.offset": base[3:5], "box": base[1:4, 2:5],
            "permuted": deep.permute(2, 0, 1),
            "channels_last": values(52, "F16", 2, 3, 4, 5).contiguous(memory_format=torch.channels_last),
            "expanded": values(53, "I32", 1, 4).expand(3, 4),
            "expanded.scalar": values(57, "BF16").expand(2, 3),
            "overlapping": values(54, "F32", 4).as_strided((3, 2), (1, 1)),
            "small.of.large": values(55, "F32", 300)[100:103], "unsqueezed": base[:1].unsqueeze(0),
            "one.column": base[:, :1], "diagonal": base.diagonal(),
            "odd.stride.of.one": values(58, "F32", 4).as_strided((1, 4), (99, 1)), "flipped": base.flip(0)}


@case(OLD, NEW)
def views(c: Case) -> None:
    c.tell("views with offsets and strides of all kinds; storages that are larger than their tensors")
    c.save(views_state())


class Own(nn.Module):
    """A module of which old releases keep this text in the stream."""

    def __init__(self, inner: nn.Module | None = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2, 3))
        self.inner = inner


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Linear(4, 3)
        self.norm = nn.BatchNorm1d(3)
        self.conv = nn.Conv2d(2, 3, 2, bias=False)
        self.register_buffer("mask", torch.ones(3, 3, dtype=torch.bool).tril())


@case(OLD, NEW)
def module_state(c: Case) -> None:
    c.tell("state_dict() of a module, with its attribute _metadata")
    torch.manual_seed(1)
    c.save(Small().state_dict(), "model.pth")


@case(OLD, NEW)
def parameters(c: Case) -> None:
    c.tell("parameters and tensors, some with attributes of their own: numbers, lists, a tensor")
    weight = nn.Parameter(values(1, "F32", 4, 3))
    weight.tensor_model_parallel = True  # type: ignore[attr-defined]
    weight.sizes = [1, 2, {"x": (3,)}]  # type: ignore[attr-defined]
    frozen = nn.Parameter(values(2, "BF16", 3), requires_grad=False)
    noted = values(3, "F32", 2, 2)
    noted.note = "層"  # type: ignore[attr-defined]
    noted.other = values(4, "F32", 2)  # type: ignore[attr-defined]
    c.save(
        {"weight": weight, "frozen": frozen, "plain": nn.Parameter(values(5, "F16", 2)),
         "noted": noted, "whole": nn.Parameter(values(7, "F32", 6, 4)).t(),
         "grad": values(8, "F32", 2).requires_grad_(True),
         "twice": weight})


@case(OLD, NEW)
def refused_tensors(c: Case) -> None:
    c.tell("tensors that are no run of bytes, among others: sparse, quantized, without data, negated")
    dense = values(1, "F32", 3, 4)
    state: State = {"coo": torch.eye(3).to_sparse(), "csr": torch.eye(3).to_sparse_csr(),
                    "quantized": torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8),
                    "quantized.channels": torch.quantize_per_channel(torch.ones(2, 2), torch.tensor([.1, .2]),
                                                                     torch.tensor([0, 1]), 0, torch.qint8),
                    "meta": torch.empty(3, 2, device="meta"),
                    "complex": torch.view_as_complex(torch.ones(3, 2)), "dense": dense,
                    "nested": {"coo": torch.eye(2).to_sparse(), "dense": dense[1:]}}
    if RELEASE != OLD:  # which loses the mark
        state["csc"] = torch.eye(3).to_sparse_csc()
        state["negated"] = torch._neg_view(values(2, "F32", 3))
        state["conjugated"] = torch.view_as_complex(torch.ones(3, 2)).conj()
    c.save(state)


@case(OLD, NEW)
def tensor_list(c: Case) -> None:
    c.tell("a list of tensors: their positions are their names")
    c.save([values(1, "F32", 3), values(2, "I64", 2, 2), [values(3, "F32", 2), 7], 5,
            *[values(4 + n, "U8", 2) for n in range(8)]])


@case(OLD, NEW)
def lone_tensor(c: Case) -> None:
    c.tell("one tensor, of no name")
    c.save(values(1, "F32", 3, 5))


@case(NEW)
def lone_parameter(c: Case) -> None:
    c.tell("one parameter, of no name")
    c.save(nn.Parameter(values(1, "BF16", 3, 5)))


@case(OLD, NEW)
def tensor_tuple(c: Case) -> None:
    c.tell("tuples of tensors, of 1, 2, 3 and more")
    c.save((values(1, "F32", 3), {"a": values(2, "F32", 2), "b": (values(3, "F32", 1),)},
            (values(4, "F32", 1), values(5, "F32", 2)), tuple(values(6 + n, "I8", 3) for n in range(5)),
            (1, 2)))


@case(NEW)
def keys(c: Case) -> None:
    c.tell("keys that are numbers, empty, or need escaping")
    c.save({"a": {0: values(1, "F32", 2), 10: values(2, "F32", 2), -1: values(3, "F32", 2),
                  300: values(4, "F32", 2), 70000: values(5, "F32", 2), 2**40: values(6, "F32", 2)},
            "b": {"": values(7, "F32", 2)}, "層.重み": values(8, "F32", 2), "x" * 300: values(9, "F32", 2),
            "quote\"'`$(x)\\": values(10, "F32", 2), "with space": values(11, "F32", 2),
            "a/b": values(12, "F32", 2),
            "tab\tnew\nline": values(13, "F32", 2), "\U0001f600": values(14, "F32", 2)})


@case(NEW)
def other_keys(c: Case) -> None:
    c.tell("keys that are neither text nor integers, and two paths of one name", must="any",
           note="no one can say how these are named; what is shown under an expected name is the same")
    c.save({"plain": values(1, "F32", 2), True: values(2, "F32", 2), None: values(3, "F32", 2),
            (1, "a"): values(4, "F32", 2), 1.5: values(5, "F32", 2), b"bytes": values(6, "F32", 2)})
    for name in list(c.tensors):
        if name != "plain":
            del c.tensors[name]


@case(NEW)
def same_name_twice(c: Case) -> None:
    c.tell("two paths of one name", must="any",
           note="of a.b there are two: refuse, or refuse that name; a.c and d must be right if shown")
    c.save({"a.b": values(1, "F32", 2), "a": {"b": values(2, "F32", 3), "c": values(3, "F32", 2)},
            "d": values(4, "F32", 2)})
    del c.tensors["a.b"]
