package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// The reader of a container's log may stop for a while, for example while the
// node's runtime restarts. The agent then keeps the output of the command beside it
// as for any reader, and goes on.
func TestLogThatTakesNothingForAWhileEndsNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	agent := exec.Command("podagent", "serve", "--listen", "unix:"+filepath.Join(dir, "s"), "--workdir", dir,
		"--", "sh", "-c", "head -c 100000000 /dev/zero; echo end; echo > done; exec sleep 600")
	agent.Stdout = w
	var log bytes.Buffer
	agent.Stderr = &log
	err = agent.Start()
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = agent.Wait() // its exit status does not matter
	}()
	t.Cleanup(func() {
		_ = agent.Process.Kill() // usually it has ended already
		<-ended
	})
	for deadline := time.Now().Add(hung); ; time.Sleep(50 * time.Millisecond) {
		_, err := os.Stat(filepath.Join(dir, "done"))
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) || time.Now().After(deadline) {
			t.Fatalf("the command makes no progress: %v", err)
		}
	}
	if err := r.SetReadDeadline(time.Now().Add(hung)); err != nil {
		t.Fatal(err)
	}
	var last []byte
	for buffer := make([]byte, 1<<20); !bytes.HasSuffix(last, []byte("end\n")); {
		n, err := r.Read(buffer)
		if err != nil {
			t.Fatalf("the log ends with %v", err)
		}
		last = append(last[max(0, len(last)-8):], buffer[:n]...)
	}
	if err := agent.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	select {
	case <-ended:
	case <-time.After(hung):
		t.Error("the agent did not end")
	}
	if bytes.Contains(log.Bytes(), []byte("detached")) {
		t.Errorf("the agent ended by itself:\n%s", &log)
	}
}
