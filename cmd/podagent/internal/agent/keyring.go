package agent

import (
	"fmt"
	"strings"
	"sync"
	"syscall"

	"github.com/podagent/podagent/pkg/podapi/wire"
)

// keyring has the keys of callers. The agent was started with the first; a keychain replaces
// them.
type keyring struct {
	podUID   string
	first    []wire.AuthorizedKey
	accepted *wire.Accepted
	// dropped is called when a key no longer counts: its connections must end.
	dropped func()

	mu    sync.Mutex
	chain string // as far as it is believed
}

// newKeyring follows the keychain that the agent is started with, as far as it is signed.
// A user who may change the pod's annotations can spoil it, but could also delete the pod.
func newKeyring(c *Config) *keyring {
	keys, links, err := wire.FollowKeychain(c.Keychain, c.PodUID, c.AuthorizedKeys)
	if err != nil {
		c.Log.Warn("a part of the keychain is not believed", "error", err)
	}
	return &keyring{podUID: c.PodUID, first: c.AuthorizedKeys, accepted: wire.NewAccepted(keys), chain: firstLinks(c.Keychain, links)}
}

// firstLinks returns the first n links of a chain.
func firstLinks(chain string, n int) string { return strings.Join(strings.Fields(chain)[:n], " ") }

// present returns the keychain that counts.
func (k *keyring) present() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.chain
}

// follow replaces the keys by those of a keychain. An empty one leaves them as they are. Any
// other must begin with the present one, as a proof that the caller knows that.
func (k *keyring) follow(chain string) error {
	if chain == "" {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	keys, links, err := wire.FollowKeychain(chain, k.podUID, k.first)
	if err != nil {
		return fmt.Errorf("%w: %w", err, syscall.EINVAL)
	}
	chain = firstLinks(chain, links)
	if !strings.HasPrefix(chain+" ", k.chain+" ") && k.chain != "" {
		return fmt.Errorf("the keychain does not begin with the present one: %w", syscall.EINVAL)
	}
	before := k.accepted.Keys()
	k.chain = chain
	k.accepted.Replace(keys)
	if !contains(keys, before) {
		k.dropped()
	}
	return nil
}

// contains reports whether all keys of part are among keys.
func contains(keys, part []wire.AuthorizedKey) bool {
	there := map[string]bool{}
	for _, k := range keys {
		there[k.String()] = true
	}
	for _, k := range part {
		if !there[k.String()] {
			return false
		}
	}
	return true
}
