package object

import (
	"crypto/sha256"
	"hash"
)

// Sum returns the hash of content.
func Sum(content []byte) Hash {
	clearUpper()
	return sha256.Sum256(content)
}

// NewSum returns a hash whose sum is a Hash.
func NewSum() hash.Hash { return sum{sha256.New()} }

type sum struct{ hash.Hash }

func (s sum) Write(b []byte) (int, error) {
	clearUpper()
	return s.Hash.Write(b)
}
