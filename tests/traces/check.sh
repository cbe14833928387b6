#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Checks recorder and packer on a program whose calls are known (sample.c):
#
#   tests/traces/check.sh [REPLAY_HOST]
#
# The trace must have all of its operations, few others (the C library makes
# some for threads), and all threads.  With REPLAY_HOST it is replayed too.
set -eu

traces=$(cd "$(dirname "$0")" && pwd)
support=$traces/../support
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cc="${HOST_CC:-gcc} -std=c11 -O2 -Wall -Wextra -Werror"

# The sample frees by realloc on purpose, and shall not be optimised.
$cc -O0 -fno-builtin -pthread -o "$scratch/sample" "$traces/sample.c"
$cc -shared -fPIC -fno-builtin -o "$scratch/recorder.so" "$traces/recorder.c"
$cc -D_DEFAULT_SOURCE -I"$support" -o "$scratch/pack" "$traces/pack.c" \
	"$support/trace.c" "$support/trace_head.c" "$support/range.c"

expected=$(FALLOW_RECORD=$scratch/log LD_PRELOAD=$scratch/recorder.so \
	"$scratch/sample")
set -- "${1:-}" "$scratch"/log.sample.*
[ $# -eq 2 ] || {
	echo "check.sh: one log expected, not $(($# - 1))" >&2
	exit 1
}
line=$("$scratch/pack" "$2" "$scratch/sample.trace" sample sample)
echo "$line"
ops=${line#sample: }
ops=${ops%% *}
[ "$ops" -ge "$expected" ] && [ "$ops" -le $((expected + 64)) ] || {
	echo "check.sh: $ops operations recorded, $expected made" >&2
	exit 1
}
case $line in
*", 5 threads:"*) ;;
*)
	echo "check.sh: 5 threads expected" >&2
	exit 1
	;;
esac
[ -z "$1" ] || "$1" "$scratch/sample.trace" >"$scratch/out" || {
	cat "$scratch/out"
	exit 1
}
