#!/usr/bin/env bash
# Runs the phases of a test run, one after the other. At the end it prints how long
# each phase took, and the slowest tests. Each argument is a phase: a list of
# targets of the Makefile, which run at the same time. The first phase that fails
# ends the run.
#
# RESULTS is the directory where the targets write their results, as JSON lines of
# "go test -json".
set -euo pipefail
cd "$(dirname "$0")/.."
rm -rf "$RESULTS"
mkdir -p "$RESULTS"

begin=$SECONDS
took=() # a line for each phase

say() { # seconds, text
	printf '%4d min %02d s  %s' $(($1 / 60)) $(($1 % 60)) "$2"
}

# The summary must not change the exit status, even if no test has run yet.
summary() {
	printf '\nThe slowest tests:\n'
	cat "$RESULTS"/*.json 2>/dev/null | go tool -modfile="$PWD/tools.mod" gotestsum tool slowest --num 10 || true
	printf '\nThe phases:\n'
	printf '%s\n' "${took[@]}"
	say $((SECONDS - begin)) "in all"
	printf '\n'
}
trap summary EXIT

for phase in "$@"; do
	printf '\n== %s\n' "$phase"
	start=$SECONDS
	# $phase is split into the names of targets.
	# shellcheck disable=SC2086
	if make --no-print-directory -j"$(wc -w <<<"$phase")" $phase; then
		took+=("$(say $((SECONDS - start)) "$phase")")
	else
		took+=("$(say $((SECONDS - start)) "$phase: FAILED")")
		exit 1
	fi
done
