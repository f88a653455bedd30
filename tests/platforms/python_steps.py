# SPDX-License-Identifier: Apache-2.0
"""What a newcomer does with the Python module, without any other package: python_steps.py FOLDER, which steps.sh has
filled."""

import sys
from pathlib import Path

import reshardfs

folder = Path(sys.argv[1])
options = {"src_strategy": folder / "source/src_strategy.ckpt", "dst_strategy": "tp=2"}
file = "rank_1/checkpoint_1.ckpt"
with reshardfs.open(folder / "source", **options) as checkpoint:
    state = checkpoint.rank(1)
    for name, content in state.read().items():
        assert len(bytes(content)) == state[name].nbytes > 0, name
    assert checkpoint.file(file).read() == (folder / "out" / file).read_bytes(), file
assert reshardfs.verify(folder / "source", src_strategy=options["src_strategy"])["good"]
for wrong in ({"dst_strategy": "tp=three"}, {"dst_strategy": "tp=2", "ranks": [7]}):
    try:
        reshardfs.open(folder / "source", **{**options, **wrong})
    except reshardfs.Error as error:  # thrown in the engine
        assert str(error), error
    else:
        raise SystemExit(f"no error for {wrong}")
print("Python {}.{}: the same bytes, and errors of the engine".format(*sys.version_info[:2]))
