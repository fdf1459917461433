// Command echo is the other end for raw bytes. Benchmarks run it in a pod, to
// compare a sandbox with the same connection without one.
//
// It prints the port on which it listens, on loopback or at the address in its
// first argument. Of the further arguments, "tls" turns on TLS, and "grpc" makes it
// serve package bare instead of the following protocol, and "http" pages of 64 bytes. A connection sends
// requests, each a letter and a length of eight bytes: "e" echoes everything that
// follows; "r" sends this many bytes; "w" receives as many and answers with one
// byte; "f" does the same, but first writes them to a new file; and "d" removes
// that file and answers with a byte.
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
	"net/http"
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
	if slices.Contains(os.Args, "http") {
		return http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(make([]byte, 64)) // the caller sees what is missing
		}))
	}
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			// The caller sees the end of the connection itself.
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

// written is the name of the file that is written.
const written = "echoed"

func take(conn net.Conn, to io.Writer, size int64, buf []byte) error {
	_, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{io.LimitReader(conn, size)}, buf)
	return err
}

// done answers unless there was an error.
func done(conn net.Conn, err error) error {
	if err == nil {
		_, err = conn.Write([]byte{0})
	}
	return err
}

// newCertificate returns a self-signed certificate.
func newCertificate() (tls.Certificate, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, err
}

// noise yields the same random bytes again and again, which no link can compress.
type noise struct{}

func (noise) Read(p []byte) (int, error) { return copy(p, noisy[:]), nil }

var noisy = func() (b [bufferSize]byte) {
	_, _ = rand.Read(b[:]) // this never fails
	return b
}()
