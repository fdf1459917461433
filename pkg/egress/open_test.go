package egress

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// witness is a host that remembers its requests, and answers with what it is told.
type witness struct {
	requests chan *http.Request
	bodies   chan string
	answer   http.HandlerFunc
}

func newWitness(answer http.HandlerFunc) *witness {
	if answer == nil {
		answer = func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "welcome") }
	}
	return &witness{make(chan *http.Request, 100), make(chan string, 100), answer}
}

func (h *witness) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	h.requests <- r
	h.bodies <- string(body)
	h.answer(w, r)
}

func basic(text string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(text)) }

func TestSecretGoesIntoHeadersOfItsHost(t *testing.T) {
	both(t, func(t *testing.T, http2 bool) {
		host := newWitness(nil)
		o := newOpened(t, theSecret(t))
		o.host(t, theHost, host)
		p := o.placeholder("TOKEN")
		r := get(t, "https://"+theHost+"/a%2Fb/../c?x=1;y=2&%zz", "Authorization", "Bearer "+p, "X-Api-Key", p+","+p, "Cookie", "a=b; s="+p, "X-Other", "as it is")
		answer, body := do(t, o.client(t, http2), r)
		if answer.StatusCode != 200 || body != "welcome" || answer.ProtoMajor == 2 != http2 {
			t.Errorf("%s %s %q", answer.Proto, answer.Status, body)
		}
		got := <-host.requests
		for name, want := range map[string]string{
			"Authorization": "Bearer " + theValue, "X-Api-Key": theValue + "," + theValue, "Cookie": "a=b; s=" + theValue,
			"X-Other": "as it is", "Accept-Encoding": "identity", "User-Agent": "Go-http-client/" + map[bool]string{true: "2.0", false: "1.1"}[http2],
		} {
			if got.Header.Get(name) != want {
				t.Errorf("%s: %q, want %q", name, got.Header.Get(name), want)
			}
		}
		if got.RequestURI != "/a%2Fb/../c?x=1;y=2&%zz" || got.Host != theHost || len(got.Header) != 6 {
			t.Errorf("%s of %s with %v", got.RequestURI, got.Host, got.Header)
		}
	})
}

func TestSecretGoesIntoBasicCredentials(t *testing.T) {
	other := Secret{Name: "USER", Value: []byte("the-user-name"), Hosts: mustRules(t, "*.example.test")}
	both(t, func(t *testing.T, http2 bool) {
		host := newWitness(nil)
		o := newOpened(t, theSecret(t), other)
		o.host(t, theHost, host)
		p := o.placeholder("TOKEN")
		for sent, want := range map[string]string{
			basic("me:" + p):                             basic("me:" + theValue),
			basic(p + ":x-oauth-basic"):                  basic(theValue + ":x-oauth-basic"),
			basic(o.placeholder("USER") + ":" + p):       basic("the-user-name:" + theValue),
			strings.TrimRight(basic("user-:"+p), "="):    basic("user-:" + theValue),
			strings.ToLower("BASIC ") + basic("a:b")[6:]: "basic " + basic("a:b")[6:],
			basic("me:" + p)[:20]:                        basic("me:" + p)[:20],
		} {
			do(t, o.client(t, http2), get(t, "https://"+theHost, "Authorization", sent))
			if got := (<-host.requests).Header.Get("Authorization"); got != want {
				t.Errorf("%s became %s, want %s", sent, got, want)
			}
		}
	})
}

func TestSecretGoesToItsHostOnly(t *testing.T) {
	other := Secret{Name: "OTHER", Value: []byte("the-other-value"), Hosts: mustRules(t, otherHost)}
	both(t, func(t *testing.T, http2 bool) {
		host := newWitness(nil)
		o := newOpened(t, theSecret(t), other)
		o.host(t, otherHost, host)
		o.host(t, "unbound.example.test", host)
		p := o.placeholder("TOKEN")
		for _, name := range []string{otherHost, "unbound.example.test"} {
			do(t, o.client(t, http2), get(t, "https://"+name, "Authorization", "Bearer "+p, "Other", basic("x:"+p)))
			if got := (<-host.requests).Header; got.Get("Authorization") != "Bearer "+p || got.Get("Other") != basic("x:"+p) {
				t.Errorf("%s got %v", name, got)
			}
		}
		if got := o.sighted(t); !strings.HasPrefix(got, "noticed TOKEN: its placeholder is in the header ") {
			t.Error(got)
		}
		if len(o.seen) > 0 {
			t.Errorf("also %s", o.sighted(t))
		}
	})
}

func TestSecretGoesIntoNoURLAndNoBody(t *testing.T) {
	both(t, func(t *testing.T, http2 bool) {
		host := newWitness(nil)
		o := newOpened(t, theSecret(t))
		o.host(t, theHost, host)
		p := o.placeholder("TOKEN")
		escaped := strings.ReplaceAll(p, "-", "%2d")
		for _, path := range []string{"/?key=" + p, "/" + p, "/?key=" + escaped} {
			do(t, o.client(t, http2), get(t, "https://"+theHost+path))
			if got := (<-host.requests).RequestURI; got != path {
				t.Errorf("%s became %s", path, got)
			}
			<-host.bodies
			if got := o.sighted(t); got != "noticed TOKEN: its placeholder is in the URL, and stays there" {
				t.Error(got)
			}
		}
		sent := strings.Repeat("a", 100_000) + p + strings.Repeat("b", 100_000)
		do(t, o.client(t, http2), request(t, "POST", "https://"+theHost, strings.NewReader(sent)))
		if got := <-host.bodies; got != sent {
			t.Errorf("the body has %d bytes, want %d", len(got), len(sent))
		}
		if got := o.sighted(t); got != "noticed TOKEN: its placeholder is in the body, and stays there" {
			t.Error(got)
		}
	})
}

// Hosts store or show such headers.
func TestSecretGoesIntoNoHeaderThatHostsShow(t *testing.T) {
	host := newWitness(nil)
	limited := theSecret(t)
	limited.Name, limited.Headers = "LIMITED", []string{"x-api-key"}
	o := newOpened(t, theSecret(t), limited)
	o.host(t, theHost, host)
	p, l := o.placeholder("TOKEN"), o.placeholder("LIMITED")
	sent := []string{"User-Agent", p, "Referer", "https://" + theHost + "/" + p, "X-Amz-Meta-A", p, "Range", p, "If-Match", p, "Content-Type", p, "Origin", p, "Authorization", l}
	do(t, o.client(t, false), get(t, "https://"+theHost, append(sent, "X-Api-Key", l+p)...))
	got := (<-host.requests).Header
	for i := 0; i < len(sent); i += 2 {
		if got.Get(sent[i]) != sent[i+1] {
			t.Errorf("%s: %q", sent[i], got.Get(sent[i]))
		}
	}
	if got.Get("X-Api-Key") != theValue+theValue {
		t.Errorf("X-Api-Key: %q", got.Get("X-Api-Key"))
	}
}

func TestRedirectTakesNoSecretAlong(t *testing.T) {
	host, other := newWitness(nil), newWitness(nil)
	o := newOpened(t, theSecret(t))
	host.answer = func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://"+otherHost+"/?token="+strings.TrimPrefix(r.Header.Get("X-Api-Key"), "Bearer "), http.StatusTemporaryRedirect)
	}
	o.host(t, theHost, host)
	o.host(t, otherHost, other)
	p := o.placeholder("TOKEN")
	_, body := do(t, o.client(t, false), get(t, "https://"+theHost, "X-Api-Key", p))
	if got := <-host.requests; got.Header.Get("X-Api-Key") != theValue {
		t.Errorf("the host got %v", got.Header)
	}
	if got := <-other.requests; got.Header.Get("X-Api-Key") != p || got.RequestURI != "/?token="+p {
		t.Errorf("the other host got %s with %v", got.RequestURI, got.Header)
	}
	hides(t, body)
}

// A placeholder is never replaced without TLS, though the host has the secret.
func TestSecretDoesNotGoOverPlainHTTP(t *testing.T) {
	host := newWitness(nil)
	plain := httptest.NewServer(host)
	defer plain.Close()
	o := newOpened(t, theSecret(t))
	o.is(theHost+":443", plain.Listener.Addr().String())
	p := o.placeholder("TOKEN")
	answer, body := do(t, o.client(t, false), get(t, "https://"+theHost, "Authorization", p))
	if answer.StatusCode != http.StatusBadGateway || len(host.requests) > 0 {
		t.Errorf("%s %q", answer.Status, body)
	}
}

func TestHostWithAnotherCertificateGetsNothing(t *testing.T) {
	both(t, func(t *testing.T, http2 bool) {
		host := newWitness(nil)
		o := newOpened(t, theSecret(t))
		o.is(theHost+":443", o.host(t, otherHost, host).Listener.Addr().String())
		answer, body := do(t, o.client(t, http2), get(t, "https://"+theHost, "Authorization", o.placeholder("TOKEN")))
		if answer.StatusCode != http.StatusBadGateway || !strings.Contains(body, "certificate") || !strings.Contains(body, theHost) || len(host.requests) > 0 {
			t.Errorf("%s %q", answer.Status, body)
		}
	})
}

func TestRequestForAnotherHostIsRefused(t *testing.T) {
	both(t, func(t *testing.T, http2 bool) {
		host := newWitness(nil)
		o := newOpened(t, theSecret(t))
		o.host(t, theHost, host)
		for _, fronted := range []string{otherHost, theHost + ":8443", "127.0.0.1", theHost + ".evil.test"} {
			r := get(t, "https://"+theHost, "Authorization", o.placeholder("TOKEN"))
			r.Host = fronted
			answer, body := do(t, o.client(t, http2), r)
			if answer.StatusCode != http.StatusMisdirectedRequest || !strings.Contains(body, theHost) || len(host.requests) > 0 {
				t.Errorf("%s: %s %q", fronted, answer.Status, body)
			}
		}
		for _, same := range []string{theHost, strings.ToUpper(theHost), theHost + ".", theHost + ":443"} {
			r := get(t, "https://"+theHost)
			r.Host = same
			if answer, body := do(t, o.client(t, http2), r); answer.StatusCode != 200 {
				t.Errorf("%s: %s %q", same, answer.Status, body)
			}
			<-host.requests
			<-host.bodies
		}
	})
}

func TestTraceShowsNoSecret(t *testing.T) {
	host := newWitness(nil)
	o := newOpened(t, theSecret(t))
	o.host(t, theHost, host)
	answer, _ := do(t, o.client(t, false), request(t, "TRACE", "https://"+theHost, nil, "Authorization", o.placeholder("TOKEN")))
	if answer.StatusCode != http.StatusMethodNotAllowed || len(host.requests) > 0 {
		t.Error(answer.Status)
	}
}

func TestHostThatCannotBeReachedIsExplained(t *testing.T) {
	o := newOpened(t, theSecret(t))
	answer, body := do(t, o.client(t, false), get(t, "https://"+theHost))
	if answer.StatusCode != http.StatusBadGateway || !strings.Contains(body, "no such host") {
		t.Errorf("%s %q", answer.Status, body)
	}
	o.is(theHost+":443", "127.0.0.1:1")
	if _, body := do(t, o.client(t, false), get(t, "https://"+theHost)); !strings.Contains(body, "refused") || strings.Contains(body, "127.0.0.1") {
		t.Errorf("%q", body)
	}
}

func TestManyPlaceholdersAreRefused(t *testing.T) {
	host := newWitness(nil)
	long := theSecret(t)
	long.Value = []byte(strings.Repeat("x", maxValue))
	o := newOpened(t, long)
	o.host(t, theHost, host)
	answer, body := do(t, o.client(t, false), get(t, "https://"+theHost, "X-Api-Key", strings.Repeat(o.placeholder("TOKEN"), maxPut+1)))
	if answer.StatusCode != http.StatusRequestHeaderFieldsTooLarge || len(host.requests) > 0 {
		t.Errorf("%s %q", answer.Status, body)
	}
}

func TestSecretGoesIntoNoNameOfAHeaderAndNoTrailer(t *testing.T) {
	both(t, func(t *testing.T, http2 bool) {
		host := newWitness(nil)
		o := newOpened(t, theSecret(t))
		o.host(t, theHost, host)
		p := o.placeholder("TOKEN")
		do(t, o.client(t, http2), get(t, "https://"+theHost, "X-"+p, "1"))
		if got := (<-host.requests).Header; got.Get("X-"+p) != "1" {
			t.Errorf("the host got %v", got)
		}
		if got := o.sighted(t); got != "noticed TOKEN: its placeholder is in the name of a header, and stays there" {
			t.Error(got)
		}
		for _, sent := range []string{p, basic("me:" + p)} {
			r := request(t, "POST", "https://"+theHost, io.MultiReader(strings.NewReader("body")))
			r.Trailer = http.Header{"X-Late": {sent}}
			do(t, o.client(t, http2), r)
			if got := (<-host.requests).Trailer.Get("X-Late"); got != sent {
				t.Errorf("the host got %s", got)
			}
			if got := o.sighted(t); got != "noticed TOKEN: its placeholder is in the trailers, and stays there" {
				t.Error(got)
			}
		}
	})
}
