#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs what the build and the tests need on Debian 12 or 13, builds build/release with the tests,
# and runs them all. Ends with ctest's summary, and with its exit code. Arguments go to ctest: -L fast
# With RESHARDFS_WERROR=ON in the environment, a warning of the compiler is an error; RESHARDFS_UNITY=ON
# compiles many files at once, and RESHARDFS_PRECOMPILED_HEADERS=OFF each test with its own headers. With
# RESHARDFS_PLATFORMS=1, the packages for all platforms are made and tested, too.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
# shellcheck source-path=SCRIPTDIR source=packages.sh
. packaging/packages.sh

install_packages "${BUILD_PACKAGES[@]}" "${MODULE_PACKAGES[@]}" "${TEST_PACKAGES[@]}"
build_release -DRESHARDFS_BUILD_TESTS=ON -DRESHARDFS_BUILD_BENCH=ON -DRESHARDFS_LINES=ON \
  -DRESHARDFS_WERROR="${RESHARDFS_WERROR:-OFF}" -DRESHARDFS_UNITY="${RESHARDFS_UNITY:-OFF}" \
  -DRESHARDFS_PRECOMPILED_HEADERS="${RESHARDFS_PRECOMPILED_HEADERS:-ON}"

# tests/platforms is skipped where these cannot be made.
if [ -n "${RESHARDFS_PLATFORMS-}" ]; then
  if packaging/portable/fetch.sh && packaging/portable/parts.sh; then
    configure_release -DRESHARDFS_PORTABLE="$PWD/build/portable/$(uname -m)"
    compile_release portable
  else
    say "packages for all platforms will not be tested (see above)"
  fi
fi

problem=$(fuse_problem)
[ -z "$problem" ] || say "tests that mount will be skipped: $problem"
# One of the readers that the formats are tested with, and the models of Kubernetes' API. They are from the npm
# registry, so that their tests are skipped where npm is not, or cannot reach it.
if command -v npm >/dev/null && command -v node >/dev/null; then
  for package in @huggingface/hub@2.17.5 @kubernetes/client-node@2.0.1; do
    npm install --silent --no-audit --no-fund --ignore-scripts --prefix build/npm "$package" >/dev/null 2>&1 ||
      say "npm could not install $package: its test will be skipped"
  done
  RESHARDFS_NODE_MODULES=$PWD/build/npm/node_modules
  export RESHARDFS_NODE_MODULES
fi
say "running the tests"
# Most tests wait, for servers and for time to pass.
ctest --test-dir build/release -j"$((2 * $(nproc)))" --output-on-failure --no-tests=error "$@"
