package launcher_test

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi/isolation"
)

// A machine refuses a clone with new namespaces, or mounts in these as Ubuntu 24.04 does, or Landlock. want is the
// level that auto takes there.
type machine struct {
	name                   string
	clone, mount, landlock unix.Errno
	want                   isolation.Level
}

var machines = []machine{
	{"all", 0, 0, 0, isolation.Namespaces},
	{"no namespaces", unix.EPERM, 0, 0, isolation.Landlock},
	{"no mounts", 0, unix.EACCES, 0, isolation.Landlock},
	{"no Landlock", 0, 0, unix.ENOSYS, isolation.Namespaces},
	{"neither", unix.EPERM, 0, unix.ENOSYS, isolation.None},
	{"neither mounts nor Landlock", 0, unix.EACCES, unix.ENOSYS, isolation.None},
}

// steps are those of a filter that makes this machine such a one.
func (m machine) steps() string { return answers(m.clone, m.landlock, 0, m.mount) }

func TestAutoTakesTheStrongestLevelThatThereIs(t *testing.T) {
	for _, m := range machines {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			l := launchertest.Local(t)
			filtering(t, l, m.steps())
			l.Isolation = isolation.Auto
			s := launch(t, l, launcher.Spec{ID: "a"})
			if is := s.Isolation; is.Level != m.want || (is.Missing != "") != (m.clone|m.mount != 0) || strings.Contains(is.Missing, "as required") {
				t.Errorf("it is isolated by %+v, want %q", is, m.want)
			}
			if got := output(t, s, "echo works"); got != "works" {
				t.Errorf("a command printed %q", got)
			}
		})
	}
}
