package sshport_test

import (
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

func TestPortAgreesOnNoAlgorithmWithSHA1(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	for what, config := range map[string]ssh.Config{
		"key exchange": {KeyExchanges: []string{ssh.InsecureKeyExchangeDH14SHA1}},
		"MAC":          {Ciphers: []string{ssh.CipherAES128CTR}, MACs: []string{ssh.HMACSHA1, ssh.InsecureHMACSHA196}},
	} {
		client, err := ssh.Dial("tcp", d.address, &ssh.ClientConfig{
			Config: config, User: "box", Auth: []ssh.AuthMethod{ssh.PublicKeys(d.ann)}, HostKeyCallback: ssh.FixedHostKey(d.host.PublicKey()),
		})
		if err == nil {
			client.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "no common algorithm") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
