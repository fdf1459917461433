package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/podagent/podagent/cmd/orchestrator/internal/flagvalue"
	"github.com/podagent/podagent/cmd/orchestrator/internal/settings"
	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/tools/mcpserver"
	"github.com/podagent/podagent/pkg/tools/secret"
)

// mcpTokenEnv is the variable for the clients' token, unless a file has it.
// Arguments would be visible to everybody on the host.
const mcpTokenEnv = "PODAGENT_MCP_TOKEN"

// tokenFileUsage is the same for all verbs, as that of every setting.
const tokenFileUsage = "the `FILE` with the token of clients, 16 bytes or more (default a new token, or for mcp " + mcpTokenEnv + ")"

// httpFlags say how to serve over HTTP.
type httpFlags struct {
	address     string
	allowRemote bool
	tokenFile   string
	origins     []string
	maxSessions int
	idleTimeout time.Duration
	secure      bool           // it serves by TLS
	flags       *pflag.FlagSet // these flags
	listen      *net.TCPAddr
}

func (h *httpFlags) define(cmd *cobra.Command) {
	flags := pflag.NewFlagSet("http", pflag.ContinueOnError)
	h.flags, h.idleTimeout = flags, mcpserver.DefaultIdleTimeout
	flags.StringVar(&h.address, "http", "", "serve over HTTP at `[HOST]:PORT`; without HOST on the loopback, with port 0 at a free port")
	flags.BoolVar(&h.allowRemote, "allow-remote", false, "listen at an address that other machines can reach, without TLS")
	flags.StringVar(&h.tokenFile, "token-file", "", tokenFileUsage)
	flags.StringArrayVar(&h.origins, "allow-origin", nil, "let in requests with this `ORIGIN`, such as https://example.com; may be repeated")
	flags.IntVar(&h.maxSessions, "max-sessions", mcpserver.DefaultMaxSessions, "serve at most this many `CLIENTS` at once")
	flags.Var((*flagvalue.Period)(&h.idleTimeout), "idle-timeout", "how long a client may be silent before its session ends")
	settings.Mark(flags)
	cmd.Flags().AddFlagSet(flags)
}

// check returns what is wrong with the flags.
func (h *httpFlags) check() error {
	if !settings.Given(h.flags.Lookup("http")) {
		var err error
		h.flags.VisitAll(func(f *pflag.Flag) {
			if f.Changed {
				err = usagef("--%s needs --http", f.Name)
			}
		})
		return err
	}
	if err := notBlank(h.flags); err != nil {
		return err
	}
	if h.maxSessions < 1 {
		return usagef("%s %d is less than 1", settings.Origin(h.flags.Lookup("max-sessions")), h.maxSessions)
	}
	return h.resolve("http")
}

// resolve finds out where to listen, at the address of the flag of this name.
func (h *httpFlags) resolve(flag string) error {
	addr, err := resolveListener(h.flags.Lookup(flag), h.address)
	if err != nil {
		return err
	}
	if !addr.IP.IsLoopback() && !h.allowRemote && !h.secure {
		return usagef("other machines can reach %s, and nothing is encrypted on the way: use 127.0.0.1, or give --allow-remote", addr)
	}
	h.listen = addr
	return nil
}

// resolveListener returns the address of a flag: on the loopback if it names no host.
func resolveListener(flag *pflag.Flag, text string) (*net.TCPAddr, error) {
	addr, err := net.ResolveTCPAddr("tcp", text)
	if err != nil {
		return nil, usagef("%s %q is not an address such as 127.0.0.1:8931: %w", settings.Origin(flag), text, err)
	}
	if addr.IP == nil {
		addr.IP = net.IPv4(127, 0, 0, 1)
	}
	return addr, nil
}

// listenAt listens at the address of a flag.
func listenAt(flag *pflag.Flag, addr *net.TCPAddr) (*net.TCPListener, error) {
	listener, err := net.ListenTCP("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, usagef("%s: another program listens at %s: give another port, or 0 for a free one", settings.Origin(flag), addr)
	}
	return listener, local(err)
}

// handler returns the options of the handler.
func (h *httpFlags) handler(ctx context.Context, a *app) (mcpserver.HandlerOptions, error) {
	token, err := h.token(ctx, a)
	return mcpserver.HandlerOptions{
		Token: token, Origins: h.origins, MaxSessions: h.maxSessions, IdleTimeout: h.idleTimeout, Log: a.logger(),
	}, err
}

func (h *httpFlags) token(ctx context.Context, a *app) (string, error) {
	if h.tokenFile != "" {
		token, err := readToken(ctx, h.tokenFile)
		if err != nil {
			return "", usageError{err}
		}
		return token, nil
	}
	if token, ok := os.LookupEnv(mcpTokenEnv); ok {
		return token, nil
	}
	token := rand.Text()
	a.note("the token of clients, made up for this time, is %s", token)
	return token, nil
}

// readToken returns the token in a file, which other users must not know.
func readToken(ctx context.Context, path string) (string, error) {
	if err := checkPrivate("the token", path); err != nil {
		return "", err
	}
	return secret.File(path).Secret(ctx)
}

// checkPrivate refuses a file of secrets that other users can read.
func checkPrivate(what, path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", what, err)
	}
	if err := fsops.CheckPrivate(info); err != nil {
		return fmt.Errorf("%s in %s is not yours alone: %w: chmod 600 it, or make another (a mounted Secret takes the defaultMode 0440, and no fsGroup if its reader is root)", what, path, err)
	}
	return nil
}
