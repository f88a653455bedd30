#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Makes packages of the sources around it, for the Debian that it runs on, in build/packages:
#   make.sh (deb | wheel | tarball | image)...
# MACHINES names the machine types of wheels and tarballs; by default, this machine's. package.sh calls it in a copy
# of the sources, which decides on all bytes together with SOURCE_DATE_EPOCH.
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

# wants_portable: Debian packages of another machine type have the program of its tarball.
wants_portable() {
  wants wheel tarball || { wants deb && [ "${machines[*]}" != "$(uname -m)" ] && [ -e build/downloads ]; }
}

bill() {
  /usr/bin/python3 -B packaging/package/sbom.py --version "$version" "$@"
}

make_debs() {
  packaging/deb.sh
  if wants deb; then
    cp build/deb/*.deb "$out"
    bill --build build/release --target bin/reshardfs "$out"/reshardfs_*.deb
    bill --build build/release --target "$(module)" "$out"/python3-reshardfs_*.deb
    bill --build build/release "$out"/libreshardfs-dev_*.deb
  fi
}

module() {
  local found=(build/release/python/reshardfs/_core*.so)
  echo "${found[0]#build/release/}"
}

# configure_portable MACHINE: the build of that machine type, $build. It is build/release for this machine's own, which
# has the objects already.
configure_portable() {
  build=build/release
  local arguments=(-DRESHARDFS_PORTABLE="$PWD/build/portable/$1")
  if [ "$1" != "$(uname -m)" ]; then
    build=build/$1
    arguments+=(-B "$build" -DCMAKE_TOOLCHAIN_FILE="$PWD/packaging/portable/toolchain.cmake" -DRESHARDFS_MACHINE="$1"
      -DRESHARDFS_PYTHON_MODULE=OFF -DRESHARDFS_BUILD_TESTS=OFF -DRESHARDFS_BUILD_BENCH=OFF -DRESHARDFS_UNITY=ON)
  fi
  configure_release "${arguments[@]}"
}

# Everything but glibc is inside; see portable.cmake. The manual and the metadata are what this machine's program writes.
make_portable() {
  local machine build targets
  build_for packaged -DRESHARDFS_PYTHON_MODULE=ON -DRESHARDFS_URL="${RESHARDFS_URL-}"
  for machine in "${machines[@]}"; do
    packaging/portable/parts.sh "$machine"
    configure_portable "$machine"
    say "building portable products for $machine"
    cmake --build "$build" --parallel "$(build_jobs)" --target portable || die "the build failed (see above)"
    if wants wheel; then
      /usr/bin/python3 -B packaging/bundle_wheel.py "$build" "$out" --metadata build/release
      mapfile -t targets < <(cd "$build" && find portable/bin portable/lib portable/_core*.so -type f 2>/dev/null)
      bill --build "$build" "${targets[@]/#/--target=}" "$out"/reshardfs-*_"$machine".whl
    fi
    if wants tarball; then
      packaging/package/tarball.sh "$version" "$build" "$machine" "$out"
      bill --build "$build" --target portable/bin/reshardfs "$out"/reshardfs-*-"$machine".tar.gz
    fi
    if wants deb && [ "$machine" != "$(uname -m)" ]; then
      packaging/portable/deb.sh "$version" "$build" "$machine" "$out"
      bill --build "$build" --target portable/bin/reshardfs "$out/reshardfs_"*"_$(debian_architecture "$machine").deb"
    fi
  done
}

kinds=("$@")
read -ra machines <<<"${MACHINES-$(uname -m)}"
needed=("${BUILD_PACKAGES[@]}" "${MODULE_PACKAGES[@]}" dpkg-dev file)
if wants_portable; then
  needed+=(binutils)
  for machine in "${machines[@]}"; do
    [ "$machine" = "$(uname -m)" ] || needed+=("g++-${machine//_/-}-linux-gnu")
  done
fi
! wants image || needed+=(mmdebstrap)
install_packages "${needed[@]}"
rm -rf "$out"
mkdir -p "$out"
! wants deb image || make_debs
! wants_portable || make_portable
! wants image || packaging/package/image.sh "$version" "$out"
(cd "$out" && LC_ALL=C sha256sum -- * >"$out.sums" && mv "$out.sums" SHA256SUMS)
