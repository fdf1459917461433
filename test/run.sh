#!/usr/bin/env bash
# Runs targets of the Makefile in the order of its run/ targets, those at the same time
# that do not wait for each other. At the end it prints how long each one took, and the
# slowest tests. The first one that fails ends the run: no other begins.
#
# RESULTS is the directory where the targets write their results, as JSON lines of
# "go test -json".
set -euo pipefail
cd "$(dirname "$0")/.."
rm -rf "$RESULTS"
mkdir -p "$RESULTS"

begin=$SECONDS

# The summary must not change the exit status, even if no test has run yet.
summary() {
	printf '\nThe slowest tests:\n'
	cat "$RESULTS"/*.json 2>/dev/null | go tool -modfile="$PWD/tools.mod" gotestsum tool slowest --num 10 || true
	printf '\nThe targets, and when each began:\n'
	cat "$RESULTS/took" 2>/dev/null || true
	printf '%3d min %02d s in all\n' $(((SECONDS - begin) / 60)) $(((SECONDS - begin) % 60))
}
trap summary EXIT

make --no-print-directory -j "${@/#/run/}"
