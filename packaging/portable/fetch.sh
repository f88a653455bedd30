#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Fetches into build/downloads what portable packages take from elsewhere, each file by its SHA-256: Debian 11's
# glibc to link with, pybind11, and the headers of the Pythons of this machine: fetch.sh [MACHINE...]
#
# Debian 11 is no longer supported, and mirrors will drop it. deb.debian.org and archive.debian.org keep what it had;
# later, keep these files with a release, and put them into build/downloads before. Any glibc from 2.28 to 2.31 will do.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."
# shellcheck source-path=SCRIPTDIR/.. source=packages.sh
. packaging/packages.sh

out=$PWD/build/downloads
glibc=pool/main/g/glibc
readonly DEBS="\
05f7264da867b37f4c5ce49266b558ea1e81e05a9464f623152fca70f3550282 $glibc/libc6_2.31-13+deb11u11_amd64.deb
e7f7b45d9c5cfcf37609f0b6efd3c645272c812144703af89dfd32218fcb0fd3 $glibc/libc6-dev_2.31-13+deb11u11_amd64.deb
baaa9aa184e2f21738c5819055e6740cc5b22f198e3f416e33f82b40ff6933d8 $glibc/libc6_2.31-13+deb11u11_arm64.deb
28d478134722dcd4b0bd2045a199301d18713bf95947b9fce66634e7aeacab2e $glibc/libc6-dev_2.31-13+deb11u11_arm64.deb"
# Of PyPI: Debian 12's has no Python 3.12 and later.
readonly PYBIND11='pybind11==3.1.0 --hash=sha256:b8488090f8acffbcb6b5d6a85571a6827a0a2981ffb75e5a0b27b87c4a6b7dd0'

# has SHA256 FILE
has() {
  [ -e "$2" ] && echo "$1  $2" | sha256sum --check --quiet --status
}

# fetch_deb SHA256 PATH: from the mirror that apt uses here, or else from those that keep old releases.
fetch_deb() {
  local file=$out/${2##*/} mirror
  ! has "$1" "$file" || return 0
  for mirror in "$(debian_sources deb | awk 'NR == 1 { print $2 }')" http://deb.debian.org/debian \
    http://archive.debian.org/debian; do
    python3 -c 'import sys, urllib.request; urllib.request.urlretrieve(*sys.argv[1:])' "$mirror/$2" "$file" \
      2>"$out/log" && has "$1" "$file" && return
  done
  tail -n 1 "$out/log" >&2
  rm -f "$file"
  die "no mirror has ${file##*/} with the SHA-256 $1: put that file into build/downloads"
}

fetch_pybind11() {
  compgen -G "$out/pybind11-*.whl" >/dev/null && return
  echo "$PYBIND11" >"$out/requirements"
  if ! { /usr/bin/python3 -m venv "$out/venv" &&
    "$out/venv/bin/pip" --quiet download --no-deps --require-hashes -r "$out/requirements" -d "$out"; } >"$out/log" 2>&1; then
    tail -n 3 "$out/log" >&2
    say "no pybind11: the wheel will have no Python module"
  fi
  rm -rf "$out/venv" "$out/requirements"
}

mkdir -p "$out"
machines=("$@")
[ "${#machines[@]}" -gt 0 ] || machines=("$(uname -m)")
for machine in "${machines[@]}"; do
  while read -r digest path; do
    [[ $path != *_"$(debian_architecture "$machine").deb" ]] || fetch_deb "$digest" "$path"
  done <<<"$DEBS"
done
fetch_pybind11
/usr/bin/python3 -B packaging/portable/pythons.py "$out/pythons"
rm -f "$out/log"
