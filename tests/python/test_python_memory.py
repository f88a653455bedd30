# SPDX-License-Identifier: Apache-2.0
"""What a reader costs: the memory of the result and little more, and none of it afterwards."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import unittest

import numpy as np
from ckpt_format import encode_checkpoint, record_of
from mounted import scratch
from python_sets import opened, run_unittests_without_mounts, small_set

SECONDS = 300.0
OPENS = 100_000
MORE_KIB = 64 << 10
LARGE = (96 << 20) // 4

# Prints the peak before and after, in KiB. Pages of files that are mapped do not count.
READ = """
import json, re, sys
import numpy, reshardfs
def peak():
    return int(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1])
ckpt = reshardfs.open(sys.argv[1])
state = ckpt.rank(0)
small = state["small"].numpy()
before = peak()
{call}
print(json.dumps([before, peak()]))
"""
CALLS = ("kept = state.numpy()", "kept = [numpy.asarray(state[name]) for name in state]",
         "kept = [memoryview(state[name].read()) for name in state]", "kept = state.read()",
         "kept = [numpy.from_dlpack(state[name]) for name in state]",
         "kept = ckpt.file('rank_0/checkpoint_0.ckpt').read()")


def resident_kib() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4


class Memory(unittest.TestCase):
    def test_takes_the_result_and_little_more(self) -> None:
        with scratch() as directory:
            path = directory / "m.ckpt"
            path.write_bytes(encode_checkpoint(
                [record_of("small", "Float32", np.zeros(4, "<f4")),
                 *(record_of(name, "Float32", np.ones(LARGE, "<f4")) for name in ("a", "b"))]))
            for call in CALLS:
                done = subprocess.run([sys.executable, "-c", READ.format(call=call), str(path)], check=True,
                                      capture_output=True, text=True, timeout=SECONDS)
                before, after = json.loads(done.stdout)
                with self.subTest(call, before=before, after=after):
                    self.assertLess(after - before, 2 * LARGE * 4 // 1024 + MORE_KIB)

    def test_opens_of_tensors_leave_nothing(self) -> None:
        with small_set() as made, opened(made) as checkpoint:
            def use(times: int) -> None:
                state = checkpoint.merged
                names = list(state)
                for number in range(times):
                    tensor = state[names[number % len(names)]]
                    tensor.shape, tensor.dtype  # noqa: B018
                    if number % 100 == 0 and tensor.ndim:
                        tensor[:1]
            use(OPENS // 10)
            gc.collect()
            before = resident_kib()
            use(OPENS)
            gc.collect()
            # Each has a few hundred bytes: 100,000 of them would be 20 MiB and more.
            self.assertLess(resident_kib() - before, 4 << 10)

    def test_opens_of_checkpoints_leave_nothing(self) -> None:
        with small_set() as made:
            def use(times: int) -> None:
                for _ in range(times):
                    with opened(made) as checkpoint:
                        checkpoint.rank(0)
            use(20)
            gc.collect()
            before = resident_kib()
            use(200)
            gc.collect()
            self.assertLess(resident_kib() - before, 4 << 10)

    def test_failures_leave_nothing(self) -> None:
        with small_set() as made, opened(made) as checkpoint:
            state = checkpoint.merged

            def use(times: int) -> None:
                for _ in range(times):
                    for call in (lambda: state["no"], lambda: state["lm_head.weight"][10**9], lambda: checkpoint.rank(99),
                                 lambda: state["lm_head.weight"].read_into(bytearray(2)),
                                 lambda: state["lm_head.weight"].read_into(b"fixed")):
                        with self.assertRaises(Exception):  # noqa: B017
                            call()
            use(300)
            gc.collect()
            before = resident_kib()
            use(3000)
            gc.collect()
            self.assertLess(resident_kib() - before, 4 << 10)

    def test_references(self) -> None:
        """What was read lives as long as somebody has it, and keeps nothing else."""
        with small_set(scale=8) as made, opened(made) as checkpoint:
            tensor = checkpoint.merged["lm_head.weight"]
            want = tensor.numpy().tobytes()
            array = checkpoint.merged["lm_head.weight"].numpy()
            view = array[1:]
            taken = np.from_dlpack(tensor)
            buffer = bytearray(tensor.nbytes)
            for _ in range(10):
                before = sys.getrefcount(buffer), sys.getrefcount(tensor), sys.getrefcount(checkpoint)
                tensor.read_into(buffer)
                tensor.numpy()
                tensor.__dlpack__()
                after = sys.getrefcount(buffer), sys.getrefcount(tensor), sys.getrefcount(checkpoint)
                self.assertEqual(before, after)
            checkpoint.close()
            del array, tensor
            gc.collect()
            self.assertEqual(view.tobytes(), want[len(want) - view.nbytes:])
            self.assertEqual(taken.tobytes(), want)


if __name__ == "__main__":
    run_unittests_without_mounts()
