package sshserver

import "golang.org/x/crypto/ssh"

// NewConfig returns what the configurations of all servers of SSH here have in common: the version, and host
// keys and algorithms without SHA-1, some of which package ssh has among its defaults. Who may come in is left to
// the caller.
func NewConfig(hostKeys ...ssh.Signer) *ssh.ServerConfig {
	config := &ssh.ServerConfig{ServerVersion: Version}
	// Larger groups of Diffie-Hellman would cost much for clients that nobody knows yet.
	config.KeyExchanges = []string{
		ssh.KeyExchangeMLKEM768X25519, ssh.KeyExchangeCurve25519, ssh.KeyExchangeECDHP256, ssh.KeyExchangeECDHP384,
		ssh.KeyExchangeECDHP521, ssh.KeyExchangeDH14SHA256,
	}
	config.MACs = []string{ssh.HMACSHA256ETM, ssh.HMACSHA512ETM, ssh.HMACSHA256, ssh.HMACSHA512}
	for _, key := range hostKeys {
		config.AddHostKey(withoutSHA1(key))
	}
	return config
}

// withoutSHA1 returns a host key that does not sign by ssh-rsa, which is RSA with SHA-1.
func withoutSHA1(key ssh.Signer) ssh.Signer {
	signer, ok := key.(ssh.AlgorithmSigner)
	if !ok || key.PublicKey().Type() != ssh.KeyAlgoRSA {
		return key
	}
	limited, err := ssh.NewSignerWithAlgorithms(signer, []string{ssh.KeyAlgoRSASHA256, ssh.KeyAlgoRSASHA512})
	if err != nil {
		panic(err) // RSA has both
	}
	return limited
}
