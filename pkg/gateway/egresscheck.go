package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/podagent/podagent/pkg/egress"
	"github.com/podagent/podagent/pkg/podapi/wayout"
)

// check returns what is wrong with it, but for the values of credentials: see [Keys.CheckCredentials].
func (e *Egress) check() error {
	if e == nil {
		return nil
	}
	switch {
	case e.Connections < 0:
		return errors.New("connections is negative")
	case len(e.AllowHosts) > egressRules:
		return fmt.Errorf("allow_hosts has %d rules: the most is %d", len(e.AllowHosts), egressRules)
	case slices.ContainsFunc(e.AllowHosts, func(r egress.Rule) bool { return r.String() == "" }):
		return errors.New("allow_hosts has a rule that is empty")
	case len(e.Credentials) > egressCredentials:
		return fmt.Errorf("credentials has %d: the most is %d", len(e.Credentials), egressCredentials)
	}
	if err := e.checkWay(); err != nil {
		return err
	}
	return e.checkCredentials()
}

// checkWay returns what is wrong with how commands are kept from other ways.
func (e *Egress) checkWay() error {
	if _, err := wayout.ParseMode(string(e.Mode)); e.Mode != "" && err != nil {
		return fmt.Errorf("mode: %w", err)
	}
	if _, err := wayout.ParseRequired(string(e.Require)); e.Require != wayout.Open && err != nil {
		return fmt.Errorf("require: %w", err)
	}
	way := e.config(wayout.Config{})
	fenced := way.Mode == wayout.Auto || way.Mode == wayout.Mode(wayout.Landlock)
	switch {
	case e.Require != wayout.Open && way.Mode != wayout.Auto && !wayout.Level(way.Mode).AtLeast(e.Require):
		return fmt.Errorf("require: the mode %s never comes up to %s", way.Mode, e.Require)
	case len(e.LocalPorts) > 0 && !fenced:
		return fmt.Errorf("local_ports are for the level landlock, which the mode %s never has", way.Mode)
	}
	return e.checkPorts()
}

// checkPorts returns what is wrong with the local ports. Which of them the agent has for itself, a launch says.
func (e *Egress) checkPorts() error {
	seen := map[uint16]bool{}
	for _, port := range e.LocalPorts {
		switch {
		case port == 0:
			return errors.New("local_ports has 0: ports are 1 to 65535")
		case seen[port]:
			return fmt.Errorf("local_ports has %d twice", port)
		}
		seen[port] = true
	}
	if len(seen) > egressPorts {
		return fmt.Errorf("local_ports are %d: at most %d are allowed", len(seen), egressPorts)
	}
	return nil
}

// checkCredentials returns what is wrong with each credential by itself, and with all of them: their variables
// and files are of one sandbox.
func (e *Egress) checkCredentials() error {
	var all []egress.Secret
	for _, c := range e.Credentials {
		s, err := c.check(egress.Policy{Allow: e.AllowHosts})
		if err != nil {
			return fmt.Errorf("credentials: %.80q: %w", c.Name, err)
		}
		all = append(all, s)
	}
	if err := egress.CheckSecrets(all); err != nil {
		return fmt.Errorf("credentials: %w", err)
	}
	return nil
}

// check returns the secret that the credential becomes, with a value for the check alone.
func (c *EgressCredential) check(allowed egress.Policy) (egress.Secret, error) {
	s := c.withValue(bytes.Repeat([]byte("x"), 16))
	if err := s.Check(); err != nil {
		return s, err
	}
	if c.ValueFile == "" && c.Value == nil {
		return s, errors.New("it has no value_file")
	}
	for _, host := range c.Hosts {
		if !reached(allowed, host) {
			return s, fmt.Errorf("its host %s is one that no rule of allow_hosts allows", host)
		}
	}
	return s, nil
}

// reached reports whether a policy allows a credential's host. Of the ports of a rule without any, credentials
// go by TLS's alone.
func reached(allowed egress.Policy, host egress.Rule) bool {
	if allowed.Covers(host) {
		return true
	}
	text := host.String()
	if strings.Contains(text, ":") && !strings.HasSuffix(text, "]") { // it has ports, or is an address of IPv6
		return false
	}
	byTLS, err := egress.ParseRule(text + ":443")
	return err == nil && allowed.Covers(byTLS)
}

// RequiredEgress returns the strongest level that the sandboxes of a tenant must have; [wayout.Open] if none
// must have one, or the file cannot be read.
func (k *Keys) RequiredEgress() (strongest wayout.Level) {
	file, err := k.read()
	if err != nil {
		return wayout.Open
	}
	for _, policy := range file.policies {
		if policy.Egress == nil {
			continue
		}
		c := policy.Egress.config(wayout.Config{})
		for _, level := range []wayout.Level{c.Require, wayout.Level(c.Mode)} { // not each mode is a level
			if level.AtLeast(wayout.Landlock) && level.AtLeast(strongest) {
				strongest = level
			}
		}
	}
	return strongest
}
