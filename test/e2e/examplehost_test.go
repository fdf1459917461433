package e2e

// The example host is killed at any moment and then tried again with the same job
// id. Nothing is lost, and nothing is done twice.

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podagent/podagent/pkg/tools/sessionstore"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

const (
	// hostToken is a variable in the host's environment, for commands.
	hostToken = "a-token-of-the-example-host"
	// tryLater is the host's exit code when another host has the job.
	tryLater = 75
)

// hostScript is what the model of the example host says. The long command waits for
// a file, and the last command counts the steps of all.
const hostScript = `[
	{"text": "I look first.", "calls": [{"name": "Read", "input": {"path": "README.md"}}]},
	{"calls": [
		{"name": "Bash", "input": {"command": "echo first >> steps"}},
		{"name": "Bash", "input": {"command": "echo begun >> steps; until [ -e go ]; do sleep 0.02; done; echo ended >> steps; echo the token is $TOKEN"}},
		{"name": "Bash", "input": {"command": "echo third >> steps"}}
	]},
	{"calls": [{"name": "Write", "input": {"path": "notes", "content": "one\n"}}]},
	{"calls": [{"name": "Edit", "input": {"path": "notes", "old_text": "one", "new_text": "one one"}}]},
	{"calls": [{"name": "Bash", "input": {"command": "sort steps | uniq -c; cat notes"}}]},
	{"text": "All is done."}
]`

// exampleHost is the host's program, and what each try of a job gets.
type exampleHost struct {
	program string
	env     []string
	args    []string
	job     string
	store   sessionstore.Store
}

// newExampleHost returns the host with a new job. The caller adds where it works.
func newExampleHost(t *testing.T, program string, store sessionstore.Store, args ...string) *exampleHost {
	t.Helper()
	dir := t.TempDir()
	script, project := filepath.Join(dir, "script.json"), filepath.Join(dir, "project")
	for name, content := range map[string]string{
		script: hostScript, filepath.Join(project, "README.md"): "a project\n", filepath.Join(project, "AGENTS.md"): "Be careful.\n",
	} {
		err := os.MkdirAll(filepath.Dir(name), 0o755)
		if err == nil {
			err = os.WriteFile(name, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	job := "Job/" + t.Name()
	return &exampleHost{
		program: program, job: job, store: store, env: append(os.Environ(), "TOKEN="+hostToken),
		args: append([]string{"-job", job, "-prompt", "Do it.", "-script", script, "-project", project, "-secret", "TOKEN"}, args...),
	}
}

// hostTry is one try of a job.
type hostTry struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdout bytes.Buffer
	ended  chan struct{}

	mu  sync.Mutex
	log strings.Builder
}

// Write takes the host's log.
func (r *hostTry) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.Write(p)
}

func (r *hostTry) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.String()
}

// try starts the host.
func (h *exampleHost) try(t *testing.T, args ...string) *hostTry {
	t.Helper()
	r := &hostTry{t: t, cmd: exec.Command(h.program, append(h.args, args...)...), ended: make(chan struct{})}
	r.cmd.Env, r.cmd.Stdout, r.cmd.Stderr = h.env, &r.stdout, r
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = r.cmd.Wait() // ProcessState has the status
		close(r.ended)
	}()
	t.Cleanup(func() {
		r.kill()
		if t.Failed() {
			t.Logf("a try logged:\n%s", r.text())
		}
	})
	return r
}

// logs waits until the host has logged something.
func (r *hostTry) logs(what string) {
	r.t.Helper()
	harness.Await(r.t, "the log of "+what, func() bool {
		if strings.Contains(r.text(), what) {
			return true
		}
		select {
		case <-r.ended:
			r.t.Fatalf("it ended (%v) before it logged %s", r.cmd.ProcessState, what)
		default:
		}
		return false
	})
}

// reaches waits for an event that the host does not get past.
func (r *hostTry) reaches(what string, reached <-chan struct{}) {
	r.t.Helper()
	select {
	case <-reached:
	case <-r.ended:
		r.t.Fatalf("it ended (%v) before %s", r.cmd.ProcessState, what)
	case <-time.After(harness.Hung):
		r.t.Fatalf("it did not reach %s", what)
	}
}

// kill ends the host as a crash does.
func (r *hostTry) kill() {
	_ = r.cmd.Process.Kill() // it may have ended already
	<-r.ended
}

// exits waits for the end and returns the exit code.
func (r *hostTry) exits() int {
	r.t.Helper()
	select {
	case <-r.ended:
	case <-time.After(harness.Hung):
		r.t.Fatal("it did not end")
	}
	return r.cmd.ProcessState.ExitCode()
}

// succeeds waits for the answer.
func (r *hostTry) succeeds() {
	r.t.Helper()
	if code := r.exits(); code != 0 || r.stdout.String() != "All is done.\n" {
		r.t.Fatalf("it exited with %d, and said %q", code, r.stdout.String())
	}
}

// kept is the conversation as the host stores it.
type kept struct {
	System   string
	Messages []struct {
		Role, Text string
		Calls      []struct {
			Name   string
			Answer *struct {
				Content []struct{ Text string }
				IsError bool `json:"is_error"`
			}
		}
	}
}

// transcript returns the stored conversation, with a line for each message, and for
// each call with its answer.
func (h *exampleHost) transcript(t *testing.T) []string {
	t.Helper()
	snapshot, err := h.store.Load(t.Context(), h.job)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(snapshot.Data, []byte(hostToken)) {
		t.Errorf("the secret is in the conversation: %s", snapshot.Data)
	}
	var c kept
	if err := json.Unmarshal(snapshot.Data, &c); err != nil {
		t.Fatal(err)
	}
	lines := []string{"system: " + c.System}
	for _, m := range c.Messages {
		lines = append(lines, m.Role+": "+m.Text)
		for _, call := range m.Calls {
			switch {
			case call.Answer == nil:
				lines = append(lines, call.Name)
			case call.Name == "Edit" && !call.Answer.IsError: // the diff does not matter
				lines = append(lines, "Edit -> "+editDone)
			default:
				lines = append(lines, fmt.Sprintf("%s -> %v %q", call.Name, call.Answer.IsError, call.Answer.Content[0].Text))
			}
		}
	}
	return lines
}

// The answers to the edit, from a host that was not killed, and from one that was.
const (
	editDone    = "done"
	editUnknown = `true "The host of this session was restarted during this call. The call may have been done or not: check before you make it again."`
)

// isWhole compares the conversation with that of a job in which each step was done
// once. If the answer to the edit is unknown, the notes show whether it was done.
func (h *exampleHost) isWhole(t *testing.T, edit, notes string) {
	t.Helper()
	want := []string{
		"system: Be careful.",
		"user: Do it.",
		"model: I look first.",
		`Read -> false "(lines 1-1 of 1)\na project\n"`,
		"model: ",
		`Bash -> false "(no output)"`,
		`Bash -> false "the token is [REDACTED:TOKEN]\n"`,
		`Bash -> false "(no output)"`,
		"model: ",
		`Write -> false "Wrote notes (1 line, 4 bytes)"`,
		"model: ",
		"Edit -> " + edit,
		"model: ",
		fmt.Sprintf("Bash -> false %q", "      1 begun\n      1 ended\n      1 first\n      1 third\n"+notes+"\n"),
		"model: All is done.",
	}
	if diff := cmp.Diff(want, h.transcript(t)); diff != "" {
		t.Errorf("the conversation (-want +got):\n%s", diff)
	}
}

// wasToldOfTheLoss checks that the model learned of the lost sandbox, and that this
// many commands, which it had asked for before that, were not run in the next one.
func (h *exampleHost) wasToldOfTheLoss(t *testing.T, commands int) {
	t.Helper()
	text := strings.Join(h.transcript(t), "\n")
	for want, times := range map[string]int{
		`Bash -> true "The sandbox was lost before this call`:  commands,
		"user: The sandbox was lost and replaced by a new one": 1,
		"cannot read: steps": 1,
	} {
		if strings.Count(text, want) != times {
			t.Errorf("%q does not occur %d times:\n%s", want, times, text)
		}
	}
}

// forgets makes the last try of a job: the job is done, repeats its answer, and is
// forgotten.
func (h *exampleHost) forgets(t *testing.T) {
	t.Helper()
	last := h.try(t, "-forget")
	last.succeeds()
	if strings.Contains(last.text(), "launching") {
		t.Error("a job that was done got a sandbox")
	}
	if _, err := h.store.Load(t.Context(), h.job); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its conversation: %v", err)
	}
}
