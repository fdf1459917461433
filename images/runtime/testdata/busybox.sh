#!/usr/bin/env bash
# Builds the example of README.md, exactly as shown there, on a base with only
# busybox. Saves it to OUT (default .cluster/images/embedded.tar) under the name
# IMAGE (default podagent.test/embedded:dev). The base is
# podagent.test/busybox:dev, in busybox.tar in the same directory.
set -euo pipefail

images=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
OUT=$(realpath -m "${OUT:-$images/../../.cluster/images/embedded.tar}")
IMAGE=${IMAGE:-podagent.test/embedded:dev}
base=podagent.test/busybox:dev

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/context"

# fetch downloads the package as the current user: _apt cannot access the scratch
# directory.
fetch() { apt-get -o APT::Sandbox::User=root download -qq busybox-static; }

# download extracts busybox from its package, without installing it.
download() {
	cd "$scratch"
	fetch || { apt-get update -qq && fetch; }
	dpkg-deb --extract busybox-static_*.deb package
	cp package/bin/busybox context/busybox
}

# example prints the Dockerfile of the page.
example() {
	awk '/^<!-- image_test.go builds this block. -->$/ { marked = 1 }
		marked && /^```$/ { exit }
		inside { print }
		marked && /^```dockerfile$/ { inside = 1 }' "$images/README.md"
}

(download) >&2
cat >"$scratch/Dockerfile.base" <<'END'
FROM scratch
COPY busybox /bin/busybox
RUN ["/bin/busybox", "--install", "-s", "/bin"]
END
example >"$scratch/Dockerfile"
[ -s "$scratch/Dockerfile" ] || { echo "README.md has no example to build" >&2; exit 1; }

env -u BASE -u PACKAGES -u OUT -u IMAGE "$images/build.sh"
env -u PACKAGES BASE= IMAGE="$base" OUT="$(dirname "$OUT")/busybox.tar" \
	DOCKERFILE="$scratch/Dockerfile.base" CONTEXT="$scratch/context" "$images/build.sh"
env -u PACKAGES BASE="$base" IMAGE="$IMAGE" OUT="$OUT" DOCKERFILE="$scratch/Dockerfile" "$images/build.sh"
