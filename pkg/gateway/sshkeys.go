package gateway

import (
	"crypto/rsa"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// Clients of SSH are known by their keys, or by certificates that an authority has signed. Both are in
// lines of authorized_keys, which say whose they are: a client does not name its tenant.

// SSHKey is what a client of SSH has.
type SSHKey struct {
	Key  ssh.PublicKey // or an *[ssh.Certificate]
	From netip.Addr    // its address
}

// SSHCaller is who has a key, and what the key does not open.
type SSHCaller struct {
	Caller
	NoTerminals, NoPorts bool
}

// sshTenants knows callers by their keys of SSH.
type sshTenants interface {
	// sshCaller returns whose a key is. If it is nobody's, or no longer, or not from there, the error
	// is [ErrUnknownToken].
	sshCaller(shown SSHKey) (SSHCaller, error)
}

// SSHCaller returns whose a key of SSH is. It has no effect, and the client need not have proved that the
// key is its own. If it is nobody's, or no longer, or counts for other addresses, the error is
// [ErrUnknownToken].
func (g *Gateway) SSHCaller(shown SSHKey) (SSHCaller, error) {
	tenants, ok := g.Tenants.(sshTenants)
	if !ok {
		return SSHCaller{}, ErrUnknownToken
	}
	return tenants.sshCaller(shown)
}

// sshKeys are the keys of all tenants.
type sshKeys struct {
	keys        map[string]*sshLine   // by the key
	authorities map[string][]*sshLine // by the authority's key
	revoked     sshRevoked
}

// sshAlgorithms are the types of keys, each with the algorithms by which clients prove that they have it.
var sshAlgorithms = map[string][]string{
	ssh.KeyAlgoED25519:    {ssh.KeyAlgoED25519},
	ssh.KeyAlgoSKED25519:  {ssh.KeyAlgoSKED25519},
	ssh.KeyAlgoECDSA256:   {ssh.KeyAlgoECDSA256},
	ssh.KeyAlgoECDSA384:   {ssh.KeyAlgoECDSA384},
	ssh.KeyAlgoECDSA521:   {ssh.KeyAlgoECDSA521},
	ssh.KeyAlgoSKECDSA256: {ssh.KeyAlgoSKECDSA256},
	ssh.KeyAlgoRSA:        {ssh.KeyAlgoRSASHA256, ssh.KeyAlgoRSASHA512},
}

// SSHAlgorithms returns the algorithms by which clients may prove that they have a key: those without SHA-1.
func SSHAlgorithms() (all []string) {
	for _, of := range sshAlgorithms {
		all = append(all, of...)
	}
	slices.Sort(all)
	return all
}

// rsaSize returns the bits of an RSA key; 0 for others.
func rsaSize(key ssh.PublicKey) int {
	if with, ok := key.(ssh.CryptoPublicKey); ok {
		if public, ok := with.CryptoPublicKey().(*rsa.PublicKey); ok {
			return public.N.BitLen()
		}
	}
	return 0
}

// add adds a tenant's line. A key, or an authority with a principal, has one tenant.
func (k *sshKeys) add(tenant, text string) error {
	l, err := parseSSHLine(tenant, text)
	if err != nil {
		return err
	}
	blob := string(l.key.Marshal())
	if l.principals == nil {
		if other := k.keys[blob]; other != nil {
			return fmt.Errorf("the key %s is in the file twice, also as %s of the tenant %q", l.name, other.name, other.tenant)
		}
		if k.keys == nil {
			k.keys = map[string]*sshLine{}
		}
		k.keys[blob] = l
		return nil
	}
	for _, other := range k.authorities[blob] {
		for _, p := range l.principals {
			if slices.Contains(other.principals, p) {
				return fmt.Errorf("the principal %q of the authority %s is in the file twice, also for the tenant %q", p, l.name, other.tenant)
			}
		}
	}
	if k.authorities == nil {
		k.authorities = map[string][]*sshLine{}
	}
	k.authorities[blob] = append(k.authorities[blob], l)
	return nil
}

// caller returns whose a key is.
func (k *sshKeys) caller(shown SSHKey) (SSHCaller, error) {
	if cert, ok := shown.Key.(*ssh.Certificate); ok {
		return k.callerByCert(cert, shown.From)
	}
	l := k.keys[string(shown.Key.Marshal())]
	if l == nil || !l.counts(shown.From) || k.revoked.has(l.tenant, shown.Key) {
		return SSHCaller{}, ErrUnknownToken
	}
	return SSHCaller{Caller{l.tenant, l.name}, l.NoTerminals, l.NoPorts}, nil
}

// counts reports whether a line counts now, for a client at an address.
func (l *sshLine) counts(from netip.Addr) bool {
	return (l.expires.IsZero() || time.Now().Before(l.expires)) && allowsFrom(l.from, from)
}

// callerByCert returns whose a certificate is: the caller's key is the principal. One that is good for
// two tenants is nobody's, since nothing says which is meant.
func (k *sshKeys) callerByCert(cert *ssh.Certificate, from netip.Addr) (found SSHCaller, err error) {
	if cert.CertType != ssh.UserCert || cert.SignatureKey == nil || checkSSHKey(cert.Key) != nil || !certFrom(cert, from) {
		return SSHCaller{}, ErrUnknownToken
	}
	for _, l := range k.authorities[string(cert.SignatureKey.Marshal())] {
		if !l.counts(from) || k.revoked.has(l.tenant, cert) {
			continue
		}
		for _, p := range l.principals {
			if !slices.Contains(cert.ValidPrincipals, p) || checkCert(cert, p) != nil {
				continue
			}
			if found.Tenant != "" && found.Tenant != l.tenant {
				return SSHCaller{}, ErrUnknownToken
			}
			if found.Tenant == "" {
				found = SSHCaller{Caller{l.tenant, p}, l.NoTerminals || !permits(cert, "permit-pty"), l.NoPorts || !permits(cert, "permit-port-forwarding")}
			}
		}
	}
	if found.Tenant == "" {
		return SSHCaller{}, ErrUnknownToken
	}
	return found, nil
}

// checkCert says what is wrong with a certificate: its time, its signature, also if that is by SHA-1, or an
// option that must be obeyed and is not known here, such as force-command.
func checkCert(cert *ssh.Certificate, principal string) error {
	if cert.Signature == nil || !slices.Contains(SSHAlgorithms(), cert.Signature.Format) {
		return errors.New("the signature is by an algorithm that is not taken")
	}
	checker := ssh.CertChecker{SupportedCriticalOptions: []string{sourceAddress}}
	return checker.CheckCert(principal, cert)
}

// sourceAddress is the option of a certificate that says from where it counts.
const sourceAddress = "source-address"

func certFrom(cert *ssh.Certificate, from netip.Addr) bool {
	text, ok := cert.CriticalOptions[sourceAddress]
	if !ok {
		return true
	}
	if strings.Contains(text, "!") {
		return false
	}
	allowed, err := parseFrom(text)
	return err == nil && allowsFrom(allowed, from)
}

func permits(cert *ssh.Certificate, extension string) bool {
	_, ok := cert.Extensions[extension]
	return ok
}

// sshCaller implements sshTenants.
func (k *Keys) sshCaller(shown SSHKey) (SSHCaller, error) {
	file, err := k.read()
	if err != nil {
		return SSHCaller{}, err
	}
	return file.ssh.caller(shown)
}

func (s *ServiceAccounts) sshCaller(shown SSHKey) (SSHCaller, error) { return s.Keys.sshCaller(shown) }

func (t OneTenant) sshCaller(shown SSHKey) (SSHCaller, error) {
	if t.SSH == nil {
		return SSHCaller{}, ErrUnknownToken
	}
	return t.SSH.caller(t.Name, shown)
}
