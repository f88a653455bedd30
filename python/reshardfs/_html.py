# SPDX-License-Identifier: Apache-2.0
"""What notebooks show of a checkpoint and of its parts."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from . import _core
from ._errors import Error

if TYPE_CHECKING:
    from ._checkpoint import Checkpoint

_COLUMNS = 100
_LINES = 40
_MOST_RANKS = 16


def _size(count: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def _tree(tensors: _core.TensorSet) -> str:
    return f"<pre>{escape(tensors.tree(_COLUMNS, _LINES))}</pre>"


def page_of_state(title: str, tensors: _core.TensorSet) -> str:
    size = sum(tensors.info(number)[3] for number in range(len(tensors)))
    return f"<p><b>{escape(title)}</b>: {len(tensors)} tensors, {_size(size)}</p>{_tree(tensors)}"


def page_of_checkpoint(checkpoint: Checkpoint) -> str:
    if checkpoint.closed:
        return f"<p><b>{escape(checkpoint.source)}</b>: closed</p>"
    step = f", step {escape(checkpoint.step)}" if checkpoint.step else ""
    parts = [f"<p><b>{escape(checkpoint.source)}</b>: {len(checkpoint.ranks)} ranks{step}</p>"]
    parts += [f"<p>⚠ {escape(line)}</p>" for line in checkpoint.warnings]
    try:
        parts.append(_tree(checkpoint.merged._tensors))
    except Error as error:
        parts.append(f"<p>{escape(str(error))}</p>")
    rows = []
    for rank in checkpoint.ranks[:_MOST_RANKS]:
        state = checkpoint.rank(rank)
        rows.append(f"<tr><td>{rank}</td><td>{len(state)}</td><td>{_size(state.nbytes)}</td></tr>")
    more = len(checkpoint.ranks) - _MOST_RANKS
    if more > 0:
        rows.append(f"<tr><td>... and {more} more</td></tr>")
    parts.append("<table><tr><th>rank</th><th>tensors</th><th>size</th></tr>" + "".join(rows) + "</table>")
    return "".join(parts)


def page_of_tensor(name: str, facts: str, checkpoint: Checkpoint) -> str:
    line = f"<p><b>{escape(name)}</b>: {escape(facts)}</p>"
    if checkpoint.closed:
        return line
    picture = checkpoint.picture(name)
    return line + picture[picture.index("<svg"):]
