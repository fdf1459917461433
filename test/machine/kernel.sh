#!/usr/bin/env bash
# kernel.sh FILE downloads a Linux with what isolated sandboxes can use, into FILE: that of Debian 13 for
# virtual machines, from the archive that this machine has its packages from. This machine's own kernel stays as it is.
set -euo pipefail
[ ! -e "$1" ] || exit 0
[ "$(uname -m)" = x86_64 ] || { echo "test/machine: there is no kernel for $(uname -m) here" >&2; exit 1; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch/lists/partial" "$scratch/cache/archives/partial" "$(dirname "$1")"
archive=$(apt-get indextargets --format '$(SITE)' 2>/dev/null | grep '/debian/*$' | head -n 1 || true)
[ -n "$archive" ] || { echo "test/machine: apt knows no archive of Debian: run apt-get update" >&2; exit 1; }
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $archive trixie main" >"$scratch/list"
options=(-qq -o Dir::Etc::SourceList="$scratch/list" -o Dir::Etc::SourceParts=- -o Dir::State::Lists="$scratch/lists"
	-o Dir::Cache="$scratch/cache" -o APT::Sandbox::User=root)
cd "$scratch"
apt-get "${options[@]}" update
apt-get "${options[@]}" download "$(apt-cache "${options[@]}" depends linux-image-cloud-amd64 | awk '/Depends: linux-image/ { print $2; exit }')"
dpkg -x ./*.deb unpacked
mv unpacked/boot/vmlinuz-* "$1.new"
mv "$1.new" "$1"
