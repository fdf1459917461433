package sshport

import "github.com/podagent/podagent/pkg/sshserver"

// Places bounds the clients that are let in, in place of the bound that holds elsewhere.
func (p *Port) Places(n int) { p.places = n }

// KeepAlive says when clients are asked whether they are there, in place of what holds elsewhere.
func (p *Port) KeepAlive(k sshserver.KeepAlive) { p.keepAlive = k }

// In returns how many clients are in.
func (p *Port) In() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.in
}
