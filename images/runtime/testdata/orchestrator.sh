#!/usr/bin/env bash
# Builds the image of an orchestrator as shown in deploy/README.md, and saves it to
# OUT (default .cluster/images/orchestrator.tar) under the name IMAGE (default
# podagent.test/orchestrator:dev).
set -euo pipefail

images=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
root=$images/../..
OUT=$(realpath -m "${OUT:-$root/.cluster/images/orchestrator.tar}")
IMAGE=${IMAGE:-podagent.test/orchestrator:dev}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/context"
(cd "$root" && CGO_ENABLED=0 GOOS=linux go build -trimpath -tags grpcnotrace -ldflags '-s -w' -o "$scratch/context/orchestrator" ./cmd/orchestrator)
awk '/^<!-- images\/runtime\/testdata\/orchestrator.sh builds this block. -->$/ { marked = 1 }
	marked && /^```$/ { exit }
	inside { print }
	marked && /^```dockerfile$/ { inside = 1 }' "$root/deploy/README.md" >"$scratch/Dockerfile"
[ -s "$scratch/Dockerfile" ] || { echo "deploy/README.md has no image to build" >&2; exit 1; }
env -u PACKAGES BASE= IMAGE="$IMAGE" OUT="$OUT" DOCKERFILE="$scratch/Dockerfile" CONTEXT="$scratch/context" "$images/build.sh"
