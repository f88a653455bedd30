# SPDX-License-Identifier: Apache-2.0
"""libreshardfs exports what the public headers mark, and nothing of the libraries that it uses."""

import re
import shutil
import subprocess
import sys

import report

# Instances of standard templates are weak symbols of every C++ library, and no harm.
OURS_OR_STANDARD = re.compile(r"(?:(?:vtable|typeinfo|typeinfo name|guard variable|VTT) for )?"
                              r"(?:[^()]* )?(?:reshardfs|std|__gnu_cxx)::")


def main():
    library = report.arguments("library").library
    if not shutil.which("nm"):
        print("skipped: there is no nm")
        sys.exit(77)
    lines = subprocess.run(["nm", "-DC", "--defined-only", library], check=True, text=True,
                           stdout=subprocess.PIPE).stdout.splitlines()
    # "address type name"; an absolute symbol of the linker has no name space, and starts with "_".
    symbols = [line.split(" ", 2)[2] for line in lines]
    problems = [f"exports {symbol}" for symbol in symbols
                if not OURS_OR_STANDARD.match(symbol) and not symbol.startswith("_")]
    ours = [symbol for symbol in symbols if symbol.startswith("reshardfs::")]
    if not any(symbol.startswith("reshardfs::Conversion::open") for symbol in ours):
        problems.append("does not export reshardfs::Conversion::open")
    report.finish(problems, f"{len(ours)} functions of reshardfs are exported")


main()
