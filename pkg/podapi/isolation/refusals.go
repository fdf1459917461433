package isolation

import (
	"os"
	"strings"
)

// A Refusal is a setting of this machine by which ordinary users get no namespaces.
type Refusal struct {
	Reason string // which one it is
	Remedy string // how to let them have some, in a sentence
}

var refusals = []struct {
	file, value string
	Refusal
}{
	{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", Refusal{
		"AppArmor refuses them to programs without a profile that has userns",
		"Give podagent a profile of AppArmor with userns, or run \"sysctl kernel.apparmor_restrict_unprivileged_userns=0\" as root.",
	}},
	{"/proc/sys/kernel/unprivileged_userns_clone", "0", Refusal{
		"the sysctl kernel.unprivileged_userns_clone is 0", "Run \"sysctl kernel.unprivileged_userns_clone=1\" as root.",
	}},
	{"/proc/sys/user/max_user_namespaces", "0", Refusal{
		"the sysctl user.max_user_namespaces is 0", "Run \"sysctl user.max_user_namespaces=10000\" as root.",
	}},
}

// Refusals returns the settings of this machine that refuse namespaces. Without any, something
// around this program may still do so, such as a container.
func Refusals() []Refusal {
	var list []Refusal
	for _, r := range refusals {
		if text, err := os.ReadFile(r.file); err == nil && strings.TrimSpace(string(text)) == r.value {
			list = append(list, r.Refusal)
		}
	}
	return list
}
