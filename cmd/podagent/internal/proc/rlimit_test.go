package proc

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func limited(t testing.TB, script string, limits ...Rlimit) Spec {
	t.Helper()
	spec := shell(t, script)
	spec.Rlimits = limits
	return spec
}

func TestRlimitsHold(t *testing.T) {
	m := newManager(t)
	script := "ulimit -Sn; ulimit -Hn; ulimit -Sc; ulimit -Ss; (ulimit -Sn); kill -KILL $$"
	r := run(t, m, limited(t, script,
		Rlimit{"nofile", 77, 99}, Rlimit{"core", 0, math.MaxUint64}, Rlimit{"stack", 1 << 20, math.MaxUint64}))
	want := []string{"77", "99", "0", "1024", "77"}
	if diff := cmp.Diff(want, strings.Fields(r.stdout.String())); diff != "" {
		t.Error(diff)
	}
	// The kernel tracing that sets the limits has ended.
	if r.status.Reason != Signalled || r.status.Signal != int(syscall.SIGKILL) {
		t.Errorf("got %+v", r.status)
	}
}

func TestRlimitsHoldFromTheFirstInstruction(t *testing.T) {
	m := newManager(t)
	// This is less memory than the dynamic loader needs for the C library.
	st := run(t, m, limited(t, "echo ran", Rlimit{"as", 1 << 20, 1 << 20})).status
	if st.Stdout != 0 || st.Code == 0 {
		t.Errorf("got %+v", st)
	}
	if r := run(t, m, limited(t, "while :; do :; done", Rlimit{"cpu", 1, 1})); r.status.Signal == 0 {
		t.Errorf("got %+v", r.status)
	}
}

func TestRlimitsInATerminal(t *testing.T) {
	spec := limited(t, "ulimit -n; tty > /dev/null && echo terminal", Rlimit{"nofile", 55, 55})
	spec.Terminal = &TerminalSize{}
	if got := screenLines(t, newManager(t), spec); !cmp.Equal(got, []string{"55", "terminal"}) {
		t.Errorf("got %q", got)
	}
}

func TestManyLimitedProcesses(t *testing.T) {
	m := newManager(t)
	var group sync.WaitGroup
	for i := range 64 {
		group.Go(func() {
			spec := limited(t, "ulimit -n", Rlimit{"nofile", 100, 100})
			p, _, err := m.Start(t.Context(), spec)
			if err != nil {
				t.Error(err)
				return
			}
			r, err := collect(testContext(t), p, 0, 0)
			if err != nil || r.stdout.String() != "100\n" {
				t.Errorf("%d: got %q, %v", i, &r.stdout, err)
			}
		})
	}
	group.Wait()
}

func TestRlimitsThatMakeNoSense(t *testing.T) {
	m := newManager(t)
	for _, limits := range [][]Rlimit{
		{{"files", 1, 1}},
		{{"", 1, 1}},
		{{"NOFILE", 1, 1}},
		{{"nofile", 2, 1}},
		{{"locks", 1, 1}},
		{{"rttime", 1, 1}},
		{{"nofile", 1, 1}, {"nofile", 1, 1}},
	} {
		if _, _, err := m.Start(t.Context(), limited(t, "true", limits...)); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%v: got %v", limits, err)
		}
	}
}

func TestRlimitsBelongToTheSpec(t *testing.T) {
	m := newManager(t)
	spec := limited(t, "true", Rlimit{"nofile", 50, 50})
	finish(t, start(t, m, spec))
	if _, started, err := m.Start(t.Context(), spec); started || err != nil {
		t.Errorf("the same: %v, %v", started, err)
	}
	spec.Rlimits = []Rlimit{{"nofile", 51, 51}}
	if _, _, err := m.Start(t.Context(), spec); !errors.Is(err, ErrConflict) {
		t.Errorf("another limit: %v", err)
	}
}

// This limit cannot be set because it is above the kernel's own.
func TestRlimitThatIsRefused(t *testing.T) {
	m := newManager(t)
	before := countDescriptors(t)
	witness := t.TempDir() + "/ran"
	_, _, err := m.Start(t.Context(), limited(t, "echo > "+witness, Rlimit{"nofile", math.MaxUint64, math.MaxUint64}))
	if !errors.Is(err, syscall.EPERM) || !strings.Contains(err.Error(), "nofile") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(witness); !errors.Is(err, fs.ErrNotExist) {
		t.Error("the command ran")
	}
	if _, zombies, err := countChildren(m.proc); zombies != 0 || err != nil {
		t.Errorf("%d zombies were left (%v)", zombies, err)
	}
	eventually(t, "that all is closed", func() bool { return countDescriptors(t) <= before })
}

func TestErrorsOfLimitedStartsAreThoseOfOthers(t *testing.T) {
	m := newManager(t)
	notExecutable := t.TempDir() + "/file"
	if err := os.WriteFile(notExecutable, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"no-such-command", "/no/such/command", notExecutable, "/"} {
		for _, dir := range []string{"/", "/no/such/directory"} {
			spec := argv(t, name)
			spec.Dir = dir
			_, _, want := m.Start(t.Context(), spec)
			spec.Rlimits = []Rlimit{{"nofile", 50, 50}}
			_, _, got := m.Start(t.Context(), spec)
			if want == nil || got == nil || want.Error() != got.Error() || errors.As(want, new(*fs.PathError)) != errors.As(got, new(*fs.PathError)) {
				t.Errorf("%s in %s: got %v, not %v", name, dir, got, want)
			}
		}
	}
}
