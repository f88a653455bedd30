# SPDX-License-Identifier: Apache-2.0
"""Where the command `reshardfs` is."""

from __future__ import annotations

import os

from ._errors import Error

_BESIDE = os.path.join(os.path.dirname(__file__), "bin", "reshardfs")


def program() -> str:
    """The command: that of the package, or else the one on the PATH.

    Raises Error if there is none."""
    if os.access(_BESIDE, os.X_OK):
        return _BESIDE
    # As shutil.which(), which takes longer to import than all of this package.
    for directory in os.get_exec_path():
        found = os.path.join(directory, "reshardfs")
        if os.path.isfile(found) and os.access(found, os.X_OK):
            return found
    raise Error("there is no command 'reshardfs' on the PATH; install the package reshardfs",
                "missing", hint="install the package reshardfs")
