# SPDX-License-Identifier: Apache-2.0
"""What a run has counted, for the program that has started it."""

from __future__ import annotations

import argparse
import json
from pathlib import Path


def add_counts_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--counts", type=Path, metavar="FILE", help="write what was counted to a JSON file")


def write_counts(file: Path | None, **counts: int) -> None:
    if file is not None:
        file.write_text(json.dumps(counts))
