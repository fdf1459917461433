package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/podagent/podagent/pkg/podapi"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// execStreamError sends messages of Exec and returns how the call ended.
func execStreamError(t *testing.T, conn *grpc.ClientConn, messages ...*pb.ExecRequest) error {
	t.Helper()
	stream, err := pb.NewProcessesClient(conn).Exec(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		if stream.Send(m) != nil {
			break
		}
	}
	for {
		r, err := stream.Recv()
		if err != nil {
			return wire.FromStatus(err)
		}
		if r.GetExit() != nil {
			return nil
		}
	}
}

func newExecID() string { return uuid.Must(uuid.NewV7()).String() }

func start(change func(*pb.ExecStart)) *pb.ExecRequest {
	s := &pb.ExecStart{ExecId: newExecID(), Argv: [][]byte{[]byte("sleep"), []byte("60")}, Timeout: int64(time.Minute)}
	change(s)
	return &pb.ExecRequest{Kind: &pb.ExecRequest_Start{Start: s}}
}

func TestExecRefusesBadMessages(t *testing.T) {
	_, socket := serveTest(t, nil)
	conn := raw(t, socket)
	good := func() *pb.ExecRequest { return start(func(s *pb.ExecStart) { s.Stdin = true }) }
	stdin := func(offset int64, data string) *pb.ExecRequest {
		return &pb.ExecRequest{Kind: &pb.ExecRequest_Stdin{Stdin: &pb.StdinChunk{Offset: offset, Data: []byte(data)}}}
	}
	for what, test := range map[string]struct {
		messages []*pb.ExecRequest
		want     error
	}{
		"opens with stdin":        {[]*pb.ExecRequest{stdin(0, "x")}, syscall.EINVAL},
		"opens with nothing":      {[]*pb.ExecRequest{{}}, syscall.EINVAL},
		"starts twice":            {[]*pb.ExecRequest{good(), good()}, syscall.EINVAL},
		"has no exec id":          {[]*pb.ExecRequest{start(func(s *pb.ExecStart) { s.ExecId = "" })}, syscall.EINVAL},
		"has an odd exec id":      {[]*pb.ExecRequest{start(func(s *pb.ExecStart) { s.ExecId = "x" })}, syscall.EINVAL},
		"has no command":          {[]*pb.ExecRequest{start(func(s *pb.ExecStart) { s.Argv = nil })}, syscall.EINVAL},
		"has command and script":  {[]*pb.ExecRequest{start(func(s *pb.ExecStart) { s.Script = []byte("x") })}, syscall.EINVAL},
		"has NUL in an argument":  {[]*pb.ExecRequest{start(func(s *pb.ExecStart) { s.Argv[1] = []byte("a\x00") })}, syscall.EINVAL},
		"has an odd environment":  {[]*pb.ExecRequest{start(func(s *pb.ExecStart) { s.Env = [][]byte{[]byte("x")} })}, syscall.EINVAL},
		"has a negative timeout":  {[]*pb.ExecRequest{start(func(s *pb.ExecStart) { s.Timeout = -1 })}, syscall.EINVAL},
		"has a huge terminal":     {[]*pb.ExecRequest{start(func(s *pb.ExecStart) { s.Terminal = &pb.TerminalSize{Rows: 1 << 16} })}, syscall.EINVAL},
		"has an odd limit":        {[]*pb.ExecRequest{start(func(s *pb.ExecStart) { s.Rlimits = []*pb.Rlimit{{Resource: "x"}} })}, syscall.EINVAL},
		"limits the wrong way":    {[]*pb.ExecRequest{start(func(s *pb.ExecStart) { s.Rlimits = []*pb.Rlimit{{Resource: "nofile", Soft: 2, Hard: 1}} })}, syscall.EINVAL},
		"met another boot":        {[]*pb.ExecRequest{start(func(s *pb.ExecStart) { s.BootId = "x" })}, podapi.ErrAgentLost},
		"leaves a gap in stdin":   {[]*pb.ExecRequest{good(), stdin(5, "x")}, syscall.EINVAL},
		"goes back before 0":      {[]*pb.ExecRequest{good(), stdin(-5, "x")}, syscall.EINVAL},
		"is over the window":      {[]*pb.ExecRequest{good(), stdin(0, strings.Repeat("x", wire.StdinWindow+1))}, syscall.EINVAL},
		"sends an unknown signal": {[]*pb.ExecRequest{good(), {Kind: &pb.ExecRequest_Signal{Signal: 99}}}, syscall.EINVAL},
		"resizes no terminal":     {[]*pb.ExecRequest{good(), {Kind: &pb.ExecRequest_Resize{Resize: &pb.TerminalSize{}}}}, syscall.EINVAL},
		"resizes to a huge one":   {[]*pb.ExecRequest{good(), {Kind: &pb.ExecRequest_Resize{Resize: &pb.TerminalSize{Columns: 1 << 16}}}}, syscall.EINVAL},
		"shows a huge screen":     {[]*pb.ExecRequest{attach(newExecID(), func(a *pb.ExecAttach) { a.Screen = &pb.TerminalSize{Rows: 1 << 16} })}, syscall.EINVAL},
		"attaches to nothing":     {[]*pb.ExecRequest{{Kind: &pb.ExecRequest_Attach{Attach: &pb.ExecAttach{ExecId: newExecID()}}}}, fs.ErrNotExist},
		"is over the limit":       {[]*pb.ExecRequest{start(func(s *pb.ExecStart) { s.Argv[1] = make([]byte, wire.MaxMessage) })}, podapi.ErrTooLarge},
	} {
		if err := execStreamError(t, conn, test.messages...); !errors.Is(err, test.want) {
			t.Errorf("a stream that %s: %v, want %v", what, err, test.want)
		}
	}
}

func TestExecRepeatedWithItsIDAttaches(t *testing.T) {
	_, socket := serveTest(t, nil)
	conn := raw(t, socket)
	script := start(func(s *pb.ExecStart) { s.Argv, s.Script = nil, []byte("echo $$; exit 3") })
	var outputs []string
	for range 2 {
		stream, err := pb.NewProcessesClient(conn).Exec(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(script); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		var code int32
		for {
			r, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			out.Write(r.GetStdout().GetData())
			if exit := r.GetExit(); exit != nil {
				code = exit.Code
				break
			}
		}
		outputs = append(outputs, fmt.Sprint(out.String(), code))
	}
	if outputs[0] != outputs[1] {
		t.Errorf("the command ran twice: %q", outputs)
	}
	script.GetStart().Script = []byte("echo another")
	if err := execStreamError(t, conn, script); !errors.Is(err, podapi.ErrConflict) {
		t.Errorf("another command under the id: %v", err)
	}
}

func TestExecRepeatedAfterConfigureAttaches(t *testing.T) {
	_, socket := serveTest(t, nil)
	conn := raw(t, socket)
	script := start(func(s *pb.ExecStart) { s.Argv, s.Script = nil, []byte("exit 3") })
	if err := execStreamError(t, conn, script); err != nil {
		t.Fatal(err)
	}
	c := dial(t, podapi.DialOptions{Dial: unixDialer(socket)})
	if err := c.Configure(t.Context(), podapi.Config{Env: []string{"NEW=1"}, Workdir: "/"}); err != nil {
		t.Fatal(err)
	}
	if err := execStreamError(t, conn, script); err != nil {
		t.Errorf("the same start, after another configuration: %v", err)
	}
}

func TestAttachDoesNotWaitForAnotherCallersStdin(t *testing.T) {
	_, socket := serveTest(t, nil)
	conn := raw(t, socket)
	sleeper := start(func(s *pb.ExecStart) { s.Stdin = true })
	open := func(first *pb.ExecRequest) grpc.BidiStreamingClient[pb.ExecRequest, pb.ExecResponse] {
		stream, err := pb.NewProcessesClient(conn).Exec(t.Context())
		if err == nil {
			err = stream.Send(first)
		}
		if err != nil {
			t.Fatal(err)
		}
		if r, err := stream.Recv(); err != nil || r.GetStarted() == nil {
			t.Fatalf("%v, %v", r, err)
		}
		return stream
	}
	stuck := open(sleeper)
	chunk := &pb.StdinChunk{Data: make([]byte, wire.StdinWindow)}
	if err := stuck.Send(&pb.ExecRequest{Kind: &pb.ExecRequest_Stdin{Stdin: chunk}}); err != nil {
		t.Fatal(err)
	}
	open(&pb.ExecRequest{Kind: &pb.ExecRequest_Attach{Attach: &pb.ExecAttach{ExecId: sleeper.GetStart().ExecId}}})
	kill := &pb.ExecRequest{Kind: &pb.ExecRequest_Signal{Signal: 9}}
	if err := stuck.Send(kill); err != nil {
		t.Fatal(err)
	}
	for {
		r, err := stuck.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if r.GetExit() != nil {
			break
		}
	}
}

// TestEnvironmentIsMergedOnce starts processes of all kinds in turn, because they
// share the merged environment.
func TestEnvironmentIsMergedOnce(t *testing.T) {
	a := &Agent{config: Config{Env: []string{"A=1", "B=1", SandboxMarker + "mine", "TERM=dumb"}}}
	a.setEnv([]string{"B=2", SandboxMarker + "another"})
	for range 2 {
		for _, test := range []struct {
			add             []string
			clear, terminal bool
			want            string
		}{
			{nil, false, false, "[PODAGENT_SANDBOX=mine A=1 B=2 TERM=dumb]"},
			{nil, false, true, "[PODAGENT_SANDBOX=mine A=1 B=2]"},
			{[]string{"B=3", SandboxMarker + "another"}, false, false, "[PODAGENT_SANDBOX=mine A=1 B=3 TERM=dumb]"},
			{[]string{"C=1"}, false, true, "[PODAGENT_SANDBOX=mine A=1 B=2 C=1]"},
			{[]string{"C=1"}, true, false, "[PODAGENT_SANDBOX=mine C=1]"},
		} {
			env, err := a.environment(test.add, test.clear, test.terminal)
			if err != nil || fmt.Sprint(env) != test.want {
				t.Errorf("%+v: %v, %v", test, env, err)
			}
		}
	}
	a.setEnv(nil)
	if env, err := a.environment(nil, false, false); err != nil || fmt.Sprint(env) != "[PODAGENT_SANDBOX=mine A=1 B=1 TERM=dumb]" {
		t.Errorf("after another Configure: %v, %v", env, err)
	}
}

func TestDigestCoversOnlyTheRequest(t *testing.T) {
	request := func() *pb.ExecStart {
		return &pb.ExecStart{ExecId: "id", BootId: "boot", Reader: "reader", Argv: [][]byte{[]byte("true")}, Env: [][]byte{[]byte("A=1")}}
	}
	r := request()
	first := digest(r)
	if !proto.Equal(r, request()) {
		t.Errorf("digest changed the request to %v", r)
	}
	r.ExecId, r.BootId, r.Reader = "another", "", "other"
	if digest(r) != first {
		t.Error("another caller changes the digest")
	}
	r.Env[0] = []byte("A=2")
	if digest(r) == first {
		t.Error("another environment does not change the digest")
	}
}

// TestLongCallsLeaveRoomForOthers starts more long calls than there are goroutines
// for calls.
func TestLongCallsLeaveRoomForOthers(t *testing.T) {
	_, socket := serveTest(t, nil)
	c := dial(t, podapi.DialOptions{Dial: unixDialer(socket)})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var long []*podapi.Cmd
	for range 2 * callWorkers {
		cmd := c.Command(ctx, "sleep", "1000")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		long = append(long, cmd)
	}
	if err := c.Command(t.Context(), "true").Run(); err != nil {
		t.Error(err)
	}
	cancel()
	for _, cmd := range long {
		if err := cmd.Wait(); !errors.Is(err, context.Canceled) {
			t.Errorf("a call that was cancelled: %v", err)
		}
	}
}

// The fork begins while the caller is connected, and ends after the caller has
// given up and closed its connection.
func TestCommandWhoseCallerGivesUpDuringTheForkIsKilled(t *testing.T) {
	_, socket := serveTest(t, nil)
	c := dial(t, podapi.DialOptions{Dial: unixDialer(socket)})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	syscall.ForkLock.RLock() // every fork waits for this lock
	ended := make(chan error, 1)
	go func() { ended <- c.Command(ctx, "sleep", "infinity").Run() }()
	awaitCall(t, "spawn.Start")
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Run: %v", err)
	}
	c.Close()
	syscall.ForkLock.RUnlock()
	other := dial(t, podapi.DialOptions{Dial: unixDialer(socket)})
	for deadline := time.Now().Add(hung); ; time.Sleep(time.Millisecond) {
		list, err := other.Processes(t.Context())
		if err == nil && len(list) == 1 && list[0].Status != nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("it is still running: %+v, %v", list, err)
		}
	}
}

// awaitCall waits until a goroutine of this program calls a function.
func awaitCall(t *testing.T, function string) {
	t.Helper()
	stacks := make([]byte, 1<<20)
	for deadline := time.Now().Add(hung); !bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte(function)); {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v in vain for a call of %s", hung, function)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestTerminalIsNotDumbUnlessItsCallerSaysSo(t *testing.T) {
	a := &Agent{config: Config{Env: []string{"TERM=dumb", "A=1"}}}
	a.setEnv(nil)
	for _, test := range []struct {
		add      []string
		terminal bool
		want     string
	}{
		{nil, false, "[A=1 TERM=dumb]"},
		{nil, true, "[A=1]"},
		{[]string{"TERM=dumb"}, true, "[A=1 TERM=dumb]"},
		{[]string{"TERM=screen"}, true, "[A=1 TERM=screen]"},
	} {
		env, err := a.environment(test.add, false, test.terminal)
		if err != nil || fmt.Sprint(env) != test.want {
			t.Errorf("%+v: %v, %v", test, env, err)
		}
	}
}
