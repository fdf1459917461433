package sshport

// Places bounds the clients that are let in, in place of the bound that holds elsewhere.
func (p *Port) Places(n int) { p.places = n }
