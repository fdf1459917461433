package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestProgressIsReadFromWhatTheGoCommandPrints(t *testing.T) {
	var rest strings.Builder
	p := &progress{rest: &rest, done: t.TempDir()}
	write := func(text string) {
		t.Helper()
		if _, err := p.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	says := func(want string) {
		t.Helper()
		if got := p.String(); got != want {
			t.Errorf("it says %q, not %q", got, want)
		}
	}
	says("finding out what is to be compiled")
	write("go: downloading k8s.io/api v0.35.0\ngo: downl")
	write("oading k8s.io/apimachinery v0.35.0\n")
	says("2 modules downloaded, finding out what is to be compiled")
	p.expect("fmt fmt\nv1 k8s.io/api/v1\nmain k8s.io/kubernetes/cmd/kubelet\nmain ./pause")
	write("k8s.io/api/v1\nk8s.io/api/v1\n# k8s.io/api/v1\nsyntax error\n")
	says("2 modules downloaded, 1 of at most 4 packages compiled, 0 of 2 programs done")
	if err := os.WriteFile(filepath.Join(p.done, "kubelet"), nil, 0o700); err != nil {
		t.Fatal(err)
	}
	says("2 modules downloaded, 1 of at most 4 packages compiled, 1 of 2 programs done")
	if got, want := rest.String(), "k8s.io/api/v1\n# k8s.io/api/v1\nsyntax error\n"; got != want {
		t.Errorf("it passes on %q, not %q", got, want)
	}
}

func TestReportsComeUntilTheyAreStopped(t *testing.T) {
	var out strings.Builder
	c := &cluster{out: &out}
	asked := make(chan struct{})
	stop := c.report(time.Millisecond, func() string { asked <- struct{}{}; return "half of it" })
	<-asked
	<-asked // so that the first message is written
	go func() {
		for range asked { // messages that were under way
		}
	}()
	stop()
	close(asked)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) < 2 || !strings.HasPrefix(lines[0], "half of it, after ") {
		t.Errorf("it said %q", lines)
	}
}
