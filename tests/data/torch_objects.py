# SPDX-License-Identifier: Apache-2.0
"""Cases of torch_files.py: nested values, and objects of all kinds beside tensors."""

from __future__ import annotations

import argparse
import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import os
import pathlib
import sys
import types
import uuid
from typing import Any

import numpy as np
import torch
from torch import nn
from torch_case import Case, NEW, OLD, OLDER_2, RELEASE, State, case, values
from torch_plain import Own, plain_state, tied_state, views_state


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
