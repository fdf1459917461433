package gateway

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"
)

// sshRevoked are the keys that count no more as a tenant, by the tenant: whatever authority signs certificates
// for them. For the key of an authority, these are all of its certificates.
type sshRevoked map[string]map[string]bool

// add adds a public key, as a line of the file that sshd calls RevokedKeys has it. A certificate stands for its
// key.
func (r *sshRevoked) add(tenant, line string) error {
	if strings.ContainsAny(line, "\r\n") {
		return errors.New("there is more than one line")
	}
	key, _, options, _, err := ssh.ParseAuthorizedKey([]byte(line))
	if err != nil {
		return fmt.Errorf("%.40q is no public key: %w", line, err)
	}
	if len(options) > 0 {
		return fmt.Errorf("%.40q has options, and a key is revoked for whatever it is used", line)
	}
	if *r == nil {
		*r = sshRevoked{}
	}
	if (*r)[tenant] == nil {
		(*r)[tenant] = map[string]bool{}
	}
	(*r)[tenant][keyOf(key)] = true
	return nil
}

// has reports whether a key, or the key or the authority of a certificate, is revoked.
func (r sshRevoked) has(tenant string, key ssh.PublicKey) bool {
	of := r[tenant]
	if cert, ok := key.(*ssh.Certificate); ok && cert.SignatureKey != nil && of[keyOf(cert.SignatureKey)] {
		return true
	}
	return of[keyOf(key)]
}

// keyOf returns what identifies a key. A certificate has that of its key.
func keyOf(key ssh.PublicKey) string {
	if cert, ok := key.(*ssh.Certificate); ok {
		key = cert.Key
	}
	return string(key.Marshal())
}
