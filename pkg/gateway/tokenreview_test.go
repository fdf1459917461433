package gateway_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/podagent/podagent/pkg/gateway"
)

// apiServer reviews tokens as an API server does, by a function.
type apiServer struct {
	*httptest.Server
	reviews atomic.Int64
	answer  func(authenticationv1.TokenReviewSpec) authenticationv1.TokenReviewStatus
}

// runner is the account of these tests, which is acme's.
const runner = "system:serviceaccount:builds:runner"

func genuine(s authenticationv1.TokenReviewSpec) authenticationv1.TokenReviewStatus {
	return authenticationv1.TokenReviewStatus{Authenticated: true, Audiences: s.Audiences, User: authenticationv1.UserInfo{Username: runner}}
}

func newAPIServer(t *testing.T) (*apiServer, *gateway.ServiceAccounts) {
	t.Helper()
	s := &apiServer{answer: genuine}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		review := &authenticationv1.TokenReview{}
		if err := json.NewDecoder(r.Body).Decode(review); err != nil || r.URL.Path != "/apis/authentication.k8s.io/v1/tokenreviews" {
			t.Errorf("%s %s: %v", r.Method, r.URL, err)
		}
		s.reviews.Add(1)
		review.Status = s.answer(review.Spec)
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(review); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(s.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: s.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "keys.yaml")
	if err := os.WriteFile(path, []byte(acmeKeys("    serviceAccounts: [builds/runner]\n", "a")), 0o600); err != nil {
		t.Fatal(err)
	}
	return s, &gateway.ServiceAccounts{Keys: &gateway.Keys{Path: path}, Client: client}
}

// token returns a token with these claims, and a signature that is no one's.
func token(sub string, expires time.Time, id int, aud ...string) string {
	text, err := json.Marshal(map[string]any{"sub": sub, "aud": aud, "exp": expires.Unix(), "jti": id})
	if err != nil {
		panic(err)
	}
	return "e30." + base64.RawURLEncoding.EncodeToString(text) + ".c2lnbmF0dXJl"
}

func TestOneReviewAnswersAllWhoAskForAToken(t *testing.T) {
	t.Parallel()
	api, accounts := newAPIServer(t)
	asked, goOn := make(chan struct{}), make(chan struct{})
	api.answer = func(s authenticationv1.TokenReviewSpec) authenticationv1.TokenReviewStatus {
		close(asked)
		<-goOn
		return genuine(s)
	}
	good := token(runner, time.Now().Add(time.Hour), 1, gateway.DefaultAudience)
	leaves, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { // who asks first leaves, which is no answer for others
		_, err := accounts.Caller(leaves, good)
		left <- err
	}()
	<-asked
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			caller, err := accounts.Caller(t.Context(), good)
			if err != nil || caller != (gateway.Caller{Tenant: "acme", Key: "builds/runner"}) {
				t.Errorf("%v: %v", caller, err)
			}
		})
	}
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("who left: %v", err)
	}
	close(goOn)
	all.Wait()
	if _, err := accounts.Caller(t.Context(), good); err != nil || api.reviews.Load() != 1 {
		t.Errorf("%d reviews: %v", api.reviews.Load(), err)
	}
	if caller, err := accounts.Caller(t.Context(), "a"); err != nil || caller.Tenant != "acme" || api.reviews.Load() != 1 {
		t.Errorf("a key beside accounts: %v, %v, %d reviews", caller, err, api.reviews.Load())
	}
}

func TestTokensThatCannotBeValidAreNotReviewed(t *testing.T) {
	t.Parallel()
	api, accounts := newAPIServer(t)
	later := time.Now().Add(time.Hour)
	for name, wrong := range map[string]string{
		"no token":                          "",
		"no JSON Web Token":                 "a.b",
		"no JSON":                           "a.b.c",
		"the API server's own":              token(runner, later, 0, "https://kubernetes.default.svc.cluster.local"),
		"for the API server, too":           token(runner, later, 0, gateway.DefaultAudience, "https://kubernetes.default.svc.cluster.local"),
		"for nobody":                        token(runner, later, 0),
		"expired":                           token(runner, time.Now().Add(-time.Second), 0, gateway.DefaultAudience),
		"of an account that no tenant has":  token("system:serviceaccount:builds:other", later, 0, gateway.DefaultAudience),
		"of an account in another's reach":  token("system:serviceaccount:builds/runner", later, 0, gateway.DefaultAudience),
		"of a user with an account's name":  token("builds/runner", later, 0, gateway.DefaultAudience),
		"larger than an account's token is": token(runner, later, 0, gateway.DefaultAudience) + string(make([]byte, 32<<10)),
	} {
		if caller, err := accounts.Caller(t.Context(), wrong); !errors.Is(err, gateway.ErrUnknownToken) {
			t.Errorf("%s: %v, %v", name, caller, err)
		}
	}
	if n := api.reviews.Load(); n != 0 {
		t.Errorf("%d reviews", n)
	}
}

func TestTokenThatTheAPIServerRefusesIsNobodys(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]authenticationv1.TokenReviewStatus{
		"forged":     {Error: "no"},
		"of another": {Authenticated: true, Audiences: []string{gateway.DefaultAudience}, User: authenticationv1.UserInfo{Username: "system:serviceaccount:builds:other"}},
	} {
		api, accounts := newAPIServer(t)
		api.answer = func(authenticationv1.TokenReviewSpec) authenticationv1.TokenReviewStatus { return status }
		wrong := token(runner, time.Now().Add(time.Hour), 0, gateway.DefaultAudience)
		for range 100 {
			if caller, err := accounts.Caller(t.Context(), wrong); !errors.Is(err, gateway.ErrUnknownToken) {
				t.Fatalf("%s: %v, %v", name, caller, err)
			}
		}
		if n := api.reviews.Load(); n > 10 { // one, and one more for each 10 s
			t.Errorf("%s: %d reviews", name, n)
		}
	}
}

func TestAnswerForATokenEndsWithTheToken(t *testing.T) {
	t.Parallel()
	_, accounts := newAPIServer(t)
	var short string
	for valid := 3 * time.Second; ; valid *= 2 { // an answer that comes too late is none
		short = token(runner, time.Now().Add(valid), 0, gateway.DefaultAudience)
		if _, err := accounts.Caller(t.Context(), short); err == nil {
			break
		} else if valid > hung/2 {
			t.Fatal(err)
		}
	}
	eventually(t, "the token's end", func() bool {
		_, err := accounts.Caller(t.Context(), short)
		return errors.Is(err, gateway.ErrUnknownToken)
	})
}

func TestNobodyCanTellWhoCallsWhileTheAPIServerIsAway(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(*apiServer){
		"it is away": func(s *apiServer) { s.Close() },
		"it does not check audiences": func(s *apiServer) {
			s.answer = func(authenticationv1.TokenReviewSpec) authenticationv1.TokenReviewStatus {
				return authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: runner}}
			}
		},
	} {
		api, accounts := newAPIServer(t)
		fail(api)
		door := newDoor(t, func(o *gateway.Options) { o.Tenants = accounts })
		got := door.send(token(runner, time.Now().Add(time.Hour), 0, gateway.DefaultAudience), "GET", "/api/v1/sandboxes", "")
		if got.StatusCode != 503 || got.Header.Get("Retry-After") == "" {
			t.Errorf("%s: %d %v %s", name, got.StatusCode, got.Header, got.text)
		}
		if got := door.send("a", "GET", "/api/v1/sandboxes", ""); got.StatusCode != 200 {
			t.Errorf("%s: a key: %d %s", name, got.StatusCode, got.text)
		}
	}
}

// The forged tokens claim to be a tenant's: only the API server can tell.
func TestFloodOfForgedTokensDoesNotFloodTheAPIServer(t *testing.T) {
	t.Parallel()
	api, accounts := newAPIServer(t)
	var running, most atomic.Int64
	api.answer = func(authenticationv1.TokenReviewSpec) authenticationv1.TokenReviewStatus {
		n := running.Add(1)
		defer running.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		return authenticationv1.TokenReviewStatus{}
	}
	began, busy := time.Now(), atomic.Int64{}
	var all sync.WaitGroup
	for worker := range 50 {
		all.Go(func() {
			for i := range 100 {
				forged := token(runner, time.Now().Add(time.Hour), worker*100+i, gateway.DefaultAudience)
				switch _, err := accounts.Caller(t.Context(), forged); {
				case errors.Is(err, gateway.ErrBusy):
					busy.Add(1)
				case !errors.Is(err, gateway.ErrUnknownToken):
					t.Errorf("forged: %v", err)
				}
			}
		})
	}
	all.Wait()
	reviews, allowed := api.reviews.Load(), 200+100*(time.Since(began).Seconds()+1)
	if float64(reviews) > allowed || busy.Load()+reviews != 5000 || most.Load() > 16 {
		t.Errorf("%d reviews in %v, %d at once, and %d refused", reviews, time.Since(began), most.Load(), busy.Load())
	}
}

// Who has sent many wrong tokens takes no more reviews away from others.
func TestAddressOfManyWrongTokensGetsNoReviews(t *testing.T) {
	t.Parallel()
	api, accounts := newAPIServer(t)
	door, sent := newDoor(t, func(o *gateway.Options) { o.Tenants = accounts }), 0
	status := func(token string) int { return door.send(token, "GET", "/api/v1/sandboxes", "").StatusCode }
	eventually(t, "a token that is not reviewed", func() bool {
		if status("wrong") != 429 {
			return false
		}
		sent++
		before := api.reviews.Load()
		got := status(token(runner, time.Now().Add(time.Hour), sent, gateway.DefaultAudience))
		return got == 429 && api.reviews.Load() == before
	})
}
