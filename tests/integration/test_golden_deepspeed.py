# SPDX-License-Identifier: Apache-2.0
"""Sets that DeepSpeed itself wrote: see tests/golden_deepspeed/README.md."""

from __future__ import annotations

import itertools
import re
import shutil
import struct
import sys
import unittest
import zipfile
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "data"))

import numpy as np
from deepspeed_cuts import random_cuts, write_cut_set
from deepspeed_sets import random_set, write_set
from format_files import read_safetensors, same
from mounted import one_line, run, run_unittests, scratch

GOLDEN = TESTS / "golden_deepspeed"
CASES = sorted(path.parent for path in GOLDEN.glob("*/expected.safetensors"))
OPTIMIZER = "*optim_states.pt"


def change_one_element(file: Path) -> None:
    """The second element of the largest storage of torch.save, each of which is an entry without compression."""
    with zipfile.ZipFile(file) as archive:
        entry = max((entry for entry in archive.infolist() if "/data/" in entry.filename), key=lambda one: one.file_size)
    with file.open("r+b") as out:
        out.seek(entry.header_offset + 26)
        name, extra = struct.unpack("<HH", out.read(4))
        at = entry.header_offset + 30 + name + extra + 2
        out.seek(at)
        byte = out.read(1)[0]
        out.seek(at)
        out.write(bytes([byte ^ 1]))


Values = dict[str, tuple[str, tuple[int, ...], bytes]]


def values_of(file: Path) -> Values:
    return {name: (kind, array.shape, array.tobytes()) for name, (kind, array) in read_safetensors(file)[0].items()}


def exchange(file: Path, other: Path) -> None:
    aside = file.with_name("aside")
    file.rename(aside)
    other.rename(file)
    aside.rename(other)


def copy(file: Path, other: Path) -> None:
    shutil.copy(other, file)


def cut(file: Path, _: Path) -> None:
    with file.open("r+b") as out:
        out.truncate(file.stat().st_size * 9 // 10)


class GoldenDeepSpeed(unittest.TestCase):
    def test_the_engines_tensors(self) -> None:
        self.assertEqual(len(CASES), 15)
        for case in CASES:
            with self.subTest(case.name), scratch() as directory:
                result = run("export", case / "set", directory / "out", "--views", "merged-safetensors")
                self.assertEqual(result.code, 0, result.stderr)
                (file,) = (directory / "out").rglob("*.safetensors")
                same(self, read_safetensors(file)[0], read_safetensors(case / "expected.safetensors")[0])
                result = run("verify", case / "set")
                self.assertEqual(result.code, 0, result.stdout + result.stderr)

    def test_two_saves_are_refused(self) -> None:
        result = run("inspect", GOLDEN / "mix_two_saves/set")
        self.assertEqual(result.code, 2, result.stdout)
        for text in ("zero_pp_rank_0_mp_rank_00", "zero_pp_rank_1_mp_rank_00", "is 2 in the first, and 4 in the second"):
            self.assertIn(text, one_line(result))

    def test_states_are_known_by_their_origin(self) -> None:
        """Not by their names: those of SGD are no prefixes of MindSpore's."""
        with scratch() as directory:
            source = GOLDEN / "z3_momentum_w3/set"
            result = run("export", source, directory / "out", "--views", "merged-safetensors", "--weights-only")
            self.assertEqual(result.code, 0, result.stderr)
            (file,) = (directory / "out").rglob("*.safetensors")
            want = [name for name in read_safetensors(GOLDEN / "z3_momentum_w3/expected.safetensors")[0]
                    if not name.startswith("momentum_buffer.")]
            self.assertEqual((sorted(read_safetensors(file)[0]), len(want)), (sorted(want), 20))
        self.assertIn("20 parameters, 346 elements", run("inspect", source).stdout)
        expected = GOLDEN / "z3_momentum_w3/expected.safetensors"
        for sides in ((source, expected), (expected, source)):
            result = run("diff", *sides, "--weights-only")
            self.assertEqual(result.code, 0, result.stdout + result.stderr)
            self.assertIn("20 equal", result.stdout)
        listed = run("inspect", source, "--weights-only", "--list").stdout
        self.assertNotIn("momentum_buffer", listed)
        self.assertIn("emb.weight", listed)

    def test_exchanged_ranks_are_refused(self) -> None:
        """Also where DeepSpeed states a wrong order: by the weights that `module` has rounded."""
        for name in ("autotp2_z2_w4", "pipe2_z1_w4", "z1_elastic_w3", "z1_frozen_w3", "z2_align_w3", "z2_pad_w3",
                     "z2_roundrobin_w3"):
            count = len(sorted((GOLDEN / name / "set").rglob(OPTIMIZER)))
            for first, second in itertools.combinations(range(count), 2):
                with self.subTest(name, first=first, second=second), scratch() as directory:
                    source = directory / "set"
                    shutil.copytree(GOLDEN / name / "set", source)
                    files = sorted(source.rglob(OPTIMIZER))
                    files[first].rename(directory / "other")
                    files[second].rename(files[first])
                    (directory / "other").rename(files[second])
                    result = run("inspect", source)
                    self.assertEqual(result.code, 2, result.stdout)

    def test_files_of_another_run_are_refused(self) -> None:
        for name, other in (("z2_pad_w3", "z2_align_w3"), ("z2_align_w3", "z2_pad_w3"), ("z1_frozen_w3", "z2_pad_w3"),
                            ("z1_elastic_w3", "z1_frozen_w3"), ("z2_roundrobin_w3", "z2_pad_w3")):
            for number in range(3):
                with self.subTest(name, other=other, number=number), scratch() as directory:
                    source = directory / "set"
                    shutil.copytree(GOLDEN / name / "set", source)
                    file = sorted(source.rglob(OPTIMIZER))[number]
                    shutil.copy(sorted((GOLDEN / other / "set").rglob(OPTIMIZER))[number], file)
                    result = run("inspect", source)
                    self.assertEqual(result.code, 2, result.stdout)

    def test_a_module_that_differs(self) -> None:
        """In the middle of a parameter, which only verify reads. The optimizer's part is shown."""
        for name in ("autotp2_z2_w4", "pipe2_z1_w4", "univ_z2_w3", "z1_frozen_w3", "z2_roundrobin_w3"):
            with self.subTest(name), scratch() as directory:
                source = directory / "set"
                shutil.copytree(GOLDEN / name / "set", source)
                pattern = "layer_00*" if name.startswith("pipe") else "mp_rank_00_model_states.pt"
                (file,) = source.rglob(pattern)
                change_one_element(file)
                result = run("inspect", source)
                self.assertEqual(result.code, 0, result.stderr)
                result = run("verify", source)
                self.assertEqual(result.code, 1, result.stdout + result.stderr)
                self.assertIn("'module' has 1 element of ", result.stdout)

    def test_a_universal_checkpoint_of_another_order(self) -> None:
        """As ds_to_universal.py makes it of a run with round_robin_gradients."""
        with scratch() as directory:
            source = directory / "set"
            shutil.copytree(GOLDEN / "univ_z2_w3/set", source)
            zero = source / "global_step2_universal/zero"
            for first in sorted(zero.glob("layers.0.*")):
                second = zero / first.name.replace(".0.", ".1.")
                first.rename(directory / "other")
                second.rename(first)
                (directory / "other").rename(second)
            result = run("inspect", source)
            self.assertEqual(result.code, 2, result.stdout)
            self.assertIn("round_robin_gradients", one_line(result))

    def test_a_cut_that_does_not_fit(self) -> None:
        """One of the ranks of tensor parallelism states another map, or is missing."""
        with scratch() as directory:
            source = directory / "set"
            shutil.copytree(GOLDEN / "autotp2_z2_w4/set", source)
            for file in source.rglob("*mp_rank_01*"):
                file.unlink()
            result = run("inspect", source)
            self.assertEqual(result.code, 2, result.stdout)
            self.assertIn("1 of the 2 ranks of its tensor parallelism", one_line(result))

    def test_a_cut_that_is_not_stated(self) -> None:
        """A parameter without a cut in the map is not taken for one that is whole on each rank."""
        with scratch() as directory:
            spec = next(spec for spec in map(random_set, range(100)) if spec.stage == 2 and len(spec.weights) > 2)
            cuts = random_cuts(np.random.default_rng(1), spec, 2)
            name = next(iter(spec.weights))
            write_cut_set(directory / "set", spec, cuts, 2, unstated=name)
            source = directory / "set" / spec.tag
            line = one_line(run("export", source, directory / "out.safetensors"))
            self.assertIn("does not state how it is cut", line)
            self.assertIn(name, line)
            self.assertFalse((directory / "out.safetensors").exists())

    def test_states_in_8_bits_are_left_out(self) -> None:
        """Their scales are those of blocks, which do not end where parameters do."""
        for stage, form in itertools.product((1, 2, 3), ("flat", "inner")):
            with self.subTest(stage=stage, form=form), scratch() as directory:
                spec = next(spec for spec in map(random_set, range(200)) if spec.stage == stage and spec.moments)
                spec.scaled = form
                write_set(directory / "set", spec)
                result = run("export", directory / "set", directory / "out.safetensors")
                self.assertEqual(result.code, 0, result.stderr)
                self.assertIn("states of the optimizer in 8 bits", result.stderr)
                found = read_safetensors(directory / "out.safetensors")[0]
                self.assertEqual(set(found), {*spec.weights, *spec.frozen, *spec.buffers, *spec.shared})

    def test_a_stage_or_a_layer_that_is_missing(self) -> None:
        """What layers have beside the parameters that are trained, no other file states."""
        for pattern, code in (("*mp_rank_01*", 2), ("*mp_rank_00_*", 2), ("mp_rank_01*", 2), ("layer_02*", 2)):
            with self.subTest(pattern), scratch() as directory:
                source = directory / "set"
                shutil.copytree(GOLDEN / "pipe2_z1_w4/set", source)
                for file in source.rglob(pattern):
                    file.unlink()
                self.assertEqual(run("inspect", source).code, code)

    def test_a_pipeline_without_zero(self) -> None:
        """Its files of layers are the model; those of stages tell whether it is one save."""
        with scratch() as directory:
            source = directory / "set"
            shutil.copytree(GOLDEN / "pipe2_z0_w2/set", source)
            result = run("inspect", source)
            self.assertIn("no file states how many layers", result.stderr)
            (first,) = source.rglob("mp_rank_00_model_states.pt")
            shutil.copy(next((GOLDEN / "pipe2_z1_w4/set").rglob("mp_rank_01_model_states.pt")),
                        first.with_name("mp_rank_01_model_states.pt"))
            self.assertEqual(run("inspect", source).code, 2)
            for file in source.rglob("*mp_rank_00*"):
                file.unlink()
            shutil.copy(next((GOLDEN / "pipe2_z0_w2/set").rglob("mp_rank_01_model_states.pt")), first.parent)
            self.assertIn("1 of the 2 stages", one_line(run("inspect", source)))

    def test_what_a_conversion_has_lost(self) -> None:
        """A parameter without one of its states, and a model file that is not there."""
        for name, gone in (("univ_z2_w3", "zero/cube/exp_avg_sq.pt"), ("univ_z3_w3", "zero/cube/exp_avg.pt"),
                           ("univ_z2_w3", "zero/cube/fp32.pt"), ("univ_z2_w3", "mp_rank_00_model_states.pt"),
                           ("univ_z3_w3", "zero_pp_rank_1_mp_rank_00_model_states.pt")):
            with self.subTest(name, gone=gone), scratch() as directory:
                source = directory / "set"
                shutil.copytree(GOLDEN / name / "set", source)
                (source / "global_step2_universal" / gone).unlink()
                result = run("inspect", source)
                self.assertEqual(result.code, 2, result.stdout)
        with scratch() as directory:
            source = directory / "set"
            shutil.copytree(GOLDEN / "univ_z2_w3/set", source)
            for file in (source / "global_step2_universal/zero/cube").glob("[!f]*"):
                file.unlink()
            result = run("inspect", source)
            self.assertEqual(result.code, 0, result.stderr)
            self.assertIn("without states of the optimizer", result.stdout + result.stderr)

    def test_experts_that_are_missing_or_too_many(self) -> None:
        """Their optimizer's files are not needed."""
        with scratch() as directory:
            source = directory / "set"
            shutil.copytree(GOLDEN / "moe2_z2_w2/set", source)
            step = source / "global_step2"
            result = run("inspect", source)
            self.assertIn("cut by expert parallelism", result.stderr)
            file = step / "layer_0_expert_3_mp_rank_00_model_states.pt"
            other = step / "layer_1_expert_2_mp_rank_00_model_states.pt"
            file.rename(other)
            self.assertIn("has no file of expert 3 of layer 0", one_line(run("inspect", source)))
            shutil.copy(other, file)
            self.assertIn("has files of 7 experts", one_line(run("inspect", source)))
            other.unlink()
            shutil.copy(file, step / "layer_0_expert_3_mp_rank_01_model_states.pt")
            self.assertIn("experts beside tensor or pipeline parallelism", one_line(run("inspect", source)))
            (step / "layer_0_expert_3_mp_rank_01_model_states.pt").unlink()
            shutil.copy(step / "layer_0_expert_2_mp_rank_00_model_states.pt", file)
            self.assertIn("a tensor that is not this expert's", one_line(run("inspect", source)))

    def test_a_file_that_is_missing(self) -> None:
        for case in CASES:
            if case.name.startswith(("moe", "pipe2_z0")):  # of which nothing in these files is read
                continue
            for number, file in enumerate(sorted((case / "set").rglob(OPTIMIZER))):
                with self.subTest(case.name, file=file.name), scratch() as directory:
                    source = directory / "set"
                    shutil.copytree(case / "set", source)
                    sorted(source.rglob(OPTIMIZER))[number].unlink()
                    result = run("inspect", source)
                    self.assertEqual(result.code, 2, result.stdout)

    def test_files_that_are_exchanged_copied_or_cut(self) -> None:
        """Each file: with the next one of its directory in its place, exchanged with it, and without its end. That is
        refused, or the file is named; or the tensors are right, as where nothing is read of it."""
        count = 0
        for case in CASES:
            expected = values_of(case / "expected.safetensors")
            for directory in sorted({path.parent for path in (case / "set").rglob("*.pt")}):
                files = sorted(path.relative_to(case / "set") for path in directory.glob("*.pt"))
                for number, name in enumerate(files):
                    other = files[(number + 1) % len(files)]
                    for change in (exchange, copy, cut) if other != name else (cut,):
                        with self.subTest(case.name, file=str(name), change=change.__name__), scratch() as place:
                            shutil.copytree(case / "set", place / "set")
                            change(place / "set" / name, place / "set" / other)
                            self.assert_seen(place, expected, name)
                            count += 1
        self.assertGreater(count, 400)

    def assert_seen(self, place: Path, expected: Values, name: Path) -> None:
        result = run("export", place / "set", place / "out", "--views", "merged-safetensors")
        if result.code == 2 or run("verify", place / "set").code:
            return
        self.assertEqual(result.code, 0, result.stderr)
        (file,) = (place / "out").rglob("*.safetensors")
        if values_of(file) != expected:
            self.assertRegex(result.stderr, f"saved under other names: .*{re.escape(name.name)}")


if __name__ == "__main__":
    run_unittests()
