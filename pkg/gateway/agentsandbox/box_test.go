package agentsandbox

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/gateway/internal/rawgrpc"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/test/contracts"
)

func TestMain(m *testing.M) { os.Exit(launchertest.Main(m)) }

// hung is more than anything takes.
const hung = time.Minute

// box is the sandbox job-1 of the tenant acme, behind a gateway with this face. The tenant other has none.
type box struct {
	*testing.T
	url     string
	gateway *gateway.Gateway
	sandbox *launcher.Sandbox // the same one, without the gateway
	conn    *grpc.ClientConn
}

func newBox(t *testing.T, edit ...func(*gateway.Options)) *box {
	t.Helper()
	keys := filepath.Join(t.TempDir(), "keys.yaml")
	text := fmt.Sprintf("tenants:\n  acme:\n    keys:\n    - sha256: %x\n  other:\n    keys:\n    - sha256: %x\n", sha256.Sum256([]byte("a")), sha256.Sum256([]byte("b")))
	if err := os.WriteFile(keys, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	l := launchertest.Local(t)
	o := gateway.Options{Launcher: l, Tenants: &gateway.Keys{Path: keys}, Domain: "sandboxes.test", Faces: []gateway.Face{&Face{Namespace: "here"}}}
	for _, edit := range edit {
		edit(&o)
	}
	b := &box{T: t, gateway: gateway.New(o)}
	server := httptest.NewUnstartedServer(b.gateway)
	server.Config.Protocols = &http.Protocols{}
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(func() {
		server.Close()
		if err := b.gateway.Close(); err != nil {
			t.Error(err)
		}
	})
	b.url = server.URL
	var err error
	if b.conn, err = grpc.NewClient(strings.TrimPrefix(b.url, "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.conn.Close() })
	if code, body := b.send("POST", "/api/v1/sandboxes", `{"id":"job-1","env":["SANDBOX_NAME=one","SANDBOX_TOKEN=secret"]}`, "Authorization: Bearer a", "Content-Type: application/json"); code != 201 {
		t.Fatal(body)
	}
	if b.sandbox, err = l.Open(t.Context(), "acme.job-1"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.sandbox.Close() })
	return b
}

// send sends a request, and returns its answer. A header replaces one of the same name before it, and one
// without a value removes it.
func (b *box) send(method, path, body string, headers ...string) (int, string) {
	b.Helper()
	got := b.request(method, path, body, headers...)
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		b.Fatal(err)
	}
	return got.StatusCode, string(text)
}

func (b *box) request(method, path, body string, headers ...string) *http.Response {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), hung)
	b.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, method, b.url+path, strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		if r.Header.Set(name, value); value == "" {
			r.Header.Del(name)
		}
	}
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	return got
}

// call sends a request as agent-sandbox's clients do.
func (b *box) call(method, path, body string, headers ...string) (int, string) {
	b.Helper()
	return b.send(method, path, body, append([]string{"Authorization: " + basic("a"), "X-Sandbox-ID: job-1", "X-Sandbox-Namespace: here", "X-Sandbox-Port: 8888"}, headers...)...)
}

// basic is the Authorization of who has a key as the password in a URL.
func basic(key string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte("user:"+key))
}

// step is a call, and what its answer must be: each text of want is in it.
type step struct {
	method, path, body string
	headers            []string
	code               int
	want               []string
}

func (b *box) steps(all []step) {
	b.Helper()
	for _, s := range all {
		code, body := b.call(s.method, s.path, s.body, s.headers...)
		if code != s.code {
			b.Errorf("%s %s %q %.200q: %d %s, want %d", s.method, s.path, s.headers, s.body, code, body, s.code)
			continue
		}
		for _, want := range s.want {
			if !strings.Contains(body, want) {
				b.Errorf("%s %s %q %.200q: %s, want %s", s.method, s.path, s.headers, s.body, body, want)
			}
		}
	}
}

// stream is a call by gRPC, of which one message was sent.
type stream struct {
	*box
	grpc.ClientStream
	leave context.CancelFunc
}

// open makes a call by gRPC, with these pairs of metadata in place of the usual ones.
func (b *box) open(method string, message []byte, pairs ...string) *stream {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), hung)
	b.Cleanup(cancel)
	md := metadata.Pairs("authorization", "Bearer a", "x-sandbox-id", "job-1", "x-sandbox-port", "9090")
	for i := 0; i+1 < len(pairs); i += 2 {
		md.Set(pairs[i], pairs[i+1])
	}
	ctx = metadata.NewOutgoingContext(ctx, md)
	s, err := b.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, method, grpc.ForceCodecV2(rawgrpc.Codec()))
	if err == nil {
		err = s.SendMsg(&rawgrpc.Message{Data: mem.BufferSlice{mem.SliceBuffer(message)}})
	}
	if err == nil {
		err = s.CloseSend()
	}
	if err != nil {
		b.Fatal(err)
	}
	return &stream{b, s, cancel}
}

// next returns the next message as its first field, and what that has; io.EOF at the end.
func (s *stream) next() (protowire.Number, []byte, error) {
	var message rawgrpc.Message
	if err := s.RecvMsg(&message); err != nil {
		return 0, nil, err
	}
	data := message.Data.Materialize()
	message.Data.Free()
	field, kind, n := protowire.ConsumeTag(data)
	if kind != protowire.BytesType {
		return field, data, nil
	}
	value, _ := protowire.ConsumeBytes(data[n:])
	return field, value, nil
}

const (
	processes = "/process.v1.ProcessService/"
	watchers  = "/watcher.v1.FileWatcherService/"
)

// config is a ProcessConfig with a script for a shell.
func config(script string, more ...[]byte) []byte {
	var m []byte
	for _, word := range []string{"/bin/sh", "-c", script} {
		m = append(m, bytesField(1, []byte(word))...)
	}
	for _, part := range more {
		m = append(m, part...)
	}
	return m
}

// start starts a script, and returns the process's id.
func (b *box) start(script string, more ...[]byte) (*stream, int64) {
	b.Helper()
	request := bytesField(1, config(script))
	for _, part := range more {
		request = append(request, part...)
	}
	s := b.open(processes+"Start", request)
	field, value, err := s.next()
	if field != 1 || err != nil {
		b.Fatalf("the first event is %d %q: %v", field, value, err)
	}
	_, id, _ := numberOf(value)
	return s, id
}

// numberOf returns the field that a message of one number has.
func numberOf(message []byte) (field protowire.Number, value int64, ok bool) {
	field, kind, n := protowire.ConsumeTag(message)
	if n < 0 || kind != protowire.VarintType {
		return 0, 0, false
	}
	v, n := protowire.ConsumeVarint(message[n:])
	return field, int64(int32(v)), n >= 0
}

// until reads a process's output until it has a text.
func (s *stream) until(text string) {
	s.Helper()
	var seen strings.Builder
	for !strings.Contains(seen.String(), text) {
		field, value, err := s.next()
		if err != nil || field == 4 {
			s.Fatalf("%q ended without %q: %v", seen.String(), text, err)
		}
		seen.Write(value)
	}
}

// rest reads a process to its end.
func (s *stream) rest() (stdout, stderr string, exit int64) {
	s.Helper()
	for {
		field, value, err := s.next()
		switch {
		case err == io.EOF:
			return stdout, stderr, exit
		case err != nil:
			s.Fatal(err)
		}
		switch field {
		case 2:
			stdout += string(value)
		case 3:
			stderr += string(value)
		case 4:
			_, exit, _ = numberOf(value)
		}
	}
}

// unary makes a call that one message answers, and returns its error.
func (b *box) unary(method string, message []byte, pairs ...string) error {
	b.Helper()
	_, _, err := b.open(method, message, pairs...).next()
	if err == io.EOF {
		b.Errorf("%s has no answer", method)
	}
	return err
}

// saw takes down what the test shows of agent-sandbox's contract, unless it fails.
func (b *box) saw(outcome contracts.Outcome, operations ...string) {
	b.Helper()
	contracts.Record(b, "agent-sandbox", "HTTP").Saw(outcome, operations...)
}

// eventually waits until something holds.
func (b *box) eventually(what string, holds func() bool) {
	b.Helper()
	for begun := time.Now(); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Since(begun) > hung {
			b.Fatalf("%s: not after %v", what, hung)
		}
	}
}
