package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Anybody can set the variable by which a program tells its next stage that it is isolated. An agent that
// is not serves nobody.
func TestServeBelievesNoVariableThatItIsIsolated(t *testing.T) {
	for _, test := range []struct{ name, state, want string }{
		{"no state", `hello`, "invalid character"},
		{"no stage", `{}`, `there is no stage ""`},
		{"before its mounts", `{"Stage":"mounts"}`, "it is not process 1"},
		{"in namespaces", `{"Stage":"inside","Level":"namespaces"}`, "it is not process 1"},
		{"within rules", `{"Stage":"inside","Level":"landlock"}`, "no rule keeps it from /"},
		{"within rules, with all to read", `{"Stage":"inside","Level":"landlock","View":{"Readable":["/"],"Home":%q}}`, "no rule keeps it from "},
		{"at no level", `{"Stage":"inside"}`, `there is no level ""`},
	} {
		t.Run(test.name, func(t *testing.T) {
			state := test.state
			home := filepath.Join(openDir(t), "home")
			if strings.Contains(state, "%q") {
				state = fmt.Sprintf(state, home)
			}
			out := serveInStage(t, state, home)
			if !strings.Contains(out, "this one is not isolated as it says: "+test.want) && !strings.Contains(out, "PODAGENT_ISOLATION_STAGE: "+test.want) {
				t.Errorf("it says %q", out)
			}
		})
	}
}

// openDir makes a directory that all users can use.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

// serveInStage runs the agent with this state in its variable, without rights and without a way to new ones,
// as where it is isolated. It returns what it says at its end.
func serveInStage(t *testing.T, state, home string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	const nobody = 65534
	cmd := exec.CommandContext(ctx, "setpriv", "--no-new-privs", "bash", "-c", `exec -a podagent /proc/self/fd/3 "$@"`, "bash",
		"serve", "--isolation", "auto", "--home", home, "--temp", home, "--listen", "unix:"+home+".sock")
	program, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	cmd.ExtraFiles = []*os.File{program}
	cmd.Env = append(os.Environ(), "PODAGENT_ISOLATION_STAGE="+state)
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	out, err := cmd.CombinedOutput()
	if _, ok := errors.AsType[*exec.ExitError](err); !ok {
		t.Fatalf("it ends with %v: %s", err, out)
	}
	return string(out)
}
