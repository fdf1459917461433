package sshserver_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"
)

func TestCommandsHaveTheirStreamsAndStatus(t *testing.T) {
	c := newPlace(t).connect(t, "")
	for command, want := range map[string]struct {
		out, err string
		status   int
		signal   string
	}{
		"cat; echo to stderr >&2; exit 7": {"input", "to stderr\n", 7, ""},
		"true":                            {"", "", 0, ""},
		"kill -TERM $$":                   {"", "", 128 + 15, "TERM"},
		"kill -URG $$; echo goes on":      {"goes on\n", "", 0, ""},
		"/no/such/program 2>/dev/null":    {"", "", 127, ""},
	} {
		s := open(t, c)
		var out, stderr bytes.Buffer
		s.Stdin, s.Stdout, s.Stderr = strings.NewReader("input"), &out, &stderr
		err := s.Run(command)
		status, signal := 0, ""
		if exit, ok := errors.AsType[*ssh.ExitError](err); ok {
			status, signal = exit.ExitStatus(), exit.Signal()
		} else if err != nil {
			t.Errorf("%s: %v", command, err)
		}
		if out.String() != want.out || stderr.String() != want.err || status != want.status || signal != want.signal {
			t.Errorf("%s: %q, %q, %d %s", command, &out, &stderr, status, signal)
		}
	}
}

// Clients that are done with their input close a session when its output ends, and would miss a status that came later.
func TestTheStatusComesBeforeTheEndOfTheOutput(t *testing.T) {
	c := newPlace(t).connect(t, "")
	for command, want := range map[string]string{"echo out; exit 7": "exit-status", "kill -TERM $$": "exit-signal"} {
		channel, requests, err := c.OpenChannel("session", nil)
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := channel.SendRequest("exec", true, ssh.Marshal(struct{ Command string }{command})); err != nil || !ok {
			t.Fatalf("%s: %v, %v", command, ok, err)
		}
		if _, err := io.Copy(io.Discard, channel); err != nil {
			t.Fatal(err)
		}
		select {
		case r := <-requests:
			if r == nil || r.Type != want {
				t.Errorf("%s: %+v, want %s", command, r, want)
			}
		default:
			t.Errorf("%s: the output ends before the %s", command, want)
		}
		channel.Close()
	}
}

func TestAShellReadsItsInput(t *testing.T) {
	s := open(t, newPlace(t).connect(t, ""))
	var out bytes.Buffer
	s.Stdin, s.Stdout = strings.NewReader("echo $((6 * 7))\nexit 3\n"), &out
	if err := s.Shell(); err != nil {
		t.Fatal(err)
	}
	exit, ok := errors.AsType[*ssh.ExitError](s.Wait())
	if !ok || exit.ExitStatus() != 3 || out.String() != "42\n" {
		t.Errorf("%q, %v", &out, exit)
	}
}

func TestATerminalHasTheClientsSizeModesAndSignals(t *testing.T) {
	s := open(t, newPlace(t).connect(t, ""))
	terminal(t, s, ssh.TerminalModes{ssh.ECHO: 0, ssh.VINTR: 24, ssh.TTY_OP_ISPEED: 9600})
	in, out := start(t, s, `trap 'stty size' WINCH; trap 'echo usr1' USR1; echo $TERM; stty size
		stty -a | grep -o ' -echo ' | head -1; stty -a | grep -o 'intr = ..'; echo ready
		until read -r -t 0.05 line; do part=$part$line; done # it may return within a line
		echo got $part$line; exit 4`)
	if said := until(t, out, "ready\r\n"); said != "xterm-256color\r\n30 100\r\n -echo \r\nintr = ^X\r\nready\r\n" {
		t.Errorf("%q", said)
	}
	if err := s.WindowChange(10, 40); err != nil {
		t.Fatal(err)
	}
	until(t, out, "10 40\r\n")
	if err := s.Signal(ssh.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	until(t, out, "usr1\r\n")
	fmt.Fprint(in, "typed\n")
	until(t, out, "got typed\r\n")
	if exit, ok := errors.AsType[*ssh.ExitError](s.Wait()); !ok || exit.ExitStatus() != 4 {
		t.Error(exit)
	}
}

func TestTheEnvironmentReachesCommandsWithinBounds(t *testing.T) {
	c := newPlace(t).connect(t, "")
	s := open(t, c)
	if err := s.Setenv("GREETING", "a b\nc"); err != nil {
		t.Fatal(err)
	}
	if err := s.Setenv("NOT A NAME", "x"); err == nil {
		t.Error("a variable without a name was taken")
	}
	if err := s.Setenv("LARGE", strings.Repeat("x", 70<<10)); err == nil {
		t.Error("70 KiB were taken")
	}
	out, err := s.Output(`printf %s "$GREETING$LARGE"`)
	if string(out) != "a b\nc" {
		t.Errorf("%q, %v", out, err)
	}
	s, refused := open(t, c), 0
	for i := range 1000 {
		if s.Setenv(fmt.Sprint("V", i), "x") != nil {
			refused++
		}
	}
	if refused != 1000-128 {
		t.Errorf("%d of 1000 variables were refused", refused)
	}
}

func TestWhatAClientLeavesGetsAHangup(t *testing.T) {
	for _, withTerminal := range []bool{false, true} {
		p := newPlace(t)
		c := p.connect(t, "")
		s := open(t, c)
		if withTerminal {
			terminal(t, s, nil)
		}
		_, out := start(t, s, `trap '' HUP; sleep 601 & echo $! > survivor
			trap 'echo hup > left; exit' HUP; echo ready; while :; do sleep 0.05; echo more; done`)
		until(t, out, "ready")
		c.Close()
		await(t, "the hangup", func() bool {
			text, _ := p.ReadFile(t.Context(), "left")
			return string(text) == "hup\n"
		})
		if err := p.Shell(t.Context(), `pid=$(cat survivor); grep -qa sleep /proc/$pid/cmdline && kill $pid`).Run(); err != nil {
			t.Errorf("with a terminal %v: what ignores HUP is gone: %v", withTerminal, err)
		}
	}
}

// Editors start their servers in this way, and expect them there after a cut.
func TestAServerInTheBackgroundOutlivesItsClient(t *testing.T) {
	p := newPlace(t)
	c := p.connect(t, "")
	_, out := start(t, open(t, c), `sleep 602 </dev/null >log 2>&1 & echo $! >server
		while ! grep -q sleep /proc/$!/comm; do sleep 0.01; done # until it has none of the standard streams
		trap 'echo hup > left; exit' HUP; echo ready; while :; do sleep 0.05; done`)
	until(t, out, "ready")
	c.Close()
	await(t, "the hangup", func() bool {
		text, _ := p.ReadFile(t.Context(), "left")
		return string(text) == "hup\n"
	})
	said, err := open(t, p.connect(t, "")).Output(`kill $(cat server) && echo stopped`)
	if string(said) != "stopped\n" {
		t.Errorf("the server in the background is gone: %q, %v", said, err)
	}
}

func TestANamedTerminalRunsOnAndShowsItsScreenAgain(t *testing.T) {
	p := newPlace(t)
	c := p.connect(t, "main")
	s := open(t, c)
	terminal(t, s, nil)
	in, out := start(t, s, "echo the screen; while read -r line; do echo got $line; [ $line = end ] && exit 5; done")
	until(t, out, "the screen\r\n")
	fmt.Fprint(in, "first\n")
	until(t, out, "got first\r\n")
	c.Close()

	again := open(t, p.connect(t, "main"))
	terminal(t, again, nil)
	in, out = start(t, again, "echo another command, which does not run")
	if said := until(t, out, "got first\r\n"); !strings.Contains(said, "the screen") || strings.Contains(said, "another") {
		t.Errorf("the screen is %q", said)
	}
	fmt.Fprint(in, "end\n")
	rest, err := io.ReadAll(out)
	exit, ok := errors.AsType[*ssh.ExitError](again.Wait())
	if !ok || exit.ExitStatus() != 5 || !strings.Contains(string(rest), "got end") {
		t.Errorf("%q, %v, %v", rest, err, exit)
	}
	if out, err := open(t, p.connect(t, "main")).Output("echo without a terminal"); string(out) != "without a terminal\n" {
		t.Errorf("a command without a terminal: %q, %v", out, err)
	}
}

func TestClientsThatStartTheSameTerminalAtOnceGetOne(t *testing.T) {
	p := newPlace(t)
	const clients = 10
	ready := make(chan struct{})
	var all sync.WaitGroup
	for i := range clients {
		c := p.connect(t, "main")
		all.Go(func() {
			s := open(t, c)
			terminal(t, s, ssh.TerminalModes{ssh.ECHO: uint32(i % 2)}) // clients differ
			_, out := pipes(t, s)
			<-ready
			if err := s.Start("echo >>started; echo the screen; read -r line"); err != nil {
				t.Error(err)
				return
			}
			until(t, out, "the screen\r\n")
		})
	}
	close(ready)
	all.Wait()
	p.has(t, "started", []byte("\n"))
	s := open(t, p.connect(t, "main"))
	terminal(t, s, nil)
	in, _ := start(t, s, "not started")
	fmt.Fprint(in, "end\n")
	if err := s.Wait(); err != nil {
		t.Error(err)
	}
}

func TestATerminalThatEndedStartsAnewUnderItsName(t *testing.T) {
	p := newPlace(t)
	for i := range 4 {
		s := open(t, p.connect(t, "main"))
		terminal(t, s, nil)
		if out, err := s.Output(fmt.Sprint("echo ", i)); string(out) != fmt.Sprintf("%d\r\n", i) {
			t.Errorf("terminal %d: %q, %v", i, out, err)
		}
		list, err := p.Processes(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if i == 1 { // of a terminal that was forgotten nobody knows the exec id
			for _, old := range list {
				if err := p.Forget(t.Context(), old.ID); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

func TestASandboxWithoutAShellRunsPlainCommandsAndSaysWhatItLacks(t *testing.T) {
	c := newPlace(t).connect(t, "")
	for command, want := range map[string]struct {
		out, err string
		status   int
	}{
		"/bin/echo a  b":                {"a b\n", "", 0},
		"":                              {"", "the sandbox has no shell", 127},
		"/bin/echo $HOME":               {"", "the sandbox has no shell", 127},
		"scp -t .":                      {"", "without -O", 127},
		"rsync --server -logDtpr . dir": {"", "rsync needs rsync in the sandbox", 127},
	} {
		s := open(t, c)
		if err := s.Setenv("PATH", "/nowhere"); err != nil {
			t.Fatal(err)
		}
		var out, stderr bytes.Buffer
		s.Stdout, s.Stderr = &out, &stderr
		start := func() error { return s.Start(command) }
		if command == "" {
			start = s.Shell
		}
		if err := start(); err != nil {
			t.Fatal(err)
		}
		status := 0
		if exit, ok := errors.AsType[*ssh.ExitError](s.Wait()); ok {
			status = exit.ExitStatus()
		}
		if out.String() != want.out || !strings.Contains(stderr.String(), want.err) || status != want.status {
			t.Errorf("%q: %q, %q, %d", command, &out, &stderr, status)
		}
	}
}

// A command may end with 127 for any reason.
func TestAHintIsForWhatTheSandboxLacks(t *testing.T) {
	p := newPlace(t)
	c := p.connect(t, "")
	if err := p.Shell(t.Context(), "mkdir bin && ln -s $(command -v sh) bin/sh").Run(); err != nil {
		t.Fatal(err)
	}
	says := func() bool {
		s := open(t, c)
		if err := s.Setenv("PATH", p.Workdir+"/bin"); err != nil {
			t.Fatal(err)
		}
		out, _ := s.CombinedOutput("scp -t /none >&- 2>&-; exit 127")
		return strings.Contains(string(out), "scp -O needs scp in the sandbox")
	}
	if !says() {
		t.Error("no hint, and no scp")
	}
	if err := p.WriteFile(t.Context(), "bin/scp", []byte("#!"+p.Workdir+"/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if says() {
		t.Error("a hint, and scp is there")
	}
}

// OpenSSH's client tells that nobody reads the output any more, as in "ssh job-1 yes | head -1".
func TestACommandWhoseOutputNobodyReadsGetsASIGPIPEWhenItWrites(t *testing.T) {
	p := newPlace(t)
	s := open(t, p.connect(t, ""))
	in, out := start(t, s, `trap 'echo pipe >>got; exit 3' PIPE; echo one; read -r line; echo work >>got
		read -r line; echo two; while :; do sleep 0.05; done`)
	until(t, out, "one\n")
	if ok, err := s.SendRequest("eow@openssh.com", true, nil); !ok || err != nil {
		t.Fatal(ok, err)
	}
	fmt.Fprint(in, "go on\n")
	await(t, "the work", func() bool {
		text, _ := p.ReadFile(t.Context(), "got")
		return string(text) == "work\n"
	})
	fmt.Fprint(in, "write\n")
	if exit, ok := errors.AsType[*ssh.ExitError](s.Wait()); !ok || exit.ExitStatus() != 3 {
		t.Error(exit)
	}
	p.has(t, "got", []byte("work\npipe\n"))
}

func TestAShellIsCalledThatInTheListOfProcesses(t *testing.T) {
	p := newPlace(t)
	s := open(t, p.connect(t, ""))
	terminal(t, s, ssh.TerminalModes{ssh.ECHO: 0})
	pipes(t, s)
	if err := s.Shell(); err != nil {
		t.Fatal(err)
	}
	await(t, "the shell", func() bool {
		list, err := p.Processes(t.Context())
		return err == nil && len(list) == 1 && strings.HasPrefix(list[0].Script, "# ssh shell\n")
	})
}
