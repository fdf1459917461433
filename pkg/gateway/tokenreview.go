package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// DefaultAudience is whom the tokens of service accounts are for, unless
// [ServiceAccounts.Audience] says otherwise.
const DefaultAudience = "podagent-gateway"

// ServiceAccounts lets Kubernetes service accounts in, beside the keys of a file, which also says
// which account is which tenant's. The API server reviews their tokens, which takes the permission
// to create tokenreviews.authentication.k8s.io.
//
// A token must be for the gateway alone, by its audience: then it opens nothing else, and what is
// for the API server does not open the gateway. An answer counts for half a minute: so long may
// an account that is deleted still call.
type ServiceAccounts struct {
	Keys     *Keys
	Client   kubernetes.Interface
	Audience string // "" is DefaultAudience

	mu      sync.Mutex
	reviews map[[sha256.Size]byte]*review // by the token's digest
	running int
	pace    *rate.Limiter
}

// review is what the API server says about a token, or will say.
type review struct {
	done  chan struct{} // closed when the rest is set
	valid bool
	err   error
	until time.Time // when to ask again
}

// Caller implements [Tenants].
func (s *ServiceAccounts) Caller(ctx context.Context, token string) (Caller, error) {
	file, err := s.Keys.read()
	if err != nil {
		return Caller{}, err
	}
	caller, err := file.caller(token)
	if err == nil {
		return caller, nil
	}
	claims, ok := s.claimsOf(token)
	if !ok {
		return Caller{}, ErrUnknownToken
	}
	account := claims.account()
	tenant, ok := file.accounts[account]
	if !ok {
		return Caller{}, ErrUnknownToken
	}
	if err := s.review(ctx, token, claims); err != nil {
		return Caller{}, err
	}
	return Caller{tenant, account}, nil
}

// Policy implements [Tenants].
func (s *ServiceAccounts) Policy(ctx context.Context, tenant string) (Policy, error) {
	return s.Keys.Policy(ctx, tenant)
}

// accountPrefix begins the name of a service account as a user: the rest is NAMESPACE:NAME.
const accountPrefix = "system:serviceaccount:"

// claims are what a token says of itself. Nothing of it is true before a review.
type claims struct {
	Subject  string    `json:"sub"`
	Audience audiences `json:"aud"`
	Expires  float64   `json:"exp"` // in seconds since 1970
}

// audiences are the aud of a token: a list, or one alone.
type audiences []string

// UnmarshalJSON implements [json.Unmarshaler].
func (a *audiences) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		*a = make(audiences, 1)
		return json.Unmarshal(data, &(*a)[0])
	}
	return json.Unmarshal(data, (*[]string)(a))
}

// claimsOf returns what a token claims, if that could be true: most of what is not valid need not
// be reviewed.
func (s *ServiceAccounts) claimsOf(token string) (c claims, ok bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 || len(token) > tokenLimit {
		return claims{}, false
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(payload, &c) != nil {
		return claims{}, false
	}
	return c, c.account() != "" && slices.Equal(c.Audience, audiences{s.audience()}) &&
		time.Now().Before(c.expires())
}

// account returns the service account, as NAMESPACE/NAME; "" if it is none.
func (c claims) account() string {
	of, ok := strings.CutPrefix(c.Subject, accountPrefix)
	namespace, name, parts := strings.Cut(of, ":")
	if !ok || !parts || strings.Contains(of, "/") {
		return ""
	}
	return namespace + "/" + name
}

func (c claims) expires() time.Time { return time.Unix(int64(min(c.Expires, 1<<40)), 0) }

func (s *ServiceAccounts) audience() string {
	if s.Audience == "" {
		return DefaultAudience
	}
	return s.Audience
}

// review returns nil if the token is valid. Its answers are kept, those of errors for nobody but
// who waits for them.
func (s *ServiceAccounts) review(ctx context.Context, token string, c claims) error {
	r, err := s.join(ctx, token, c)
	if err != nil {
		return err
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	switch {
	case r.err != nil:
		return r.err
	case !r.valid:
		return ErrUnknownToken
	}
	return nil
}

// join returns the review of a token, which it starts if there is none that counts.
func (s *ServiceAccounts) join(ctx context.Context, token string, c claims) (*review, error) {
	sum := sha256.Sum256([]byte(token))
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.reviews[sum]
	if last != nil && (last.until.IsZero() || time.Now().Before(last.until)) {
		return last, nil
	}
	if s.reviews == nil {
		s.reviews, s.pace = map[[sha256.Size]byte]*review{}, rate.NewLimiter(reviewRate, reviewBurst)
	}
	// A token that was valid is reviewed again whatever others send: it is no garbage.
	if again := last != nil && last.valid; !again && (onlyFromMemory(ctx) || s.running >= reviewsAtOnce || !s.pace.Allow()) {
		return nil, ErrBusy
	}
	s.makeRoom()
	r := &review{done: make(chan struct{})}
	s.reviews[sum] = r
	s.running++
	go s.ask(context.WithoutCancel(ctx), r, sum, token, c)
	return r, nil
}

// makeRoom removes what counts no more, and then others, until there is room for one review.
func (s *ServiceAccounts) makeRoom() {
	if len(s.reviews) < reviewsKept {
		return
	}
	now := time.Now()
	for sum, r := range s.reviews {
		if !r.until.IsZero() && now.After(r.until) {
			delete(s.reviews, sum)
		}
	}
	for sum, r := range s.reviews {
		if len(s.reviews) < reviewsKept {
			return
		}
		if !r.until.IsZero() {
			delete(s.reviews, sum)
		}
	}
}

// ask has the API server review a token, for all who wait.
func (s *ServiceAccounts) ask(ctx context.Context, r *review, sum [sha256.Size]byte, token string, c claims) {
	ctx, cancel := context.WithTimeout(ctx, reviewTime)
	defer cancel()
	valid, err := s.valid(ctx, token, c.Subject)
	s.mu.Lock()
	defer s.mu.Unlock()
	defer close(r.done)
	s.running--
	r.valid, r.err = valid, err
	switch {
	case err != nil:
		r.until = time.Now()
		if s.reviews[sum] == r {
			delete(s.reviews, sum)
		}
	case valid:
		r.until = time.Now().Add(validTime) // a token that expires before is not asked for any more
	default:
		r.until = time.Now().Add(invalidTime)
	}
}

// valid reports whether a token is that of a user, for the gateway.
func (s *ServiceAccounts) valid(ctx context.Context, token, user string) (bool, error) {
	got, err := s.Client.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{s.audience()}},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("the API server does not review tokens: %w", err)
	}
	if !got.Status.Authenticated {
		return false, nil
	}
	if !slices.Contains(got.Status.Audiences, s.audience()) {
		return false, errors.New("the API server does not check whom tokens are for")
	}
	return got.Status.User.Username == user, nil
}

// HasEgress reports whether a gateway lets sandboxes of any tenant out.
func (s *ServiceAccounts) HasEgress() bool { return s.Keys.HasEgress() }
