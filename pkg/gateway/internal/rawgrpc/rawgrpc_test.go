package rawgrpc_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podagent/podagent/pkg/gateway/internal/rawgrpc"
)

// serve sends a request with this body, and returns the answer of a handler whose end it is.
func serve(t *testing.T, body io.Reader, silence time.Duration, handle func(*rawgrpc.Stream) error) *http.Response {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := rawgrpc.Accept(w, r, silence)
		defer s.Close()
		s.End(status.Convert(handle(s)))
	}))
	server.Config.Protocols = &http.Protocols{}
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	client := &http.Transport{Protocols: server.Config.Protocols}
	t.Cleanup(client.CloseIdleConnections)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, body)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { answer.Body.Close() })
	return answer
}

// receiveAll receives all messages, and sends them back.
func receiveAll(s *rawgrpc.Stream) error {
	for {
		message, err := s.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := s.Send(message); err != nil {
			return err
		}
	}
}

func TestMessagesComeAndGoAsTheyAre(t *testing.T) {
	var sent bytes.Buffer
	for _, size := range []int{0, 1, 64 << 10, 4 << 20} {
		sent.Write([]byte{0, byte(size >> 24), byte(size >> 16), byte(size >> 8), byte(size)})
		sent.Write(bytes.Repeat([]byte{byte(size>>10 + 1)}, size))
	}
	answer := serve(t, bytes.NewReader(sent.Bytes()), time.Hour, receiveAll)
	got, err := io.ReadAll(answer.Body)
	if err != nil || !bytes.Equal(got, sent.Bytes()) || answer.Trailer.Get("Grpc-Status") != "0" {
		t.Errorf("%d bytes of %d come back, and %v: %v", len(got), sent.Len(), answer.Trailer, err)
	}
}

func TestBrokenRequestsAreRefused(t *testing.T) {
	for name, s := range map[string]struct {
		body string
		code string
	}{
		"compressed":    {"\x01\x00\x00\x00\x01x", "12"},
		"too large":     {"\x00\x00\x40\x00\x01", "8"},
		"a part of one": {"\x00\x00\x00\x00\x02x", "3"},
		"no head":       {"\x00\x00", "3"},
		"nothing":       {"", "0"},
	} {
		answer := serve(t, strings.NewReader(s.body), time.Hour, receiveAll)
		if _, err := io.ReadAll(answer.Body); err != nil || answer.Trailer.Get("Grpc-Status") != s.code {
			t.Errorf("%s: %v %v", name, answer.Trailer, err)
		}
	}
}

func TestRequestThatStopsIsBrokenOff(t *testing.T) {
	for name, first := range map[string]string{"before its first message": "", "within a message": "\x00\x00\x00\x00\x02x"} {
		body, more := io.Pipe()
		go func() { _, _ = io.WriteString(more, first) }()
		answer := serve(t, body, time.Millisecond, receiveAll)
		if _, err := io.ReadAll(answer.Body); err != nil || answer.Trailer.Get("Grpc-Status") != "4" {
			t.Errorf("%s: %v %v", name, answer.Trailer, err)
		}
		more.Close()
	}
}

// Between messages a caller may be silent for as long as it likes, within one it may not.
func TestCallerMayBeSilentBetweenMessagesAndNotWithinOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body, more := io.Pipe()
		s := rawgrpc.Accept(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", body), time.Minute)
		go func() {
			_, _ = io.WriteString(more, "\x00\x00\x00\x00\x01x")
			time.Sleep(time.Hour)
			_, _ = io.WriteString(more, "\x00\x00\x00\x00\x02y")
		}()
		began := time.Now()
		if _, err := s.Recv(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(); status.Code(err) != codes.DeadlineExceeded || time.Since(began) != time.Hour+time.Minute {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		s.Close()
	})
}

func TestStatusIsWholeInTheTrailer(t *testing.T) {
	answer := serve(t, http.NoBody, time.Hour, func(*rawgrpc.Stream) error {
		return status.Error(codes.NotFound, "100% ünd\n")
	})
	if _, err := io.ReadAll(answer.Body); err != nil || answer.Trailer.Get("Grpc-Status") != "5" || answer.Trailer.Get("Grpc-Message") != "100%25 %C3%BCnd%0A" {
		t.Errorf("%v: %v", answer.Trailer, err)
	}
	if kind := answer.Header.Get("Content-Type"); kind != "application/grpc" {
		t.Errorf("its type is %q", kind)
	}
}

func TestTimeoutIsReadAsGRPCWritesIt(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"": 0, "1S": time.Second, "99999999H": 1<<63 - 1, "20m": 20 * time.Millisecond, "0n": 0,
		"1": -1, "S": -1, "-1S": -1, "123456789n": -1, "1 S": -1, "+1S": -1,
	} {
		got, ok, err := rawgrpc.Timeout(&http.Request{Header: http.Header{"Grpc-Timeout": {text}}})
		if want < 0 && err == nil || want >= 0 && (err != nil || ok != (text != "") || got.Truncate(time.Hour) != want.Truncate(time.Hour)) {
			t.Errorf("%q: %v %t %v", text, got, ok, err)
		}
	}
}
