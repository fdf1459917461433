package sshport_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/gateway"
)

func TestWhatAConnectionAsksByItselfIsNoCall(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	session, err := d.connected(d.ann, "box").NewSession()
	if err != nil {
		t.Fatal(err)
	}
	if err := session.Run("true"); err != nil {
		t.Fatal(err)
	}
	if acts := d.acts(t, 1); len(acts) != 1 || acts[0].Operation != "ssh.processes/Exec" {
		t.Errorf("one command is %d acts: %+v", len(acts), acts)
	}
}

// A file that is read in pieces is one act, and one of the tenant's streams, which its pieces need no more of.
func TestPiecesOfADeedTakeOfTheRate(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.setKeys("    rate: {requests_per_second: 4, burst: 1}\n    streams: 1\n", []string{d.ann.line("ann")}, nil)
	if err := os.WriteFile(filepath.Join(d.box.Workdir, "f"), []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	box := d.visit().Sandbox("box")
	deed := gateway.WithDeed(t.Context())
	begun := time.Now()
	for i := range 260 {
		var piece bytes.Buffer
		if _, err := box.Read(deed, "f", &piece, fsops.ReadOptions{Offset: int64(i % 10), Length: 1}); err != nil || piece.String() != "0123456789"[i%10:i%10+1] {
			t.Fatalf("%q, %v", &piece, err)
		}
	}
	if took := time.Since(begun); took < 3*time.Second/4 {
		t.Errorf("260 pieces have taken %v", took)
	}
	if acts := d.acts(t, 0); len(acts) != 0 {
		t.Errorf("acts before the end of the deed: %+v", acts)
	}
}

func TestPiecesOfADeedThatOwesWaitForItsPayment(t *testing.T) {
	t.Parallel()
	for what, rate := range map[string]string{
		"they wait": "0.035", // a payment is in reach of a call that is not given up, and far from these
		"they fail": "0.001",
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			d := newDoor(t)
			d.setKeys("    rate: {requests_per_second: "+rate+", burst: 1}\n", []string{d.ann.line("ann")}, nil)
			if err := os.WriteFile(filepath.Join(d.box.Workdir, "f"), []byte("0123456789"), 0o600); err != nil {
				t.Fatal(err)
			}
			box := d.visit().Sandbox("box")
			deed := gateway.WithDeed(t.Context())
			read := func(ctx context.Context) error {
				_, err := box.Read(ctx, "f", io.Discard, fsops.ReadOptions{Length: 1})
				return err
			}
			for range 64 { // as many as one call of the rate is for
				if err := read(deed); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 { // those that are given up pay nothing
				var all sync.WaitGroup
				var came atomic.Int64
				for range 8 {
					all.Go(func() {
						ctx, cancel := context.WithTimeout(deed, 300*time.Millisecond)
						defer cancel()
						if read(ctx) == nil {
							came.Add(1)
						}
					})
				}
				all.Wait()
				if n := came.Load(); n > 0 {
					t.Errorf("%d of 8 pieces come that nobody has paid for", n)
				}
			}
		})
	}
}
