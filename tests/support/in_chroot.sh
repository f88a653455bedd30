#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# in_chroot.sh DIRECTORY COMMAND...: runs a command in the system below DIRECTORY, which sees this
# checkout and the directory of temporary files, with all mounts in it, at the same paths; mounts that
# follow too, where they are shared. Its own are seen by nothing else, and end with it. Requires root.
set -eu
if [ "${1:-}" != --inside ]; then
  exec unshare --mount --propagation slave "$0" --inside "$@"
fi
shift
root=$1
shift
checkout=$(realpath "$(dirname "$0")/../..")
# The outer one first: it may hold the other, or DIRECTORY itself.
for path in /proc /dev "${TMPDIR:-/tmp}" "$checkout"; do
  mkdir -p "$root$path"
  mount --rbind "$path" "$root$path"
done
exec chroot "$root" "$@"
