# Runs OpenSSH's server on this machine's loopback, for the root user and whoever has the key in the
# directory $1, and writes a configuration of ssh there, with the host "sshd". It is Debian's package,
# installed or unpacked, within a mount namespace of its own: nothing is left of it.
cd "$1"
sshd=$(command -v sshd || echo "$1/package/usr/sbin/sshd")
if [ ! -x "$sshd" ]; then
	apt-get download openssh-server libwrap0 >&2
	for file in ./*.deb; do dpkg-deb -x "$file" package; done
	LD_LIBRARY_PATH=$(echo "$1"/package/usr/lib/*-linux-gnu)
	export LD_LIBRARY_PATH
fi
ssh-keygen -q -t ed25519 -N '' -f host
ssh-keygen -q -t ed25519 -N '' -f user
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')

mount --make-rprivate /
{ echo "root:x:0:0::$1:/bin/bash"; echo "sshd:x:65533:65534::/run/sshd:/bin/false"; } >passwd
mount --bind passwd /etc/passwd
mount -t tmpfs none /run
mkdir /run/sshd

cat >sshd_config <<END
Port $port
ListenAddress 127.0.0.1
HostKey $1/host
AuthorizedKeysFile $1/user.pub
StrictModes no
UsePAM no
PidFile none
END
cat >config <<END
Host sshd
    HostName 127.0.0.1
    Port $port
    User root
    IdentityFile $1/user
    IdentitiesOnly yes
    UserKnownHostsFile $1/known_hosts
    StrictHostKeyChecking accept-new
END
echo ready
# Without -r it loses the variable that names its libraries.
exec "$sshd" -D -r -f sshd_config
