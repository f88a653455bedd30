# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034  # the lists are used where this is sourced
# The packages of Debian 12 and 13 that reshardfs needs, and what the scripts beside this share.
# Sourced.

# To compile, and to mount (fuse3 has fusermount3, which lets ordinary users mount). Python writes the
# completions for shells.
BUILD_PACKAGES=(
  cmake g++ ninja-build pkg-config
  fuse3 libfuse3-dev
  libcurl4-openssl-dev libexpat1-dev libfmt-dev libspdlog-dev libssl-dev libtomlplusplus-dev libutf8proc-dev libxxhash-dev libyaml-cpp-dev
  libprotobuf-dev nlohmann-json3-dev protobuf-compiler python3 zlib1g-dev
)
# For the Python module, which install.sh does not install.
MODULE_PACKAGES=(pybind11-dev python3-dev)
# Only for the tests and benchmarks. The Python packages belong to Debian's /usr/bin/python3.
# mandoc checks the manual, procps and strace look at the daemon, zsh and fish complete commands,
# iproute2 and nftables make a network that loses packets; btrfs-progs and xfsprogs make file systems that
# share blocks; systemd-container boots a system in which packages are upgraded; sshfs is a network file system;
# chromium shows the pages that `reshardfs report` writes.
TEST_PACKAGES=(
  libbenchmark-dev libgmock-dev libgtest-dev
  python3-jsonschema python3-numpy python3-prometheus-client python3-protobuf python3-yaml
  mypy python3-fsspec python3-venv
  systemd systemd-container
  btrfs-progs chromium fish iproute2 jq mandoc nftables openssh-sftp-server procps sshfs strace xfsprogs zsh
)

# Servers and clusters, whose tests are skipped where these are not installed: an object store, Slurm, MPI, a web
# server, Prometheus; what a chart for Kubernetes is rendered with; and what makes other Debians. More than 1 GB, so only
# .ci/run installs them.
SERVER_PACKAGES=(
  ceph-mon ceph-osd python3-boto3 radosgw
  munge slurm-client slurmctld slurmd
  mpich openmpi-bin
  nginx-light openssl
  debootstrap
  prometheus prometheus-node-exporter
  golang-go golang-github-masterminds-sprig-dev golang-gopkg-yaml.v3-dev
)

say() { printf '== %s\n' "$*"; }

die() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    die "this needs root; run it as root, or install sudo"
  fi
}

apt_get() {
  # Another apt (unattended-upgrades on a fresh machine) may hold the lock for a while.
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 \
    -o Dpkg::Use-Pty=0 "$@" </dev/null
}

is_installed() {
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# Tries again where the network or another apt is in the way. A dead third-party source must not
# stop a machine whose package lists are good enough, so that giving up is no error yet.
update_package_lists() {
  local attempt
  for attempt in 1 2 3; do
    apt_get update >/dev/null && return
    [ "$attempt" -eq 3 ] || sleep 10
  done
  say "'apt-get update' failed: going on with the package lists that are here"
}

# Where there is no apt: programs and libraries that the build would not find, one a line.
missing_for_build() {
  local name
  for name in cmake ninja g++ pkg-config protoc python3; do
    command -v "$name" >/dev/null || echo "$name"
  done
  command -v pkg-config >/dev/null || return 0
  for name in expat fmt fuse3 libcurl libssl libutf8proc libxxhash nlohmann_json protobuf spdlog tomlplusplus \
    yaml-cpp zlib; do
    pkg-config --exists "$name" || echo "lib${name#lib}"
  done
}

# Says all of it before anything is built, and the way without a build.
require_for_build() {
  local missing
  missing=$(missing_for_build)
  [ -z "$missing" ] ||
    die "there is no apt-get here, and the build lacks ${missing//$'\n'/, }: install these, or take the tarball," \
      "which needs only glibc 2.28 (docs/install.md)"
}

# install_packages NAME...: asks apt only for what is missing, so that it works offline afterwards.
install_packages() {
  local package missing=()
  if ! command -v apt-get >/dev/null; then
    require_for_build
    return
  fi
  for package in "$@"; do
    is_installed "$package" || missing+=("$package")
  done
  if [ "${#missing[@]}" -eq 0 ]; then
    say "all $# Debian packages are installed"
    return
  fi
  say "installing ${#missing[@]} of $# Debian packages: ${missing[*]}"
  update_package_lists
  apt_get install --no-install-recommends "${missing[@]}" >/dev/null ||
    die "'apt-get install' failed (see above): check the network and /etc/apt/sources.list;" \
      "Debian 12 and 13 have all of these packages"
}

# debian_sources TYPE [SUITE]: apt's own sources of Debian, as lines of TYPE (deb or deb-src); those of
# another suite with the same mirrors.
debian_sources() {
  # shellcheck disable=SC2016  # apt replaces them
  apt-get indextargets --format "$1"' $(SITE) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian' |
    LC_ALL=C sort -u | if [ -n "${2-}" ]; then sed -E "s/^(\S+ \S+ )[a-z]+/\\1$2/"; else cat; fi
}

# debian_architecture MACHINE: Debian's name of what 'uname -m' prints.
debian_architecture() {
  case $1 in
    x86_64) echo amd64 ;;
    aarch64) echo arm64 ;;
    *) die "there are no portable packages for $1: x86_64 or aarch64" ;;
  esac
}

# As many jobs as there are cores, but no more than memory allows at 1.5 GB for a compiler.
build_jobs() {
  local cores memory_kb by_memory
  cores=$(nproc)
  memory_kb=$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo 2>/dev/null) || memory_kb=
  by_memory=$(( ${memory_kb:-1500000} / 1500000 ))
  [ "$by_memory" -ge 1 ] || by_memory=1
  echo $(( by_memory < cores ? by_memory : cores ))
}

# configure_release CMAKE_ARGUMENT...: build/release, from the checkout's root.
configure_release() {
  mkdir -p build
  cmake --preset release "$@" >build/configure.log 2>&1 ||
    { cat build/configure.log >&2; die "configuring failed (see above)"; }
}

# compile_release TARGET: in build/release, which is configured.
compile_release() {
  local jobs
  jobs=$(build_jobs)
  say "building into build/release ($jobs at a time; the first build takes some minutes)"
  cmake --build build/release --parallel "$jobs" --target "$1" || die "the build failed (see above)"
}

# build_release CMAKE_ARGUMENT...: configures and builds all of build/release.
build_release() {
  configure_release "$@"
  compile_release all
}

# build_for TARGET CMAKE_ARGUMENT...: configures build/release, and builds what is installed (TARGET installable) or
# packaged. What is there goes on being used, after setup.sh or test.sh nearly all; tests that are there are kept.
build_for() {
  local only=() target=$1
  shift
  [ -e build/release/build.ninja ] || only=(-DRESHARDFS_BUILD_TESTS=OFF -DRESHARDFS_BUILD_BENCH=OFF
    -DRESHARDFS_UNITY=ON -DRESHARDFS_LINES=OFF)
  # The folder for zsh follows from the prefix.
  configure_release -DRESHARDFS_WERROR=OFF -U RESHARDFS_ZSH_DIR "${only[@]}" "$@"
  compile_release "$target"
}

# Prints why nothing can be mounted here; prints nothing where it can.
fuse_problem() {
  if [ ! -e /dev/fuse ]; then
    (as_root modprobe fuse) >/dev/null 2>&1 || true
  fi
  if [ ! -e /dev/fuse ]; then
    echo "there is no /dev/fuse: load the module (modprobe fuse); in a container, start it with" \
      "--device /dev/fuse --cap-add SYS_ADMIN"
  elif [ ! -r /dev/fuse ] || [ ! -w /dev/fuse ]; then
    echo "$(id -un 2>/dev/null) may not use /dev/fuse: chmod 666 /dev/fuse, or run this as root"
  fi
}
