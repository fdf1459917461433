package e2b

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The operations that a URL can be signed for.
const (
	signedRead  = "read"
	signedWrite = "write"
)

// sign returns the signature of a URL, as the SDKs make it with a token: for an operation on a path by a
// user, both as the URL has them. Expiration is the URL's, too: seconds since 1970, or empty.
func sign(token, path, op, user, expiration string) string {
	text := strings.Join([]string{path, op, user, token}, ":")
	if expiration != "" {
		text += ":" + expiration
	}
	sum := sha256.Sum256([]byte(text))
	return "v1_" + base64.RawStdEncoding.EncodeToString(sum[:])
}

// checkSignature reports whether a signature is what sign returns. Whether its time is over, hasExpired
// tells. A user with a colon could be a part of another path and operation.
func checkSignature(token, path, op, user, signature, expiration string) bool {
	return token != "" && !strings.Contains(user, ":") &&
		subtle.ConstantTimeCompare([]byte(sign(token, path, op, user, expiration)), []byte(signature)) == 1
}

// hasExpired reports whether the expiration of a signature is over, or none that there can be.
func hasExpired(expiration string, now time.Time) bool {
	if expiration == "" {
		return false
	}
	at, err := strconv.ParseInt(expiration, 10, 64)
	return err != nil || at < now.Unix()
}

// madeBy returns what tells whether the URL of a request was signed with a token.
func madeBy(r *http.Request) func(token string) bool {
	query, op := r.URL.Query(), signedRead
	if r.Method == http.MethodPost {
		op = signedWrite
	}
	return func(token string) bool {
		return checkSignature(token, query.Get("path"), op, query.Get("username"), query.Get("signature"), query.Get("signature_expiration"))
	}
}

// isNameless reports whether the URL of a request was signed, but tells by nothing for which sandbox, as
// the clients make them that have one URL for all sandboxes.
func isNameless(r *http.Request) bool {
	byHost := strings.HasPrefix(r.Host, strconv.Itoa(envdPort)+"-")
	return r.URL.Path == filesPath && !byHost && r.Header.Get(headerSandbox) == "" && r.URL.Query().Has("signature")
}
