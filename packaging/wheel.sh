#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds build/wheel/reshardfs-*.whl: the Python module and the command for pip, with the libraries that
# they need. Its name says which Python and which glibc, at least, it is for.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
# shellcheck source-path=SCRIPTDIR source=packages.sh
. packaging/packages.sh

install_packages "${BUILD_PACKAGES[@]}" binutils patchelf
# The same sources give the same wheel.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH
build_installable -DRESHARDFS_PYTHON_MODULE=ON
rm -rf build/wheel
python=$(sed -n 's/^RESHARDFS_PYTHON:FILEPATH=//p' build/release/CMakeCache.txt)
"$python" packaging/bundle_wheel.py build/release build/wheel
ls -l build/wheel/*.whl
