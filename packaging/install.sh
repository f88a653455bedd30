#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs reshardfs on this machine, or removes it. As root, or as a user who may sudo. May be run
# again at any time: it upgrades what it installed before.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=packages.sh
. "$(dirname "$(readlink -f "$0")")/packages.sh"

usage() {
  cat <<'END'
Usage: packaging/install.sh [--prefix DIR] [--build DIR] [--uninstall]

Builds reshardfs and installs it: as a Debian package where there is dpkg, and
elsewhere into /usr/local.

  --prefix DIR  Install below DIR, and change nothing outside it
  --build DIR   With --prefix: install this build directory, and build nothing
  --uninstall   Remove what this script installed (with --prefix: below DIR)
  --help        Print this text
END
}

# What is installed below a prefix is listed here, relative to the prefix; lines that end in a slash are
# directories that the installation made. So an upgrade removes what is no longer installed, and
# --uninstall needs neither the build nor this version of the script.
manifest=share/reshardfs/install_manifest.txt
# mount(8) looks for its helpers only here.
mount_helper=/sbin/mount.reshardfs
prefix='' build='' uninstall=''

parse_arguments() {
  while [ $# -gt 0 ]; do
    case $1 in
      --prefix | --build)
        [ -n "${2-}" ] || die "$1 needs a directory"
        # Relative to where the user is.
        printf -v "${1#--}" %s "$(realpath -m -- "$2")"
        shift 2
        ;;
      --prefix=* | --build=*) set -- "${1%%=*}" "${1#*=}" "${@:2}" ;;
      --uninstall)
        uninstall=yes
        shift
        ;;
      --help | -h)
        usage
        exit
        ;;
      *) die "unknown argument '$1'; see packaging/install.sh --help" ;;
    esac
  done
  case $prefix in
    / | /usr) die "refusing to install into $prefix, which belongs to the distribution; use /usr/local" ;;
  esac
  [ -z "$build" ] || [ -n "$prefix" ] || die "--build needs --prefix"
}

has_systemd() { [ -d /run/systemd/system ]; }

# As root only if the user may not write there.
for_prefix() {
  local existing=$prefix
  until [ -e "$existing" ]; do existing=$(dirname "$existing"); done
  if [ -w "$existing" ]; then "$@"; else as_root "$@"; fi
}

# remove_below_prefix LIST: the files that the sorted LIST names, then those of its directories that
# are empty, the deepest first.
remove_below_prefix() {
  local entry files=() directories=()
  while IFS= read -r entry; do
    case $entry in
      */) directories=("$prefix/$entry" "${directories[@]}") ;;
      *) files+=("$prefix/$entry") ;;
    esac
  done <"$1"
  [ "${#files[@]}" -eq 0 ] || for_prefix rm -f -- "${files[@]}"
  [ "${#directories[@]}" -eq 0 ] ||
    for_prefix rmdir --ignore-fail-on-non-empty -- "${directories[@]}" 2>/dev/null || true
}

# --- a Debian package -------------------------------------------------------------------------------
install_package() {
  local packages components=(runtime)
  # It depends on its own version of reshardfs.
  ! is_installed libreshardfs-dev || components+=(dev)
  packaging/deb.sh "${components[@]}"
  packages=(./build/deb/*.deb)
  say "installing ${packages[*]##*/}"
  # Another build of one version must replace it too. apt's own user may not read the checkout.
  apt_get install --no-install-recommends --reinstall --allow-downgrades -o APT::Sandbox::User=root \
    "${packages[@]}" >/dev/null || die "'apt-get install' failed (see above)"
}

remove_package() {
  if ! is_installed reshardfs; then
    say "the package reshardfs is not installed"
    return
  fi
  apt_get remove reshardfs >/dev/null || die "'apt-get remove' failed (see above)"
  say "removed the package reshardfs; 'apt-get autoremove' removes libraries that it alone needed"
}

# --- files below a prefix ---------------------------------------------------------------------------
# stage_files DIRECTORY: puts everything below DIRECTORY first, with its list of files. A failure
# then leaves the prefix alone, and CMake need not run as root.
stage_files() {
  local path entry
  rm -f "$build/install_manifest_runtime.txt"
  DESTDIR=$1/root cmake --install "$build" --prefix "$prefix" --component runtime --strip \
    >"$1/log" 2>&1 ||
    { cat "$1/log" >&2; die "'cmake --install' failed (see above)"; }
  {
    while IFS= read -r path || [ -n "$path" ]; do
      echo "${path#"$prefix"/}"
    done <"$build/install_manifest_runtime.txt"
    echo "$manifest"
    (cd "$1/root$prefix" && find . -type d) | while IFS= read -r path; do
      path=${path#.}
      entry=${path#/}/
      # One that an earlier installation made is still ours.
      if [ ! -e "$prefix/$entry" ] || grep -qsxF "$entry" "$prefix/$manifest"; then echo "$entry"; fi
    done
  } | LC_ALL=C sort >"$1/list"
  install -m 644 "$1/list" "$1/root$prefix/$manifest"
}

install_files() {
  local stage
  stage=$(mktemp -d)
  # shellcheck disable=SC2064  # its value now
  trap "rm -rf '$stage'" EXIT
  stage_files "$stage"
  if [ -e "$prefix/$manifest" ]; then
    LC_ALL=C sort "$prefix/$manifest" | LC_ALL=C comm -23 - "$stage/list" >"$stage/old"
  fi
  for_prefix mkdir -p "$prefix"
  # tar unlinks a file before it writes one of that name, so mounts go on with the former program.
  tar -C "$stage/root$prefix" --owner=0 --group=0 -cf - . | for_prefix tar -C "$prefix" \
    --no-overwrite-dir --keep-directory-symlink -xf - || die "cannot install into $prefix (see above)"
  [ ! -s "$stage/old" ] || remove_below_prefix "$stage/old"
}

# What the rest of the system must know; only of the default prefix.
join_system() {
  as_root ldconfig
  if [ ! -e "$mount_helper" ] || [ -L "$mount_helper" ]; then
    as_root ln -sf "$prefix/sbin/mount.reshardfs" "$mount_helper"
  fi
  ! has_systemd || as_root systemctl daemon-reload
}

leave_system() {
  # Services need the program to unmount.
  ! has_systemd || as_root systemctl stop 'reshardfs@*.service' || true
  if [ "$(readlink "$mount_helper")" = "$prefix/sbin/mount.reshardfs" ]; then
    as_root rm -f "$mount_helper"
  fi
}

remove_files() {
  local list
  if [ ! -e "$prefix/$manifest" ]; then
    [ ! -e "$prefix/bin/reshardfs" ] ||
      die "$prefix/bin/reshardfs was not installed by this script: $prefix/$manifest is missing"
    say "reshardfs is not installed in $prefix"
    return
  fi
  list=$(mktemp)
  # shellcheck disable=SC2064  # its value now
  trap "rm -f '$list'" EXIT
  cp "$prefix/$manifest" "$list"
  remove_below_prefix "$list"
  say "removed reshardfs from $prefix"
}

# --- what to tell -------------------------------------------------------------------------------------
# describe PROGRAM: what was installed, and how to begin.
describe() {
  local first megabytes version
  version=$("$1" --version)
  megabytes=$(stat -c %s "$1" | awk '{ printf "%.1f", $1 / 1e6 }')
  say "installed ${version%%$'\n'*} as $1 ($megabytes MB)," \
    "with its manual, completions, model maps and systemd unit"
  hash -r
  first=$(command -v reshardfs || true)
  if [ -z "$first" ]; then
    say "your PATH does not include it: export PATH=$(dirname "$1"):\$PATH"
  elif [ ! "$first" -ef "$1" ]; then
    say "'reshardfs' still means $first, which comes first in your PATH: remove that one"
  fi
  command -v man >/dev/null || say "the command man is missing; on Debian, 'apt-get install man-db' installs it"
  say "begin with 'reshardfs demo' and 'man reshardfs-tutorial'; 'reshardfs doctor' checks this machine"
}

run_with_package() {
  if [ -n "$uninstall" ]; then
    remove_package
  else
    install_package
    describe /usr/bin/reshardfs
  fi
}

run_with_files() {
  local system=''
  if [ -z "$prefix" ]; then
    prefix=/usr/local system=yes
  fi
  if [ -n "$uninstall" ]; then
    [ -z "$system" ] || leave_system
    remove_files
    [ -z "$system" ] || ! has_systemd || as_root systemctl daemon-reload
    return
  fi
  if [ -z "$build" ]; then
    install_packages "${BUILD_PACKAGES[@]}"
    build_for installable -DCMAKE_INSTALL_PREFIX=/usr/local
    build=$PWD/build/release
  fi
  install_files
  [ -z "$system" ] || join_system
  describe "$prefix/bin/reshardfs"
}

parse_arguments "$@"
cd "$(dirname "$(readlink -f "$0")")/.."
umask 022
# Elsewhere dpkg may be there too, but does not manage the system, and so not itself.
if [ -z "$prefix" ] && is_installed dpkg; then
  run_with_package
else
  run_with_files
fi
