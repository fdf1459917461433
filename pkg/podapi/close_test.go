package podapi_test

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/podapi"
)

func TestClosedClientEndsItsCommandsAndNotTheProcesses(t *testing.T) {
	leakCheck(t)
	w := newWire(t)
	c, other := w.client(t), w.client(t)
	cmd := c.Command(t.Context(), "sleep", "300")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		if !errors.Is(err, podapi.ErrUnavailable) {
			t.Errorf("Wait: %v", err)
		}
	case <-time.After(podapi.DefaultResumeTimeout / 2):
		t.Fatal("it seeks a connection")
	}
	list, err := other.Processes(t.Context())
	if err != nil || len(list) != 1 || list[0].Status != nil {
		t.Errorf("%+v, %v", list, err)
	}
}

// lastWords are standard input that ends in a detach, as a person types it.
type lastWords struct {
	text   string
	detach func() error
}

func (r *lastWords) Read(p []byte) (int, error) {
	if r.text == "" {
		return 0, errors.Join(io.EOF, r.detach())
	}
	n := copy(p, r.text)
	r.text = r.text[n:]
	return n, nil
}

func TestInputBeforeADetachArrives(t *testing.T) {
	leakCheck(t)
	c := newWire(t).client(t)
	cmd := c.Shell(t.Context(), "read -r line; echo $line > got; sleep 300")
	cmd.Stdin = &lastWords{"hello\n", cmd.Detach}
	if err := cmd.Run(); !errors.Is(err, podapi.ErrDetached) {
		t.Fatalf("Run: %v", err)
	}
	var got []byte
	for deadline := time.Now().Add(time.Minute); string(got) != "hello\n"; time.Sleep(time.Millisecond) {
		if got, _ = c.ReadFile(t.Context(), "got"); time.Now().After(deadline) {
			t.Fatalf("the process read %q", got)
		}
	}
}
