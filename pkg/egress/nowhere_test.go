//go:build !race

package egress_test

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/egress"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi/wayout"
	"github.com/podagent/podagent/pkg/tools"
)

// shows answers with the credential that it got, in all the ways that the mask knows.
var shows = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	got := r.Header.Get("Authorization")
	w.Header().Set("X-Shown", got)
	_ = json.NewEncoder(w).Encode([]string{got, base64.StdEncoding.EncodeToString([]byte(got)), hex.EncodeToString([]byte(got))})
})

// uses sends the credential to a host that shows it, in three ways. The first two keep the answers in
// files and in the memory of a process that goes on, which reads its input then. It prints so much that
// the journal is a file.
const uses = `curl -sSv -H "Authorization: Bearer $TOKEN" $URL >answer 2>log
kept=$(curl -sSi -u "me:$TOKEN" $URL)
curl -sSi --http1.1 -u "me:$(cat secrets/token)" $URL
yes "$TOKEN" | head -n 20000
echo done
read -r _`

// TestSecretIsNowhereInTheSandbox searches all that a sandbox has for a credential that its programs
// have used, from outside, as root may.
func TestSecretIsNowhereInTheSandbox(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may read the agent's memory")
	}
	begun := time.Now()
	value := "value-" + rand.Text()
	sandbox := launchFenced(t)
	v := newVault(t, shows)
	v.value = value
	v.let(t, sandbox, func(o *egress.Options) { o.Secrets[0].Value = []byte(value) })
	input, output, placeholder := use(t, sandbox, v)
	defer input.Close()
	result, err := tools.New(sandbox, tools.Options{}, tools.Coding()...).Call(t.Context(), "Bash", toolInput(t, `export URL=`+v.url()+`; `+strings.Replace(uses, "\nread -r _", "", 1)))
	if err != nil || result.IsError {
		t.Fatal(err, result.Text())
	}
	if n := v.letIn.Load(); n != 6 {
		t.Errorf("the host saw the secret %d times, want 6", n)
	}
	places := map[string][]byte{"the output": output, "the tool's result": []byte(result.Text())}
	h := hunt{begun: begun, texts: spellingsOf(value), control: placeholder}
	for place, content := range places {
		h.look(t, place, bytes.NewReader(content))
	}
	h.files(t, filepath.Dir(sandbox.Workdir)) // which has the agent's log, too
	h.files(t, "/tmp")
	agent := agentOf(t, sandbox)
	for _, pid := range processesBelow(t, agent) {
		h.process(t, pid)
	}
	for _, kind := range []string{"files", "memory", "environment", "open files"} {
		if h.found[kind] == 0 {
			t.Errorf("the search did not find the placeholder in %s, where it is", kind)
		}
	}
	t.Logf("searched %d MiB in %d places; the placeholder was in %v", h.size>>20, h.places, h.found)
}

func launchFenced(t *testing.T) *launcher.Sandbox {
	t.Helper()
	s, err := launchertest.Local(t).Launch(t.Context(), launcher.Spec{ID: t.Name(), Egress: wayout.Config{Mode: wayout.Mode(wayout.Landlock)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// use runs the script, which goes on until its input ends. It returns its output, and the placeholder.
func use(t *testing.T, sandbox *launcher.Sandbox, v *vault) (input io.Closer, output []byte, placeholder string) {
	t.Helper()
	placeholder = strings.TrimSpace(in(t, sandbox, "echo $TOKEN"))
	cmd := sandbox.Command(t.Context(), "bash", "-c", uses)
	cmd.Env = []string{"URL=" + v.url()}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for r := bufio.NewReader(stdout); ; {
		line, err := r.ReadBytes('\n')
		if output = append(output, line...); string(line) == "done\n" {
			return stdin, output, placeholder
		}
		if err != nil {
			t.Fatalf("%v after %s", err, output)
		}
	}
}

func toolInput(t *testing.T, command string) json.RawMessage {
	t.Helper()
	text, err := json.Marshal(map[string]string{"command": command})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// spellingsOf are the ways in which programs, and HTTP, write a credential.
func spellingsOf(value string) [][]byte {
	return [][]byte{
		[]byte(value),
		[]byte(hex.EncodeToString([]byte(value))),
		[]byte(base64.StdEncoding.EncodeToString([]byte("me:" + value))[:8*len(value)/6-8]),
		[]byte(base64.StdEncoding.EncodeToString([]byte(value))[:8*len(value)/6-8]),
	}
}

// hunt looks for texts that must not be there, and counts a text that is.
type hunt struct {
	begun   time.Time
	texts   [][]byte
	control string

	found  map[string]int // places that have the control, by kind
	places int
	size   int64
}

// look searches what is read, and reports whether it has the control.
func (h *hunt) look(t *testing.T, place string, r io.Reader) (has bool) {
	t.Helper()
	h.places++
	const overlap = 256
	buffer := make([]byte, overlap+1<<20)
	for kept := 0; ; {
		n, err := io.ReadFull(r, buffer[kept:])
		h.size += int64(n)
		piece := buffer[:kept+n]
		for _, text := range h.texts {
			if bytes.Contains(piece, text) {
				t.Errorf("%s has the secret, as %.12q…", place, text)
			}
		}
		has = has || bytes.Contains(piece, []byte(h.control))
		if err != nil { // the end, or a page that nobody may read
			return has
		}
		kept = copy(buffer, piece[len(piece)-overlap:])
	}
}

func (h *hunt) count(kind string, has bool) {
	if h.found == nil {
		h.found = map[string]int{}
	}
	if has {
		h.found[kind]++
	}
}

// files searches those below a directory that are of this test's time.
func (h *hunt) files(t *testing.T, dir string) {
	t.Helper()
	_ = filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && strings.HasPrefix(entry.Name(), "go-") {
			return fs.SkipDir // of the go command, which builds other tests
		}
		if err != nil || !entry.Type().IsRegular() {
			return nil // it is another test's, and has gone
		}
		if info, err := entry.Info(); err == nil && info.ModTime().After(h.begun.Add(-time.Second)) {
			h.file(t, "files", name)
		}
		return nil
	})
}

func (h *hunt) file(t *testing.T, kind, name string) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		return // it has gone
	}
	defer f.Close()
	h.count(kind, h.look(t, name, f))
}

// process searches a process: its environment, its memory, and the files that it has open, as journals
// are, which have no names.
func (h *hunt) process(t *testing.T, pid int) {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d", pid)
	h.file(t, "environment", dir+"/environ")
	h.file(t, "arguments", dir+"/cmdline")
	opened, _ := os.ReadDir(dir + "/fd")
	for _, fd := range opened {
		name := filepath.Join(dir, "fd", fd.Name())
		if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
			h.file(t, "open files", name)
		}
	}
	maps, err := os.ReadFile(dir + "/maps")
	if err != nil {
		t.Fatal(err)
	}
	memory, err := os.Open(dir + "/mem")
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	for line := range strings.Lines(string(maps)) {
		var from, to int64
		var mode string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &mode); err != nil {
			continue // an address of the kernel's
		}
		if mode[0] == 'r' {
			h.count("memory", h.look(t, dir+"/mem: "+line, io.NewSectionReader(memory, from, to-from)))
		}
	}
}

// agentOf returns the process of a sandbox's agent.
func agentOf(t *testing.T, sandbox *launcher.Sandbox) int {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(in(t, sandbox, "echo $PPID")))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// processesBelow returns a process, and its descendants.
func processesBelow(t *testing.T, pid int) []int {
	t.Helper()
	all := []int{pid}
	children, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range children {
		text, _ := os.ReadFile(file) // a thread that has ended has none
		for _, word := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(word); err == nil {
				all = append(all, processesBelow(t, child)...)
			}
		}
	}
	return all
}
