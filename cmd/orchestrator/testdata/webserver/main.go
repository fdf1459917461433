// Command webserver has a server for HTTP and one for HTTPS on the loopback, for the names in
// its arguments. Into the directory of its first argument it writes ca.pem, the certificate of
// who signed its own; seen, a line for each request; and at last ports, which has a line with the
// name and port of each server. Git repositories in that directory are served to git. It serves
// until it is killed.
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/podagent/podagent/internal/gittest"
)

func main() {
	if err := serve(os.Args[1], os.Args[2:]); err != nil {
		log.Fatal(err)
	}
}

func serve(dir string, names []string) error {
	seen, err := os.OpenFile(filepath.Join(dir, "seen"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	certificate, err := certify(filepath.Join(dir, "ca.pem"), names)
	if err != nil {
		return err
	}
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	secure, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}})
	if err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	repositories, err := gittest.Backend(dir)
	if err != nil {
		return err
	}
	ports := fmt.Sprintf("http %d\nhttps %d\n", plain.Addr().(*net.TCPAddr).Port, secure.Addr().(*net.TCPAddr).Port)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(seen, "%s %s authorization=%s\n", r.Host, r.URL, r.Header.Get("Authorization"))
		switch {
		case strings.Contains(r.URL.Path, ".git/"):
			repositories.ServeHTTP(w, r)
		case r.URL.Path == "/elsewhere":
			http.Redirect(w, r, r.URL.Query().Get("to"), http.StatusFound)
		default:
			fmt.Fprintln(w, "hello from "+r.Host)
		}
	})
	failed := make(chan error)
	go func() { failed <- http.Serve(plain, handler) }()
	go func() { failed <- http.Serve(secure, handler) }()
	if err := os.WriteFile(filepath.Join(dir, "new"), []byte(ports), 0o600); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "ports")); err != nil {
		return err
	}
	return <-failed
}

// certify returns a certificate for the names, and writes that of who signed it.
func certify(path string, names []string) (tls.Certificate, error) {
	signer := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "the tests' authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	signerKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	der, err := x509.CreateCertificate(rand.Reader, signer, signer, signerKey.Public(), signerKey)
	if err != nil {
		return tls.Certificate{}, err
	}
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		return tls.Certificate{}, err
	}
	own := &x509.Certificate{
		SerialNumber: big.NewInt(2), DNSNames: names,
		NotBefore: signer.NotBefore, NotAfter: signer.NotAfter,
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	der, err = x509.CreateCertificate(rand.Reader, own, signer, key.Public(), signerKey)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}
