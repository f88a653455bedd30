#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Makes the packages that others install. See --help.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
# shellcheck source-path=SCRIPTDIR source=packages.sh
. packaging/packages.sh

usage() {
  cat <<'END'
Usage: packaging/package.sh [--for SUITE,...] [--machine TYPE,...] [--check]
                            [--out DIR] [KIND...]

Makes packages of this checkout in build/packages/SUITE, each with its bill of
materials (SPDX), and SHA256SUMS. KIND is deb, wheel, tarball or image; without
one, all of them.

  --for SUITE,...  For these releases of Debian (bookworm, trixie), each in a
                   clean system of its own. As root. Without it: for the Debian
                   that this runs on, with the packages that it has
  --machine TYPE,...
                   Wheels and tarballs for these machine types (x86_64,
                   aarch64), and the Debian package 'reshardfs', cross-built
                   where it is another one. Without it: for this machine's
  --check          Make each package a second time, in another directory, and
                   compare the bytes; then install and use each in a clean
                   system, which needs root
  --out DIR        Instead of build/packages
  --help           Print this text

Set who answers for packages that others install, and where the project is:
  DEBFULLNAME='A Name' DEBEMAIL=name@example.org RESHARDFS_URL=https://...
Wheels and tarballs are made on bookworm alone, and run everywhere. A wheel has a
module for each Python from 3.9 on whose headers this machine has.
The same sources, packages of Debian and headers give the same bytes.
END
}

suites=() machines=() check='' out=$PWD/build/packages kinds=()
parse_arguments() {
  while [ $# -gt 0 ]; do
    case $1 in
      --for) IFS=, read -ra suites <<<"${2-}"; [ -n "${2-}" ] || die "--for needs a release of Debian"; shift ;;
      --machine) IFS=, read -ra machines <<<"${2-}"; [ -n "${2-}" ] || die "--machine needs a machine type"; shift ;;
      --out) [ -n "${2-}" ] || die "--out needs a directory"; out=$(realpath -m -- "$2"); shift ;;
      --check) check=yes ;;
      --help | -h) usage; exit ;;
      deb | wheel | tarball | image) kinds+=("$1") ;;
      *) die "unknown argument '$1'; see packaging/package.sh --help" ;;
    esac
    shift
  done
  [ "${#kinds[@]}" -gt 0 ] || kinds=(deb wheel tarball image)
  [ "${#machines[@]}" -gt 0 ] || machines=("$(uname -m)")
  local machine
  for machine in "${machines[@]}"; do
    debian_architecture "$machine" >/dev/null
  done
  here=$(. /etc/os-release && echo "${VERSION_CODENAME-}")
  if [ "${#suites[@]}" -gt 0 ] || [ -n "$check" ] || [[ " ${kinds[*]} " == *" image "* ]]; then
    [ "$(id -u)" -eq 0 ] || die "--for, --check and images need root; 'deb wheel tarball' alone do not"
  fi
}

# copy_sources DIRECTORY: what git has of this checkout, with changes that are not committed.
copy_sources() {
  mkdir -p "$1"
  if [ -e .git ]; then
    git ls-files -z --cached --others --exclude-standard
  else
    find . -path ./build -prune -o -type f -print0
  fi | tar --null --no-recursion --files-from=- --ignore-failed-read -cf - | tar -C "$1" -xf -
  chmod -R u=rwX,go=rX "$1"
}

# clean_system SUITE: a minimal Debian, in $work/SUITE.
clean_system() {
  [ ! -e "$work/$1" ] || return 0
  install_packages debootstrap
  say "making a clean system of $1"
  local mirror
  mirror=$(debian_sources deb | awk 'NR == 1 { print $2 }')
  debootstrap --variant=minbase "$1" "$work/$1" "$mirror" >"$work/log" 2>&1 ||
    { cat "$work/log" >&2; die "debootstrap failed (see above)"; }
  debian_sources deb "$1" >"$work/$1/etc/apt/sources.list"
  cp /etc/resolv.conf "$work/$1/etc"
}

# kinds_of SUITE: wheels and tarballs run everywhere, and are made once, of the libraries that are tested so.
kinds_of() {
  local kind
  for kind in "${kinds[@]}"; do
    case $kind in
      wheel | tarball) [ "$1" != bookworm ] || echo "$kind" ;;
      *) echo "$kind" ;;
    esac
  done
}

# make_packages SUITE NAME TARGET: all its kinds, made in a directory NAME, into TARGET.
make_packages() {
  local suite=$1 name=$2 target=$3 root='' folder
  mapfile -t own_kinds < <(kinds_of "$suite")
  if [ -n "$in_clean_systems" ]; then
    clean_system "$suite"
    root=$work/$suite
  fi
  folder=$work/sources/$name
  [ -z "$root" ] || folder=$root/sources/$name
  copy_sources "$folder"
  # Debian packages of other machine types, too, are made on bookworm alone.
  if [ "$suite" = bookworm ] && [ -e build/downloads ]; then
    mkdir -p "$folder/build"
    cp -r build/downloads "$folder/build/"
  fi
  say "making ${own_kinds[*]} for $suite"
  local command=(env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 TZ=UTC
    "SOURCE_DATE_EPOCH=$SOURCE_DATE_EPOCH" "RESHARDFS_URL=${RESHARDFS_URL-}"
    "RESHARDFS_REVISION=$RESHARDFS_REVISION" "MACHINES=${machines[*]}")
  [ -z "${DEBEMAIL-}" ] || command+=("DEBEMAIL=$DEBEMAIL" "DEBFULLNAME=${DEBFULLNAME-The reshardfs authors}")
  if [ -n "$root" ]; then
    # What is mounted for it goes with its namespace.
    # shellcheck disable=SC2016  # for that shell
    unshare --mount --pid --fork --kill-child --propagation private sh -euc '
      mount -t proc proc "$0/proc"; mount --rbind /dev "$0/dev"; exec chroot "$0" "$@"' \
      "$root" "${command[@]}" "/sources/$name/packaging/package/make.sh" "${own_kinds[@]}"
  else
    "${command[@]}" "$folder/packaging/package/make.sh" "${own_kinds[@]}"
  fi
  rm -rf "$target"
  mkdir -p "$(dirname "$target")"
  cp -r "$folder/build/packages" "$target"
  rm -rf "$folder"
}

# compare FIRST SECOND: fails unless both have the same files with the same bytes.
compare() {
  diff <(cd "$1" && ls) <(cd "$2" && ls) || die "two builds do not make the same packages (see above)"
  local name different=()
  for name in "$1"/*; do
    cmp "$name" "$2/${name##*/}" || different+=("${name##*/}")
  done
  if [ "${#different[@]}" -gt 0 ]; then
    local changed
    changed=$(python3 -B packaging/package/changed_packages.py "$1" "$2")
    [ -z "$changed" ] || die "Debian's archive has changed between the two builds ($changed): run the same command again"
    die "two builds differ in ${different[*]}"
  fi
  say "two builds in different directories gave the same bytes: $(find "$1" -type f | wc -l) files"
}

parse_arguments "$@"
umask 022
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH
# The commit, for the image; with changes that are not committed, it is of none.
RESHARDFS_REVISION=''
[ -n "$(git status --porcelain 2>&1)" ] || RESHARDFS_REVISION=$(git rev-parse HEAD)
in_clean_systems=''
[ "${#suites[@]}" -eq 0 ] || in_clean_systems=yes
[ -n "$in_clean_systems" ] || suites=("$here")
for suite in "${suites[@]}"; do
  [ -n "$(kinds_of "$suite")" ] || die "wheels and tarballs are made on bookworm, not on $suite: use --for bookworm"
done
if [[ " ${suites[*]} " == *" bookworm "* ]] &&
  { [[ " ${kinds[*]} " =~ \ (wheel|tarball)\  ]] || [ "${machines[*]}" != "$(uname -m)" ]; }; then
  packaging/portable/fetch.sh "${machines[@]}"
fi
work=$out/work
rm -rf "$work"
mkdir -p "$work"
trap 'rm -rf --one-file-system "$work"' EXIT
for suite in "${suites[@]}"; do
  make_packages "$suite" first "$out/$suite"
  if [ -n "$check" ]; then
    make_packages "$suite" the/second/one "$work/second"
    compare "$out/$suite" "$work/second"
    rm -rf "$work/second"
    tests/packaging/install_packages.sh "$suite" "$out/$suite"
    PYTHONPATH=tests/integration:tests/data:packaging /usr/bin/python3 -B tests/platforms/test_platforms.py \
      --packages "$out/$suite"
  fi
  say "packages for $suite:"
  (cd "$out/$suite" && ls -l)
done
