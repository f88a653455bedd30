# SPDX-License-Identifier: Apache-2.0
"""How long calls took: their median, 99th percentile and maximum, from buckets."""

from __future__ import annotations

from collections.abc import Sequence


def bucket_of(nanoseconds: int) -> int:
    """As read_tally.h: 16 buckets for each power of two."""
    exponent = max(nanoseconds.bit_length() - 5, 0)
    mantissa = nanoseconds >> exponent
    return 16 * exponent + max(mantissa - 16, 0)


def upper_end(bucket: int) -> int:
    return (17 + bucket % 16) << (bucket // 16)


class Durations:
    def __init__(self) -> None:
        self.count = 0
        self.slowest_ns = 0
        self._buckets: dict[int, int] = {}

    def note(self, nanoseconds: int) -> None:
        bucket = bucket_of(nanoseconds)
        self._buckets[bucket] = self._buckets.get(bucket, 0) + 1
        self.count += 1
        self.slowest_ns = max(self.slowest_ns, nanoseconds)

    def add_buckets(self, counts: Sequence[int], slowest_ns: int) -> None:
        for bucket, count in enumerate(counts):
            if count:
                self._buckets[bucket] = self._buckets.get(bucket, 0) + count
                self.count += count
        self.slowest_ns = max(self.slowest_ns, slowest_ns)

    def add(self, other: Durations) -> None:
        for bucket, count in other._buckets.items():
            self._buckets[bucket] = self._buckets.get(bucket, 0) + count
        self.count += other.count
        self.slowest_ns = max(self.slowest_ns, other.slowest_ns)

    def percentile_ns(self, share: float) -> int:
        """No less than the true one, and at most 1/16 more."""
        left = share * self.count
        for bucket in sorted(self._buckets):
            left -= self._buckets[bucket]
            if left <= 0:
                return min(upper_end(bucket), self.slowest_ns)
        return self.slowest_ns

    def __str__(self) -> str:
        return (f"{self.count:,} calls, median {self.percentile_ns(0.5) / 1e6:.3f} ms, 99% "
                f"{self.percentile_ns(0.99) / 1e6:.3f} ms, slowest {self.slowest_ns / 1e6:.1f} ms")
