package remote_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/launcher/ledger"
	"github.com/podagent/podagent/pkg/launcher/remote"
	"github.com/podagent/podagent/pkg/podapi"
)

func TestMain(m *testing.M) { os.Exit(launchertest.Main(m)) }

// The tokens of the tenants acme and other.
const token, otherToken = "acme's", "other's"

// serve returns the URL of a gateway over a launcher, through what wraps it, if anything does.
func serve(t *testing.T, l launcher.Launcher, wrap ...func(http.Handler) http.Handler) string {
	t.Helper()
	keys := filepath.Join(t.TempDir(), "keys.yaml")
	text := fmt.Sprintf("tenants:\n  acme:\n    quota: {sandboxes: 3}\n    images: [\"python:*\"]\n    keys:\n    - sha256: %x\n  other:\n    keys:\n    - sha256: %x\n",
		sha256.Sum256([]byte(token)), sha256.Sum256([]byte(otherToken)))
	if err := os.WriteFile(keys, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	g := gateway.New(gateway.Options{Launcher: l, Tenants: &gateway.Keys{Path: keys}, Ledger: ledger.Files{Dir: t.TempDir()}})
	var h http.Handler = g
	for _, w := range wrap {
		h = w(h)
	}
	server := httptest.NewUnstartedServer(h)
	server.Config.Protocols = &http.Protocols{}
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(func() {
		server.Close()
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return server.URL
}

func TestLifeThroughAGateway(t *testing.T) {
	l := &remote.Launcher{URL: serve(t, launchertest.Local(t)), Token: token}
	ctx := t.Context()
	spec := launcher.Spec{ID: "job-1", Env: []string{"A=b"}, Labels: map[string]string{"team": "red"}}
	s, err := l.Launch(ctx, spec)
	if err != nil || !s.Created || s.Workdir == "" {
		t.Fatalf("%+v, %v", s, err)
	}
	if out, err := s.Shell(ctx, "echo $A").Output(); err != nil || string(out) != "b\n" {
		t.Errorf("%q, %v", out, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	opened, err := l.Open(ctx, "job-1")
	if err != nil || opened.Workdir != s.Workdir {
		t.Fatalf("%+v, %v", opened, err)
	}
	defer opened.Close()
	again, err := l.Launch(ctx, spec)
	if err != nil || again.Created {
		t.Fatalf("again: %+v, %v", again, err)
	}
	found, err := l.Find(ctx, "job-1")
	if err != nil || found.State != launcher.Running || found.Workdir != s.Workdir || found.CreatedAt.IsZero() || found.Labels["team"] != "red" {
		t.Errorf("%+v, %v", found, err)
	}
	list, err := l.List(ctx)
	if diff := cmp.Diff([]launcher.Summary{found}, list); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	if err := again.Terminate(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Find(ctx, "job-1"); !errors.Is(err, launcher.ErrNotFound) {
		t.Error(err)
	}
	if err := l.Terminate(ctx, "job-1"); err != nil {
		t.Error(err)
	}
}

func TestSandboxWithoutAnIDEndsWhenItIsClosed(t *testing.T) {
	l := &remote.Launcher{URL: serve(t, launchertest.Local(t)), Token: token}
	s, err := l.Launch(t.Context(), launcher.Spec{})
	if err != nil || !s.Created {
		t.Fatalf("%+v, %v", s, err)
	}
	if _, err := l.Find(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Find(t.Context(), s.ID); !errors.Is(err, launcher.ErrNotFound) {
		t.Errorf("it is still there: %v", err)
	}
}

func TestErrorsAreThoseOfLaunchers(t *testing.T) {
	url := serve(t, launchertest.Local(t))
	l := &remote.Launcher{URL: url, Token: token}
	ctx := t.Context()
	other := &remote.Launcher{URL: url, Token: otherToken}
	if _, err := other.Launch(ctx, launcher.Spec{ID: "theirs"}); err != nil {
		t.Fatal(err)
	}
	open := func(l *remote.Launcher, id string) error {
		_, err := l.Open(ctx, id)
		return err
	}
	wrongToken := &remote.Launcher{URL: url, Token: "wrong"}
	for name, test := range map[string]struct {
		err, want error
		text      string
	}{
		"open":          {open(l, "none"), launcher.ErrNotFound, `opening sandbox "none": finding sandbox "none": no such sandbox`},
		"open no name":  {open(l, "../x"), launcher.ErrNotFound, `opening sandbox "../x": no such sandbox`},
		"open theirs":   {open(l, "theirs"), launcher.ErrNotFound, `opening sandbox "theirs": finding sandbox "theirs": no such sandbox`},
		"token":         {open(wrongToken, "none"), podapi.ErrUnauthenticated, `opening sandbox "none": the token is not valid`},
		"pause no name": {l.Pause(ctx, "a/b"), launcher.ErrNotFound, `pausing sandbox "a/b": no such sandbox`},
		"unsupported":   {l.Pause(ctx, "none"), errors.ErrUnsupported, `pausing sandbox "none": sandboxes of this backend cannot be paused, nor do they end by themselves`},
	} {
		t.Run(name, func(t *testing.T) {
			if !errors.Is(test.err, test.want) || test.err.Error() != test.text {
				t.Errorf("%v", test.err)
			}
		})
	}
}

func TestWhatTheGatewayRefusesNamesTheField(t *testing.T) {
	l := &remote.Launcher{URL: serve(t, launchertest.Local(t)), Token: token}
	for name, test := range map[string]struct {
		spec launcher.Spec
		want launcher.SpecError
	}{
		"by the launcher":  {launcher.Spec{Pod: launcher.Pod{Image: "python"}}, launcher.SpecError{Field: "Pod.Image", Msg: "is set, but the local launcher makes no pods"}},
		"by the gateway":   {launcher.Spec{Pod: launcher.Pod{Image: "a b"}}, launcher.SpecError{Field: "Pod.Image", Msg: `is refused: "a b" is not a reference to an image`}},
		"by the document":  {launcher.Spec{Pod: launcher.Pod{Lifetime: time.Second}}, launcher.SpecError{Field: "Pod.Lifetime", Msg: "is refused: expected number >= 5"}},
		"of several names": {launcher.Spec{Pod: launcher.Pod{Resources: limits("cpu", "1")}}, launcher.SpecError{Field: "Pod.Resources", Msg: "is set, but the local launcher makes no pods"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := l.Launch(t.Context(), test.spec)
			got, ok := errors.AsType[*launcher.SpecError](err)
			if !ok || *got != test.want {
				t.Errorf("%v", err)
			}
		})
	}
}

func limits(name corev1.ResourceName, amount string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Limits: corev1.ResourceList{name: resource.MustParse(amount)}}
}

func TestWhatIsNotAllowedIsNotRepeated(t *testing.T) {
	var requests atomic.Int32
	l := &remote.Launcher{URL: serve(t, launchertest.Local(t), counting(&requests)), Token: token}
	for i := range 3 {
		if _, err := l.Launch(t.Context(), launcher.Spec{ID: fmt.Sprint("job-", i)}); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		spec   launcher.Spec
		status int
		class  string
	}{
		"image": {launcher.Spec{ID: "a", Pod: launcher.Pod{Image: "other"}}, http.StatusForbidden, "not_allowed"},
		"quota": {launcher.Spec{ID: "a"}, http.StatusTooManyRequests, "quota_exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			before := requests.Load()
			_, err := l.Launch(t.Context(), test.spec)
			e, ok := errors.AsType[*remote.Error](err)
			if !ok || e.Status != test.status || e.Class != test.class || requests.Load() != before+1 {
				t.Errorf("%d requests: %v", requests.Load()-before, err)
			}
		})
	}
}

// counting counts requests.
func counting(n *atomic.Int32) func(http.Handler) http.Handler {
	return func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n.Add(1)
			h.ServeHTTP(w, r)
		})
	}
}

// fault is how a request goes wrong that h should have got.
type fault func(w http.ResponseWriter, r *http.Request, h http.Handler)

// breaking has the first requests go wrong in turn.
func breaking(how ...fault) func(http.Handler) http.Handler {
	var n atomic.Int32
	return func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if i := int(n.Add(1)); i <= len(how) {
				how[i-1](w, r, h)
				return
			}
			h.ServeHTTP(w, r)
		})
	}
}

func lost(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) }

func doneButLost(_ http.ResponseWriter, r *http.Request, h http.Handler) {
	h.ServeHTTP(httptest.NewRecorder(), r)
	panic(http.ErrAbortHandler)
}

func badGateway(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
	http.Error(w, "no upstream", http.StatusBadGateway)
}

func tooMany(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(http.StatusTooManyRequests)
	_, _ = w.Write([]byte(`{"status":429,"class":"rate","detail":"too many"}`))
}

func wakes(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = w.Write([]byte(`{"status":503,"class":"not_ready","detail":"not yet"}`))
}

func TestRequestsThatGoWrongAreRepeated(t *testing.T) {
	local := launchertest.Local(t)
	broken := func(how ...fault) *remote.Launcher {
		return &remote.Launcher{URL: serve(t, local, breaking(how...)), Token: token}
	}
	s, err := broken(lost, badGateway, tooMany, wakes).Launch(t.Context(), launcher.Spec{ID: "job-1"})
	if err != nil || !s.Created {
		t.Fatal(err)
	}
	if list, err := broken(lost).List(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
	if err := broken(doneButLost).Terminate(t.Context(), "job-1"); err != nil {
		t.Error(err)
	}
}

func TestLaunchWhoseAnswerIsLostMakesOneSandbox(t *testing.T) {
	local := launchertest.Local(t)
	l := &remote.Launcher{URL: serve(t, local, breaking(doneButLost)), Token: token}
	s, err := l.Launch(t.Context(), launcher.Spec{})
	if err != nil || !s.Created {
		t.Fatalf("%+v, %v", s, err)
	}
	if list, err := local.List(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if list, err := local.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
}

// A caller that leaves while nobody knows whether the sandbox was made leaves none behind.
func TestLaunchThatIsGivenUpLeavesNothing(t *testing.T) {
	local := launchertest.Local(t)
	ctx, cancel := context.WithCancel(t.Context())
	leave := func(w http.ResponseWriter, r *http.Request, h http.Handler) {
		h.ServeHTTP(httptest.NewRecorder(), r.WithContext(context.WithoutCancel(r.Context())))
		cancel()
		<-r.Context().Done()
	}
	l := &remote.Launcher{URL: serve(t, local, breaking(leave)), Token: token}
	if _, err := l.Launch(ctx, launcher.Spec{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if list, err := local.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
}

func TestLaunchWaitsNoLongerThanItsReadyTimeout(t *testing.T) {
	always := func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { wakes(w, r, nil) })
	}
	l := &remote.Launcher{URL: serve(t, launchertest.Local(t), always), Token: token}
	spec := launcher.Spec{ID: "job-1"}
	spec.Take.ReadyTimeout = time.Second
	if _, err := l.Launch(t.Context(), spec); !errors.Is(err, launcher.ErrNotReady) {
		t.Error(err)
	}
}

func TestNobodyGetsTheTokenButTheGateway(t *testing.T) {
	var got atomic.Bool
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got.Store(true) }))
	defer thief.Close()
	redirects := httptest.NewServer(http.RedirectHandler(thief.URL, http.StatusTemporaryRedirect))
	defer redirects.Close()
	encrypted := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { got.Store(true) }))
	encrypted.Config.ErrorLog = log.New(io.Discard, "", 0)
	defer encrypted.Close()
	for name, url := range map[string]string{
		"a redirect":                redirects.URL,
		"a certificate of nobody's": encrypted.URL,
		"no encryption":             "http://gateway.example.com",
		"a path":                    redirects.URL + "/path",
		"another scheme":            "ftp://127.0.0.1",
	} {
		t.Run(name, func(t *testing.T) {
			l := &remote.Launcher{URL: url, Token: token}
			if _, err := l.List(t.Context()); err == nil || got.Load() {
				t.Errorf("%v", err)
			}
			if name == "no encryption" && !errors.Is(func() error { _, err := l.Find(t.Context(), "a"); return err }(), remote.ErrUnencrypted) {
				t.Error("the error does not say so")
			}
		})
	}
}

func TestTokenFileIsReadForEachRequest(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("wrong")
	l := &remote.Launcher{URL: serve(t, launchertest.Local(t)), TokenFile: file}
	if _, err := l.List(t.Context()); !errors.Is(err, podapi.ErrUnauthenticated) {
		t.Error(err)
	}
	write(token + "\n")
	if _, err := l.List(t.Context()); err != nil {
		t.Error(err)
	}
}

// A gateway that lies holds nobody up, and fills no memory.
func TestGatewayThatLies(t *testing.T) {
	for name, test := range map[string]struct {
		body string
		want error
	}{
		"pages without end": {`{"sandboxes":[{"id":"a"}],"next":"a"}`, podapi.ErrProtocol},
		"no JSON":           {`<html>`, podapi.ErrProtocol},
		"another type":      {`{"sandboxes":5}`, podapi.ErrProtocol},
		"too many":          {`{"sandboxes":[` + strings.Repeat(`{"id":"a"},`, 1000) + `{"id":"a"}]}`, podapi.ErrProtocol},
		"no name":           {`{"sandboxes":[{}]}`, podapi.ErrProtocol},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(test.body))
			}))
			defer server.Close()
			_, err := (&remote.Launcher{URL: server.URL, Token: token}).List(t.Context())
			if !errors.Is(err, test.want) {
				t.Errorf("%v", err)
			}
		})
	}
}
