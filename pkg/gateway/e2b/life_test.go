package e2b

import (
	"maps"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/test/contracts"
)

func TestPausedSandboxIsConnectedTo(t *testing.T) {
	contracts.Record(t, "e2b", "HTTP").Saw(contracts.Works, "Sandbox.connect", "pause, betaPause")
	var l *pausable
	b := newBox(t, func(o *gateway.Options) {
		l = &pausable{Local: o.Launcher.(*launcher.Local)}
		o.Launcher = l
	})
	call := func(method, path, body string, status int, want string) {
		t.Helper()
		path = strings.Replace(path, "~", "/sandboxes/"+b.id, 1)
		code, text := b.send(method, path, body, "X-API-KEY: a", "Content-Type: application/json")
		if code != status || !strings.Contains(text, want) {
			t.Errorf("%s %s %s: %d %s, want %d %s", method, path, body, code, text, status, want)
		}
	}
	const listPaused = "/v2/sandboxes?state=paused"
	call("POST", "~/connect", `{"timeout":60}`, http.StatusOK, b.token)
	call("GET", listPaused, "", http.StatusOK, "[]")
	call("POST", "~/pause", "", http.StatusNoContent, "")
	call("POST", "~/pause", "{}", http.StatusConflict, `"code":409`)
	call("GET", "~", "", http.StatusOK, `"state":"paused"`)
	call("GET", "~/metrics", "", http.StatusOK, "[]")
	call("GET", "/v2/sandboxes", "", http.StatusOK, b.id)
	call("GET", "/sandboxes?state=paused", "", http.StatusOK, "[]") // which has those that run
	for _, path := range []string{"/v2~/connect", "~/connect", "~/resume"} {
		l.paused.Store(true)
		call("POST", path, "", http.StatusCreated, b.token)
		call("GET", "~", "", http.StatusOK, `"state":"running"`)
	}
	if n := l.resumes.Load(); n != 3 {
		t.Errorf("it was resumed %d times", n)
	}
	call("POST", "~/connect", `{"timeout":0}`, http.StatusBadRequest, "timeout: 0 is not")
	call("POST", "~/timeout", `{"timeout":-5}`, http.StatusBadRequest, "timeout: -5 is not")
	call("POST", "~/timeout", `{}`, http.StatusBadRequest, "the body lacks timeout")
	call("POST", "~/timeout", `{"timeout":60}`, http.StatusBadRequest, "no lifetime") // 409 would say that it is paused
}

func FuzzRecord(f *testing.F) {
	f.Add("a", "b", "", "")
	f.Add("what for?", "a/b & \"c\"", "\x00\xff", strings.Repeat("ü", 100))
	f.Add("podagent.dev/public-ports", "1", recordLabel+"00", "xAAAAx")
	f.Fuzz(func(t *testing.T, name, value, other, otherValue string) {
		labels, err := record{Template: "t", Pauses: true}.labels(map[string]string{name: value, other: otherValue})
		if err != nil {
			return // it is too large
		}
		spec := launcher.Spec{Labels: labels}
		if err := spec.Validate(); err != nil {
			t.Fatalf("they are no labels: %v", err)
		}
		for name := range labels {
			if strings.HasPrefix(name, "podagent.dev/") {
				t.Fatalf("it sets %s", name)
			}
		}
		r, metadata := recordOf(&gateway.Sandbox{Labels: labels})
		for name, value := range map[string]string{other: otherValue, name: value} {
			if has := metadata[name]; utf8.ValidString(other+otherValue+name+value) && has != value && name != other {
				t.Errorf("metadata %q are %q, not %q", name, has, value)
			}
		}
		if r.Template != "t" || !r.Pauses {
			t.Errorf("the record is %+v", r)
		}
	})
}

func FuzzRecordOfOthers(f *testing.F) {
	f.Add("xAAAAx", "x")
	f.Add("xeyJ0IjoiYSJ9x", "")
	f.Fuzz(func(t *testing.T, first, second string) {
		r, metadata := recordOf(&gateway.Sandbox{Labels: map[string]string{recordLabel + "00": first, recordLabel + "01": second}})
		labels, err := record{Template: r.Template}.labels(metadata)
		if err != nil {
			return // there is too much
		}
		if again, got := recordOf(&gateway.Sandbox{Labels: labels}); again.Template != r.Template || !maps.Equal(got, metadata) {
			t.Errorf("%+v with %q is kept as %+v with %q", r, metadata, again, got)
		}
	})
}

func FuzzListQuery(f *testing.F) {
	f.Add("metadata=a%253Db&state=running,paused&limit=2&nextToken=MSB4&order=asc")
	f.Add("startedAfter=2000-01-01T00:00:00Z&template=x")
	f.Fuzz(func(t *testing.T, query string) {
		q, err := parseList(query)
		if err == nil && (q.limit < 1 || q.limit > pageLimit) {
			t.Errorf("%q: pages of %d", query, q.limit)
		}
	})
}
