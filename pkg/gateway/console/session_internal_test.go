package console

import (
	"errors"
	"testing"
	"time"
)

func TestSessionExpires(t *testing.T) {
	key := [32]byte{1}
	for expires, valid := range map[time.Duration]bool{sessionTime: true, time.Minute: true, -time.Second: false, -sessionTime: false} {
		s := newSession("acme", "token")
		s.Expires = time.Now().Add(expires).Unix()
		value, err := s.seal(key)
		if err != nil {
			t.Fatal(err)
		}
		got, err := openSeal([][32]byte{{2}, key}, value)
		if valid != (err == nil) || valid && *got != *s || !valid && !errors.Is(err, errNoSession) {
			t.Errorf("one that ends in %v: %v %v", expires, got, err)
		}
		if _, err := openSeal([][32]byte{{2}, {3}}, value); !errors.Is(err, errNoSession) {
			t.Errorf("without its key: %v", err)
		}
	}
}
