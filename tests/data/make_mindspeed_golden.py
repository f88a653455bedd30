# SPDX-License-Identifier: Apache-2.0
"""Makes the sets tests/goldentorch/mindspeed_*: layers without parameters (--noop-layers) and the schedule dualpipev.

make_mindspeed_golden.py MINDSPEED: MINDSPEED is a checkout of it. MindSpeed builds the layers (build_layers_impl,
get_num_layers_to_build and get_transformer_layer_offset), and Megatron-LM saves them. Needs the environment
megatron-0.19.2 of tests/real. A rank after the other plays all: nothing is cut by rows or columns.
"""

from __future__ import annotations

import __future__
import ast
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "real" / name) for name in ("worker", "megatron")]

import forked  # noqa: E402
import model as networks  # noqa: E402  before Megatron
import ranks  # noqa: E402
import torch  # noqa: E402
import training  # noqa: E402
from megatron.core import parallel_state  # noqa: E402
from megatron.core.transformer import transformer_block, transformer_layer  # noqa: E402
from safetensors.torch import save_file  # noqa: E402
from settings import Settings  # noqa: E402

SHOWN = ("tensor_model_parallel_size", "pipeline_model_parallel_size", "virtual_pipeline_model_parallel_size",
         "expert_model_parallel_size", "num_layers", "noop_layers", "schedules_method", "vocab_size", "padded_vocab_size",
         "make_vocab_size_divisible_by")
CASES: dict[str, tuple[str, int, set[int], int, str | None]] = {
    "mindspeed_noop": ("two stages of six layers, of which the first and the last have no parameters", 6, {0, 5}, 1, None),
    "mindspeed_noop_virtual": ("two stages in two parts of eight layers, of which two have no parameters", 8, {4, 7}, 2,
                               None),
    "mindspeed_dualpipev_noop": ("two stages of eight layers with the schedule dualpipev, whose second parts go back through the stages; one layer "
                                 "has no parameters", 8, {5}, 1, "dualpipev"),
}


def functions(path: Path, *names: str, **known: Any) -> dict[str, Any]:
    """Of a source file whose module needs what a CPU does not have."""
    tree = ast.parse(path.read_text())
    taken = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in names]
    space: dict[str, Any] = {"torch": torch, "parallel_state": parallel_state, **known}
    code = compile(ast.Module(taken, []), str(path), "exec", flags=__future__.annotations.compiler_flag, dont_inherit=True)
    exec(code, space)
    return space


def patch(mindspeed: Path, args: Any) -> None:
    """As MindSpeed's features do."""
    from megatron.core.transformer.module import MegatronModule
    from megatron.core.transformer.spec_utils import build_module

    block = functions(mindspeed / "mindspeed/core/transformer/transformer_block.py", "_get_layer_offset")
    layers = functions(mindspeed / "mindspeed/core/pipeline_parallel/noop_layers/transformer.py", "build_layers_impl",
                       Callable=object, Type=type, _get_layer_offset=lambda _: block["_get_layer_offset"](args))
    noop = functions(mindspeed / "mindspeed/core/pipeline_parallel/noop_layers/adaptor.py", "NoopTransformerLayer",
                     MegatronModule=MegatronModule, Tensor=torch.Tensor)["NoopTransformerLayer"]

    def build_layers(transformer: Any) -> None:
        transformer.config.noop_layers = args.noop_layers
        layers["build_layers_impl"](transformer, noop, build_of(transformer))

    def build_of(transformer: Any) -> Any:
        # Releases after the one that MindSpeed patches hand these to modules.
        own = {"pg_collection": transformer.pg_collection, "vp_stage": transformer.vp_stage}
        return lambda spec, **words: build_module(spec, **(words | (own if "layer_number" in words else {})))

    transformer_block.TransformerBlock._build_layers = build_layers
    if args.schedules_method == "dualpipev":
        fold = functions(mindspeed / "mindspeed/core/pipeline_parallel/dualpipev/dualpipev_chunks.py",
                         "get_num_layers_to_build", "get_transformer_layer_offset", get_args=lambda: args)
        transformer_block.get_num_layers_to_build = lambda config, *_, **__: fold["get_num_layers_to_build"](config)
        transformer_layer.get_transformer_layer_offset = (
            lambda config, *_, **__: fold["get_transformer_layer_offset"](config))


def chunks(settings: Settings, args: Any, parts: int) -> list[torch.nn.Module]:
    """As get_model() of Megatron-LM and of dualpipev_chunks.py has them."""
    first, last = parallel_state.is_pipeline_first_stage(), parallel_state.is_pipeline_last_stage()
    config = networks.config_of(settings)

    def one(pre: bool, post: bool, part: int | None) -> torch.nn.Module:
        spec = networks.spec_of(settings, config)
        return networks.GPTModel(config, spec, settings.padded, 64, parallel_output=False, pre_process=pre,
                                 post_process=post, share_embeddings_and_output_weights=False,
                                 position_embedding_type="rope", vp_stage=part)

    if args.schedules_method == "dualpipev":
        args.dualpipev_first_chunk = True
        out = [one(first, False, None)]
        args.dualpipev_first_chunk = False
        return [*out, one(False, first, None)]
    if parts == 1:
        return [one(first, last, None)]
    config.virtual_pipeline_model_parallel_size = parts
    out = []
    for part in range(parts):
        parallel_state.set_virtual_pipeline_model_parallel_rank(part)
        out.append(one(first and part == 0, last and part == parts - 1, part))
    return out


@torch.no_grad()
def fill(chunk: torch.nn.Module, noop: set[int], expected: dict[str, torch.Tensor]) -> None:
    """Layers get the values of their numbers among those that have parameters, as MindSpeed-LLM converts them."""
    for name, parameter in chunk.named_parameters():
        if name.startswith("decoder.layers."):
            local, rest = name.removeprefix("decoder.layers.").split(".", 1)
            number = chunk.decoder.layers[int(local)].layer_number - 1
            name = f"decoder.layers.{number - sum(other < number for other in noop)}.{rest}"
        parameter.copy_(networks.value_of(name, tuple(parameter.shape), 1))
        expected[name] = parameter.detach().clone()


def save(settings: Settings, mindspeed: Path, output: Path, parts: int, noop: set[int], schedule: str | None,
         place: Path) -> None:
    from megatron.training import checkpointing

    if parts > 1:
        parallel_state.set_virtual_pipeline_model_parallel_world_size(parts)
        parallel_state.set_virtual_pipeline_model_parallel_rank(0)
    args = training.arguments(settings, save=str(output))
    args.noop_layers, args.schedules_method = noop or None, schedule
    args.virtual_pipeline_model_parallel_size = parts if parts > 1 else None
    # What the command line and the machine say.
    args.save, args.pretrained_checkpoint = "run", None
    patch(mindspeed, args)
    expected: dict[str, torch.Tensor] = {}
    model = chunks(settings, args, parts)
    for chunk in model:
        fill(chunk, noop, expected)
    args.save = str(output)
    checkpointing.save_checkpoint(training.ITERATION, model, None, None, 0)
    save_file(expected, place / f"{torch.distributed.get_rank()}.safetensors")


def make(name: str, mindspeed: Path) -> None:
    from safetensors.torch import load_file

    what, layers, noop, parts, schedule = CASES[name]
    target = TESTS / "goldentorch" / name
    shutil.rmtree(target, ignore_errors=True)
    place = target / "parts"
    place.mkdir(parents=True)
    os.chdir(target)
    settings = Settings(layers=layers, pipeline=2, format="torch", numbered=True, engine=False)
    ranks.run(settings, save, mindspeed, Path("src"), parts, noop, schedule, place)
    tensors = {key: tensor for path in sorted(place.iterdir()) for key, tensor in load_file(path).items()}
    numbers = {int(key.split(".")[2]) for key in tensors if key.startswith("decoder.layers.")}
    assert numbers == set(range(layers - len(noop))), numbers
    save_file(tensors, target / "expected.safetensors")
    shutil.rmtree(place)
    (one, *_) = sorted(target.glob("src/iter_*/*/model_optim_rng.pt"))
    saved = torch.load(one, weights_only=False)
    objects = [key for key in saved if not key.startswith("model")]
    objects += ["*._extra_state", *(f"args.{key}" for key in SHOWN if hasattr(saved["args"], key))]
    case = {"name": name, "what": what, "written_by": "MindSpeed and Megatron-LM 0.19.2", "source": "src", "must": "same",
            "options": [], "refused": [], "objects": sorted(objects),
            "note": "expected are the layers that have parameters, in their order"}
    (target / "case.json").write_text(json.dumps(case, indent=1) + "\n")


if __name__ == "__main__":
    for chosen in sys.argv[2:] or CASES:
        make(chosen, Path(sys.argv[1]).resolve())
