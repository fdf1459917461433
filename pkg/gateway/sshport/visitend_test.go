package sshport_test

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/podapi"
)

// visit lets a client in that has a key of ann's.
func (d *door) visit() *gateway.Visit {
	d.Helper()
	v, err := d.gateway.VisitBySSH(context.Background(), gateway.SSHKey{Key: d.ann.PublicKey(), From: netip.MustParseAddr("127.0.0.1")})
	if err != nil {
		d.Fatal(err)
	}
	d.Cleanup(v.End)
	return v
}

// ends waits until a visit must end.
func (d *door) ends(v *gateway.Visit) {
	d.Helper()
	select {
	case <-v.Valid().Done():
	case <-time.After(hung):
		d.Fatal("the visit goes on")
	}
}

func TestNoCommandStartsWhenTheKeyCountsNoLonger(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	v := d.visit()
	box := v.Sandbox("box")
	cat := box.Command(t.Context(), "cat")
	to, err := cat.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	from, err := cat.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cat.Start(); err != nil {
		t.Fatal(err)
	}
	d.setKeys("", nil, []string{d.bob.line("bob")})
	d.ends(v)
	if err := box.Command(t.Context(), "touch", "ran").Run(); !errors.Is(err, podapi.ErrUnauthenticated) {
		t.Errorf("a new command: %v", err)
	}
	if _, err := os.Stat(filepath.Join(d.box.Workdir, "ran")); err == nil {
		t.Error("it ran")
	}
	if _, err := io.WriteString(to, "still\n"); err != nil {
		t.Error(err)
	}
	until(t, from, "still\n")
	if err := cat.Process.Signal(syscall.SIGHUP); err != nil {
		t.Errorf("a signal: %v", err)
	}
	if err := cat.Wait(); cat.Process.Status() == nil || cat.Process.Status().Signal != int(syscall.SIGHUP) {
		t.Errorf("it ended by %v", err)
	}
}

func TestCommandThatWaitsForTheRateEndsWithItsVisit(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	rate := "    rate: {requests_per_second: 0.04, burst: 1}\n"
	d.setKeys(rate, []string{d.ann.line("ann")}, nil)
	v := d.visit()
	box := v.Sandbox("box")
	if err := box.Command(t.Context(), "true").Run(); err != nil { // which is what the rate has
		t.Fatal(err)
	}
	waits := make(chan error, 1)
	go func() { waits <- box.Command(t.Context(), "touch", "ran").Run() }()
	d.setKeys(rate, nil, []string{d.bob.line("bob")})
	d.ends(v)
	if err := <-waits; !errors.Is(err, podapi.ErrUnauthenticated) {
		t.Errorf("it ends by %v", err)
	}
	if _, err := os.Stat(filepath.Join(d.box.Workdir, "ran")); err == nil {
		t.Error("it ran")
	}
}

func TestConnectionEndsWhenItsKeyOpensOtherThings(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	client := d.connected(d.ann, "box")
	session, err := client.NewSession() // a client that has one was let in by the file of before
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	d.setKeys("", []string{"restrict " + d.ann.line("ann")}, nil)
	ended := make(chan error, 1)
	go func() { ended <- client.Wait() }()
	select {
	case <-ended:
	case <-time.After(hung):
		t.Fatal("it goes on")
	}
	if conn, err := d.connected(d.ann, "box").Dial("tcp", d.address); err == nil || !strings.Contains(err.Error(), "no ports") {
		t.Errorf("a port: %v, %v", conn, err)
	}
}
