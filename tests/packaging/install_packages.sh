#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs Debian packages and the image of a directory that package.sh has filled, each in a minimal Debian of its own,
# uses and removes them: install_packages.sh SUITE DIRECTORY. As root; needs debootstrap and minutes, so it is not one
# of the tests. 'package.sh --check' runs it, and tests/platforms for wheels and tarballs.
set -euo pipefail
packages=$(readlink -f "$2")
cd "$(dirname "$(readlink -f "$0")")/../.."
# shellcheck source-path=SCRIPTDIR/../.. source=packaging/packages.sh
. packaging/packages.sh

suite=$1
work=$(mktemp -d "${TMPDIR:-/tmp}/reshardfs-packages-XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT
readonly PYTHON_USES='
import sys
import reshardfs
sample, exported = sys.argv[1:]
with reshardfs.open(f"{sample}/source", src_strategy=f"{sample}/source/src_strategy.ckpt",
                    dst_strategy=f"{sample}/source/dst_strategy.ckpt") as checkpoint:
    state = checkpoint.rank(3)
    for name in list(state)[:3]:
        assert len(bytes(state[name])) == state[name].nbytes > 0, name
    path = "rank_3/checkpoint_3.ckpt"
    with open(f"{exported}/{path}", "rb") as file:
        assert checkpoint.file(path).read() == file.read(), path
try:
    reshardfs.open("/nowhere")
except reshardfs.Error as error:  # thrown in C++
    assert error.path and "/nowhere" in str(error), error
else:
    raise SystemExit("no error")
print("Python: the same bytes, and an error of C++")
'

# in_system NAME COMMAND...: in the system $work/NAME, with /proc, and with FUSE where there is.
in_system() {
  # shellcheck disable=SC2016  # for that shell
  unshare --mount --pid --fork --kill-child --propagation private sh -euc '
    mount -t proc proc "$0/proc"; mount --rbind /dev "$0/dev"
    exec chroot "$0" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 TMPDIR=/tmp \
      DEBIAN_FRONTEND=noninteractive "$@"' "$work/$1" "${@:2}"
}

# new_system NAME
new_system() {
  if [ ! -e "$work/base" ]; then
    say "making a minimal $suite"
    debootstrap --variant=minbase "$suite" "$work/base" "$(debian_sources deb | awk 'NR == 1 { print $2 }')" \
      >"$work/log" 2>&1 || { cat "$work/log" >&2; die "debootstrap failed (see above)"; }
    debian_sources deb "$suite" >"$work/base/etc/apt/sources.list"
    cp /etc/resolv.conf "$work/base/etc"
    in_system base apt-get -q update >"$work/log" 2>&1 || { cat "$work/log" >&2; die "'apt-get update' failed"; }
  fi
  cp -a "$work/base" "$work/$1"
  mkdir "$work/$1/packages"
  say "$1: $(du -sh --apparent-size "$work/$1" | cut -f1) before"
}

# use NAME PROGRAM...: the program's own checks in the system, and an export of the demo's sample.
use() {
  local name=$1 have_fuse=''
  shift
  [ -n "$(fuse_problem)" ] || have_fuse=yes
  in_system "$name" "$@" --version
  if [ -z "$have_fuse" ]; then
    say "$name: not mounted: $(fuse_problem)"
    return
  fi
  in_system "$name" "$@" doctor
  in_system "$name" "$@" demo /tmp/sample | tail -n 1
  in_system "$name" "$@" export /tmp/sample/source /tmp/exported \
    --src-strategy /tmp/sample/source/src_strategy.ckpt --dst-strategy /tmp/sample/source/dst_strategy.ckpt
}

# nothing_left NAME: no file of the program is in the system, but in logs and lists of what was installed.
nothing_left() {
  rm -rf "$work/$1"/packages "$work/$1"/tmp/* "$work/$1"/var/log/* "$work/$1"/var/cache/apt "$work/$1"/var/lib/apt
  local left
  left=$(find "$work/$1" -xdev -name '*reshardfs*')
  [ -z "$left" ] || die "$1: left after removal: $left"
  say "$1: removed, and nothing is left"
}

check_deb() {
  local name
  new_system deb
  cp "$packages"/*_"$(dpkg --print-architecture)".deb "$work/deb/packages"
  # shellcheck disable=SC2016  # for that shell
  in_system deb sh -euc 'apt-get -q -y install --no-install-recommends -o APT::Sandbox::User=root /packages/*.deb' \
    >"$work/log" 2>&1 || { cat "$work/log" >&2; die "'apt-get install' failed (see above)"; }
  in_system deb dpkg --audit
  use deb reshardfs
  [ ! -e "$work/deb/tmp/exported" ] || in_system deb python3 -c "$PYTHON_USES" /tmp/sample /tmp/exported
  # A minimal system keeps the pages, but has no man.
  in_system deb gzip -t /usr/share/man/man1/reshardfs.1.gz
  in_system deb test -s /usr/share/doc/reshardfs/copyright
  for name in reshardfs libreshardfs-dev python3-reshardfs; do
    in_system deb test -s "/usr/share/doc/$name/$name.spdx.json"
  done
  in_system deb apt-get -q -y purge --autoremove reshardfs libreshardfs-dev python3-reshardfs >"$work/log" 2>&1 ||
    { cat "$work/log" >&2; die "'apt-get purge' failed (see above)"; }
  nothing_left deb
}

# As services: with the systemd, libfuse and mount(8) of this release.
check_services() {
  if [ -n "$(fuse_problem)" ]; then
    say "services: not tried: $(fuse_problem)"
    return
  fi
  new_system services
  cp "$packages"/reshardfs_*_"$(dpkg --print-architecture)".deb "$work/services/packages"
  in_system services sh -euc '
    apt-get -q -y install --no-install-recommends -o APT::Sandbox::User=root systemd systemd-sysv dbus python3 \
      /packages/*.deb
    dpkg --purge reshardfs' >"$work/log" 2>&1 || { cat "$work/log" >&2; die "'apt-get install' failed (see above)"; }
  /usr/bin/python3 -B tests/packaging/check_upgrade.py --root . --system "$work/services" \
    --package "$packages"/reshardfs_*_"$(dpkg --print-architecture)".deb
}

# Its only layer, unpacked, as its user: what podman would run.
check_image() {
  say "image"
  mkdir -p "$work/image/layout" "$work/image/root"
  tar -C "$work/image/layout" -xf "$packages"/*.oci.tar
  (cd "$work/image/layout/blobs/sha256" && for blob in *; do echo "$blob  $blob"; done | sha256sum --check --quiet)
  local layer
  layer=$(python3 -c '
import json, sys
folder = sys.argv[1]
read = lambda digest: json.load(open(f"{folder}/blobs/" + digest.replace(":", "/")))
manifest = read(json.load(open(f"{folder}/index.json"))["manifests"][0]["digest"])
config = read(manifest["config"]["digest"])
assert config["config"]["User"] == "10001:10001" and config["config"]["Entrypoint"] == ["reshardfs"], config
assert "org.opencontainers.image.version" in config["config"]["Labels"], config
print(manifest["layers"][0]["digest"].replace(":", "/"))' "$work/image/layout")
  tar -C "$work/image/root" -xzf "$work/image/layout/blobs/$layer"
  mv "$work/image/root" "$work/image-root"
  in_system image-root setpriv --reuid 10001 --regid 10001 --clear-groups reshardfs --version
  in_system image-root setpriv --reuid 10001 --regid 10001 --clear-groups id
  in_system image-root test -s /usr/share/doc/reshardfs/reshardfs.spdx.json -a -s /usr/share/doc/reshardfs/image.spdx.json
}

[ "$(id -u)" -eq 0 ] || die "this needs root"
install_packages debootstrap systemd-container python3-numpy
for kind in deb:deb oci.tar:image; do
  ! compgen -G "$packages/*.${kind%%:*}" >/dev/null || "check_${kind##*:}"
done
! compgen -G "$packages/reshardfs_*.deb" >/dev/null || check_services
say "all packages of $packages were installed, used and removed"
