package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/podagent/podagent/cmd/internal/render"
	"github.com/podagent/podagent/cmd/orchestrator/internal/console"
	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/agentsandbox"
	"github.com/podagent/podagent/pkg/podapi"
)

// in returns err as a call inside the sandbox "a b" reports it.
func in(err error) error { return &sandboxError{id: "a b", err: err} }

// noWayTo returns err as a launch of the sandbox "a b" reports it.
func noWayTo(err error) error { return &sandboxError{id: "a b", launching: true, err: err} }

func pathErr(op string, err error) error { return &fs.PathError{Op: op, Path: "p", Err: err} }

// TestFailures checks the message and the exit status of each failure.
func TestFailures(t *testing.T) {
	ended := func(s podapi.ExitStatus) error { return in(&podapi.ExitError{ExitStatus: s}) }
	tests := []struct {
		err    error
		status int
		said   string // empty if there is no message
	}{
		{nil, 0, ""},
		{in(render.ErrNothing), 1, ""},
		{usagef("no such thing"), 125, "no such thing"},

		{noWayTo(fmt.Errorf("opening sandbox: %w", launcher.ErrNotFound)), 125, `no sandbox "a b": create it with "orchestrator up 'a b'"`},
		{noWayTo(launcher.ErrNoAgent), 125, launcher.ErrNoAgent.Error()},
		{noWayTo(&fs.PathError{Op: "fork/exec", Path: "/x", Err: syscall.ENOENT}), 125, "fork/exec /x: no such file or directory: set PODAGENT_BIN to the path of the podagent binary"},
		{noWayTo(errors.New("no luck")), 125, "no luck"},
		{noWayTo(&launcher.SpecError{Field: "Pod.Image", Msg: "is bad"}), 125, "--image is bad"},
		{noWayTo(&launcher.SpecError{Field: "New", Msg: "is bad"}), 125, "invalid sandbox spec: New is bad"},
		{noWayTo(fmt.Errorf("x: %w", clientcmd.ErrEmptyConfig)), 125, "there is no kubeconfig, and this does not run in a cluster: give --kubeconfig FILE, or use --backend local"},
		{noWayTo(&url.Error{Op: "Get", URL: "u", Err: syscall.ECONNREFUSED}), 125, `Get "u": connection refused: "orchestrator doctor" checks the connection to the API server`},
		{noWayTo(&launcher.GitError{URL: "u", Msg: "no"}), 125, "checking out u: no: check --git and --git-ref, and the login in PODAGENT_GIT_USERNAME and PODAGENT_GIT_PASSWORD"},
		{noWayTo(&keptInError{&launcher.GitError{URL: "https://a.test/u", Msg: "no"}}), 125, "checking out https://a.test/u: no: check --git and --git-ref, and the login in PODAGENT_GIT_USERNAME and PODAGENT_GIT_PASSWORD"},
		{noWayTo(&keptInError{&launcher.GitError{URL: "file:///u", Msg: "no"}}), 125, "checking out file:///u: no: check --git and --git-ref; an isolated sandbox reads a repository of this machine if --readable DIR names its directory"},
		{noWayTo(&keptInError{&launcher.GitError{URL: "git@a.test:u", Msg: "no"}}), 125, "checking out git@a.test:u: no: check --git and --git-ref; an isolated sandbox reaches servers by its proxy alone, and so by https:// and http://"},
		{in(podapi.ErrUnauthenticated), 125, podapi.ErrUnauthenticated.Error() + ": give the identity that the sandbox was launched with: --identity or --identity-secret"},

		{in(pathErr("read", podapi.ErrUnavailable)), 125, `read p: agent unavailable: "orchestrator list" says whether the agent still runs, "orchestrator up 'a b'" starts it again`},
		{in(pathErr("exec", podapi.ErrCut)), 125, `exec p: stream was cut before its end: "orchestrator list" says whether the agent still runs`},
		{in(pathErr("read", podapi.ErrProtocol)), 125, "read p: agent broke the contract: do not trust what this sandbox says: its agent is another program, or a broken one"},
		{in(podapi.ErrAgentLost), 125, "agent lost: the command may have had effects: look at the files before you run it again"},
		{in(podapi.ErrConflict), 125, `exec id is in use by another command: choose another --exec-id, or go back to the other command with "orchestrator attach"`},
		{in(podapi.ErrExecExpired), 125, `exec id has expired: "orchestrator ps 'a b' -a" lists the commands that the agent knows`},
		{in(podapi.ErrVersion), 125, "incompatible versions"},

		{in(pathErr("read", syscall.ENOENT)), 1, "read p: no such file or directory"},
		{in(pathErr("read", syscall.EISDIR)), 1, `read p: is a directory: "orchestrator ls" lists it, "orchestrator cp" copies it`},
		{in(pathErr("write", syscall.EEXIST)), 1, "write p: file exists: leave out --exclusive to replace it"},
		{in(pathErr("mkdir", syscall.ENOENT)), 1, "mkdir p: no such file or directory: -p makes the missing directories"},
		{in(pathErr("remove", syscall.ENOTEMPTY)), 1, "remove p: directory not empty: -r removes it with everything in it"},
		{in(&os.LinkError{Op: "rename", Old: "p", New: "q", Err: syscall.EEXIST}), 1, "rename p q: file exists: NEW is the full new name; only a file can be replaced, and only without --no-clobber"},
		{in(pathErr("edit", &fsops.EditError{Count: 3})), 1, "edit p: old text occurs 3 times, not once: give --old more of the text around it, or --all to replace every occurrence"},
		{in(pathErr("edit", &fsops.EditError{Hint: "only white space differs from line 4"})), 1, "edit p: old text not found (only white space differs from line 4): give --old exactly as it is in the file, white space included"},
		{in(pathErr("pull", fmt.Errorf("%w: it links to \"/\"", fsops.ErrUnsafeArchive))), 1, "pull p: archive entry leaves the target directory: it links to \"/\": --outside-links also copies symbolic links that lead out of the tree"},

		{in(pathErr("exec", syscall.ENOENT)), 127, "exec p: no such file or directory: give the path of a command, or the name of one in the PATH of the sandbox"},
		{in(&outsideError{pathErr("exec", syscall.ENOENT), "/home/me/bin/p"}), 127, "exec p: no such file or directory: its sandbox cannot read /home/me/bin/p of this machine: launch one with --readable DIR, the directory of all that belongs to it"},
		{in(pathErr("exec", syscall.EACCES)), 126, `exec p: permission denied: make it executable ("chmod +x"), or run it with an interpreter`},
		{in(pathErr("exec", syscall.ENOEXEC)), 126, "exec p: exec format error: it is neither a program of this platform nor a script that begins with #!"},
		{in(pathErr("chdir", syscall.ENOENT)), 125, `chdir p: no such file or directory: make it with "orchestrator mkdir -p", or give another --workdir`},

		{ended(podapi.ExitStatus{Reason: podapi.Exited, Code: 7}), 7, ""},
		{ended(podapi.ExitStatus{Reason: podapi.Exited, Code: 124}), 124, ""},
		{ended(podapi.ExitStatus{Reason: podapi.Signalled, Code: 137, Signal: 9}), 137, ""},
		{ended(podapi.ExitStatus{Reason: podapi.TimedOut, Code: 143, Wall: 1500 * time.Millisecond}), 124, "the command ran into its timeout and was ended after 1.5s"},
		{ended(podapi.ExitStatus{Reason: podapi.OutOfMemory, Code: 137}), 137, "the command was ended because the sandbox ran out of memory"},
		{ended(podapi.ExitStatus{Reason: podapi.AgentLost}), 125, "the agent restarted while the command ran: how it ended is not known"},

		{in(&fs.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.EPIPE}), 141, ""},
	}
	for _, tt := range tests {
		if got := exitStatus(t.Context(), tt.err); got != tt.status {
			t.Errorf("the exit status for %v is %d, want %d", tt.err, got, tt.status)
		}
		var said strings.Builder
		report(t.Context(), &said, tt.err)
		want := ""
		if tt.said != "" {
			want = "orchestrator: " + tt.said + "\n"
		}
		if said.String() != want {
			t.Errorf("the message for %v is\n%swant\n%s", tt.err, said.String(), want)
		}
	}
}

// Who is attacked by an archive is not told to loosen the check that refuses it.
func TestNoHintHelpsAnArchiveOutOfItsTree(t *testing.T) {
	for err, want := range map[error]string{
		pathErr("pull", fsops.ErrUnsafeArchive):                                             "pull p: archive entry leaves the target directory",
		pathErr("pull", fmt.Errorf("%w through a symbolic link", fsops.ErrUnsafeArchive)):   "pull p: archive entry leaves the target directory through a symbolic link",
		&fs.PathError{Op: "pull", Path: "../x: it links to y", Err: fsops.ErrUnsafeArchive}: "pull ../x: it links to y: archive entry leaves the target directory",
	} {
		var said strings.Builder
		if report(t.Context(), &said, in(err)); said.String() != "orchestrator: "+want+"\n" {
			t.Errorf("the message for %v is\n%s", err, &said)
		}
	}
}

// The errors of agent-sandbox say how to get what is missing.
func TestHintsForAgentSandbox(t *testing.T) {
	for err, say := range map[error]string{
		agentsandbox.ErrNotInstalled: "--backend kubernetes",
		agentsandbox.ErrNoController: "agent-sandbox-controller",
		agentsandbox.ErrNoWarmPool:   `"orchestrator agent-sandbox template NAME | kubectl apply -f -"`,
		agentsandbox.ErrNoTemplate:   `"orchestrator agent-sandbox template NAME | kubectl apply -f -"`,
	} {
		hint, ok := strings.CutPrefix(explain(in(err)), err.Error()+": ")
		if !ok || !strings.Contains(hint, say) {
			t.Errorf("the message for %v is %q: it does not mention %s", err, explain(in(err)), say)
		}
	}
}

// The flags that keep a pod from being rejected are those of up, and fork has none of them.
func TestHintForAForkThatIsRefused(t *testing.T) {
	err := in(unknownSpecError{&launcher.PodError{Pod: "n/p", Class: launcher.ErrRejected, Message: "so it is"}})
	if said := explain(err); !strings.HasSuffix(said, `: so it is: make the other one with "orchestrator up", and give it the files with "orchestrator export" and "orchestrator import"`) {
		t.Errorf("the message is %q", said)
	}
}

// TestPodFailures checks that the message of each class says what to do, and that
// the exit status is not one of a command.
func TestPodFailures(t *testing.T) {
	for class, say := range map[error]string{
		launcher.ErrImage:          "--image",
		launcher.ErrUnschedulable:  "--requests",
		launcher.ErrCannotStart:    "--image",
		launcher.ErrCrashLoop:      "--image",
		launcher.ErrNotReady:       "--ready-timeout",
		launcher.ErrRejected:       "--limits",
		launcher.ErrNoStorageClass: "--storage-class",
		launcher.ErrForbidden:      `"orchestrator doctor"`,
		launcher.ErrNoNamespace:    "--namespace",
		launcher.ErrNotOurs:        "--namespace",
		launcher.ErrOtherKey:       "--identity",
		launcher.ErrNewer:          `"orchestrator version"`,
		launcher.ErrUnsigned:       `"orchestrator identity adopt 'a b'"`,
		launcher.ErrStale:          `"orchestrator up 'a b' --on-stale recreate"`,
		launcher.ErrEnded:          `"orchestrator down 'a b'"`,
		launcher.ErrDrift:          "--on-drift",
		launcher.ErrNoListener:     "--connection",
		launcher.ErrGone:           `"orchestrator up 'a b'"`,
		launcher.ErrOwned:          "--exclusive",
		launcher.ErrEgress:         "--egress-require",
	} {
		err := in(fmt.Errorf("x: %w", &launcher.PodError{Pod: "n/p", Class: class, Message: "so it is"}))
		if got := exitStatus(t.Context(), err); got != exitTrouble {
			t.Errorf("exit status for %v is %d, want %d", err, got, exitTrouble)
		}
		hint, ok := strings.CutPrefix(explain(err), "x: pod n/p: "+class.Error()+": so it is: ")
		if !ok || !strings.Contains(hint, say) {
			t.Errorf("the message for %v is %q: it does not mention %s", class, explain(err), say)
		}
	}
}

// TestStartFailures tells failures of the command's file from others.
func TestStartFailures(t *testing.T) {
	for _, tt := range []struct {
		err    error
		status int
	}{
		{syscall.ENOENT, 127},
		{syscall.EACCES, 126},
		{syscall.EPERM, 126},
		{syscall.ENOEXEC, 126},
		{syscall.EISDIR, 126},
		{syscall.ENOTDIR, 126},
		{syscall.ELOOP, 126},
		{syscall.EMFILE, 125},
		{syscall.EAGAIN, 125},
		{syscall.ENOMEM, 125},
		{fmt.Errorf("invalid environment: %w", syscall.EINVAL), 125},
		{errors.New("of no known class"), 125},
	} {
		if got := exitStatus(t.Context(), in(pathErr("exec", tt.err))); got != tt.status {
			t.Errorf("exit status for %v is %d, want %d", tt.err, got, tt.status)
		}
	}
}

func TestEachFailureIsALine(t *testing.T) {
	var said strings.Builder
	report(t.Context(), &said, errors.Join(errors.New("one"), usagef("two")))
	if want := "orchestrator: one\norchestrator: two\n"; said.String() != want {
		t.Errorf("got %q, want %q", said.String(), want)
	}
}

func TestInterruptedStatus(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(&console.SignalError{Signal: syscall.SIGTERM})
	for _, err := range []error{in(pathErr("read", context.Canceled)), in(context.Cause(ctx))} {
		if got := exitStatus(ctx, err); got != 143 {
			t.Errorf("exit status for %v after TERM is %d, want 143", err, got)
		}
	}
	if got := exitStatus(ctx, in(pathErr("read", syscall.ENOENT))); got != 1 {
		t.Errorf("exit status for another failure after TERM is %d, want 1", got)
	}
	if got := exitStatus(ctx, nil); got != 0 {
		t.Errorf("exit status for success after TERM is %d, want 0", got)
	}
}

func TestQuote(t *testing.T) {
	for word, want := range map[string]string{
		"job-1": "job-1", "a/b.c:d=e": "a/b.c:d=e", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "é": "'é'", "$x": "'$x'",
		"a\nb": `"a\nb"`,
	} {
		if got := quote(word); got != want {
			t.Errorf("quote(%q) = %s, want %s", word, got, want)
		}
	}
}
