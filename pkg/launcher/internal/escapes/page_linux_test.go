//go:build linux && !race

package escapes_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/podapi/isolation"
)

// exception is what is special about a try. All others lead out without isolation, and lead nowhere
// within.
type exception struct {
	// rare says for whom the try may lead nowhere even without isolation, for want of rights, or of something
	// that systems need not have.
	rare accounts
	// These are words of docs/isolation.md, if the level does not stop the try of the users: then it must lead out
	// there.
	landlock, namespaces string
	of                   accounts
}

type accounts []string

var (
	ofAnybody  = accounts{"root", "ordinary"}
	ofRootOnly = accounts{"root"}
	ofOrdinary = accounts{"ordinary"}
)

// words are those of the page about the try.
func (e exception) words(level isolation.Level, user account) string {
	switch {
	case !slices.Contains(e.of, user.name):
		return ""
	case level == isolation.Landlock:
		return e.landlock
	}
	return e.namespaces
}

func (e exception) check(t *testing.T, level isolation.Level, user account, control, within *result) {
	t.Helper()
	if control.Kind == "broken" || within.Kind == "broken" {
		t.Error("the try itself is broken")
	}
	if !control.leads() && !slices.Contains(e.rare, user.name) {
		t.Error("it does not lead out without isolation")
	}
	words := e.words(level, user)
	switch {
	case words == "" && within.leads():
		t.Error("it leads out")
	case words != "" && !within.leads():
		t.Errorf("it does not lead out, and the page says so: %q", words)
	case words != "" && !strings.Contains(isolationPage(t), words):
		t.Errorf("it leads out, and the page does not say so: %q", words)
	}
}

// exceptions are those that there are, by the tries' names.
var exceptions = func() map[string]exception {
	all := map[string]exception{}
	for name, words := range notStopped {
		all[name] = exception{landlock: words, of: ofAnybody}
	}
	for name, e := range stoppedForSome {
		all[name] = e
	}
	if setting, _ := os.ReadFile("/proc/sys/dev/tty/legacy_tiocsti"); string(setting) == "0\n" {
		lacking = append(lacking, typing...)
	}
	for list, rare := range map[*[]string]accounts{&lacking: ofAnybody, &ofRoot: ofOrdinary} {
		for _, name := range *list {
			e := all[name]
			e.rare = rare
			all[name] = e
		}
	}
	return all
}()

const (
	byNames    = "size, mode, times, extended attributes, and where a symbolic link leads"
	byEntering = "A directory can be entered and watched"
	byProc     = "and the names of your keys (`keyctl`) and of sockets"
	byModes    = "Modes, owners and extended attributes of files that you own, and times of those that you may write, can be changed"
	byIPC      = "- SysV IPC,"
	byReading  = "What can be read can be locked (`flock`)"
	byPiping   = "at the level `namespaces` a socket in it can be connected to, and a pipe written to"
	byChmod    = "By `chmod` it can change modes of what it sees of the system at the level `landlock`"
	byRoot     = "It reads what root alone may read outside of `/etc`"
)

// notStopped are the tries that the level landlock does not stop, with words of the page.
var notStopped = map[string]string{
	"a path that exists":       byNames,
	"where a link leads":       byNames,
	"an attribute of a file":   byNames,
	"the names of attributes":  byNames,
	"call: what a path is":     byNames,
	"call: where a link leads": byNames,

	"a directory that it enters":             byEntering,
	"events of paths outside by inotify":     byEntering,
	"events of paths outside by fanotify":    byEntering,
	"call: a watch":                          byEntering,
	"call: a command in a directory outside": byEntering,

	"the names of keys":           byProc,
	"sockets outside":             byProc,
	"the network's interfaces":    "Its interfaces can be seen",
	"call: a port of the machine": "a call to a port of the sandbox does reach: whatever listens there on the machine's loopback",

	"changing a mode":                        byModes,
	"changing the mode of a directory":       byModes,
	"changing times":                         byModes,
	"changing an attribute":                  byModes,
	"removing an attribute":                  byModes,
	"changing the modes of what it may read": byModes,
	"the times of a device":                  byModes,
	"call: changing a mode":                  byModes,
	"call: changing a mode by a link":        byModes,

	"shared memory of System V": byIPC,
	"a queue of System V":       byIPC,
	"semaphores of System V":    byIPC,
}

// stoppedForSome are those that it stops for the others, or only the other level does not stop.
var stoppedForSome = map[string]exception{
	"a socket in what it may read":     {namespaces: byPiping, of: ofAnybody},
	"a lock of what it may read":       {landlock: byReading, namespaces: byReading, of: ofAnybody},
	"a pipe in what it may read":       {namespaces: byPiping, of: ofAnybody},
	"the mode of a device":             {landlock: byChmod, of: ofRootOnly},
	"changing an owner":                {landlock: byModes, of: ofOrdinary},
	"the processors of a process":      {landlock: "On which processors your processes run (`taskset`) can be changed", of: ofOrdinary},
	"changing the modes of the system": {landlock: byChmod, of: ofRootOnly},
	"reading /proc/slabinfo":           {landlock: byRoot, of: ofRootOnly},
	"reading /proc/vmallocinfo":        {landlock: byRoot, of: ofRootOnly},
}

// typing are tries that Linux refuses everywhere if its administrator says so.
var typing = []string{"input for a terminal outside", "input for a terminal that it makes", typingByCall}

// lacking are tries of what systems, and calls, need not have, so that they may lead nowhere anywhere.
var lacking = []string{
	"a disk", "a disk that it makes", "the parent of its namespaces",
	"a module of the kernel", "the end of a module", "another kernel", "another kernel from a file",
	"the kernel's ciphers", "reading /proc/kcore", "a core of a process",
	"the device /dev/hwrng", "the device /dev/mem", "the device /dev/rtc0", "the device /dev/uinput", "the device /dev/fuse",
	"the device /dev/kvm", "the device /dev/vsock", "the device /dev/loop-control", "the device /dev/net/tun", "the device /dev/userfaultfd",
	"the device /dev/console", "the device /dev/tty0", "the device /dev/kmsg", "writing /proc/mtrr", "writing /proc/irq/default_smp_affinity",
	"writing /proc/sys/fs/binfmt_misc/register", "writing /proc/sys/kernel/hotplug", "writing /proc/sys/kernel/modprobe",
	"writing /proc/sys/kernel/sysrq", "writing /proc/sys/kernel/ns_last_pid", "writing /proc/sysrq-trigger", "writing /sys/fs/cgroup/cgroup.procs",
	"writing /sys/kernel/uevent_helper", "writing /sys/power/state", "writing /sys/kernel/mm/ksm/run", "writing /sys/module/kernel/parameters/panic",
	"writing /sys/kernel/mm/transparent_hugepage/enabled", "reading /proc/slabinfo", "reading /proc/vmallocinfo", "a directory among the control groups",
	"a socket of the hypervisor", "netlink of audits", "netlink of the firewall", "netlink of IPsec", "netlink of sockets", "kcmp", "userfaultfd", "io_uring",
	// Calls look at no files that stand for something else, at any level.
	"call: reading a file that a process has open", "call: reading a key by a process's directory",
	"call: reading a key by a process's root", "call: reading a key by its process's root",
	"call: a terminal", "call: writing a setting of the kernel", "call: writing a terminal", "call: writing whom the kernel kills first",
}

// ofRoot are tries of what only root may do. Nobody else can look into the agent either.
var ofRoot = []string{
	"a change of the network", "a device that it makes", "a file by its handle", "a file that a process has mapped",
	"a key of root's", "a mount of processes", "a raw socket", "a socket of packets", "an end of a mount", "being another user",
	"being in another group", "bpf", "changing the modes of the system", "memory on a disk", "perf of a process",
	"perf of a processor", "reading /proc/kmsg", "secrets of the system", "su, the program", "the end of the machine", "the name of the machine",
	"the namespaces of a process", "the namespaces of a process by its descriptor", "the namespaces of the agent", "the time",
	"what the kernel logs", "writing the configuration of the system", "writing the system's programs",
	"writing /proc/sys/kernel/core_pattern", "writing /proc/sys/kernel/hostname", "writing /proc/sys/kernel/randomize_va_space",
	"writing /proc/sys/net/ipv4/ip_forward", "writing /proc/sys/vm/drop_caches", "writing /proc/sys/vm/overcommit_memory",
	"writing /sys/class/mem/null/uevent",
	"any file of /sys for writing", "any file of /proc for writing", "the mode of a device", "the threads of the agent",
	"a descriptor of the agent", "a file that is open in the agent", "the directory of the agent", "the environment of the agent",
	"the maps of the agent", "the memory of the agent", "the program of the agent", "the root of the agent", "tracing the agent",
}
