//go:build !race

package egress_test

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/podagent/podagent/internal/hunt"
	"github.com/podagent/podagent/internal/recipetest"
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
		t.Fatal("only root may read the agent's memory: run this test as root")
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
	h := hunt.New(value, placeholder, begun)
	h.Text(t, "the output", output)
	h.Text(t, "the tool's result", []byte(result.Text()))
	h.Files(t, filepath.Dir(sandbox.Workdir)) // which has the agent's log, too
	h.Files(t, "/tmp")
	h.Processes(t, agentOf(t, sandbox))
	h.Check(t)
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
	input, output = recipetest.StartKept(t, cmd)
	return input, output, placeholder
}

func toolInput(t *testing.T, command string) json.RawMessage {
	t.Helper()
	text, err := json.Marshal(map[string]string{"command": command})
	if err != nil {
		t.Fatal(err)
	}
	return text
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
