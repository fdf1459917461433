#!/usr/bin/env bash
# Builds the runtime image with programs that tests run in pods: full-screen ones,
# and some that go out. Saves it to OUT (default .cluster/images/programs.tar) under
# the name IMAGE (default podagent.test/programs:dev).
set -euo pipefail

images=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
OUT=${OUT:-$images/../../.cluster/images/programs.tar}
IMAGE=${IMAGE:-podagent.test/programs:dev}

PACKAGES="curl less python3 python3-pip tmux vim" IMAGE="$IMAGE" OUT="$OUT" "$images/build.sh"
