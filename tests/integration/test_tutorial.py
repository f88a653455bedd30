# SPDX-License-Identifier: Apache-2.0
"""The hybrid-parallel example of MindSpore's programming guide, with its numbers: four nodes with
two rows each of an [8, 8] weight and its moments, merged, and cut again for two devices."""

from __future__ import annotations

from pathlib import Path

# First, because it finds the modules of tests/data.
from test_scenarios import ROWS, Scenario, layouts, write_ranks

import numpy as np
from ckpt_format import Record, by_name, record_of
from mounted import mounted, rank_files, run_unittests, scratch
from strategy_files import Strategy, write_protobuf

WEIGHT = np.array([
    [0.87537426, 1.0448935, 0.86736983, 0.8836905, 0.77354026, 0.69588304, 0.9183654, 0.7792076],
    [0.87224025, 0.8726848, 0.771446, 0.81967723, 0.88974726, 0.7988162, 0.72919345, 0.7677011],
    [0.9210751, 0.9050457, 0.9827775, 0.920396, 0.9240526, 0.9750359, 1.0275179, 1.0819869],
    [0.73605865, 0.84631145, 0.9746683, 0.9386582, 0.82902765, 0.83565056, 0.9702136, 1.0514659],
    [1.0108461, 0.8689414, 0.91719437, 0.8805056, 0.7994629, 0.8999671, 0.7585804, 1.0287056],
    [0.90653455, 0.60146594, 0.7206475, 0.8306303, 0.8364681, 0.89625114, 0.7354735, 0.8447268],
    [0.7147005, 0.9168278, 0.80178416, 0.6258351, 0.8413766, 0.5909515, 0.696347, 0.71359116],
    [0.20506378, 0.03691584, 0.2454556, 0.12978578, 0.19065076, 0.23904312, 0.27509746, 0.34614682],
], "<f4")
MOMENTS = np.array([
    [0.2567724, -0.07485991, 0.282002, 0.2456022, 0.454939, 0.619168, 0.18964815, 0.45714882],
    [0.25946522, 0.24344791, 0.45677605, 0.3611395, 0.23378398, 0.41439137, 0.5312468, 0.4696194],
    [0.2417504, 0.28193963, 0.06713893, 0.21510397, 0.23380603, 0.11424308, 0.0218009, -0.11969765],
    [0.45955992, 0.22664294, 0.01990281, 0.0731914, 0.27125207, 0.27298513, -0.01716102,
     -0.15327111],
    [0.03440702, 0.41419312, 0.24817684, 0.30765256, 0.48516113, 0.24904746, 0.57791173,
     0.00955463],
    [0.13458519, 0.6690533, 0.49259356, 0.28319967, 0.25951773, 0.16777472, 0.45696738, 0.24933104],
    [0.14152306, 0.5040985, 0.24455397, 0.10907605, 0.11319532, 0.19538902, 0.01208619, 0.40430856],
    [-0.7773164, -0.47611716, -0.6041424, -0.6144473, -0.2651842, -0.31909415, -0.4510405,
     -0.12860501],
], "<f4")
CUT = {"weight": WEIGHT, "moments.weight": MOMENTS}
WHOLE = {"learning_rate": np.array([0.01], "<f4"), "momentum": np.array([0.9], "<f4")}
# A few elements once more as the guide prints them, so that no slip of an index in this file can
# make all of it agree with itself: the file, the name, the row there, its first and last number.
PRINTED = (
    ("merged", "weight", 0, 0.87537426, 0.7792076),
    ("merged", "weight", 6, 0.7147005, 0.71359116),
    ("merged", "weight", 7, 0.20506378, 0.34614682),
    ("merged", "moments.weight", 6, 0.14152306, 0.40430856),
    ("merged", "moments.weight", 7, -0.7773164, -0.12860501),
    ("rank_0", "weight", 3, 0.73605865, 1.0514659),
    ("rank_0", "moments.weight", 3, 0.45955992, -0.15327111),
    ("rank_1", "weight", 0, 1.0108461, 1.0287056),
    ("rank_1", "weight", 2, 0.7147005, 0.71359116),
    ("rank_1", "weight", 3, 0.20506378, 0.34614682),
    ("rank_1", "moments.weight", 0, 0.03440702, 0.00955463),
    ("rank_1", "moments.weight", 3, -0.7773164, -0.12860501),
)


def rows(first: int, end: int) -> list[Record]:
    cut = [record_of(name, "Float32", full[first:end]) for name, full in CUT.items()]
    return cut + [record_of(name, "Float32", full) for name, full in WHOLE.items()]


class Tutorial(Scenario):
    def check(self, root: Path, *options: str | Path) -> None:
        with mounted(root / "src", "--prefix", "ckpt_", *options) as mountpoint:
            files = rank_files(mountpoint)
            self.assertEqual(len(files), 2)
            for rank, path in files.items():
                self.assert_file(path, rows(4 * rank, 4 * rank + 4))
            self.assert_file(mountpoint / "merged/ckpt_merged.ckpt", rows(0, 8))
            for directory, name, row, first, last in PRINTED:
                (path,) = (mountpoint / directory).glob("*.ckpt")
                values = by_name(path.read_bytes())[name].array()[row]
                self.assertEqual((values[0], values[-1]), (np.float32(first), np.float32(last)))

    def test_both_ways(self) -> None:
        maps = dict.fromkeys(CUT, ROWS)
        with scratch() as root:
            write_ranks(root / "src", {f"node{node}/CKP_1-4_32.ckpt": rows(2 * node, 2 * node + 2)
                                       for node in range(4)})
            write_protobuf(Strategy([layouts((4,), maps)]), root / "src.ckpt")
            write_protobuf(Strategy([layouts((2,), maps)]), root / "dst.ckpt")
            (root / "dst.toml").write_text(
                '[devices]\naxes = ["device=2"]\n\n[[rule]]\nmatch = "*weight"\ncut = ["device"]\n'
                '\n[[rule]]\nmatch = ["learning_rate", "momentum"]\n')
            by_strategy = ["--src-strategy", root / "src.ckpt"]
            for source in (by_strategy, ["--src-join", "*weight"]):
                for target in ("dst.ckpt", "dst.toml"):
                    with self.subTest(source=source[0], target=target):
                        self.check(root, *source, "--dst-strategy", root / target)
            self.check(root, *by_strategy, "--dst-strategy", "tp=2")


if __name__ == "__main__":
    run_unittests()
