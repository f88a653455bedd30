#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Tests reshardfs with real programs (README.md beside this): run.sh [--short]. RESHARDFS is the program to test.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
exec python3 -B "$here/run.py" --binary "${RESHARDFS:-$here/../../build/release/bin/reshardfs}" "$@"
