// Package userns finds out why programs get no user namespaces, without which there are no others for them.
package userns

import (
	"os"
	"strings"
)

// An Obstacle is why this program gets no user namespaces.
type Obstacle struct {
	Reason string // in words that follow a colon
	Remedy string // how to let it have some, in a sentence
}

// settings are those of a machine that refuse them, by the content of a file.
var settings = []struct {
	file, value string
	Obstacle
}{
	{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", Obstacle{
		"AppArmor refuses them to programs without a profile that has userns",
		"Give podagent a profile of AppArmor with userns, or run \"sysctl kernel.apparmor_restrict_unprivileged_userns=0\" as root.",
	}},
	{"/proc/sys/kernel/unprivileged_userns_clone", "0", Obstacle{
		"the sysctl kernel.unprivileged_userns_clone is 0", "Run \"sysctl kernel.unprivileged_userns_clone=1\" as root.",
	}},
	{"/proc/sys/user/max_user_namespaces", "0", Obstacle{
		"the sysctl user.max_user_namespaces is 0", "Run \"sysctl user.max_user_namespaces=10000\" as root.",
	}},
}

// ofRoot is the obstacle of root without the capability by which it may be root of a user namespace
// (user_namespaces(7)).
var ofRoot = Obstacle{
	"root gets them only with the capability SETFCAP, which this program lacks",
	"Run it as an ordinary user, or give it the capability SETFCAP: a pod's securityContext.capabilities, docker's --cap-add and systemd's CapabilityBoundingSet do.",
}

// Obstacles returns what is known to refuse this program user namespaces. Without any, something around it may still
// do so, such as a container's filter of system calls.
func Obstacles() []Obstacle {
	var list []Obstacle
	for _, s := range settings {
		if text, err := os.ReadFile(s.file); err == nil && strings.TrimSpace(string(text)) == s.value {
			list = append(list, s.Obstacle)
		}
	}
	if rootLacksRight() {
		list = append(list, ofRoot)
	}
	return list
}
