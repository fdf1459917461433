package gateway

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"
)

// watchedFile is what was found in the file of keys, and when.
//
// A mounted Secret changes by a symbolic link in the path: the file is another one then. A file
// that is written in place may look the same, with another content, so it is also read anew every
// while, and its digest compared.
type watchedFile struct {
	mu   sync.Mutex
	seen os.FileInfo // nil if there was none
	at   time.Time   // when it was read
	sum  [sha256.Size]byte
	file keyFile
	err  error
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
	now, err := os.Stat(k.Path)
	if err == nil && w.seen != nil && time.Since(w.at) < keyFileTime && same(w.seen, now) {
		return w.file, w.err
	}
	var data []byte
	if err == nil && !now.Mode().IsRegular() {
		err = errors.New(k.Path + " is not a regular file") // a pipe could be read once
	}
	if err == nil {
		data, err = readBounded(k.Path)
	}
	w.seen, w.at = now, time.Now()
	if sum := sha256.Sum256(data); err != nil {
		k.unreadable(err)
	} else if sum != w.sum {
		w.sum = sum
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
	w.file, w.err, w.sum = keyFile{}, err, [sha256.Size]byte{}
}

// parse takes over new content.
func (k *Keys) parse(data []byte) {
	w := &k.watched
	if w.file, w.err = parseKeys(data); w.err != nil {
		w.err = fmt.Errorf("the keys in %s: %w", k.Path, w.err)
		k.log().Error("nobody is let in", "error", w.err)
		return
	}
	k.log().Info("the keys were read", "file", k.Path, "tenants", len(w.file.policies), "keys", len(w.file.keys), "service accounts", len(w.file.accounts))
}

func (k *Keys) log() *slog.Logger { return cmp.Or(k.Log, slog.New(slog.DiscardHandler)) }

// same reports whether a file looks as it did.
func same(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// readBounded reads a file of up to keyFileLimit bytes.
func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, keyFileLimit+1))
	if err == nil && len(data) > keyFileLimit {
		err = errors.New("it is larger than a Secret can be")
	}
	return data, err
}

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
