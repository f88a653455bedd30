#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Packs the program of build/release, which is linked with static libraries, with its manual, maps and
# completions into OUTDIR/reshardfs-VERSION-linux-MACHINE.tar.gz: tarball.sh VERSION OUTDIR
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."
# shellcheck source-path=SCRIPTDIR/.. source=packages.sh
. packaging/packages.sh

name=reshardfs-$1-linux-$(uname -m)
stage=$PWD/build/tarball
rm -rf "$stage"
DESTDIR=$stage/root cmake --install build/release --prefix /usr/local --component runtime --strip \
  >build/tarball.log 2>&1 || { cat build/tarball.log >&2; die "'cmake --install' failed (see above)"; }
mv "$stage/root/usr/local" "$stage/$name"
cp LICENSE "$stage/$name"
/usr/bin/python3 -B packaging/package/licences.py build/release bin/reshardfs "$stage/$name/licenses"
mkdir -p "$2"
tar -C "$stage" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=go=rX,u+rw,a-s \
  --format=gnu -cf - "$name" | gzip -9n >"$2/$name.tar.gz"
rm -rf "$stage"
