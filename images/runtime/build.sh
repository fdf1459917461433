#!/usr/bin/env bash
# Builds an image with podagent and saves it as a docker-archive: the runtime
# image, or the image of DOCKERFILE. If nothing has changed, it does nothing.
# README.md explains the variables.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)

# If no registry answers, this script can make the base named default itself,
# under the name in made.
default=debian:bookworm-slim
made=localhost/podagent-base:bookworm

: "${IMAGE:=podagent/runtime:dev}"
: "${OUT:=$root/.cluster/images/runtime.tar}"
: "${CACHE:=$root/.cluster/cache}"
: "${VERSION:=$(git -C "$root" describe --tags --always --dirty 2>/dev/null || echo devel)}"
OUT=$(realpath -m "$OUT") CACHE=$(realpath -m "$CACHE")
[ -n "${DOCKERFILE:-}" ] || BASE=${BASE:-$default}
DOCKERFILE=$(realpath "${DOCKERFILE:-$here/Dockerfile}")

fail() {
	echo "images/runtime/build.sh: $*" >&2
	exit 1
}

# need installs missing programs from the Debian packages with the same names.
need() {
	local missing=()
	for program; do command -v "$program" >/dev/null || missing+=("$program"); done
	[ ${#missing[@]} -gt 0 ] || return 0
	if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
		fail "missing: ${missing[*]}: install them, or run this as root on Debian"
	fi
	apt-get update -qq && apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
}

pick_builder() {
	if command -v buildah >/dev/null; then
		echo buildah
	elif command -v docker >/dev/null && docker info >/dev/null 2>&1; then
		echo docker
	elif command -v podman >/dev/null; then
		echo podman
	else
		need buildah && echo buildah
	fi
}

# engine runs the builder. buildah uses its own storage, with a driver that works
# in any container, and changes nothing outside of CACHE.
engine() {
	case $BUILDER in
	buildah) buildah --root "$CACHE/storage" --runroot "$CACHE/run" --storage-driver vfs "$@" ;;
	*) "$BUILDER" "$@" ;;
	esac
}

# image_id prints the id of a local image, or nothing. Some builders fail if there
# is no image; other errors will show in the build.
image_id() { engine images --quiet --no-trunc "$1" 2>/dev/null || true; }

# build_image CONTEXT DOCKERFILE NAME [OPTION...] builds an image, with this
# machine's proxies, if any.
build_image() {
	local context=$1 options=(--file "$2" --tag "$3" --pull=false "${@:4}") name
	for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
		[ -z "${!name:-}" ] || options+=(--build-arg "$name=${!name}")
	done
	case $BUILDER in
	buildah) engine bud --layers --isolation chroot "${options[@]}" "$context" ;;
	*) engine build "${options[@]}" "$context" ;;
	esac
}

# apt_options prints build options, one per line, which give apt this machine's
# settings in builds on the base made here. They are mounts, so that the settings
# do not get into the image. docker has no such mounts, and gets only the proxies.
apt_options() {
	[ "$BUILDER" != docker ] || return 0
	printf '%s\n' --volume "$CACHE/base/apt.conf.d:/etc/apt/apt.conf.d:ro" \
		--volume "$CACHE/base/sources.list.d:/etc/apt/sources.list.d:ro"
}

# find_base sets base to the name and base_id to the id of the base image, and
# options to the options for building on it.
find_base() {
	base=$BASE options=()
	if [ "$BASE" = "$default" ] && [ -z "$(image_id "$BASE")" ] && [ -n "$(image_id "$made")" ]; then
		base=$made
	elif [ -z "$(image_id "$BASE")" ] && ! engine pull "$BASE" >&2; then
		[ "$BASE" = "$default" ] || fail "cannot pull the image $BASE (set by BASE)"
		echo "cannot pull $BASE: making it with debootstrap" >&2
		make_base
	fi
	[ "$base" != "$made" ] || mapfile -t options < <(apt_options)
	base_id=$(image_id "$base")
}

make_base() {
	[ "$(id -u)" = 0 ] || fail "only root can make a base with debootstrap"
	need debootstrap
	[ -e "$CACHE/base/base.tar" ] || "$here/debootstrap.sh" "$CACHE/base" >&2
	build_image "$CACHE/base" "$CACHE/base/Dockerfile" "$made" >&2
	base=$made
}

# make_context fills a directory with podagent and the files in CONTEXT.
make_context() {
	[ -z "${CONTEXT:-}" ] || cp -a "$CONTEXT/." "$1"
	(cd "$root" && CGO_ENABLED=0 GOOS=linux GOEXPERIMENT=simd go build -trimpath -tags grpcnotrace -o "$1/podagent" \
		-ldflags "-s -w -X github.com/podagent/podagent/pkg/podapi/wire.version=$VERSION" ./cmd/podagent)
	chmod 0755 "$1/podagent"
}

# save writes an image to OUT atomically, so OUT is never half an archive.
save() {
	mkdir -p "$(dirname "$OUT")"
	rm -f "$OUT.part"
	case $BUILDER in
	buildah) engine push --quiet "$IMAGE" "docker-archive:$OUT.part:$IMAGE" ;;
	podman) engine save --quiet --format docker-archive --output "$OUT.part" "$IMAGE" ;;
	*) engine save --output "$OUT.part" "$IMAGE" ;;
	esac
	mv "$OUT.part" "$OUT"
}

: "${BUILDER:=$(pick_builder)}"
command -v "$BUILDER" >/dev/null || fail "cannot find the program $BUILDER (set by BUILDER)"
mkdir -p "$CACHE"
exec 9>"$CACHE/lock"
flock 9 # one build at a time

context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
make_context "$context"

base='' base_id='' options=()
if [ -n "${BASE:-}" ]; then
	find_base
	options+=(--build-arg "BASE=$base")
fi
[ -z "${PACKAGES:-}" ] || options+=(--build-arg "PACKAGES=$PACKAGES")

inputs=$({
	cat "$DOCKERFILE"
	tar -C "$context" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -c .
	echo "$BUILDER $IMAGE $base_id ${options[*]}"
} | sha256sum)
built=$CACHE/built/${IMAGE//[^[:alnum:].]/-} id=$(image_id "$IMAGE") state="is up to date"
if [ "$(cat "$built" 2>/dev/null)" != "$inputs $id" ]; then
	build_image "$context" "$DOCKERFILE" "$IMAGE" "${options[@]}"
	id=$(image_id "$IMAGE")
	mkdir -p "$CACHE/built"
	echo "$inputs $id" >"$built"
	[ "$BUILDER" != buildah ] || engine rmi --prune >/dev/null
fi
if [ ! -e "$OUT" ] || [ "$(cat "$OUT.stamp" 2>/dev/null)" != "$IMAGE $id" ]; then
	save
	echo "$IMAGE $id" >"$OUT.stamp"
	state="is written"
fi
echo "$OUT $state: $IMAGE, $(du -h "$OUT" | cut -f 1)"
