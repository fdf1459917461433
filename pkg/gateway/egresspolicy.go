package gateway

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/podagent/podagent/pkg/egress"
	"github.com/podagent/podagent/pkg/podapi/wayout"
)

// Egress is what the sandboxes of a tenant reach, and how: the gateways carry their connections, and
// let out what this allows. Without it the gateway lets nothing out, and sandboxes have the network
// that the cluster, and the gateway's own flags, leave them.
type Egress struct {
	// Mode and Require say how commands are kept from other ways: see [wayout.Config]. An empty Mode is
	// [wayout.Auto].
	Mode    wayout.Mode  `json:"mode,omitempty"`
	Require wayout.Level `json:"require,omitempty"`
	// LocalPorts are the ports of the sandbox's own that commands may connect to at the level landlock.
	LocalPorts []uint16 `json:"local_ports,omitempty"`
	// AllowHosts are the hosts that sandboxes reach, as [egress.ParseRule] reads them. A create may ask
	// for less.
	AllowHosts []egress.Rule `json:"allow_hosts,omitempty"`
	// Credentials are used by sandboxes, and never in them.
	Credentials []EgressCredential `json:"credentials,omitempty"`
	// Connections is how many connections may be open at one gateway, of all sandboxes together; zero is
	// 512.
	Connections int `json:"connections,omitempty"`
}

// EgressCredential is what an [egress.Secret] is, with its value in a file.
type EgressCredential struct {
	Name    string        `json:"name"`
	Env     string        `json:"env,omitempty"`
	File    string        `json:"file,omitempty"` // in the sandbox
	Prefix  string        `json:"prefix,omitempty"`
	Hosts   []egress.Rule `json:"hosts"`
	Headers []string      `json:"headers,omitempty"`
	// ValueFile is the gateway's own file that has the value, without the newline at its end. It is read
	// again when it changes. [Keys] take a relative path as one beside their own file.
	ValueFile string `json:"value_file"`
	// Value, unless nil, is the value itself, and ValueFile does not count: for a [OneTenant].
	Value []byte `json:"-"`
}

// credentialName is what names of credentials look like.
var credentialName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)

// check returns what is wrong with it. Credentials are checked further by package egress, with their
// values.
func (e *Egress) check() error {
	if e == nil {
		return nil
	}
	if _, err := wayout.ParseMode(string(e.Mode)); e.Mode != "" && err != nil {
		return fmt.Errorf("mode: %w", err)
	}
	if _, err := wayout.ParseRequired(string(e.Require)); e.Require != "" && err != nil {
		return fmt.Errorf("require: %w", err)
	}
	if mode := e.config(wayout.Config{}).Mode; e.Require != wayout.Open && mode != wayout.Auto && !wayout.Level(mode).AtLeast(e.Require) {
		return fmt.Errorf("require: the mode %s never comes up to %s", mode, e.Require)
	}
	switch {
	case e.Connections < 0:
		return errors.New("connections is negative")
	case len(e.AllowHosts) > egressRules:
		return fmt.Errorf("allow_hosts has %d rules: the most is %d", len(e.AllowHosts), egressRules)
	case len(e.Credentials) > egressCredentials:
		return fmt.Errorf("credentials has %d: the most is %d", len(e.Credentials), egressCredentials)
	}
	names := map[string]bool{}
	for _, c := range e.Credentials {
		if err := c.check(); err != nil {
			return fmt.Errorf("credentials: %.80q: %w", c.Name, err)
		}
		if names[c.Name] {
			return fmt.Errorf("credentials: %q is there twice", c.Name)
		}
		names[c.Name] = true
	}
	return nil
}

// config returns what a sandbox is made with: what the tenant's says, and no less than what the gateway's
// own flags say of all sandboxes.
func (e *Egress) config(all wayout.Config) wayout.Config {
	c := wayout.Config{Mode: e.Mode, Require: e.Require, Ports: slices.Clone(all.Ports)}
	for _, port := range e.LocalPorts {
		if !slices.Contains(c.Ports, port) {
			c.Ports = append(c.Ports, port)
		}
	}
	for _, least := range []wayout.Level{all.Require, wayout.Level(all.Mode)} { // not each mode is a level
		if least.AtLeast(wayout.Landlock) && least.AtLeast(c.Require) {
			c.Require = least
		}
	}
	if c.Mode == "" && all.Mode != wayout.Off {
		c.Mode = all.Mode
	}
	if c.Mode == "" || c.Require != e.Require && !wayout.Level(c.Mode).AtLeast(c.Require) {
		c.Mode = wayout.Auto // it may come up to what the gateway's flags require
	}
	return c
}

func (c *EgressCredential) check() error {
	switch {
	case !credentialName.MatchString(c.Name):
		return errors.New("the name must be that of an environment variable")
	case len(c.Hosts) == 0:
		return errors.New("it has no hosts")
	case c.ValueFile == "" && c.Value == nil:
		return errors.New("it has no value_file")
	}
	return nil
}

// besides makes the paths of values that are relative paths beside a file.
func (e *Egress) besides(file string) {
	if e == nil {
		return
	}
	for i, c := range e.Credentials {
		if c.ValueFile != "" && !filepath.IsAbs(c.ValueFile) {
			e.Credentials[i].ValueFile = filepath.Join(filepath.Dir(file), c.ValueFile)
		}
	}
}
