package main

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/ssh"

	"github.com/podagent/podagent/cmd/orchestrator/internal/settings"
	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/gateway/sshport"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/agentsandbox"
)

// sshPortFlags say whether and how a gateway serves SSH.
type sshPortFlags struct {
	listen   string // "" for not at all
	hostKey  string
	keys     string
	address  string
	listenAt *net.TCPAddr
	found    gateway.SSH // where callers are told that they find it, without what the gateway's own says
	cmd      *cobra.Command
}

func (o *sshPortFlags) define(cmd *cobra.Command) {
	flags := cmd.Flags()
	o.cmd = cmd
	flags.StringVar(&o.listen, "ssh-listen", "", "serve SSH, too, at `[HOST]:PORT`: ssh ID@HOST; without HOST on the loopback, with port 0 at a free port")
	flags.StringVar(&o.hostKey, "ssh-host-key", "", "the `FILE` with the host key of SSH, which no other user may read; the same for all gateways (default one that follows from the identity, and on the local backend the user's own)")
	flags.StringVar(&o.keys, "ssh-authorized-keys", "", "without --keys, the `FILE` with the keys of SSH that are let in, in the format of authorized_keys, read again when it changes")
	flags.StringVar(&o.address, "ssh-address", "", "tell callers that they find SSH at `[HOST]:PORT` (default the gateway's own host, and the port of --ssh-listen)")
	settings.Mark(flags, "ssh-listen", "ssh-host-key", "ssh-authorized-keys", "ssh-address")
}

// check finds out where to listen, and whether the flags fit together.
func (o *sshPortFlags) check(tenants string) (err error) {
	switch {
	case o.listen == "" && (o.hostKey != "" || o.keys != "" || o.address != ""):
		return usagef("--ssh-host-key, --ssh-authorized-keys and --ssh-address need --ssh-listen")
	case o.keys != "" && tenants != "":
		return usagef("--ssh-authorized-keys and --keys exclude each other: the keys of SSH are in the file of --keys")
	case o.listen == "":
		return nil
	case o.keys == "" && tenants == "":
		return usagef("--ssh-listen needs --keys or --ssh-authorized-keys: nobody could log in")
	}
	if o.address != "" {
		if o.found, err = parseSSHAddress(o.address); err != nil {
			return err
		}
	}
	o.listenAt, err = resolveListener(o.cmd.Flag("ssh-listen"), o.listen)
	return err
}

// sshAddressHost is what a host may look like that callers are told of: they put it into commands, and pages do.
var sshAddressHost = regexp.MustCompile(`^(?:[a-zA-Z0-9](?:[a-zA-Z0-9.-]{0,251}[a-zA-Z0-9])?)?$`)

// parseSSHAddress reads where callers find SSH.
func parseSSHAddress(text string) (gateway.SSH, error) {
	host, port, err := net.SplitHostPort(text)
	number, portErr := strconv.ParseUint(port, 10, 16)
	if ip := net.ParseIP(host); err != nil || portErr != nil || number == 0 || ip == nil && !sshAddressHost.MatchString(host) {
		return gateway.SSH{}, usagef("--ssh-address must be [HOST]:PORT, such as ssh.example.com:22: %q", text)
	}
	return gateway.SSH{Host: host, Port: int(number)}, nil
}

// authorized returns the keys of the one tenant, without mistakes at the start; nil for none.
func (o *sshPortFlags) authorized(a *app) (*gateway.AuthorizedKeys, error) {
	if o.keys == "" {
		return nil, nil
	}
	keys := &gateway.AuthorizedKeys{Path: o.keys, Log: a.logger()}
	if err := keys.Load(); err != nil {
		return nil, usageError{err}
	}
	return keys, nil
}

// hostKeys returns the host keys: the file's, or those that follow from the identity.
func (o *sshPortFlags) hostKeys(ctx context.Context, l launcher.Launcher) ([]ssh.Signer, error) {
	if o.hostKey == "" {
		switch l := l.(type) {
		case *launcher.Kubernetes:
			return signersOf(l.GatewayHostKeys(ctx))
		case *agentsandbox.Launcher:
			return signersOf(l.Cluster.GatewayHostKeys(ctx))
		}
		return ownHostKey()
	}
	if err := checkPrivate("the host key", o.hostKey); err != nil {
		return nil, usageError{err}
	}
	data, err := os.ReadFile(o.hostKey)
	if err != nil {
		return nil, usageError{err}
	}
	key, err := ssh.ParsePrivateKey(data)
	if err != nil {
		return nil, usageError{fmt.Errorf("the host key in %s: %w", o.hostKey, err)}
	}
	return []ssh.Signer{key}, nil
}

// sshService is a port of SSH that is served.
type sshService struct {
	listener *net.TCPListener
	key      ssh.PublicKey
}

// serveSSHPort begins to serve SSH; nil if it is not to be served.
func (a *app) serveSSHPort(ctx context.Context, o *sshPortFlags, g *gateway.Gateway) (*sshService, error) {
	if o.listenAt == nil {
		return nil, nil
	}
	keys, err := o.hostKeys(ctx, g.Launcher)
	if err != nil {
		return nil, err
	}
	listener, err := listenAt(o.cmd.Flag("ssh-listen"), o.listenAt)
	if err != nil {
		return nil, err
	}
	o.tell(g, keys, listener.Addr().(*net.TCPAddr).Port)
	port := &sshport.Port{Gateway: g, HostKeys: keys, Log: a.logger()}
	go func() {
		if err := port.Serve(listener); err != nil {
			a.logger().Error("SSH is served no more", "error", err)
		}
	}()
	return &sshService{listener, keys[0].PublicKey()}, nil
}

// tell has the gateway tell callers where they find SSH, and with which keys.
func (o *sshPortFlags) tell(g *gateway.Gateway, keys []ssh.Signer, port int) {
	told := o.found
	told.Port = cmp.Or(told.Port, port)
	for _, key := range keys {
		told.HostKeys = append(told.HostKeys, authorizedLine(key.PublicKey()))
	}
	g.SSH = &told
}

// authorizedLine returns a key as known_hosts has it, behind a host.
func authorizedLine(key ssh.PublicKey) string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}

// url says where SSH is served; "" if it is not.
func (s *sshService) url() string {
	if s == nil {
		return ""
	}
	return "ssh://" + s.listener.Addr().String()
}

// hostKey returns the host key as known_hosts has it; "" if SSH is not served.
func (s *sshService) hostKey() string {
	if s == nil {
		return ""
	}
	return authorizedLine(s.key)
}

func (s *sshService) fingerprint() string { return ssh.FingerprintSHA256(s.key) }

// end lets no new clients in. Those that are there end with the gateway.
func (s *sshService) end() {
	if s != nil {
		_ = s.listener.Close()
	}
}

// checkSSH says whether a gateway with these flags can serve SSH.
func (o *sshPortFlags) checkSSH(ctx context.Context, a *app, l launcher.Launcher, tenants string) launcher.Finding {
	if o.listen == "" && o.hostKey == "" && o.keys == "" {
		return unchecked("there is no --ssh-listen: SSH is not served")
	}
	err := o.check(tenants)
	if err != nil {
		return fails(err, "Give --ssh-listen, and --keys or --ssh-authorized-keys.")
	}
	if _, err = o.authorized(a); err != nil {
		return fails(err, "Give lines as ssh-keygen writes them into files that end with .pub.")
	}
	keys, err := o.hostKeys(ctx, l)
	if err != nil {
		return fails(err, "Make a host key with ssh-keygen -t ed25519 -N '' -f FILE, or let the gateway read the identity.")
	}
	if f := checkAddress(o.listenAt); f.Verdict != launcher.Passed {
		return f
	}
	return passes("%s is free, and the host key is %s", o.listenAt, ssh.FingerprintSHA256(keys[0].PublicKey()))
}
