package gateway

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/podagent/podagent/internal/reread"
)

// watchedFile is what was found in the file of keys.
type watchedFile struct {
	mu      sync.Mutex
	content reread.File
	file    keyFile
	err     error
}

// Load reads the file, if it has changed, and says what is wrong with it.
func (k *Keys) Load() error {
	_, err := k.read()
	return err
}

// read returns what the file says now.
func (k *Keys) read() (keyFile, error) {
	w := &k.watched
	w.mu.Lock()
	defer w.mu.Unlock()
	switch data, changed, err := w.content.Read(k.Path, keyFileLimit, keyFileTime); {
	case err != nil:
		k.unreadable(err)
	case changed:
		k.parse(data)
	}
	return w.file, w.err
}

// unreadable lets nobody in, because there is no content.
func (k *Keys) unreadable(err error) {
	w := &k.watched
	err = fmt.Errorf("cannot read the keys: %w", err)
	if w.err == nil || w.err.Error() != err.Error() {
		k.log().Error("nobody is let in", "error", err)
	}
	w.file, w.err = keyFile{}, err
}

// parse takes over new content.
func (k *Keys) parse(data []byte) {
	w := &k.watched
	if w.file, w.err = parseKeys(data); w.err == nil {
		for _, policy := range w.file.policies {
			policy.Egress.besides(k.Path)
		}
	} else {
		w.err = fmt.Errorf("the keys in %s: %w", k.Path, w.err)
		k.log().Error("nobody is let in", "error", w.err)
		return
	}
	k.log().Info("the keys were read", "file", k.Path, "tenants", len(w.file.policies), "keys", len(w.file.keys), "keys of ssh", len(w.file.ssh.keys), "service accounts", len(w.file.accounts))
}

func (k *Keys) log() *slog.Logger { return cmp.Or(k.Log, slog.New(slog.DiscardHandler)) }

// caller returns whose key a token is. Its digest is looked up, and nobody can choose that: so the
// time this takes tells nothing.
func (f *keyFile) caller(token string) (Caller, error) {
	return f.byDigest(sha256.Sum256([]byte(token)))
}

func (f *keyFile) byDigest(of digest) (Caller, error) {
	key, ok := f.byHash[of]
	if !ok || !key.expires.IsZero() && !time.Now().Before(key.expires) {
		return Caller{}, ErrUnknownToken
	}
	return key.caller, nil
}

// index finds keys by their digests, each of which must be there once.
func (f *keyFile) index() error {
	f.byHash = make(map[[sha256.Size]byte]key, len(f.keys))
	for _, k := range f.keys {
		if other, twice := f.byHash[k.hash]; twice {
			return fmt.Errorf("the keys %q of tenant %q and %q of %q have the same sha256", other.caller.Key, other.caller.Tenant, k.caller.Key, k.caller.Tenant)
		}
		f.byHash[k.hash] = k
	}
	return nil
}

// addAccounts adds a tenant's service accounts, each NAMESPACE/NAME. An account has one tenant.
func (f *keyFile) addAccounts(tenant string, accounts []string) error {
	if f.accounts == nil {
		f.accounts = map[string]string{}
	}
	for _, account := range accounts {
		namespace, name, _ := strings.Cut(account, "/")
		if namespace == "" || name == "" || strings.Contains(name, "/") || strings.Contains(account, ":") {
			return fmt.Errorf("serviceAccounts: %q is not NAMESPACE/NAME", account)
		}
		if other, twice := f.accounts[account]; twice {
			return fmt.Errorf("serviceAccounts: %q is in the file twice, also for %q", account, other)
		}
		f.accounts[account] = tenant
	}
	return nil
}
