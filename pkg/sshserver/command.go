package sshserver

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/podagent/podagent/pkg/podapi"
)

// The statuses of commands that have none, as ssh and shells have them.
const (
	statusTrouble       = 255
	statusNotExecutable = 126
	statusNotThere      = 127
)

// findShell becomes the user's shell. Service accounts may have a shell that lets nobody in,
// which does not count.
const findShell = `case $SHELL in */nologin | */false) SHELL= ;; esac
for shell in "$SHELL" bash sh; do
	path=$(command -v "${shell:-bash}") && exec "$path"
done
exit 127`

// command runs a command, or a shell if it is empty, with the channel as its standard streams.
func (s *session) command(ctx context.Context, text string) {
	for _, why := range s.conn.takeNotes() {
		s.say(why)
	}
	// The process may outlive the client, but its start does not.
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	started := context.AfterFunc(s.run.gone, cancel)
	named := s.terminal != nil && s.conn.server.Terminal != ""
	p, err := s.start(running, text, named)
	if !started() && err == nil {
		err = p.Wait() // the client left meanwhile, and the process was killed
	}
	if err != nil {
		status := startStatus(err)
		if isNoShell(err) {
			err = errNoShell
		}
		if isMissing(err, firstWord(text)) {
			s.hint(text)
		}
		s.fail(status, err)
		return
	}
	s.run.started(p)
	err = s.await(p, named)
	if status := p.Status(); status != nil && status.Code == statusNotThere && s.lacks(firstWord(text)) {
		s.hint(text)
	}
	s.finish(p, err)
}

func (s *session) start(ctx context.Context, text string, named bool) (*podapi.Process, error) {
	if named {
		return s.startNamed(ctx, text)
	}
	c := s.conn.server.Sandbox.Shell(ctx, s.script(text))
	err := s.startCommand(c)
	if words, ok := plainWords(text); ok && isNoShell(err) {
		c = s.conn.server.Sandbox.Command(ctx, words[0], words[1:]...)
		err = s.startCommand(c)
	}
	return c.Process, err
}

// errNoShell says more than that there is no sh.
var errNoShell = errors.New("the sandbox has no shell: give a command of plain words, such as /path/program argument")

// hints say what a client's program needs, if its other half is not in the sandbox.
var hints = map[string]string{
	"scp":   "scp -O needs scp in the sandbox; without -O it needs nothing there",
	"rsync": "rsync needs rsync in the sandbox, too",
}

func firstWord(text string) string {
	word, _, _ := strings.Cut(text, " ")
	return word
}

// hint says what the command needs, whose program is not in the sandbox.
func (s *session) hint(text string) {
	if hint := hints[firstWord(text)]; hint != "" {
		s.say(hint)
	}
}

// lacks reports whether the sandbox's shell does not find a program that there is a hint for: the status
// alone may be that of anything in the command.
func (s *session) lacks(program string) bool {
	if hints[program] == "" {
		return false
	}
	ctx, cancel := context.WithTimeout(s.run.gone, toolTime)
	defer cancel()
	look := s.conn.server.Sandbox.Shell(ctx, "command -v "+program)
	look.Env = s.env
	_, failed := errors.AsType[*podapi.ExitError](look.Run())
	return failed
}

// isMissing reports whether err says that there is no such program.
func isMissing(err error, program string) bool {
	e, ok := errors.AsType[*fs.PathError](err)
	return ok && e.Op == "exec" && e.Path == program && errors.Is(err, fs.ErrNotExist)
}

// startCommand starts a command with the session's environment and terminal.
func (s *session) startCommand(c *podapi.Cmd) error {
	c.Env, c.Stdin, c.Stdout = s.env, s.input(), &output{to: s.channel, run: s.run}
	if s.terminal == nil {
		c.Stderr = &output{to: s.channel.Stderr()}
		return c.Start()
	}
	c.Terminal = &s.terminal.size
	if s.terminal.name != "" {
		c.Env = slices.Concat(s.env, []string{"TERM=" + s.terminal.name})
	}
	return c.Start()
}

// script returns the shell's script for a command: itself, or what becomes the user's shell.
func (s *session) script(text string) string {
	title := ""
	if text == "" {
		title, text = "# ssh shell\n", findShell // what ps shows
	}
	if s.terminal == nil || len(s.terminal.modes) == 0 {
		return title + text
	}
	return title + "stty " + strings.Join(s.terminal.modes, " ") + " 2>/dev/null\n" + text
}

// plainWords returns the words of a command that means the same without a shell.
func plainWords(text string) ([]string, bool) {
	words := strings.Fields(text)
	return words, len(words) > 0 && !strings.ContainsAny(text, "\"'`$\\|&;<>()*?[]#~={}!\n")
}

// isNoShell reports whether err says that the sandbox has no shell.
func isNoShell(err error) bool { return isMissing(err, "sh") }

func startStatus(err error) int {
	e, ok := errors.AsType[*fs.PathError](err)
	switch {
	case !ok || e.Op != "exec":
		return statusTrouble
	case errors.Is(err, fs.ErrNotExist):
		return statusNotThere
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.ENOEXEC), errors.Is(err, syscall.EISDIR):
		return statusNotExecutable
	}
	return statusTrouble
}

// await waits for the end of the process. If the client leaves first, the process gets HUP and
// is left alone; a named one only the latter. A program that ends after the client does so only
// when the agent has the HUP, or cannot be reached.
func (s *session) await(p *podapi.Process, named bool) error {
	ended := make(chan error, 1)
	go func() { ended <- p.Wait() }()
	select {
	case err := <-ended:
		return err
	case <-s.run.gone.Done():
	}
	if !named {
		told := make(chan struct{})
		go func() {
			defer close(told)
			_ = p.Signal(hangUp) // it may take as long as a new connection to the agent
		}()
		select {
		case <-told:
		case <-time.After(hangUpReach):
		}
		select {
		case err := <-ended:
			return err
		case <-time.After(hangUpTime):
		}
	}
	_ = p.Detach() // its error says that the process has ended
	return <-ended
}

// finish tells the client how the process ended.
func (s *session) finish(p *podapi.Process, err error) {
	status := p.Status()
	_, ended := errors.AsType[*podapi.ExitError](err)
	switch {
	case status == nil || err != nil && !ended:
		s.fail(statusTrouble, err)
		return
	case status.Reason == podapi.AgentLost:
		s.fail(statusTrouble, podapi.ErrAgentLost)
		return
	case status.Reason == podapi.OutOfMemory:
		s.say("the command was ended because the sandbox ran out of memory")
	}
	s.exit(*status)
}

// input returns what the client types. A terminal's input never ends, so that what outlives the client
// reads no ctrl-d.
func (s *session) input() io.Reader {
	if s.terminal == nil {
		return s.channel
	}
	return &typed{s.channel, s.run.done}
}

type typed struct {
	from io.Reader
	done <-chan struct{} // of the run
}

func (t *typed) Read(p []byte) (int, error) {
	n, err := t.from.Read(p)
	if n == 0 && err != nil {
		<-t.done
	}
	return n, err
}

// output writes to the client while there is one. After that, the process is not to notice:
// it gets HUP. If the client is there and reads the standard output no more, the process gets PIPE
// with the next bytes that it writes, and not before: it may have more to do than to write.
type output struct {
	to   io.Writer
	run  *run // whose standard output it is; nil for standard error
	over bool
}

func (o *output) Write(p []byte) (int, error) {
	if !o.over && o.run != nil && o.run.unread.Load() {
		o.over = true
		o.run.signal(brokenPipe)
	}
	if !o.over {
		_, err := o.to.Write(p)
		o.over = err != nil
	}
	return len(p), nil
}
