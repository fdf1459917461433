package e2e

import (
	"bytes"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// A transfer is whole, or fails and leaves what was there.
func TestATransferBySFTPThatIsCutIsWholeOrFails(t *testing.T) {
	t.Parallel()
	h := newCutHost(t)
	data := make([]byte, 8<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(data)
	conn, err := ssh.Dial("tcp", h.address, &ssh.ClientConfig{
		Config: ssh.Config{RekeyThreshold: 1 << 20}, HostKeyCallback: ssh.InsecureIgnoreHostKey(), // of this test's server
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client, err := sftp.NewClient(conn)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for name, cut := range map[string]func(){"cut": func() { h.cut(t) }, "whole": func() {}} {
		if err := h.WriteFile(t.Context(), "put", []byte("before"), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := client.Create("put")
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.ReadFrom(&cutReader{data: data, cut: cut})
		if end := f.Close(); err == nil {
			err = end
		}
		var got []byte
		harness.Await(t, "the agent", func() bool {
			var readErr error
			got, readErr = h.ReadFile(t.Context(), "put")
			return readErr == nil
		})
		if whole := bytes.Equal(got, data); whole != (err == nil) || !whole && string(got) != "before" {
			t.Errorf("%s: sftp put: %v, and %d bytes are there", name, err, len(got))
		}
		if name == "whole" && err != nil {
			t.Error(err)
		}
		if err := h.WriteFile(t.Context(), "get", data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, cut := range map[string]func(){"cut": func() { h.cut(t) }, "whole": func() {}} {
		f, err := client.Open("get")
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		_, err = io.CopyN(&got, f, 1<<20)
		cut()
		if err == nil {
			_, err = io.Copy(&got, f)
		}
		if err == nil && !bytes.Equal(got.Bytes(), data) {
			t.Errorf("%s: sftp got %d other bytes", name, got.Len())
		}
		if name == "whole" && err != nil {
			t.Error(err)
		}
		f.Close()
	}
}

// cutReader reads data, with a cut in the middle.
type cutReader struct {
	data []byte
	at   int
	cut  func()
}

func (r *cutReader) Read(p []byte) (int, error) {
	if r.at == len(r.data) {
		return 0, io.EOF
	}
	before := r.at
	r.at += copy(p, r.data[r.at:])
	if half := len(r.data) / 2; before < half && r.at >= half {
		r.cut()
	}
	return r.at - before, nil
}
