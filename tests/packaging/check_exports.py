# SPDX-License-Identifier: Apache-2.0
"""libreshardfs exports what the public headers mark, and no name of the libraries it uses."""

import shutil
import subprocess
import sys

import report

# Beside our own: instances of standard templates, which every C++ library carries as weak symbols.
STANDARD = ("std::", "__gnu_cxx::", "operator ")
# Types of our own interfaces that are not public.
PRIVATE_WORDS = ("google::", "nlohmann", "fmt::", "spdlog", "toml::")


def is_foreign(symbol):
    if symbol.startswith(("vtable for ", "typeinfo for ", "typeinfo name for ")):
        symbol = symbol.split(" for ", 1)[1]
    if symbol.startswith("reshardfs::"):
        return False
    return any(word in symbol for word in PRIVATE_WORDS)


def main():
    library = report.arguments("library").library
    if not shutil.which("nm"):
        print("skipped: there is no nm")
        sys.exit(77)
    lines = subprocess.run(["nm", "-DC", "--defined-only", library], check=True, text=True,
                           stdout=subprocess.PIPE).stdout.splitlines()
    symbols = [line.split(" ", 2)[2] for line in lines]
    ours = [symbol for symbol in symbols if symbol.startswith("reshardfs::")]
    problems = [f"exports {symbol}" for symbol in symbols if is_foreign(symbol)]
    if not any(symbol.startswith("reshardfs::Conversion::open") for symbol in ours):
        problems.append("does not export reshardfs::Conversion::open")
    report.finish(problems, f"{len(ours)} functions and types of reshardfs are exported")


main()
