package serving

import (
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"
)

// KeyPair is a certificate, with those that lead to its issuer, and its private key, in files in
// PEM. They are read again when they change, also if a directory above them is replaced by a link,
// as in a mounted Secret. While what is there is no pair, the last one that was stays.
type KeyPair struct {
	CertFile, KeyFile string
	Log               *slog.Logger

	mu   sync.Mutex
	at   time.Time         // when the files were read
	sum  [sha256.Size]byte // of what they had
	pair *tls.Certificate  // the last that was valid
	err  error             // what is wrong with what they have now
}

// suites are those of TLS 1.2 that have forward secrecy and authenticate what they encrypt. Those of
// TLS 1.3 all do.
var suites = []uint16{
	tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
	tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
}

// Config returns the configuration of a server with the pair. It takes TLS 1.2, too: some load
// balancers speak no later version to the servers behind them, and with these suites it is as safe.
func (p *KeyPair) Config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, CipherSuites: suites, GetCertificate: p.get}
}

// Load reads the files, and says what is wrong with them.
func (p *KeyPair) Load() (*tls.Certificate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refresh()
	return p.pair, p.err
}

// get returns the certificate for a handshake.
func (p *KeyPair) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.at) >= readAgain {
		p.refresh()
	}
	if p.pair == nil {
		return nil, p.err
	}
	return p.pair, nil
}

// refresh reads the files. They can change between two reads, so a certificate with another's key
// is read twice.
func (p *KeyPair) refresh() {
	p.at = time.Now()
	sum, pair, err := p.read()
	if err != nil {
		sum, pair, err = p.read()
	}
	switch {
	case err != nil && p.pair != nil && (p.err == nil || p.err.Error() != err.Error()):
		p.Log.Error("the certificate stays what it was", "error", err)
	case err == nil && sum != p.sum:
		p.Log.Info("the certificate was read", "file", p.CertFile, "expires", pair.Leaf.NotAfter)
	}
	if p.sum, p.err = sum, err; err == nil {
		p.pair = pair
	}
}

func (p *KeyPair) read() (sum [sha256.Size]byte, pair *tls.Certificate, err error) {
	cert, err := readFile(p.CertFile)
	if err != nil {
		return sum, nil, fmt.Errorf("cannot read the certificate: %w", err)
	}
	key, err := readFile(p.KeyFile)
	if err != nil {
		return sum, nil, fmt.Errorf("cannot read the certificate's key: %w", err)
	}
	sum = sha256.Sum256(append(cert, key...))
	if p.pair != nil && sum == p.sum {
		return sum, p.pair, p.err
	}
	parsed, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return sum, nil, fmt.Errorf("the certificate in %s with the key in %s: %w", p.CertFile, p.KeyFile, err)
	}
	return sum, &parsed, nil
}

// readFile reads a file of up to fileLimit bytes.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, fileLimit+1))
	if err == nil && len(data) > fileLimit {
		err = fmt.Errorf("%s is larger than %d bytes", path, fileLimit)
	}
	return data, err
}
