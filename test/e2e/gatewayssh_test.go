package e2e

// The gateway's port of SSH, over pods.

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"net"
	"strings"
	"testing"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"github.com/podagent/podagent/pkg/gateway/sshport"
	"github.com/podagent/podagent/pkg/launcher"
)

// sshKey is a key of SSH.
type sshKey struct {
	ssh.Signer
	private string // in PEM
	line    string // of authorized_keys
}

func newSSHKey(t *testing.T) sshKey {
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
	return sshKey{signer, string(pem.EncodeToMemory(block)), strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey())))}
}

// ssh returns a client of the i-th gateway, for one of the tenant's sandboxes. The host key follows from the
// identity: all gateways must have this one.
func (s *sleepers) ssh(i int, user string) *ssh.Client {
	s.Helper()
	keys, err := s.resumers[i].GatewayHostKeys(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	host, err := ssh.NewSignerFromSigner(keys[0])
	if err != nil {
		s.Fatal(err)
	}
	own, err := s.Launcher().GatewayHostKeys(s.Context())
	if err != nil || !bytes.Equal(own[0], keys[0]) {
		s.Fatalf("gateways of one identity have other host keys: %v", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { listener.Close() })
	port := &sshport.Port{Gateway: s.handlers[i], HostKeys: []ssh.Signer{host}}
	go func() { _ = port.Serve(listener) }()
	client, err := ssh.Dial("tcp", listener.Addr().String(), &ssh.ClientConfig{
		User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(s.key)}, HostKeyCallback: ssh.FixedHostKey(host.PublicKey()),
	})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { client.Close() })
	return client
}

// A connection alone keeps no pod awake, and its next command resumes the sandbox.
func TestSSHAtAGatewayWakesASleepingPod(t *testing.T) {
	t.Parallel()
	s := newSleepers(t, 2)
	s.makeSleeper("job-1")
	first := s.ssh(0, "job-1")
	output := func(c *ssh.Client, command string) string {
		t.Helper()
		session, err := c.NewSession()
		if err != nil {
			t.Fatal(err)
		}
		defer session.Close()
		out, err := session.CombinedOutput(command)
		if err != nil {
			t.Errorf("%s: %v", command, err)
		}
		return string(out)
	}
	if out := output(first, "cat file; id -u"); out != "kept1000\n" {
		t.Errorf("in the pod: %q", out)
	}
	s.awaitState("job-1", launcher.Ended)
	if out := output(first, "cat file"); out != "kept" {
		t.Errorf("after its sleep: %q", out)
	}
	s.mustHaveResumed(1)

	files, err := sftp.NewClient(s.ssh(1, "job-1"))
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	f, err := files.Create("by-sftp")
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write([]byte("by the other gateway"))
	if end := f.Close(); err != nil || end != nil {
		t.Fatal(err, end)
	}
	if out := output(first, "cat by-sftp"); out != "by the other gateway" {
		t.Errorf("%q", out)
	}
}
