package agent

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/egress/farend"
	"github.com/podagent/podagent/pkg/podapi"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wayout"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// serveEgress makes the test the far end of an agent.
func serveEgress(t *testing.T, client *podapi.Client, opts farend.Options) (*farend.Listener, <-chan farend.State) {
	t.Helper()
	states := make(chan farend.State, 16)
	opts.Changed = func(s farend.State) { states <- s }
	l, err := farend.Listen(t.Context(), client, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l, states
}

// throughProxy connects to an agent's proxy, as a program in the sandbox does.
func throughProxy(t *testing.T, port int) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(hung))
	return conn.(*net.TCPConn)
}

func TestFarEndGetsEachConnectionByteForByte(t *testing.T) {
	_, socket := serveTest(t, nil)
	client := dial(t, podapi.DialOptions{Dial: unixDialer(socket)})
	l, states := serveEgress(t, client, farend.Options{})
	port := (<-states).Port
	info, err := client.Info(t.Context())
	if want := (wayout.Info{Level: wayout.Advisory, Port: port, Served: true}); err != nil || info.Egress != want {
		t.Errorf("Info says %+v, %v, want %+v", info.Egress, err, want)
	}
	sent := make([]byte, 3<<20)
	rand.NewChaCha8([32]byte{}).Read(sent)
	program := throughProxy(t, port)
	go func() {
		_, _ = program.Write(sent)
		_ = program.CloseWrite()
	}()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	got, err := io.ReadAll(conn)
	if err != nil || sha256.Sum256(got) != sha256.Sum256(sent) {
		t.Errorf("the far end got %d bytes of %d, %v", len(got), len(sent), err)
	}
	if _, err := io.WriteString(conn, "after the end of the other direction"); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if back, err := io.ReadAll(program); err != nil || !bytes.HasSuffix(back, []byte("direction")) {
		t.Errorf("the program got %q, %v", back, err)
	}
}

func TestResetOfEitherSidePassesThroughTheWayOut(t *testing.T) {
	_, socket := serveTest(t, nil)
	client := dial(t, podapi.DialOptions{Dial: unixDialer(socket)})
	l, states := serveEgress(t, client, farend.Options{})
	port := (<-states).Port
	program := throughProxy(t, port)
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	_ = program.SetLinger(0)
	program.Close()
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the far end sees %v", err)
	}
	program = throughProxy(t, port)
	if conn, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	_ = conn.(interface{ SetLinger(int) error }).SetLinger(0)
	conn.Close()
	if _, err := program.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the program sees %v", err)
	}
}

func TestFarEndsTakeOverByGeneration(t *testing.T) {
	_, socket := serveTest(t, nil)
	far := func(generation uint64) (*farend.Listener, <-chan farend.State) {
		client := dial(t, podapi.DialOptions{Dial: unixDialer(socket)})
		return serveEgress(t, client, farend.Options{Generation: generation, Env: []string{fmt.Sprint("GENERATION=", generation)}})
	}
	first, firstStates := far(1)
	port := (<-firstStates).Port
	kept := throughProxy(t, port)
	old, err := first.Accept()
	if err != nil {
		t.Fatal(err)
	}
	second, secondStates := far(2)
	if s := <-secondStates; !s.Serving || s.Port != port {
		t.Errorf("the newer far end is told %+v", s)
	}
	if s := <-firstStates; s.Serving || s.Generation != 2 {
		t.Errorf("the older far end is told %+v", s)
	}
	throughProxy(t, port)
	if _, err := second.Accept(); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.WriteString(old, "still") }()
	got := make([]byte, 5)
	if _, err := io.ReadFull(kept, got); err != nil {
		t.Errorf("a connection that was carried before got %q, %v", got, err)
	}
	client := dial(t, podapi.DialOptions{Dial: unixDialer(socket)})
	out, err := client.Command(t.Context(), "env").Output()
	env := strings.Split(string(out), "\n")
	for _, want := range []string{"GENERATION=2", fmt.Sprint("HTTPS_PROXY=http://127.0.0.1:", port), "NO_PROXY=localhost,127.0.0.1,::1"} {
		if err != nil || !slices.Contains(env, want) {
			t.Errorf("a command has no %s: %v", want, err)
		}
	}
	second.Close()
	if s := <-firstStates; !s.Serving {
		t.Errorf("after the newer far end has left, the older one is told %+v", s)
	}
}

func TestOnlyBytesOfTheWayOutAreActivity(t *testing.T) {
	_, socket := serveTest(t, nil)
	client := dial(t, podapi.DialOptions{Dial: unixDialer(socket)})
	l, states := serveEgress(t, client, farend.Options{})
	program := throughProxy(t, (<-states).Port)
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	idleSince := func() time.Time {
		info, err := client.Info(t.Context())
		if err != nil || info.Idle == 0 {
			t.Fatalf("the agent has been idle for %v, %v", info.Idle, err)
		}
		return time.Now().Add(-info.Idle)
	}
	before := idleSince()
	if _, err := program.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if after := idleSince(); !after.After(before) {
		t.Errorf("a byte left the idle time at %v, %v before", after, before)
	}
}

func TestMalformedCallsOfEgressAreRefused(t *testing.T) {
	_, socket := serveTest(t, nil)
	egress := pb.NewEgressClient(raw(t, socket))
	for what, first := range map[string]*pb.EgressServeRequest{
		"nothing":           {},
		"a broken variable": {Kind: &pb.EgressServeRequest_Start{Start: &pb.EgressStart{Env: [][]byte{[]byte("=x")}}}},
	} {
		call, err := egress.Serve(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_ = call.Send(first)
		if _, err = call.Recv(); !errors.Is(wire.FromStatus(err), syscall.EINVAL) {
			t.Errorf("Serve that begins with %s: %v", what, err)
		}
	}
	for what, test := range map[string]struct {
		first *pb.DialRequest
		want  error
	}{
		"no opening":                {dialData("x"), syscall.EINVAL},
		"a connection that is none": {&pb.DialRequest{Kind: &pb.DialRequest_Open{Open: &pb.DialOpen{Connection: 7}}}, fs.ErrNotExist},
	} {
		call, err := egress.Carry(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_ = call.Send(test.first)
		if _, err = call.Recv(); !errors.Is(wire.FromStatus(err), test.want) {
			t.Errorf("Carry with %s: %v", what, err)
		}
	}
}

func TestVariablesOfAFarEndGoWithIt(t *testing.T) {
	_, socket := serveTest(t, nil)
	client := dial(t, podapi.DialOptions{Dial: unixDialer(socket)})
	l, _ := serveEgress(t, client, farend.Options{Env: []string{"BUNDLE=/a/file"}})
	printed := func() string {
		out, err := client.Command(t.Context(), "sh", "-c", "echo $BUNDLE$https_proxy").Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	if got := printed(); !strings.HasPrefix(got, "/a/filehttp://127.0.0.1:") {
		t.Errorf("while it serves, a command has %q", got)
	}
	l.Close()
	for deadline := time.Now().Add(hung); printed() != ""; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after it has left, a command has %q", printed())
		}
	}
}
