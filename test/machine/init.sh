#!/bin/busybox sh
# The first process of the virtual machine. Nobody can pivot from the root that the kernel unpacked, so it
# begins again in another one.
set -e
if [ ! -e /again ]; then
	/bin/busybox mkdir /again
	/bin/busybox mount -t tmpfs -o mode=755 tmpfs /again
	/bin/busybox cp -a $(/bin/busybox ls -d /* | /bin/busybox grep -v -e /again -e /dev -e /proc -e /sys) /again
	/bin/busybox touch /again/again
	exec /bin/busybox switch_root /again /init
fi
/bin/busybox --install -s /bin
mkdir -p /proc /sys /dev /tmp /run /root /etc /usr/bin /var/tmp
chmod 1777 /tmp /var/tmp
echo root:x:0:0:root:/root:/bin/sh >/etc/passwd
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t devtmpfs devtmpfs /dev
mkdir /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
ip link set lo up
export PATH=/usr/local/bin:/usr/bin:/bin HOME=/root PODAGENT_TEST_AGENT=/podagent
status=0
eval "/tests $(cat /arguments)" || status=$?
echo "the tests exit with $status"
stty -F /dev/console sane # returns when everything is written, which the end of the power would not wait for
poweroff -f
