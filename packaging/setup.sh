#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# From a fresh Debian 12 or 13 to a running reshardfs: installs what the build needs, builds and installs the
# program (install.sh), and runs the demo. As root, or as a user who may sudo. May be run again at any time.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
# shellcheck source-path=SCRIPTDIR source=packages.sh
. packaging/packages.sh

packaging/install.sh
problem=$(fuse_problem)
[ -z "$problem" ] || say "nothing can be mounted here: $problem"
say "running 'reshardfs demo': it makes a sample of 200 MB in a temporary directory"
build/release/bin/reshardfs demo
