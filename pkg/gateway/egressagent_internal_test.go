package gateway

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/podagent/podagent/pkg/egress"
	"github.com/podagent/podagent/pkg/egress/farend"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wayout"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// hangs bounds what must happen, and is more than a far end waits for a mute agent.
const hangs = 2 * time.Minute

// hostileAgent says what its test wants to those that serve its way out.
type hostileAgent struct {
	pb.UnimplementedEgressServer
	calls   chan *hostileCall
	request string
	answers chan string // to the request, of each connection

	levels   levels
	interval time.Duration // between questions for its level; 0 is the usual one
}

// levels is an agent's level, which changes.
type levels struct {
	pb.UnimplementedAgentServer
	now   atomic.Value  // of a wayout.Level
	asked chan struct{} // has a value when it was asked
}

func (l *levels) Info(context.Context, *pb.InfoRequest) (*pb.InfoResponse, error) {
	select {
	case l.asked <- struct{}{}:
	default:
	}
	level := string(l.now.Load().(wayout.Level))
	return &pb.InfoResponse{
		ProtocolMajor: wire.ProtocolMajor, ProtocolMinor: wire.ProtocolMinor, Workdir: []byte("/"), Egress: &pb.EgressInfo{Level: level},
	}, nil
}

// hostileCall is a call of Serve.
type hostileCall struct {
	say  func(*pb.EgressServeResponse) error
	over <-chan struct{}
}

func (a *hostileAgent) Serve(stream grpc.BidiStreamingServer[pb.EgressServeRequest, pb.EgressServeResponse]) error {
	a.calls <- &hostileCall{stream.Send, stream.Context().Done()}
	<-stream.Context().Done()
	return nil
}

// Carry sends the request, and takes the answer up to the end of its head.
func (a *hostileAgent) Carry(stream grpc.BidiStreamingServer[pb.DialRequest, pb.DialResponse]) error {
	if _, err := stream.Recv(); err != nil {
		return err
	}
	const limit = 1 << 20
	for _, r := range []*pb.DialResponse{
		{Kind: &pb.DialResponse_Opened{Opened: &pb.DialOpened{Limit: limit, Local: "127.0.0.1:1", Remote: "127.0.0.1:2"}}},
		{Kind: &pb.DialResponse_Data{Data: []byte(a.request)}},
	} {
		if err := stream.Send(r); err != nil {
			return err
		}
	}
	var answer []byte
	for !bytes.Contains(answer, []byte("\r\n\r\n")) {
		r, err := stream.Recv()
		if err != nil {
			return err
		}
		answer = append(answer, r.GetData()...)
	}
	a.answers <- string(answer)
	<-stream.Context().Done()
	return nil
}

func (c *hostileCall) serving(t *testing.T) {
	t.Helper()
	c.says(t, &pb.EgressServeResponse{Kind: &pb.EgressServeResponse_Serving{Serving: &pb.EgressServing{Port: 1}}})
}

func (c *hostileCall) says(t *testing.T, r *pb.EgressServeResponse) {
	t.Helper()
	if err := c.say(r); err != nil {
		t.Fatal(err)
	}
}

// within waits for a value.
func within[V any](t *testing.T, what string, from <-chan V) V {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(hangs):
		t.Fatalf("it hangs: %s", what)
		panic("unreachable")
	}
}

// servedBy makes a far end of a hostile agent's sandbox.
func servedBy(t *testing.T, a *hostileAgent, policy *egressPolicy) *farEnd {
	t.Helper()
	a.calls, a.answers = make(chan *hostileCall, 10), make(chan string, 10)
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	pb.RegisterEgressServer(server, a)
	pb.RegisterAgentServer(server, &a.levels)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	client, err := podapi.Dial(podapi.DialOptions{Dial: func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	g := New(Options{})
	t.Cleanup(func() { g.Close() })
	g.waysOut.levelInterval = cmp.Or(a.interval, g.waysOut.levelInterval)
	f := newFarEnd(g.waysOut, tenantSandbox{Summary: launcher.Summary{ID: "acme--a"}, tenant: "acme", name: "a"}, policy, true, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = f.serve(&launcher.Sandbox{Client: client})
	}()
	t.Cleanup(func() { f.end(); <-done })
	return f
}

func policyFor(t *testing.T, credentials string, rules ...string) *egressPolicy {
	t.Helper()
	e := &Egress{}
	for _, text := range rules {
		rule, err := egress.ParseRule(text)
		if err != nil {
			t.Fatal(err)
		}
		e.AllowHosts = append(e.AllowHosts, rule)
	}
	p := newEgressPolicy(e)
	p.credentials = credentials
	return p
}

// An agent that says nothing to who comes with other credentials does not keep the old ones in force.
func TestMuteAgentKeepsNoCredentialInForce(t *testing.T) {
	a := &hostileAgent{}
	f := servedBy(t, a, policyFor(t, "old"))
	first := within(t, "the first far end", a.calls)
	first.serving(t)
	within(t, "serving", f.settled)
	f.update(policyFor(t, "new"), true, 1)
	second := within(t, "the second far end", a.calls)
	select {
	case <-first.over:
	case <-second.over:
		t.Fatal("the old credentials were there until the new ones had been given up")
	case <-time.After(hangs):
		t.Fatal("the old credentials stay")
	}
	// Nor does one that is about to begin.
	f.update(policyFor(t, "newest"), true, 1)
	within(t, "the end of the second one", second.over)
	within(t, "the third far end", a.calls).serving(t)
}

// A far end has begun before it is told that it serves: it does not take itself for replaced meanwhile, and
// leave. A gateway that does not know of others yet would.
func TestFarEndThatIsNotToldYetDoesNotLeave(t *testing.T) {
	v := &serving{}
	s := &servings{all: []*serving{v}}
	if v.isReplaced() || s.isDone(wanting{}) {
		t.Error("it leaves")
	}
	v.state = &farend.State{}
	if !v.isReplaced() || !s.isDone(wanting{}) {
		t.Error("it stays although another serves")
	}
}

// An agent that says that another far end serves, so that the gateway begins anew, and then nothing, keeps
// no old rules in force: neither for what is open nor for what it brings.
func TestMuteAgentKeepsNoOldRulesInForce(t *testing.T) {
	port := listen(t)
	target := fmt.Sprintf("a.test:%d", port)
	a := &hostileAgent{request: "CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n\r\n"}
	f := servedBy(t, a, policyFor(t, "", fmt.Sprintf("a.test=127.0.0.1:%d", port)))
	first := within(t, "the first far end", a.calls)
	first.serving(t)
	connection := func(id uint64) string {
		first.says(t, &pb.EgressServeResponse{Kind: &pb.EgressServeResponse_Connection{Connection: &pb.EgressConnection{Id: id}}})
		return within(t, "the answer", a.answers)
	}
	if got := connection(1); !strings.HasPrefix(got, "HTTP/1.1 200 ") {
		t.Fatal(got)
	}
	f.mu.Lock()
	f.began = time.Time{}
	f.wanted.policy = policyFor(t, "")
	f.mu.Unlock()
	first.says(t, &pb.EgressServeResponse{Kind: &pb.EgressServeResponse_Standby{Standby: &pb.EgressStandby{}}})
	within(t, "the second far end", a.calls) // which hears nothing
	if got := connection(2); !strings.HasPrefix(got, "HTTP/1.1 403 ") {
		t.Errorf("the old rules are in force: %s", got)
	}
	// What changes while it waits counts, too.
	f.update(policyFor(t, "", fmt.Sprintf("a.test=127.0.0.1:%d", port)), true, 1)
	for id := uint64(3); !strings.HasPrefix(connection(id), "HTTP/1.1 200 "); id++ {
		if id > 10000 {
			t.Fatal("the new rules are not in force")
		}
	}
}

// listen accepts connections, and returns its port.
func listen(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { conn.Close() })
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

func TestSandboxIsNotLetOutAnyMoreAtAWeakerLevelThanItMustBe(t *testing.T) {
	a := &hostileAgent{interval: time.Millisecond}
	a.levels.asked = make(chan struct{}, 1)
	a.levels.now.Store(wayout.Network)
	policy := policyFor(t, "")
	policy.require = wayout.Network
	servedBy(t, a, policy)
	within(t, "the question before it is let out", a.levels.asked)
	call := within(t, "serving", a.calls)
	call.serving(t)
	for range 3 {
		within(t, "another question", a.levels.asked)
	}
	select {
	case <-call.over:
		t.Fatal("at the level that is required, it is not let out")
	default:
	}
	a.levels.now.Store(wayout.Advisory)
	within(t, "the end of serving", call.over)
}
