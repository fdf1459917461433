package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/podagent/podagent/cmd/orchestrator/internal/console"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/sshserver"
)

// sshOptions say how OpenSSH's client is run, or what is served to one.
type sshOptions struct {
	stdio      bool
	session    string
	knownHosts string
	tty, idle  bool
	local      []string
	dynamic    []string
}

func sshCommand(a *app) *cobra.Command {
	var opts sshOptions
	cmd := &cobra.Command{
		Use:   "ssh ID [flags] [--] [COMMAND [ARG]...]",
		Short: "Open a shell in a sandbox by ssh",
		Long: `Ssh runs OpenSSH's ssh for a sandbox: a shell, or COMMAND, which a shell in the sandbox
gets, as with any ssh. There is no sshd, key or port in the sandbox. This program is the
server, at the other end of a pipe.

With --session, the terminal has a name. If one of this name runs in the sandbox, ssh goes
on with it, with its screen. When ssh ends, the terminal runs on. Without a name, what was
started gets a hangup when ssh ends first.

For scp, sftp, rsync, git and editors, "orchestrator ssh-config" prints the configuration
that lets them all use ID.podagent as a host. With --stdio, ssh serves the protocol at its
own standard input and output: this is what a ProxyCommand runs. Then ID may also be
ID.podagent or ID+NAME.podagent, with the name of a terminal.

Exit status: that of ssh, which is the command's, or 255 if ssh failed, for example because
there is no such sandbox. 125 if ssh could not be run: the command line is wrong, ssh is not
installed, or the host key cannot be had. With --stdio: 0 if the client ended the
connection, 125 if something else did, and 128 plus its number if that was a signal.`,
		Example: `  orchestrator ssh job-1
  orchestrator ssh job-1 -L 8080:localhost:80 -- make serve
  orchestrator ssh job-1 --session main
  ssh -o ProxyCommand='orchestrator ssh --stdio job-1' job-1.podagent`,
		ValidArgsFunction: a.completeIDs(false),
		PersistentPreRunE: loadedLater,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, command, err := a.commandAfterID(cmd, args)
			if err == nil && len(args) == 0 {
				err = takes(1, -1)(cmd, args)
			}
			if err != nil {
				return err
			}
			if opts.stdio {
				return a.serveSSH(cmd.Context(), id, command, opts)
			}
			return a.runSSH(cmd, id, command, opts)
		},
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false)
	flags.BoolVar(&opts.stdio, "stdio", false, "serve SSH at standard input and output, for ssh's ProxyCommand")
	flags.StringVar(&opts.session, "session", "", "go on with the terminal of this `NAME`, or start it")
	flags.StringVar(&opts.knownHosts, "known-hosts", "", "with --stdio, write the host keys to this `FILE` if it has others")
	flags.BoolVarP(&opts.tty, "tty", "t", false, "run COMMAND in a terminal")
	flags.BoolVarP(&opts.idle, "no-command", "N", false, "run nothing: only forward ports")
	flags.StringArrayVarP(&opts.local, "local-forward", "L", nil, "join a `PORT:localhost:PORT` of this machine with one of the sandbox; may be repeated")
	flags.StringArrayVarP(&opts.dynamic, "dynamic-forward", "D", nil, "serve SOCKS at a `PORT` of this machine, for ports of the sandbox; may be repeated")
	return cmd
}

// sshHost is what the names of sandboxes end with where ssh wants a host.
const sshHost = ".podagent"

// sshTarget returns the sandbox and the name of the terminal that a host's name means. An id
// without the ending is taken as it is. A terminal that is given counts.
func sshTarget(name, given string) (id, terminal string, err error) {
	terminal = given
	if host, ok := strings.CutSuffix(name, sshHost); ok {
		name = host
		if i := strings.LastIndexByte(host, '+'); i >= 0 && given == "" {
			name, terminal = host[:i], host[i+1:]
			if terminal == "" {
				return "", "", usagef("%q has no name of a terminal behind its plus", host+sshHost)
			}
		}
	}
	if terminal != "" {
		if err := sshserver.CheckTerminal(terminal); err != nil {
			return "", "", usageError{err}
		}
	}
	return name, terminal, nil
}

// runSSH runs OpenSSH's client, with this program as its ProxyCommand.
func (a *app) runSSH(cmd *cobra.Command, id string, command []string, opts sshOptions) error {
	if _, _, err := sshTarget("", opts.session); err != nil {
		return err
	}
	if strings.ContainsFunc(id, unicode.IsControl) {
		return usagef("ssh cannot have %q in its command line", id)
	}
	c, err := a.sshConfig(cmd)
	if err != nil {
		return &sandboxError{id: id, launching: true, err: err}
	}
	args := c.options(id, opts.session)
	if opts.tty {
		args = append(args, "-t")
	}
	if opts.idle {
		args = append(args, "-N")
	}
	for _, l := range opts.local {
		args = append(args, "-L", l)
	}
	for _, d := range opts.dynamic {
		args = append(args, "-D", d)
	}
	args = append(args, c.host(id, opts.session))
	if len(command) > 0 {
		args = append(append(args, "--"), command...)
	}
	return runProgram(cmd.Context(), a.streams, "ssh", args)
}

// A programError is the status of a program of this machine that speaks for itself.
type programError struct {
	name   string
	status int
}

func (e *programError) Error() string { return fmt.Sprintf("%s: exit status %d", e.name, e.status) }

// runProgram runs a program with the standard streams. An interruption is passed on to it. Where the
// program has no status, nobody knows what it did.
func runProgram(ctx context.Context, std streams, name string, args []string) error {
	c := exec.CommandContext(ctx, name, args...)
	c.Stdin, c.Stdout, c.Stderr = std.in, std.out, std.err
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	err := c.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() >= 0 {
		return &programError{name, exit.ExitCode()}
	}
	return unclear(local(err))
}

// serveSSH serves SSH at the standard streams.
func (a *app) serveSSH(ctx context.Context, name string, command []string, opts sshOptions) error {
	if len(command) > 0 {
		return usagef("--stdio takes no command: ssh sends it")
	}
	id, terminal, err := sshTarget(name, opts.session)
	if err != nil {
		return err
	}
	l, err := a.launcher()
	if err != nil {
		return err
	}
	keys, err := hostKeys(ctx, l)
	if err == nil && opts.knownHosts != "" {
		err = writeKnownHosts(opts.knownHosts, keys)
	}
	if err != nil {
		return &sandboxError{id: id, launching: true, err: err}
	}
	collectLess()
	server := sshserver.Server{HostKey: keys[0], Terminal: terminal, Log: a.logger()}
	opening, cancel := context.WithCancel(ctx)
	defer cancel()
	sandbox, serve, err := openFor(opening, cancel, l, id, &server, newPipe(a.in, a.out))
	if err != nil {
		return err
	}
	return within(sandbox, func(*launcher.Sandbox) error {
		// A closing terminal, and a client that was ended, send several. What the client left is to get
		// its hangup first.
		release := console.DelaySecond()
		defer release()
		return unclear(serve())
	})
}

// openFor opens a sandbox while the client at the connection and the server exchange keys, which takes about as
// long. What it returns serves the client. If the client goes, cancel has the opening end. If openFor returns an
// error, the connection is closed, and the client knows the reason if it has asked for something.
func openFor(ctx context.Context, cancel func(), l launcher.Launcher, id string, server *sshserver.Server, conn net.Conn) (*launcher.Sandbox, func() error, error) {
	var sandbox *launcher.Sandbox
	var err error
	opened, over := make(chan struct{}), make(chan struct{})
	defer close(over)
	go func() {
		sandbox, err = l.Open(ctx, id)
		failed := err != nil
		close(opened)
		if failed {
			closeLate(conn, over)
		}
	}()
	client, channels, requests, refused := server.LetIn(ctx, conn)
	if refused != nil {
		cancel()
	}
	<-opened
	switch {
	case err != nil && refused != nil && errors.Is(err, context.Canceled):
		return nil, nil, &sandboxError{id: id, err: unclear(refused)}
	case err != nil:
		err = &sandboxError{id: id, launching: true, err: err}
		if refused == nil && sshserver.RefuseClient(client, channels, requests, "orchestrator: "+explain(err)) {
			err = &programError{"ssh", exitTrouble}
		}
		return nil, nil, err
	case refused != nil:
		return sandbox, func() error { return refused }, nil
	}
	server.Sandbox, server.Workdir = sandbox.Client, sandbox.Workdir
	return sandbox, func() error { return server.ServeClient(ctx, client, channels, requests) }, nil
}

// closeLate closes the connection of a client that takes too long to be told why it is not served.
func closeLate(conn net.Conn, over <-chan struct{}) {
	select {
	case <-over:
	case <-time.After(sshserver.RefusalTime):
		conn.Close()
	}
}

// collectLess has the garbage of copied files pile up to some 50 MiB, rather than be collected each time that
// there are 10: little of it is in use, and collecting takes a third of the processor's time. A user's own GOGC
// counts.
func collectLess() {
	const percent = 400
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}
