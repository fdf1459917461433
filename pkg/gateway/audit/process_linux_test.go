package audit_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/gateway/audit"
)

// logDir names a directory to the process that a test starts.
const logDir = "AUDIT_TEST_DIR"

// again returns a command that runs the test in a process of its own, with a directory for its log.
func again(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), logDir+"="+dir)
	return cmd
}

// Whatever began before a process is killed is in its log, and nothing of it is damaged.
func TestALogIsWholeUpToTheKillOfItsProcess(t *testing.T) {
	if dir := os.Getenv(logDir); dir != "" {
		actUntilKilled(t, dir)
		return
	}
	dir := t.TempDir()
	must(t, audit.MakeKey(dir+"/audit.pem"))
	key, err := audit.LoadKey(dir + "/audit.pem")
	must(t, err)
	cmd := again(t, dir)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	told := bufio.NewScanner(out)
	var begun []string
	for told.Scan() {
		begun = append(begun, told.Text())
		if len(begun) == 2000 {
			must(t, cmd.Process.Kill())
		}
	}
	_ = cmd.Wait()
	chains, err := audit.Verify(public(key), filesIn(t, dir))
	must(t, err)
	if len(chains) != 1 || chains[0].Problem != "" || chains[0].State == audit.Closed || chains[0].Torn > 1 {
		t.Errorf("the log is %q", tell(chains))
	}
	text, err := os.ReadFile(filesIn(t, dir)[0])
	must(t, err)
	there := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		_, rest, _ := strings.Cut(line, `"type":"begin"`)
		_, rest, _ = strings.Cut(rest, `"id":"`)
		id, _, _ := strings.Cut(rest, `"`)
		there[id] = true
	}
	for _, id := range begun {
		if !there[id] {
			t.Errorf("the log lacks %s, which began", id)
		}
	}
	if len(begun) < 2000 {
		t.Errorf("%d acts began", len(begun))
	}
}

// actUntilKilled says of each act that it has begun, and lets some of them end.
func actUntilKilled(t *testing.T, dir string) {
	key, err := audit.LoadKey(dir + "/audit.pem")
	must(t, err)
	log := begin(t, audit.Options{Dir: dir, Key: key})
	for actor := range 8 {
		go func() {
			for i := 0; ; i++ {
				id := fmt.Sprintf("%d-%d", actor, i)
				if log.Begin(t.Context(), act(id)) != nil {
					return
				}
				fmt.Println(id)
				if i%10 > 0 {
					log.End(t.Context(), act(id), gateway.Outcome{Status: 200})
				}
			}
		}()
	}
	select {} // until the kill
}

// No act begins while a file system is full, and the log goes on when it has room.
func TestALogRefusesActsWhileItsFileSystemIsFull(t *testing.T) {
	if dir := os.Getenv(logDir); dir != "" {
		fillUp(t, dir)
		return
	}
	cmd := again(t, t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v (this test needs a user namespace)\n%s", err, out)
	}
}

func fillUp(t *testing.T, dir string) {
	must(t, syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"))
	const filler = "/filler"
	must(t, os.WriteFile(dir+filler, make([]byte, 128<<10), 0o600))
	key := newKey(t)
	log := begin(t, audit.Options{Dir: dir, Key: key})
	must(t, log.Begin(t.Context(), act("first")))
	acts, err := 0, error(nil)
	for err == nil {
		err = do(log, fmt.Sprint(acts))
		acts++
	}
	if !strings.Contains(err.Error(), "no space left on device") {
		t.Errorf("an act does not begin: %v", err)
	}
	log.End(t.Context(), act("first"), gateway.Outcome{Status: 200})
	must(t, os.Remove(dir+filler))
	must(t, do(log, "last"))
	must(t, log.Close())
	got := verify(t, public(key), filesIn(t, dir)...)
	if len(got) != 1 || !strings.HasPrefix(got[0], "closed ") || strings.Contains(got[0], "open") || strings.Contains(got[0], ":") {
		t.Errorf("the log is %q", got)
	}
	text, err := os.ReadFile(filesIn(t, dir)[0])
	must(t, err)
	if linesOf(string(text), "last") != 2 || linesOf(string(text), "first") != 2 || acts < 100 {
		t.Errorf("the log of %d acts ends with %s", acts, text[max(0, len(text)-4000):])
	}
}
