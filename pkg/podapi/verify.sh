#!/usr/bin/env bash
# Fails if the committed protobuf code is not what "make generate" makes, or
# the modules are not tidy.
set -euo pipefail
cd "$(dirname "$0")"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
go tool -modfile=../../tools.mod buf generate -o "$scratch"
diff -r "$scratch/podapiv1" podapiv1 >&2 || { echo "the generated code is out of date: run make generate" >&2; exit 1; }
cd ../..
go mod tidy -diff >&2 || { echo "go.mod is not tidy: run go mod tidy" >&2; exit 1; }
