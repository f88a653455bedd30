#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Makes the Debian package 'reshardfs' of another machine type out of this machine's, in build/deb, with the portable program of
# BUILD in the place of the one that needs Debian's libraries: deb.sh VERSION BUILD MACHINE OUTDIR
# It is for Debian 12 and 13. The library and the Python module are packages of the machine's own builds alone.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."
# shellcheck source-path=SCRIPTDIR/.. source=packages.sh
. packaging/packages.sh

build=$2 machine=$3 out=$4
architecture=$(debian_architecture "$machine")
package=$(echo build/deb/reshardfs_*.deb)
depends='libc6 (>= 2.28), fuse3, libcurl4 | libcurl4t64'
stage=$PWD/build/foreign-deb
bill=$stage/usr/share/doc/reshardfs/reshardfs.spdx.json
rm -rf "$stage"
dpkg-deb -R "$package" "$stage"
# The program has the library inside.
find "$stage/usr" -name 'libreshardfs.so*' -delete
find "$stage/usr" -type d -empty -delete
rm -f "$stage"/DEBIAN/{shlibs,symbols,triggers}
"$machine-linux-gnu-strip" --strip-unneeded -o "$stage/usr/bin/reshardfs" "$build/portable/bin/reshardfs"
/usr/bin/python3 -B packaging/package/sbom.py --version "$1" --build "$build" --target portable/bin/reshardfs \
  --depends "$depends" --inside reshardfs "$bill"
size=$(du -sk --apparent-size --exclude=DEBIAN "$stage" | cut -f1)
sed -i -e "s/^Architecture:.*/Architecture: $architecture/" -e "s/^Installed-Size:.*/Installed-Size: $size/" \
  -e "s/^Depends:.*/Depends: $depends/" "$stage/DEBIAN/control"
(cd "$stage" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum >DEBIAN/md5sums)
find "$stage" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
mkdir -p "$out"
dpkg-deb --root-owner-group -Zxz -b "$stage" "$out/$(basename "${package/_$(dpkg --print-architecture)/_$architecture}")" >/dev/null
rm -rf "$stage"
