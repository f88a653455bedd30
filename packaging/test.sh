#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs what the build and the tests need on Debian 12, builds build/release with the tests, and
# runs them all. Ends with ctest's summary, and with its exit code. Arguments go to ctest: -L fast
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
# shellcheck source-path=SCRIPTDIR source=packages.sh
. packaging/packages.sh

install_packages "${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}"
build_release -DRESHARDFS_BUILD_TESTS=ON -DRESHARDFS_BUILD_BENCH=ON

problem=$(fuse_problem)
[ -z "$problem" ] || say "tests that mount will be skipped: $problem"
say "running the tests"
ctest --test-dir build/release --output-on-failure --no-tests=error "$@"
