# SPDX-License-Identifier: Apache-2.0
"""Cases of torch_files.py that are to be refused, or do harm to a program that runs what it reads."""

from __future__ import annotations

import io
import pickle
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn
from torch_case import Case, MARK, NEW, OLD, STREAM, case
from torch_plain import Own, plain_state
from torch_archive import (Call, Global, Raw, Storage, Stored, members_of, ordered, parameter, size, stored,
                           write_archive, write_members, write_stream)


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
    hostile(c, "a dictionary that gets its entries one by one and in two groups, values thrown away, DUP",
            must="any", note="opcodes of protocol 0 may be refused: no torch.save writes them", state=
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
