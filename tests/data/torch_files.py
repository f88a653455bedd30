# SPDX-License-Identifier: Apache-2.0
"""Saves files with torch.save of this PyTorch, from 1.13 on, each with the tensors that they have.

torch_files.py DIRECTORY [CASE...]: DIRECTORY/<case>/ gets `src`, `expected.safetensors` (tensors under their
names) and `case.json`; see make_torch_golden.py. Cases that this release cannot save are left out.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import io
import json
import os
import pathlib
import pickle
import shutil
import sys
import types
import uuid
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integration"))

import numpy as np  # noqa: E402
import torch  # noqa: E402
from format_files import write_safetensors  # noqa: E402
from torch import nn  # noqa: E402
from torch_archive import (Call, Global, Raw, Storage, Stored, members_of, ordered, parameter,  # noqa: E402
                           size, stored, write_archive, write_members, write_stream)

warnings.simplefilter("ignore")

State = dict[Any, Any]
KINDS = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
         "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8,
         "BOOL": torch.bool}
for key, spelling in {"U16": "uint16", "U32": "uint32", "U64": "uint64", "F8_E4M3": "float8_e4m3fn",
                      "F8_E5M2": "float8_e5m2"}.items():
    if hasattr(torch, spelling):
        KINDS[key] = getattr(torch, spelling)
KIND_OF = {dtype: kind for kind, dtype in KINDS.items()}
RELEASE = ".".join(torch.__version__.split(".")[:2])
STREAM = {"_use_new_zipfile_serialization": False}
MARK = "torch_was_run"  # the file that a program makes which runs what it reads
CASES: dict[str, Callable[[Case], None]] = {}


class CannotSave(Exception):
    """This release does not have what the case needs."""


def bits_of(tensor: torch.Tensor) -> np.ndarray:
    """The bytes in C order, in an array of the tensor's shape."""
    width = tensor.element_size()
    dtype = np.dtype(f"V{width}") if width > 1 else np.dtype(np.uint8)
    if tensor.numel() == 0:
        return np.empty(tuple(tensor.shape), dtype)
    packed = torch.empty(tensor.numel(), dtype=tensor.dtype)
    packed.view(tensor.shape).copy_(tensor.detach())
    return packed.view(torch.uint8).numpy().view(dtype).reshape(tuple(tensor.shape))


def values(seed: int, kind: str, *shape: int) -> torch.Tensor:
    """Any bits; those of BOOL are 0 and 1."""
    generator = torch.Generator().manual_seed(seed)
    dtype = KINDS[kind]
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator).to(torch.bool)
    count = torch.Size(shape).numel() * torch.empty(0, dtype=dtype).element_size()
    bits = torch.randint(0, 256, (count,), generator=generator).to(torch.uint8)
    return bits.view(dtype).reshape(shape)


def has_tensor(value: Any) -> bool:
    if isinstance(value, dict):
        return any(has_tensor(element) for element in value.values())
    if isinstance(value, (list, tuple)):
        return any(has_tensor(element) for element in value)
    return isinstance(value, torch.Tensor)


def flattened(value: Any, name: str | None = None) -> State:
    """Tensors and objects by the path to each, joined by dots."""
    if isinstance(value, torch.Tensor) or not has_tensor(value):
        return {"tensor" if name is None else name: value}
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    out: State = {}
    for key, element in pairs:
        out.update(flattened(element, str(key) if name is None else f"{name}.{key}"))
    return out


def is_refused(tensor: torch.Tensor) -> bool:
    """Whether there is no run of bytes in the file that is the tensor's value."""
    return (tensor.layout != torch.strided or tensor.is_quantized or tensor.device.type == "meta"
            or tensor.is_neg() or tensor.dtype not in KIND_OF)


@dataclass
class Case:
    directory: Path
    name: str
    told: State = field(default_factory=dict)
    tensors: dict[str, torch.Tensor] = field(default_factory=dict)

    @property
    def src(self) -> Path:
        return self.directory / "src"

    def tell(self, what: str, **more: Any) -> None:
        self.told["what"] = what
        self.told.update(more)

    def expect(self, state: Any, *, key: str | None = None, objects: tuple[str, ...] = (),
               refused: tuple[str, ...] = ()) -> None:
        """What the checkpoint has; objects and refused: besides those that are seen to be such."""
        for step in key.split(".") if key else ():
            state = state[step]
        if key:
            self.told["options"] = ["--state-key", key]
        for name, value in flattened(state).items():
            if name in objects or not isinstance(value, torch.Tensor):
                self.told.setdefault("objects", []).append(name)
            elif name in refused or is_refused(value):
                self.told.setdefault("refused", []).append(name)
            else:
                self.tensors[name] = value

    def save(self, state: Any, file: str = "model.pt", *, key: str | None = None, **options: Any) -> None:
        """To a file that its user names, and says so."""
        path = self.src / file
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(state, path, **options)
        self.told.setdefault("source", f"src/{file}")
        self.expect(state, key=key)

    def refuse(self, data: bytes, file: str = "model.pt") -> None:
        path = self.src / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        self.told["source"] = f"src/{file}"
        self.told["must"] = "refuse"

    def finish(self, made: bool) -> None:
        must = self.told.get("must", "same")
        if must != "refuse":
            pairs = {name: (KIND_OF[tensor.dtype], bits_of(tensor))
                     for name, tensor in sorted(self.tensors.items())}
            write_safetensors(self.directory / "expected.safetensors", pairs, {"format": "pt"})
        case = {"name": self.name, "what": self.told["what"],
                "written_by": self.told.get("written_by", "made by hand" if made else f"PyTorch {RELEASE}"),
                "source": self.told.get("source", "src"), "must": must,
                "options": self.told.get("options", []), "refused": sorted(self.told.get("refused", [])),
                "objects": sorted(self.told.get("objects", []))}
        for extra in ("note", "must_not_exist"):
            if extra in self.told:
                case[extra] = self.told[extra]
        (self.directory / "case.json").write_text(json.dumps(case, indent=1, ensure_ascii=False) + "\n")


def case(*releases: str, made: bool = False) -> Callable[[Callable[[Case], None]], Callable[[Case], None]]:
    """A case that these releases are to save, under a name that ends with the release; one that is made by
    hand keeps its name."""
    def register(function: Callable[[Case], None]) -> Callable[[Case], None]:
        if RELEASE in releases:
            name = function.__name__ if made else f"{function.__name__}_{RELEASE.replace('.', '')}"
            function.made = made  # type: ignore[attr-defined]
            CASES[name] = function
        return function
    return register


OLD, OLDER_2, NEW = "1.13", "2.6", "2.14"


# ---------------------------------------------------------------------------------------- plain files


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


# ---------------------------------------------------------------------------------------- nested values


class Level(enum.Enum):
    LOW = 1
    HIGH = 2


class Flag(enum.IntFlag):
    A = 1
    B = 2


@dataclasses.dataclass
class Options:
    name: str = "n"
    sizes: tuple[int, ...] = (1, 2)


class Slots:
    __slots__ = ("left", "right")

    def __init__(self, left: int, right: str) -> None:
        self.left = left
        self.right = right


class Point(collections.namedtuple("Point", "x y")):
    __slots__ = ()


class Custom:
    def __init__(self) -> None:
        self.size = 3
        self.inner = {"a": [1, 2]}
        self.tensor = values(90, "F32", 2)


class WithState:
    def __getstate__(self) -> Any:
        return ("state", 1)

    def __setstate__(self, state: Any) -> None:
        self.state = state


class NamedDict(collections.OrderedDict):  # type: ignore[type-arg]
    pass


class NamedList(list):  # type: ignore[type-arg]
    pass


class PlainDict(dict):  # type: ignore[type-arg]
    pass


def register_library() -> None:
    """The same classes in a module that nobody has who reads the files."""
    library = types.ModuleType("mylib")
    inner = types.ModuleType("mylib.inner")
    for cls in (Level, Flag, Options, Slots, Point, Custom, WithState, NamedDict, NamedList, PlainDict):
        cls.__module__ = "mylib"
        setattr(library, cls.__name__, cls)
    Custom.__module__ = "mylib.inner"
    inner.Custom = Custom  # type: ignore[attr-defined]
    library.inner = inner  # type: ignore[attr-defined]
    sys.modules.update({"mylib": library, "mylib.inner": inner})


class MainObject:
    """Of the module __main__ where this program is run."""

    def __init__(self) -> None:
        self.value = 1


def objects_state() -> State:
    named = NamedDict(b=1, a=[2])
    named.extra = "attribute"  # type: ignore[attr-defined]
    return {
        "w": values(1, "F32", 3, 3), "none": None, "true": True, "false": False, "int": 7, "negative": -3,
        "large": 2**31, "larger": 2**62, "huge": -(2**300), "very.huge": 2**3000, "float": 0.1,
        "infinite": float("inf"), "nan": float("nan"), "complex": 1 - 2j, "text": "text",
        "long.text": "層" * 200,
        "surrogate": "\udc80", "bytes": b"\x00\xff" * 9, "long.bytes": bytes(300),
        "bytearray": bytearray(b"abc"),
        "empty": {}, "empty.list": [], "empty.tuple": (), "list": [1, [2, "x"], {"a": None}],
        "tuple": (1, (2,), "x"), "dict": {"a": {"b": {"c": 1}}, 1: 2, (1, 2): 3, None: 4},
        "set": {1, 2}, "empty.set": set(), "frozenset": frozenset({"a"}), "range": range(3, 9, 2),
        "slice": slice(1, None, 2), "ellipsis": ..., "notimplemented": NotImplemented, "type": int,
        "none.type": type(None),
        "counter": collections.Counter("abca"), "defaultdict": collections.defaultdict(list, {"a": [1]}),
        "deque": collections.deque([1, 2], maxlen=5), "ordered": collections.OrderedDict(z=1, a=2),
        "chain": collections.ChainMap({"a": 1}), "namespace": argparse.Namespace(lr=0.1, layers=[1, 2],
                                                                                 nest=None),
        "simple": types.SimpleNamespace(a=1), "datetime": datetime.datetime(2024, 5, 6, 7, 8, 9, 10),
        "date": datetime.date(2024, 5, 6), "delta": datetime.timedelta(days=1, microseconds=3),
        "zone": datetime.timezone.utc, "path": pathlib.PurePosixPath("/a/b"),
        "decimal": decimal.Decimal("1.5"),
        "fraction": fractions.Fraction(1, 3), "uuid": uuid.UUID(int=5), "enum": Level.HIGH,
        "flag": Flag.A | Flag.B,
        "dataclass": Options(), "slots": Slots(1, "r"), "namedtuple": Point(1, [2]), "custom": Custom(),
        "main": MainObject(), "with.state": WithState(), "partial": functools.partial(int, "11", base=2),
        "function": os.path.join, "builtin": len, "method": dict.fromkeys, "exception": ValueError("no", 3),
        "ordered.subclass": named, "list.subclass": NamedList([1, 2]), "dict.subclass": PlainDict(a=1),
        "numpy": {"scalar": np.float64(0.5), "int": np.int64(7), "bool": np.bool_(True),
                  "dtype": np.dtype("<f4"),
                  "array": np.arange(6, dtype=np.float32).reshape(2, 3), "text": np.array(["a", "bc"]),
                  "fortran": np.asfortranarray(np.ones((2, 3))),
                  "objects": np.array([{"a": 1}, None], object),
                  "record": np.zeros(2, [("a", "<i4"), ("b", "<f8")]),
                  "random": np.random.RandomState(1).get_state()},
        "torch": {"size": torch.Size([2, 3]), "dtype": torch.bfloat16, "device": torch.device("cpu"),
                  "cuda": torch.device("cuda", 1), "layout": torch.strided,
                  "format": None if RELEASE == OLD else torch.channels_last},
        "module": Own(Own()), "last": values(2, "F32", 2)}


@case(OLD, NEW)
def objects(c: Case) -> None:
    c.tell("two tensors among values of all kinds that are no tensors")
    register_library()
    c.save(objects_state())


def of_protocol(number: int) -> None:
    def objects_p(c: Case) -> None:
        c.tell(f"the same as a pickle of protocol {number}")
        register_library()
        c.save(objects_state(), pickle_protocol=number)

    def plain_p(c: Case) -> None:
        c.tell(f"nested tensors in a pickle of protocol {number}")
        c.save({"model": collections.OrderedDict(plain_state()), "list": [values(7, "F32", 2), None],
                "again": tied_state(), "views": views_state()}, pickle_protocol=number)

    for function in (objects_p, plain_p) if number == 4 else (objects_p,):
        function.__name__ += str(number)
        case(NEW)(function)


for protocol in (4, 5):
    of_protocol(protocol)


@case(NEW)
def random_state(c: Case) -> None:
    c.tell("states of random generators are tensors as well; the first byte of the file is a tensor's")
    c.save({"rng": torch.get_rng_state()[:64].clone(),
            "generator": {"cpu": torch.Generator().get_state()[:16]}, "python": (3, (1, 2, 3), None)})


@case(OLD, NEW)
def dict_kinds(c: Case) -> None:
    c.tell("dictionaries of the standard library with tensors in them")
    inner = collections.defaultdict(dict, {0: {"m": values(1, "F32", 2)}, 1: {
                                    "m": values(2, "F32", 2), "n": 3}})
    c.save({"state": inner, "list": collections.defaultdict(list, {"a": [values(3, "F32", 2)]}),
            "ordered": collections.OrderedDict([("z", values(4, "F32", 1)),
                                                ("a", collections.OrderedDict())])})


@case(NEW)
def subclasses(c: Case) -> None:
    c.tell("subclasses of dictionaries, lists and tuples of a module that is not known, with tensors in them",
           must="any", note="shown by path, or the whole value as an object; plain is shown always")
    register_library()
    named = NamedDict(b=values(1, "F32", 2))
    named.extra = values(9, "F32", 2)  # type: ignore[attr-defined]
    c.save({"plain": values(0, "F32", 2), "ordered": named, "list": NamedList([values(2, "F32", 2), 3]),
            "dict": PlainDict(a=values(3, "F32", 2)), "tuple": Point(values(4, "F32", 2), 5),
            "set": {values(6, "F32", 2)}, "deque": collections.deque([values(7, "F32", 2)])})


def nested_state() -> State:
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.Linear(6, 3, bias=False))
    rest = [*model[1].parameters(), *model[2].parameters()]
    groups = [{"params": model[0].parameters()}, {"params": rest, "lr": 0.02}]
    optimizer = torch.optim.AdamW(groups, lr=0.1)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0 / (step + 1))
    for step in range(2):
        model(torch.ones(2, 4) * step).square().sum().backward()
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict(),
            "lr_scheduler": scheduler.state_dict(), "epoch": 3, "lr": 0.1,
            "args": argparse.Namespace(lr=0.1, name="run", layers=[4, 6]), "best": {"loss": 0.5, "step": 1},
            "history": [0.5, 0.4], "ema": [p.detach().clone() for p in model.parameters()]}


@case(OLD, OLDER_2, NEW)
def nested(c: Case) -> None:
    c.tell("model, optimizer after steps of AdamW, scheduler and options")
    c.save(nested_state(), "checkpoint.pt")


@case(OLD, NEW)
def nested_model(c: Case) -> None:
    c.tell("the model of it alone")
    c.save(nested_state(), "checkpoint.pt", key="model")


@case(NEW)
def state_dict_wrapped(c: Case) -> None:
    c.tell("the model lies under state_dict, as Lightning does it")
    c.save({"epoch": 1, "global_step": 5, "pytorch-lightning_version": "2.0", "state_dict": plain_state(),
            "hyper_parameters": {"lr": 0.1}, "optimizer_states": [], "callbacks": {"x": None}},
            "epoch=1.ckpt.pt", key="state_dict")


@case(NEW)
def module_wrapped(c: Case) -> None:
    c.tell("the model lies under module, as DeepSpeed does it, and nothing is asked for")
    c.save({"module": plain_state(), "buffer_names": ["norm"], "ds_version": "0.16.0"}, "model_states.pt")


@case(NEW)
def absent_key(c: Case) -> None:
    c.tell("a key is asked for that the file does not have")
    c.save({"model": plain_state()}, key="model")
    c.told.update(must="refuse", options=["--state-key", "weights"])


@case(NEW)
def key_of_object(c: Case) -> None:
    c.tell("the key that is asked for has no tensors")
    c.save({"model": plain_state(), "args": {"lr": 0.1}}, key="model")
    c.told.update(must="refuse", options=["--state-key", "args"])


@case(NEW)
def no_tensors(c: Case) -> None:
    c.tell("a file of torch.save without any tensor")
    c.save({"epoch": 1, "list": [1, 2]})
    c.told.update(must="refuse")


# ---------------------------------------------------------------------------------- streams, other archives


@case(OLD, NEW)
def stream_plain(c: Case) -> None:
    c.tell("the stream from before 1.6")
    c.save(plain_state(), **STREAM)


@case(OLD, NEW)
def stream_tied(c: Case) -> None:
    c.tell("the stream from before 1.6: one storage under several names")
    c.save(tied_state(), **STREAM)


@case(OLD, NEW)
def stream_views(c: Case) -> None:
    c.tell("the stream from before 1.6: views")
    c.save(views_state(), **STREAM)


@case(OLD, NEW)
def stream_nested(c: Case) -> None:
    c.tell("the stream from before 1.6: model and optimizer")
    c.save(nested_state(), "checkpoint.pth", **STREAM)


@case(OLD, NEW)
def stream_objects(c: Case) -> None:
    c.tell("the stream from before 1.6: values of all kinds, and a module with its source text")
    register_library()
    c.save(objects_state(), **STREAM)


@case(OLD, NEW)
def stream_dtypes(c: Case) -> None:
    c.tell("the stream from before 1.6: all types that it can hold")
    state = {}
    for number, kind in enumerate(KINDS):
        tensor = values(number, kind, 3, 2)
        try:
            buffer = io.BytesIO()
            torch.save({"x": tensor}, buffer, **STREAM)
            buffer.seek(0)
            torch.load(buffer)  # newer types can be saved so, and not be loaded
        except Exception as error:  # noqa: BLE001: whatever it says
            print(f"{c.name}: no {kind}: {error}", file=sys.stderr)
            continue
        state[f"type.{kind}"] = tensor
    c.save({**state, "empty": values(1, "F32", 0, 3), "complex": torch.view_as_complex(torch.ones(2, 2))},
           **STREAM)


@case(NEW)
def stream_untyped(c: Case) -> None:
    c.tell("the stream from before 1.6 with types that it has no storage class for: PyTorch can write it and "
           "not read it", must="any", note="refusing is right; what is shown is the same")
    state = {"before": values(1, "F32", 3), "u16": values(2, "U16", 5), "f8": values(3, "F8_E4M3", 3),
             "behind": values(4, "F32", 3)}
    c.save(state, **STREAM)


@case(NEW)
def stream_p4(c: Case) -> None:
    c.tell("the stream from before 1.6 with pickles of protocol 4")
    c.save({"a": plain_state(), "tied": tied_state()}, pickle_protocol=4, **STREAM)


@case(NEW)
def stream_bin(c: Case) -> None:
    c.tell("pytorch_model.bin as a stream, as many older models on hubs are", source="src")
    c.save(plain_state(), "pytorch_model.bin", **STREAM)


@case(NEW)
def aligned(c: Case) -> None:
    c.tell("storages aligned to 1024 bytes")
    try:
        from torch.utils.serialization import config
        config.save.storage_alignment = 1024
    except (ImportError, AttributeError) as error:
        raise CannotSave(str(error)) from error
    c.save(values(1, "F32", 5))
    config.save.storage_alignment = 64


@case(NEW)
def without_crc(c: Case) -> None:
    c.tell("records without true checksums")
    torch.serialization.set_crc32_options(False)
    c.save(plain_state())
    torch.serialization.set_crc32_options(True)


@case(NEW)
def from_buffer(c: Case) -> None:
    c.tell("saved to a buffer: the records lie below archive/")
    buffer = io.BytesIO()
    torch.save(plain_state(), buffer)
    c.src.mkdir(parents=True)
    (c.src / "model.pt").write_bytes(buffer.getvalue())
    c.told["source"] = "src/model.pt"
    c.expect(plain_state())


@case(NEW)
def many(c: Case) -> None:
    c.tell("104 tensors: keys of storages with one, two and three digits, memo of more than 256 values")
    c.save({f"layer.{n:03}.w": values(n, "F32", 1 + n % 3) for n in range(104)})


# ------------------------------------------------------------------------------------------ to be refused


def archive_of(state: Any, **options: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(state, buffer, **options)
    return buffer.getvalue()


def truncated(share: str, at: Callable[[bytes], int], stream: bool = False) -> None:
    def function(c: Case) -> None:
        c.tell(f"a file that ends too early: {share}")
        data = archive_of(plain_state(), **(STREAM if stream else {}))
        c.refuse(data[:at(data)])
    function.__name__ = f"truncated_{'stream_' if stream else ''}{share.replace(' ', '_')}"
    case(NEW)(function)


truncated("nothing in it", lambda data: 0)
truncated("3 bytes", lambda data: 3)
truncated("in the pickle", lambda data: data.index(b"_rebuild_tensor_v2") + 5)
truncated("in the data", lambda data: len(data) // 2)
truncated("before the directory", lambda data: data.index(b"PK\1\2"))
truncated("in the directory", lambda data: data.index(b"PK\1\2") + 100)
truncated("last byte", lambda data: len(data) - 1)
truncated("in the head", lambda data: 40, stream=True)
truncated("in the pickle", lambda data: data.index(b"_rebuild_tensor_v2") + 5, stream=True)
truncated("before the data", lambda data: data.index(b"]q\0(X") + 20, stream=True)
truncated("in the data", lambda data: len(data) - 100, stream=True)
truncated("last byte", lambda data: len(data) - 1, stream=True)


@case(NEW)
def torchscript(c: Case) -> None:
    c.tell("an archive of torch.jit.save is a program, no state dict")

    class Doubled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2, 2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ self.weight
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.trace(Doubled(), torch.ones(1, 2)), buffer)
    c.refuse(buffer.getvalue())


@case(OLD, NEW)
def whole_module(c: Case) -> None:
    c.tell("a module saved whole: no state dict, and its class must be run to get one")
    c.refuse(archive_of(nn.Sequential(nn.Linear(2, 3), nn.ReLU())))


@case(NEW)
def stream_whole_module(c: Case) -> None:
    c.tell("a module saved whole as a stream")
    c.refuse(archive_of(Own(Own()), **STREAM))


@case(NEW, made=True)
def plain_pickle(c: Case) -> None:
    c.tell("a pickle that torch.save did not write")
    c.refuse(pickle.dumps({"w": [1.0, 2.0], "name": "x"}, protocol=2), "model.pt")


@case(NEW)
def pickled_tensors(c: Case) -> None:
    c.tell("a state dict that pickle.dump wrote: the tensors are pickled by value")
    c.refuse(pickle.dumps({"w": torch.ones(2)}, protocol=2), "model.pt")


@case(NEW, made=True)
def compressed(c: Case) -> None:
    c.tell("an archive whose records are compressed: no offset in the file is that of a tensor")
    members = members_of({"w": stored(np.arange(600, dtype=np.float32) // 9)}, "model")
    write_members(c.src / "model.pt", members, method=zipfile.ZIP_DEFLATED)
    c.refuse((c.src / "model.pt").read_bytes())


@case(NEW, made=True)
def only_pickle_compressed(c: Case) -> None:
    c.tell("the pickle alone is compressed, as no torch.save does; the data are not", must="any",
           note="to refuse it is right; if the tensor is shown it must be the same")
    members = members_of({"w": stored(np.arange(6, dtype=np.float32))}, "model")
    path = c.src / "model.pt"
    path.parent.mkdir(parents=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, data in members:
            archive.writestr(name, data, zipfile.ZIP_DEFLATED
                             if name.endswith(".pkl") else zipfile.ZIP_STORED)
    c.told["source"] = "src/model.pt"
    c.tensors["w"] = torch.arange(6, dtype=torch.float32)


@case(NEW, made=True)
def other_zip(c: Case) -> None:
    c.tell("a zip archive of something else")
    write_members(c.src / "model.pt", [("readme.txt", b"hello"), ("a/b.bin", bytes(64))])
    c.refuse((c.src / "model.pt").read_bytes())


@case(NEW, made=True)
def big_endian(c: Case) -> None:
    c.tell("the record byteorder says big")
    members = [(name, b"big" if name.endswith("byteorder") else data)
               for name, data in members_of({"w": stored(np.arange(6, dtype=np.float32))}, "model")]
    write_members(c.src / "model.pt", members)
    c.refuse((c.src / "model.pt").read_bytes())


@case(NEW, made=True)
def stream_big_endian(c: Case) -> None:
    c.tell("the head of the stream says that it is big endian")
    path = c.src / "model.pt"
    write_stream(path, {"w": stored(np.arange(6, dtype=np.float32))})
    c.refuse(path.read_bytes().replace(b"little_endianq\2\x88", b"little_endianq\2\x89", 1))
    if b"\2\x89" not in path.read_bytes():
        raise RuntimeError("the flag is elsewhere")


# ------------------------------------------------------------------------------- pickles with bad intentions

GOOD = np.arange(12, dtype=np.float32).reshape(3, 4)


def hostile(c: Case, what: str, state: Any, *, must: str = "same", refused: tuple[str, ...] = (),
            objects: tuple[str, ...] = (), stream: bool = False, note: str | None = None) -> None:
    """A file with the tensor `good` and besides what is said."""
    (write_stream if stream else write_archive)(c.src / "model.pt", state)
    c.tell(what, source="src/model.pt", must=must, must_not_exist=[MARK])
    if note:
        c.told["note"] = note
    if must != "refuse":
        c.tensors["good"] = torch.from_numpy(GOOD)
        c.told["refused"], c.told["objects"] = list(refused), list(objects)


def runs(module: str = "posix", name: str = "system") -> Call:
    return Call(Global(module, name), (f"touch {MARK}",))


@case(NEW, made=True)
def hostile_reduce(c: Case) -> None:
    hostile(c, "a call of os.system as a value beside a tensor: an object, and nothing is run",
            {"good": stored(GOOD), "evil": runs()}, objects=("evil",))


@case(NEW, made=True)
def hostile_first(c: Case) -> None:
    hostile(c, "calls by other ways to spell them, before and behind the tensor",
            {"os": runs("os", "system"), "eval": Call(Global("builtins", "eval"), (f"open('{MARK}','w')",)),
             "exec": Call(Global("__builtin__", "exec"), (f"open('{MARK}','w')",)), "good": stored(GOOD),
             "popen": Call(Global("subprocess", "Popen"), (["touch", MARK],)),
             "chain": Call(Call(Global("__builtin__", "getattr"), (Call(Global("importlib", "import_module"),
                                                                         ("os",)), "system")),
                                                                         (f"touch {MARK}",)),
             "state": Call(Global("mylib", "Evil"), (), {"__reduce__": runs()}, new=True),
             "hub": Call(Global("torch.hub", "load"), ("a/b", "c")),
             "run": Call(Global("runpy", "_run_code"), ("x", {}))},
            objects=("chain", "eval", "exec", "hub", "os", "popen", "run", "state"))


@case(NEW, made=True)
def hostile_stream(c: Case) -> None:
    hostile(c, "the same in a stream", {"evil": runs(), "good": stored(GOOD)}, objects=("evil",), stream=True)


@case(NEW, made=True)
def hostile_top(c: Case) -> None:
    hostile(c, "the whole value is a call", Call(Global("builtins", "dict"),
                                                 ({"good": stored(GOOD), "e": runs()},)), must="refuse")


@case(NEW, made=True)
def hostile_in_tensor(c: Case) -> None:
    rebuilt = Call(Global("torch._utils", "_rebuild_parameter"), (stored(GOOD), runs(), ordered({})))
    typed = Call(Global("torch._tensor", "_rebuild_from_type_v2"),
                 (Global("posix", "system"), Global("torch", "Tensor"), (f"touch {MARK}",), {}))
    shape = Call(Global("torch._utils", "_rebuild_tensor_v2"), (runs(), 0, runs(), (1,), False, ordered({})))
    hostile(c, "calls where a tensor's arguments are expected",
            {"good": stored(GOOD), "parameter": rebuilt, "typed": typed, "shape": shape}, must="any",
            note="good is shown; the others are refused, objects, or for parameter the tensor")


@case(NEW, made=True)
def hostile_inst(c: Case) -> None:
    """INST and OBJ call as well."""
    inst = Raw(b"(S'touch " + MARK.encode() + b"'\niposix\nsystem\n")
    obj = Raw(b"(cposix\nsystem\nX" + (6 + len(MARK)).to_bytes(4,
                                                               "little") + b"touch " + MARK.encode() + b"o")
    newobj_ex = Raw(b"cposix\nsystem\nX" + (6 + len(MARK)).to_bytes(4, "little") + b"touch " + MARK.encode()
                    + b"\x85}\x92")
    hostile(c, "calls by the opcodes INST, OBJ and NEWOBJ_EX", {"inst": inst, "obj": obj, "ex": newobj_ex,
                                                                "good": stored(GOOD)},
            must="any", note="nothing is run; good is the same if it is shown")


@case(NEW, made=True)
def hostile_recursive(c: Case) -> None:
    inner: list[Any] = [1]
    inner.append(inner)
    around: dict[str, Any] = {"a": 1}
    around["self"] = around
    hostile(c, "containers that contain themselves, without tensors", {"good": stored(GOOD), "list": inner,
                                                                       "dict": around},
            objects=("dict", "list"))


@case(NEW, made=True)
def hostile_recursive_tensors(c: Case) -> None:
    around: dict[str, Any] = {"t": stored(GOOD)}
    around["self"] = around
    around["list"] = [around]
    hostile(c, "a dictionary that contains itself and a tensor", {"good": stored(GOOD), "dict": around},
            must="any", note="must end soon; refusing is right, and so is showing good and dict.t")


@case(NEW, made=True)
def hostile_recursive_top(c: Case) -> None:
    around: dict[str, Any] = {"t": stored(GOOD)}
    around["self"] = around
    hostile(c, "the state dict contains itself", around, must="any",
            note="must end soon; refusing is right, and so is showing t")
    c.tensors = {"t": torch.from_numpy(GOOD)}


@case(NEW, made=True)
def hostile_shared(c: Case) -> None:
    value: Any = [1]
    for _ in range(40):
        value = [value, value]
    hostile(c, "lists that are shared, 40 levels deep: 2^40 paths lead to the last", {"good": stored(GOOD),
                                                                                      "wide": value},
            objects=("wide",))


@case(NEW, made=True)
def hostile_shared_tensors(c: Case) -> None:
    value: Any = [stored(GOOD)]
    for _ in range(40):
        value = [value, value]
    hostile(c, "the same, with a tensor in the last: 2^40 names",
            {"good": stored(GOOD), "wide": value}, must="refuse")


@case(NEW, made=True)
def hostile_shared_dicts(c: Case) -> None:
    value: Any = {"x": 1}
    for _ in range(40):
        value = {"a": value, "b": value, "c": (value, value)}
    hostile(c, "the same with dictionaries and tuples", {"wide": value, "good": stored(GOOD)}, must="any",
            note="values in so many others may be refused")


@case(NEW, made=True)
def hostile_deep(c: Case) -> None:
    depth = 4_000
    hostile(c, f"{depth} lists in each other",
            {"good": stored(GOOD), "deep": Raw(b"]" * depth + b"a" * (depth - 1))}, must="any",
            note="must not end the program by its stack; refusing is right, and so is showing good")


@case(NEW, made=True)
def hostile_deep_tuples(c: Case) -> None:
    depth = 10_000
    hostile(c, f"{depth} tuples in each other", {"good": stored(GOOD), "deep": Raw(b")" + b"\x85" * depth)},
            must="any", note="must not end the program by its stack; refusing is right, or showing good")


def beyond(shape: tuple[int, ...], stride: tuple[int, ...],
           offset: int = 0, said: int | None = None) -> Stored:
    return Stored(Storage("F32", GOOD.tobytes(), said), shape, stride, offset)


@case(NEW, made=True)
def hostile_bounds(c: Case) -> None:
    bad = {"offset": beyond((3, 4), (4, 1), 1), "far": beyond((1,), (1,), 12),
           "stride": beyond((3, 4), (5, 1)), "count": beyond((4, 4), (4, 1)),
           "wraps": beyond((2**33, 2**31), (4, 1)), "wraps.stride": beyond((2, 2), (2**62, 2**62)),
           "wraps.offset": beyond((1,), (1,), 2**63 - 1)}
    hostile(c, "shapes, strides and offsets that lead beyond the storage", {"good": stored(GOOD), **bad},
            refused=tuple(bad))


@case(NEW, made=True)
def hostile_malformed(c: Case) -> None:
    bad = {"negative.offset": beyond((2,), (1,), -1), "negative.stride": beyond((3,), (-1,), 2),
           "negative.shape": beyond((-3, 4), (4, 1)), "large.offset": beyond((1,), (1,), 2**70),
           "few.strides": beyond((3, 4), (1,)), "many.strides": beyond((3,), (1, 1))}
    hostile(c, "shapes, strides and offsets that no tensor has", {"good": stored(GOOD), **bad}, must="any",
            refused=tuple(bad), note="these are refused by name and good is shown, or the file is refused")


@case(NEW, made=True)
def hostile_said(c: Case) -> None:
    bad = {"more": beyond((3, 4), (4, 1), said=50), "negative": beyond((3, 4), (4, 1), said=-1)}
    used = {"more.used": beyond((5, 10), (10, 1), said=50)}
    hostile(c, "storages that are said to be larger than their records",
            {"good": stored(GOOD), **bad, **used}, must="any", refused=tuple(used),
            note="more and negative are refused, or shown as good is; more.used is refused; good is shown, "
                 "unless the file is refused")


@case(NEW, made=True)
def hostile_huge(c: Case) -> None:
    hostile(c, "an expanded element: a tensor of 2^62 bytes in a file of few",
            {"good": stored(GOOD), "huge": Stored(Storage("F32", bytes(4)), (2**30, 2**30), (0, 0))},
            must="any",
            note="good is shown; huge is refused or has its size: nothing may allocate it")


@case(NEW, made=True)
def hostile_counts(c: Case) -> None:
    hostile(c, "a text that is said to be 4 GiB long", {"good": stored(GOOD), "x": Raw(b"X\xff\xff\xff\xff")},
            must="refuse")


@case(NEW, made=True)
def hostile_long_text(c: Case) -> None:
    hostile(c, "bytes that are said to be 2^62 long",
            {"good": stored(GOOD), "x": Raw(b"\x8e" + bytes(7) + b"\x40")}, must="refuse")


@case(NEW, made=True)
def hostile_stack(c: Case) -> None:
    hostile(c, "takes more from the stack than lies there", {"good": stored(GOOD), "x": Raw(b"00000")},
            must="refuse")


@case(NEW, made=True)
def hostile_memo(c: Case) -> None:
    hostile(c, "asks for a value that was never kept", {"good": stored(GOOD), "x": Raw(b"j\xff\xff\xff\x7f")},
            must="refuse")


@case(NEW, made=True)
def hostile_memo_far(c: Case) -> None:
    hostile(c, "keeps a value under the largest number",
            {"good": stored(GOOD), "x": Raw(b"Nr\xff\xff\xff\xff")},
            must="any", note="refusing is right, or an object x; a table of 2^32 places is never made")


@case(NEW, made=True)
def hostile_opcode(c: Case) -> None:
    hostile(c, "an opcode that does not exist", {"good": stored(GOOD), "x": Raw(b"\xff")}, must="refuse")


@case(NEW, made=True)
def hostile_extension(c: Case) -> None:
    hostile(c, "an extension number of copyreg", {"good": stored(GOOD), "x": Raw(b"\x82\x01")}, must="any",
            note="refusing is right, and so is an object x")
    c.told["objects"] = ["x"]


@case(NEW, made=True)
def hostile_missing_storage(c: Case) -> None:
    members = members_of({"good": stored(GOOD), "lost": stored(GOOD)}, "model")
    write_members(c.src / "model.pt", [m for m in members if m[0] != "model/data/1"])
    c.tell("the record of one storage is missing", source="src/model.pt", refused=["lost"])
    c.tensors["good"] = torch.from_numpy(GOOD)


@case(NEW, made=True)
def hostile_small_storage(c: Case) -> None:
    members = members_of({"good": stored(GOOD), "short": stored(GOOD)}, "model")
    write_members(c.src / "model.pt", [(n, d[:40] if n == "model/data/1" else d) for n, d in members])
    c.tell("the record of one storage is shorter than the pickle says",
           source="src/model.pt", refused=["short"])
    c.tensors["good"] = torch.from_numpy(GOOD)


@case(NEW, made=True)
def hostile_two_records(c: Case) -> None:
    members = members_of({"good": stored(GOOD)}, "model")
    write_members(c.src / "model.pt", [*members, ("model/data/0", bytes(48))])
    c.tell("two records of one name", source="src/model.pt", must="any",
           note="refusing is right; PyTorch and most programs take the last")


@case(NEW, made=True)
def hostile_names(c: Case) -> None:
    name = b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\x10\0\0\0../../etc/passwdX\3\0\0\0cpuK\x0ctQ"
    bad = Call(Global("torch._utils", "_rebuild_tensor_v2"),
               (Raw(name), 0, (3, 4), (4, 1), False, ordered({})))
    hostile(c, "a storage whose name leads out of the archive", {"good": stored(GOOD), "bad": bad},
            refused=("bad",))


@case(NEW, made=True)
def hostile_kinds(c: Case) -> None:
    def of(number: bytes) -> Call:
        return Call(Global("torch._utils", "_rebuild_tensor_v2"),
                    (Raw(number), 0, (3, 4), (4, 1), False, ordered({})))

    def v3(kind: str, dtype: Any) -> Call:
        return Call(Global("torch._utils", "_rebuild_tensor_v3"),
                    (Raw(f"(X\x07\0\0\0storagec{kind}\nX\1\0\0\x000X\3\0\0\0cpuK0tQ".encode()), 0, (3, 4),
                     (4, 1), False, ordered({}), dtype))

    bad = {"unknown": of(b"(X\7\0\0\0storagectorch\nStrangeStorage\nX\1\0\0\x000X\3\0\0\0cpuK\x0ctQ"),
           "text": of(b"(X\7\0\0\0storageX\5\0\0\0floatX\1\0\0\x000X\3\0\0\0cpuK\x0ctQ"),
           "short": of(b"(X\7\0\0\0storagectorch\nFloatStorage\ntQ"),
           "other": of(b"(X\6\0\0\0modulectorch\nFloatStorage\nX\1\0\0\x000X\3\0\0\0cpuK\x0ctQ"),
           "number": of(b"K\5Q"), "call": of(b"cposix\nsystem\nX\1\0\0\0x\x85RQ"),
           "dtype": v3("torch.storage\nUntypedStorage", "float32"),
           "dtype.unknown": v3("torch.storage\nUntypedStorage", Global("torch", "float3")),
           "dtype.module": v3("torch.storage\nUntypedStorage", Global("os", "float32"))}
    hostile(c, "storages and types that are none", {"good": stored(GOOD), **bad}, must="any",
            note="good is shown and the same; the others are refused or the file is")
    c.told["refused"] = sorted(bad)


@case(NEW, made=True)
def late_items(c: Case) -> None:
    """What pickles of memo and POP may do: all of this loads with torch.load."""
    hostile(c, "a dictionary that gets its entries one by one and in two groups, values thrown away, DUP", must="any",
            note="opcodes of protocol 0 may be refused: no torch.save writes them", state=
            {"good": stored(GOOD), "x": Raw(b"}X\1\0\0\0aK\1s(X\1\0\0\0bK\2X\1\0\0\0cK\3uN0(K\1K\0021"),
             "dup": Raw(b"K\x072\x86"), "long": Raw(b"L5L\n"), "int": Raw(b"I01\n"), "float": Raw(b"F1.5\n"),
             "list": Raw(b"(K\1K\2l"), "dict": Raw(b"(K\1K\2d"), "text": Raw(b"Vabc\\u00e4\n"),
             "string": Raw(b"S'abc'\n"), "binstring": Raw(b"U\3abc")})


@case(NEW, made=True)
def shared_dict(c: Case) -> None:
    inner = {"w": stored(GOOD), "n": 1}
    state = {"good": stored(GOOD), "a": inner, "b": [inner, inner], "p": parameter(stored(GOOD)),
             "s": size((2,))}
    hostile(c, "one dictionary with a tensor at three paths", state, objects=("a.n", "b.0.n", "b.1.n", "s"))
    for name in ("a.w", "b.0.w", "b.1.w", "p"):
        c.tensors[name] = torch.from_numpy(GOOD)


# ------------------------------------------------------------------------------------------------- program


def check(c: Case) -> None:
    """That PyTorch itself reads back what is expected."""
    source = c.directory / c.told.get("source", "src")
    if c.told.get("must", "same") != "same" or source.is_dir():
        return
    options = {} if RELEASE == OLD else {"weights_only": False}
    if "hostile" in c.name:
        return
    state = torch.load(source, map_location="cpu", **options)
    for step in c.told.get("options", [None, ""])[1].split("."):
        state = state[step] if step else state
    got = flattened(state)
    for name, tensor in c.tensors.items():
        if got[name].dtype != tensor.dtype or bits_of(got[name]).tobytes() != bits_of(tensor).tobytes():
            raise RuntimeError(f"{c.name}: {name} comes back otherwise")
    rest = {*got} - {*c.tensors} - {*c.told.get("objects", [])} - {*c.told.get("refused", [])}
    if rest:
        raise RuntimeError(f"{c.name}: {sorted(rest)} is nothing")


def main() -> None:
    out = Path(sys.argv[1])
    for name in sys.argv[2:] or CASES:
        directory = out / name
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        c = Case(directory, name)
        try:
            CASES[name](c)
        except CannotSave as error:
            print(f"{name}: {error}", file=sys.stderr)
            shutil.rmtree(directory)
            continue
        c.finish(CASES[name].made)  # type: ignore[attr-defined]
        check(c)


if __name__ == "__main__":
    main()
