package gateway

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"github.com/podagent/podagent/pkg/launcher"
)

// What a request with an Idempotency-Key makes has an id that follows from the tenant and the
// key, on whichever replica: so a repeated request finds what the first one has made.

const idempotencyKey = "Idempotency-Key"

// newName makes up a sandbox's name: always the same for a tenant's key.
func newName(tenant, key string) string {
	if key == "" {
		return "s-" + strings.ToLower(rand.Text())
	}
	sum := digestOf(tenant, key)
	return "k-" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16]))
}

// execID returns the exec id of a request; "" if it has no key. It has the key's time, by which
// the agent knows a repeated request that comes too late.
func (c *rawCall) execID() (string, error) {
	text := cmp.Or(c.r.Header.Get(idempotencyKey), c.query("idempotency_key"))
	if text == "" {
		return "", nil
	}
	key, err := uuid.Parse(text)
	if err != nil || key.Version() != 7 {
		return "", invalid(idempotencyKey + " must be a UUIDv7, made when the command was first meant")
	}
	sum := digestOf(tenantOf(c), key.String())
	copy(key[6:], sum[:])
	key[6], key[8] = key[6]&0x0f|0x70, key[8]&0x3f|0x80
	return key.String(), nil
}

// repeats returns an error if the key of a create has already made a sandbox by another request.
func (g *Gateway) repeats(ctx context.Context, key, id string, body *NewSandbox) error {
	if key == "" {
		return nil
	}
	s, err := g.Launcher.Find(ctx, id)
	byKey, request, _ := strings.Cut(s.Labels[labelRequest], ".")
	switch {
	case errors.Is(err, launcher.ErrNotFound):
		return nil
	case err != nil:
		return err
	case byKey == keyDigest(key) && request != body.digest():
		return newProblem(http.StatusConflict, "conflict", "another request with this "+idempotencyKey+" has made a sandbox")
	}
	return nil
}

// requestLabel is the label of a sandbox that a create with a key makes: it tells the key and the
// request.
func requestLabel(key string, body *NewSandbox) string { return keyDigest(key) + "." + body.digest() }

func keyDigest(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:8])
}

// digest is that of the request, in the syntax of a label. The password is not in it: who reads
// labels could try out what it is.
func (n NewSandbox) digest() string {
	n.ID = ""
	if n.Git != nil {
		git := *n.Git
		git.Password = ""
		n.Git = &git
	}
	text, err := json.Marshal(n)
	if err != nil {
		panic(err) // it came as JSON
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// digestOf is the digest of texts, which no other texts share.
func digestOf(texts ...string) [sha256.Size]byte {
	h := sha256.New()
	for _, text := range texts {
		sum := sha256.Sum256([]byte(text))
		h.Write(sum[:])
	}
	return [sha256.Size]byte(h.Sum(nil))
}
