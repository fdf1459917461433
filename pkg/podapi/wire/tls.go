package wire

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"
)

// clientName is the name in the certificate of a caller.
const clientName = "podagent client"

// ClientTLS returns the configuration of TLS 1.3 for calls by the holder of key to
// the agent of the pod with this UID. Another pod is [ErrWrongPod] in the handshake;
// an empty podUID accepts any. If the agent says that it does not accept key, the
// handshake asks others, if not nil, for more keys, and uses the first that it accepts.
func ClientTLS(key ed25519.PrivateKey, podUID string, others func(context.Context) ([]ed25519.PrivateKey, error)) (*tls.Config, error) {
	cert, err := selfSigned(key, clientName)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetClientCertificate: func(request *tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if others == nil || len(request.AcceptableCAs) == 0 || accepts(request, key) {
				return &cert, nil
			}
			keys, err := others(request.Context())
			if i := slices.IndexFunc(keys, func(k ed25519.PrivateKey) bool { return accepts(request, k) }); i >= 0 {
				other, err := selfSigned(keys[i], clientName)
				return &other, err
			}
			return &cert, err // the agent refuses it
		},
		NextProtos: []string{"h2"}, // gRPC insists
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

// accepts reports whether an agent that asks for a certificate says that it accepts a key.
func accepts(request *tls.CertificateRequestInfo, key ed25519.PrivateKey) bool {
	name := keyName(NewAuthorizedKey(key.Public().(ed25519.PublicKey)).Fingerprint())
	return slices.ContainsFunc(request.AcceptableCAs, func(ca []byte) bool { return bytes.Equal(ca, name) })
}

// keyName is the name by which an agent tells callers that it accepts a key.
func keyName(fingerprint string) []byte {
	der, _ := asn1.Marshal(pkix.Name{CommonName: fingerprint}.ToRDNSequence()) // it has no other parts
	return der
}

// Accepted are the keys whose holders an agent serves. They may be replaced meanwhile.
type Accepted struct{ now atomic.Pointer[acceptedKeys] }

type acceptedKeys struct {
	keys []AuthorizedKey
	// names are what a request for a certificate lists, so that callers with several keys
	// know which to use: the names of the keys, and that of callers with only one.
	names *x509.CertPool
}

// NewAccepted returns a set of these keys.
func NewAccepted(keys []AuthorizedKey) *Accepted {
	a := new(Accepted)
	a.Replace(keys)
	return a
}

// Replace makes these the keys, for handshakes that begin later.
func (a *Accepted) Replace(keys []AuthorizedKey) {
	pool := x509.NewCertPool()
	names := [][]byte{keyName(clientName)}
	for _, k := range keys {
		names = append(names, keyName(k.Fingerprint()))
	}
	for _, name := range names {
		pool.AddCert(&x509.Certificate{Raw: name, RawSubject: name})
	}
	a.now.Store(&acceptedKeys{keys, pool})
}

// Keys returns the keys.
func (a *Accepted) Keys() []AuthorizedKey { return a.now.Load().keys }

// Admits reports whether the caller of a connection has one of the keys.
func (a *Accepted) Admits(caller credentials.AuthInfo) bool {
	info, ok := caller.(credentials.TLSInfo)
	return ok && a.verify(info.State) == nil
}

func (a *Accepted) verify(state tls.ConnectionState) error {
	key, ok := state.PeerCertificates[0].PublicKey.(ed25519.PublicKey)
	for _, k := range a.Keys() {
		if ok && k.key.Equal(key) {
			return nil
		}
	}
	return errors.New("client key is not authorized")
}

// AgentTLS returns the configuration of TLS 1.3 by which the agent of the pod with
// this UID serves only the holders of accepted keys. Each call makes a new certificate.
func AgentTLS(podUID string, accepted *Accepted) (*tls.Config, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	cert, err := selfSigned(key, podUID)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{cert},
		ClientAuth:   tls.RequireAnyClientCert,
		// A resumed session shows no key, and a thief of the agent's ticket keys could
		// forge one.
		SessionTicketsDisabled:      true,
		DynamicRecordSizingDisabled: true,
		VerifyConnection:            accepted.verify,
	}
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		asking := config.Clone()
		asking.ClientCAs = accepted.now.Load().names
		return asking, nil
	}
	return config, nil
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
