# SPDX-License-Identifier: Apache-2.0
"""Tensors that are read when they are asked for."""

from __future__ import annotations

import html
import operator
from collections.abc import Iterable, Iterator, KeysView, Mapping, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex, Tuple

from . import _core, _forks
from ._arguments import encoded, integer, is_bool, name_list, name_text, thread_count
from ._errors import CannotShare, Error, UnknownName, WrongIndex, WrongType, WrongValue
from ._html import counted, page_of_state, page_of_tensor
from ._pickling import Kept, kept, opened
from ._types import numpy_dtype

if TYPE_CHECKING:
    import numpy as np

# As they are when the module is loaded, where Python 3.9 needs the old names.
Bounds = Tuple[Sequence[int], Sequence[int]]


def _wrong(name: str, why: str) -> WrongIndex:
    return WrongIndex(f"parameter '{name}': {why}", parameter=name)


def _pair(value: Any, what: str, meaning: str) -> tuple[int, int] | None:
    if value is None:
        return None
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise WrongType(f"{what} is {meaning}, not {value!r}")
    return integer(value[0], f"each number of {what}"), integer(value[1], f"each number of {what}")


def _spread(index: Any, dimensions: int, name: str) -> list[SupportsIndex | slice]:
    """One index for each dimension."""
    parts = list(index) if isinstance(index, tuple) else [index]
    dots = [place for place, part in enumerate(parts) if part is Ellipsis]
    if len(dots) > 1:
        raise _wrong(name, "an index has one '...' at most")
    missing = dimensions - (len(parts) - len(dots))
    if missing < 0:
        raise _wrong(name, f"{len(parts) - len(dots)} indices for {dimensions} dimensions")
    place = dots[0] if dots else len(parts)
    parts[place:place + len(dots)] = [slice(None)] * missing
    return parts


class Tensor:
    """A tensor of a rank, or of the whole model. Nothing is read until its elements are asked for.

    An index reads only the box that it selects: `w[10:20, :]`, `w[3]`, `w[..., ::2]`.
    """

    __slots__ = ("_tensor", "_rank", "_checkpoint", "_bounds", "_generation")

    def __init__(self, tensor: _core.Tensor, rank: int | None, checkpoint: _core.Checkpoint,
                 bounds: Bounds | None = None) -> None:
        """bounds: of what is a box, in the whole tensor."""
        self._tensor = tensor
        self._bounds = bounds
        self._rank = rank
        self._checkpoint = checkpoint
        self._generation = _forks.generation

    def _open(self) -> _core.Tensor:
        """To read from in this process."""
        if self._generation != _forks.generation:
            self._checkpoint = _forks.here(self._checkpoint)
            whole = _tensors_of(self._checkpoint, self._rank).at(encoded(self.name) or b"")
            self._tensor = whole if self._bounds is None else whole.box(*self._bounds)
            self._generation = _forks.generation
        return self._tensor

    @property
    def name(self) -> str:
        return self._tensor.name

    @property
    def dtype(self) -> str:
        """"float32", "bfloat16", ..., and "str" or "map" of what is no array."""
        return self._tensor.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Of what is no array: its number of bytes."""
        return self._tensor.shape

    @property
    def ndim(self) -> int:
        return len(self._tensor.shape)

    @property
    def size(self) -> int:
        """Elements."""
        count = 1
        for length in self._tensor.shape:
            count *= length
        return count

    @property
    def nbytes(self) -> int:
        return self._tensor.nbytes

    @property
    def is_array(self) -> bool:
        """False of texts and maps, which are bytes."""
        return self._tensor.is_array

    def __repr__(self) -> str:
        return f"<reshardfs.Tensor {self.name!r} {self.dtype} {list(self.shape)}>"

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a tensor without dimensions has no length")
        return self.shape[0]

    def __getitem__(self, index: Any) -> np.ndarray:
        """The elements that an index of integers, slices and '...' selects; reads no others, but where
        a slice has a step."""
        begin: list[int] = []
        end: list[int] = []
        kept: list[int | slice] = []
        shape = self.shape
        for dimension, part in enumerate(_spread(index, len(shape), self.name)):
            length = shape[dimension]
            if isinstance(part, slice):
                chosen = range(length)[part]
                low, high = (min(chosen[0], chosen[-1]), max(chosen[0], chosen[-1]) + 1) if chosen else (0, 0)
                begin.append(low)
                end.append(high)
                kept.append(slice(None, None, chosen.step))
            else:
                try:
                    # NumPy takes a truth value for a mask, and adds a dimension.
                    number = None if is_bool(part) else operator.index(part)
                except TypeError:
                    number = None
                if number is None:
                    raise _wrong(self.name, "an index is an integer, a slice or '...', not "
                                 + type(part).__name__)
                if not -length <= number < length:
                    raise _wrong(self.name, f"index {number} leaves dimension {dimension}, "
                                 f"which has {length}")
                begin.append(number % length)
                end.append(number % length + 1)
                kept.append(0)
        return _array(self._open().box(begin, end))[tuple(kept)]

    def box(self, begin: Sequence[int], end: Sequence[int]) -> Tensor:
        """The elements from `begin` up to, but not including, `end` in each dimension, none of them read. Indices
        in a box of a box are relative to the outer one.

        Raises Error if the box has another number of dimensions, or leaves the tensor."""
        first = [integer(index, "each index of a box") for index in begin]
        last = [integer(index, "each index of a box") for index in end]
        cut = self._open().box(first, last)
        start = self._bounds[0] if self._bounds is not None else [0] * len(first)
        bounds = [low + index for low, index in zip(start, first)], [low + index for low, index in zip(start, last)]
        return Tensor(cut, self._rank, self._checkpoint, bounds)

    def numpy(self) -> np.ndarray:
        """All of it, as a new array."""
        return _array(self._open())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("a tensor is read into a new array")
        array = self.numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    def __dlpack__(self, *, stream: Any = None, max_version: tuple[int, int] | None = None,
                   dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> Any:
        """All of it in new memory of the CPU, which whoever takes it keeps and may write to.

        Follows the array API (2023.12): from max_version=(1, 0) on, the capsule is a versioned one, whose
        flags say that this is a copy. Raises BufferError if it must not be one (copy=False), for another
        device than the CPU, and if DLPack has no such elements."""
        if stream is not None:
            raise WrongValue(f"parameter '{self.name}': the CPU has no streams: stream is None, not {stream!r}",
                             parameter=self.name)
        version = _pair(max_version, "max_version", "a version, such as (1, 0)")
        device = _pair(dl_device, "dl_device", "a device's type and number, such as (1, 0)")
        if copy is not None and not is_bool(copy):
            raise WrongType(f"copy is True, False or None, not {type(copy).__name__}")
        if device not in (None, self.__dlpack_device__()):
            raise CannotShare(f"parameter '{self.name}': it is read into memory of the CPU, device (1, 0), not of "
                              f"device {device}", "unsupported", parameter=self.name)
        if copy is not None and not copy:
            raise CannotShare(f"parameter '{self.name}': it is read into new memory, so copy=False cannot be had",
                              "unsupported", parameter=self.name)
        return self._open().dlpack(version is not None and version >= (1, 0))

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def read(self) -> memoryview:
        """Its bytes in C order, little endian, in new memory that can be written."""
        return memoryview(self._open().read())

    def read_into(self, buffer: Any) -> int:
        """Fills a writable buffer (a bytearray, an array, a pinned tensor's memory) with its bytes.

        Returns how many these are."""
        self._open().read_into(buffer)
        return self.nbytes

    def __reduce__(self) -> Any:
        return _tensor_again, (kept(_forks.here(self._checkpoint)), self._rank, self.name, self._bounds)

    def _repr_html_(self) -> str:
        return page_of_tensor(self.name, f"{self.dtype} {list(self.shape)}, {self.nbytes} bytes",
                              _forks.here(self._checkpoint))

    def __bytes__(self) -> bytes:
        return bytes(self.read())


def _as_array(buffer: memoryview, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    import numpy as np
    return np.frombuffer(buffer, numpy_dtype(dtype)).reshape(shape)


def _array(tensor: _core.Tensor) -> np.ndarray:
    import numpy as np
    if not tensor.is_array:
        return np.frombuffer(memoryview(tensor.read()), np.uint8)
    # What NumPy has no type for is not read.
    numpy_dtype(tensor.dtype, tensor.name)
    return _as_array(memoryview(tensor.read()), tensor.dtype, tensor.shape)


def _tensors_of(checkpoint: _core.Checkpoint, rank: int | None) -> _core.TensorSet:
    return checkpoint.whole_tensors() if rank is None else checkpoint.tensors(rank)


class State(Mapping[str, Tensor]):
    """The tensors of a rank, or of the whole model, by name. Nothing is read until one is."""

    def __init__(self, tensors: _core.TensorSet, rank: int | None, checkpoint: _core.Checkpoint) -> None:
        self._tensors = tensors
        self._rank = rank
        self._checkpoint = checkpoint
        self._generation = _forks.generation

    def _open(self) -> _core.TensorSet:
        """To read from in this process."""
        if self._generation != _forks.generation:
            self._checkpoint = _forks.here(self._checkpoint)
            self._tensors = _tensors_of(self._checkpoint, self._rank)
            self._generation = _forks.generation
        return self._tensors

    @property
    def _title(self) -> str:
        return "the whole model" if self._rank is None else f"rank {self._rank}"

    def __len__(self) -> int:
        return len(self._tensors)

    def __iter__(self) -> Iterator[str]:
        for number in range(len(self._tensors)):
            yield self._tensors.name(number)

    def __contains__(self, name: object) -> bool:
        data = encoded(name) if isinstance(name, str) else None
        return data is not None and self._tensors.has(data)

    def __getitem__(self, name: str) -> Tensor:
        data = encoded(name) if isinstance(name, str) else None
        if data is None:
            raise UnknownName(f"the target has no parameter {name!r}"
                              + ("" if isinstance(name, str) else ": names are text"), "missing")
        try:
            return Tensor(self._open().at(data), self._rank, self._checkpoint)
        except Error as error:
            if error.kind != "missing" or name in self:
                raise
            raise UnknownName(*error.args) from None

    def keys(self, *globs: str) -> KeysView[str]:
        """The names; with globs, those that match any of them, such as "model.layers.0.*": as `include` has them."""
        if not globs:
            return super().keys()
        data = [found for found in map(encoded, map(name_text, globs)) if found is not None]
        return dict.fromkeys(self._tensors.names(data)).keys()

    def metadata(self) -> dict[str, str]:
        """As Checkpoint.metadata()."""
        return _forks.here(self._checkpoint).metadata()

    def __repr__(self) -> str:
        tensors = counted(len(self), "tensor")
        return f"<reshardfs.State of {self._title}: {tensors}, {self.nbytes} bytes>"

    @property
    def nbytes(self) -> int:
        """Of all tensors together."""
        return sum(self._tensors.info(number)[3] for number in range(len(self)))

    def read(self, names: Iterable[str] | None = None, *, threads: int = 0) -> dict[str, memoryview]:
        """The bytes of many tensors at once: all, or those that are named. Takes the memory of the
        result and little more. Small tensors share it: up to 16 MiB are free when the last of them is.

        threads: how many read; by default one for each processor, but two at least."""
        count = thread_count(threads)
        wanted = list(self) if names is None else name_list(names)
        handles = [self[name]._tensor for name in wanted]
        return {name: memoryview(read) for name, read in zip(wanted, _core.read_all(handles, count))}

    def numpy(self, names: Iterable[str] | None = None, *, threads: int = 0) -> dict[str, np.ndarray]:
        """As read(), as arrays. Texts and maps, which are none, are left out if no names are given."""
        tensors = {name: self[name] for name in (self.arrays() if names is None else name_list(names))}
        for name, tensor in tensors.items():
            if tensor.is_array:
                numpy_dtype(tensor.dtype, name)
        buffers = self.read(tensors, threads=threads)
        return {name: _as_array(buffers[name], tensor.dtype if tensor.is_array else "uint8", tensor.shape)
                for name, tensor in tensors.items()}

    def arrays(self) -> list[str]:
        """The names of what is no text and no map."""
        facts = map(self._tensors.info, range(len(self)))
        return [name for name, _, _, _, is_array in facts if is_array]

    def __reduce__(self) -> Any:
        return _state_again, (kept(_forks.here(self._checkpoint)), self._rank)

    def _repr_html_(self) -> str:
        return page_of_state(self._title, self._tensors)


class _NoTensors:
    """In place of a set of tensors: says why there is none."""

    def __init__(self, why: Error) -> None:
        self._why = why

    def __getattr__(self, _: str) -> Any:
        raise type(self._why)(*self._why.args)

    def __len__(self) -> int:
        raise type(self._why)(*self._why.args)


class NoState(State):
    """Where there are no tensors to show: says so when it is used."""

    def __init__(self, why: Error, checkpoint: _core.Checkpoint) -> None:
        nothing: Any = _NoTensors(why)
        super().__init__(nothing, None, checkpoint)
        self._why = why

    @property
    def nbytes(self) -> int:
        return 0

    def __repr__(self) -> str:
        return f"<reshardfs.State of {self._title}: {self._why}>"

    def _repr_html_(self) -> str:
        return html.escape(repr(self))


def whole_state(checkpoint: _core.Checkpoint) -> State:
    try:
        return State(checkpoint.whole_tensors(), None, checkpoint)
    except Error as error:
        return NoState(error, checkpoint)


def _state_again(how: Kept, rank: int | None) -> State:
    checkpoint = opened(how)
    return whole_state(checkpoint) if rank is None else State(checkpoint.tensors(rank), rank, checkpoint)


def _tensor_again(how: Kept, rank: int | None, name: str, bounds: Bounds | None = None) -> Tensor:
    tensor = _state_again(how, rank)[name]
    return tensor if bounds is None else tensor.box(*bounds)
