#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prolog of slurmd: mounts, on each node of a job, the target ranks of the tasks on that node, before
# the first task starts. Requires epilog.sh, util-linux 2.35, coreutils 8.28 and, for users other than
# root, fusermount3.
#
# Install both scripts in one directory that only root can write, and set in slurm.conf:
#
#   Prolog=/etc/slurm/reshardfs/prolog.sh
#   Epilog=/etc/slurm/reshardfs/epilog.sh
#   PrologFlags=Alloc
#
# A job asks for a mount with its comment, which names a configuration file as 'reshardfs mount
# --config' reads it, with a table [mount.job] and absolute paths:
#
#   sbatch --comment=reshardfs:/home/me/serve.toml --nodes=4 --ntasks=32 job.sbatch
#
#   [mount.job]
#   source = "/data/ckpt"
#   src-strategy = "/data/train.ckpt"
#   dst-strategy = "tp=32"
#
# Its tasks find the mount at /run/reshardfs-slurm/$SLURM_JOB_ID/$SLURMD_NODENAME. With 8 tasks on each
# node, the second node shows ranks 8 to 15. If the number of tasks is not a multiple of the number of
# nodes, each node shows all ranks; so it does with the comment reshardfs-all:FILE.
#
# What root does depends on nothing that the user has written: root makes directories in /run and reads
# no file of the user. The program runs as the user, without root's environment, so it reads what the
# user can read, and nobody but the user can read the mount.
#
# A mistake of the user must not drain the node: if nothing can be mounted, the reason is in
# /run/reshardfs-slurm/$SLURM_JOB_ID/$SLURMD_NODENAME.log, and the job starts without the mount.
set -u
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH
here=$(dirname "$(readlink -f "$0")")

# What a site may change, in the file 'settings' beside the scripts.
base=/run/reshardfs-slurm
reshardfs=reshardfs
seconds=600 # for opening a checkpoint
# shellcheck source=/dev/null
[ ! -f "$here/settings" ] || . "$here/settings"

all=no
case ${SLURM_JOB_COMMENT-} in
  reshardfs:/*) file=${SLURM_JOB_COMMENT#reshardfs:} ;;
  reshardfs-all:/*) file=${SLURM_JOB_COMMENT#reshardfs-all:} all=yes ;;
  *) exit 0 ;;
esac

# A job that was requeued may have left its mount here. The job's directory stays: where several nodes
# have the same /run, another node may just be making its own in it.
"$here/epilog.sh" --before

# "--ranks=8-15", or nothing for all.
own_ranks() {
  [ "$all" = no ] && [ -n "${SLURM_JOB_NTASKS-}" ] || return 0
  # This expands names, and asks no daemon.
  nodes=$(scontrol show hostnames "${SLURM_JOB_NODELIST:-${SLURM_NODELIST-}}") || return 0
  count=$(printf '%s\n' "$nodes" | wc -l)
  [ $((SLURM_JOB_NTASKS % count)) -eq 0 ] || return 0
  place=$(printf '%s\n' "$nodes" | grep -nxF "$SLURMD_NODENAME" | cut -d: -f1)
  [ -n "$place" ] || return 0
  each=$((SLURM_JOB_NTASKS / count))
  echo "--ranks=$(((place - 1) * each))-$((place * each - 1))"
}

job=$base/$SLURM_JOB_ID
mountpoint=$job/$SLURMD_NODENAME
group=${SLURM_JOB_GID:-$(id -g "$SLURM_JOB_UID")}
install -d -m 755 "$base" "$job" &&
  install -d -m 700 -o "$SLURM_JOB_UID" -g "$group" "$mountpoint" || exit 0
ranks=$(own_ranks)
# The daemon goes to the background when the mount works.
timeout -k 10 "$seconds" setpriv --reuid="$SLURM_JOB_UID" --regid="$group" --init-groups --reset-env \
  env -C / "$reshardfs" mount --config "$file" ${ranks:+"$ranks"} job "$mountpoint" \
  </dev/null >"$mountpoint.log" 2>&1 ||
  echo "prolog of job $SLURM_JOB_ID: nothing is mounted, see $mountpoint.log" >&2
exit 0
