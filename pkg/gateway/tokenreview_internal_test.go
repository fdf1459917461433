package gateway

import (
	"crypto/sha256"
	"errors"
	"testing"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// A flood of forged tokens uses up what reviews there may be: who was let in stays so.
func TestFloodDoesNotShutOutWhoWasLetIn(t *testing.T) {
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://127.0.0.1:1"}) // which does not answer
	if err != nil {
		t.Fatal(err)
	}
	s := &ServiceAccounts{Client: client, running: reviewsAtOnce, pace: rate.NewLimiter(0, 0)}
	s.reviews = map[[sha256.Size]byte]*review{
		sha256.Sum256([]byte("good")):  {valid: true, until: time.Now().Add(-time.Second)},
		sha256.Sum256([]byte("wrong")): {until: time.Now().Add(-time.Second)},
	}
	for _, token := range []string{"wrong", "new"} {
		if _, err := s.join(t.Context(), token, claims{}); !errors.Is(err, ErrBusy) {
			t.Errorf("%s: %v", token, err)
		}
	}
	r, err := s.join(fromMemory(t.Context()), "good", claims{})
	if err != nil {
		t.Fatal(err)
	}
	<-r.done
}
