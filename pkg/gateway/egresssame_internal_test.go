package gateway

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// What a gateway knows of a sandbox may be of one that is gone, whose name another one has since: that one
// does not get the rules and the CA of its predecessor.
func TestSuccessorOfASandboxIsNotLetOutAsItsPredecessor(t *testing.T) {
	l := launchertest.Local(t)
	id := launcherID("acme", "job-1")
	labels := map[string]string{labelIdentity: "successor"}
	s, err := l.Launch(t.Context(), launcher.Spec{ID: id, Labels: labels})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	g := New(Options{Launcher: l})
	defer g.Close()
	now := time.Now()
	summary := launcher.Summary{ID: id, State: launcher.Running, Labels: map[string]string{labelIdentity: "predecessor"}}
	old, _ := tenantSandboxOf(summary, now)
	g.waysOut.known[id] = old
	f := newFarEnd(g.waysOut, old, policyFor(t, ""), true, 1)
	held := make(chan error, 1)
	go func() { held <- f.hold() }()
	select {
	case err := <-held:
		if !errors.Is(err, launcher.ErrGone) {
			t.Errorf("the error is %v", err)
		}
	case <-f.settled:
		t.Error("it is served")
		f.end()
		<-held
	case <-time.After(hangs):
		t.Fatal("it hangs")
	}
	known := g.waysOut.known[id]
	if known.Labels[labelIdentity] != "successor" || f.isOf(known) {
		t.Errorf("the gateway knows of %+v", known)
	}
}

// A far end whose sandbox turns out to have a successor ends.
func TestFarEndOfAPredecessorEnds(t *testing.T) {
	g := New(Options{Tenants: OneTenant{Name: "acme", Egress: &Egress{}}})
	defer g.Close()
	w := g.waysOut
	of := func(identity string) tenantSandbox {
		s, _ := tenantSandboxOf(launcher.Summary{ID: launcherID("acme", "job-1"), State: launcher.Running, Labels: map[string]string{labelIdentity: identity}}, time.Now())
		return s
	}
	f := newFarEnd(w, of("predecessor"), policyFor(t, ""), true, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.farEnds[f.ID] = f
	w.settle(f.ID, of("predecessor"))
	if f.ctx.Err() != nil {
		t.Error("it ends at once")
	}
	w.settle(f.ID, of("successor"))
	if f.ctx.Err() == nil {
		t.Error("it goes on")
	}
	delete(w.farEnds, f.ID)
}

// slowCluster is a launcher whose cluster is late to say that pods run.
type slowCluster struct{ launcher.Launcher }

func (l slowCluster) Find(ctx context.Context, id string) (launcher.Summary, error) {
	s, err := l.Launcher.Find(ctx, id)
	s.State = launcher.Pending
	return s, err
}

func (l slowCluster) List(ctx context.Context) ([]launcher.Summary, error) {
	all, err := l.Launcher.List(ctx)
	for i := range all {
		all[i].State = launcher.Pending
	}
	return all, err
}

// A launch is over when the agent answers, which may be before the cluster says that the pod runs: the first
// command has a way out all the same. Who did not launch it waits for the cluster.
func TestSandboxIsLetOutBeforeItsClusterSaysThatItRuns(t *testing.T) {
	l := launchertest.Local(t)
	id := launcherID("acme", "job-1")
	s, err := l.Launch(t.Context(), launcher.Spec{ID: id, Labels: map[string]string{labelIdentity: "job"}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, launched := range []bool{true, false} {
		g := New(Options{Launcher: slowCluster{l}, Tenants: OneTenant{Name: "acme", Egress: &Egress{}}})
		if launched {
			g.waysOut.letOut(t.Context(), id)
			if info, err := s.Client.Info(t.Context()); err != nil || !info.Egress.Served {
				t.Errorf("it is not let out: %+v, %v", info, err)
			}
		}
		g.waysOut.list(t.Context())
		g.waysOut.mu.Lock()
		if _, known := g.waysOut.known[id]; known != launched {
			t.Errorf("known: %v, launched by this gateway: %v", known, launched)
		}
		g.waysOut.mu.Unlock()
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}
}
