#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds reshardfs_*.deb and libreshardfs-dev_*.deb into build/deb. For others to install, set who
# answers for them, as for Debian's own tools: DEBFULLNAME='A Name' DEBEMAIL=name@example.org
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
# shellcheck source-path=SCRIPTDIR source=packages.sh
. packaging/packages.sh

install_packages "${BUILD_PACKAGES[@]}" dpkg-dev file
say "building the packages into build/deb"
maintainer=(-U RESHARDFS_MAINTAINER)
if [ -n "${DEBEMAIL-}" ]; then
  maintainer=("-DRESHARDFS_MAINTAINER=${DEBFULLNAME-The reshardfs authors} <$DEBEMAIL>")
fi
# The same sources give the same packages.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH
# The prefix decides on Debian's library directory, hence a build directory of its own. All symbols are
# resolved at the start, so that the tables of a daemon that may run as root can be read-only.
cmake --preset release -B build/deb -DCMAKE_INSTALL_PREFIX=/usr \
  -DCMAKE_EXE_LINKER_FLAGS=-Wl,-z,relro,-z,now -DCMAKE_SHARED_LINKER_FLAGS=-Wl,-z,relro,-z,now \
  -DRESHARDFS_BUILD_TESTS=OFF -DRESHARDFS_BUILD_BENCH=OFF -DRESHARDFS_WERROR=OFF "${maintainer[@]}"
cmake --build build/deb --parallel "$(build_jobs)"
rm -f build/deb/*.deb
cpack --config build/deb/CPackConfig.cmake -B build/deb
rm -rf build/deb/_CPack_Packages
ls -l build/deb/*.deb
