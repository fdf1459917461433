package gateway

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"sigs.k8s.io/yaml"
)

// ErrUnknownToken says that a token is nobody's, or is no longer.
var ErrUnknownToken = errors.New("the token is not valid")

// Caller is who sends a request.
type Caller struct {
	Tenant string // see [CheckTenant]
	Key    string // which of the tenant's tokens it is, for people; no secret
}

// Tenants knows callers by their tokens. Its methods may be called concurrently, and often: they
// answer from memory, if they can.
type Tenants interface {
	// Caller returns whose token it is. If it is nobody's, or no longer, the error is
	// [ErrUnknownToken].
	Caller(ctx context.Context, token string) (Caller, error)
	// Policy returns what a tenant may do. The policies of all tenants must pass [CheckPolicies].
	Policy(ctx context.Context, tenant string) (Policy, error)
}

// OneTenant is the only tenant, with one token that lasts. It may do everything, but there are no
// volumes by name.
type OneTenant struct{ Name, Token string }

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
	return everything, nil
}

// Keys are the tenants of a file in YAML, which is read again when it has changed:
//
//	tenants:
//	  acme:
//	    keys:
//	    - name: ci               # for people; the first digits of sha256 without it
//	      sha256: 5e884898da28…  # of the token, in hexadecimal
//	      expires: 2027-01-31T00:00:00Z
//
// A key without expires lasts. Several may be valid at once. A file that cannot be read lets
// nobody in.
type Keys struct {
	Path string

	mu   sync.Mutex
	seen os.FileInfo
	file keyFile
	err  error
}

// keyFile is what a file of keys says.
type keyFile struct {
	keys     []key
	policies map[string]Policy // by tenant
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
	hash, now, found := sha256.Sum256([]byte(token)), time.Now(), Caller{}
	for _, key := range file.keys {
		if subtle.ConstantTimeCompare(hash[:], key.hash[:]) == 1 && (key.expires.IsZero() || now.Before(key.expires)) {
			found = key.caller
		}
	}
	if found.Tenant == "" {
		return Caller{}, ErrUnknownToken
	}
	return found, nil
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

// read returns what the file says now.
func (k *Keys) read() (keyFile, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now, err := os.Stat(k.Path)
	if err != nil {
		return keyFile{}, fmt.Errorf("cannot read the keys: %w", err)
	}
	if k.seen == nil || !os.SameFile(k.seen, now) || k.seen.ModTime() != now.ModTime() || k.seen.Size() != now.Size() {
		k.seen = now
		k.file, k.err = readKeys(k.Path)
	}
	return k.file, k.err
}

func readKeys(path string) (keyFile, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return keyFile{}, fmt.Errorf("cannot read the keys: %w", err)
	}
	file, err := parseKeys(data)
	if err != nil {
		return keyFile{}, fmt.Errorf("the keys in %s: %w", path, err)
	}
	return file, nil
}

func parseKeys(data []byte) (keyFile, error) {
	var text struct {
		Tenants map[string]struct {
			Policy `json:",inline"`
			Keys   []struct {
				Name    string    `json:"name"`
				SHA256  string    `json:"sha256"`
				Expires time.Time `json:"expires"`
			} `json:"keys"`
		} `json:"tenants"`
	}
	if err := yaml.UnmarshalStrict(data, &text); err != nil {
		return keyFile{}, err
	}
	file := keyFile{policies: map[string]Policy{}}
	for name, tenant := range text.Tenants {
		if err := CheckTenant(name); err != nil {
			return keyFile{}, fmt.Errorf("tenant %q: %w", name, err)
		}
		file.policies[name] = tenant.Policy
		for i, k := range tenant.Keys {
			hash, err := hex.DecodeString(k.SHA256)
			if err != nil || len(hash) != sha256.Size {
				return keyFile{}, fmt.Errorf("tenant %q: key %d: sha256 is not 64 hexadecimal digits", name, i+1)
			}
			file.keys = append(file.keys, key{Caller{name, cmp.Or(k.Name, k.SHA256[:8])}, [sha256.Size]byte(hash), k.Expires})
		}
	}
	return file, CheckPolicies(file.policies)
}

// policy returns what the caller may do.
func (g *Gateway) policy(ctx context.Context) (*Policy, error) {
	policy, err := g.Tenants.Policy(ctx, tenantOf(ctx))
	if err != nil {
		g.Log.ErrorContext(ctx, "cannot tell what a tenant may do", "error", err)
		return nil, huma.Error503ServiceUnavailable("the gateway cannot tell what the tenant may do")
	}
	return &policy, nil
}

type callerKey struct{}

// callerOf returns who sent the request that a context is of.
func callerOf(ctx context.Context) Caller { return ctx.Value(callerKey{}).(Caller) }

// tenantOf returns the tenant that a request is from.
func tenantOf(ctx context.Context) string { return callerOf(ctx).Tenant }

// identify lets a call through with its caller, or refuses it.
func (g *Gateway) identify(ctx huma.Context, next func(huma.Context)) {
	scheme, token, _ := strings.Cut(ctx.Header("Authorization"), " ")
	if !strings.EqualFold(scheme, "bearer") || token == "" {
		g.unauthorized(ctx, "there is no bearer token")
		return
	}
	caller, err := g.Tenants.Caller(ctx.Context(), token)
	switch {
	case errors.Is(err, ErrUnknownToken):
		g.unauthorized(ctx, ErrUnknownToken.Error())
	case err != nil:
		g.Log.Error("cannot tell who calls", "error", err)
		_ = huma.WriteErr(g.api, ctx, http.StatusServiceUnavailable, "the gateway cannot tell who calls")
	default:
		next(huma.WithValue(ctx, callerKey{}, caller))
	}
}

func (g *Gateway) unauthorized(ctx huma.Context, why string) {
	ctx.SetHeader("WWW-Authenticate", "Bearer")
	_ = huma.WriteErr(g.api, ctx, http.StatusUnauthorized, why)
}
