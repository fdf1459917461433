package console

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"time"
)

const (
	// cookieName is of the session. The gateway passes no cookie with this beginning to a server in a
	// sandbox, and a browser takes it from this host alone, by HTTPS (RFC 6265bis).
	cookieName = "__Host-podagent-console"
	// keyUse keeps the keys of sessions from being good for anything else.
	keyUse = "podagent console session, version 1"
)

// session is what a cookie says, sealed.
type session struct {
	ID      string `json:"id"` // at random
	Tenant  string `json:"tenant"`
	Token   string `json:"token"`
	Expires int64  `json:"expires"` // in seconds since 1970
}

func newSession(tenant, token string) *session {
	return &session{ID: rand.Text(), Tenant: tenant, Token: token, Expires: time.Now().Add(sessionTime).Unix()}
}

func (s *session) expires() time.Time { return time.Unix(s.Expires, 0) }

var errNoSession = errors.New("there is no session, or it is over: log in")

// seal returns the value of a session's cookie, under a key.
func (s *session) seal(key [32]byte) (string, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(sealer(key).Seal(nil, nil, text, []byte(keyUse))), nil
}

// openSeal returns the session of a cookie's value, if one of the keys seals it and it has not expired.
func openSeal(keys [][32]byte, value string) (*session, error) {
	sealed, err := base64.RawURLEncoding.DecodeString(value)
	if err != nil {
		return nil, errNoSession
	}
	for _, key := range keys {
		text, err := sealer(key).Open(nil, nil, sealed, []byte(keyUse))
		if err != nil {
			continue
		}
		var s session
		if json.Unmarshal(text, &s) != nil || !time.Now().Before(s.expires()) {
			return nil, errNoSession
		}
		return &s, nil
	}
	return nil, errNoSession
}

// sealer seals by AES-256-GCM with nonces at random, which one key may have of for 2^32 logins.
func sealer(key [32]byte) cipher.AEAD {
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err) // it has the right length
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err)
	}
	return aead
}

// sessionOf returns the session that a request has a cookie of.
func (c *Console) sessionOf(r *http.Request) (*session, error) {
	keys, err := c.options.Gateway.LinkKeys.Derive(keyUse)
	if err != nil {
		return nil, err
	}
	for _, cookie := range r.CookiesNamed(cookieName) {
		if s, err := openSeal(keys, cookie.Value); err == nil {
			return s, nil
		}
	}
	return nil, errNoSession
}

// setCookie gives a browser a session, or with an empty value takes it away.
func setCookie(w http.ResponseWriter, value string) {
	cookie := &http.Cookie{Name: cookieName, Value: value, Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode, MaxAge: int(sessionTime / time.Second)}
	if value == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(w, cookie)
}
