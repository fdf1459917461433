package remote_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	neturl "net/url"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/launcher/remote"
	"github.com/podagent/podagent/pkg/podapi"
)

// page answers like a site that is no gateway.
func page(status int, headers ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		for _, h := range headers {
			name, value, _ := strings.Cut(h, ": ")
			w.Header().Set(name, value)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "<html>hello</html>")
	})
}

// What is no gateway is never taken for one, also by calls whose answers have no content.
func TestWhatAnswersIsNoGateway(t *testing.T) {
	for name, test := range map[string]struct {
		handler http.Handler
		said    string
		want    error
	}{
		"a page":     {page(200), "200 OK, text/html", podapi.ErrProtocol},
		"no page":    {page(404), "404 Not Found, text/html", podapi.ErrProtocol},
		"a login":    {page(302, "Location: https://login.example.com/start?state=secret"), "302 Found to https://login.example.com", podapi.ErrProtocol},
		"a password": {page(401), "401 Unauthorized, text/html", podapi.ErrUnauthenticated},
		"HTTPS":      {page(400), "400 Bad Request, as servers say that expect https", podapi.ErrProtocol},
		"nothing":    {page(202, "Content-Type: text/plain"), "202 Accepted, text/plain", podapi.ErrProtocol},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(test.handler)
			defer server.Close()
			l, ctx := &remote.Launcher{URL: server.URL, Token: token}, t.Context()
			_, launched := l.Launch(ctx, launcher.Spec{ID: "job-1"})
			_, opened := l.Open(ctx, "job-1")
			for doing, err := range map[string]error{
				"launching": launched, "opening": opened, "terminating": l.Terminate(ctx, "job-1"), "pausing": l.Pause(ctx, "job-1"),
			} {
				want := fmt.Sprintf("%s sandbox %q: what answers at %s is no gateway: %s", doing, "job-1", server.URL, test.said)
				e, ok := errors.AsType[*remote.Error](err)
				if !ok || e.Class != "" || err.Error() != want || !errors.Is(err, test.want) {
					t.Errorf("%v\nwant %s", err, want)
				}
			}
			for f := range l.Check(ctx, launcher.Spec{}) {
				if f.Name != "gateway" || f.Verdict != launcher.Failed || f.Advice != "See whether the URL is right, and whether the gateway runs." {
					t.Errorf("the check says %+v", f)
				}
			}
		})
	}
}

func TestCheckSaysWhoseTheTokenIs(t *testing.T) {
	older := func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.URL.Path = strings.Replace(r.URL.Path, "whoami", "none", 1)
			h.ServeHTTP(w, r)
		})
	}
	for name, test := range map[string]struct {
		url, want string
	}{
		"a tenant's": {serve(t, launchertest.Local(t)), "tenant acme, key "},
		"one older":  {serve(t, launchertest.Local(t), older), "valid, and this gateway does not say whose; sandboxes: 0"},
	} {
		t.Run(name, func(t *testing.T) {
			var said []string
			for f := range (&remote.Launcher{URL: test.url, Token: token}).Check(t.Context(), launcher.Spec{}) {
				if f.Verdict != launcher.Passed {
					t.Errorf("%+v", f)
				}
				said = append(said, f.Name+": "+f.Detail)
			}
			if len(said) != 5 || !strings.HasPrefix(said[1], "token: "+test.want) {
				t.Errorf("%q", said)
			}
		})
	}
}

func TestCertificateThatNobodyTrustedSignedIsSaid(t *testing.T) {
	server := httptest.NewTLSServer(page(200))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	defer server.Close()
	l := &remote.Launcher{URL: server.URL, Token: token}
	_, err := l.List(t.Context())
	if !errors.Is(err, podapi.ErrUnavailable) || !errors.As(err, new(*tls.CertificateVerificationError)) {
		t.Errorf("%v", err)
	}
	for f := range l.Check(t.Context(), launcher.Spec{}) {
		if f.Name != "gateway" || f.Advice != "See whether the URL is right, and trust who signed the gateway's certificate." {
			t.Errorf("%+v", f)
		}
	}
}

// instead answers calls in sandboxes in place of the gateway.
func instead(with http.Handler) func(http.Handler) http.Handler {
	return func(g http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.ProtoMajor == 2 {
				with.ServeHTTP(w, r)
				return
			}
			g.ServeHTTP(w, r)
		})
	}
}

// A proxy that passes on REST alone is not taken for an agent.
func TestProxyThatPassesNoCallsInSandboxesIsSaid(t *testing.T) {
	const noGRPC = "what answers at URL does not pass on gRPC, which calls in a sandbox take: "
	http1 := func(url string) string { // which passes on all else
		to, err := neturl.Parse(url)
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewServer(httputil.NewSingleHostReverseProxy(to))
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		t.Cleanup(server.Close)
		return server.URL
	}
	local := launchertest.Local(t)
	for name, test := range map[string]struct {
		url, said string
		want      error
	}{
		"not found": {serve(t, local, instead(page(404))), noGRPC + "404 Not Found", podapi.ErrProtocol},
		"a page":    {serve(t, local, instead(page(200))), noGRPC + "200 OK", podapi.ErrProtocol},
		"password":  {serve(t, local, instead(page(401))), noGRPC + "401 Unauthorized", podapi.ErrUnauthenticated},
		"HTTP/1":    {http1(serve(t, local)), "what answers at URL does not speak HTTP/2, which calls in a sandbox take", podapi.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			l := &remote.Launcher{URL: test.url, Token: token}
			s, err := l.Launch(t.Context(), launcher.Spec{ID: "job-1"})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			_, called := s.Info(t.Context())
			for call, err := range map[string]error{"a call": called, "a command": s.Command(t.Context(), "true").Run()} {
				e, ok := errors.AsType[*remote.Error](err)
				if !ok || e.Error() != strings.Replace(test.said, "URL", test.url, 1) || !errors.Is(err, test.want) {
					t.Errorf("%s: %v", call, err)
				}
			}
		})
	}
}
