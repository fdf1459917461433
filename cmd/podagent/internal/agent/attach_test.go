package agent

import (
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"

	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// exchange sends messages of Exec. It returns all responses after started, except
// acknowledgements.
func exchange(t *testing.T, conn *grpc.ClientConn, messages ...*pb.ExecRequest) (started *pb.ExecStarted, rest []*pb.ExecResponse) {
	t.Helper()
	stream, err := pb.NewProcessesClient(conn).Exec(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		if err := stream.Send(m); err != nil {
			t.Fatal(err)
		}
	}
	for {
		r, err := stream.Recv()
		if err != nil {
			t.Fatalf("it ended without a final message: %v, after %v", err, rest)
		}
		switch {
		case r.GetStarted() != nil:
			started = r.GetStarted()
		case r.GetStdin() == nil:
			rest = append(rest, r)
		}
		if r.GetExit() != nil || r.GetDetached() != nil {
			return started, rest
		}
	}
}

func attach(id string, change func(*pb.ExecAttach)) *pb.ExecRequest {
	a := &pb.ExecAttach{ExecId: id}
	change(a)
	return &pb.ExecRequest{Kind: &pb.ExecRequest_Attach{Attach: a}}
}

var detach = &pb.ExecRequest{Kind: &pb.ExecRequest_Detach{Detach: &pb.ExecDetach{}}}

func TestDetachComesAfterWhatWasSentBefore(t *testing.T) {
	workdir, socket := serveTest(t, nil)
	conn := raw(t, socket)
	writer := start(func(s *pb.ExecStart) { s.Argv, s.Script, s.Stdin = nil, []byte("exec cat > file"), true })
	input := &pb.ExecRequest{Kind: &pb.ExecRequest_Stdin{Stdin: &pb.StdinChunk{Data: []byte("all of it"), Eof: true}}}
	_, rest := exchange(t, conn, writer, input, detach)
	if len(rest) != 1 {
		t.Errorf("it got %v", rest)
	}
	// The agent knows or will soon know how the command ended.
	id := writer.GetStart().ExecId
	started, rest := exchange(t, conn, attach(id, func(*pb.ExecAttach) {}))
	if exit := rest[0].GetExit(); exit == nil || exit.Code != 0 || started.Stdin != 9 {
		t.Errorf("started %v, then %v", started, rest)
	}
	if data, err := os.ReadFile(filepath.Join(workdir, "file")); string(data) != "all of it" {
		t.Errorf("%q, %v", data, err)
	}
}

func TestDetachFromAProcessThatReadsNothing(t *testing.T) {
	_, socket := serveTest(t, nil)
	conn := raw(t, socket)
	sleeper := start(func(s *pb.ExecStart) { s.Stdin = true })
	input := &pb.ExecRequest{Kind: &pb.ExecRequest_Stdin{Stdin: &pb.StdinChunk{Data: make([]byte, wire.StdinWindow)}}}
	if _, rest := exchange(t, conn, sleeper, input, detach); len(rest) != 1 || rest[0].GetDetached() == nil {
		t.Errorf("it got %v", rest)
	}
	kill := &pb.ExecRequest{Kind: &pb.ExecRequest_Signal{Signal: 9}}
	if _, rest := exchange(t, conn, attach(sleeper.GetStart().ExecId, func(*pb.ExecAttach) {}), kill); rest[0].GetExit().GetSignal() != 9 {
		t.Errorf("it got %v", rest)
	}
}

func TestAttachGetsOnlyWhatItAsksFor(t *testing.T) {
	_, socket := serveTest(t, nil)
	conn := raw(t, socket)
	done := start(func(s *pb.ExecStart) { s.Argv, s.Script = nil, []byte("echo output; exit 4") })
	exchange(t, conn, done)
	id := done.GetStart().ExecId
	for what, test := range map[string]struct {
		change func(*pb.ExecAttach)
		output string
	}{
		"all":                 {func(*pb.ExecAttach) {}, "output\n"},
		"the rest":            {func(a *pb.ExecAttach) { a.Stdout = 3 }, "put\n"},
		"nothing more":        {func(a *pb.ExecAttach) { a.Stdout = 7 }, ""},
		"what is there":       {func(a *pb.ExecAttach) { a.NoFollow = true }, "output\n"},
		"only the end":        {func(a *pb.ExecAttach) { a.NoOutput = true }, ""},
		"only that it ended":  {func(a *pb.ExecAttach) { a.NoOutput, a.NoFollow = true, true }, ""},
		"a screen it has not": {func(a *pb.ExecAttach) { a.Screen = &pb.TerminalSize{Rows: 24, Columns: 80} }, "output\n"},
	} {
		_, rest := exchange(t, conn, attach(id, test.change))
		output := ""
		for _, r := range rest[:len(rest)-1] {
			output += string(r.GetStdout().GetData())
		}
		if output != test.output || rest[len(rest)-1].GetExit().GetCode() != 4 {
			t.Errorf("%s: %v", what, rest)
		}
	}
}
