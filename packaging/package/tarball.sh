#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Packs the portable program of BUILD with the manual, maps and completions of build/release into
# OUTDIR/reshardfs-VERSION-linux-MACHINE.tar.gz: tarball.sh VERSION BUILD MACHINE OUTDIR
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."
# shellcheck source-path=SCRIPTDIR/.. source=packages.sh
. packaging/packages.sh

build=$2 machine=$3 out=$4
name=reshardfs-$1-linux-$machine
stage=$PWD/build/tarball
rm -rf "$stage"
DESTDIR=$stage/root cmake --install build/release --prefix /usr/local --component runtime \
  >build/tarball.log 2>&1 || { cat build/tarball.log >&2; die "'cmake --install' failed (see above)"; }
mv "$stage/root/usr/local" "$stage/$name"
# The program has the library inside.
find "$stage/$name" -name 'libreshardfs.so*' -delete
find "$stage/$name" -type d -empty -delete
"$machine-linux-gnu-strip" --strip-unneeded -o "$stage/$name/bin/reshardfs" "$build/portable/bin/reshardfs"
cp LICENSE "$stage/$name"
/usr/bin/python3 -B packaging/package/licences.py "$build" portable/bin/reshardfs "$stage/$name/licenses"
mkdir -p "$out"
tar -C "$stage" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=go=rX,u+rw,a-s \
  --format=gnu -cf - "$name" | gzip -9n >"$out/$name.tar.gz"
rm -rf "$stage"
