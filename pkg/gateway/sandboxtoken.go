package gateway

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// A token for one sandbox is TENANT.SIGNATURE. The signature is over the names, what the token is for, and
// the digest of the tenant's token that it was got with, by a key of links. Nothing keeps it: it is valid if
// one of the tenant's tokens, of which a file of keys has the digests, makes the same. So it ends with that
// token.

// digest is the SHA-256 of a token.
type digest = [sha256.Size]byte

// proof is what a caller is known by, while a call is under way.
type proof struct {
	token   string  // of the tenant; "" if only its digest is known, or nobody's
	digest  *digest // of the tenant's token, if a token for a sandbox can be made of it
	sandbox string  // the only one that it opens; "" for all
	made    bool    // it was shown by what was made with a token for a sandbox, such as a signature
}

// known reports whether it is the caller who was told, not whoever has what a caller has made.
func (p *proof) known() bool { return p.token != "" || p.digest != nil && !p.made }

// group returns what a call has in common with others; none if its caller showed nothing.
func (p *proof) group(tenant string) group {
	switch {
	case p.token != "":
		return group{token: p.token, tenant: tenant}
	case p.digest != nil:
		return group{digest: *p.digest, tenant: tenant}
	}
	return group{}
}

// keyring knows tokens by their digests.
type keyring interface {
	// byDigest returns whose token it is, like [Tenants].Caller.
	byDigest(of digest) (Caller, error)
	// digests returns those of a tenant's tokens.
	digests(tenant string) ([]digest, error)
}

// errNoSandboxToken says that tokens for sandboxes cannot be made.
var errNoSandboxToken = &refusal{http.StatusNotImplemented, "unsupported", "tokens for a sandbox are made of keys alone, and this caller has another kind of token"}

// scopePurpose keeps a signature from being good for anything else.
const scopePurpose = "podagent token for a sandbox, version 1"

// scopedLength is how long a signature is, in bytes.
var scopedLength = base64.RawURLEncoding.EncodedLen(sha256.Size)

// signatureFor signs for one sandbox. No scope has a NUL, and no name a slash.
func signatureFor(key []byte, scope, tenant, name string, of digest) string {
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s\x00%s\x00%s/%s\x00", scopePurpose, scope, tenant, name)
	mac.Write(of[:])
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// callBy returns the call of who shows a credential.
func (g *Gateway) callBy(r *http.Request, shown Credential) (*Call, error) {
	c := &Call{g: g}
	var err error
	switch {
	case shown.Token != "":
		if c.caller, err = g.callerBy(r, shown.Token); err != nil {
			return nil, err
		}
		c.by = proof{token: shown.Token}
		if ring, of := g.keyring(), digest(sha256.Sum256([]byte(shown.Token))); ring != nil {
			if _, err := ring.byDigest(of); err == nil {
				c.by.digest = &of
			}
		}
	case shown.Scoped != "", shown.Made != nil:
		if c.caller, c.by, err = g.callerBySandboxToken(r, shown); err != nil {
			return nil, err
		}
	default:
		return nil, errNoCredential
	}
	return c, nil
}

var errNoCredential = &refusal{http.StatusUnauthorized, "unauthenticated", "the request has no key"}

// callerBySandboxToken returns who shows a token for a sandbox, or what was made with it.
func (g *Gateway) callerBySandboxToken(r *http.Request, shown Credential) (Caller, proof, error) {
	tenant, signature, _ := strings.Cut(shown.Scoped, separator)
	if shown.Scoped == "" {
		tenant = shown.Tenant
	}
	ring := g.keyring()
	if ring == nil || shown.Scoped != "" && len(signature) != scopedLength || CheckTenant(tenant) != nil || shown.Tenant != "" && shown.Tenant != tenant || CheckName(shown.Sandbox) != nil {
		return Caller{}, proof{}, g.failed(r, errStale)
	}
	keys, err := g.LinkKeys.read()
	if err != nil {
		return Caller{}, proof{}, g.untold(err)
	}
	digests, err := ring.digests(tenant)
	if err != nil {
		return Caller{}, proof{}, g.untold(err)
	}
	if len(digests) == 0 {
		digests = []digest{{}} // which no token has: so a tenant that there is not takes as long as one with a token
	}
	for _, of := range digests {
		for _, key := range keys {
			token := signatureFor(key, shown.Scope, tenant, shown.Sandbox, of)
			if shown.Scoped != "" && subtle.ConstantTimeCompare([]byte(token), []byte(signature)) != 1 ||
				shown.Scoped == "" && !shown.Made(tenant+separator+token) {
				continue
			}
			caller, err := ring.byDigest(of)
			if err != nil {
				break // it is no longer valid
			}
			return caller, proof{digest: &of, sandbox: shown.Sandbox, made: shown.Scoped == ""}, nil
		}
	}
	return Caller{}, proof{}, g.failed(r, errStale)
}

// dropSandboxTokens takes out of a header what has the form of a token for a sandbox of a tenant.
func dropSandboxTokens(h http.Header, tenant string) {
	for name, values := range h {
		for _, value := range values {
			signature, ok := strings.CutPrefix(value, tenant+separator)
			if _, err := base64.RawURLEncoding.DecodeString(signature); ok && err == nil && len(signature) == scopedLength {
				delete(h, name)
			}
		}
	}
}

// keyring returns who knows tokens by their digests; nil for nobody.
func (g *Gateway) keyring() keyring {
	ring, _ := g.Tenants.(keyring)
	return ring
}

// isStill returns nil if calls of a group may go on, and [ErrUnknownToken] if they may not.
func (c *calls) isStill(ctx context.Context, of group) error {
	if of.ssh != nil {
		caller, err := c.tenants.(sshTenants).sshCaller(*of.ssh)
		if err == nil && caller != of.rights {
			err = ErrUnknownToken
		}
		return err
	}
	caller, err := c.whose(ctx, of)
	if err == nil && caller.Tenant != of.tenant {
		err = ErrUnknownToken
	}
	return err
}

// whose is [Tenants].Caller for what a caller is known by.
func (c *calls) whose(ctx context.Context, of group) (Caller, error) {
	if of.token != "" {
		return c.tenants.Caller(ctx, of.token)
	}
	return c.tenants.(keyring).byDigest(of.digest)
}

func (t OneTenant) byDigest(of digest) (Caller, error) {
	want := sha256.Sum256([]byte(t.Token))
	if t.Token == "" || subtle.ConstantTimeCompare(of[:], want[:]) != 1 {
		return Caller{}, ErrUnknownToken
	}
	return Caller{Tenant: t.Name}, nil
}

func (t OneTenant) digests(tenant string) ([]digest, error) {
	if tenant != t.Name || t.Token == "" {
		return nil, nil
	}
	return []digest{sha256.Sum256([]byte(t.Token))}, nil
}

func (k *Keys) byDigest(of digest) (Caller, error) {
	file, err := k.read()
	if err != nil {
		return Caller{}, err
	}
	return file.byDigest(of)
}

func (k *Keys) digests(tenant string) (all []digest, err error) {
	file, err := k.read()
	if err != nil {
		return nil, err
	}
	for _, key := range file.keys {
		if key.caller.Tenant == tenant && (key.expires.IsZero() || time.Now().Before(key.expires)) {
			all = append(all, key.hash)
		}
	}
	return all, nil
}

func (s *ServiceAccounts) byDigest(of digest) (Caller, error) { return s.Keys.byDigest(of) }

func (s *ServiceAccounts) digests(tenant string) ([]digest, error) { return s.Keys.digests(tenant) }
