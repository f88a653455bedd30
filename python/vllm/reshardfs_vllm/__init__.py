# SPDX-License-Identifier: Apache-2.0
"""A plugin of vLLM: `--load-format reshardfs`."""


def register() -> None:
    """Called by vLLM in each of its processes, perhaps several times."""
    from . import loader  # noqa: F401  it registers itself
