package userns

import (
	"os"

	"golang.org/x/sys/unix"
)

// rootLacksRight reports whether this program is root, and may not be root of a user namespace.
func rootLacksRight() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var has [2]unix.CapUserData
	return os.Geteuid() == 0 && unix.Capget(&header, &has[0]) == nil && has[0].Effective&(1<<unix.CAP_SETFCAP) == 0
}
