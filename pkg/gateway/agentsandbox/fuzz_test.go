package agentsandbox

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// fuzzedHeaders are those that the face reads.
var fuzzedHeaders = []string{"X-None", headerID, headerNamespace, headerPort, headerUID, headerTimeout, "Authorization", "Content-Type", "Range", "Origin"}

// FuzzRequests sends requests to the whole gateway, for a sandbox that is not there or, with the header X-None,
// for one that is: none has an answer of 500, nor one of 2xx without a key. A local sandbox isolates nothing,
// so no command runs, and all paths are in its directory.
func FuzzRequests(f *testing.F) {
	for i, v := range verbs {
		f.Add(v.method, v.path+"a%2Fb", uint8(i), "x", []byte(`{"command":"x"}`))
		f.Add(v.method, v.path, uint8(0), "", []byte("--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"../a\"\r\n\r\ny\r\n--x--"))
		f.Add(v.method, pathPrefix+"here/job-1/8080"+v.path+"%00", uint8(i), "9090", []byte{0})
	}
	f.Add("PUT", "/v1/files/a?mode=0600", uint8(7), "multipart/form-data; boundary=x", []byte("--x"))
	f.Add("GET", "/v1/files/%", uint8(5), "1e309", []byte(nil))
	g := gateway.New(gateway.Options{Launcher: launchertest.Local(f), Tenants: gateway.OneTenant{Name: "acme", Token: "a"}, Faces: []gateway.Face{&Face{Namespace: "here"}}})
	f.Cleanup(func() { g.Close() })
	made := httptest.NewRequest("POST", "/api/v1/sandboxes", strings.NewReader(`{"id":"job-1"}`))
	made.Header = http.Header{"Authorization": {"Bearer a"}, "Content-Type": {"application/json"}}
	if w := httptest.NewRecorder(); true {
		if g.ServeHTTP(w, made); w.Code != 201 {
			f.Fatal(w.Body)
		}
	}
	f.Fuzz(func(t *testing.T, method, target string, header uint8, value string, body []byte) {
		if json.Valid(body) && strings.Contains(target, "execute") {
			body = []byte(`{"command":"true"}`)
		}
		r, err := http.NewRequest(method, "http://gateway.test/"+strings.TrimPrefix(target, "/"), strings.NewReader(string(body)))
		if err != nil {
			t.Skip("it is no request")
		}
		r.RequestURI = r.URL.RequestURI()
		r.Header = http.Header{"Authorization": {basic("a")}, headerID: {"job-1"}, headerPort: {"8080"}}
		name := fuzzedHeaders[int(header)%len(fuzzedHeaders)]
		r.Header.Set(name, value)
		w := httptest.NewRecorder()
		func() {
			defer func() {
				if p := recover(); p != nil && p != http.ErrAbortHandler {
					panic(p)
				}
			}()
			g.ServeHTTP(w, r)
		}()
		if w.Code == http.StatusInternalServerError {
			t.Errorf("%s %q with %s: %q: %d %s", method, target, name, value, w.Code, w.Body)
		}
		_, err = io.Copy(io.Discard, w.Body)
		if name == "Authorization" && value != basic("a") && !strings.Contains(value, " ") && w.Code < 300 || err != nil {
			t.Errorf("%s %q by %q: %d %v", method, target, value, w.Code, err)
		}
	})
}

// FuzzMessages parses what calls by gRPC bring, and words of commands.
func FuzzMessages(f *testing.F) {
	f.Add(bytesField(1, config("true", bytesField(2, append(bytesField(1, []byte("A")), bytesField(2, []byte("b"))...)))), "a 'b c' \"d\\\"e\" f\\ g")
	f.Add([]byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f}, "'")
	f.Add(append(numberField(1, -1), bytesField(3, nil)...), "a\\")
	f.Add([]byte("0"), "\x91") // which is no UTF-8
	f.Fuzz(func(t *testing.T, message []byte, text string) {
		if in, err := parseStart(message); err == nil {
			_ = in.config.check()
			if in.pty.check() == nil && in.pty != nil && (in.pty.size().Rows > 65535 || in.pty.size().Rows < 0) {
				t.Errorf("a terminal of %v", in.pty.size())
			}
			for _, variable := range in.config.env {
				if strings.HasPrefix(variable, "=") {
					t.Errorf("the variable %q", variable)
				}
			}
		}
		for _, parse := range []func([]byte) error{
			func(m []byte) error { _, err := parseStdin(m); return err },
			func(m []byte) error { _, err := parseSignal(m); return err },
			func(m []byte) error { _, err := parseResize(m); return err },
			func(m []byte) error { _, err := parseWatch(m); return err },
		} {
			_ = parse(message)
		}
		if words, err := splitWords(text); err == nil && strings.ContainsAny(text, "\"'\\") == false && strings.Join(words, " ") != strings.Join(strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\r\n", r) }), " ") {
			t.Errorf("%q is split into %q", text, words)
		}
		for _, root := range []string{"/workspace", "/"} {
			if full, err := within(root, text); err == nil && full != root && !strings.HasPrefix(full, strings.TrimSuffix(root, "/")+"/") {
				t.Errorf("%q is %q", text, full)
			}
		}
	})
}
