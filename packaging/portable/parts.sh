#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Fills build/portable/MACHINE with what portable packages of that machine type are linked with (../portable.cmake):
#   lib/        static, position-independent libraries: Debian's own ones in C, and of the others what its source
#               packages give, of the version whose headers are installed
#   glibc/      Debian 11's, to link with
#   pybind11/, pythons/   headers, if fetch.sh has found any
# parts.sh [MACHINE]: x86_64 or aarch64; by default, this machine's. fetch.sh must have run before. As any user.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."
# shellcheck source-path=SCRIPTDIR/.. source=packages.sh
. packaging/packages.sh

machine=${1:-$(uname -m)}
architecture=$(debian_architecture "$machine")
triple=$machine-linux-gnu
out=$PWD/build/portable/$machine
downloads=$PWD/build/downloads
log=$out.log

# logged COMMAND...: prints its output where it fails.
logged() {
  "$@" >"$log" 2>&1 || { cat "$log" >&2; die "failed (see above): $*"; }
}

# apt with Debian's sources of this system, for another architecture, too, and with lists that nothing else reads.
prepare_apt() {
  mkdir -p "$out/apt/lists/partial" "$out/apt/parts" "$out/apt/cache/archives/partial"
  { debian_sources deb; debian_sources deb-src; } >"$out/apt/sources.list"
  [ -s "$out/apt/sources.list" ] || die "apt has no package lists of Debian: run 'apt-get update'"
  apt=(apt-get -q -o "Dir::Etc::SourceList=$out/apt/sources.list" -o "Dir::Etc::SourceParts=$out/apt/parts"
    -o "Dir::State::Lists=$out/apt/lists" -o "Dir::Cache=$out/apt/cache" -o Dir::State::status=/dev/null
    -o "APT::Architecture=$architecture" -o "APT::Architectures=$architecture"
    -o Acquire::Languages=none -o Acquire::Retries=3 -o "APT::Sandbox::User=$(id -un)")
  logged "${apt[@]}" update
}

# installed PACKAGE FIELD
installed() {
  dpkg-query -W -f="\${$2}" "$1"
}

# fetch_source PACKAGE LIBRARY: the source package that PACKAGE, which is installed, was built from, for LIBRARY.
fetch_source() {
  local source digest
  source=$(installed "$1" source:Package)=$(installed "$1" source:Version)
  mkdir -p "$out/fetched/$1"
  (cd "$out/fetched/$1" && logged "${apt[@]}" source --download-only "$source")
  digest=$(sha256sum "$out/fetched/$1"/*.dsc)
  echo "$2 $1 $source ${digest%% *}" >>"$out/sources"
  mkdir -p "$out/source"
  logged dpkg-source --no-check -x "$out/fetched/$1"/*.dsc "$out/source/$1"
}

compiler_flags=(-O2 -DNDEBUG -fPIC -fstack-protector-strong -D_FORTIFY_SOURCE=2 -w)

# build_library PACKAGE TARGET CMAKE_ARGUMENT...: the library that the target makes.
build_library() {
  local package=$1 target=$2 library=lib${2#lib}.a
  shift 2
  say "building $library for $machine"
  fetch_source "$package" "$library"
  logged cmake -G Ninja -S "$out/source/$package" -B "$out/build/$package" -DCMAKE_BUILD_TYPE=None \
    -DCMAKE_TOOLCHAIN_FILE="$PWD/packaging/portable/toolchain.cmake" -DRESHARDFS_MACHINE="$machine" \
    -DCMAKE_CXX_FLAGS="${CXXFLAGS-} ${compiler_flags[*]}" -DBUILD_SHARED_LIBS=OFF "$@"
  logged cmake --build "$out/build/$package" --parallel "$(build_jobs)" --target "$target"
  find "$out/build/$package" -name "$library" -exec cp -t "$out/lib" {} +
  [ -e "$out/lib/$library" ] || die "the source package of $package makes no $library"
}

# compile_object LIBRARY FILE FLAG...: adds it to libLIBRARY.a.
compile_object() {
  local library=$1 source=$2 compiler=$triple-g++ object
  shift 2
  [[ $source != *.c ]] || compiler=$triple-gcc
  object=$out/$(basename "$source").o
  # shellcheck disable=SC2086  # words
  logged "$compiler" ${CXXFLAGS-} "${compiler_flags[@]}" "$@" -c "$source" -o "$object"
  logged ar rcsD "$out/lib/lib$library.a" "$object"
  rm "$object"
}

# take_library PACKAGE LIBRARY: Debian's own static one. Of another machine type the archive has the newest one alone.
take_library() {
  local place=/usr/lib/$triple version
  if [ "$machine" != "$(uname -m)" ]; then
    mkdir -p "$out/debian"
    (cd "$out/debian" && logged "${apt[@]}" download "$1")
    version=$(dpkg-deb -f "$out/debian/$1"_*.deb Version)
    [ "$version" = "$(installed "$1" Version)" ] ||
      say "lib$2.a for $machine is of $1 $version, and the bill of materials names $(installed "$1" Version): upgrade $1"
    logged dpkg-deb -x "$out/debian/$1"_*.deb "$out/debian"
    place=$out/debian/usr/lib/$triple
  fi
  cp "$place/lib$2.a" "$out/lib"
  echo "lib$2.a $1" >>"$out/taken"
}

# unpack_glibc: with links that a linker follows below another root.
unpack_glibc() {
  local package link target
  for package in libc6 libc6-dev; do
    logged dpkg-deb -x "$downloads/${package}"_*_"$architecture.deb" "$out/glibc"
  done
  find "$out/glibc" -type l -lname '/*' | while IFS= read -r link; do
    target=$out/glibc$(readlink "$link")
    [ ! -e "$target" ] || ln -sfnr "$target" "$link"
  done
}

compgen -G "$downloads/libc6-dev_*_$architecture.deb" >/dev/null || die "run packaging/portable/fetch.sh first"
# Of the same parts, nothing is made again.
inputs=$({ cat packaging/portable/{parts.sh,toolchain.cmake}; echo "${CXXFLAGS-}"; ls "$downloads" "$downloads/pythons" 2>&1
  dpkg-query -W "${BUILD_PACKAGES[@]}" "${MODULE_PACKAGES[@]}"; "$triple-g++" --version; } | sha256sum)
[ "$(cat "$out/inputs" 2>/dev/null)" != "$inputs" ] || exit 0
rm -rf "$out"
mkdir -p "$out/lib"
prepare_apt
build_library libfmt-dev fmt -DFMT_TEST=OFF
build_library libspdlog-dev spdlog -DSPDLOG_FMT_EXTERNAL=ON
build_library libyaml-cpp-dev yaml-cpp -DYAML_CPP_BUILD_TESTS=OFF -DYAML_CPP_BUILD_TOOLS=OFF
build_library libprotobuf-dev libprotobuf-lite -Dprotobuf_BUILD_TESTS=OFF -Dprotobuf_BUILD_PROTOC_BINARIES=OFF \
  -Dprotobuf_WITH_ZLIB=OFF
# Debian's static library lacks what chooses among the instructions that a processor has.
say "building libxxhash.a for $machine"
fetch_source libxxhash-dev libxxhash.a
compile_object xxhash "$out/source/libxxhash-dev/xxhash.c"
[ "$machine" != x86_64 ] || compile_object xxhash "$out/source/libxxhash-dev/xxh_x86dispatch.c"
# All of it is in its headers.
say "building libtomlplusplus.a for $machine"
echo "libtomlplusplus.a libtomlplusplus-dev $(installed libtomlplusplus-dev source:Package)=$(
  installed libtomlplusplus-dev source:Version) -" >>"$out/sources"
printf '#include <toml++/toml.h>\n' >"$out/tomlplusplus.cpp"
compile_object tomlplusplus "$out/tomlplusplus.cpp" -std=c++20 -DTOML_HEADER_ONLY=0 -DTOML_IMPLEMENTATION \
  -idirafter /usr/include
take_library libexpat1-dev expat
take_library libfuse3-dev fuse3
take_library libssl-dev crypto
take_library libutf8proc-dev utf8proc
take_library zlib1g-dev z
unpack_glibc
if compgen -G "$downloads/pybind11-*.whl" >/dev/null && [ -d "$downloads/pythons" ]; then
  python3 -m zipfile -e "$downloads"/pybind11-*.whl "$out/wheel"
  mv "$out/wheel/pybind11/include" "$out/pybind11"
  cp "$out"/wheel/pybind11-*.dist-info/licenses/LICENSE "$out/pybind11"
  # As sbom.py names it.
  basename "$downloads"/pybind11-*.whl | cut -d- -f1,2 --output-delimiter=' ' >"$out/pypi"
  cp -r "$downloads/pythons" "$out/pythons"
fi
rm -rf "$out/source" "$out/build" "$out/apt" "$out/fetched" "$out/debian" "$out/wheel" "$out/tomlplusplus.cpp" "$log"
echo "$inputs" >"$out/inputs"
