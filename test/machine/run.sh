#!/usr/bin/env bash
# run.sh KERNEL SCRATCH TESTS AGENT ARGUMENTS... runs a test program as root in a virtual machine, where all
# controllers belong to version 2 of control groups, and prints what it prints. There are no programs but
# podagent and busybox's. A kernel that panics says so, and ends the machine.
set -euo pipefail
kernel=$1 root=$2/root
mkdir -p "$root/bin"
cp "$(command -v busybox)" "$root/bin/busybox"
cp "$3" "$root/tests"
for library in $(ldd "$3" 2>/dev/null | grep -o '/[^ ]*' || true); do # those of cgo
	cp -L --parents "$library" "$root"
done
cp "$4" "$root/podagent"
cp "$(dirname "$0")/init.sh" "$root/init"
printf '%q ' "${@:5}" >"$root/arguments"
(cd "$root" && find . | cpio -oH newc -R 0:0 --quiet) >"$2/initramfs"
exec qemu-system-x86_64 -accel tcg -smp 2 -m 1024 -no-reboot -nodefaults -display none \
	-serial stdio -kernel "$kernel" -initrd "$2/initramfs" -append "console=ttyS0 quiet loglevel=1 panic=-1 cgroup_no_v1=all" </dev/null
