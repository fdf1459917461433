package agentsandbox

import (
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podagent/podagent/test/contracts"
)

func TestProcessesOfSandboxd(t *testing.T) {
	b := newBox(t)
	b.saw(contracts.Works, "ProcessService.Start", "ProcessService.WriteStdin", "ProcessService.SendSignal", "ProcessService.ResizeTTY")
	greeting := bytesField(2, append(bytesField(1, []byte("GREETING")), bytesField(2, []byte("hello"))...))
	s := b.open(processes+"Start", bytesField(1, config("echo $GREETING; pwd; echo err >&2; exit 3", greeting, bytesField(3, []byte("/")))))
	field, _, err := s.next()
	if stdout, stderr, exit := s.rest(); field != 1 || err != nil || stdout != "hello\n"+b.sandbox.Workdir+"\n" || stderr != "err\n" || exit != 3 {
		t.Errorf("it writes %q %q, and exits with %d; first %d: %v", stdout, stderr, exit, field, err)
	}
	s, _ = b.start("kill -9 $$")
	if _, _, exit := s.rest(); exit != -1 {
		t.Errorf("one that a signal ended exits with %d", exit)
	}
	s, id := b.start("echo ready; cat; exit 4")
	s.until("ready")
	for _, payload := range [][]byte{bytesField(2, []byte("a line\n")), bytesField(3, nil)} {
		if err := b.unary(processes+"WriteStdin", append(numberField(1, id), payload...)); err != nil {
			t.Error(err)
		}
	}
	if stdout, _, exit := s.rest(); !strings.HasSuffix(stdout, "a line\n") || exit != 4 {
		t.Errorf("it writes %q, and exits with %d", stdout, exit)
	}
	s, id = b.start("trap 'exit 5' TERM; echo ready; while :; do sleep 0.01; done")
	s.until("ready")
	if err := b.unary(processes+"SendSignal", append(numberField(1, id), numberField(2, 15)...)); err != nil {
		t.Error(err)
	}
	if _, _, exit := s.rest(); exit != 5 {
		t.Errorf("it exits with %d", exit)
	}
	s, id = b.start("stty size; read line; stty size", bytesField(2, append(numberField(1, 100), numberField(2, 30)...)))
	s.until("30 100")
	if err := b.unary(processes+"ResizeTTY", append(append(numberField(1, id), numberField(2, 120)...), numberField(3, 40)...)); err != nil {
		t.Error(err)
	}
	if err := b.unary(processes+"WriteStdin", append(numberField(1, id), bytesField(2, []byte("\n"))...)); err != nil {
		t.Error(err)
	}
	s.until("40 120")
}

func TestExecuteAnswersWithAllOutput(t *testing.T) {
	b := newBox(t)
	b.saw(contracts.Works, "ProcessService.Execute")
	s := b.open(processes+"Execute", bytesField(1, config("printf out; printf err >&2; exit 7")))
	_, message, err := s.next()
	want := string(numberField(1, 7)) + string(bytesField(2, []byte("out"))) + string(bytesField(3, []byte("err")))
	if string(message) != want || err != nil {
		t.Errorf("%q: %v", message, err)
	}
	if _, _, err := s.next(); err != io.EOF {
		t.Errorf("after the answer: %v", err)
	}
}

// A process ends when its caller leaves, with what it started.
func TestProcessEndsWithItsStream(t *testing.T) {
	b := newBox(t)
	b.saw(contracts.Works, "ProcessService.Start: leaving")
	for _, method := range []string{"Start", "Execute"} {
		s := b.open(processes+method, bytesField(1, config("touch "+method+"; sleep 1000 & sleep 1000")))
		b.eventually("the start", func() bool {
			_, err := b.sandbox.Stat(t.Context(), method)
			return err == nil
		})
		s.leave()
		b.eventually("the end of what was left by "+method, func() bool {
			all, err := b.sandbox.Processes(t.Context())
			for _, p := range all {
				if p.Status == nil {
					return false
				}
			}
			return err == nil
		})
	}
}

func TestWrongCallsOfSandboxd(t *testing.T) {
	b := newBox(t)
	s, id := b.start("exec sleep 1000")
	large := bytesField(1, config("head -c 5000000 /dev/zero"))
	for what, c := range map[string]struct {
		method  string
		message []byte
		want    codes.Code
	}{
		"no config":                    {processes + "Start", nil, codes.InvalidArgument},
		"no command":                   {processes + "Execute", bytesField(1, nil), codes.InvalidArgument},
		"a command that is not there":  {processes + "Start", bytesField(1, bytesField(1, []byte("/no/such"))), codes.NotFound},
		"one that cannot be executed":  {processes + "Execute", bytesField(1, bytesField(1, []byte("/etc/passwd"))), codes.PermissionDenied},
		"a cwd outside":                {processes + "Start", bytesField(1, config("true", bytesField(3, []byte("../..")))), codes.PermissionDenied},
		"a cwd that is not there":      {processes + "Start", bytesField(1, config("true", bytesField(3, []byte("none")))), codes.NotFound},
		"a variable without a name":    {processes + "Execute", bytesField(1, config("true", bytesField(2, bytesField(2, []byte("x"))))), codes.InvalidArgument},
		"a text that is none":          {processes + "Execute", bytesField(1, bytesField(1, []byte("\xff"))), codes.InvalidArgument},
		"a message that is cut":        {processes + "Start", []byte{0x0a, 5, 1}, codes.InvalidArgument},
		"a terminal that is too large": {processes + "Start", append(bytesField(1, config("true")), bytesField(2, numberField(1, 1<<17))...), codes.InvalidArgument},
		"more output than fits":        {processes + "Execute", large, codes.ResourceExhausted},
		"input for nobody":             {processes + "WriteStdin", append(numberField(1, 1<<30), bytesField(2, []byte("x"))...), codes.NotFound},
		"a signal for nobody":          {processes + "SendSignal", append(numberField(1, -1), numberField(2, 9)...), codes.NotFound},
		"a signal that is none":        {processes + "SendSignal", append(numberField(1, id), numberField(2, 1)...), codes.InvalidArgument},
		"no signal":                    {processes + "SendSignal", numberField(1, id), codes.InvalidArgument},
		"the size of no terminal":      {processes + "ResizeTTY", append(append(numberField(1, id), numberField(2, 9)...), numberField(3, 9)...), codes.FailedPrecondition},
		"a watch of nothing":           {watchers + "WatchDir", bytesField(1, []byte("none")), codes.NotFound},
		"a watch outside":              {watchers + "WatchDir", bytesField(1, []byte("../..")), codes.PermissionDenied},
		"a method that is none":        {processes + "List", nil, codes.Unimplemented},
	} {
		if err := b.unary(c.method, c.message); status.Code(err) != c.want {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
	}
	s.leave()
}

func TestWatchTellsWhatHappens(t *testing.T) {
	b := newBox(t)
	b.saw(contracts.Works, "FileWatcherService.WatchDir")
	if err := b.sandbox.MkdirAll(t.Context(), "dir/sub", 0); err != nil {
		t.Fatal(err)
	}
	s := b.open(watchers+"WatchDir", append(bytesField(1, []byte("dir")), numberField(2, 1)...))
	if _, err := s.Header(); err != nil { // it comes when all is watched
		t.Fatal(err)
	}
	if err := b.sandbox.WriteFile(t.Context(), "dir/sub/a", []byte("x"), 0); err != nil {
		t.Fatal(err)
	}
	b.wantEvent(s, fileEvent{kind: eventCreate, path: "dir/sub/a"})
	if err := b.sandbox.Rename(t.Context(), "dir/sub/a", "dir/b"); err != nil {
		t.Fatal(err)
	}
	b.wantEvent(s, fileEvent{kind: eventRename, path: "dir/b", old: "dir/sub/a"})
	if err := b.sandbox.Remove(t.Context(), "dir/b"); err != nil {
		t.Fatal(err)
	}
	b.wantEvent(s, fileEvent{kind: eventRemove, path: "dir/b"})
	if err := b.sandbox.RemoveAll(t.Context(), "dir"); err != nil {
		t.Fatal(err)
	}
	b.wantEvent(s, fileEvent{kind: eventError, fault: "the directory was removed"})
	if _, _, err := s.next(); err != io.EOF {
		t.Errorf("after the last event: %v", err)
	}
}

// wantEvent reads events until one comes.
func (b *box) wantEvent(s *stream, want fileEvent) {
	b.Helper()
	for {
		_, message, err := s.next()
		if err != nil {
			b.Fatalf("%+v does not come: %v", want, err)
		}
		if string(message) == string(want.encode()) {
			return
		}
		if strings.Contains(string(message), ".tmp-") {
			b.Errorf("a file of the agent's own is told of: %q", message)
		}
	}
}
