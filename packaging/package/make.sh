#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Makes packages of the sources around it, for the Debian that it runs on, in build/packages:
#   make.sh (deb | wheel | tarball | image)...
# package.sh calls it in a copy of the sources, which decides on all bytes together with SOURCE_DATE_EPOCH.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."
# shellcheck source-path=SCRIPTDIR/.. source=packages.sh
. packaging/packages.sh

out=$PWD/build/packages
version=$(sed -n 's/^project(reshardfs VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
# Neither file names in messages nor those for debuggers, and so no build ID, tell where this is.
export CXXFLAGS=-ffile-prefix-map=$PWD=.
umask 022

wants() {
  local kind
  for kind in "${kinds[@]}"; do
    [[ " $* " != *" $kind "* ]] || return 0
  done
  return 1
}

bill() {
  /usr/bin/python3 -B packaging/package/sbom.py --version "$version" --build build/release "$@"
}

make_debs() {
  packaging/deb.sh
  if wants deb; then
    cp build/deb/*.deb "$out"
    bill --target bin/reshardfs "$out"/reshardfs_*.deb
    bill --target "$(module)" "$out"/python3-reshardfs_*.deb
    bill "$out"/libreshardfs-dev_*.deb
  fi
}

module() {
  local found=(build/release/python/reshardfs/_core*.so)
  echo "${found[0]#build/release/}"
}

# Everything but glibc is inside; see static.cmake.
make_static() {
  packaging/package/static_libraries.sh
  build_installable -DRESHARDFS_STATIC_LIBRARIES="$PWD/build/static" -DRESHARDFS_PYTHON_MODULE=ON \
    -DRESHARDFS_URL="${RESHARDFS_URL-}"
  if wants wheel; then
    /usr/bin/python3 -B packaging/bundle_wheel.py build/release "$out"
    bill --target "$(module)" --target bin/reshardfs "$out"/reshardfs-*.whl
  fi
  if wants tarball; then
    packaging/package/tarball.sh "$version" "$out"
    bill --target bin/reshardfs "$out"/reshardfs-*.tar.gz
  fi
}

kinds=("$@")
needed=("${BUILD_PACKAGES[@]}" dpkg-dev file)
! wants wheel tarball || needed+=(binutils patchelf)
! wants image || needed+=(mmdebstrap)
install_packages "${needed[@]}"
rm -rf "$out"
mkdir -p "$out"
! wants deb image || make_debs
! wants wheel tarball || make_static
! wants image || packaging/package/image.sh "$version" "$out"
(cd "$out" && LC_ALL=C sha256sum -- * >"$out.sums" && mv "$out.sums" SHA256SUMS)
