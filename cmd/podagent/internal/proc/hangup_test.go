package proc

import (
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// What editors start in the background, without nohup, is to stay when their connection is cut.
func TestAHangupLeavesWhatHasNoneOfTheStreams(t *testing.T) {
	// Otherwise shells cannot trap it where this program was started by nohup.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	for name, script := range map[string]string{
		"of its group":       `sleep 301 </dev/null >log 2>&1 &`,
		"of its own session": `setsid sleep 301 </dev/null >log 2>&1 &`,
		// The kernel sends it to the group in the foreground, so a shell with job control gives others groups of their own.
		"of a terminal, also": `set -m; sleep 301 </dev/null >log 2>&1 &`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			script += ` echo $! >apart
				while ! grep -q sleep /proc/$!/comm; do sleep 0.01; done # until it has none of the streams
				(trap 'echo hup >got; exit' HUP; echo ready >ready; while :; do sleep 0.02; done) &
				wait; sleep 303`
			spec := shell(t, script)
			spec.Stdin = true
			if strings.HasPrefix(name, "of a terminal") {
				spec = terminalShell(t, script)
			}
			spec.Dir = dir
			p := start(t, newManager(t), spec)
			eventually(t, "the start", func() bool { _, err := os.Stat(filepath.Join(dir, "ready")); return err == nil })
			apart := pidIn(t, filepath.Join(dir, "apart"))
			if err := p.Signal(syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the hangup", func() bool { text, _ := os.ReadFile(filepath.Join(dir, "got")); return string(text) == "hup\n" })
			finish(t, p)
			if !isAlive(apart) {
				t.Error("what had none of the streams is gone")
			}
			_ = p.Signal(syscall.SIGKILL)
			eventually(t, "the end of all", func() bool { return !isAlive(apart) })
		})
	}
}

func pidIn(t *testing.T, path string) int {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}
