package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"os"
	"slices"
	"testing"
)

func TestCertificatesNameTheirHostsAndUsers(t *testing.T) {
	l := newLayout(t.TempDir(), "", 7)
	if err := l.makeCertificates(); err != nil {
		t.Fatal(err)
	}
	roots := authorityOf(t, l, "ca")
	server := certificateOf(t, l, "apiserver")
	for _, host := range []string{"127.0.0.1", "localhost", l.BridgeAddress, "10.96.0.1", "kubernetes.default.svc"} {
		if _, err := server.Verify(x509.VerifyOptions{Roots: roots, DNSName: host}); err != nil {
			t.Errorf("the API server as %s: %v", host, err)
		}
	}
	clients := x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	for name, group := range map[string]string{"admin": "system:masters", "kubelet": "system:nodes"} {
		cert := certificateOf(t, l, name)
		if _, err := cert.Verify(clients); err != nil {
			t.Errorf("%s as a client: %v", name, err)
		}
		if !slices.Equal(cert.Subject.Organization, []string{group}) {
			t.Errorf("%s is in %v; want %s", name, cert.Subject.Organization, group)
		}
	}
}

func TestEtcdAdmitsNoCertificateOfTheCluster(t *testing.T) {
	l := newLayout(t.TempDir(), "", 0)
	if err := l.makeCertificates(); err != nil {
		t.Fatal(err)
	}
	options := x509.VerifyOptions{Roots: authorityOf(t, l, "etcd-ca"), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}
	if _, err := certificateOf(t, l, "admin").Verify(options); err == nil {
		t.Error("the administrator's certificate is etcd's authority's")
	}
	if _, err := certificateOf(t, l, "etcd").Verify(options); err != nil {
		t.Error(err)
	}
}

func TestCertificatesAreKept(t *testing.T) {
	l := newLayout(t.TempDir(), "", 0)
	var serials []string
	for range 2 {
		if err := l.makeCertificates(); err != nil {
			t.Fatal(err)
		}
		serials = append(serials, certificateOf(t, l, "admin").SerialNumber.String())
	}
	if serials[0] != serials[1] {
		t.Error("the second start made other certificates, which running programs do not know")
	}
}

func TestTheKubeconfigIsComplete(t *testing.T) {
	l := newLayout(t.TempDir(), "", 2)
	if err := l.makeCertificates(); err != nil {
		t.Fatal(err)
	}
	if err := l.writeKubeconfig(l.Kubeconfig, "admin"); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(l.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Clusters []struct{ Cluster struct{ Server string } }
		Users    []struct {
			User struct {
				Cert []byte `json:"client-certificate-data"`
				Key  []byte `json:"client-key-data"`
			}
		}
	}
	if err := json.Unmarshal(data, &config); err != nil {
		t.Fatal(err)
	}
	if got := config.Clusters[0].Cluster.Server; got != l.APIServer {
		t.Errorf("the server is %s; want %s", got, l.APIServer)
	}
	if _, err := tls.X509KeyPair(config.Users[0].User.Cert, config.Users[0].User.Key); err != nil {
		t.Error(err)
	}
}

// authorityOf reads an authority's certificate as a pool.
func authorityOf(t *testing.T, l layout, name string) *x509.CertPool {
	t.Helper()
	pem, err := os.ReadFile(l.pki(name + ".crt"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		t.Fatalf("%s is not an authority", name)
	}
	return pool
}

// certificateOf reads a certificate and its key.
func certificateOf(t *testing.T, l layout, name string) *x509.Certificate {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(l.pki(name+".crt"), l.pki(name+".key"))
	if err != nil {
		t.Fatal(err)
	}
	return pair.Leaf
}
