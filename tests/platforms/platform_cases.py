# SPDX-License-Identifier: Apache-2.0
"""Where the packages are tried, and the table of it in docs/install.md, which has no other source:

    platform_cases.py            prints the table
    platform_cases.py --check PAGE

The tests take their cases from these lists, so that the table names what they try. What is not tried is said to be
expected, and why.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ON_EACH_CHANGE = "tested on each change, x86_64"
BEFORE_A_RELEASE = "tested before a release"


@dataclass(frozen=True)
class Suite:
    """A release of Debian, with its own glibc and Python."""

    system: str
    glibc: str
    python: str


@dataclass(frozen=True)
class Kernel:
    """Of Debian; the newest of the series, or of all. Pages are in KiB."""

    machine: str
    series: str
    pages: int

    @property
    def name(self) -> str:
        return f"{self.machine}-{self.series.rstrip('.') or 'newest'}" + (f"-{self.pages}k" if self.pages != 4 else "")


SUITES = {"bullseye": Suite("Debian 11", "2.31", "3.9"), "bookworm": Suite("Debian 12", "2.36", "3.11"),
          "trixie": Suite("Debian 13", "2.41", "3.13")}
PYTHONS = ("3.9", "3.10", "3.11", "3.12", "3.13")
KERNELS = (*(Kernel("x86_64", series, 4) for series in ("5.10.", "6.1.", "6.12.", "")),
           Kernel("aarch64", "5.10.", 4), Kernel("aarch64", "6.12.", 16))
PAGES = (16, 64)  # KiB, that a library states
EXPECTED = {"RHEL 8 and 9, openEuler 20.03 to 24.03, Kylin V10, UOS, EulerOS 2.9 and later, Ubuntu 20.04 to 24.04, NGC images":
            "not tested: their glibc is 2.28 or later, and the build refuses a newer symbol"}
NOT = "musl (Alpine), other machine types"


def words(given: list[str]) -> str:
    return ", ".join(given[:-1]) + (" and " if given[:-1] else "") + given[-1]


def kernels_of(machine: str, pages: int) -> str:
    series = [case.series.rstrip(".") or "the newest of Debian" for case in KERNELS
              if (case.machine, case.pages) == (machine, pages)]
    return f"Linux {words(series)}, {machine}" + (f", pages of {pages} KiB" if pages != 4 else "")


def table() -> Iterator[str]:
    """Lines of Markdown."""
    yield "| system | wheel | tarball | |"
    yield "|---|---|---|---|"
    for number, suite in enumerate(SUITES.values()):
        glibc = suite.glibc if number else f"glibc {suite.glibc}"
        yield f"| {suite.system} ({glibc}) | Python {suite.python} | yes | {ON_EACH_CHANGE} |"
    yield (f"| Python {words(list(PYTHONS))} of pyenv or uv | yes | | {ON_EACH_CHANGE}; the module's own tests before a "
           "release |")
    for machine, pages in dict.fromkeys((case.machine, case.pages) for case in KERNELS):
        yield f"| {kernels_of(machine, pages)} | expected | yes | {BEFORE_A_RELEASE}: booted with qemu |"
    yield "| aarch64 with another kernel | expected | yes, without mounts | tested with qemu-user before a release |"
    yield (f"| pages of {words([str(kib) for kib in PAGES])} KiB | expected | expected | unit tests and all commands on each "
           "change, with a library that states the size |")
    for systems, why in EXPECTED.items():
        yield f"| {systems} | expected | expected | {why} |"
    yield f"| {NOT} | no | no | |"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", type=Path, metavar="PAGE")
    page = parser.parse_args().check
    if page is None:
        print(*table(), sep="\n")
        return
    text = page.read_text()
    head = next(table())
    if head not in text:
        raise SystemExit(f"{page} has no table '{head}'")
    found = [line for line in text[text.index(head):].partition("\n\n")[0].splitlines() if line]
    wrong = [f"{page}: {line}" for line in found if line not in set(table())]
    wrong += [f"{page} lacks: {line}" for line in table() if line not in found]
    if wrong or found != list(table()):
        raise SystemExit("\n".join([*wrong, "Its table is what tests/platforms/platform_cases.py prints."]))
    print(f"{page.name}: all {len(found) - 2} lines are those of the tests")


if __name__ == "__main__":
    main()
