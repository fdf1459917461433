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
	cmd.ResumeTimeout = 10 * hung
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
	case <-time.After(hung):
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
	cmd.Stdin = &lastWords{"hello\n", func() error { return cmd.Process.Detach() }}
	if err := cmd.Run(); !errors.Is(err, podapi.ErrDetached) {
		t.Fatalf("Run: %v", err)
	}
	eventually(t, "the process to read the line", func() bool {
		got, _ := c.ReadFile(t.Context(), "got")
		return string(got) == "hello\n"
	})
}
