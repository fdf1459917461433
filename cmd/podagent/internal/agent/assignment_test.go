package agent

import (
	"errors"
	"iter"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/podapi"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// assigns returns a text by which a caller assigns the agent of the pod "uid-1".
func (c caller) assigns(t *testing.T, assignment *pb.Assignment) string {
	t.Helper()
	text, err := wire.SignAssignment(assignment, "uid-1", c.key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// lastError returns the error that ends results.
func lastError[A any](results iter.Seq2[A, error]) (err error) {
	for _, err = range results {
	}
	return err
}

func serveUnassigned(t *testing.T, assignment string, owner caller) *podapi.Client {
	t.Helper()
	_, socket := serveTest(t, func(c *Config) {
		c.PodUID, c.AwaitAssignment, c.Assignment = "uid-1", true, assignment
		c.AuthorizedKeys = []wire.AuthorizedKey{owner.AuthorizedKey()}
	})
	return dial(t, podapi.DialOptions{Dial: unixDialer(socket), Identity: &owner.Identity, PodUID: "uid-1"})
}

func wantUnassigned(t *testing.T, client *podapi.Client) {
	t.Helper()
	if _, err := client.Info(t.Context()); err != nil {
		t.Errorf("Info: %v", err)
	}
	for name, call := range map[string]func() error{
		"a file":      func() error { return second(client.ReadFile(t.Context(), "/etc/hostname")) },
		"a command":   func() error { return client.Shell(t.Context(), "true").Run() },
		"a search":    func() error { return lastError(client.Glob(t.Context(), "*", fsops.GlobOptions{})) },
		"a port":      func() error { return second(client.Dial(t.Context(), 1)) },
		"environment": func() error { return client.Configure(t.Context(), podapi.Config{Env: []string{"A=1"}}) },
		"the life":    func() error { return client.Configure(t.Context(), podapi.Config{Expires: time.Now().Add(time.Hour)}) },
	} {
		if err := call(); !errors.Is(err, podapi.ErrUnassigned) {
			t.Errorf("%s before the assignment: %v", name, err)
		}
	}
}

func TestAgentAnswersInfoAndConfigureAloneUntilItIsAssigned(t *testing.T) {
	owner := newCaller(t)
	client := serveUnassigned(t, "", owner)
	wantUnassigned(t, client)
	assignment := &pb.Assignment{Env: [][]byte{[]byte("GREETING=hi")}, ProtectedPaths: [][]byte{[]byte("go.mod")}, IdleTimeout: int64(time.Hour)}
	if err := client.Configure(t.Context(), podapi.Config{Assignment: owner.assigns(t, assignment)}); err != nil {
		t.Fatal(err)
	}
	wantAssigned(t, client)
}

// wantAssigned expects the assignment of the test above.
func wantAssigned(t *testing.T, client *podapi.Client) {
	t.Helper()
	if out, err := client.Shell(t.Context(), "echo $GREETING").Output(); err != nil || string(out) != "hi\n" {
		t.Errorf("a command prints %q: %v", out, err)
	}
	if err := client.WriteFile(t.Context(), "go.mod", nil, 0o600); !errors.Is(err, fsops.ErrProtected) {
		t.Errorf("writing a protected path: %v", err)
	}
	info, err := client.Info(t.Context())
	if err != nil || info.IdleTimeout != time.Hour || !slices.Contains(info.Capabilities, "assignment") {
		t.Errorf("Info says %+v: %v", info, err)
	}
}

func TestAgentThatStartsAgainKeepsItsAssignment(t *testing.T) {
	owner, stranger := newCaller(t), newCaller(t)
	assignment := &pb.Assignment{Env: [][]byte{[]byte("GREETING=hi")}, ProtectedPaths: [][]byte{[]byte("go.mod")}, IdleTimeout: int64(time.Hour)}
	wantAssigned(t, serveUnassigned(t, owner.assigns(t, assignment), owner))
	good := owner.assigns(t, assignment)
	for name, text := range map[string]string{
		"none": "", "a stranger's": stranger.assigns(t, assignment), "garbage": "x", "cut": good[:len(good)-4],
		"one that cannot be": owner.assigns(t, &pb.Assignment{Env: [][]byte{[]byte("no variable")}}),
		"a negative time":    owner.assigns(t, &pb.Assignment{IdleTimeout: -1}),
		"a wrong pattern":    owner.assigns(t, &pb.Assignment{ProtectedPaths: [][]byte{[]byte("[")}}),
	} {
		t.Run(name, func(t *testing.T) { wantUnassigned(t, serveUnassigned(t, text, owner)) })
	}
}

func TestTheFirstAssignmentLasts(t *testing.T) {
	owner, other := newCaller(t), newCaller(t)
	client := serveUnassigned(t, "", owner)
	first := &pb.Assignment{Env: [][]byte{[]byte("A=1")}}
	take := func(text string) error { return client.Configure(t.Context(), podapi.Config{Assignment: text}) }
	if err := take(other.assigns(t, first)); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("an assignment that no key that counts has signed: %v", err)
	}
	if err := take(owner.assigns(t, first)); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"again": owner.assigns(t, first), "signed by another key": other.assigns(t, first)} {
		if err := take(text); err != nil {
			t.Errorf("the same assignment, %s: %v", name, err)
		}
	}
	if err := take(owner.assigns(t, &pb.Assignment{})); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("another assignment: %v", err)
	}
	if out, err := client.Shell(t.Context(), "echo $A").Output(); err != nil || string(out) != "1\n" {
		t.Errorf("a command prints %q: %v", out, err)
	}
}

// Whose keys are replaced must not matter to an agent that nobody has assigned.
func TestKeysAreReplacedBeforeTheAssignment(t *testing.T) {
	older, newer := newCaller(t), newCaller(t)
	client := serveUnassigned(t, "", older)
	chain := older.sign(t, "", older, newer)
	if err := client.Configure(t.Context(), podapi.Config{Keychain: chain}); err != nil {
		t.Fatal(err)
	}
	if err := client.Configure(t.Context(), podapi.Config{Assignment: newer.assigns(t, &pb.Assignment{})}); err != nil {
		t.Error(err)
	}
}

func TestAgentThatAwaitsNoAssignmentRefusesOne(t *testing.T) {
	owner := newCaller(t)
	socket := serveKeys(t, "", owner)
	client := dial(t, podapi.DialOptions{Dial: unixDialer(socket), Identity: &owner.Identity, PodUID: "uid-1"})
	err := client.Configure(t.Context(), podapi.Config{Assignment: owner.assigns(t, &pb.Assignment{})})
	if !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), "not started to await") {
		t.Errorf("got %v", err)
	}
}
