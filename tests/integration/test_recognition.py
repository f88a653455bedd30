# SPDX-License-Identifier: Apache-2.0
"""The table of docs/directories.md: for each row, such a directory is made and inspected, as a source and below a
run's directory. What is read is read; what is not says what it is, and what to do."""

from __future__ import annotations

import json
import re
import shutil
import sys
import unittest
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

import numpy as np  # noqa: E402
from ckpt_format import encode_checkpoint, record_of  # noqa: E402
from documents import ROOT  # noqa: E402
from format_files import Tensors, read_safetensors, write_safetensors  # noqa: E402
from mounted import mounted, one_line, run, run_unittests, scratch  # noqa: E402
from meta_sets import whole_model, write_release  # noqa: E402
from torch_archive import ordered, stored, write_archive  # noqa: E402

TESTS = ROOT / "tests"
Maker = Callable[[Path], None]


def tensors(seed: int, *names: str) -> Tensors:
    rng = np.random.default_rng(seed)
    return {name: ("F32", rng.standard_normal((4, 3)).astype("<f4")) for name in names}


def copied(case: str, *below: str) -> Maker:
    def make(place: Path) -> None:
        for name in below or (".",):
            shutil.copytree(TESTS / case / "src", place / name, dirs_exist_ok=True)
    return make


def iteration(place: Path) -> None:
    copied("goldendcp/fsdp_tp_2x", "iter_0000010")(place)
    (place / "latest_checkpointed_iteration.txt").write_text("10")


def ckpts(*names: str) -> Maker:
    def make(place: Path) -> None:
        for name in names:
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(encode_checkpoint([record_of("w", "Float32", np.ones((2, 4), "<f4"))]))
    return make


def safetensors(*names: str, index: str = "") -> Maker:
    def make(place: Path) -> None:
        places = {}
        for number, name in enumerate(names):
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            write_safetensors(place / name, tensors(number, f"t{number}"))
            places[f"t{number}"] = name
        if index:
            (place / index).write_text(json.dumps({"metadata": {}, "weight_map": places}))
    return make


def saved(*names: str) -> Maker:
    def make(place: Path) -> None:
        place.mkdir(parents=True, exist_ok=True)
        for number, name in enumerate(names):
            write_archive(place / name, ordered({"w": stored(tensors(number, "w")["w"][1])}))
    return make


def empty(*names: str) -> Maker:
    """Files that are recognized by their names."""
    def make(place: Path) -> None:
        for name in names:
            path = place / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.mkdir() if name.endswith("/") else path.write_bytes(b"{}")
    return make


# By the first sign of the row.
READ: dict[str, Maker] = {
    ".metadata, or __0.metadata and so on": copied("goldendcp/fsdp_tp_2x"),
    "latest_checkpointed_iteration.txt, iter_0000010/.metadata": iteration,
    "iter_0000010/mp_rank_00/model_optim_rng.pt": copied("goldentorch/megatron_tp2"),
    "shard-00001-model-00001-of-00001.safetensors": copied("goldendcp/hf_sharded_2x"),
    "model_world_size_2_rank_0.pt": copied("goldentorch/fsdp2_w2_26"),
    "consolidated.00.pth, params.json": lambda place: write_release(place, whole_model(), 2),
    "latest_universal, global_step10_universal/zero/": copied("goldentorch/deepspeed_universal"),
    "latest, global_step10/zero_pp_rank_0_mp_rank_00_optim_states.pt": copied("goldentorch/deepspeed_z1_w2"),
    "latest_checkpoint_iteration.txt, global_step_10/.metadata": copied("goldendcp/hyper_keyed_trainer_fsdp2"),
    "metadata.pkl, model_0.pt": lambda place: shutil.copytree(
        TESTS / "goldentorch/items_fsdp4_torch_215/src/step_2", place, dirs_exist_ok=True),
    "checkpoint-10/, step-10/, epoch_0/ or global_step_10/": copied("goldendcp/fsdp_tp_2x", "step-10", "step-20"),
    "iteration_00000010/": copied("golden2/tp4_to_one"),
    "pytorch_model_fsdp_0/.metadata, weights/.metadata, dist_ckpt/.metadata, model_and_optim/.metadata or model/.metadata": copied("goldendcp/fsdp_tp_2x", "weights"),
    "rank_{rank}/*": ckpts("rank_0/net.ckpt", "rank_1/net.ckpt"),
    "rank{rank}/*": ckpts("rank0/net.ckpt", "rank1/net.ckpt"),
    "node{rank}/*": ckpts("node0/net.ckpt", "node1/net.ckpt"),
    "ckpt_{rank}/*": ckpts("ckpt_0/net.ckpt", "ckpt_1/net.ckpt"),
    "*_rank_{rank}*": ckpts("net_rank_0.ckpt", "net_rank_1.ckpt"),
    "model-rank-{rank}-part-*": safetensors("model-rank-0-part-0.safetensors", "model-rank-1-part-0.safetensors"),
    "rank{rank}": safetensors("rank0.safetensors", "rank1.safetensors"),
    "checkpoint/rank_{rank}/*": ckpts("checkpoint/rank_0/net.ckpt"),
    "checkpoint_network/rank_{rank}/*": ckpts("checkpoint_network/rank_0/net.ckpt"),
    "*.safetensors.index*.json, *.bin.index.json or param_name_map.json":
        safetensors("a.safetensors", "b.safetensors", index="quant_model_weights.safetensors.index.json"),
    "model-00001-of-00002.safetensors":
        safetensors("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"),
    "weights.00.safetensors": safetensors("weights.00.safetensors", "weights.01.safetensors"),
    "model.safetensors": safetensors("model.safetensors"),
    "tr-1_4.ckpt, tr-2_2.ckpt": ckpts("tr-1_4.ckpt", "tr-2_2.ckpt"),
    "pytorch_model.bin, pytorch_model_fsdp.bin or model.pt":
        saved("pytorch_model_fsdp.bin", "optimizer.bin"),
}
UNREAD: dict[str, Maker] = {
    "_CHECKPOINT_METADATA": empty("_CHECKPOINT_METADATA", "default/_METADATA"),
    "_METADATA": empty("_METADATA"),
    "manifest.ocdbt": empty("manifest.ocdbt"),
    ".zgroup": empty(".zgroup"),
    ".zarray": empty(".zarray"),
    "zarr.json": empty("zarr.json"),
    "saved_model.pb": empty("saved_model.pb"),
    "*.index": empty("checkpoint", "model.ckpt.index", "model.ckpt.data-00000-of-00001"),
    "model_tp[1-9]*_pp*.pt": saved("model_tp1_pp0.pt"),
    "model_tp*_pp[1-9]*.pt": saved("model_tp0_pp1.pt"),
    "pytorch_model_fsdp_rank[0-9]*.bin": saved("pytorch_model_fsdp_rank0.bin"),
    "*.pdparams": empty("model_state.pdparams"),
    "*.nemo": empty("model.nemo"),
    "checkpoint_metadata.json": empty("checkpoint_metadata.json", "model_config.json", "config.yaml"),
    "ndarray-cache.json": empty("ndarray-cache.json", "params_shard_0.bin"),
    "rank[0-9]*.engine": empty("rank0.engine", "config.json"),
    "*.mlpackage/": empty("Model.mlpackage/"),
    "openvino_*.xml": empty("openvino_model.xml", "openvino_model.bin"),
}


def rows(heading: str) -> dict[str, list[str]]:
    """By the first sign, the other cells."""
    page = (ROOT / "docs/directories.md").read_text()
    (section,) = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", page, re.M | re.S)
    found = {}
    for line in re.findall(r"^\| `.*$", section, re.M):
        first, *others = (cell.strip() for cell in line.strip("|").split(" | "))
        found[first.split("`")[1]] = [cell.strip(" |") for cell in others]
    return found


class Recognition(unittest.TestCase):
    def setUp(self) -> None:
        self.root = self.enterContext(scratch())

    def refusal(self, source: Path) -> str:
        result = run("inspect", source)
        self.assertEqual(result.code, 2, result.stdout)
        return one_line(result)

    def test_every_row_is_made(self) -> None:
        self.assertEqual(sorted(rows("Read")), sorted(READ))
        self.assertEqual(sorted(rows("Known, and not read")), sorted(UNREAD))

    def test_what_is_read(self) -> None:
        for number, (sign, make) in enumerate(READ.items()):
            with self.subTest(sign):
                make(self.root / str(number) / "run")
                result = run("inspect", self.root / str(number) / "run")
                self.assertEqual(result.code, 0, result.stderr)
                # What holds a checkpoint leads there.
                line = self.refusal(self.root / str(number))
                self.assertIn("its directory 'run' is one", line)
                self.assertIn(f"run: reshardfs inspect {self.root / str(number) / 'run'}", line)

    def test_what_is_not_read(self) -> None:
        known = rows("Known, and not read")
        for number, (sign, make) in enumerate(UNREAD.items()):
            what, advice = known[sign]
            with self.subTest(sign):
                make(self.root / str(number) / "run")
                line = self.refusal(self.root / str(number) / "run")
                self.assertIn(f"is {what} (it has ", line)
                self.assertTrue(line.endswith(f"; {advice}"), line)
                below = self.refusal(self.root / str(number))
                self.assertIn(f"'run' is {what} (it has ", below)
                self.assertTrue(below.endswith(f"; {advice}"), below)

    def names(self, source: Path, *options: str) -> list[str]:
        out = self.root / "out.safetensors"
        result = run("export", source, out, "--force", *options)
        self.assertEqual(result.code, 0, result.stderr)
        return sorted(read_safetensors(out)[0])

    def test_a_model_beside_steps_comes_first(self) -> None:
        for step in (500, 1000):
            place = self.root / f"run/checkpoint-{step}"
            place.mkdir(parents=True)
            write_safetensors(place / "model.safetensors", tensors(step, f"of_{step}"))
        run_place = self.root / "run"
        self.assertEqual(self.names(run_place), ["of_1000"])
        # What a trainer leaves beside its steps is no model.
        saved("training_args.bin")(run_place)
        self.assertEqual(self.names(run_place), ["of_1000"])
        write_safetensors(run_place / "model.safetensors", tensors(1, "last"))
        self.assertEqual(self.names(run_place), ["last"])
        self.assertEqual(self.names(run_place, "--step", "500"), ["of_500"])
        self.assertIn("steps in this directory are not read: choose one with --step: 500, 1000",
                      run("inspect", run_place).stderr)
        with mounted(run_place, "--step", "all", "--views", "merged-safetensors") as mount:
            self.assertEqual(sorted(path.name for path in (mount / "steps").iterdir()), ["1000", "500"])
            for place, name in ((mount / "steps/500", "of_500"), (mount / "latest", "of_1000")):
                (file,) = (place / "merged").glob("*.safetensors")
                self.assertEqual(sorted(read_safetensors(file)[0]), [name])
        (run_place / "model.safetensors").rename(run_place / "model-00001-of-00002.safetensors")
        self.assertIn("'model-00002-of-00002.safetensors' is missing", self.refusal(run_place))

    def test_a_step_of_a_model_without_steps_is_refused(self) -> None:
        safetensors("a.safetensors", "b.safetensors", index="model.safetensors.index.json")(self.root / "indexed")
        READ["model-00001-of-00002.safetensors"](self.root / "counted")
        for name in ("indexed", "counted"):
            result = run("inspect", self.root / name, "--step", "7")
            self.assertEqual(result.code, 2, result.stdout)
            self.assertIn("is one checkpoint, without steps", one_line(result))

    def test_an_index_of_other_files_is_not_used(self) -> None:
        READ["model-00001-of-00002.safetensors"](self.root / "hub")
        index = self.root / "hub/model.safetensors.index.json"
        index.write_text(json.dumps({"weight_map": {"t0": "model-00001-of-00003.safetensors"}}))
        self.assertEqual(self.names(self.root / "hub"), ["t0", "t1"])
        self.assertIn("none of the files that it names is here", run("inspect", self.root / "hub").stderr)
        # The files of another set are not those of the model.
        index.write_text(json.dumps({"weight_map": {"t0": "weights-00001-of-00003.safetensors"}}))
        self.assertIn("names the file 'weights-00001-of-00003.safetensors', which is missing",
                      self.refusal(self.root / "hub"))
        index.write_text(json.dumps({"weight_map": {"t0": "model-00001-of-00002.safetensors", "t": "lost.safetensors"}}))
        self.assertIn("names the file 'lost.safetensors', which is missing", self.refusal(self.root / "hub"))

    def test_hidden_files_are_not_read(self) -> None:
        safetensors("model.safetensors")(self.root / "hub")
        (self.root / "hub/._model.safetensors").write_bytes(b"\0\x05\x16\x07\0\x02\0\0Mac OS X        " + bytes(99))
        (self.root / "hub/.metadata").write_text("creator: another program\n")
        self.assertEqual(self.names(self.root / "hub"), ["t0"])

    def test_a_pipeline_names_its_models(self) -> None:
        for name in ("unet", "vae"):
            safetensors("diffusion_pytorch_model.safetensors")(self.root / "pipe" / name)
        empty("model_index.json", "scheduler/scheduler_config.json")(self.root / "pipe")
        line = self.refusal(self.root / "pipe")
        self.assertIn("is a pipeline of diffusers, with a model in each of 'unet', 'vae'", line)

    def test_a_configuration_alone_has_no_weights(self) -> None:
        empty("config.json", "tokenizer.json")(self.root / "hub")
        self.assertIn("has the config.json of a model, but no weights", self.refusal(self.root / "hub"))

    def test_files_that_one_number_tells_apart_are_proposed_as_ranks(self) -> None:
        ckpts("net_0-1.ckpt", "net_1-1.ckpt")(self.root / "flat")
        self.assertIn("--src-pattern 'net_{rank}-1.ckpt'", self.refusal(self.root / "flat"))


if __name__ == "__main__":
    run_unittests()
