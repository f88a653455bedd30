# SPDX-License-Identifier: Apache-2.0
"""The cases of PyTorch 1.13; those of PyTorch 2 are DeepSpeed's. Imported by the driver: the standard library only."""

from __future__ import annotations

from collections.abc import Iterator

from jobs import Form, Job


def jobs(program: str, form: Form) -> Iterator[Job]:
    yield Job("integration test of PyTorch 1.13", "integration.run", {"name": "test_dcp_torch"}, seconds=1800)
