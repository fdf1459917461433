#!/usr/bin/env bash
# Runs a target of the Makefile, and notes in the file "took" in RESULTS how long it took.
set -euo pipefail
printf '\n== %s\n' "$1"
at=$(date +%T) outcome=
note() { printf '%3d min %02d s %s  %s%s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$at" "$1" "$outcome" >>"$RESULTS/took"; }
make --no-print-directory "$1" || { outcome=": FAILED" && note "$1" && exit 1; }
note "$1"
