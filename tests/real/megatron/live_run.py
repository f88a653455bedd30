# SPDX-License-Identifier: Apache-2.0
"""A run of Megatron-Core, for models of transformers in memory: see live.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hub
import live
import ranks
import training
from product import require_module
from settings import Settings


def fill(directory: Path, **words: Any) -> dict[str, int]:
    require_module()
    settings = Settings(groups=4, **words)
    ranks.run(settings, training.save, directory / "run", directory / "truth")
    hub.write_config(directory / "config", settings)
    options = {settings.map[0].removeprefix("--"): settings.map[1], "model_config": directory / "config"}
    return live.check(directory, live.Source(directory / "run", directory / "config", options, tuple(settings.map),
                                             settings.optimizer != "none"))
