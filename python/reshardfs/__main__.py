# SPDX-License-Identifier: Apache-2.0
"""`python -m reshardfs` is the command `reshardfs`."""

import os
import sys

from reshardfs import Error
from reshardfs._program import program


def main() -> None:
    try:
        command = program()
    except Error as error:
        sys.exit(f"reshardfs: {error}")
    os.execv(command, ["reshardfs", *sys.argv[1:]])


if __name__ == "__main__":
    main()
