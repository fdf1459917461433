package gateway

import (
	"cmp"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/podagent/podagent/internal/reread"
)

// AuthorizedKeys are the keys of SSH of a [OneTenant]: a file of authorized_keys, which is read again when
// it has changed. A file that cannot be read, or that has a mistake, lets nobody in.
type AuthorizedKeys struct {
	Path string
	Log  *slog.Logger // gets what is wrong with the file; nil discards it

	mu      sync.Mutex
	content reread.File
	keys    sshKeys
	err     error
}

// Load reads the file, if it has changed, and says what is wrong with it.
func (a *AuthorizedKeys) Load() error {
	_, err := a.read()
	return err
}

// theTenant stands for the one tenant, whose name the file does not have.
const theTenant = "main"

func (a *AuthorizedKeys) caller(tenant string, shown SSHKey) (SSHCaller, error) {
	keys, err := a.read()
	if err != nil {
		return SSHCaller{}, err
	}
	caller, err := keys.caller(shown)
	if err == nil {
		caller.Tenant = tenant
	}
	return caller, err
}

func (a *AuthorizedKeys) read() (*sshKeys, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	data, changed, err := a.content.Read(a.Path, keyFileLimit, keyFileTime)
	switch {
	case err != nil:
		a.fail(fmt.Errorf("cannot read the keys of SSH: %w", err))
	case changed:
		keys, err := parseSSHLines(theTenant, string(data))
		a.keys, a.err = keys, nil
		if err != nil {
			a.fail(fmt.Errorf("the keys of SSH in %s: %w", a.Path, err))
		}
	}
	keys := a.keys // its maps do not change
	return &keys, a.err
}

// fail lets nobody in.
func (a *AuthorizedKeys) fail(err error) {
	if a.err == nil || a.err.Error() != err.Error() {
		cmp.Or(a.Log, slog.New(slog.DiscardHandler)).Error("nobody is let in by SSH", "error", err)
	}
	a.keys, a.err = sshKeys{}, err
}

func parseSSHLines(tenant, text string) (keys sshKeys, err error) {
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if err := keys.add(tenant, line); err != nil {
			return sshKeys{}, fmt.Errorf("line %d: %w", n, err)
		}
	}
	return keys, nil
}
