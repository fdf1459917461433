package wire

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"time"
)

// ClientTLS returns the configuration of TLS 1.3 for calls by the holder of key to
// the agent of the pod with this UID. Another pod is [ErrWrongPod] in the handshake;
// an empty podUID accepts any.
func ClientTLS(key ed25519.PrivateKey, podUID string) (*tls.Config, error) {
	cert, err := selfSigned(key, "podagent client")
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{cert},
		NextProtos:   []string{"h2"}, // gRPC insists
		// Small records at first are for browsers, which show a part of a page.
		DynamicRecordSizingDisabled: true,
		// No authority vouches for an agent. Its certificate names the pod, which
		// guards against mix-ups. A caller that saw the certificate on a connection
		// that only the pod can answer knows the agent by it.
		InsecureSkipVerify: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			got := state.PeerCertificates[0].Subject.CommonName
			if podUID != "" && got != podUID {
				return fmt.Errorf("%w: it is %q, not %q", ErrWrongPod, got, podUID)
			}
			return nil
		},
	}, nil
}

// AgentTLS returns the configuration of TLS 1.3 by which the agent of the pod with
// this UID serves only the holders of keys. Each call makes a new certificate.
func AgentTLS(podUID string, keys []AuthorizedKey) (*tls.Config, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	cert, err := selfSigned(key, podUID)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{cert},
		ClientAuth:   tls.RequireAnyClientCert,
		// A resumed session shows no key, and a thief of the agent's ticket keys could
		// forge one.
		SessionTicketsDisabled:      true,
		DynamicRecordSizingDisabled: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			key, ok := state.PeerCertificates[0].PublicKey.(ed25519.PublicKey)
			for _, k := range keys {
				if ok && k.key.Equal(key) {
					return nil
				}
			}
			return errors.New("client key is not authorized")
		},
	}, nil
}

// selfSigned returns a self-signed certificate of key. Nobody checks its dates:
// keys are pinned, and clocks in sandboxes may be off.
func selfSigned(key ed25519.PrivateKey, name string) (tls.Certificate, error) {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Unix(0, 0),
		NotAfter:     time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}
