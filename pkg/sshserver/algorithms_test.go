package sshserver_test

import (
	"crypto/rand"
	"crypto/rsa"
	"net"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/podagent/podagent/pkg/sshserver"
)

func TestServersAgreeOnNoAlgorithmWithSHA1(t *testing.T) {
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewSignerFromSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	good, bad := ssh.SupportedAlgorithms(), ssh.InsecureAlgorithms()
	for _, exchange := range bad.KeyExchanges {
		refused(t, key, exchange, ssh.Config{KeyExchanges: []string{exchange}}, ssh.KeyAlgoRSASHA256)
	}
	for _, mac := range append(bad.MACs, ssh.HMACSHA1) {
		refused(t, key, mac, ssh.Config{Ciphers: []string{ssh.CipherAES128CTR}, MACs: []string{mac}}, ssh.KeyAlgoRSASHA256)
	}
	refused(t, key, ssh.KeyAlgoRSA, ssh.Config{}, ssh.KeyAlgoRSA)
	for _, mac := range slices.DeleteFunc(good.MACs, func(mac string) bool { return mac == ssh.HMACSHA1 }) {
		if err := agree(t, key, ssh.Config{Ciphers: []string{ssh.CipherAES128CTR}, MACs: []string{mac}}, ssh.KeyAlgoRSASHA512); err != nil {
			t.Errorf("%s: %v", mac, err)
		}
	}
}

// refused checks that a server and a client that wants this alone do not agree.
func refused(t *testing.T, key ssh.Signer, what string, config ssh.Config, hostKey string) {
	t.Helper()
	if err := agree(t, key, config, hostKey); err == nil || !strings.Contains(err.Error(), "no common algorithm") {
		t.Errorf("%s: %v", what, err)
	}
}

// agree has a client log in at a server, and returns why it cannot.
func agree(t *testing.T, key ssh.Signer, config ssh.Config, hostKey string) error {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	server := &sshserver.Server{HostKey: key}
	go func() {
		if conn, err := l.Accept(); err == nil {
			_, _, _, _ = server.LetIn(t.Context(), conn)
			conn.Close()
		}
	}()
	client, err := ssh.Dial("tcp", l.Addr().String(), &ssh.ClientConfig{
		Config: config, HostKeyAlgorithms: []string{hostKey}, HostKeyCallback: ssh.FixedHostKey(key.PublicKey()), Timeout: hung,
	})
	if err == nil {
		client.Close()
	}
	return err
}
