#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What a newcomer does with a program, in a system that has nothing else: steps.sh FOLDER mount|files PROGRAM [WORD...]
# FOLDER has a checkpoint of four ranks in source/. With "files", nothing is mounted.
set -eu
mode=$2
cd "$1"
shift 2
fail() { echo "$*" >&2; exit 1; }

"$@" --version >version
[ "$("$@" map list | wc -l)" -gt 10 ] || fail "map list finds no maps"
code=0
"$@" inspect nothing 2>error || code=$?
[ "$code" -eq 2 ] || fail "a missing source: rc $code, $(cat error)"
grep -q 'nothing: no such file' error || fail "a missing source: $(cat error)"
"$@" inspect source --src-strategy source/src_strategy.ckpt >inspected || fail "inspect: $(cat inspected)"
"$@" verify source --src-strategy source/src_strategy.ckpt >verified || fail "verify: $(cat verified)"
options='--src-strategy source/src_strategy.ckpt --dst-strategy tp=2'
# shellcheck disable=SC2086  # words
"$@" export source out $options >exported || fail "export: $(cat exported)"
for rank in 0 1; do
  # shellcheck disable=SC2086
  "$@" cat source "rank_$rank/checkpoint_$rank.ckpt" $options | cmp - "out/rank_$rank/checkpoint_$rank.ckpt"
done
# shellcheck disable=SC2086
"$@" hash source $options >sums
(cd out && sha256sum -c ../sums) >checked 2>&1 || fail "hash: $(cat sums checked)"
[ "$mode" = mount ] || exit 0

"$@" doctor >checked || fail "doctor: $(cat checked)"
"$@" demo sample >shown || fail "demo: $(cat shown)"
grep -q 'exactly the expected bytes' shown || fail "demo: $(cat shown)"
mkdir mounted
# shellcheck disable=SC2086
"$@" mount source mounted $options
for again in first second; do
  for rank in 0 1; do
    cmp "out/rank_$rank/checkpoint_$rank.ckpt" "mounted/rank_$rank/checkpoint_$rank.ckpt"
  done
  # The paths that it was given are relative.
  [ "$again" = second ] || "$@" reload mounted >reloaded
done
"$@" umount mounted
