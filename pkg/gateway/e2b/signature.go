package e2b

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"hash"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// The operations that a URL can be signed for.
const (
	signedRead  = "read"
	signedWrite = "write"
)

// signer returns what signs a URL with a token, as the SDKs do: for an operation on a path by a user, both
// as the URL has them. Expiration is the URL's, too: seconds since 1970, or empty. The path, which may be
// long, is hashed once for all tokens.
func signer(path, op, user, expiration string) func(token string) string {
	begun := sha256.New()
	_, _ = io.WriteString(begun, path+":"+op+":"+user+":")
	if expiration != "" {
		expiration = ":" + expiration
	}
	return func(token string) string {
		sum, _ := begun.(hash.Cloner).Clone() // which cannot fail
		_, _ = io.WriteString(sum, token+expiration)
		return signatureVersion + base64.RawStdEncoding.EncodeToString(sum.(hash.Hash).Sum(nil))
	}
}

const signatureVersion = "v1_"

// isSignature reports whether a text has the form of a signature.
func isSignature(text string) bool {
	sum, ok := strings.CutPrefix(text, signatureVersion)
	data, err := base64.RawStdEncoding.DecodeString(sum)
	return ok && err == nil && len(data) == sha256.Size
}

// hasExpired reports whether the expiration of a signature is over, or none that there can be.
func hasExpired(expiration string, now time.Time) bool {
	if expiration == "" {
		return false
	}
	at, err := strconv.ParseInt(expiration, 10, 64)
	return err != nil || at < now.Unix()
}

// madeBy returns what tells whether the URL of a request was signed with a token; nil if it was with none,
// which costs no hash.
func madeBy(r *http.Request) func(token string) bool {
	op := signedRead
	if r.Method == http.MethodPost {
		op = signedWrite
	}
	return signedBy(r.URL.Query(), op)
}

// signedBy is madeBy for a URL's query. Whether its time is over, hasExpired tells. A user with a colon
// could be a part of another path and operation.
func signedBy(query url.Values, op string) func(token string) bool {
	path, user, signature, expiration := query.Get("path"), query.Get("username"), query.Get("signature"), query.Get("signature_expiration")
	if !isSignature(signature) || len(path)+len(user) > signedLimit || len(expiration) > expirationLimit || strings.Contains(user, ":") {
		return nil
	}
	sign := signer(path, op, user, expiration)
	return func(token string) bool {
		return token != "" && subtle.ConstantTimeCompare([]byte(sign(token)), []byte(signature)) == 1
	}
}

// isNameless reports whether the URL of a request was signed, but tells by nothing for which sandbox, as
// the clients make them that have one URL for all sandboxes. They send no token with it.
func isNameless(r *http.Request) bool {
	byHost := strings.HasPrefix(r.Host, strconv.Itoa(envdPort)+"-")
	for _, name := range []string{headerSandbox, headerAccessToken, headerTraffic} {
		if r.Header.Get(name) != "" {
			return false
		}
	}
	return r.URL.Path == filesPath && !byHost && r.URL.Query().Has("signature")
}
