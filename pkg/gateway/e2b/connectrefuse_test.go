package e2b

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/podagent/podagent/pkg/gateway"
)

func TestRefusalsOfConnectCallsHaveItsCodes(t *testing.T) {
	for _, c := range []struct {
		path, kind string
		why        gateway.Failure
		status     int
		want       string
	}{
		{"/process.Process/List", unaryType, gateway.Failure{Status: 429, Class: "rate", Text: "slower"}, 429, `{"code":"resource_exhausted","message":"slower"}`},
		{"/process.Process/Start", streamType, gateway.Failure{Status: 429, Class: "rate", Text: "slower"}, 200, "\x02\x00\x00\x00:" + `{"error":{"code":"resource_exhausted","message":"slower"}}`},
		{"/filesystem.Filesystem/WatchDir", streamType + "; charset=utf-8", gateway.Failure{Status: 503, Class: "unavailable"}, 200, `{"error":{"code":"aborted","message":""}}`},
		{"/filesystem.Filesystem/Stat", unaryType, gateway.Failure{Status: 401, Class: "unauthenticated"}, 401, `{"code":"unauthenticated","message":""}`},
		{"/process.Process/Start", streamType, gateway.Failure{Status: 409, Class: "paused"}, 502, `{"code":"unavailable","message":""}`},
		{"/files", octets, gateway.Failure{Status: 429, Class: "rate"}, 429, `{"code":429,"message":""}`},
	} {
		w, r := httptest.NewRecorder(), httptest.NewRequest("POST", c.path, nil)
		r.Header.Set("Content-Type", c.kind)
		c.why.RetryAfter = 2e9
		(&Face{}).Refuse(w, r, c.why)
		if got := strings.TrimSpace(w.Body.String()); w.Code != c.status || !strings.HasSuffix(got, c.want) || w.Header().Get("Retry-After") != "2" {
			t.Errorf("%s %s: %d %v %q, want %d %q", c.path, c.kind, w.Code, w.Header(), got, c.status, c.want)
		}
	}
}

func TestStreamsOfStrangersAreRefusedAsConnectDoes(t *testing.T) {
	b := newBox(t)
	code, body := b.send("POST", "/process.Process/Start", envelope(0, script("true")), b.headers(streamType, "X-Access-Token: x")...)
	if code != http.StatusOK || !strings.Contains(body, `"code":"unauthenticated"`) {
		t.Errorf("%d %s", code, body)
	}
}

func TestSandboxThatIsNotReadyIsNotGone(t *testing.T) {
	for _, class := range []string{"not_ready", "unavailable", "unschedulable", classClosing} {
		if code := codeOf(http.StatusServiceUnavailable, class); code != connect.CodeAborted {
			t.Errorf("%s: %v", class, code)
		}
	}
	if code := codeOf(http.StatusGone, "gone"); code != connect.CodeUnavailable {
		t.Errorf("gone: %v", code)
	}
}
