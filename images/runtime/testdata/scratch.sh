#!/usr/bin/env bash
# Builds an image with one static program and nothing else, and saves it to OUT
# (default .cluster/images/scratch.tar) under the name IMAGE (default
# podagent.test/scratch:dev).
set -euo pipefail

images=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
root=$images/../..
OUT=$(realpath -m "${OUT:-$root/.cluster/images/scratch.tar}")
IMAGE=${IMAGE:-podagent.test/scratch:dev}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/context"
(cd "$root" && CGO_ENABLED=0 GOOS=linux go build -trimpath -ldflags '-s -w' -o "$scratch/context/alone" ./test/e2e/testdata/alone)
cat >"$scratch/Dockerfile" <<'END'
FROM scratch
COPY alone /alone
USER 4242
ENTRYPOINT ["/alone"]
END
env -u PACKAGES BASE= IMAGE="$IMAGE" OUT="$OUT" DOCKERFILE="$scratch/Dockerfile" CONTEXT="$scratch/context" "$images/build.sh"
