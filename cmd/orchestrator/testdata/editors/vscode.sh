#!/usr/bin/env bash
# What VS Code's Remote-SSH does to connect to a host, and what the editors do that are made
# from it:
#
#   vscode.sh CONFIG HOST SERVER
#
# A script goes to the standard input of a shell. It finds out about the platform, asks for the
# server, which the client copies meanwhile, starts it in the background, and prints its port
# between markers. All else goes by SOCKS to that port. When the connection is cut, the editor
# does the same again, and finds the same server by its pid, with its token.
set -euo pipefail
config=$1 host=$2 server=$3
work=$PWD/vscode
mkdir "$work"

# say prints a line, so that a failure shows where it was.
say() { echo "vscode.sh: $*"; }

# install prints the script for a connection whose marker is $1.
install() {
	cat <<END
mark=$1
echo "\$mark: running"
umask 077
dir=\$HOME/.editor-server
mkdir -p "\$dir"
echo "platform==\$(uname -s)=="
echo "arch==\$(uname -m)=="
echo "home==\$HOME=="
if [ ! -x "\$dir/server" ]; then
	echo "\$mark: wants the server"
	until [ -e "\$dir/sent" ]; do sleep 0.05; done
	chmod 700 "\$dir/server"
fi
if ! { [ -e "\$dir/pid" ] && kill -0 "\$(cat "\$dir/pid")"; } 2>/dev/null; then
	od -An -N16 -tx1 /dev/urandom | tr -d ' \n' >"\$dir/token"
	: >"\$dir/log" # one of before would be read until the server's shell has emptied it
	"\$dir/server" &>"\$dir/log" </dev/null &
	echo \$! >"\$dir/pid"
fi
until grep -q '^ready$' "\$dir/log"; do sleep 0.05; done
echo "\$mark: start"
echo "listeningOn==\$(sed -n 's/^http //p' "\$dir/log")=="
echo "echoOn==\$(sed -n 's/^echo //p' "\$dir/log")=="
echo "connectionToken==\$(cat "\$dir/token")=="
echo "pid==\$(cat "\$dir/pid")=="
echo "\$mark: end"
while kill -0 "\$(cat "\$dir/pid")"; do sleep 0.5; done
END
}

# value prints what the script said of $1.
value() { sed -n "s/^$1==\(.*\)==\$/\1/p" "$work/out"; }

# has waits until the output has a line $1, or ssh has ended.
has() {
	until grep -q "^$1\$" "$work/out"; do
		kill -0 "$ssh" 2>/dev/null || { cat "$work/out" "$work/err" >&2; exit 1; }
		sleep 0.02
	done
}

# connect runs ssh as the editor does, with the script from $1, and sets port to that of SOCKS. With a
# port alone, ssh would be content with ::1 where a connection has the same port of 127.0.0.1.
connect() {
	: >"$work/out"
	until
		port=$((20000 + RANDOM % 20000))
		ssh -v -T -D "127.0.0.1:$port" -o ConnectTimeout=15 -o ExitOnForwardFailure=yes -F "$config" "$host" bash <"$1" >"$work/out" 2>"$work/err" &
		ssh=$!
		until grep -q "running\$" "$work/out" || ! kill -0 $ssh 2>/dev/null; do sleep 0.02; done
		kill -0 $ssh 2>/dev/null
	do
		grep -q 'Address already in use' "$work/err" || { cat "$work/err" >&2; exit 1; }
	done
}

# use calls the server by SOCKS: a request, several at once, and one connection that stays.
use() {
	[ "$(curl -sS --socks5 "127.0.0.1:$port" "http://127.0.0.1:$(value listeningOn)/")" = hello ]
	[ "$(curl -sS --socks5-hostname "127.0.0.1:$port" "http://localhost:$(value listeningOn)/")" = hello ]
	local calls=()
	for _ in 1 2 3 4 5 6 7 8; do
		head -c 100000 /dev/zero | curl -sS --socks5 "127.0.0.1:$port" --data-binary @- "http://127.0.0.1:$(value listeningOn)/sum" >/dev/null &
		calls+=($!)
	done
	local call
	for call in "${calls[@]}"; do wait "$call"; done
}

say the first connection, whose input stays open
mkfifo "$work/input"
exec 8<>"$work/input"
install 11-aa >&8
connect "$work/input"
has '11-aa: \(wants the server\|end\)'
if grep -q "wants the server" "$work/out"; then # and has none from an earlier connection
	scp -F "$config" "$server" "$host:$(value home)/.editor-server/server"
	ssh -F "$config" "$host" "touch $(value home)/.editor-server/sent"
	has "11-aa: end"
fi
[ "$(value platform) $(value arch)" = "$(uname -s -m)" ]
use
first="$(value pid) $(value listeningOn) $(value connectionToken)"

say a cut
kill -KILL $ssh
wait $ssh || true
exec 8>&-

say the second connection, whose input ends
install 22-bb >"$work/script"
connect "$work/script"
has "22-bb: end"
[ "$(value pid) $(value listeningOn) $(value connectionToken)" = "$first" ] || { say "another server after the cut: $first"; cat "$work/out"; exit 1; }
use

say the editor closes, and the server too
ssh -F "$config" "$host" "kill $(value pid)"
wait $ssh
