package gateway_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/podapi"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// cable leads to one gateway or another.
type cable struct {
	mu   sync.Mutex
	to   *door
	conn net.Conn // the last one
}

func (c *cable) dial(ctx context.Context) (net.Conn, error) {
	c.mu.Lock()
	to := c.to
	c.mu.Unlock()
	conn, err := to.connect(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn = conn
	return conn, err
}

// lead has the next connections lead to another gateway.
func (c *cable) lead(to *door) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.to = to
}

func (c *cable) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn.Close()
}

// A command whose connection is cut, or whose gateway ends, goes on by another gateway: its input
// and output come whole and once, and it runs once.
func TestCommandByPodapiGoesOnAtAnotherGateway(t *testing.T) {
	for name, end := range map[string]func(*cable, *door){
		"cut":      func(w *cable, _ *door) { w.cut() },
		"shutdown": func(_ *cable, d *door) { d.leave() },
	} {
		t.Run(name, func(t *testing.T) {
			d := newDoor(t)
			d.sandbox()
			w := &cable{to: d}
			c := d.clientBy("a", "job-1", w.dial)
			cmd := c.Shell(t.Context(), "echo x >> ran; echo begun; cat; cat ran")
			in, _ := cmd.StdinPipe()
			out, _ := cmd.StdoutPipe()
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			d.expect(out, "begun\n")
			content := bytes.Repeat([]byte("0123456789"), 1<<17)
			sent := make(chan error, 1)
			go func() {
				_, err := in.Write(content)
				sent <- errors.Join(err, in.Close())
			}()
			got := make([]byte, len(content)/2)
			d.fill(out, got)
			w.lead(d.another())
			end(w, d)
			rest := make([]byte, len(content)-len(got)+len("x\n"))
			d.fill(out, rest)
			if err := <-sent; err != nil {
				t.Error(err)
			}
			if err := cmd.Wait(); err != nil || string(got)+string(rest) != string(content)+"x\n" {
				t.Errorf("%d and %d bytes, ending in %q: %v", len(got), len(rest), rest[len(rest)-10:], err)
			}
		})
	}
}

func TestCallOfPodapiEndsWhenItsTokenIsRevoked(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.writeKeys(acmeKeys("", "a", "b"))
	d.sandbox()
	c := d.client("a", "job-1")
	cmd := c.Shell(t.Context(), "echo begun; exec sleep 1000")
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	d.expect(out, "begun\n")
	watched := make(chan error, 1)
	ready := make(chan bool)
	go func() {
		for _, err := range c.Watch(t.Context(), ".", fsops.WatchOptions{Ready: func() { close(ready) }}) {
			watched <- err
		}
	}()
	await(t, ready)
	d.writeKeys(acmeKeys("", "b"))
	if err := <-watched; !errors.Is(err, podapi.ErrUnauthenticated) || !strings.Contains(err.Error(), "token") {
		t.Errorf("the watch ends with %v", err)
	}
	if err := cmd.Wait(); !errors.Is(err, podapi.ErrUnauthenticated) {
		t.Errorf("the command ends with %v", err)
	}
	if err := d.client("b", "job-1").Signal(t.Context(), cmd.Process.ID(), 15); err != nil {
		t.Errorf("the command does not run on: %v", err)
	}
}

// The time that a caller gives counts, whoever notices first that it is over.
func TestCallOfPodapiEndsInItsTime(t *testing.T) {
	d := newDoor(t)
	d.sandbox()
	c := d.client("a", "job-1")
	long, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	if _, err := c.Info(long); err != nil {
		t.Errorf("with time left: %v", err)
	}
	short, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	var last error
	for _, err := range c.Watch(short, ".", fsops.WatchOptions{}) {
		last = err
	}
	if !errors.Is(last, context.DeadlineExceeded) {
		t.Errorf("a watch ends with %v", last)
	}
	if _, err := c.Info(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with no time left: %v", err)
	}
}

// When a caller leaves, its call at the agent ends as well.
func TestCallOfPodapiEndsWithItsCaller(t *testing.T) {
	w := &witness{}
	d := newDoor(t, observedBy(w))
	d.sandbox()
	ctx, leave := context.WithCancel(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer a", "podagent-sandbox", "job-1"))
	stream, err := pb.NewFilesClient(d.grpc()).Watch(ctx, &pb.WatchRequest{Path: []byte(".")})
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	leave()
	if got := w.last(t, 2); !strings.Contains(got, "Files/Watch job-1") || !strings.Contains(got, "503 cancelled") {
		t.Errorf("the call ended so: %s", got)
	}
}
