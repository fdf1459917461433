package serving_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podagent/podagent/cmd/orchestrator/internal/serving"
)

// hung is how long a test waits for something that must happen.
const hung = time.Minute

// newPair returns a certificate of this name and its key, in PEM.
func newPair(t *testing.T, name string) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text})
}

// mount is a directory that is replaced as a mounted Secret is: by a link to another one.
type mount struct {
	*testing.T
	dir string
	n   int
}

func (m *mount) put(cert, key []byte) {
	m.Helper()
	m.n++
	data := fmt.Sprintf("..%d", m.n)
	next, link := filepath.Join(m.dir, data), filepath.Join(m.dir, "..next")
	for _, err := range []error{
		os.Mkdir(next, 0o700), os.WriteFile(filepath.Join(next, "tls.crt"), cert, 0o600), os.WriteFile(filepath.Join(next, "tls.key"), key, 0o600),
		os.Symlink(data, link), os.Rename(link, filepath.Join(m.dir, "..data")),
	} {
		if err != nil {
			m.Fatal(err)
		}
	}
	for _, name := range []string{"tls.crt", "tls.key"} {
		_ = os.Symlink(filepath.Join("..data", name), filepath.Join(m.dir, name))
	}
}

// logged is a log that can be read while it is written.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

// secureServer serves by TLS, and says over which version of HTTP.
func secureServer(t *testing.T, pair *serving.KeyPair) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{TLSConfig: pair.Config(), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Proto) })}
	go func() { _ = server.ServeTLS(listener, "", "") }()
	t.Cleanup(func() { server.Close() })
	return listener.Addr().String()
}

// dial makes a connection, and returns it with the name in the certificate.
func dial(t *testing.T, address string, protocols ...string) (*tls.Conn, string) {
	t.Helper()
	conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, NextProtos: protocols})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn, conn.ConnectionState().PeerCertificates[0].Subject.CommonName
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for begun := time.Now(); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Since(begun) > hung {
			t.Fatalf("%s: not after %v", what, hung)
		}
	}
}

func TestCertificateIsReplacedWhileConnectionsLive(t *testing.T) {
	m := &mount{T: t, dir: t.TempDir()}
	first, firstKey := newPair(t, "first")
	m.put(first, firstKey)
	logs := &logged{}
	pair := &serving.KeyPair{CertFile: filepath.Join(m.dir, "tls.crt"), KeyFile: filepath.Join(m.dir, "tls.key"), Log: slog.New(slog.NewTextHandler(logs, nil))}
	if _, err := pair.Load(); err != nil {
		t.Fatal(err)
	}
	address := secureServer(t, pair)
	old, name := dial(t, address, "http/1.1")
	if name != "first" {
		t.Fatalf("the certificate is of %s", name)
	}
	ask := func() {
		t.Helper()
		fmt.Fprintf(old, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		got := make([]byte, 4<<10)
		if n, err := old.Read(got); !strings.HasPrefix(string(got[:n]), "HTTP/1.1 200") {
			t.Errorf("the connection from before: %q, %v", got[:n], err)
		}
	}
	ask()

	second, secondKey := newPair(t, "second")
	m.put(second, firstKey) // which is not its key
	eventually(t, "the broken pair is logged", func() bool { _, name = dial(t, address); return logs.count("the certificate stays what it was") == 1 })
	m.put([]byte("nonsense"), secondKey)
	eventually(t, "the next one is logged", func() bool { _, name = dial(t, address); return logs.count("the certificate stays what it was") == 2 })
	if name != "first" {
		t.Errorf("then the certificate is of %s", name)
	}
	m.put(second, secondKey)
	eventually(t, "the new certificate", func() bool { _, name = dial(t, address); return name == "second" })
	ask()
	if n := logs.count("the certificate was read"); n != 2 {
		t.Errorf("%d certificates were read", n)
	}
}

func TestServerByTLSSpeaksBothVersionsOfHTTP(t *testing.T) {
	m := &mount{T: t, dir: t.TempDir()}
	m.put(newPair(t, "x"))
	pair := &serving.KeyPair{CertFile: filepath.Join(m.dir, "tls.crt"), KeyFile: filepath.Join(m.dir, "tls.key"), Log: slog.New(slog.DiscardHandler)}
	address := secureServer(t, pair)
	for _, two := range []bool{false, true} {
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: two}
		defer transport.CloseIdleConnections()
		r, err := (&http.Client{Transport: transport}).Get("https://" + address)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		text, _ := io.ReadAll(r.Body)
		if want := map[bool]string{false: "HTTP/1.1", true: "HTTP/2.0"}[two]; string(text) != want {
			t.Errorf("%s, not %s", text, want)
		}
	}
	for version, ok := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: version})
		if (err == nil) != ok {
			t.Errorf("TLS version %#x: %v", version, err)
		}
		if err == nil {
			conn.Close()
		}
	}
}

func TestKeyPairThatIsNoneIsRefused(t *testing.T) {
	dir := t.TempDir()
	m := &mount{T: t, dir: dir}
	cert, key := newPair(t, "x")
	other, _ := newPair(t, "y")
	for _, test := range []struct {
		cert, key []byte
		want      string
	}{
		{other, key, "does not match"},
		{[]byte("x"), key, "failed to find any PEM data in certificate"},
		{cert, nil, "failed to find any PEM data in key"},
		{bytes.Repeat([]byte("x"), 2<<20), key, "is larger than"},
	} {
		m.put(test.cert, test.key)
		pair := &serving.KeyPair{CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key"), Log: slog.New(slog.DiscardHandler)}
		if _, err := pair.Load(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v, not %s", err, test.want)
		}
	}
}
