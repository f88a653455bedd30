#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Epilog of slurmd: takes away what prolog.sh has mounted for a job on this node, whatever has become
# of the job and of the daemon behind the mount. Fails, which drains the node, only if a mount remains.
set -u
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH
here=$(dirname "$(readlink -f "$0")")

# As in prolog.sh.
base=/run/reshardfs-slurm
reshardfs=reshardfs
# shellcheck source=/dev/null
[ ! -f "$here/settings" ] || . "$here/settings"

job=$base/$SLURM_JOB_ID
mountpoint=$job/$SLURMD_NODENAME
[ -d "$job" ] || exit 0

# Only looks at the table of mounts: to touch a mount whose daemon hangs might hang as well.
is_mounted() {
  cut -d' ' -f5 /proc/self/mountinfo | grep -qxF "$mountpoint"
}

# As the user, who alone may touch the mount.
as_user() {
  timeout -k 10 30 setpriv --reuid="$SLURM_JOB_UID" \
    --regid="${SLURM_JOB_GID:-$(id -g "$SLURM_JOB_UID")}" --init-groups --reset-env \
    env -C / "$@" </dev/null
}

if is_mounted; then
  as_user "$reshardfs" umount "$mountpoint" >>"$mountpoint.log" 2>&1
  # A process that is left of the job keeps it in use, or the daemon does not answer.
  tries=0
  while is_mounted && [ $tries -lt 10 ]; do
    timeout -k 10 30 umount -c -i -l "$mountpoint" || as_user fusermount3 -u -z "$mountpoint"
    tries=$((tries + 1))
  done
fi
if is_mounted; then
  echo "epilog of job $SLURM_JOB_ID: $mountpoint is still mounted" >&2
  exit 1
fi
rm -f "$mountpoint.log"
[ ! -d "$mountpoint" ] || rmdir "$mountpoint"
# Where several nodes have the same /run, others may still use it. prolog.sh, which is about to use it,
# says --before.
[ "${1-}" = --before ] || rmdir "$job" 2>/dev/null
exit 0
