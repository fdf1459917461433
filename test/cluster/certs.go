package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// authority signs the certificates of one cluster.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// identity is what a certificate names: a client by name and groups, a server by
// hosts.
type identity struct {
	file   string
	name   string
	groups []string
	hosts  []string
}

// identities returns a cluster's certificates, all signed by its authority. Clients
// and servers may use each of them.
func (l layout) identities() []identity {
	loopback := []string{"127.0.0.1", "localhost"}
	return []identity{
		{file: "apiserver", name: "kube-apiserver", hosts: append(loopback,
			l.BridgeAddress, serviceAddress,
			"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")},
		{file: "admin", name: "kubernetes-admin", groups: []string{"system:masters"}},
		{file: "controller-manager", name: "system:kube-controller-manager", hosts: loopback},
		{file: "scheduler", name: "system:kube-scheduler", hosts: loopback},
		{
			file: "kubelet", name: "system:node:" + l.Node, groups: []string{"system:nodes"},
			hosts: append(loopback, l.BridgeAddress, l.Node),
		},
	}
}

// pki returns the path of a file among the certificates.
func (l layout) pki(name string) string { return l.path("pki", name) }

// makeCertificates makes all keys and certificates unless they exist. etcd has its
// own authority, because every client that etcd admits has all rights.
func (l layout) makeCertificates() error {
	complete := l.pki("complete")
	if exists(complete) {
		return nil
	}
	if err := l.makeAuthority("ca", l.identities()); err != nil {
		return err
	}
	etcd := []identity{{file: "etcd", name: "etcd", hosts: []string{"127.0.0.1"}}}
	if err := l.makeAuthority("etcd-ca", etcd); err != nil {
		return err
	}
	if err := l.makeServiceAccountKey(); err != nil {
		return err
	}
	return writeFile(complete, nil)
}

// makeAuthority writes a new authority and the certificates that it signs.
func (l layout) makeAuthority(name string, identities []identity) error {
	ca, err := newAuthority(name)
	if err != nil {
		return err
	}
	if err := writePEM(l.pki(name+".crt"), "CERTIFICATE", ca.cert.Raw); err != nil {
		return err
	}
	for _, id := range identities {
		cert, key, err := ca.issue(id)
		if err != nil {
			return fmt.Errorf("cannot issue the certificate of %s: %w", id.file, err)
		}
		if err := errors.Join(
			writePEM(l.pki(id.file+".crt"), "CERTIFICATE", cert),
			writeKey(l.pki(id.file+".key"), key),
		); err != nil {
			return err
		}
	}
	return nil
}

// makeServiceAccountKey writes the key pair that signs service accounts' tokens.
func (l layout) makeServiceAccountKey() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return err
	}
	return errors.Join(
		writeKey(l.pki("service-account.key"), key),
		writePEM(l.pki("service-account.pub"), "PUBLIC KEY", public),
	)
}

// newAuthority makes a self-signed authority.
func newAuthority(name string) (authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return authority{}, err
	}
	template, err := newTemplate(name, nil)
	if err != nil {
		return authority{}, err
	}
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return authority{}, err
	}
	cert, err := x509.ParseCertificate(der)
	return authority{cert: cert, key: key}, err
}

// issue signs a certificate for a new key, in DER.
func (a authority) issue(id identity) ([]byte, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template, err := newTemplate(id.name, id.groups)
	if err != nil {
		return nil, nil, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	for _, host := range id.hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	return der, key, err
}

// newTemplate has what all certificates have in common. They are valid from an hour
// ago, in case a clock is a little slow.
func newTemplate(name string, groups []string) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name, Organization: groups},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(certificateLife),
	}, err
}

// writeKey writes a private key.
func writeKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(path, "PRIVATE KEY", der)
}

// writePEM writes DER as PEM.
func writePEM(path, kind string, der []byte) error {
	return writeFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// writeKubeconfig writes a kubeconfig for one of the identities, with all keys and
// certificates inside. It is JSON, and so YAML.
func (l layout) writeKubeconfig(path, file string) error {
	ca, errCA := os.ReadFile(l.pki("ca.crt"))
	cert, errCert := os.ReadFile(l.pki(file + ".crt"))
	key, errKey := os.ReadFile(l.pki(file + ".key"))
	if err := errors.Join(errCA, errCert, errKey); err != nil {
		return fmt.Errorf("cannot write %s: %w", filepath.Base(path), err)
	}
	type object map[string]any
	return writeJSON(path, object{
		"apiVersion": "v1", "kind": "Config", "current-context": l.Node,
		"clusters": []object{{"name": l.Node, "cluster": object{"server": l.APIServer, "certificate-authority-data": ca}}},
		"users":    []object{{"name": file, "user": object{"client-certificate-data": cert, "client-key-data": key}}},
		"contexts": []object{{"name": l.Node, "context": object{"cluster": l.Node, "user": file}}},
	})
}
