#!/usr/bin/env bash
# Builds the runtime image with full-screen programs, and saves it to OUT
# (default .cluster/images/terminal.tar) under the name IMAGE (default
# podagent.test/terminal:dev).
set -euo pipefail

images=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
OUT=${OUT:-$images/../../.cluster/images/terminal.tar}
IMAGE=${IMAGE:-podagent.test/terminal:dev}

PACKAGES="less tmux vim" IMAGE="$IMAGE" OUT="$OUT" "$images/build.sh"
