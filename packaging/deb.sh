#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds reshardfs_*.deb and libreshardfs-dev_*.deb into build/deb.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
# shellcheck source-path=SCRIPTDIR source=packages.sh
. packaging/packages.sh

install_packages "${BUILD_PACKAGES[@]}" dpkg-dev file
say "building the packages into build/deb"
# The prefix decides on Debian's library directory, hence a build directory of its own.
cmake --preset release -B build/deb -DCMAKE_INSTALL_PREFIX=/usr \
  -DRESHARDFS_BUILD_TESTS=OFF -DRESHARDFS_BUILD_BENCH=OFF
cmake --build build/deb --parallel "$(build_jobs)"
cpack --config build/deb/CPackConfig.cmake -B build/deb
rm -rf build/deb/_CPack_Packages
ls -l build/deb/*.deb
