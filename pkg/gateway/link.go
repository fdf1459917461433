package gateway

import (
	"bytes"
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/podagent/podagent/internal/reread"
	"github.com/podagent/podagent/pkg/launcher"
)

// LinkKeys are the secrets of a file that links are signed with, the same for all gateways of a
// domain: one a line, each of 32 bytes or more. The first signs; a link of any of them is valid.
// The file is read again when it has changed. While it cannot be read, no link is valid.
type LinkKeys struct {
	Path string

	mu      sync.Mutex
	content reread.File
	keys    [][]byte
	err     error
}

// linkKeySize is the least, in bytes: what HMAC-SHA256 makes full use of (RFC 2104).
const linkKeySize = sha256.Size

// Load reads the file, if it has changed, and says what is wrong with it.
func (k *LinkKeys) Load() error {
	_, err := k.read()
	return err
}

// Derive returns a key of each secret, in their order, that is good for one use alone and tells nothing of the secret.
func (k *LinkKeys) Derive(use string) ([][32]byte, error) {
	secrets, err := k.read()
	if err != nil {
		return nil, err
	}
	keys := make([][32]byte, len(secrets))
	for i, secret := range secrets {
		key, err := hkdf.Key(sha256.New, secret, nil, use, len(keys[i]))
		if err != nil {
			return nil, err
		}
		copy(keys[i][:], key)
	}
	return keys, nil
}

func (k *LinkKeys) read() ([][]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.Path == "" && k.keys != nil { // made up
		return k.keys, nil
	}
	switch data, changed, err := k.content.Read(k.Path, keyFileLimit, keyFileTime); {
	case err != nil:
		k.keys, k.err = nil, fmt.Errorf("cannot read the keys of links: %w", err)
	case changed:
		k.keys, k.err = parseLinkKeys(k.Path, data)
	}
	return k.keys, k.err
}

func parseLinkKeys(path string, data []byte) ([][]byte, error) {
	var keys [][]byte
	for line := range bytes.Lines(data) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if len(line) < linkKeySize {
			return nil, fmt.Errorf("the keys of links in %s: key %d has %d bytes: it must have %d or more", path, len(keys)+1, len(line), linkKeySize)
		}
		keys = append(keys, line)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("the keys of links in %s: there is none", path)
	}
	return keys, nil
}

// madeUpKeys returns a key that nobody else has.
func madeUpKeys() *LinkKeys {
	key := make([]byte, linkKeySize)
	_, _ = rand.Read(key) // which cannot fail
	return &LinkKeys{keys: [][]byte{key}}
}

// linkToken opens a server in a sandbox, until it expires: when, in seconds since 1970 (8 bytes),
// which sandbox (16), and the signature of both with the names (32), in base64.
type linkToken string

const (
	linkExpiry    = 8
	linkIdentity  = 16
	linkTokenSize = linkExpiry + linkIdentity + sha256.Size
	// linkPurpose keeps a signature from being good for anything else.
	linkPurpose = "podagent link to a port, version 1"
)

// newLink signs a link.
func newLink(key []byte, t *target, of launcher.Summary, expires time.Time) linkToken {
	token := binary.BigEndian.AppendUint64(nil, uint64(expires.Unix()))
	token = append(token, identityOf(of)...)
	return linkToken(base64.RawURLEncoding.EncodeToString(append(token, signLink(key, t, token)...)))
}

// signLink signs the first bytes of a token for one server. No name has a slash.
func signLink(key []byte, t *target, what []byte) []byte {
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s\x00%s/%s/%d\x00", linkPurpose, t.tenant, t.name, t.port)
	mac.Write(what)
	return mac.Sum(nil)
}

// parse returns what a token says, if one of the keys has signed it for this server.
func (l linkToken) parse(keys [][]byte, t *target) (expires time.Time, identity []byte, ok bool) {
	if len(l) != base64.RawURLEncoding.EncodedLen(linkTokenSize) {
		return time.Time{}, nil, false
	}
	token, err := base64.RawURLEncoding.Strict().DecodeString(string(l)) // one spelling alone
	if err != nil {
		return time.Time{}, nil, false
	}
	what, mac := token[:linkExpiry+linkIdentity], token[linkExpiry+linkIdentity:]
	for _, key := range keys {
		ok = hmac.Equal(mac, signLink(key, t, what)) || ok
	}
	return time.Unix(int64(binary.BigEndian.Uint64(what)), 0), what[linkExpiry:], ok
}

// opens reports whether a link opens a server now. Only a link that the gateway has signed is
// worth a lookup.
func (g *Gateway) opens(ctx context.Context, l linkToken, t *target) bool {
	keys, err := g.LinkKeys.read()
	if err != nil {
		return false
	}
	expires, identity, ok := l.parse(keys, t)
	if !ok || !time.Now().Before(expires) {
		return false
	}
	s, err := g.known(ctx, g.linked, t) // apart, since strangers can ask for any number of names
	return err == nil && bytes.Equal(identity, identityOf(s))
}

// errLinkOver ends what passes by a link when its time is over.
var errLinkOver = errors.New("the link's time is over")

// expiryOf returns when a link that opens a server no longer does.
func (g *Gateway) expiryOf(l linkToken, t *target) time.Time {
	keys, _ := g.LinkKeys.read()
	expires, _, _ := l.parse(keys, t)
	return expires
}

// setCookie answers a browser that has followed a link: it gets a cookie in place of the token, which
// is to be in no history and in no Referer.
func (g *Gateway) setCookie(w http.ResponseWriter, r *http.Request, t *target, l linkToken) {
	left := max(1, int64(time.Until(g.expiryOf(l, t))/time.Second))
	path, _, _ := strings.Cut(r.RequestURI, "?")
	if !strings.HasPrefix(path, "/") {
		path = "/"
	}
	if query := withoutLink(r.URL.RawQuery); query != "" {
		path += "?" + query
	}
	at := g.domain
	_, port, _ := strings.Cut(r.Host, ":")
	if _, ok := parsePort(port); ok {
		at.port = port // that by which the browser has come
	}
	h := w.Header()
	h.Set("Set-Cookie", fmt.Sprintf("%s=%s; Path=/; Max-Age=%d; Secure; HttpOnly; SameSite=Lax", cookieLink, l, left))
	h.Set("Location", at.origin(t)+path)
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	w.WriteHeader(http.StatusSeeOther)
}

type linkInput struct {
	ID   string `path:"id" doc:"the sandbox's name"`
	Port int    `path:"port" minimum:"1" maximum:"65535" doc:"the port that the server listens at"`
	Body *struct {
		Seconds int64 `json:"expires_seconds,omitempty" minimum:"1" maximum:"2592000" default:"3600" doc:"how long it opens the port"`
	}
}

type linkOutput struct {
	Body struct {
		URL       string    `json:"url" format:"uri" doc:"who has it reaches the server, with a browser or another program"`
		ExpiresAt time.Time `json:"expires_at" doc:"when it opens nothing any more"`
	}
}

func (g *Gateway) linkOperations() {
	register(g, http.MethodPost, sandboxRoot+"/ports/{port}/link", "link-port", "Make a link that opens a port to whoever has it", g.link)
}

func (g *Gateway) link(ctx context.Context, in *linkInput) (*linkOutput, error) {
	if g.domain.host == "" {
		return nil, huma.Error501NotImplemented("this gateway has no domain for the servers in sandboxes")
	}
	s, err := g.find(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	keys, err := g.LinkKeys.read()
	if err != nil {
		g.Log.ErrorContext(ctx, "cannot sign a link", "error", err)
		return nil, huma.Error503ServiceUnavailable("the gateway cannot sign links")
	}
	life := time.Hour
	if in.Body != nil && in.Body.Seconds > 0 {
		life = seconds(in.Body.Seconds)
	}
	t := &target{tenant: tenantOf(ctx), name: in.ID, port: in.Port}
	out := &linkOutput{}
	out.Body.ExpiresAt = time.Now().Add(life).UTC().Truncate(time.Second)
	out.Body.URL = g.domain.origin(t) + "/?" + queryLink + "=" + string(newLink(keys[0], t, s, out.Body.ExpiresAt))
	return out, nil
}
