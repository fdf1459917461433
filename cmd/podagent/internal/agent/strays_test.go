package agent

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/podapi"
)

// What has left its session, its parents and its environment ends with its exec, and the
// agent knows no stray.
func TestEscapeeEndsWithTheKillOfItsExec(t *testing.T) {
	dir, socket := serveTest(t, nil)
	client := dial(t, podapi.DialOptions{Dial: unixDialer(socket)})
	cmd := client.Command(t.Context(), "sh", "-c", `mkfifo up; setsid -f env -i sh -c 'echo $$ > up; exec /bin/sleep 300' >&- 2>&-; read pid < up; echo $pid; exec sleep 300`)
	cmd.Dir = dir
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := 0
	if _, err := fmt.Fscan(out, &pid); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); !errors.As(err, new(*podapi.ExitError)) {
		t.Errorf("it ended with %v", err)
	}
	for deadline := time.Now().Add(hung); !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			syscall.Kill(pid, syscall.SIGKILL)
			t.Fatal("it is still there")
		}
	}
	for _, call := range []func() (int, error){
		func() (int, error) { return client.Strays(t.Context()) },
		func() (int, error) { return client.KillStrays(t.Context()) },
	} {
		if n, err := call(); n != 0 || err != nil {
			t.Errorf("there are %d strays (%v)", n, err)
		}
	}
}
