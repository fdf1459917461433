#!/usr/bin/env bash
# What JetBrains Gateway does to connect to a host:
#
#   jetbrains.sh CONFIG HOST SERVER
#
# Commands find out about the platform and the home directory, sftp puts a program there, which
# runs in the background, and a connection of its own for each port leads to it.
set -euo pipefail
config=$1 host=$2 server=$3

say() { echo "jetbrains.sh: $*"; }
on() { ssh -F "$config" "$host" "$@"; }

say probes
[ "$(on uname -sm)" = "$(uname -s -m)" ]
on 'echo "$SHELL"; df -Pk "$HOME"; id -u' >/dev/null
home=$(on 'cd && pwd')

say a copy
dir=$home/.cache/gateway
on "mkdir -p $dir; rm -f $dir/log" # of an earlier program
printf 'put %s %s/worker.part\nchmod 755 %s/worker.part\nrename %s/worker.part %s/worker\nls -l %s\n' \
	"$server" "$dir" "$dir" "$dir" "$dir" "$dir" | sftp -F "$config" -b - "$host" >/dev/null

say a program in the background, which outlives who started it
on "nohup $dir/worker >$dir/log 2>&1 </dev/null & echo \$! >$dir/pid"
port=$(on "until grep -qs ready $dir/log; do sleep 0.05; done; sed -n 's/^http //p' $dir/log")
for _ in 1 2; do
	printf 'GET / HTTP/1.0\r\nConnection: close\r\n\r\n' | ssh -F "$config" -W "127.0.0.1:$port" "$host" | grep -q '^hello'
done
on "kill \$(cat $dir/pid)"
