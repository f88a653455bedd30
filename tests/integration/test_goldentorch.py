# SPDX-License-Identifier: Apache-2.0
"""Files that torch.save wrote, the ranks' files of FSDP, Megatron-LM's and DeepSpeed's: what real programs wrote
or writers by their rules, and traps."""

from __future__ import annotations

import json
import shutil
import unittest
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from mounted import mounted, one_line, run, run_unittests, scratch
from web_server import serving

GOLDEN = Path(__file__).resolve().parents[1] / "goldentorch"
HOSTILE_SECONDS = 60.0  # they take some hundredths of a second
MARKS = ("torch_was_run", "was_run")

Tensors = dict[str, tuple[str, list[int], bytes]]
Case = dict[str, Any]


def read_tensors(path: Path) -> Tensors:
    data = path.read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begin])
    header.pop("__metadata__", None)
    return {name: (entry["dtype"], entry["shape"], data[slice(*(begin + at for at in entry["data_offsets"]))])
            for name, entry in header.items()}


def bytes_of(tensor: tuple[str, list[int], bytes]) -> np.ndarray:
    """Its elements, with their bytes as the last axis."""
    _, shape, data = tensor
    return np.frombuffer(data, np.uint8).reshape(*shape, -1)


def cases(must: str, pattern: str = "*") -> Iterator[tuple[Path, Case]]:
    """The source of each case, and what is known of it."""
    for path in sorted(GOLDEN.glob(f"{pattern}/case.json")):
        case = json.loads(path.read_text())
        if case["must"] == must:
            yield path.parent / case["source"], case


def options_of(case: Case) -> list[str]:
    return [*case.get("options", []), *(word for name in case.get("refused", []) for word in ("--exclude", name))]


class GoldenTorch(unittest.TestCase):
    def setUp(self) -> None:
        self.root = self.enterContext(scratch())

    def expected(self, case: Case) -> Tensors:
        return read_tensors(GOLDEN / case["name"] / "expected.safetensors")

    def exported(self, source: Path | str, *options: str) -> Tensors:
        out = self.root / "out.safetensors"
        result = run("export", source, out, "--force", *options)
        self.assertEqual(result.code, 0, result.stderr)
        return read_tensors(out)

    def test_tensors_are_those_that_were_saved(self) -> None:
        found = list(cases("same"))
        self.assertGreater(len(found), 100)
        for source, case in found:
            with self.subTest(case["name"]):
                self.assertEqual(self.exported(source, *options_of(case)), self.expected(case))

    def test_what_is_left_out_is_listed(self) -> None:
        for source, case in cases("same"):
            with self.subTest(case["name"]):
                result = run("inspect", source, "--json", *case.get("options", []))
                self.assertEqual(result.code, 0, result.stderr)
                contents = json.loads(result.stdout)
                refused = sorted(tensor["name"] for tensor in contents.get("refused", []))
                self.assertEqual(refused, sorted(case.get("refused", [])))
                objects = sorted(item["name"] for item in contents.get("byte_items", []))
                self.assertEqual(objects, sorted(case.get("objects", [])))

    def test_a_mount_shows_the_same(self) -> None:
        for name in ("views_214", "stream_views_113", "nested_214", "fsdp_mesh_2x2_26", "deepspeed_z2_w3_groups",
                     "deepspeed_z3_frozen", "deepspeed_universal", "bin_shards_by_index_113", "megatron_tp2_pp2"):
            ((source, case),) = cases("same", name)
            with self.subTest(name), mounted(source, "--views", "merged-safetensors", *options_of(case)) as mount:
                self.assertEqual(read_tensors(next((mount / "merged").glob("*.safetensors"))), self.expected(case))

    def test_for_other_ranks_tensors_are_cut(self) -> None:
        """In two, along the first axis of even length."""
        rules = self.root / "rules.toml"
        for name in ("views_214", "fsdp_rows_26", "fsdp2_w2_26", "deepspeed_z3_w4", "deepspeed_z1_w11",
                     "megatron_tp2"):
            ((source, case),) = cases("same", name)
            want = self.expected(case)
            axes = {tensor: axis for tensor, (_, shape, _) in want.items()
                    if (axis := next((d for d, length in enumerate(shape) if length and length % 2 == 0), -1)) >= 0
                    and 0 not in shape}
            self.assertTrue(axes, name)
            rules.write_text('[devices]\naxes = ["tp=2"]\nunmatched = "replicate"\n'
                             + "".join(f'[[rule]]\nmatch = [{json.dumps(tensor)}]\ncut = {[""] * axis + ["tp"]}\n'
                                       for tensor, axis in axes.items()))
            with self.subTest(name), mounted(source, "--views", "ranks", "--dst-strategy", rules,
                                             *options_of(case)) as mount:
                parts = [read_tensors(mount / f"rank_{rank}/checkpoint_{rank}.safetensors") for rank in (0, 1)]
                for tensor, whole in want.items():
                    if tensor not in axes:
                        self.assertEqual([part[tensor] for part in parts], [whole, whole], tensor)
                        continue
                    joined = np.concatenate([bytes_of(part[tensor]) for part in parts], axes[tensor])
                    self.assertEqual(joined.tobytes(), whole[2], tensor)

    def test_a_sound_file_is_verified(self) -> None:
        for name in ("plain_214", "stream_plain_214", "views_214", "fsdp_mesh_2x2_214", "deepspeed_z2_w3_groups",
                     "deepspeed_z3_w4", "deepspeed_universal", "megatron_tp2", "megatron_pp2"):
            ((source, case),) = cases("same", name)
            with self.subTest(name):
                result = run("verify", source)
                self.assertEqual(result.code, 0, result.stdout + result.stderr)

    def test_a_changed_byte_is_found_by_its_checksum(self) -> None:
        ((source, case),) = cases("same", "plain_214")
        data = bytearray(source.read_bytes())
        place = data.rindex(self.expected(case)[next(iter(self.expected(case)))][2])
        data[place] ^= 1
        changed = self.root / "changed.pt"
        changed.write_bytes(data)
        result = run("verify", changed)
        self.assertEqual(result.code, 1, result.stdout + result.stderr)
        self.assertIn("the file does not match its CRC", result.stdout)

    def test_what_is_wrong_is_refused_in_one_line(self) -> None:
        found = list(cases("refuse"))
        self.assertGreater(len(found), 20)
        for source, case in found:
            with self.subTest(case["name"]):
                result = run("export", source, self.root / "refused.safetensors", *case.get("options", []))
                self.assertIn(result.code, (2, 3), result.stderr)
                one_line(result)
                self.assertFalse((self.root / "refused.safetensors").exists())

    def test_nothing_hostile_is_run(self) -> None:
        found = [*cases("same", "hostile*"), *cases("refuse", "hostile*"), *cases("any", "hostile*")]
        self.assertGreater(len(found), 20)
        for source, case in found:
            with self.subTest(case["name"]):
                result = run("inspect", source, seconds=HOSTILE_SECONDS)
                self.assertIn(result.code, (0, 2, 3), result.stderr)
        for mark in MARKS:
            self.assertFalse(Path(mark).exists())

    def test_a_key_selects_the_model(self) -> None:
        ((source, case),) = cases("same", "nested_model_214")
        whole = self.exported(source)
        model = {name.removeprefix("model."): tensor for name, tensor in whole.items() if name.startswith("model.")}
        self.assertTrue(model)
        self.assertLess(len(model), len(whole))
        self.assertEqual(self.exported(source, "--state-key", "model"), model)
        lines = run("inspect", source).stdout
        self.assertIn(" --state-key model", lines[lines.index("next:"):])
        result = run("inspect", source, "--state-key", "modell")
        self.assertEqual(result.code, 2)
        self.assertIn("has no tensor below the key 'modell' of --state-key", one_line(result))
        self.assertIn("there are tensors below 'model'", one_line(result))
        result = run("diff", source, source, "--a-state-key", "model", "--b-state-key", "model")
        self.assertEqual((result.code, result.stderr), (0, ""))

    def test_a_key_selects_in_no_set_of_another_program(self) -> None:
        result = run("inspect", GOLDEN.parent / "goldendcp/hf_sharded_2x/src", "--state-key", "model")
        self.assertEqual(result.code, 2)
        self.assertIn("--state-key selects in single files and in what PyTorch saved, not in a set of this kind",
                      one_line(result))

    def test_a_file_may_have_any_name(self) -> None:
        """Such as .ckpt of Lightning."""
        ((source, case),) = cases("same", "plain_214")
        for name in ("model.ckpt", "model.safetensors", "model"):
            shutil.copy(source, self.root / name)
            with self.subTest(name):
                self.assertEqual(self.exported(self.root / name), self.expected(case))

    def test_a_model_beside_other_files_is_found(self) -> None:
        ((source, case),) = cases("same", "plain_214")
        model = self.root / "model"
        model.mkdir()
        shutil.copy(source, model / "pytorch_model.bin")
        ((other, _),) = cases("same", "nested_214")
        for name in ("optimizer.pt", "training_args.bin"):
            shutil.copy(other, model / name)
        self.assertEqual(self.exported(model), self.expected(case))
        (model / "pytorch_model.bin").rename(model / "mine.pt")
        result = run("inspect", model)
        self.assertEqual(result.code, 2)
        self.assertIn("3 checkpoints here", one_line(result))

    def test_files_of_torch_save_in_directories_of_ranks_need_a_pattern(self) -> None:
        ((source, _),) = cases("same", "plain_214")
        for rank in (0, 1):
            (self.root / f"set/rank_{rank}").mkdir(parents=True)
            shutil.copy(source, self.root / f"set/rank_{rank}/net.pt")
        result = run("inspect", self.root / "set")
        self.assertEqual(result.code, 2)
        self.assertIn("--src-pattern 'rank_{rank}/net.pt'", one_line(result))
        self.assertEqual(run("inspect", self.root / "set", "--src-pattern", "rank_{rank}/net.pt").code, 0)

    def test_steps_of_deepspeed(self) -> None:
        """The root has a file that names the last one."""
        ((source, case),) = cases("same", "deepspeed_z1_w2")
        (first,) = [path for path in source.iterdir() if path.is_dir()]
        root = self.root / "run"
        shutil.copytree(first, root / "global_step10")
        shutil.copytree(first, root / "global_step20")
        result = run("inspect", root)
        self.assertEqual(result.code, 2)
        self.assertIn("has no latest, which names the last step saved; available: 10, 20", one_line(result))
        (root / "latest").write_text("global_step10\n")
        self.assertEqual(json.loads(run("inspect", root, "--json").stdout)["step"], "10")
        self.assertIn("states global_steps 10, but its directory is named 'global_step20'",
                      one_line(run("inspect", root, "--step", "20")))
        model = root / "global_step20/mp_rank_00_model_states.pt"
        with zipfile.ZipFile(model) as saved:
            members = [(name, saved.read(name)) for name in saved.namelist()]
        with zipfile.ZipFile(model, "w") as saved:
            for name, data in members:
                before, key, behind = data.partition(b"global_steps")
                saved.writestr(name, before + key + behind.replace(b"K\x0a", b"K\x14", 1) if key else data)
        self.assertEqual(self.exported(root, "--step", "20"), self.expected(case))
        self.assertEqual(self.exported(root / "global_step20"), self.expected(case))

    def test_a_server_may_have_the_files(self) -> None:
        for name in ("views_214", "stream_views_113", "fsdp_mesh_2x2_26", "deepspeed_z2_w3_groups",
                     "megatron_tp2", "items_hsdp22_safetensors_215", "items_fsdptp22_nometa_215"):
            ((source, case),) = cases("same", name)
            place = source if source.is_dir() else source.parent
            with self.subTest(name), serving(place, html=True) as server:
                url = f"{server.url}/" if source.is_dir() else f"{server.url}/{source.name}"
                self.assertEqual(self.exported(url, *options_of(case)), self.expected(case))


if __name__ == "__main__":
    run_unittests()
