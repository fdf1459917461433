package rawgrpc_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podagent/podagent/pkg/gateway/internal/rawgrpc"
)

// mostOfMessage is that of the contract, in bytes.
const mostOfMessage = 4 << 20

// FuzzFrames has a handler send back what it receives: all whole messages come back as they are, until
// one that is refused. A few bytes of them stand for many: see repeated.
func FuzzFrames(f *testing.F) {
	frame := func(flag byte, size uint32, message string) []byte {
		return append(binary.BigEndian.AppendUint32([]byte{flag}, size), message...)
	}
	for _, body := range [][]byte{
		nil,
		{0},
		{0, 0, 0, 0},
		frame(0, 0, ""), frame(0, 3, "abc"), frame(0, 4, "abc"), frame(1, 3, "abc"), frame(255, 0, ""),
		frame(0, 1<<32-1, "abc"), frame(0, mostOfMessage, "abc"), frame(0, mostOfMessage+1, "abc"), frame(0, 1<<31, ""),
		append(frame(0, 2, "ab"), frame(0, 0, "")...), append(frame(0, 1, "a"), 0, 0, 0), append(frame(0, 1, "a"), frame(2, 1, "b")...),
	} {
		f.Add(body, uint32(0), false)
		f.Add(body, uint32(64<<10), true)
	}
	f.Add([]byte(nil), uint32(mostOfMessage), false)
	f.Add(frame(0, 64<<10+1, ""), uint32(64<<10), false)
	f.Fuzz(func(t *testing.T, body []byte, more uint32, slowly bool) {
		body = repeated(body, more%(mostOfMessage+1))
		var from io.Reader = bytes.NewReader(body)
		if slowly {
			from = iotest.HalfReader(iotest.DataErrReader(from))
		}
		w := httptest.NewRecorder()
		s := rawgrpc.Accept(w, httptest.NewRequest(http.MethodPost, "/", from), time.Hour)
		err := receiveAll(s)
		s.End(status.Convert(err))
		s.Close()
		whole, code := wholeFrames(body)
		answer := w.Result()
		if got := w.Body.Bytes(); !bytes.Equal(got, whole) || status.Code(err) != code || answer.Trailer.Get("Grpc-Status") != strconv.Itoa(int(code)) {
			t.Errorf("%d bytes, which begin with %.20q: %d of %d come back, %v, want %v: %v", len(body), body, len(got), len(whole), answer.Trailer, code, err)
		}
	})
}

// repeated adds so many bytes to a body.
func repeated(body []byte, more uint32) []byte {
	return append(bytes.Clone(body), bytes.Repeat([]byte{0}, int(more))...)
}

// wholeFrames returns the frames of a body before the first that is refused, and with which code that is.
func wholeFrames(body []byte) (whole []byte, code codes.Code) {
	for at := 0; ; {
		left := body[at:]
		if len(left) == 0 {
			return body[:at], codes.OK
		}
		if len(left) < 5 {
			return body[:at], codes.InvalidArgument
		}
		size := int64(binary.BigEndian.Uint32(left[1:5]))
		switch {
		case left[0] != 0:
			return body[:at], codes.Unimplemented
		case size > mostOfMessage:
			return body[:at], codes.ResourceExhausted
		case size > int64(len(left)-5):
			return body[:at], codes.InvalidArgument
		}
		at += 5 + int(size)
	}
}

// timeoutText is the grammar of the protocol's document.
var timeoutText = regexp.MustCompile(`^([0-9]{1,8})([HMSmun])$`)

func FuzzTimeout(f *testing.F) {
	for _, text := range []string{"", "1", "S", "1S", "99999999H", "20m", "0n", "-1S", "123456789n", "1 S", "+1S", "00000000u", "1_0M", "0x1S", "\xff", "1\x00", "９S", "1S "} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, ok, err := rawgrpc.Timeout(&http.Request{Header: http.Header{"Grpc-Timeout": {text}}})
		parts := timeoutText.FindStringSubmatch(text)
		if parts == nil {
			if ok || (err == nil) != (text == "") || err != nil && status.Code(err) != codes.InvalidArgument {
				t.Errorf("%q: %v %t %v", text, got, ok, err)
			}
			return
		}
		want, _ := new(big.Int).SetString(parts[1], 10)
		want.Mul(want, big.NewInt(int64(map[string]time.Duration{
			"H": time.Hour, "M": time.Minute, "S": time.Second, "m": time.Millisecond, "u": time.Microsecond, "n": time.Nanosecond,
		}[parts[2]])))
		short := new(big.Int).Sub(want, big.NewInt(int64(got))) // the longest duration is cut to whole units
		if err != nil || !ok || got < 0 || short.Sign() < 0 || short.Sign() > 0 && got < 1<<63-1-time.Hour {
			t.Errorf("%q: %v %t %v, want %v", text, got, ok, err, want)
		}
	})
}

// FuzzStatusText ends calls with any text: a header that is fit for the wire, and the same text for
// clients that decode it.
func FuzzStatusText(f *testing.F) {
	f.Add(uint32(5), "100% ünd\n")
	f.Add(uint32(99), "\xff\x00%zz\r\nGrpc-Status: 0")
	f.Fuzz(func(t *testing.T, code uint32, text string) {
		w := httptest.NewRecorder()
		s := rawgrpc.Accept(w, httptest.NewRequest(http.MethodPost, "/", http.NoBody), time.Hour)
		s.End(status.New(codes.Code(code), text))
		s.Close()
		got := w.Result().Trailer.Get("Grpc-Message")
		decoded, err := url.PathUnescape(got)
		if strings.ContainsFunc(got, func(r rune) bool { return r < ' ' || r > '~' }) || err != nil || decoded != text && utf8.ValidString(text) {
			t.Errorf("%q is sent as %q: %v", text, got, err)
		}
	})
}
