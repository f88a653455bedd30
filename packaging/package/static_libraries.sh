#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds build/static/lib*.a: static, position-independent libraries of what Debian has only as shared
# objects, or only for programs. Each is compiled from the source package of the headers that are installed.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."
# shellcheck source-path=SCRIPTDIR/.. source=packages.sh
. packaging/packages.sh

out=$PWD/build/static
log=$PWD/build/static.log

# logged COMMAND...: prints its output where it fails.
logged() {
  "$@" >"$log" 2>&1 || { cat "$log" >&2; die "failed (see above): $*"; }
}

# apt's own sources of Debian, for source packages, with lists that nothing else reads.
prepare_apt() {
  mkdir -p "$out/apt/lists/partial" "$out/apt/parts"
  debian_sources deb-src >"$out/apt/sources.list"
  [ -s "$out/apt/sources.list" ] || die "apt has no package lists of Debian: run 'apt-get update'"
  apt_source=(apt-get -q -o "Dir::Etc::SourceList=$out/apt/sources.list" -o "Dir::Etc::SourceParts=$out/apt/parts"
    -o "Dir::State::Lists=$out/apt/lists" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=
    -o Acquire::Retries=3 -o "APT::Sandbox::User=$(id -un)")
  logged "${apt_source[@]}" update
}

# fetch_source PACKAGE LIBRARY: the source package that PACKAGE, which is installed, was built from, for LIBRARY.
fetch_source() {
  local source digest
  # shellcheck disable=SC2016  # dpkg-query replaces them
  source=$(dpkg-query -W -f='${source:Package}=${source:Version}' "$1")
  mkdir -p "$out/fetched/$1"
  (cd "$out/fetched/$1" && logged "${apt_source[@]}" source --download-only "$source")
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
  say "building $library"
  fetch_source "$package" "$library"
  logged cmake -G Ninja -S "$out/source/$package" -B "$out/build/$package" -DCMAKE_BUILD_TYPE=None \
    -DCMAKE_CXX_FLAGS="${CXXFLAGS-} ${compiler_flags[*]}" -DBUILD_SHARED_LIBS=OFF "$@"
  logged cmake --build "$out/build/$package" --parallel "$(build_jobs)" --target "$target"
  find "$out/build/$package" -name "$library" -exec cp -t "$out" {} +
  [ -e "$out/$library" ] || die "the source package of $package makes no $library"
}

# compile_object LIBRARY FILE FLAG...: adds it to libLIBRARY.a.
compile_object() {
  local library=$1 source=$2 compiler=g++ object
  shift 2
  [[ $source != *.c ]] || compiler=gcc
  object=$out/$(basename "$source").o
  # shellcheck disable=SC2086  # words
  logged "$compiler" ${CXXFLAGS-} "${compiler_flags[@]}" "$@" -c "$source" -o "$object"
  logged ar rcsD "$out/lib$library.a" "$object"
  rm "$object"
}

rm -rf "$out"
prepare_apt
build_library libfmt-dev fmt -DFMT_TEST=OFF
build_library libspdlog-dev spdlog -DSPDLOG_FMT_EXTERNAL=ON
build_library libyaml-cpp-dev yaml-cpp -DYAML_CPP_BUILD_TESTS=OFF -DYAML_CPP_BUILD_TOOLS=OFF
build_library libprotobuf-dev libprotobuf-lite -Dprotobuf_BUILD_TESTS=OFF -Dprotobuf_BUILD_PROTOC_BINARIES=OFF
# Debian's static library lacks what chooses among the instructions that a processor has.
say "building libxxhash.a"
fetch_source libxxhash-dev libxxhash.a
compile_object xxhash "$out/source/libxxhash-dev/xxhash.c"
case $(dpkg --print-architecture) in
  amd64 | i386) compile_object xxhash "$out/source/libxxhash-dev/xxh_x86dispatch.c" ;;
esac
# All of it is in its headers.
say "building libtomlplusplus.a"
# shellcheck disable=SC2016  # dpkg-query replaces them
dpkg-query -W -f='libtomlplusplus.a libtomlplusplus-dev ${source:Package}=${source:Version} -\n' libtomlplusplus-dev \
  >>"$out/sources"
printf '#include <toml++/toml.h>\n' >"$out/tomlplusplus.cpp"
compile_object tomlplusplus "$out/tomlplusplus.cpp" -std=c++20 -DTOML_HEADER_ONLY=0 -DTOML_IMPLEMENTATION
rm -rf "$out/source" "$out/build" "$out/apt" "$out/fetched" "$out/tomlplusplus.cpp"
