// Command echo is the other end of raw bytes: benchmarks run it in a pod, and
// compare what passes through a sandbox with what the same way carries without
// one.
//
// It prints the port where it listens, on the loopback or at the address that it
// is given. Of the arguments that follow "tls" is for TLS, and "grpc" for a server
// of package bare in place of what follows here. A connection sends requests,
// each a letter and a length of eight bytes: "e" has all that follows sent back as
// it comes, "r" sends so many bytes, "w" takes as many and answers with one, "f"
// writes them to a new file before, and "d" removes that, and answers with a byte.
package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"slices"
	"time"

	"github.com/podagent/podagent/test/bench/testdata/echo/bare"
)

// bufferSize is the chunk size of podagent's transfers.
const bufferSize = 256 << 10

func main() {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve() error {
	address := "127.0.0.1:0"
	if len(os.Args) > 1 {
		address = os.Args[1]
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	if slices.Contains(os.Args, "tls") {
		certificate, err := newCertificate()
		if err != nil {
			return err
		}
		listener = tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13})
	}
	if slices.Contains(os.Args, "grpc") {
		return bare.Serve(listener)
	}
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			// Its end is whatever the caller does: it sees it itself.
			for err := error(nil); err == nil; {
				err = answer(conn)
			}
		}()
	}
}

// answer answers one request.
func answer(conn net.Conn) error {
	var request [9]byte
	if _, err := io.ReadFull(conn, request[:]); err != nil {
		return err
	}
	size := int64(binary.BigEndian.Uint64(request[1:]))
	switch buf := make([]byte, bufferSize); request[0] {
	case 'e':
		_, err := io.CopyBuffer(struct{ io.Writer }{conn}, struct{ io.Reader }{conn}, buf)
		return err
	case 'r':
		_, err := io.CopyBuffer(struct{ io.Writer }{conn}, io.LimitReader(noise{}, size), buf)
		return err
	case 'w':
		return done(conn, take(conn, io.Discard, size, buf))
	case 'f':
		file, err := os.Create(written)
		if err == nil {
			err = errors.Join(take(conn, file, size, buf), file.Close())
		}
		return done(conn, err)
	case 'd':
		return done(conn, os.Remove(written))
	}
	return fmt.Errorf("unknown request %q", request[0])
}

// written is the file that is written.
const written = "echoed"

func take(conn net.Conn, to io.Writer, size int64, buf []byte) error {
	_, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{io.LimitReader(conn, size)}, buf)
	return err
}

// done answers, unless there was an error.
func done(conn net.Conn, err error) error {
	if err == nil {
		_, err = conn.Write([]byte{0})
	}
	return err
}

// newCertificate returns one that nobody has to trust.
func newCertificate() (tls.Certificate, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, err
}

// noise yields the same random bytes again and again, which no link compresses.
type noise struct{}

func (noise) Read(p []byte) (int, error) { return copy(p, noisy[:]), nil }

var noisy = func() (b [bufferSize]byte) {
	_, _ = rand.Read(b[:]) // which never fails
	return b
}()
