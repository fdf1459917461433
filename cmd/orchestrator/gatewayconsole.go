package main

import (
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/podagent/podagent/pkg/gateway"
	webconsole "github.com/podagent/podagent/pkg/gateway/console"
)

// placeConsole finds out at which name of this machine browsers find the console, if they do.
func (o *gatewayFlags) placeConsole(at *net.TCPAddr, domain string) error {
	host, _, _ := strings.Cut(domain, ":")
	switch {
	case o.console && strings.EqualFold(host, "localhost"):
		return usagef("--console has a name below localhost, and with --domain localhost these are all of servers in sandboxes: use --domain %s:%d", serversDomain, at.Port)
	case o.console && at.IP.IsLoopback() && o.pair == nil:
		o.consoleAt = webconsole.LocalOrigin(strconv.Itoa(at.Port))
	}
	return nil
}

// handler returns what serves all that a gateway does.
func (o *gatewayFlags) handler(g *gateway.Gateway) http.Handler {
	if !o.console {
		return g
	}
	return webconsole.New(webconsole.Options{Gateway: g, Local: o.consoleAt})
}
