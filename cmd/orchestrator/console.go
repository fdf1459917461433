package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"html"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/podagent/podagent/pkg/gateway"
	webconsole "github.com/podagent/podagent/pkg/gateway/console"
	"github.com/podagent/podagent/pkg/launcher"
)

const consoleHelp = `Console serves a page about the sandboxes of this machine: their processes and files, a
terminal in each, and the servers in them. It prints a link, and opens it in a browser if there
is one. The link lets one browser in, within five minutes.

It listens on the loopback alone, until it is told to end. Sandboxes go on then. Only sandboxes
are shown whose names have at most 36 lowercase letters, digits and single hyphens.

A gateway has the same page for its tenants: see "orchestrator gateway --console". With --backend
remote, this opens the page of the gateway.`

// serversDomain is that of the servers in sandboxes beside a console of this machine, where browsers resolve it.
const serversDomain = "sandboxes.localhost"

func consoleCommand(a *app) *cobra.Command {
	var port int
	var open bool
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Show the sandboxes of this machine in a browser",
		Long:  consoleHelp,
		Example: `  orchestrator console --backend local
  orchestrator console --backend local --browser=false --port 8090`,
		Args:              takes(0, 0),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if port < 0 || port > 65535 {
				return usagef("--port %d is not from 0 to 65535", port)
			}
			return a.startConsole(cmd.Context(), port, open)
		},
	}
	cmd.Flags().IntVar(&port, "port", 0, "serve at this port of the loopback (0 is a free one)")
	cmd.Flags().BoolVar(&open, "browser", true, "open the page in a browser")
	return cmd
}

// startConsole serves the console of this machine until ctx ends.
func (a *app) startConsole(ctx context.Context, port int, open bool) error {
	l, err := a.launcher()
	if err != nil {
		return err
	}
	if a.backend.Value == throughGateway {
		return a.showConsole(ctx, webconsole.URL(a.remote.url), open, func() {})
	}
	local, ok := l.(*launcher.Local)
	if !ok {
		return usagef(`console is for the local backend: for pods, run "orchestrator gateway --console", which shows those that its tenants have made`)
	}
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil {
		return usageError{err}
	}
	defer listener.Close()
	at := strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	token := rand.Text()
	g := gateway.New(gateway.Options{
		Launcher: everyLocal{local}, Tenants: gateway.OneTenant{Name: soleTenant, Token: token}, Domain: net.JoinHostPort(serversDomain, at), Log: a.logger(),
	})
	origin, code := webconsole.LocalOrigin(at), webconsole.NewCode(token)
	page := webconsole.New(webconsole.Options{Gateway: g, Local: origin, Code: code})
	var served error
	err = a.showConsole(ctx, code.URL(origin), open, func() {
		served = a.serveUntil(ctx, &gatewayFlags{connections: maxConnections}, listener, nil, g, page)
	})
	if err != nil {
		return fmt.Errorf("%w%w", err, g.Close())
	}
	return served
}

// showConsole prints where a console is, opens it, and calls serve.
func (a *app) showConsole(ctx context.Context, url string, open bool, serve func()) error {
	err := a.print(struct {
		URL string `json:"url"`
	}{url}, url+"\n")
	if err != nil {
		return err
	}
	if open {
		remove, err := openBrowser(ctx, url)
		if err != nil {
			a.note("no browser was opened: %v", err)
		}
		defer remove()
	}
	serve()
	return nil
}

// openBrowser opens a URL in the browser of the user's desktop. Other users of the machine see the arguments of programs:
// so a browser is told a file that leads there, which the function that it returns removes.
func openBrowser(ctx context.Context, url string) (remove func(), err error) {
	args := []string{"xdg-open"}
	switch {
	case runtime.GOOS == "darwin":
		args = []string{"open"}
	case runtime.GOOS == "windows":
		args = []string{"rundll32", "url.dll,FileProtocolHandler"}
	case os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "":
		return func() {}, nil // there is no desktop
	}
	dir, err := os.MkdirTemp("", "podagent-console-*")
	if err != nil {
		return func() {}, err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	path := filepath.Join(dir, "console.html")
	page := fmt.Sprintf("<!doctype html><meta name=\"referrer\" content=\"no-referrer\"><meta http-equiv=\"refresh\" content=\"0;url=%s\">\n", html.EscapeString(url))
	if err := os.WriteFile(path, []byte(page), 0o600); err != nil {
		return remove, err
	}
	cmd := exec.CommandContext(ctx, args[0], append(args[1:], path)...)
	if err := cmd.Start(); err != nil {
		return remove, err
	}
	go func() { _ = cmd.Wait() }() // it may be the browser itself
	return remove, nil
}
