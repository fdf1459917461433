package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/launcher"
)

// link makes a link to a port of the sandbox "web", and returns its token.
func (d *door) link(port, body string) (token string) {
	d.Helper()
	token, _ = d.linkUntil(port, body)
	return token
}

// linkUntil is link, with the time at which the link expires.
func (d *door) linkUntil(port, body string) (token string, until time.Time) {
	d.Helper()
	asked := time.Now()
	got := d.send("a", "POST", "/api/v1/sandboxes/web/ports/"+port+"/link", body)
	var link struct {
		URL       string    `json:"url"`
		ExpiresAt time.Time `json:"expires_at"`
	}
	if err := json.Unmarshal([]byte(got.text), &link); err != nil || got.StatusCode != 200 {
		d.Fatalf("%d %s: %v", got.StatusCode, got.text, err)
	}
	token, ok := strings.CutPrefix(link.URL, "https://"+port+"-web--acme.sandboxes.test/?podagent_link=")
	if !ok || !link.ExpiresAt.After(asked) {
		d.Fatalf("the link is %s, until %v", link.URL, link.ExpiresAt)
	}
	return token, link.ExpiresAt
}

// echo answers with what the gateway must not pass on, if it does.
func echo(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "%s%s%s%s", r.RequestURI, r.Header["Cookie"], r.Header["Authorization"], r.Header["X-Sandbox-Link"])
}

func TestLinkOpensAPortToABrowser(t *testing.T) {
	d := newDoor(t)
	port, host := d.serve(echo)
	token := d.link(port, `{"expires_seconds":60}`)
	for _, test := range []struct{ path, location string }{
		{"/?podagent_link=" + token, "/"},
		{"/a%2Fb/..?x=1&podagent_link=" + token + "&y=;", "/a%2Fb/..?x=1&y=;"},
		{"//evil.test/?podagent_link=" + token, "//evil.test/"},
		{`/\evil.test/?podagent_link=` + token + "&podagent_link=x", `/\evil.test/`},
	} {
		got := d.ask("GET", host, test.path, "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document", "Sec-Fetch-Site: cross-site")
		if got.StatusCode != 303 || got.Header.Get("Location") != "https://"+host+test.location || got.Header.Get("Referrer-Policy") != "no-referrer" || got.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %v", test.path, got.StatusCode, got.Header)
		}
		cookies := got.Cookies()
		if len(cookies) != 1 {
			t.Fatalf("the cookies are %v", cookies)
		}
		if c := cookies[0]; c.Name != "__Host-podagent-link" || !c.Secure || !c.HttpOnly || c.Path != "/" || c.Domain != "" || c.SameSite != http.SameSiteLaxMode || c.MaxAge <= 0 || c.MaxAge > 60 {
			t.Errorf("the cookie is %v", c)
		}
		cookie := "Cookie: own=1; " + cookies[0].Name + "=" + cookies[0].Value
		if got := d.ask("GET", host, "/x?y", cookie, "Sec-Fetch-Site: same-origin", "Authorization: Bearer own"); got.text != "/x?y[own=1][Bearer own][]" {
			t.Errorf("with the cookie: %d %s", got.StatusCode, got.text)
		}
	}
	if got := d.ask("GET", host+":8443", "/?podagent_link="+token, "Accept: text/html,*/*"); got.Header.Get("Location") != "https://"+host+":8443/" {
		t.Errorf("at another port: %d %v", got.StatusCode, got.Header)
	}
	if got := d.ask("GET", host+":80@evil.test", "/?podagent_link="+token, "Accept: text/html"); got.StatusCode == 303 && got.Header.Get("Location") != "https://"+host+"/" {
		t.Errorf("at a wrong port: %d %v", got.StatusCode, got.Header)
	}
	for _, headers := range [][]string{{"X-Sandbox-Link: " + token}, {"X-Sandbox-Link: " + token, "Accept: text/html"}} {
		if got := d.ask("POST", host, "/x", headers...); got.text != "/x[][][]" {
			t.Errorf("a program with %q: %d %s", headers, got.StatusCode, got.text)
		}
	}
	if got := d.ask("GET", host, "/x?a&podagent_link="+token+"&b"); got.text != "/x?a&b[][][]" {
		t.Errorf("a program with the URL: %d %s", got.StatusCode, got.text)
	}
}

// A page of another sandbox cannot use the cookie of who looks at it, but for opening the page.
func TestCookieOfALinkCountsForItsOwnPagesAlone(t *testing.T) {
	d := newDoor(t)
	port, host := d.serve(echo)
	cookie := "Cookie: __Host-podagent-link=" + d.link(port, "")
	for _, test := range []struct {
		method  string
		headers []string
		status  int
	}{
		{"GET", nil, 200},
		{"POST", nil, 200},
		{"POST", []string{"Sec-Fetch-Site: same-origin", "Origin: https://" + host}, 200},
		{"POST", []string{"Origin: https://" + host}, 200},
		{"GET", []string{"Sec-Fetch-Site: none", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}, 200},
		{"GET", []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}, 200},
		{"POST", []string{"Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}, 401},
		{"GET", []string{"Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"}, 401},
		{"GET", []string{"Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: cors", "Sec-Fetch-Dest: empty"}, 401},
		{"GET", []string{"Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: script"}, 401},
		{"GET", []string{"Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: websocket", "Origin: https://1-evil--other.sandboxes.test"}, 401},
		{"GET", []string{"Origin: https://1-evil--other.sandboxes.test"}, 401},
		{"GET", []string{"Origin: null"}, 401},
	} {
		if got := d.ask(test.method, host, "/", append(test.headers, cookie)...); got.StatusCode != test.status {
			t.Errorf("%s %q: %d %s, want %d", test.method, test.headers, got.StatusCode, got.text, test.status)
		}
	}
}

func TestLinkOpensNothingElse(t *testing.T) {
	d := newDoor(t)
	port, host := d.serve(echo)
	d.send("a", "POST", "/api/v1/sandboxes", `{"id":"other"}`)
	d.send("o", "POST", "/api/v1/sandboxes", `{"id":"web"}`)
	token := d.link(port, "{}")
	refused := func(name, host, token string) {
		t.Helper()
		for _, header := range []string{"X-Sandbox-Link: " + token, "Cookie: __Host-podagent-link=" + token, "Authorization: Bearer " + token, "X-Sandbox-Token: " + token} {
			if got := d.ask("GET", host, "/?podagent_link="+token, header, "Accept: text/html"); got.StatusCode != 401 || got.Header["Set-Cookie"] != nil {
				t.Errorf("%s: %d %v %s", name, got.StatusCode, got.Header, got.text)
			}
		}
	}
	if got := d.ask("GET", host, "/", "X-Sandbox-Link: "+token); got.StatusCode != 200 {
		t.Fatalf("%d %s", got.StatusCode, got.text)
	}
	refused("another port", "1-web--acme.sandboxes.test", token)
	refused("another sandbox", port+"-other--acme.sandboxes.test", token)
	refused("another tenant", port+"-web--other.sandboxes.test", token)
	refused("the host without a tenant", port+"-web.sandboxes.test", token)
	refused("cut", host, token[:len(token)-1])
	refused("longer", host, token+"A")
	for i := range token {
		changed := []byte(token)
		if changed[i] = 'A'; token[i] == 'A' {
			changed[i] = 'B'
		}
		if got := d.ask("GET", host, "/", "X-Sandbox-Link: "+string(changed)); got.StatusCode != 401 {
			t.Errorf("with another byte %d: %d", i, got.StatusCode)
		}
	}
	if got := d.ask("GET", "gateway.test", "/api/v1/sandboxes", "X-Sandbox-Link: "+token, "Cookie: __Host-podagent-link="+token, "Authorization: Bearer "+token); got.StatusCode != 401 {
		t.Errorf("the gateway's own: %d", got.StatusCode)
	}
	d.send("a", "DELETE", "/api/v1/sandboxes/web", "")
	refused("none", host, token)
	d.send("a", "POST", "/api/v1/sandboxes", `{"id":"web"}`)
	refused("its successor", host, token)
	token = d.link(port, "")
	d.writeKeys("tenants:\n  other:\n    keys:\n    - sha256: " + hashOf("o") + "\n")
	refused("of a tenant that there is no longer", host, token)
}

func TestLinkExpires(t *testing.T) {
	d := newDoor(t)
	port, host := d.serve(echo)
	token, until := d.linkUntil(port, `{"expires_seconds":1}`)
	eventually(t, "the end of the link's time", func() bool { return time.Now().After(until) })
	if got := d.ask("GET", host, "/", "X-Sandbox-Link: "+token); got.StatusCode != 401 {
		t.Errorf("%d %s", got.StatusCode, got.text)
	}
	for _, body := range []string{`{"expires_seconds":0}`, `{"expires_seconds":-1}`, `{"expires_seconds":2592001}`, `{"seconds":1}`} {
		if got := d.send("a", "POST", "/api/v1/sandboxes/web/ports/"+port+"/link", body); got.StatusCode != 422 {
			t.Errorf("%s: %d %s", body, got.StatusCode, got.text)
		}
	}
	d.walk(
		step{"POST", "/api/v1/sandboxes/none/ports/80/link", "", nil, 404, `"class":"no_sandbox"`},
		step{"POST", "/api/v1/sandboxes/web/ports/0/link", "", nil, 422, ``},
		step{"POST", "/api/v1/sandboxes/web/ports/65536/link", "", nil, 422, ``},
	)
	if got := d.send("o", "POST", "/api/v1/sandboxes/web/ports/80/link", ""); got.StatusCode != 404 {
		t.Errorf("another tenant: %d", got.StatusCode)
	}
	none := newDoor(t, func(o *gateway.Options) { o.Domain = "" })
	none.send("a", "POST", "/api/v1/sandboxes", `{"id":"web"}`)
	none.walk(step{"POST", "/api/v1/sandboxes/web/ports/80/link", "", nil, 501, `no domain`})
}

func TestKeysOfLinksAreReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "links")
	write := func(keys ...string) {
		t.Helper()
		if err := os.WriteFile(path+".next", []byte(strings.Join(keys, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".next", path); err != nil {
			t.Fatal(err)
		}
	}
	first, second := strings.Repeat("1", 32), strings.Repeat("2", 32)
	write(first)
	d := newDoor(t, func(o *gateway.Options) { o.LinkKeys = &gateway.LinkKeys{Path: path} })
	port, host := d.serve(echo)
	opens := func(token string) int { return d.ask("GET", host, "/", "X-Sandbox-Link: "+token).StatusCode }
	old := d.link(port, "")
	write(second, "", first, "")
	young := d.link(port, "")
	if opens(old) != 200 || opens(young) != 200 {
		t.Errorf("with both keys: %d %d", opens(old), opens(young))
	}
	write(second)
	if opens(old) != 401 || opens(young) != 200 {
		t.Errorf("with the new key: %d %d", opens(old), opens(young))
	}
	for _, wrong := range []string{"", "short", second + "\nshort"} {
		write(wrong)
		if opens(young) != 401 {
			t.Errorf("with the keys %q: %d", wrong, opens(young))
		}
		d.walk(step{"POST", "/api/v1/sandboxes/web/ports/80/link", "", nil, 503, `cannot sign`})
		if err := (&gateway.LinkKeys{Path: path}).Load(); err == nil {
			t.Errorf("the keys %q load", wrong)
		}
	}
	if err := (&gateway.LinkKeys{}).Load(); err == nil {
		t.Error("no file loads")
	}
}

func TestPublicPortIsOpenToStrangers(t *testing.T) {
	d := newDoor(t)
	server := httptest.NewServer(http.HandlerFunc(echo))
	defer server.Close()
	port := portOf(server)
	d.walk(
		step{"POST", "/api/v1/sandboxes", `{"id":"web","public_ports":[` + port + `,1],"labels":{"team":"red"}}`, nil, 201, ``},
		step{"POST", "/api/v1/sandboxes", `{"id":"web","public_ports":[2]}`, nil, 200, ``},
		step{"GET", "/api/v1/sandboxes/web", "", nil, 200, `"labels":{"team":"red"},"public_ports":\[` + port + `,1\],"isolation":"none"}`},
		step{"POST", "/api/v1/sandboxes", `{"id":"open","all_public":true}`, nil, 201, ``},
		step{"GET", "/api/v1/sandboxes/open", "", nil, 200, `"all_public":true,"isolation":"none"}`},
		step{"POST", "/api/v1/sandboxes", `{"id":"private"}`, nil, 201, ``},
		step{"POST", "/api/v1/sandboxes", `{"id":"x","public_ports":[0]}`, nil, 422, `public_ports`},
		step{"POST", "/api/v1/sandboxes", `{"id":"x","public_ports":[65536]}`, nil, 422, `public_ports`},
		step{"POST", "/api/v1/sandboxes", `{"id":"x","public_ports":[1,2,3,4,5,6,7,8,9,10,11]}`, nil, 422, `public_ports`},
		step{"POST", "/api/v1/sandboxes", `{"id":"x","labels":{"podagent.dev/public-ports":"1"}}`, nil, 422, `reserved`},
	)
	host := port + "-web--acme.sandboxes.test"
	for _, headers := range [][]string{
		nil, {"Origin: https://evil.test", "Sec-Fetch-Site: cross-site"}, {"X-Sandbox-Link: wrong"}, {"Cookie: __Host-podagent-link=wrong"},
	} {
		if got := d.ask("GET", host, "/?a&podagent_link=wrong", headers...); got.text != "/?a[][][]" || got.Header.Get("Cache-Control") != "" {
			t.Errorf("%q: %d %v %s", headers, got.StatusCode, got.Header, got.text)
		}
	}
	if got := d.ask("GET", host, "/", "Authorization: Bearer own"); got.text != "/[][Bearer own][]" {
		t.Errorf("with its own token: %d %s", got.StatusCode, got.text)
	}
	if got := d.ask("GET", host, "/", tokenA); got.text != "/[][][]" {
		t.Errorf("with the gateway's token: %d %s", got.StatusCode, got.text)
	}
	for _, headers := range [][]string{{"Authorization: Bearer o"}, {"X-Sandbox-Token: o"}} {
		if got := d.ask("GET", host, "/", headers...); got.StatusCode != 404 {
			t.Errorf("by another tenant: %d %s", got.StatusCode, got.text)
		}
	}
	if got := d.ask("GET", "1-web--acme.sandboxes.test", "/"); got.StatusCode != 502 {
		t.Errorf("without a server: %d %s", got.StatusCode, got.text)
	}
	private := d.ask("GET", "2-web--acme.sandboxes.test", "/")
	for _, host := range []string{port + "-private--acme.sandboxes.test", port + "-none--acme.sandboxes.test", port + "-web--none.sandboxes.test", port + "-web--other.sandboxes.test", port + "-web.sandboxes.test"} {
		if got := d.ask("GET", host, "/"); got.StatusCode != 401 || got.text != private.text || len(got.Header) != len(private.Header) {
			t.Errorf("%s: %d %v %s, but a private port has %s", host, got.StatusCode, got.Header, got.text, private.text)
		}
	}
	d.writeKeys("tenants:\n  other:\n    keys:\n    - sha256: " + hashOf("o") + "\n")
	if got := d.ask("GET", host, "/"); got.StatusCode != 401 {
		t.Errorf("of a tenant that there is no longer: %d %s", got.StatusCode, got.text)
	}
}

// counted is a launcher that counts what it is asked for.
type counted struct {
	launcher.Launcher
	finds, opens atomic.Int32
}

func (c *counted) Find(ctx context.Context, id string) (launcher.Summary, error) {
	c.finds.Add(1)
	return c.Launcher.Find(ctx, id)
}

func (c *counted) Open(ctx context.Context, id string) (*launcher.Sandbox, error) {
	c.opens.Add(1)
	return c.Launcher.Open(ctx, id)
}

// Strangers cost little: nothing is opened for them, and one lookup is for many.
func TestStrangersOpenNothing(t *testing.T) {
	var count counted
	d := newDoor(t, func(o *gateway.Options) {
		count.Launcher = o.Launcher
		o.Launcher = &count
	})
	port, host := d.serve(echo)
	token := d.link(port, "")
	count.finds.Store(0)
	began := time.Now()
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			if got := d.ask("GET", host, "/", "X-Sandbox-Link: "+token[1:]+fmt.Sprint(i%10)); got.StatusCode != 401 {
				t.Errorf("%d %s", got.StatusCode, got.text)
			}
		})
	}
	all.Wait()
	most := int32(1 + time.Since(began)/(2*time.Second)) // a lookup counts for two seconds
	if finds := count.finds.Load(); finds < 1 || finds > most || count.opens.Load() != 0 {
		t.Errorf("%d lookups, at most %d expected; %d opened", finds, most, count.opens.Load())
	}
}

// slowFinds is a launcher that takes long to find sandboxes whose names begin with x.
type slowFinds struct {
	launcher.Launcher
	begun, goOn chan struct{}
}

func (l *slowFinds) Find(ctx context.Context, id string) (launcher.Summary, error) {
	if strings.HasPrefix(id, "acme.x") {
		l.begun <- struct{}{}
		<-l.goOn
	}
	return l.Launcher.Find(ctx, id)
}

func TestStrangersHoldUpNoLink(t *testing.T) {
	const atOnce = 2 // of a tenant
	slow := &slowFinds{begun: make(chan struct{}), goOn: make(chan struct{})}
	d := newDoor(t, func(o *gateway.Options) {
		slow.Launcher = o.Launcher
		o.Launcher = slow
	})
	port, host := d.serve(echo)
	token := d.link(port, "")
	var all sync.WaitGroup
	for i := range atOnce {
		all.Go(func() { d.ask("GET", fmt.Sprintf("80-x%d--acme.sandboxes.test", i), "/") })
		<-slow.begun
	}
	if got := d.ask("GET", host, "/", "X-Sandbox-Link: "+token); got.StatusCode != 200 {
		t.Errorf("by a link: %d %s", got.StatusCode, got.text)
	}
	close(slow.goOn)
	all.Wait()
}
