# SPDX-License-Identifier: Apache-2.0
"""What notebooks show of a checkpoint and of its parts."""

from __future__ import annotations

from html import escape

from . import _core
from ._arguments import encoded
from ._errors import Error

_COLUMNS = 100
_LINES = 40
_MOST_RANKS = 16


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")


def _size(count: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def _tree(tensors: _core.TensorSet) -> str:
    return f"<pre>{escape(tensors.tree(_COLUMNS, _LINES))}</pre>"


def _bytes(tensors: _core.TensorSet) -> int:
    return sum(tensors.info(number)[3] for number in range(len(tensors)))


def page_of_state(title: str, tensors: _core.TensorSet) -> str:
    size = _size(_bytes(tensors))
    return f"<p><b>{escape(title)}</b>: {counted(len(tensors), 'tensor')}, {size}</p>{_tree(tensors)}"


def page_of_checkpoint(source: str, checkpoint: _core.Checkpoint) -> str:
    if checkpoint.closed:
        return f"<p><b>{escape(source)}</b>: closed</p>"
    ranks = checkpoint.ranks
    step = f", step {escape(checkpoint.step)}" if checkpoint.step else ""
    parts = [f"<p><b>{escape(source)}</b>: {counted(len(ranks), 'rank')}{step}</p>"]
    parts += [f"<p>⚠ {escape(line)}</p>" for line in checkpoint.warnings]
    try:
        parts.append(_tree(checkpoint.whole_tensors()))
    except Error as error:
        parts.append(f"<p>{escape(str(error))}</p>")
    rows = []
    for rank in ranks[:_MOST_RANKS]:
        tensors = checkpoint.tensors(rank)
        rows.append(f"<tr><td>{rank}</td><td>{len(tensors)}</td><td>{_size(_bytes(tensors))}</td></tr>")
    more = len(ranks) - _MOST_RANKS
    if more > 0:
        rows.append(f"<tr><td>... and {more} more</td></tr>")
    parts.append("<table><tr><th>rank</th><th>tensors</th><th>size</th></tr>" + "".join(rows) + "</table>")
    return "".join(parts)


def page_of_tensor(name: str, facts: str, checkpoint: _core.Checkpoint) -> str:
    line = f"<p><b>{escape(name)}</b>: {escape(facts)}</p>"
    data = encoded(name)
    if checkpoint.closed or data is None:
        return line
    picture = checkpoint.draw_parameter(data)
    return line + picture[picture.index("<svg"):]
