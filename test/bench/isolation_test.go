package bench

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi/isolation"
)

// What the isolation of a sandbox of this machine may cost, in milliseconds and shares of the plain one: its
// start, and each call.
const (
	isolationStart = 40
	isolationCall  = 0.05
	isolationShare = 0.03
)

// isolationRounds are those of calls.
const isolationRounds = 2000

var isolationLevels = []isolation.Level{isolation.Namespaces, isolation.Landlock}

// BenchmarkIsolationStart measures the launch of an isolated sandbox beside that of another one.
func BenchmarkIsolationStart(b *testing.B) {
	for _, level := range isolationLevels {
		start := func(name string, mode isolation.Mode) side {
			l := launchertest.Local(b)
			l.Isolation = mode
			var s *launcher.Sandbox
			return side{name: name, do: func() (err error) {
				s, err = l.Launch(b.Context(), launcher.Spec{ID: "bench"})
				return err
			}, after: func() error {
				s.Close()
				return l.Terminate(b.Context(), "bench")
			}}
		}
		r := compare(b, "start", "launch on this machine, isolated by "+string(level), 100, start("podagent", isolation.Mode(level)), start("not isolated", isolation.Off))
		r.limit(fmt.Sprintf("not isolated + %d ms", isolationStart), r.Peers[0].Median+isolationStart)
	}
}

// BenchmarkIsolationExec measures a command in an isolated sandbox.
func BenchmarkIsolationExec(b *testing.B) {
	besidePlain(b, "calls", "exec true", func(s *launcher.Sandbox) func() error {
		return func() error { return s.Command(b.Context(), "true").Run() }
	})
}

// BenchmarkIsolationStat measures a call with next to no work in an isolated sandbox.
func BenchmarkIsolationStat(b *testing.B) {
	besidePlain(b, "calls", "stat", func(s *launcher.Sandbox) func() error {
		return func() error {
			_, err := s.Stat(b.Context(), ".")
			return err
		}
	})
}

// BenchmarkIsolationGrep measures a search of 1,000 files in an isolated sandbox.
func BenchmarkIsolationGrep(b *testing.B) {
	besidePlain(b, "search", "grep of 1,000 files", func(s *launcher.Sandbox) func() error {
		text := []byte(strings.Repeat("A line of hay, in which there is nothing else.\n", 80) + "needle\n")
		for i := range 1000 {
			dir := fmt.Sprintf("d%d", i%30)
			if err := errors.Join(s.MkdirAll(b.Context(), dir, 0o777), s.WriteFile(b.Context(), fmt.Sprintf("%s/f%d", dir, i), text, 0o666)); err != nil {
				b.Fatal(err)
			}
		}
		return func() error {
			found := 0
			for _, err := range s.Grep(b.Context(), "needle", fsops.GrepOptions{}) {
				if err != nil {
					return err
				}
				found++
			}
			if found < 1000 {
				return fmt.Errorf("%d lines were found", found)
			}
			return nil
		}
	})
}

// besidePlain compares a call of sandboxes of each level with that of one without isolation.
func besidePlain(b *testing.B, group, what string, call func(*launcher.Sandbox) func() error) {
	open := func(mode isolation.Mode) *launcher.Sandbox {
		l := launchertest.Local(b)
		l.Isolation = mode
		s, err := l.Launch(b.Context(), launcher.Spec{ID: "bench"})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { s.Close() })
		return s
	}
	plain := call(open(isolation.Off))
	for _, level := range isolationLevels {
		isolated := call(open(isolation.Mode(level)))
		r := compare(b, group, what+" on this machine, isolated by "+string(level), isolationRounds, side{name: "podagent", do: isolated}, side{name: "not isolated", do: plain})
		r.limit(fmt.Sprintf("not isolated + %v ms or %v %%", isolationCall, 100*isolationShare), r.Peers[0].Median+max(isolationCall, isolationShare*r.Peers[0].Median))
	}
}
