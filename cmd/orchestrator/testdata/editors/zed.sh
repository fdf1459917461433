#!/usr/bin/env bash
# What Zed does to connect to a host:
#
#   zed.sh CONFIG HOST SERVER
#
# One connection of ssh is the master of all others, and runs nothing. Probes and the copy of the
# server go by it, each with a leading cd. The editor then talks to a command by its standard
# streams, which hands on to a server in the background and is started again after a cut.
set -Eeuo pipefail
config=$1 host=$2 server=$3
work=$PWD/zed
mkdir "$work"

say() { echo "zed.sh: $*"; }

# ssh says nothing of why a session ended that goes by a master, but the master does.
trap 'echo "line $LINENO: $BASH_COMMAND"; cat "$work"/*.err' ERR

# master starts the master for the socket $1, and waits for it.
master() {
	through=(-F "$config" -o ControlMaster=no -o "ControlPath=$1")
	ssh -v -F "$config" -N -o ControlPersist=no -o ControlMaster=yes -o "ControlPath=$1" "$host" 2>"$1.err" &
	master=$!
	until ssh "${through[@]}" -O check "$host" 2>/dev/null; do
		kill -0 $master 2>/dev/null || return 1
		sleep 0.02
	done
}

# on runs a command at the host, in the home directory.
on() { ssh "${through[@]}" "$host" -T "cd; $*"; }

say probes
master "$work/first"
! on cmd /c ver >/dev/null 2>&1
on "sh -c 'echo \$SHELL'" >/dev/null
[ "$(on uname -sm)" = "$(uname -s -m)" ]

say a copy
on mkdir -p .zed_server
on rm -f .zed_server/pid .zed_server/log # of an earlier server
# Zed names files from where sftp begins, and then looks for them in the home directory. Where these are
# two, its copy fails, and it must download.
at=$(on pwd)/
[ "$at" != "$(ssh "${through[@]}" "$host" pwd)/" ] || at=
gzip -c "$server" >"$work/server.gz"
echo "put $work/server.gz ${at}.zed_server/download.gz" | sftp "${through[@]}" -b - "$host" >/dev/null
on "sh -c 'gunzip -f .zed_server/download.gz && chmod 755 .zed_server/download && mv .zed_server/download .zed_server/server'"

say a command that hands on to a server in the background
cat >"$work/proxy" <<'END'
cd ~/.zed_server
if ! kill -0 "$(cat pid 2>/dev/null)" 2>/dev/null; then
	: >log # before anybody looks for what an earlier server has said
	setsid ./server </dev/null >log 2>&1 &
	echo $! >pid
	until grep -q '^ready$' log; do sleep 0.05; done
fi
exec 4<&0 3<>"/dev/tcp/127.0.0.1/$(sed -n 's/^echo //p' log)"
cat <&4 >&3 &
head -c "$1" <&3
END
echo "put $work/proxy ${at}.zed_server/proxy" | sftp "${through[@]}" -b - "$host" >/dev/null
# proxy sends $1 random bytes to the server, which sends them back.
proxy() {
	head -c "$1" /dev/urandom >"$work/bytes"
	on env A=b bash .zed_server/proxy "$1" <"$work/bytes" | cmp - "$work/bytes"
}
proxy 10
first=$(on cat .zed_server/pid)
proxy 3145728

say a terminal
said=$(ssh "${through[@]}" -q -tt "$host" "cd && exec env A=b sh -c 'test -t 0 && echo \$A'" </dev/null)
[ "${said%$'\r'}" = b ]

say a cut, and the same server
kill -KILL $master
wait $master || true
master "$work/second"
on "kill -0 \$(cat .zed_server/pid)"
proxy 100000
[ "$(on cat .zed_server/pid)" = "$first" ]
on "kill \$(cat .zed_server/pid)"
kill $master
wait $master || true
