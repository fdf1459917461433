package sshport_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/gateway/sshport"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// hung bounds the wait for what never comes.
const hung = time.Minute

func TestMain(m *testing.M) { os.Exit(launchertest.Main(m)) }

// key is a pair of keys of SSH.
type key struct {
	ssh.Signer
	file string // with the private half, for OpenSSH's programs
}

func newKey(t testing.TB) key {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	return key{signer, file}
}

// line returns the line of authorized_keys.
func (k key) line(comment string) string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(k.PublicKey()))) + " " + comment
}

// door is a gateway with a port of SSH, over a local launcher. Its tenant acme has the key ann, and other
// the key bob; box is a sandbox of acme's.
type door struct {
	testing.TB
	*recorder
	gateway  *gateway.Gateway
	port     *sshport.Port
	launcher *launcher.Local
	address  string
	keys     string // the file of tenants
	ann, bob key
	host     key
	box      *launcher.Sandbox
}

func newDoor(t testing.TB) *door {
	t.Helper()
	return newDoorWith(t, func(*sshport.Port) {})
}

// newDoorWith is newDoor with a port that set has changed before it serves.
func newDoorWith(t testing.TB, set func(*sshport.Port)) *door {
	t.Helper()
	d := &door{TB: t, recorder: &recorder{}, ann: newKey(t), bob: newKey(t), host: newKey(t), launcher: launchertest.Local(t)}
	d.keys = filepath.Join(t.TempDir(), "keys.yaml")
	d.setKeys("", []string{d.ann.line("ann")}, []string{d.bob.line("bob")})
	d.gateway = gateway.New(gateway.Options{Launcher: d.launcher, Tenants: &gateway.Keys{Path: d.keys}, Observers: []gateway.Observer{d.recorder}})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d.address = listener.Addr().String()
	d.port = &sshport.Port{Gateway: d.gateway, HostKeys: []ssh.Signer{d.host}}
	set(d.port)
	served := make(chan error, 1)
	go func() { served <- d.port.Serve(listener) }()
	t.Cleanup(func() {
		listener.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
		if err := d.gateway.Close(); err != nil {
			t.Error(err)
		}
		d.port.Wait()
	})
	d.box, err = d.launcher.Launch(context.Background(), launcher.Spec{ID: "acme.box"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.box.Close() })
	return d
}

// setKeys writes the file of tenants: what acme's policy is beside its keys, and the keys.
func (d *door) setKeys(policy string, acme, other []string) {
	d.Helper()
	text := "tenants:\n  acme:\n" + policy + "    ssh: " + quoted(acme) + "\n  other:\n    ssh: " + quoted(other) + "\n"
	next := d.keys + ".next"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		d.Fatal(err)
	}
	if err := os.Rename(next, d.keys); err != nil {
		d.Fatal(err)
	}
}

// quoted returns a list in YAML.
func quoted(lines []string) string {
	var all []string
	for _, l := range lines {
		all = append(all, strconv.Quote(l))
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// options returns those of OpenSSH's programs for a key.
func (d *door) options(k key) []string {
	d.Helper()
	host, port, _ := net.SplitHostPort(d.address)
	known := filepath.Join(d.TempDir(), "known")
	text := fmt.Sprintf("[%s]:%s %s", host, port, ssh.MarshalAuthorizedKey(d.host.PublicKey()))
	if err := os.WriteFile(known, []byte(text), 0o600); err != nil {
		d.Fatal(err)
	}
	return []string{
		"-F", "none", "-o", "Port=" + port, "-o", "IdentitiesOnly=yes", "-o", "IdentityFile=" + k.file, "-o", "BatchMode=yes",
		"-o", "UserKnownHostsFile=" + known, "-o", "StrictHostKeyChecking=yes", "-o", "IdentityAgent=none", "-o", "LogLevel=ERROR",
	}
}

// run runs a program, and returns its output, what it says, and its exit status.
func (d *door) run(input, program string, args ...string) (out, said string, status int) {
	d.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*hung) // it may copy a repository
	defer cancel()
	c := exec.CommandContext(ctx, program, args...)
	var stdout, stderr bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(input), &stdout, &stderr
	if err := c.Run(); c.ProcessState == nil {
		d.Fatal(err)
	}
	return stdout.String(), stderr.String(), c.ProcessState.ExitCode()
}

// ssh runs OpenSSH's ssh as a key's owner, for a sandbox.
func (d *door) ssh(k key, user string, args ...string) (out, said string, status int) {
	d.Helper()
	return d.run("", "ssh", append(append(d.options(k), user+"@127.0.0.1"), args...)...)
}

// connect returns a client of package ssh.
func (d *door) connect(k ssh.Signer, user string) (*ssh.Client, error) {
	d.Helper()
	return ssh.Dial("tcp", d.address, &ssh.ClientConfig{
		User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(k)}, HostKeyCallback: ssh.FixedHostKey(d.host.PublicKey()), Timeout: hung,
	})
}

// connected is connect for a key that counts.
func (d *door) connected(k ssh.Signer, user string) *ssh.Client {
	d.Helper()
	c, err := d.connect(k, user)
	if err != nil {
		d.Fatal(err)
	}
	d.Cleanup(func() { c.Close() })
	return c
}

// acts returns the ends of all acts, once there are so many.
func (r *recorder) acts(t testing.TB, count int) (all []ending) {
	t.Helper()
	await(t, fmt.Sprintf("%d acts", count), func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		all = slices.Clone(r.ended)
		return len(all) >= count
	})
	return all
}

// await waits until the condition holds.
func await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(hung); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: it does not come", what)
		}
	}
}

// recorder keeps the acts that it is told of.
type recorder struct {
	mu      sync.Mutex
	begun   []gateway.Act
	ended   []ending
	refused []string
	failing error // of Begin
}

type ending struct {
	gateway.Act
	gateway.Outcome
}

func (r *recorder) Begin(_ context.Context, a gateway.Act) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begun = append(r.begun, a)
	return r.failing
}

func (r *recorder) End(_ context.Context, a gateway.Act, o gateway.Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = append(r.ended, ending{a, o})
}

func (r *recorder) Arrive(ctx context.Context, _ gateway.Act, _ *http.Request) context.Context {
	return ctx
}

func (r *recorder) Launch(ctx context.Context, _ bool) (context.Context, func(*launcher.Sandbox, string)) {
	return ctx, func(*launcher.Sandbox, string) {}
}

func (r *recorder) Refuse(_ context.Context, status int, class string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refused = append(r.refused, fmt.Sprintf("%d %s", status, class))
}

// of returns the ends of acts of an operation, once there are so many.
func (r *recorder) of(t testing.TB, operation string, count int) (found []ending) {
	t.Helper()
	await(t, fmt.Sprintf("%d acts %s", count, operation), func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		found = nil
		for _, e := range r.ended {
			if e.Operation == operation {
				found = append(found, e)
			}
		}
		return len(found) >= count
	})
	return found
}
