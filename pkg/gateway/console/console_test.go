package console_test

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/gateway/console"
)

func TestLoginGivesACookieThatScriptsAndOtherSitesDoNotGet(t *testing.T) {
	d := newDoor(t)
	d.want("a wrong token", d.ask(d.console, "POST", "/console/login", `{"token":"wrong"}`), 401)
	d.want("no token", d.ask(d.console, "POST", "/console/login", `{}`), 401)
	d.want("no JSON", d.ask(d.console, "POST", "/console/login", `token=`+token), 400)
	d.want("a body that is too large", d.ask(d.console, "POST", "/console/login", `{"token":"`+strings.Repeat("x", 1<<20)+`"}`), 400)
	d.want("a token that is too long", d.ask(d.console, "POST", "/console/login", `{"token":"`+strings.Repeat("x", 4000)+`"}`), 422)
	d.want("a GET", d.ask(d.console, "GET", "/console/login", ""), 405)
	r := d.ask(d.console, "POST", "/console/login", fmt.Sprintf(`{"token":%q}`, token))
	header := r.Header.Get("Set-Cookie")
	for _, part := range []string{"__Host-podagent-console=", "; Path=/;", "; HttpOnly", "; Secure", "; SameSite=Strict", "; Max-Age=43200"} {
		if !strings.Contains(header, part) {
			t.Errorf("the cookie is %q, without %q", header, part)
		}
	}
	if strings.Contains(header, "Domain") || strings.Contains(header, token) {
		t.Errorf("the cookie is %q", header)
	}
	if text := textOf(t, r); !strings.Contains(text, `"acme"`) {
		t.Errorf("the answer is %s", text)
	}
}

func TestSessionOfAnotherReplica(t *testing.T) {
	d := newDoor(t)
	cookie := d.logIn()
	other := console.New(console.Options{Gateway: d.newGateway("")})
	d.want("the other replica", d.ask(other, "GET", list, "", cookie), 200)
}

func TestCookieCountsForTheConsolesOwnPagesAlone(t *testing.T) {
	d := newDoor(t)
	cookie := d.logIn()
	d.want("its own page", d.ask(d.console, "GET", list, "", cookie), 200)
	d.want("a GET without Origin", d.ask(d.console, "GET", list, "", cookie, "Origin:"), 200)
	for what, headers := range map[string][]string{
		"a cross-site page":          {"Sec-Fetch-Site: cross-site"},
		"a page of the same site":    {"Sec-Fetch-Site: same-site"},
		"a link that is followed":    {"Sec-Fetch-Site: none", "Origin:"},
		"another origin":             {"Origin: https://evil.example.com"},
		"another origin's WebSocket": {"Origin: https://evil.example.com", "Sec-Fetch-Site:", "Upgrade: websocket", "Connection: Upgrade"},
		"a sandbox's origin":         {"Origin: https://3000-job-1--acme.sandboxes.localhost"},
		"another scheme":             {"Origin: http://" + host},
		"another port":               {"Origin: https://" + host + ":8443"},
		"no origin that can be told": {"Origin: null"},
		"no header at all":           {"Origin:", "Sec-Fetch-Site:"},
		"a script":                   {"Sec-Fetch-Dest: script"},
		"a frame":                    {"Sec-Fetch-Dest: iframe"},
	} {
		for _, method := range []string{"GET", "POST", "PUT", "DELETE"} {
			d.want(what+" by "+method, d.ask(d.console, method, list, `{"id":"made"}`, append(headers, cookie)...), 403)
		}
	}
	d.want("a change without Origin", d.ask(d.console, "POST", list, `{"id":"made"}`, cookie, "Origin:"), 403)
	d.want("a login of another site", d.ask(d.console, "POST", "/console/login", `{"token":"`+token+`"}`, "Sec-Fetch-Site: cross-site"), 403)
	d.want("a logout of another site", d.ask(d.console, "POST", "/console/logout", "", cookie, "Origin: https://evil.example.com"), 403)
	d.want("the gateway's own API", d.ask(d.console, "GET", "/api/v1/sandboxes", "", cookie), 401)
	d.want("another path of the gateway", d.ask(d.console, "GET", "/console/api/v1/../../mcp", "", cookie), 404)
	if got := d.ask(d.console, "GET", list, "", cookie); strings.Contains(textOf(t, got), "made") {
		t.Error("another site has made a sandbox")
	}
}

func TestConsoleIsNotServedWhereServersOfSandboxesAre(t *testing.T) {
	d := newDoor(t)
	cookie := d.logIn()
	_, port, _ := net.SplitHostPort(d.server.Listener.Addr().String())
	for _, at := range []string{"3000-job-1--acme.sandboxes.localhost:" + port, "3000-job-1.sandboxes.localhost", "sandboxes.localhost", "x.sandboxes.localhost"} {
		for _, path := range []string{"/console", list, "/console/login"} {
			r := d.ask(d.console, "GET", path, "", cookie, "Host: "+at, "Origin: https://"+at)
			if r.StatusCode < 400 || r.StatusCode == 405 {
				t.Errorf("%s%s: %d", at, path, r.StatusCode)
			}
		}
	}
	r := d.ask(d.console, "GET", list, "", cookie, "X-Sandbox-Id: job-1")
	d.want("a header that names a sandbox", r, 403)
	for _, at := range []string{"localhost:" + port, "127.0.0.1:" + port, "127.1.2.3", "[::1]:" + port, "[::ffff:127.0.0.1]", "other.localhost:" + port, "LOCALHOST.", "0.0.0.0"} {
		d.want(at, d.ask(d.console, "GET", "/console", "", "Host: "+at), 403)
		d.want(at, d.ask(d.console, "GET", list, "", cookie, "Host: "+at, "Origin: http://"+at), 403)
	}
	_, own, _ := strings.Cut(d.origin, "://")
	d.want("its own name", d.ask(d.console, "GET", list, "", cookie, "Host: "+own, "Origin: "+d.origin), 200)
}

func TestConsoleIsNotServedAtAnAddress(t *testing.T) {
	d := newDoor(t)
	cookie := d.logIn()
	for _, at := range []string{"192.0.2.7", "192.0.2.7:8443", "192.0.2.7.", "[2001:db8::7]:443", "[2001:db8::7]", "192.0.519", "0xc0000207", "gateway.7", "192.0.2.0x7"} {
		d.want(at, d.ask(d.console, "GET", "/console", "", "Host: "+at), 403)
		d.want(at, d.ask(d.console, "GET", list, "", cookie, "Host: "+at, "Origin: https://"+at), 403)
		r := d.ask(d.console, "POST", "/console/login", fmt.Sprintf(`{"token":%q}`, token), "Host: "+at, "Origin: https://"+at)
		d.want(at, r, 403)
		if len(r.Cookies()) > 0 {
			t.Errorf("%s gets a cookie", at)
		}
	}
	for _, at := range []string{"gateway", "7.example.com:8443", "gateway.example.com."} {
		d.want(at, d.ask(d.console, "GET", list, "", cookie, "Host: "+at, "Origin: https://"+at), 200)
	}
}

func TestStolenCookieEndsWithTheSession(t *testing.T) {
	d := newDoor(t)
	cookie, another := d.logIn(), d.logIn()
	d.want("before", d.ask(d.console, "GET", list, "", cookie), 200)
	out := d.ask(d.console, "POST", "/console/logout", "", cookie)
	d.want("the logout", out, 204)
	if got := out.Header.Get("Set-Cookie"); !strings.Contains(got, "Max-Age=0") {
		t.Errorf("the browser keeps %q", got)
	}
	d.want("after the logout", d.ask(d.console, "GET", list, "", cookie), 401)
	d.want("another session", d.ask(d.console, "GET", list, "", another), 200)
	d.want("a second logout", d.ask(d.console, "POST", "/console/logout", "", cookie), 204)
}

func TestLogoutEndsTheSessionAndItsStreamsAtAllReplicas(t *testing.T) {
	d := newDoor(t)
	other := console.New(console.Options{Gateway: d.newGateway("")})
	cookie := d.logIn()
	d.want("a sandbox", d.ask(other, "POST", list, `{"id":"job-1"}`, cookie), 201)
	over := d.follow(other, list+"/job-1/watch?path=.", cookie)
	d.want("the logout", d.ask(d.console, "POST", "/console/logout", "", cookie), 204)
	for deadline := time.Now().Add(hung); ; time.Sleep(10 * time.Millisecond) {
		if r := d.ask(other, "GET", list, "", cookie); r.StatusCode == 401 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the session goes on at the other replica")
		}
	}
	select {
	case <-over:
	case <-time.After(hung):
		t.Error("a stream of the session goes on")
	}
	d.want("another session", d.ask(other, "GET", list, "", d.logIn()), 200)
}

func TestNobodyIsLetInWhileNobodyCanTellWhoIsLoggedOut(t *testing.T) {
	d := newDoor(t)
	cookie := d.logIn()
	if err := os.RemoveAll(d.ledger); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(d.ledger, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	other := console.New(console.Options{Gateway: d.newGateway("")})
	d.want("a call", d.ask(other, "GET", list, "", cookie), 503)
	d.want("a login", d.ask(other, "POST", "/console/login", fmt.Sprintf(`{"token":%q}`, token)), 503)
	out := d.ask(other, "POST", "/console/logout", "", cookie)
	d.want("a logout", out, 503)
	if got := out.Header.Get("Set-Cookie"); !strings.Contains(got, "Max-Age=0") {
		t.Errorf("the browser keeps %q", got)
	}
}

func TestCookieThatIsNotSealedOpensNothing(t *testing.T) {
	d := newDoor(t)
	cookie := d.logIn()
	for i := len("Cookie: __Host-podagent-console="); i < len(cookie); i += 7 {
		other := byte('A')
		if cookie[i] == other {
			other = 'B'
		}
		d.want("a changed cookie", d.ask(d.console, "GET", list, "", cookie[:i]+string(other)+cookie[i+1:]), 401)
		d.want("a part of a cookie", d.ask(d.console, "GET", list, "", cookie[:i]), 401)
	}
	d.want("no cookie", d.ask(d.console, "GET", list, ""), 401)
	d.want("a token in place of a cookie", d.ask(d.console, "GET", list, "", "Authorization: Bearer "+token), 401)
	d.writeKeys(strings.Repeat("other", 8))
	for deadline := time.Now().Add(hung); ; {
		r := d.ask(d.console, "GET", list, "", cookie)
		if r.StatusCode == 401 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("a key that is gone seals sessions")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestCodeLetsOneBrowserIn(t *testing.T) {
	d := newDoor(t)
	_, code, _ := strings.Cut(console.NewCode(token).URL(d.origin), "#login=")
	d.want("another console's code", d.ask(d.console, "POST", "/console/login", fmt.Sprintf(`{"code":%q}`, code)), 401)
	_, code, _ = strings.Cut(d.code.URL(d.origin), "#login=")
	d.want("another site's use of the code", d.ask(d.console, "POST", "/console/login", fmt.Sprintf(`{"code":%q}`, code), "Origin: https://evil.example.com"), 403)
	d.want("the code", d.ask(d.console, "POST", "/console/login", fmt.Sprintf(`{"code":%q}`, code)), 200)
	d.want("the code again", d.ask(d.console, "POST", "/console/login", fmt.Sprintf(`{"code":%q}`, code)), 401)
}

func TestPageComesFromThisHostAlone(t *testing.T) {
	d := newDoor(t)
	for _, path := range []string{"/console", "/console/files/main.js", "/console/files/main.css", "/console/files/terminal.js", "/console/files/licences.txt"} {
		r := d.ask(d.console, "GET", path, "")
		d.want(path, r, 200)
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
		} {
			if got := r.Header.Get(name); got != want {
				t.Errorf("%s: %s is %q", path, name, got)
			}
		}
		policy := r.Header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "frame-ancestors 'none'", "form-action 'none'", "base-uri 'none'", "require-trusted-types-for 'script'"} {
			if !strings.Contains(policy, want) {
				t.Errorf("%s: the policy is %q", path, policy)
			}
		}
		if strings.Contains(policy, "unsafe") {
			t.Errorf("%s: the policy is %q", path, policy)
		}
		if r := d.ask(d.console, "GET", path, "", "If-None-Match: "+r.Header.Get("ETag")); r.StatusCode != 304 {
			t.Errorf("%s again: %d", path, r.StatusCode)
		}
	}
	d.want("no such page", d.ask(d.console, "GET", "/console/files/none.js", ""), 404)
	d.want("a POST", d.ask(d.console, "POST", "/console", ""), 405)
}
