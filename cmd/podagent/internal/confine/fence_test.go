//go:build !race

package confine

import (
	"testing"
)

// startFenced starts a thread with a fence that lets these ports pass.
func startFenced(t *testing.T, ports ...uint16) *Thread {
	t.Helper()
	needsScopes(t)
	thread, missing, err := Start(RequireDomain, &Fence{Ports: ports})
	if err != nil || missing != nil || !thread.Has(Network) {
		t.Fatalf("the kernel cannot do everything, so this cannot be tested here: %v, %v", missing, err)
	}
	return thread
}

func TestFenceOfNoPortsHolds(t *testing.T) {
	thread := startFenced(t)
	if out, err := output(t, thread, "bash", "-c", ": </dev/tcp/127.0.0.1/1"); err == nil || out == "" {
		t.Errorf("%v, %s", err, out)
	}
}

func TestNoFenceWithoutABoundary(t *testing.T) {
	if thread, missing, err := Start(Off, &Fence{}); thread.Has(Network) || missing == nil || err != nil {
		t.Errorf("%v, %v, %v", thread.Parts().Names(), missing, err)
	}
}
