# SPDX-License-Identifier: Apache-2.0
"""The cases of vLLM. Imported by the driver: the standard library only."""

from __future__ import annotations

from collections.abc import Iterator

from jobs import Form, Job


def jobs(program: str, form: Form) -> Iterator[Job]:
    yield Job("plugin of vLLM", "judge.plugin")
    yield Job("plugin of vLLM, refused", "judge.refused")
    yield Job("plugin of vLLM, experts", "judge.experts")
    yield Job("packed weights of vLLM", "judge.packed")
    yield Job("plans of tensor parallelism", "judge.plans")
