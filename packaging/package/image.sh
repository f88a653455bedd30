#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Makes an image of a minimal Debian, with the package of build/deb and a user without privileges, as
# OUTDIR/reshardfs-VERSION-SUITE-ARCHITECTURE.oci.tar, and its bill of materials: image.sh VERSION OUTDIR
# It is what deploy/Containerfile builds, without a registry, and with the same bytes each time as long as
# Debian's archive is the same. As root.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."
# shellcheck source-path=SCRIPTDIR/.. source=packages.sh
. packaging/packages.sh

suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
architecture=$(dpkg --print-architecture)
work=$PWD/build/image
image=$2/reshardfs-$1-$suite-$architecture.oci.tar
rm -rf "$work"
mkdir -p "$work" "$2"
package=$(echo build/deb/reshardfs_*.deb)
depends=$(dpkg-deb -f "$package" Depends | sed -E 's/ *\([^)]*\)//g; s/, */,/g')
user='--uid 10001 --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin --no-log-init'
# As in Debian's slim images: no documents but licences, and bills of materials, of the package and of all. The package's user is the one of the Containerfile.
say "making the root file system of the image"
# shellcheck disable=SC2016  # the hooks' shells replace them
mmdebstrap --mode=root --variant=minbase --include="ca-certificates,$depends" \
  --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
  --dpkgopt='path-include=/usr/share/doc/reshardfs/*.spdx.json' \
  --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/info/*' \
  --dpkgopt='path-exclude=/usr/share/locale/*' \
  --customize-hook="copy-in $package /" \
  --customize-hook="chroot \"\$1\" dpkg -i /${package##*/} && rm \"\$1/${package##*/}\"" \
  --customize-hook='sed -i "s/^#user_allow_other/user_allow_other/" "$1/etc/fuse.conf"' \
  --customize-hook="chroot \"\$1\" useradd $user reshardfs" \
  --customize-hook="printf '%s\n' 'deb http://deb.debian.org/debian $suite main' \
                    'deb http://deb.debian.org/debian $suite-updates main' \
                    'deb http://deb.debian.org/debian-security $suite-security main' >\"\$1/etc/apt/sources.list\"" \
  --customize-hook="/usr/bin/python3 -B $PWD/packaging/package/sbom.py --version $1 --root \"\$1\" \
                    --inside reshardfs-image \"\$1/usr/share/doc/reshardfs/image.spdx.json\"" \
  --customize-hook='rm -f "$1"/etc/passwd- "$1"/etc/group- "$1"/etc/shadow- "$1"/etc/gshadow- "$1"/etc/sub?id-
                    rm -rf "$1"/etc/hostname "$1"/etc/resolv.conf "$1"/etc/dpkg/dpkg.cfg.d/99mmdebstrap' \
  "$suite" "$work/root.tar" - < <(debian_sources deb) >"$work/log" 2>&1 ||
  { cat "$work/log" >&2; die "mmdebstrap failed (see above)"; }
/usr/bin/python3 -B packaging/package/oci_image.py --version "$1" --architecture "$architecture" "$work/root.tar" "$image"
mkdir "$work/root"
tar -C "$work/root" -xf "$work/root.tar" ./var/lib/dpkg ./usr/share/doc
/usr/bin/python3 -B packaging/package/sbom.py --version "$1" --root "$work/root" "$image"
rm -rf "$work"
