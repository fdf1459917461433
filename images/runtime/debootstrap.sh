#!/usr/bin/env bash
# debootstrap.sh DIR makes DIR/base.tar and DIR/Dockerfile, for an image of Debian
# 12, if no registry answers. It writes this machine's settings of apt to
# DIR/apt.conf.d and DIR/sources.list.d, to mount them while the image is built.
# They do not get into the image.
set -euo pipefail

dir=$1
system=$dir/system
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
# archive is the URI of Debian's own archive, as in debootstrap.
archive=$(sed -n 's/^DEF_MIRROR="\(.*\)"$/\1/p' "$(command -v debootstrap)")
[ -n "$archive" ] || { echo "debootstrap.sh: cannot find the name of Debian's archive in debootstrap" >&2; exit 1; }

# targets prints URI, suite and component of the Debian archives that this
# machine's apt knows.
targets() {
	apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Label: Debian' &&
		apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Label: Debian-Security'
}

# standard prints the same lines as in Debian's own images.
standard() {
	printf '%s main\n' "$archive bookworm" "$archive bookworm-updates" "$archive-security bookworm-security"
}

# sources turns such lines into lines of a sources.list.
sources() { sed "s|^|deb [signed-by=$keyring] |"; }

# populate makes the file system. debootstrap's mounts vanish with their namespace,
# even if it is killed.
populate() {
	eval "$(apt-config shell http_proxy Acquire::http::Proxy https_proxy Acquire::https::Proxy)"
	export http_proxy https_proxy
	unshare --mount debootstrap --variant=minbase --include=ca-certificates bookworm "$system" "$1"
}

# settings writes the settings of apt: for the image, and for this machine.
settings() {
	cat >"$system/etc/apt/apt.conf.d/image" <<-END
		APT::Install-Recommends "false";
		Acquire::Languages "none";
		Dir::Cache { pkgcache ""; srcpkgcache ""; };
	END
	cat >"$system/etc/dpkg/dpkg.cfg.d/image" <<-END
		path-exclude /usr/share/doc/*
		path-include /usr/share/doc/*/copyright
		path-exclude /usr/share/info/*
		path-exclude /usr/share/lintian/*
		path-exclude /usr/share/locale/*
		path-exclude /usr/share/man/*
	END
	rm "$system/etc/apt/sources.list"
	mkdir -p "$dir/apt.conf.d" "$dir/sources.list.d"
	apt-config dump | sed -nE '/^Acquire::/{/::(IndexTargets|Changelogs)/!p}' >"$dir/apt.conf.d/machine"
	sources <<<"$1" >"$dir/sources.list.d/debian.list"
}

# upgrade installs updates since the release, with this machine's settings.
upgrade() {
	cp "$dir/apt.conf.d/machine" "$system/etc/apt/apt.conf.d/"
	cp "$dir/sources.list.d/debian.list" "$system/etc/apt/sources.list.d/"
	chroot "$system" sh -c 'apt-get update && DEBIAN_FRONTEND=noninteractive apt-get upgrade -y && apt-get clean'
	rm "$system/etc/apt/apt.conf.d/machine"
	standard | sources >"$system/etc/apt/sources.list.d/debian.list"
}

# slim removes the files that Debian's slim images leave out, and all traces of
# this machine.
slim() {
	find "$system/usr/share/doc" ! -type d ! -name copyright -delete
	rm -rf "$system"/usr/share/{info,lintian,locale,man}/* \
		"$system"/var/{lib/apt/lists,cache/apt,cache/ldconfig,log}/* \
		"$system"/var/lib/dpkg/*-old "$system"/etc/{resolv.conf,hostname}
	: >"$system/etc/machine-id"
}

rm -rf "$system" "$dir/apt.conf.d" "$dir/sources.list.d"
mkdir -p "$dir"
known=$(targets | grep -E ' bookworm(-updates|-security)? ' || standard)
mirror=$(awk '$2 == "bookworm" { print $1; exit }' <<<"$known")
populate "${mirror:-$archive}"
settings "$known"
upgrade
slim
cat >"$dir/Dockerfile" <<-END
	FROM scratch
	ADD base.tar /
	ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
	CMD ["bash"]
END
tar -C "$system" --numeric-owner --exclude './dev/*' --exclude './proc/*' --exclude './sys/*' -cf "$dir/base.tar.part" .
mv "$dir/base.tar.part" "$dir/base.tar"
rm -rf "$system"
