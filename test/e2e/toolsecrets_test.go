package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/tools"
	"github.com/podagent/podagent/pkg/tools/secret"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

const toolSecret = "xq7-Kd0vP-2mZt"

// TestSecretsOfToolsAreNowhereButInTheEnvironment searches for a secret everywhere
// in a cluster that its users can look.
func TestSecretsOfToolsAreNowhereButInTheEnvironment(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	var log lockedBuffer
	l := c.Launcher()
	l.Log = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s := harness.Launch(t, l, c.Spec("secrets"))
	secrets := map[string]secret.Provider{"TOKEN": secret.Static(toolSecret)}
	printenv := tools.Command{Path: "printenv", Secrets: map[string]secret.Provider{"OF_COMMAND": secret.Static(toolSecret + "-of-command")}}
	session := tools.New(s, tools.Options{Secrets: secrets}, append(tools.Coding(), printenv)...)

	shown := map[string]string{}
	for name, call := range map[string]tools.Call{
		"Bash":            {Name: "Bash", Input: json.RawMessage(`{"command": "test ${#TOKEN} = 14 && env"}`)},
		"long output":     {Name: "Bash", Input: json.RawMessage(`{"command": "seq 1 3000; env; seq 1 3000"}`)},
		"a timeout":       {Name: "Bash", Input: json.RawMessage(`{"command": "env; sleep 60", "timeout": 0.5}`)},
		"the background":  {Name: "Bash", Input: json.RawMessage(`{"command": "env; sleep 300", "run_in_background": true}`)},
		"no such command": {Name: "BashOutput", Input: json.RawMessage(`{"id": "none"}`)},
		"Command":         {Name: "printenv", Input: json.RawMessage(`{}`)},
		"a wrong path":    {Name: "Read", Input: json.RawMessage(`{"path": "` + toolSecret + `"}`)},
	} {
		var live bytes.Buffer
		call.Output = &live
		result, err := session.Do(t.Context(), call)
		shown[name] = fmt.Sprint(result.Text(), err)
		shown["the live output of "+name] = live.String()
	}
	if !strings.Contains(shown["Bash"], "TOKEN=[REDACTED:TOKEN]\n") || !strings.Contains(shown["Command"], "OF_COMMAND=[REDACTED:OF_COMMAND]\n") {
		t.Errorf("the commands did not have it: %s, %s", shown["Bash"], shown["Command"])
	}
	shown["the launcher's log"] = log.String()
	lookAt(t, s, shown)
	lookAround(t, c, s.ID, shown)
	for what, text := range shown {
		if strings.Contains(text, toolSecret) {
			t.Errorf("%s shows it: %s", what, text)
		}
	}
}

// lookAt adds the agent's answers, and what processes of the sandbox see of each
// other's arguments and in the directory of temporary files.
func lookAt(t *testing.T, s *launcher.Sandbox, shown map[string]string) {
	t.Helper()
	processes, err := s.Processes(t.Context())
	if err != nil || len(processes) == 0 {
		t.Fatalf("%d processes, %v", len(processes), err)
	}
	shown["the list of processes"] = fmt.Sprintf("%+v", processes)
	for what, script := range map[string]string{
		"the arguments of processes": `cat /proc/[0-9]*/cmdline`,
		"the temporary files":        `grep -r . /tmp`,
	} {
		out, err := s.Shell(t.Context(), script).Output()
		if len(out) == 0 {
			t.Errorf("there are no %s: %v", what, err)
		}
		shown[what] = string(out)
	}
}

// lookAround adds what the cluster has about the sandbox.
func lookAround(t *testing.T, c *launchertest.Cluster, id string, shown map[string]string) {
	t.Helper()
	core := c.API(t).CoreV1()
	pods, err := core.Pods(c.Namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) != 1 {
		t.Fatalf("%d pods, %v", len(pods.Items), err)
	}
	pod := pods.Items[0]
	for what, list := range map[string]func() (any, error){
		"the pod of " + id:            func() (any, error) { return pod, nil },
		"the events of the namespace": func() (any, error) { return core.Events(c.Namespace).List(t.Context(), metav1.ListOptions{}) },
		"its ConfigMaps":              func() (any, error) { return core.ConfigMaps(c.Namespace).List(t.Context(), metav1.ListOptions{}) },
	} {
		objects, err := list()
		if err != nil {
			t.Fatal(err)
		}
		shown[what] = fmt.Sprintf("%+v", objects)
	}
	secrets, err := core.Secrets(c.Namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, kept := range secrets.Items {
		shown["the Secret "+kept.Name] = string(bytes.Join(slices.Collect(maps.Values(kept.Data)), []byte("\n")))
	}
	for _, container := range pod.Spec.Containers {
		harness.Await(t, "the log of "+container.Name, func() bool { // the node has it soon after the first answer
			logs, err := core.Pods(c.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Container: container.Name}).DoRaw(t.Context())
			shown["the log of "+container.Name] = string(logs)
			return err == nil
		})
	}
}

// lockedBuffer receives a log from many goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}
