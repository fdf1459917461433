package gateway

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"sigs.k8s.io/yaml"
)

// ErrUnknownToken says that a token is nobody's, or is no longer.
var ErrUnknownToken = errors.New("the token is not valid")

// ErrBusy says that too many tokens are being asked for, and that this one was not.
var ErrBusy = errors.New("too many tokens are being checked")

// Caller is who sends a request.
type Caller struct {
	Tenant string // see [CheckTenant]
	Key    string // which of the tenant's tokens it is, for people; no secret
}

// Tenants knows callers by their tokens. Its methods may be called concurrently, and often: they
// answer from memory, if they can.
type Tenants interface {
	// Caller returns whose token it is. If it is nobody's, or no longer, the error is
	// [ErrUnknownToken]; if it cannot be told because too many tokens are asked for, [ErrBusy]. A
	// gateway asks again while a call is under way.
	Caller(ctx context.Context, token string) (Caller, error)
	// Policy returns what a tenant may do. The policies of all tenants must pass [CheckPolicies].
	Policy(ctx context.Context, tenant string) (Policy, error)
}

// OneTenant is the only tenant, with one token that lasts. It may do everything, with as many requests
// under way as it likes, but there are no volumes by name.
type OneTenant struct {
	Name, Token string
	// Egress, unless nil, is what its sandboxes reach by the gateways.
	Egress *Egress
	// SSH, unless nil, has its keys of SSH.
	SSH *AuthorizedKeys
}

// Caller implements [Tenants].
func (t OneTenant) Caller(_ context.Context, token string) (Caller, error) {
	got, want := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(t.Token))
	if t.Token == "" || subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
		return Caller{}, ErrUnknownToken
	}
	return Caller{Tenant: t.Name}, nil
}

// Policy implements [Tenants].
func (t OneTenant) Policy(_ context.Context, tenant string) (Policy, error) {
	if tenant != t.Name {
		return Policy{}, fmt.Errorf("there is no tenant %q", tenant)
	}
	policy := everything
	policy.Egress = t.Egress
	return policy, nil
}

// HasEgress reports whether a gateway lets its sandboxes out.
func (t OneTenant) HasEgress() bool { return t.Egress != nil }

// Keys are the tenants of a file in YAML, which is read again when it has changed:
//
//	tenants:
//	  acme:
//	    keys:
//	    - name: ci               # for people; the first digits of sha256 without it
//	      sha256: 5e884898da28…  # of the token, in hexadecimal
//	      expires: 2027-01-31T00:00:00Z
//	    serviceAccounts: [builds/runner] # NAMESPACE/NAME; see [ServiceAccounts]
//	    ssh: # lines of authorized_keys; see [SSHKey]
//	    - ssh-ed25519 AAAAC3… ann@laptop
//	    - cert-authority,principals="acme-dev" ssh-ed25519 AAAAC3… authority
//	    rate: {requests_per_second: 50, burst: 100}
//	    streams: 200
//
// A key without expires lasts. Several may be valid at once. A file that cannot be read, that is
// larger than a Secret can be, or that has a mistake, lets nobody in.
type Keys struct {
	Path string
	// Log gets each change of the file, and what is wrong with it; nil discards it.
	Log *slog.Logger

	watched watchedFile
}

// keyFile is what a file of keys says.
type keyFile struct {
	keys     []key
	byHash   map[[sha256.Size]byte]key
	accounts map[string]string // from NAMESPACE/NAME to the tenant
	policies map[string]Policy // by tenant
	ssh      sshKeys
}

type key struct {
	caller  Caller
	hash    [sha256.Size]byte
	expires time.Time
}

// Caller implements [Tenants].
func (k *Keys) Caller(_ context.Context, token string) (Caller, error) {
	file, err := k.read()
	if err != nil {
		return Caller{}, err
	}
	return file.caller(token)
}

// Policy implements [Tenants].
func (k *Keys) Policy(_ context.Context, tenant string) (Policy, error) {
	file, err := k.read()
	if err != nil {
		return Policy{}, err
	}
	policy, ok := file.policies[tenant]
	if !ok {
		return Policy{}, fmt.Errorf("there is no tenant %q", tenant)
	}
	return policy, nil
}

// HasEgress reports whether a gateway lets sandboxes of any tenant out.
func (k *Keys) HasEgress() bool {
	file, err := k.read()
	if err != nil {
		return false
	}
	for _, policy := range file.policies {
		if policy.Egress != nil {
			return true
		}
	}
	return false
}

func parseKeys(data []byte) (keyFile, error) {
	var text struct {
		Tenants map[string]struct {
			Policy `json:",inline"`
			Keys   []struct {
				Name    string    `json:"name"`
				SHA256  string    `json:"sha256"`
				Expires time.Time `json:"expires"`
				Budget  *Budget   `json:"budget"`
			} `json:"keys"`
			Accounts []string `json:"serviceAccounts"`
			SSH      []string `json:"ssh"`
			Revoked  []string `json:"revoked_keys"`
		} `json:"tenants"`
	}
	if err := yaml.UnmarshalStrict(data, &text); err != nil {
		return keyFile{}, err
	}
	if len(text.Tenants) == 0 {
		return keyFile{}, errors.New("there are no tenants") // so that a file that is being written ends no calls
	}
	file := keyFile{policies: map[string]Policy{}}
	for name, tenant := range text.Tenants {
		if err := CheckTenant(name); err != nil {
			return keyFile{}, fmt.Errorf("tenant %q: %w", name, err)
		}
		for i, k := range tenant.Keys {
			hash, err := hex.DecodeString(k.SHA256)
			if err != nil || len(hash) != sha256.Size {
				return keyFile{}, fmt.Errorf("tenant %q: key %d: sha256 is not 64 hexadecimal digits", name, i+1)
			}
			if err := tenant.setBudget(cmp.Or(k.Name, k.SHA256[:8]), k.Budget); err != nil {
				return keyFile{}, fmt.Errorf("tenant %q: key %d: %w", name, i+1, err)
			}
			file.keys = append(file.keys, key{Caller{name, cmp.Or(k.Name, k.SHA256[:8])}, [sha256.Size]byte(hash), k.Expires})
		}
		if err := errors.Join(tenant.Policy.checkRates(), file.addAccounts(name, tenant.Accounts)); err != nil {
			return keyFile{}, fmt.Errorf("tenant %q: %w", name, err)
		}
		for i, line := range tenant.SSH {
			if err := file.ssh.add(name, line); err != nil {
				return keyFile{}, fmt.Errorf("tenant %q: ssh: line %d: %w", name, i+1, err)
			}
		}
		for i, line := range tenant.Revoked {
			if err := file.ssh.revoked.add(name, line); err != nil {
				return keyFile{}, fmt.Errorf("tenant %q: revoked_keys: line %d: %w", name, i+1, err)
			}
		}
		file.policies[name] = tenant.Policy
	}
	err := errors.Join(CheckPolicies(file.policies), file.index())
	return file, err
}
