package egress

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestAnswersShowNoSecret(t *testing.T) {
	both(t, func(t *testing.T, http2 bool) {
		host := newWitness(nil)
		o := newOpened(t, theSecret(t))
		o.host(t, theHost, host)
		p := o.placeholder("TOKEN")
		client := o.client(t, http2)
		for i, text := range append(spellings(theValue), basic("somebody:"+theValue)) {
			host.answer = func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json; charset=utf-8")
				w.Header().Set("X-Echo", r.Header.Get("Authorization"))
				w.Header().Set("Trailer", "X-Late")
				if i%2 == 0 {
					w.WriteHeader(http.StatusUnauthorized)
				}
				fmt.Fprintf(w, "{%s%s,", text, text)
				http.NewResponseController(w).Flush()
				fmt.Fprintf(w, "[%s]}", text)
				w.Header().Set("X-Late", text)
			}
			answer, body := do(t, client, get(t, "https://"+theHost, "Authorization", basic("somebody:"+p)))
			stars := strings.Repeat("*", len(text))
			if strings.HasPrefix(text, "Basic ") {
				stars = "Basic " + strings.Repeat("*", len(text)-6)
			}
			if want := fmt.Sprintf("{%s%s,[%s]}", stars, stars, stars); body != want {
				t.Errorf("%q, want %q", body, want)
			}
			if answer.Trailer.Get("X-Late") == "" {
				t.Error("there is no trailer")
			}
			hides(t, fmt.Sprint(answer.Header, answer.Trailer))
			if strings.Contains(answer.Header.Get("X-Echo"), basic(theValue)[10:20]) {
				t.Errorf("X-Echo: %s", answer.Header.Get("X-Echo"))
			}
		}
	})
}

func TestHintsAndUpgradesShowNoSecret(t *testing.T) {
	host := newWitness(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", r.Header.Get("X-Api-Key"))
		w.WriteHeader(http.StatusEarlyHints)
		conn, _, _ := http.NewResponseController(w).Hijack()
		defer conn.Close()
		fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\nX-Echo: %s\r\n\r\nend", r.Header.Get("X-Api-Key"))
	})
	o := newOpened(t, theSecret(t))
	o.host(t, theHost, host)
	p := o.placeholder("TOKEN")
	conn := o.tunnel(t, theHost, "http/1.1")
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: upgrade\r\nUpgrade: websocket\r\nX-Api-Key: %s\r\n\r\n", theHost, p)
	got, err := io.ReadAll(conn)
	if err != nil || !strings.HasSuffix(string(got), "\r\n\r\nend") || strings.Count(string(got), p) != 2 {
		t.Errorf("%q, %v", got, err)
	}
	hides(t, string(got))
}

// What code sees before the rest of a text comes must not tell how a secret begins.
func TestHeldBackBytesTellNothing(t *testing.T) {
	o := newOpened(t, theSecret(t))
	m := newMask(o.secrets.all)
	for _, before := range []string{"", "words and words ", strings.Repeat("x", 500), "a line\n"} {
		for i := range len(theValue) {
			right, wrong := before+theValue[:i], before+strings.Repeat("#", i)
			if m.sure([]byte(right)) != m.sure([]byte(wrong)) {
				t.Fatalf("%d bytes of the secret are told from others", i)
			}
		}
	}
}

func TestLinesAreNotHeldBack(t *testing.T) {
	both(t, func(t *testing.T, http2 bool) {
		next := make(chan string)
		o := newOpened(t, theSecret(t))
		o.host(t, theHost, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			http.NewResponseController(w).Flush()
			for text := range next {
				io.WriteString(w, text)
				http.NewResponseController(w).Flush()
			}
		}))
		answer, err := o.client(t, http2).Do(get(t, "https://"+theHost, "Authorization", o.placeholder("TOKEN")))
		if err != nil {
			close(next)
			t.Fatal(err)
		}
		defer answer.Body.Close()
		defer close(next)
		// Each is read before the next is sent.
		for _, text := range []string{"data: 1\n\n", "data: 2\n\n", "Password: ", "{\"n\":1}"} {
			next <- text
			got := make([]byte, len(text))
			if _, err := io.ReadFull(answer.Body, got); err != nil || string(got) != text {
				t.Errorf("%q, %v", got, err)
			}
		}
	})
}

// However long a host, or a client that reads slowly, pauses in a secret: no part of it passes.
func TestNoPauseSplitsASecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMask([]*held{newHeld(theSecret(t), nil)})
		w := httptest.NewRecorder()
		a := &maskedAnswer{ResponseWriter: w, mask: m}
		a.WriteHeader(200)
		for i := range theValue {
			fmt.Fprint(a, "text "+theValue[:i])
			time.Sleep(time.Hour)
			synctest.Wait()
			if got := w.Body.String(); got != "text " {
				t.Fatalf("after %d bytes %q passed", i, got)
			}
			fmt.Fprint(a, theValue[i:]+"\n")
			if got := w.Body.String(); got != "text "+strings.Repeat("*", len(theValue))+"\n" {
				t.Fatalf("%q", got)
			}
			w.Body.Reset()
		}
		fmt.Fprint(a, "the end")
		if a.close(true); w.Body.String() != "the end" {
			t.Errorf("at the end %q", w.Body)
		}
	})
}

// Secrets with blanks or brackets are not split by those.
func TestWhatSecretsHaveBreaksNothing(t *testing.T) {
	for _, value := range []string{"Bearer two words", "{\"key\": \"json-value\"}", "with\ttabs\tin it", "user:password"} {
		s := theSecret(t)
		s.Value = []byte(value)
		m := newMask([]*held{newHeld(s, nil)})
		for i := range value {
			if n := m.sure([]byte("\n" + value[:i])); n != 1 {
				t.Errorf("of %q %d bytes pass", value[:i], n-1)
			}
		}
	}
}

// What is not text, or is compressed, passes as it is.
func TestOtherBodiesPassAsTheyAre(t *testing.T) {
	o := newOpened(t, theSecret(t))
	for kind, want := range map[string]bool{
		"": true, "text/html; charset=x": true, "application/vnd.api+json": true, "image/svg+xml": true, "text/event-stream": true,
		"application/x-ndjson": true, "multipart/mixed": true, "message/http": true, "application/x-www-form-urlencoded": true, "a;b;c": true,
		"application/octet-stream": false, "application/grpc": false, "application/grpc+proto": false, "image/png": false,
		"application/x-git-upload-pack-result": false, "application/zip": false, "video/mp4": false,
	} {
		if got := newMask(o.secrets.all).covers(http.Header{"Content-Type": {kind}}); got != want {
			t.Errorf("%q: %v", kind, got)
		}
	}
	if newMask(o.secrets.all).covers(http.Header{"Content-Type": {"text/plain"}, "Content-Encoding": {"gzip"}}) {
		t.Error("compressed text is searched")
	}
	if newMask(nil).covers(http.Header{}) {
		t.Error("a text is searched for nothing")
	}
}

// FuzzMask splits a text with secrets into pieces of all sizes: none comes through, the
// rest does, and no length changes.
func FuzzMask(f *testing.F) {
	f.Add([]byte("a@b@@\n@"), byte(3), byte(0))
	f.Add([]byte("@@@@@@@@@@@"), byte(1), byte(5))
	f.Add(bytes.Repeat([]byte("long text "), 100), byte(255), byte(9))
	all := spellings(theValue)
	m := newMask([]*held{newHeld(theSecret(f), nil)})
	f.Fuzz(func(t *testing.T, text []byte, size, which byte) {
		spelling := []byte(all[int(which)%len(all)])
		text = bytes.ReplaceAll(text, []byte("@"), spelling)
		if len(text) > 2<<10 {
			return // of single bytes, it would take seconds
		}
		w := httptest.NewRecorder()
		a := &maskedAnswer{ResponseWriter: w, mask: m}
		a.WriteHeader(200)
		for rest := text; len(rest) > 0; {
			n := min(int(size)+1, len(rest))
			if _, err := a.Write(rest[:n]); err != nil {
				t.Fatal(err)
			}
			if len(a.held) > m.hold {
				t.Fatalf("%d bytes are held back", len(a.held))
			}
			rest = rest[n:]
		}
		a.close(true)
		whole := bytes.Clone(text)
		m.cover(whole)
		got := w.Body.Bytes()
		if !bytes.Equal(got, whole) {
			t.Fatalf("in pieces %q, as a whole %q", got, whole)
		}
		for i := range got {
			if got[i] != text[i] && got[i] != '*' {
				t.Fatalf("%q became %q", text, got)
			}
		}
		hides(t, string(got))
	})
}
