#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# From a fresh Debian 12 or 13 to a running reshardfs: installs what it needs, builds the program in
# build/release, and runs the demo. What is installed beside it, install.sh builds. As root, or as a user
# who may sudo. May be run again at any time.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
# shellcheck source-path=SCRIPTDIR source=packages.sh
. packaging/packages.sh

install_packages "${BUILD_PACKAGES[@]}"
configure_release -DRESHARDFS_BUILD_TESTS=OFF -DRESHARDFS_BUILD_BENCH=OFF -DRESHARDFS_WERROR=OFF \
  -DRESHARDFS_UNITY=ON
compile_release reshardfs
say "built $PWD/build/release/bin/reshardfs"

problem=$(fuse_problem)
[ -z "$problem" ] || say "nothing can be mounted here: $problem"
say "running 'reshardfs demo': it makes a sample of 200 MB in a temporary directory"
build/release/bin/reshardfs demo
