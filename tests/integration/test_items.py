# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of torch_checkpointing: what each command shows of them, and what is refused, rule by rule."""

from __future__ import annotations

import json
import pickle
import re
import shutil
import sys
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

import numpy as np  # noqa: E402
from all_commands import COMMANDS, ask  # noqa: E402
from documents import ROOT  # noqa: E402
from format_files import Tensors, read_safetensors, write_safetensors  # noqa: E402
from item_sets import Group, Item, Mesh, Set, Tensor, dtensor, part_of, table_of, write_set  # noqa: E402
from mounted import mounted, one_line, run, run_unittests, scratch  # noqa: E402
from torch_archive import Call, Global, ordered, stored, write_archive  # noqa: E402

GOLDEN = ROOT / "tests/goldentorch"
FSDP, NO_TABLE, FSDP_TP, HSDP = (GOLDEN / f"items_{name}_215/src/step_2" for name in (
    "fsdp4_torch", "fsdptp22_nometa", "fsdptp22_torch", "hsdp22_safetensors"))
SHARD0 = [("Shard", 0, 1)]
ALL = [("Replicate", 0, 1)]


def rows(count: int, columns: int = 2) -> np.ndarray:
    return np.arange(count * columns, dtype="<f4").reshape(count, columns)


def one_tensor(ranks: int, whole: np.ndarray, placements: list[tuple[str, int, int]], *, mesh: Mesh | None = None,
               form: str = "torch", plain: bool = False) -> Set:
    """model.w, on a mesh of all ranks."""
    mesh = mesh or Mesh((ranks,), tuple(range(ranks)))
    tensor = Tensor(["w"], 0, whole, [Group(mesh.ranks, mesh, placements)], plain or form == "safetensors")
    layout = "model/rank_{rank}.safetensors" if form == "safetensors" else ""
    made = Set(ranks, [Item("model", [tensor], form, layout)])
    for rank in mesh.ranks:
        made.stored["model", rank, "w"] = np.array(whole[part_of(tensor.groups[0], rank, whole.shape)], order="C")
    return made


class Items(unittest.TestCase):
    def setUp(self) -> None:
        self.root = self.enterContext(scratch())
        self.set = self.root / "step_2"

    def written(self, made: Set) -> Path:
        shutil.rmtree(self.set, ignore_errors=True)
        write_set(self.set, made)
        return self.set

    def exported(self, source: Path, *options: str | Path) -> Tensors:
        out = self.root / "out.safetensors"
        result = run("export", source, out, "--force", *options)
        self.assertEqual(result.code, 0, result.stderr)
        return read_safetensors(out)[0]

    def assert_whole(self, made: Set) -> None:
        got = self.exported(self.written(made))
        for item in made.items:
            for tensor in item.tensors:
                array = got[f"{item.name}.{tensor.name}"][1]
                self.assertEqual((array.shape, array.tobytes()), (tensor.whole.shape, tensor.whole.tobytes()))

    def refused(self, *words: str, source: Path | None = None) -> str:
        """By export, in one line with these words."""
        result = run("export", source or self.set, self.root / "refused.safetensors", "--force")
        self.assertEqual(result.code, 2, result.stderr)
        lines = [line for line in result.stderr.splitlines() if "warning:" not in line]
        self.assertEqual(len(lines), 1, result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)
        return result.stderr

    def change_table(self, change: Callable[[dict[str, Any]], object], made: Set) -> None:
        table = table_of(made)
        change(table)
        self.written(made)
        (self.set / "metadata.pkl").write_bytes(pickle.dumps(table, protocol=4))

    @staticmethod
    def group(table: dict[str, Any]) -> dict[str, Any]:
        return table["metadata"]["model"]["nested_path_to_metadata"]['["w"]'][0]

    def data(self, table: dict[str, Any]) -> dict[str, Any]:
        return self.group(table)["sharding_metadata"]["data"]

    # ------------------------------------------------------------------------------------------------ what is shown

    def test_all_commands_open_it(self) -> None:
        for source in (FSDP, NO_TABLE, FSDP_TP, HSDP):
            for command in COMMANDS:
                with self.subTest(source=source.parts[-3], command=command):
                    result = ask(command, source, self.root)
                    self.assertEqual(result.code, 0, result.stderr)

    def test_a_mount_has_the_bytes(self) -> None:
        want = read_safetensors(FSDP_TP.parents[1] / "expected.safetensors")[0]
        with mounted(FSDP_TP, "--views", "merged-safetensors") as mount:
            (file,) = (mount / "merged").glob("*.safetensors")
            got = read_safetensors(file)[0]
        self.assertEqual({name: array.tobytes() for name, (_, array) in got.items()},
                         {name: array.tobytes() for name, (_, array) in want.items()})

    def test_a_key_takes_the_item_off(self) -> None:
        for source, others in ((FSDP, True), (HSDP, False), (NO_TABLE, False)):
            whole = self.exported(source)
            model = self.exported(source, "--state-key", "model")
            self.assertEqual({f"model.{name}" for name in model}, {name for name in whole if name.startswith("model.")})
            self.assertEqual(len(model) < len(whole), others)
            self.assertIn("--state-key model", run("inspect", source).stdout)
        result = run("inspect", FSDP, "--state-key", "modell")
        self.assertEqual(result.code, 2)
        self.assertIn("has no item 'modell'; its items are 'model', 'optimizer', 'train'", one_line(result))
        self.assertIn("has no tensor below the key 'model.x'", one_line(run("inspect", HSDP, "--state-key", "model.x")))

    def test_a_key_needs_no_files_of_other_items(self) -> None:
        shutil.copytree(FSDP, self.set)
        (self.set / "optimizer_1.pt").unlink()
        self.refused("lacks 1 of 12 files that 4 ranks saved: 'optimizer_1.pt'")
        self.exported(self.set, "--state-key", "model")

    def test_items_without_tensors_are_listed(self) -> None:
        listed = json.loads(run("inspect", HSDP, "--json").stdout)["byte_items"]
        self.assertEqual([item["name"] for item in listed], ["meta", "raw"])
        listed = json.loads(run("inspect", FSDP, "--json").stdout)["byte_items"]
        self.assertLessEqual({"train.step", "train.lr"}, {item["name"] for item in listed})

    def test_uneven_and_empty_parts(self) -> None:
        for ranks, count in ((3, 7), (3, 2), (4, 6), (4, 1), (4, 0), (8, 9)):
            for form in ("torch", "safetensors"):
                with self.subTest(ranks=ranks, rows=count, form=form):
                    self.assert_whole(one_tensor(ranks, rows(count), SHARD0, form=form))

    def test_a_tensor_without_dimensions(self) -> None:
        self.assert_whole(one_tensor(3, np.float32(7).reshape(()), ALL))

    def test_the_strided_shard_of_the_format_s_example(self) -> None:
        mesh = Mesh((2, 2), (0, 1, 2, 3))
        made = one_tensor(4, rows(10), [("StridedShard", 0, 2), ("Shard", 0, 1)], mesh=mesh)
        self.assertEqual([len(made.stored["model", rank, "w"]) for rank in range(4)], [3, 3, 2, 2])
        np.testing.assert_array_equal(made.stored["model", 2, "w"], rows(10)[3:5])  # dp 1, tp 0
        self.assert_whole(made)

    def test_a_mesh_whose_ranks_do_not_ascend(self) -> None:
        """PyTorch gives the parts to the ranks in their order, and calculates offsets in that of the mesh."""
        self.written(one_tensor(4, rows(8), SHARD0, mesh=Mesh((4,), (2, 0, 3, 1)), form="safetensors"))
        self.refused("on a mesh whose ranks do not ascend, so that the order of its parts is not certain")
        mesh = Mesh((2, 2), (2, 3, 0, 1))  # along the dimension that cuts, they do
        self.assert_whole(one_tensor(4, rows(8), [("Replicate", 0, 1), ("Shard", 0, 1)], mesh=mesh, form="safetensors"))

    def test_names_with_dots_and_numbers(self) -> None:
        made = one_tensor(2, rows(4), SHARD0)
        (tensor,) = made.items[0].tensors
        tensor.path = ["state", 0, "layers.0.w"]
        made.items[0].name = "my.item"
        made.stored = {("my.item", rank, tensor.name): array for (_, rank, _), array in made.stored.items()}
        self.assert_whole(made)
        self.assertEqual(list(self.exported(self.set)), ["my.item.state.0.layers.0.w"])

    def test_files_of_a_layout_may_be_called_like_another_item(self) -> None:
        for layout in ("weights_{rank}.pt", "rank_{rank}/model.pt", "part_{rank}_0.pt", "part.{rank}"):
            made = one_tensor(3, rows(7), SHARD0)
            made.items[0].layout = layout
            with self.subTest(layout=layout):
                self.assert_whole(made)
                self.assertEqual(list(self.exported(self.set)), ["model.w"])
                self.assertEqual(run("verify", self.set).code, 0)

    # ------------------------------------------------------------------------------------------------ completeness

    def test_a_missing_file_is_refused_by_all_commands(self) -> None:
        for source, name in ((FSDP, "model_2.pt"), (FSDP, "train_3.pt"), (HSDP, "model/rank_1.safetensors"),
                             (NO_TABLE, "model_1.pt")):
            shutil.rmtree(self.set, ignore_errors=True)
            shutil.copytree(source, self.set)
            (self.set / name).unlink()
            for command in COMMANDS:
                with self.subTest(name=name, command=command):
                    result = ask(command, self.set, self.root)
                    self.assertIn(result.code, (1, 2), result.stdout + result.stderr)
                    self.assertIn(Path(name).name, result.stdout + result.stderr)

    def test_the_last_rank_is_missed_without_a_table(self) -> None:
        shutil.copytree(NO_TABLE, self.set)
        (self.set / "model_3.pt").unlink()
        self.refused("model.")
        self.assertIn("there is no metadata.pkl: at least 4 ranks saved it", run("inspect", NO_TABLE).stderr)

    def test_the_first_rank_of_an_item_is_missed_without_a_table(self) -> None:
        shutil.copytree(FSDP, self.set)
        (self.set / "metadata.pkl").unlink()
        (self.set / "optimizer_0.pt").unlink()
        self.refused("lacks 1 of 12 files that 4 ranks saved: 'optimizer_0.pt'")

    def test_a_trainer_of_hyper_parallel_starts_from_it(self) -> None:
        out = self.root / "hyper"
        for source in (FSDP, FSDP.parent):  # the step, and its run
            result = run("export", source, out, "--force", "--views", "hyper", "--map-var", "trainer_step=2")
            self.assertEqual(result.code, 0, result.stderr)
            self.assertNotIn("left out", result.stderr)
            shown = self.exported(out / "hyper")
            weights = self.exported(source)
            self.assertEqual(shown["model.emb.weight"][1].tobytes(), weights["model.emb.weight"][1].tobytes())
            self.assertEqual(shown["optimizer.state.emb.weight.exp_avg"][1].tobytes(),
                             weights["optimizer.state.emb.weight.exp_avg"][1].tobytes())
            self.assertNotIn("model.model.emb.weight", shown)

    def test_files_of_more_ranks_are_of_another_save(self) -> None:
        shutil.copytree(FSDP, self.set)
        shutil.copy(self.set / "model_3.pt", self.set / "model_4.pt")
        self.refused("has 'model_4.pt', but metadata.pkl states a world_size of 4")

    def test_a_part_named_alone_is_refused(self) -> None:
        for part in (FSDP / "model_0.pt", FSDP / "optimizer_3.pt", NO_TABLE / "model_1.pt",
                     HSDP / "model/rank_0.safetensors", HSDP / "model"):
            result = run("inspect", part)
            with self.subTest(part=part.name):
                self.assertEqual(result.code, 2)
                words = one_line(result)
                self.assertIn("is a part of a checkpoint that several ranks saved with torch_checkpointing", words)
                (named,) = re.findall(r"(?:run: reshardfs inspect |name the directory of the checkpoint, )([^ ,]+)", words)
                self.assertEqual(run("inspect", named).code, 0)

    # ------------------------------------------------------------------------------------------------ steps

    def test_steps_are_the_numbers_of_directories(self) -> None:
        for names in (("step_2", "step_10"), ("step-2", "step-10"), ("2", "10"), ("run_a.2", "run_a.10")):
            run_directory = self.root / "run"
            shutil.rmtree(run_directory, ignore_errors=True)
            for name in (*names, f"tmp_{names[0]}0"):
                shutil.copytree(FSDP, run_directory / name)
            with self.subTest(names=names):
                self.assertEqual(json.loads(run("inspect", run_directory, "--json").stdout)["step"], "10")
                self.assertEqual(json.loads(run("inspect", run_directory, "--step", "2", "--json").stdout)["step"], "2")
                with mounted(run_directory, "--step", "all", "--views", "merged-safetensors") as mount:
                    self.assertEqual({path.name for path in (mount / "steps").iterdir()}, {"2", "10"})

    def test_a_save_that_has_not_ended_is_refused(self) -> None:
        shutil.copytree(FSDP, self.root / "tmp_step_2")
        self.refused("is a save that has not ended: torch_checkpointing calls it 'step_2' when all ranks have finished",
                     source=self.root / "tmp_step_2")
        self.assertNotIn("run: reshardfs", run("inspect", self.root).stderr)

    # ------------------------------------------------------------------------------------------------ the table

    def test_a_table_has_plain_values_only(self) -> None:
        made = one_tensor(2, rows(4), SHARD0)
        plain = "torch_checkpointing writes plain values to this file, and nothing else is read"
        for value, words in ((Path("x"), plain), (table_of(made) | {"more": Path("x")}, plain),
                             ({"a": 1}, "it states no world_size"), ([1], "it is a list"), ("text", "it is 'text'")):
            self.written(made)
            (self.set / "metadata.pkl").write_bytes(pickle.dumps(value, protocol=4))
            with self.subTest(value=value):
                self.refused("metadata.pkl: ", words)
        for data in (b"", b"text", pickle.dumps(table_of(made), protocol=4)[:-9]):
            self.written(made)
            (self.set / "metadata.pkl").write_bytes(data)
            self.refused("metadata.pkl: ", "copy the checkpoint again")

    def test_protocols_and_kinds_of_keys(self) -> None:
        made = one_tensor(2, rows(4), SHARD0)
        table = table_of(made)
        for protocol in (2, 4, 5):
            self.written(made)
            (self.set / "metadata.pkl").write_bytes(pickle.dumps(table, protocol=protocol))
            self.exported(self.set)
        layouts = table["metadata"]["model"]["rank_to_layout_info"]
        table["metadata"]["model"]["rank_to_layout_info"] = {str(rank): layout for rank, layout in layouts.items()}
        del table["version"]
        table["version"] = "2.0"
        (self.set / "metadata.pkl").write_bytes(pickle.dumps(table, protocol=4))
        self.exported(self.set)

    def test_what_is_wrong_in_a_table(self) -> None:
        def version(table: dict[str, Any]) -> None:
            table["version"] = "3.0"

        def world(table: dict[str, Any]) -> None:
            table["world_size"] = 3

        def rank_missing(table: dict[str, Any]) -> None:
            del table["metadata"]["model"]["rank_to_layout_info"][1]

        def one_file(table: dict[str, Any]) -> None:
            layout = {"file_path": "model_0.pt", "serialization_format": {"type": "TorchSerialization"}}
            table["metadata"]["model"]["rank_to_layout_info"] = {0: layout, 1: layout}

        def path(text: str) -> Callable[[dict[str, Any]], None]:
            def change(table: dict[str, Any]) -> None:
                table["metadata"]["model"]["rank_to_layout_info"][1] = {
                    "file_path": text, "serialization_format": {"type": "TorchSerialization"}}
            return change

        def form(table: dict[str, Any]) -> None:
            table["metadata"]["model"]["rank_to_layout_info"][1] = {
                "file_path": "x.npz", "serialization_format": {"type": "NumpySerialization"}}

        def sharding(table: dict[str, Any]) -> None:
            self.group(table)["sharding_metadata"]["type"] = "mylib.Sharding"

        def outside_of_mesh(table: dict[str, Any]) -> None:
            self.data(table)["mesh_spec"] |= {"mesh_data": (0, 5)}

        def twice(table: dict[str, Any]) -> None:
            self.data(table)["mesh_spec"] |= {"mesh_data": (1, 1)}

        def mesh(table: dict[str, Any]) -> None:
            self.data(table)["mesh_spec"] |= {"mesh_shape": (3,)}

        def placements(table: dict[str, Any]) -> None:
            self.data(table)["placements"] = []

        def partial(table: dict[str, Any]) -> None:
            self.data(table)["placements"] = [{"type": "Partial"}]

        def dimension(table: dict[str, Any]) -> None:
            self.data(table)["placements"] = [{"type": "Shard", "dim": 2}]

        def factor(table: dict[str, Any]) -> None:
            self.data(table)["placements"] = [{"type": "StridedShard", "dim": 0, "split_factor": 3}]

        def dtype(table: dict[str, Any]) -> None:
            self.data(table)["dtype"] = "torch.float16"

        def unknown_type(table: dict[str, Any]) -> None:
            self.data(table)["dtype"] = "torch.quaternion"

        def shape(table: dict[str, Any]) -> None:
            self.data(table)["global_shape"] = [6, 2]

        def two_groups(table: dict[str, Any]) -> None:
            table["metadata"]["model"]["nested_path_to_metadata"]['["w"]'] *= 2

        def no_key(table: dict[str, Any]) -> None:
            paths = table["metadata"]["model"]["nested_path_to_metadata"]
            paths["w"] = paths.pop('["w"]')

        def clash(table: dict[str, Any]) -> None:
            paths = table["metadata"]["model"]["nested_path_to_metadata"]
            paths['["a.b"]'] = paths['["a","b"]'] = paths['["w"]']

        wrong: list[tuple[Callable[[dict[str, Any]], None], str]] = [
            (version, "is a table of torch_checkpointing of version '3.0'"),
            (world, "states a world_size of 3, but files of item 'model' for 2 ranks"),
            (rank_missing, "states a world_size of 2, but files of item 'model' for 1 ranks"),
            (one_file, "the file 'model_0.pt' has item 'model' of rank 0 and item 'model' of rank 1"),
            (path("../model_1.pt"), "names the file '../model_1.pt', which is no path in its directory"),
            (path("a/../../model_1.pt"), "which is no path in its directory"),
            (path("/etc/passwd"), "names the file '/etc/passwd', which is no path in its directory"),
            (path(""), "which is no path in its directory"),
            (form, "states the format 'NumpySerialization' for item 'model', which is not known"),
            (sharding, "describes it as 'mylib.Sharding'"),
            (outside_of_mesh, "rank 1 has a part of it, which is not in its mesh_data"),
            (twice, "has rank 1 twice in its mesh_data"),
            (mesh, "has 2 ranks in its mesh_data, but a mesh_shape of 3"),
            (placements, "does not have one placement of it for each dimension of the mesh"),
            (partial, "places it as 'Partial'"),
            (dimension, "cuts it along a dimension that it does not have"),
            (factor, "a strided shard with split_factor 3"),
            (dtype, "it is Float32 [2, 2] in 'model_0.pt', but Float16 [2, 2] by metadata.pkl"),
            (unknown_type, "states the type 'torch.quaternion', which is not known"),
            (shape, "of another save"),
            (two_groups, "states two parts of it for rank 0"),
            (no_key, "the path 'w' is no list of keys"),
            (clash, "two values have this name"),
        ]
        for change, words in wrong:
            made = one_tensor(2, rows(4), SHARD0, plain=change is factor)
            with self.subTest(change.__name__, words=words):
                self.change_table(change, made)
                self.refused(words)

    def test_a_link_out_of_the_directory_is_refused(self) -> None:
        shutil.copytree(HSDP, self.set)
        shutil.move(self.set / "model/rank_1.safetensors", self.root / "outside.safetensors")
        (self.set / "model/rank_1.safetensors").symlink_to(self.root / "outside.safetensors")
        self.refused("is a link that leads out of the directory of metadata.pkl, which names it")

    def test_the_first_version_of_the_table(self) -> None:
        made = one_tensor(3, rows(7), SHARD0)
        made.version = "1.0"
        self.assert_whole(made)
        table = table_of(made) | {"version": "1.0"}
        (self.set / "metadata.pkl").write_bytes(pickle.dumps(table, protocol=4))
        self.exported(self.set)

    # ------------------------------------------------------------------------------------------------ the files

    def test_files_are_compared_with_the_table(self) -> None:
        made = one_tensor(2, rows(4), SHARD0, form="safetensors")
        file = self.written(made) / "model/rank_1.safetensors"
        write_safetensors(file, {"w": ("F32", rows(3))})
        self.refused("it is Float32 [3, 2] in 'rank_1.safetensors', but Float32 [2, 2] by metadata.pkl",
                     "the file is of another save")
        write_safetensors(file, {"v": ("F32", rows(2))})
        self.refused("'rank_1.safetensors' does not have it, but should have a part of it by metadata.pkl")
        write_safetensors(file, {"w": ("F32", rows(2)), "v": ("F32", rows(2))})
        self.refused("metadata.pkl does not state its parts, and 'rank_1.safetensors' has one")

    def test_a_dtensor_is_compared_with_the_table(self) -> None:
        whole = rows(4)
        self.written(one_tensor(2, whole, SHARD0))
        mesh = Mesh((2,), (0, 1))
        for place, shape, words in (
                ([("Shard", 0, 1)], (6, 2), "its DTensor is of [6, 2] and cut otherwise than metadata.pkl states"),
                ([("Shard", 1, 1)], (2, 4), "cut otherwise than metadata.pkl states")):
            part = dtensor(stored(whole[2:], "F32"), shape, mesh, place, 1)
            write_archive(self.set / "model_1.pt", ordered({"w": part}))
            self.refused(words)
        mesh = Mesh((2, 1), (0, 1))  # the same parts, but of another job
        part = dtensor(stored(whole[2:], "F32"), (4, 2), mesh, [("Shard", 0, 1), ("Replicate", 0, 1)], 1)
        write_archive(self.set / "model_1.pt", ordered({"w": part}))
        self.refused("cut otherwise than metadata.pkl states")

    def test_exchanged_files_are_refused(self) -> None:
        for source in (FSDP, NO_TABLE):
            shutil.rmtree(self.set, ignore_errors=True)
            shutil.copytree(source, self.set)
            shutil.copy(source / "model_0.pt", self.set / "model_1.pt")
            self.refused("is of rank 0 by its content, but of rank 1 by its name")

    def test_boxes(self) -> None:
        whole = rows(6)
        tensor = Tensor(["w"], 0, whole, [Group((0,), boxes=[([0, 0], [1, 0], [2, 2]), ([5, 0], [0, 0], [1, 2])]),
                                          Group((1,), boxes=[([2, 0], [0, 0], [3, 2])])])
        made = Set(2, [Item("model", [tensor])])
        made.stored["model", 0, "w"] = np.concatenate([whole[5:], whole[:2], rows(3)])
        made.stored["model", 1, "w"] = whole[2:5]
        self.assert_whole(made)
        tensor.groups[1].boxes = [([2, 0], [0, 0], [4, 2])]
        self.written(made)
        self.refused("is outside of what is stored in 'model_1.pt', [3, 2]")
        tensor.groups[1].boxes = [([1, 0], [0, 0], [3, 2])]
        self.written(made)
        self.refused("overlap, and are not equal")
        tensor.groups[1].boxes = [([3, 0], [0, 0], [2, 2])]
        self.written(made)
        self.refused("no source rank holds a part of 1 parameter: model.w; bring the missing files")
        tensor.groups[1].boxes = [([2, 0], [0, 0], [5, 2])]
        self.written(made)
        self.refused("has a box of [5, 2] at [2, 0], outside of its full shape [6, 2]")

    def test_copies_are_compared(self) -> None:
        mesh = Mesh((2, 2), (0, 1, 2, 3))
        made = one_tensor(4, rows(4), [("Replicate", 0, 1), ("Shard", 0, 1)], mesh=mesh)
        self.assertEqual(run("verify", self.written(made)).code, 0)
        made.stored["model", 3, "w"] = made.stored["model", 3, "w"] + 1
        result = run("verify", self.written(made))
        self.assertEqual(result.code, 1, result.stdout)
        self.assertIn("model.w", result.stdout)

    # ------------------------------------------------------------------------------------------------ without a table

    def unstated(self, *values: Any, table: bool = True) -> None:
        """An item 'ema' of which each rank has a value, in no table; the model has one."""
        shutil.rmtree(self.set, ignore_errors=True)
        made = one_tensor(len(values), rows(4), SHARD0)
        if table:
            write_set(self.set, made)
        for rank, value in enumerate(values):
            write_archive(self.set / f"ema_{rank}.pt", value)

    def test_equal_tensors_of_an_item_without_a_resharder_are_one(self) -> None:
        for table in (True, False):
            self.unstated(*[ordered({"a": stored(rows(3), "F32"), "n": 5})] * 2, table=table)
            np.testing.assert_array_equal(self.exported(self.set)["ema.a"][1], rows(3))

    def test_other_tensors_of_an_item_without_a_resharder_are_refused(self) -> None:
        words = ("item 'ema' was saved without a resharder: no table states how rank 0's and rank 1's part belong "
                 "together")
        for other in (rows(3) + 1, rows(2)):
            self.unstated(ordered({"a": stored(rows(3), "F32")}), ordered({"a": stored(other, "F32")}))
            self.refused("'ema.a'", words)
            self.assertIn("model.w", self.exported(self.set, "--exclude", "ema.*"))
        mesh = Mesh((2,), (0, 1))
        part = dtensor(stored(rows(3), "F32"), (6, 2), mesh, SHARD0, 0)
        self.unstated(ordered({"a": part}), ordered({"a": stored(rows(3), "F32")}))
        self.refused("'ema.a'", words)

    def test_dtensors_of_an_item_without_a_resharder_state_themselves(self) -> None:
        mesh = Mesh((2,), (0, 1))
        whole = rows(5)
        parts = [ordered({"a": dtensor(stored(part, "F32"), (5, 2), mesh, SHARD0, rank)})
                 for rank, part in enumerate((whole[:3], whole[3:]))]
        for table in (True, False):
            self.unstated(*parts, table=table)
            np.testing.assert_array_equal(self.exported(self.set)["ema.a"][1], whole)
        self.unstated(parts[0], parts[0], table=True)
        self.refused("is of rank 0 by its content, but of rank 1 by its name")

    def test_checkpoints_of_their_own_are_no_ranks(self) -> None:
        """Without a table, and with different tensors."""
        self.unstated(*(ordered({"a": stored(rows(3) + at, "F32")}) for at in range(3)), table=False)
        self.refused("3 checkpoints here")
        self.exported(self.set / "ema_1.pt")

    def test_an_item_may_be_one_tensor(self) -> None:
        self.unstated(*[stored(rows(3), "F32")] * 2)
        np.testing.assert_array_equal(self.exported(self.set)["ema"][1], rows(3))

    def test_an_item_may_be_an_object(self) -> None:
        thing = Call(Global("mylib", "Thing"), (1,))
        self.unstated(thing, thing)
        listed = json.loads(run("inspect", self.set, "--json").stdout)["byte_items"]
        self.assertIn(("ema", "an object of mylib.Thing"), [(one["name"], one.get("what")) for one in listed])


if __name__ == "__main__":
    run_unittests()
