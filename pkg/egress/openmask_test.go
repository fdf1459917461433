package egress

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/egress/internal/mask"
)

func TestAnswersShowNoSecret(t *testing.T) {
	both(t, func(t *testing.T, http2 bool) {
		host := newWitness(nil)
		o := newOpened(t, theSecret(t))
		o.host(t, theHost, host)
		p := o.placeholder("TOKEN")
		client := o.client(t, http2)
		for i, text := range append(mask.Spellings(theValue), basic("somebody:"+theValue)) {
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
