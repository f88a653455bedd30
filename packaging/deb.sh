#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Usage: packaging/deb.sh [runtime|dev|python]...
# Builds reshardfs_*.deb, libreshardfs-dev_*.deb and python3-reshardfs_*.deb into build/deb, or those of these that
# are named. For others to install, set who answers for them, as for Debian's own tools:
#   DEBFULLNAME='A Name' DEBEMAIL=name@example.org packaging/deb.sh
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
# shellcheck source-path=SCRIPTDIR source=packages.sh
. packaging/packages.sh

components=("$@")
[ "$#" -gt 0 ] || components=(runtime dev python)
for component in "${components[@]}"; do
  [[ $component =~ ^(runtime|dev|python)$ ]] || die "there is no package '$component': runtime, dev or python"
done
target=installable
needed=("${BUILD_PACKAGES[@]}" dpkg-dev file)
if [[ " ${components[*]} " == *' python '* ]]; then
  target=packaged
  needed+=("${MODULE_PACKAGES[@]}")
fi
install_packages "${needed[@]}"
maintainer=(-U RESHARDFS_MAINTAINER)
if [ -n "${DEBEMAIL-}" ]; then
  maintainer=("-DRESHARDFS_MAINTAINER=${DEBFULLNAME-The reshardfs authors} <$DEBEMAIL>")
fi
# Of directories in the packages.
umask 022
# The same sources give the same packages, wherever they are. It has an effect on a build that begins here.
export CXXFLAGS=${CXXFLAGS--ffile-prefix-map=$PWD=.}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH
# The prefix decides on Debian's directories. It is put back, so that 'cmake --install' never writes
# over the files of a package.
prefix=$(sed -n 's/^CMAKE_INSTALL_PREFIX:PATH=//p' build/release/CMakeCache.txt 2>/dev/null) || true
[ -n "$prefix" ] && [ "$prefix" != /usr ] || prefix=/usr/local
build_for "$target" -DCMAKE_INSTALL_PREFIX=/usr "${maintainer[@]}"
say "packaging into build/deb"
rm -rf build/deb
cpack --config build/release/CPackConfig.cmake -D CPACK_COMPONENTS_ALL="$(IFS=';'; echo "${components[*]}")" \
  -B "$PWD/build/deb" >build/package.log 2>&1 ||
  { cat build/package.log >&2; die "packaging failed (see above)"; }
rm -rf build/deb/_CPack_Packages
configure_release -DRESHARDFS_WERROR=OFF -DCMAKE_INSTALL_PREFIX="$prefix" -U RESHARDFS_ZSH_DIR
ls -l build/deb/*.deb
