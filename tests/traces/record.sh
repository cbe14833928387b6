#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Records the traces again: all of them, or those that are named.
#
#   tests/traces/record.sh [NAME ...]
#
# Needs, on Debian 12: gcc git gawk jq lld perl python3 sqlite3.
# Works in build/traces; what goes into a trace's header is the command as it
# is written below, relative to there.  The programs' versions and the
# addresses that they get differ between machines, so that a trace recorded
# again is not the same to the byte, but its work is.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
traces=$root/tests/traces
scratch=$root/build/traces
rm -rf "$scratch"
mkdir -p "$scratch"
cd "$scratch"

for need in gcc git gawk jq ld.lld perl sqlite3 /usr/bin/python3; do
	command -v "$need" >/dev/null || {
		echo "record.sh: $need is missing: apt-get install" \
			"gcc git gawk jq lld perl sqlite3 python3" >&2
		exit 1
	}
done

gcc -std=c11 -O2 -shared -fPIC -fno-builtin -o recorder.so \
	"$traces/recorder.c" -ldl
gcc -std=c11 -O2 -D_DEFAULT_SOURCE -I"$root/tests/support" -o pack \
	"$traces/pack.c" "$root/tests/support/trace.c" \
	"$root/tests/support/trace_head.c" "$root/tests/support/range.c"

# The inputs: files that every Debian 12 has, or that are in this tree.
cp "$traces"/work/* .
cp "$root"/tests/support/*.h "$root/tests/support/trace.c" .
cp /usr/share/common-licenses/GPL-3 text.txt
cd /usr/share/common-licenses
cat Apache-2.0 Artistic GFDL-1.3 GPL-1 GPL-2 GPL-3 LGPL-2.1 MPL-1.1 \
	>"$scratch/licences.txt"
cd "$scratch"

# record NAME PROGRAM COMMAND: runs COMMAND and packs the log of PROGRAM.
record() {
	mkdir -p "raw/$1"
	FALLOW_RECORD="$scratch/raw/$1/log" sh -c "
		LD_PRELOAD=$scratch/recorder.so exec $3" >"$1.out" 2>&1 || {
		cat "$1.out" >&2
		echo "record.sh: $1: the command failed" >&2
		exit 1
	}
	# Of several processes of that name, the one that did most.
	log=$(ls -S "raw/$1/log.$2."* | head -n 1)
	./pack "$log" "$traces/$1.trace" "$1" "$3"
	rm -r "raw/$1"
}

# A history of 20 commits over this machine's Python library, the same every
# time: each commit shows more of its files and edits some of their lines.
history_make() {
	git init -q -b main history
	cd history
	set -- /usr/lib/python3.11/[a-h]*.py
	for step in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
		for file; do
			name=$(basename "$file")
			gawk -v s="$step" '(NR + s) % 97 == 0 {
					print "# step", s, "at", NR }
				(NR * 7 + s) % 53 == 0 { next }
				NR < 200 + 40 * s' "$file" >"$name"
		done
		git add -A
		GIT_AUTHOR_DATE="2024-01-01T00:00:$step" \
		GIT_COMMITTER_DATE="2024-01-01T00:00:$step" \
		git -c user.name=nobody -c user.email=nobody@example.org \
			commit -q -m "step $step"
	done
	cd ..
}

# What is compiled changes with this tree: the committed trace is of a longer
# trace.c, which also held what is in trace_head.c and range.c now.
record_cc1() {
	record cc1 cc1 "gcc -std=c11 -O2 -c trace.c -o trace.o"
}
record_sqlite3() {
	record sqlite3 sqlite3 "sqlite3 -batch :memory: '.read shop.sql'"
}
record_python3() {
	record python3 python3 \
		"env PYTHONMALLOC=malloc /usr/bin/python3 -S -B report.py text.txt"
}
record_git() {
	[ -d history ] || history_make
	record git git "git -C history log -p --stat -M"
}
record_perl() {
	record perl perl "perl index.pl licences.txt"
}
record_gawk() {
	record gawk gawk "gawk -f columns.awk licences.txt"
}
record_lld() {
	cp "$(gcc -print-file-name=libc.a)" .
	record lld ld.lld \
		"ld.lld --threads=2 -r -o all.o --whole-archive libc.a"
}
record_jq() {
	record jq jq "jq -f census.jq text.txt -R -s"
}

[ $# -gt 0 ] || set -- cc1 sqlite3 python3 git perl gawk lld jq
for name; do
	"record_$name"
done
