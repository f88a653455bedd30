# SPDX-License-Identifier: Apache-2.0
"""Which types MindFormers trains: those that have maps."""

from __future__ import annotations

import re
import tomllib
from importlib.util import find_spec
from pathlib import Path

MODELS = Path(find_spec("mindformers").origin).parent / "models"
MAPS = Path(__file__).resolve().parents[3] / "config/maps"
# Legacy networks, with the types whose weights their converters take.
LEGACY = {"llama": {"llama", "mistral", "qwen2"}, "glm2": {"chatglm", "glm", "glm4"}}
# Networks that were in its folder research, in releases before this one.
RESEARCH = {"mixtral", "telechat"}


def networks_of(family: Path) -> set[str]:
    """What the classes of causal models are for: Training, PyNative, Inference; legacy ones say nothing."""
    found = set()
    for path in family.glob("*.py"):
        for kind in re.findall(r"^class (Training|PyNative|Inference)?\w+For(?:CausalLM|ConditionalGeneration)\b",
                               path.read_text(), re.MULTILINE):
            found.add(kind)
    return found


def type_of(family: Path) -> str:
    (path,) = family.glob("configuration_*.py")
    return re.search(r'^    model_type = "(\w+)"', path.read_text(), re.MULTILINE)[1].lower()


def types(directory: Path) -> dict[str, int]:
    del directory
    trained, others = set(), set()
    for family in sorted(path for path in MODELS.iterdir() if path.is_dir() and path.name != "auto"):
        networks = networks_of(family)
        if networks & {"Training", "PyNative"}:
            trained.add(type_of(family))
        elif "Inference" in networks:
            others.add(type_of(family))
        elif networks:
            trained |= LEGACY[family.name]
    mapped = {one for path in MAPS.glob("mindformers-*.toml") for one in tomllib.loads(path.read_text()).get("types", ())}
    assert mapped == trained | RESEARCH, f"trained alone: {trained - mapped}, mapped alone: {mapped - trained - RESEARCH}"
    assert others == {"glm4", "glm4_moe", "qwen2", "telechat"}, others  # their names in memory are never saved
    return {"types that MindFormers trains, and maps are for": len(trained)}
