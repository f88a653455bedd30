# SPDX-License-Identifier: Apache-2.0
"""What the cases of torch_files.py are made with.

A case is a function that saves files, and says what is in them.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integration"))

import numpy as np  # noqa: E402
import torch  # noqa: E402
from format_files import write_safetensors  # noqa: E402

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
