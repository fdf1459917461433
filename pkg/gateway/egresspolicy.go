package gateway

import (
	"path/filepath"
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
