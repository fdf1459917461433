package sshserver

import (
	"bytes"
	"encoding/binary"
	"io"
	"slices"
	"testing"
	"testing/iotest"

	"golang.org/x/crypto/ssh"
)

// wire is a channel whose client has sent some bytes, and that keeps the packets of the server.
type wire struct {
	ssh.Channel
	in      io.Reader
	packets [][]byte
}

func (w *wire) Read(p []byte) (int, error) { return w.in.Read(p) }

func (w *wire) Write(p []byte) (int, error) {
	w.packets = append(w.packets, slices.Clone(p))
	return len(p), nil
}

func (w *wire) Close() error { return nil }

func message(kind byte, rest ...[]byte) []byte {
	body := append([]byte{kind}, bytes.Join(rest, nil)...)
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

func text(s string) []byte { return ssh.Marshal(struct{ Text string }{s}) }

func TestAClientLearnsHowLongItsRequestsMayBe(t *testing.T) {
	const read, closing = 5, 4
	before, after := message(read, bytes.Repeat([]byte{7}, 300)), message(closing)
	asks := message(sftpExtended, []byte{0, 0, 0, 9}, text(limitsName))
	w := &wire{in: iotest.OneByteReader(bytes.NewReader(slices.Concat(before, asks, after)))}
	m := &messages{Channel: w}
	got, err := io.ReadAll(m)
	if want := slices.Concat(before, after); err != nil || !bytes.Equal(got, want) {
		t.Errorf("package sftp gets %d bytes, %v, want %d", len(got), err, len(want))
	}
	body := []byte{0, 0, 0, 9}
	for _, n := range []uint64{256 << 10, 128<<10 - 13, 128 << 10, 100} {
		body = binary.BigEndian.AppendUint64(body, n)
	}
	if want := [][]byte{message(sftpExtendedReply, body)}; !slices.EqualFunc(w.packets, want, bytes.Equal) {
		t.Errorf("the answer is %q, want %q", w.packets, want)
	}
}

func TestAMessageIsSentAsAWhole(t *testing.T) {
	w := &wire{}
	m := &messages{Channel: w}
	version, data := message(sftpVersion, []byte{0, 0, 0, 3}), message(103, make([]byte, 1000))
	for _, p := range [][]byte{version[:4], version[4:], data[:9], data[9:13], data[13:]} {
		if n, err := m.Write(p); n != len(p) || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	want := [][]byte{message(sftpVersion, []byte{0, 0, 0, 3}, text(limitsName), text("1")), data}
	if !slices.EqualFunc(w.packets, want, bytes.Equal) {
		t.Errorf("%q was sent, want %q", w.packets, want)
	}
}

// FuzzMessages checks that package sftp gets all bytes of a client but its requests for limits.
func FuzzMessages(f *testing.F) {
	asks := message(sftpExtended, []byte{0, 0, 0, 9}, text(limitsName))
	f.Add([]byte{})
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 1, sftpExtended})
	f.Add(slices.Concat(asks, message(5, []byte("read")), asks))
	f.Add(asks[:20])
	f.Fuzz(func(t *testing.T, data []byte) {
		w := &wire{in: bytes.NewReader(data)}
		got, err := io.ReadAll(&messages{Channel: w})
		if answered := len(w.packets) * len(asks); err == nil && len(got)+answered != len(data) || len(got)+answered > len(data) {
			t.Errorf("of %d bytes %d came, and %d were answered: %v", len(data), len(got), answered, err)
		}
		if len(w.packets) == 0 && !bytes.HasPrefix(data, got) {
			t.Error("the bytes are others")
		}
	})
}
