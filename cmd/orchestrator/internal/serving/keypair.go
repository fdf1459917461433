package serving

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/podagent/podagent/internal/reread"
)

// KeyPair is a certificate, with those that lead to its issuer, and its private key, in files in
// PEM. They are read again when they change, also if a directory above them is replaced by a link,
// as in a mounted Secret. While what is there is no pair, the last one that was stays.
type KeyPair struct {
	CertFile, KeyFile string
	Log               *slog.Logger

	mu        sync.Mutex
	at        time.Time // when the files were read
	cert, key reread.File
	parsed    bool             // what they had then was valid
	pair      *tls.Certificate // the last that was
	err       error            // what is wrong with what they have now
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
	pair, err := p.read()
	if err != nil {
		pair, err = p.read()
	}
	switch {
	case err != nil && p.pair != nil && (p.err == nil || p.err.Error() != err.Error()):
		p.Log.Error("the certificate stays what it was", "error", err)
	case err == nil && pair != p.pair:
		p.Log.Info("the certificate was read", "file", p.CertFile, "expires", pair.Leaf.NotAfter)
	}
	if p.err = err; err == nil {
		p.pair = pair
	}
}

// read returns the pair in the files: the last one, if they have not changed.
func (p *KeyPair) read() (*tls.Certificate, error) {
	cert, certChanged, err := p.cert.Read(p.CertFile, fileLimit, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot read the certificate: %w", err)
	}
	key, keyChanged, err := p.key.Read(p.KeyFile, fileLimit, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot read the certificate's key: %w", err)
	}
	if p.parsed && !certChanged && !keyChanged {
		return p.pair, nil
	}
	pair, err := tls.X509KeyPair(cert, key)
	p.parsed = err == nil
	if err != nil {
		return nil, fmt.Errorf("the certificate in %s with the key in %s: %w", p.CertFile, p.KeyFile, err)
	}
	return &pair, nil
}
