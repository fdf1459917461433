//go:build linux && !race

package launcher_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi/isolation"
)

// An errand is what this program does as a user, in a process of its own: it launches a sandbox,
// runs scripts in it, and ends it when its input ends.
type errand struct {
	Dir      string // of [stageFor]
	ID       string // of the sandbox, if not "a"
	Agent    string // in Dir, if not "podagent"
	UID      uint32
	Mode     isolation.Mode
	Level    *isolation.Level // that the sandbox must have, if not nil
	Limits   corev1.ResourceList
	Readable []string
	Env      []string
	// Mounts are directories of this machine by the names in Dir where the process sees them, whoever else can.
	Mounts  map[string]string
	Time    time.Duration // how long all takes at most, if not [hung]
	Scripts []string
	Last    string // the script that ends what the others have begun
	Group   string // the control group in which the process starts, if not that of the test
	Refused string // what the error says by which the sandbox must be refused for its isolation, if so
	Fails   string // what the error says by which it must fail, though not for its isolation, if so

	outputs []string
	errs    []error
}

// A done script is what an errand reports of it.
type done struct{ Output, Error string }

// run runs the errand, which then has the outputs and errors of its scripts.
func (e *errand) run(t *testing.T) { e.start(t)() }

// start runs the scripts, and returns what ends the sandbox.
func (e *errand) start(t *testing.T) (end func()) {
	t.Helper()
	text, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), cmp.Or(e.Time, hung)+hung)
	t.Cleanup(cancel)
	cmd := e.command(ctx, filepath.Join(e.Dir, "program"))
	cmd.Env = append(cmd.Env, roleVariable+"=errand")
	if e.Group != "" {
		group, err := os.Open(e.Group)
		if err != nil {
			t.Fatal(err)
		}
		defer group.Close()
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(group.Fd())
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	input, err1 := cmd.StdinPipe()
	output, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(input, "%s\n", text)
	results := json.NewDecoder(output)
	for range e.Scripts {
		var d done
		if err := results.Decode(&d); err != nil {
			t.Fatalf("%v, %v: %s", err, cmd.Wait(), &said)
		}
		var failed error
		if d.Error != "" {
			failed = errors.New(d.Error)
		}
		e.outputs, e.errs = append(e.outputs, d.Output), append(e.errs, failed)
	}
	return func() {
		input.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %s", err, &said)
		}
	}
}

// asUser mounts pairs of directories in a namespace of its own, where they go with the last process, and runs a program as a user.
const asUser = `set -e; uid=$1; shift
while [ "$1" != -- ]; do mount --bind "$1" "$2"; shift 2; done
shift; exec setpriv --reuid $uid --regid $uid --clear-groups -- "$@"`

// command returns a command of the user outside of the sandbox.
func (e *errand) command(ctx context.Context, args ...string) *exec.Cmd {
	user := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: e.UID, Gid: e.UID}}
	if len(e.Mounts) > 0 {
		user.Credential = nil
		mounting := []string{"unshare", "--mount", "sh", "-c", asUser, "sh", strconv.Itoa(int(e.UID))}
		for name, dir := range e.Mounts {
			mounting = append(mounting, dir, filepath.Join(e.Dir, name))
		}
		args = append(append(mounting, "--"), args...)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.SysProcAttr = user
	cmd.Dir = filepath.Join(e.Dir, "work")
	cmd.Env = append([]string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + e.Dir}, e.Env...)
	return cmd
}

// playErrand is what the process does.
func playErrand() (err error) {
	ctx, in := context.Background(), bufio.NewReader(os.Stdin)
	text, err := in.ReadBytes('\n')
	if err != nil {
		return err
	}
	var e errand
	if err := json.Unmarshal(text, &e); err != nil {
		return err
	}
	l := &launcher.Local{StateDir: filepath.Join(e.Dir, "state"), Agent: filepath.Join(e.Dir, cmp.Or(e.Agent, "podagent")), Isolation: e.Mode, Limits: e.Limits, Readable: e.Readable}
	id := cmp.Or(e.ID, "a")
	s, err := l.Launch(ctx, launcher.Spec{ID: id, Env: e.Env})
	switch isolation := errors.Is(err, launcher.ErrIsolation); {
	case e.Refused != "" && isolation && strings.Contains(err.Error(), e.Refused):
		return nil
	case e.Fails != "" && err != nil && !isolation && strings.Contains(err.Error(), e.Fails):
		return nil
	case err != nil:
		return err
	}
	defer func() { err = errors.Join(err, s.Close(), l.Terminate(ctx, id)) }()
	if e.Level != nil && s.Isolation.Level != *e.Level {
		return fmt.Errorf("it is isolated by %+v", s.Isolation)
	}
	inTime, cancel := context.WithTimeout(ctx, cmp.Or(e.Time, hung)) // what hangs is ended with the sandbox
	defer cancel()
	for _, script := range e.Scripts {
		out, err := s.Command(inTime, "sh", "-c", script).CombinedOutput()
		d := done{Output: string(out)}
		if err != nil {
			d.Error = err.Error()
		}
		if err := json.NewEncoder(os.Stdout).Encode(d); err != nil {
			return err
		}
	}
	if e.Refused != "" || e.Fails != "" {
		return fmt.Errorf("the sandbox is not refused, and isolated by %+v", s.Isolation)
	}
	_, err = io.Copy(io.Discard, in)
	if e.Last != "" {
		err = errors.Join(err, s.Command(ctx, "sh", "-c", e.Last).Run())
	}
	return err
}
