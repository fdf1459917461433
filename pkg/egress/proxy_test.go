package egress

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
)

func TestAllowedHostsAreReached(t *testing.T) {
	ca := newAuthority(t)
	hello := func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "%s for %s", r.URL.Path, r.Host) }
	plain, secure := serveHTTP(t, hello), serveHTTPS(t, ca, hello, "allowed.test")
	f := newFront(t, Options{}, named("allowed.test", plain), named("allowed.test", secure))
	for i, c := range []struct{ scheme, proxy, protocol string }{
		{"http", "http", "http"},
		{"https", "http", "connect"},
		{"http", "socks5", "socks5"},
		{"https", "socks5", "socks5"},
	} {
		port := map[string]int{"http": plain, "https": secure}[c.scheme]
		response, err := f.client(t, c.proxy, ca.pool).Get(fmt.Sprintf("%s://allowed.test:%d/path", c.scheme, port))
		if err != nil {
			t.Fatal(err)
		}
		if got := body(t, response.Body); got != fmt.Sprintf("/path for allowed.test:%d", port) {
			t.Errorf("%s by %s: got %q", c.scheme, c.proxy, got)
		}
		d := f.decision(i)
		want := Decision{Time: d.Time, Verdict: Allowed, ID: f.decision(0).ID + uint64(i), Host: "allowed.test", Port: port, Address: netip.MustParseAddr("127.0.0.1"), Protocol: c.protocol, Rule: named("allowed.test", port), public: publicTexts{rule: fmt.Sprintf("allowed.test:%d", port)}}
		if d != want {
			t.Errorf("got %+v, want %+v", d, want)
		}
	}
}

func TestDeniedHostsAreNotReached(t *testing.T) {
	f := newFront(t, Options{Resolver: names{}}, "allowed.test", "*.allowed.test:8443", "db.test=10.7.7.7:5432")
	response, _ := f.connect(t, "evil.test:443")
	text := body(t, response.Body)
	for _, want := range []string{
		"Egress denied: no rule allows evil.test.",
		"Allowed here: allowed.test *.allowed.test:8443 db.test:5432\n",
		"ask the user to allow evil.test:443 (--allow-host evil.test:443)",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the answer to CONNECT lacks %q:\n%s", want, text)
		}
	}
	if want := "403 Egress denied: no rule allows evil.test; ask the user to allow evil.test:443 (--allow-host evil.test:443)"; response.Status != want {
		t.Errorf("got the status %q", response.Status)
	}
	if strings.Contains(text, "10.7") {
		t.Errorf("the answer tells the address of a rule:\n%s", text)
	}
	response, err := f.client(t, "http", nil).Get("http://evil.test/")
	if err != nil {
		t.Fatal(err)
	}
	if again := body(t, response.Body); response.StatusCode != 403 || again != strings.ReplaceAll(text, ":443", ":80") && !strings.Contains(again, "evil.test:80") {
		t.Errorf("over http: %s\n%s", response.Status, again)
	}
	if reply, _ := f.socks(t, "evil.test", 443); reply != socksNotAllowed {
		t.Errorf("SOCKS5 reply %d", reply)
	}
	for i, protocol := range []string{"connect", "http", "socks5"} {
		if d := f.decision(i); d.Verdict != Denied || d.Protocol != protocol || d.Host != "evil.test" || d.Reason != "no rule allows evil.test" || d.Allow != fmt.Sprintf("evil.test:%d", d.Port) {
			t.Errorf("decision %d is %+v", i, d)
		}
	}
}

func TestAllowedHostsThatAreDown(t *testing.T) {
	down := serveHTTP(t, nil)
	f := newFront(t, Options{Resolver: names{}}, "nowhere.test", named("down.test", down))
	f.SetPolicy(policyOf(t, "nowhere.test", named("down.test", 1)))
	for _, c := range []struct {
		host, want string
		reply      byte
	}{
		{"down.test:1", "cannot connect to down.test:1: connection refused", socksRefused},
		{"nowhere.test:443", "nowhere.test has no address", socksFailed},
	} {
		response, _ := f.connect(t, c.host)
		if text := body(t, response.Body); response.StatusCode != 502 || !strings.Contains(text, c.want) {
			t.Errorf("%s\n%s", response.Status, text)
		}
		host, port, _ := strings.Cut(c.host, ":")
		var n int
		fmt.Sscan(port, &n)
		if reply, _ := f.socks(t, host, n); reply != c.reply {
			t.Errorf("%s: SOCKS5 reply %d", c.host, reply)
		}
	}
	for i := range 4 {
		if d := f.decision(i); d.Verdict != Failed {
			t.Errorf("decision %d is %+v", i, d)
		}
	}
}

func TestRealCurl(t *testing.T) {
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Fatal(err)
	}
	ca := newAuthority(t)
	secure := serveHTTPS(t, ca, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Proto) }, "allowed.test")
	f := newFront(t, Options{}, named("allowed.test", secure))
	for _, proxy := range []string{"http://", "socks5h://"} {
		for host, want := range map[string]string{"allowed.test": "HTTP/1.1", "evil.test": ""} {
			cmd := exec.Command(curl, "-sS", "--max-time", "20", "--cacert", ca.file, "--proxy", proxy+f.addr, fmt.Sprintf("https://%s:%d/", host, secure))
			out, err := cmd.Output()
			if string(out) != want || (err == nil) != (want != "") {
				t.Errorf("%v: %q, %v", cmd, out, err)
			}
		}
	}
}

func TestDecisionsQuoteWhatIsNoHost(t *testing.T) {
	f := newFront(t, Options{}, "*")
	if reply, _ := f.socks(t, "a\nverdict=allowed \xff\u2028"+strings.Repeat("x", 200), 443); reply != socksNotAllowed {
		t.Errorf("SOCKS5 reply %d", reply)
	}
	d := f.decision(0)
	if want := `"a\nverdict=allowed \xff\u2028`; !strings.HasPrefix(d.Host, want) || len(d.Host) > 150 || d.Verdict != Denied {
		t.Errorf("got %+v", d)
	}
}

func TestIPv6(t *testing.T) {
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	go func() {
		_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Host) }))
	}()
	f := newFront(t, Options{}, fmt.Sprintf("[::1]:%d", port), fmt.Sprintf("allowed.test=[::1]:%d", port))
	for _, host := range []string{fmt.Sprintf("[::1]:%d", port), fmt.Sprintf("allowed.test:%d", port)} {
		for _, scheme := range []string{"http", "socks5"} {
			response, err := f.client(t, scheme, nil).Get("http://" + host + "/")
			if err != nil {
				t.Fatal(err)
			}
			if got := body(t, response.Body); got != host {
				t.Errorf("%s by %s: got %s, %q", host, scheme, response.Status, got)
			}
		}
		if response, _ := f.connect(t, host); response.StatusCode != 200 {
			t.Errorf("CONNECT %s: %s", host, response.Status)
		}
	}
}
