package e2b

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	"github.com/podagent/podagent/pkg/gateway"
)

type word struct {
	Text string `json:"text,omitempty"`
	Left string `json:"left,omitempty"`
}

// words is a service like envd's: it says again what it is told.
func words() http.Handler {
	mux := http.NewServeMux()
	unary(mux, "/words.Words/Say", func(ctx context.Context, in *word) (*word, error) {
		out := &word{Text: in.Text, Left: "forever"}
		if at, ok := ctx.Deadline(); ok {
			out.Left = fmt.Sprint(time.Until(at).Round(time.Minute))
		}
		if in.Text == "gone" {
			return nil, connectError(ctx, gateway.Failure{Status: 410, Class: "gone", Text: "the sandbox is gone"})
		}
		return out, nil
	})
	serverStream(mux, "/words.Words/Repeat", func(ctx context.Context, in *word, out *events[word]) error {
		if in.Text == "gone" {
			return connectError(ctx, gateway.Failure{Status: 410, Class: "gone", Text: "the sandbox is gone"})
		}
		if err := out.send(in); err != nil {
			return err
		}
		if in.Text == "fail" {
			return connectError(ctx, gateway.Failure{Status: 404, Class: "not_exist", Text: "there is no such word"})
		}
		return out.send(in)
	})
	clientStream(mux, "/words.Words/Join", func(_ context.Context, in *connect.ClientStream[word]) (*word, error) {
		out := &word{}
		for in.Receive() {
			out.Text += in.Msg().Text
		}
		return out, in.Err()
	})
	return mux
}

// envelope returns a message of a stream.
func envelope(flags byte, message string) string {
	return string(flags) + string(binary.BigEndian.AppendUint32(nil, uint32(len(message)))) + message
}

func gzipped(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(text))
	_ = z.Close()
	return b.String()
}

// say sends a request to a handler, with headers given as "Name: value".
func say(h http.Handler, method, path, kind, body string, headers ...string) *httptest.ResponseRecorder {
	r, w := httptest.NewRequest(method, path, strings.NewReader(body)), httptest.NewRecorder()
	r.Header.Set("Content-Type", kind)
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		r.Header.Set(name, value)
	}
	h.ServeHTTP(w, r)
	return w
}

func TestUnaryCallsAreConnectsInJSON(t *testing.T) {
	long := `{"text":"` + strings.Repeat("x", messageLimit) + `"}`
	for _, c := range []struct {
		name, method, kind, body string
		headers                  []string
		status                   int
		want                     string
	}{
		{"whole", "POST", unaryType, `{"text":"é"}`, nil, 200, `{"text":"é","left":"forever"}`},
		{"with a charset", "POST", unaryType + "; charset=utf-8", `{"text":"a"}`, nil, 200, `{"text":"a","left":"forever"}`},
		{"with a field that is not known", "POST", unaryType, `{"text":"a","new":[{}]}`, nil, 200, `{"text":"a",`},
		{"with a name in other letters", "POST", unaryType, `{"Text":"a"}`, nil, 200, `{"left"`},
		{"with a timeout", "POST", unaryType, `{}`, []string{"Connect-Timeout-Ms: 180000"}, 200, `{"left":"3m0s"}`},
		{"with a timeout of 0", "POST", unaryType, `{}`, []string{"Connect-Timeout-Ms: 0"}, 200, `{"left":"forever"}`},
		{"with a timeout below 0", "POST", unaryType, `{}`, []string{"Connect-Timeout-Ms: -1"}, 200, `{"left":"forever"}`},
		{"with no number as timeout", "POST", unaryType, `{}`, []string{"Connect-Timeout-Ms: soon"}, 400, `"code":"invalid_argument"`},
		{"with an endless timeout", "POST", unaryType, `{}`, []string{"Connect-Timeout-Ms: 99999999999"}, 400, `"code":"invalid_argument"`},
		{"compressed", "POST", unaryType, gzipped(`{"text":"a"}`), []string{"Content-Encoding: gzip"}, 200, `{"text":"a",`},
		{"said to be compressed", "POST", unaryType, `{"text":"a"}`, []string{"Content-Encoding: gzip"}, 400, `"code":"invalid_argument"`},
		{"compressed otherwise", "POST", unaryType, `{}`, []string{"Content-Encoding: br"}, 501, `"code":"unimplemented"`},
		{"of gigabytes, compressed", "POST", unaryType, gzipped(strings.Repeat(long, 8)), []string{"Content-Encoding: gzip"}, 429, `"code":"resource_exhausted"`},
		{"too long", "POST", unaryType, long, nil, 429, `"code":"resource_exhausted"`},
		{"empty", "POST", unaryType, ``, nil, 400, `"code":"invalid_argument"`},
		{"no JSON", "POST", unaryType, `{"text":`, nil, 400, `"code":"invalid_argument"`},
		{"of another shape", "POST", unaryType, `{"text":7}`, nil, 400, `"code":"invalid_argument"`},
		{"with something after it", "POST", unaryType, `{} {}`, nil, 400, `"code":"invalid_argument"`},
		{"no UTF-8", "POST", unaryType, "{\"text\":\"\xff\"}", nil, 400, `UTF-8`},
		{"deep", "POST", unaryType, strings.Repeat("[", 100000), nil, 400, `"code":"invalid_argument"`},
		{"as a stream", "POST", streamType, envelope(0, `{}`), nil, 415, `the Content-Type must be application/json`},
		{"in protobuf", "POST", "application/proto", ``, nil, 415, `the Content-Type must be application/json`},
		{"by gRPC", "POST", "application/grpc", ``, nil, 415, `the Content-Type must be application/json`},
		{"by gRPC-Web", "POST", "application/grpc-web+json", ``, nil, 415, `the Content-Type must be application/json`},
		{"without a type", "POST", "", `{}`, nil, 415, `the Content-Type must be application/json`},
		{"by GET", "GET", unaryType, ``, nil, 405, ``},
		{"in a sandbox that is gone", "POST", unaryType, `{"text":"gone"}`, nil, 502, `{"code":"unavailable","message":"the sandbox is gone"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := say(words(), c.method, "/words.Words/Say", c.kind, c.body, c.headers...)
			if got.Code != c.status || !strings.Contains(got.Body.String(), c.want) {
				t.Errorf("%d %s, want %d and %s", got.Code, got.Body, c.status, c.want)
			}
		})
	}
}

func TestStreamsAreConnectsInJSON(t *testing.T) {
	const one = `{"text":"one"}`
	ended := func(text string) string { return envelope(2, text) }
	for _, c := range []struct {
		name, kind, body string
		headers          []string
		status           int
		want             string
	}{
		{"whole", streamType, envelope(0, one), nil, 200, envelope(0, one) + envelope(0, one) + ended(`{}`)},
		{"that fails", streamType, envelope(0, `{"text":"fail"}`), nil, 200, envelope(0, `{"text":"fail"}`) + ended(`{"error":{"code":"not_found","message":"there is no such word"}}`)},
		{"in a sandbox that is gone", streamType, envelope(0, `{"text":"gone"}`), nil, 502, `{"code":"unavailable","message":"the sandbox is gone"}` + "\n"},
		{"compressed", streamType, envelope(1, gzipped(one)), []string{"Connect-Content-Encoding: gzip"}, 200, envelope(0, one) + envelope(0, one) + ended(`{}`)},
		{"compressed without saying so", streamType, envelope(1, gzipped(one)), nil, 200, `"code":"invalid_argument"`},
		{"compressed otherwise", streamType, envelope(0, one), []string{"Connect-Content-Encoding: br"}, 200, `"code":"unimplemented"`},
		{"compressed as a whole", streamType, gzipped(envelope(0, one)), []string{"Content-Encoding: gzip"}, 200, `"error":{"code":"`},
		{"of gigabytes", streamType, envelope(0, one)[:1] + "\xff\xff\xff\xff{", nil, 200, `"code":"resource_exhausted"`},
		{"of many zeros, compressed", streamType, envelope(1, gzipped(strings.Repeat("0", messageLimit*8))), []string{"Connect-Content-Encoding: gzip"}, 200, `"code":"resource_exhausted"`},
		{"of nothing", streamType, ``, nil, 200, `"error":{"code":"`},
		{"whose message is cut off", streamType, envelope(0, one)[:10], nil, 200, `"error":{"code":"invalid_argument"`},
		{"whose envelope is cut off", streamType, "\x00\x00", nil, 200, `"error":{"code":"invalid_argument"`},
		{"of the end alone", streamType, envelope(2, `{}`), nil, 200, `"error":{"code":"`},
		{"of two messages", streamType, envelope(0, one) + envelope(0, one), nil, 200, `"error":{"code":"`},
		{"that is no JSON", streamType, envelope(0, `{"text`), nil, 200, `"code":"invalid_argument"`},
		{"without envelopes", unaryType, one, nil, 415, `the Content-Type must be application/connect+json`},
		{"in protobuf", "application/connect+proto", envelope(0, ``), nil, 415, `the Content-Type must be application/connect+json`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := say(words(), "POST", "/words.Words/Repeat", c.kind, c.body, c.headers...)
			if got.Code != c.status || !strings.Contains(got.Body.String(), c.want) {
				t.Errorf("%d %q, want %d and %q", got.Code, got.Body, c.status, c.want)
			}
			if kind := got.Header().Get("Content-Type"); (c.status == 200) != (kind == streamType) {
				t.Errorf("%d is of type %q", got.Code, kind)
			}
		})
	}
	many := strings.Repeat(envelope(0, `{"text":"ab"}`), 1000)
	got := say(words(), "POST", "/words.Words/Join", streamType, many)
	if !strings.Contains(got.Body.String(), `{"text":"`+strings.Repeat("ab", 1000)+`"}`) {
		t.Errorf("of a thousand messages there came back %.200q", got.Body)
	}
}

func TestSilentStreamIsKeptAlive(t *testing.T) {
	for asked, want := range map[string]time.Duration{"50": 50 * time.Second, "": keepaliveDefault, "0": keepaliveDefault, "-1": keepaliveDefault, "x": keepaliveDefault, "99999999999": keepaliveDefault} {
		if got := keepaliveInterval(asked); got != want {
			t.Errorf("an interval of %q is %v, want %v", asked, got, want)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		mux := http.NewServeMux()
		serverStream(mux, "/words.Words/Wait", func(ctx context.Context, in *word, out *events[word]) error {
			out.keepAlive(&word{Text: "alive"})
			time.Sleep(25 * time.Second)
			err := out.send(in)
			time.Sleep(25 * time.Second)
			return err
		})
		got := say(mux, "POST", "/words.Words/Wait", streamType, envelope(0, `{}`), "Keepalive-Ping-Interval: 10").Body.String()
		alive := envelope(0, `{"text":"alive"}`)
		if want := alive + alive + envelope(0, `{}`) + alive + alive + envelope(2, `{}`); got != want {
			t.Errorf("the stream was %q, want %q", got, want)
		}
		synctest.Wait() // nothing is left that would send
	})
}

func TestTenThousandKeepalivesEndWithTheirStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mux := http.NewServeMux()
		serverStream(mux, "/words.Words/Wait", func(_ context.Context, _ *word, out *events[word]) error {
			out.keepAlive(&word{})
			time.Sleep(10_000*time.Second + 500*time.Millisecond)
			return nil
		})
		got := say(mux, "POST", "/words.Words/Wait", streamType, envelope(0, `{}`), "Keepalive-Ping-Interval: 1").Body.String()
		if n := strings.Count(got, envelope(0, `{}`)); n != 10_000 {
			t.Errorf("there were %d keepalives", n)
		}
		time.Sleep(time.Hour)
	})
}

// FuzzConnect has requests of any shape: each is answered as Connect answers, and none panics.
func FuzzConnect(f *testing.F) {
	f.Add("/words.Words/Say", unaryType, "", []byte(`{"text":"a"}`))
	f.Add("/words.Words/Say", unaryType, "gzip", []byte(gzipped(`{"text":"a"}`)))
	f.Add("/words.Words/Repeat", streamType, "", []byte(envelope(0, `{"text":"gone"}`)))
	f.Add("/words.Words/Repeat", streamType, "gzip", []byte(envelope(1, gzipped(`{}`))))
	f.Add("/words.Words/Join", streamType, "", []byte(envelope(0, `{}`)+envelope(2, `{}`)))
	h := words()
	f.Fuzz(func(t *testing.T, path, kind, encoding string, body []byte) {
		r, w := httptest.NewRequest("POST", "/", bytes.NewReader(body)), httptest.NewRecorder()
		r.URL.Path = path
		r.Header = http.Header{"Content-Type": {kind}, "Content-Encoding": {encoding}, "Connect-Content-Encoding": {encoding}, "Connect-Timeout-Ms": {encoding}}
		h.ServeHTTP(w, r)
		switch got, _ := io.ReadAll(w.Body); {
		case w.Code == 200 && w.Header().Get("Content-Type") == streamType:
			if !endsWell(got) {
				t.Errorf("the stream does not end: %q", got)
			}
		case w.Code == 200:
			if !json.Valid(got) {
				t.Errorf("the answer is no JSON: %q", got)
			}
		case w.Code < 300 || w.Code > 502:
			t.Errorf("the status is %d", w.Code)
		}
	})
}

// endsWell reports whether a stream is whole.
func endsWell(stream []byte) bool {
	for len(stream) >= envelopeHeader {
		n := int(binary.BigEndian.Uint32(stream[1:]))
		if len(stream) < envelopeHeader+n {
			return false
		}
		if stream[0]&2 != 0 {
			return len(stream) == envelopeHeader+n
		}
		stream = stream[envelopeHeader+n:]
	}
	return false
}
