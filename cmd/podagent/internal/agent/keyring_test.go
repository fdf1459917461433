package agent

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// caller is an identity and its private key.
type caller struct {
	podapi.Identity
	key ed25519.PrivateKey
}

func newCaller(t *testing.T) caller {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	id, err := podapi.ParseIdentity(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	if err != nil {
		t.Fatal(err)
	}
	return caller{id, key}
}

// sign extends a keychain of the pod "uid-1".
func (c caller) sign(t *testing.T, chain string, keys ...caller) string {
	t.Helper()
	var list []wire.AuthorizedKey
	for _, k := range keys {
		list = append(list, k.AuthorizedKey())
	}
	chain, err := wire.ExtendKeychain(chain, "uid-1", c.key, list)
	if err != nil {
		t.Fatal(err)
	}
	return chain
}

func serveKeys(t *testing.T, chain string, first ...caller) (socket string) {
	t.Helper()
	_, socket = serveTest(t, func(c *Config) {
		c.PodUID, c.Keychain = "uid-1", chain
		for _, k := range first {
			c.AuthorizedKeys = append(c.AuthorizedKeys, k.AuthorizedKey())
		}
	})
	return socket
}

func (c caller) info(t *testing.T, socket string) error {
	t.Helper()
	return second(dial(t, podapi.DialOptions{Dial: unixDialer(socket), Identity: &c.Identity, PodUID: "uid-1"}).Info(t.Context()))
}

// Keys are replaced while callers call without a pause, and a command runs. No call fails. The
// caller with the old key goes over to the new one by itself, and the old one is refused.
func TestKeysAreReplacedWithoutTheLossOfACall(t *testing.T) {
	older, newer := newCaller(t), newCaller(t)
	socket := serveKeys(t, "", older)
	both := older.WithOthers(func(context.Context) ([]podapi.Identity, error) { return []podapi.Identity{newer.Identity}, nil })
	client := dial(t, podapi.DialOptions{Dial: unixDialer(socket), Identity: &both, PodUID: "uid-1"})
	command := client.Shell(t.Context(), "read -r line && echo $line")
	input, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output := make(chan error, 1)
	go func() {
		out, err := command.Output()
		if err == nil && string(out) != "still here\n" {
			err = fmt.Errorf("it printed %q", out)
		}
		output <- err
	}()
	var (
		calls atomic.Int64
		over  atomic.Bool
		all   sync.WaitGroup
	)
	for range 4 {
		all.Go(func() {
			for !over.Load() {
				if err := second(client.ReadFile(t.Context(), "/etc/hostname")); err != nil {
					t.Errorf("call %d: %v", calls.Load(), err)
					return
				}
				calls.Add(1)
			}
		})
	}
	more := func() {
		t.Helper()
		for before := calls.Load(); calls.Load() < before+100 && !t.Failed(); {
			if err := older.info(t, socket); err != nil {
				break // it is refused: the others still make progress
			}
		}
	}
	more()
	chain := older.sign(t, "", older, newer)
	if err := client.Configure(t.Context(), podapi.Config{Keychain: chain}); err != nil {
		t.Error(err)
	}
	more()
	if err := newer.info(t, socket); err != nil {
		t.Errorf("the new key: %v", err)
	}
	chain = older.sign(t, chain, newer)
	if err := client.Configure(t.Context(), podapi.Config{Keychain: chain}); err != nil {
		t.Error(err)
	}
	if err := older.info(t, socket); !errors.Is(err, podapi.ErrUnauthenticated) {
		t.Errorf("the old key: %v", err)
	}
	for before := calls.Load(); calls.Load() < before+100 && !t.Failed(); {
		if err := newer.info(t, socket); err != nil {
			t.Error(err)
		}
	}
	over.Store(true)
	all.Wait()
	if _, err := fmt.Fprintln(input, "still here"); err != nil {
		t.Error(err)
	}
	if err := errors.Join(input.Close(), <-output); err != nil {
		t.Errorf("the command: %v", err)
	}
	t.Logf("%d calls", calls.Load())
}

func TestKeychainAtTheStartReplacesTheKeysAsFarAsItIsSigned(t *testing.T) {
	older, newer, stranger := newCaller(t), newCaller(t), newCaller(t)
	good := older.sign(t, "", newer)
	for name, test := range map[string]struct {
		chain            string
		accepts, refuses []caller
	}{
		"none":                  {"", []caller{older}, []caller{newer, stranger}},
		"signed":                {good, []caller{newer}, []caller{older, stranger}},
		"signed by a stranger":  {stranger.sign(t, "", stranger), []caller{older}, []caller{newer, stranger}},
		"lengthened by another": {stranger.sign(t, good, stranger), []caller{newer}, []caller{older, stranger}},
		"lengthened by the old": {older.sign(t, good, older), []caller{newer}, []caller{older, stranger}},
		"garbage":               {"x y,z", []caller{older}, []caller{newer, stranger}},
	} {
		t.Run(name, func(t *testing.T) {
			socket := serveKeys(t, test.chain, older)
			for _, c := range test.accepts {
				if err := c.info(t, socket); err != nil {
					t.Error(err)
				}
			}
			for _, c := range test.refuses {
				if err := c.info(t, socket); !errors.Is(err, podapi.ErrUnauthenticated) {
					t.Errorf("a key that does not count: %v", err)
				}
			}
		})
	}
}

// The agent goes on from the keychain that it says is the present one, and from no other.
func TestKeychainIsNeverShortened(t *testing.T) {
	older, newer := newCaller(t), newCaller(t)
	both := older.sign(t, "", older, newer)
	present := older.sign(t, both, newer)
	socket := serveKeys(t, present+" x", older)
	client := dial(t, podapi.DialOptions{Dial: unixDialer(socket), Identity: &newer.Identity})
	info, err := client.Info(t.Context())
	if err != nil || info.Keychain != present {
		t.Errorf("it says that %q is the present one: %v", info.Keychain, err)
	}
	fork := newer.sign(t, both, newer, older)
	for _, chain := range []string{both, "x", present + "x", fork, older.sign(t, fork, older)} {
		if err := client.Configure(t.Context(), podapi.Config{Keychain: chain}); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%q: %v", chain, err)
		}
	}
	if err := older.info(t, socket); !errors.Is(err, podapi.ErrUnauthenticated) {
		t.Errorf("the old key: %v", err)
	}
}
