package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"testing"
	"testing/synctest"

	"golang.org/x/sync/semaphore"
)

// Requests wait for those before them, in bounded number and time, and none of one sandbox for
// those of another, unless there are many.
func TestBudgetOfOpenedTLS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := semaphore.NewWeighted(mostHeld)
		budgets := make([]*budget, mostHeld/mostHeldBySandbox+1)
		for i := range budgets {
			budgets[i] = newBudget()
			budgets[i].all = all
		}
		give, err := budgets[0].take(t.Context(), mostHeldBySandbox)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := budgets[0].take(t.Context(), 1); !errors.Is(err, errBusy) {
			t.Errorf("one more byte: %v", err)
		}
		for _, b := range budgets[1 : len(budgets)-1] {
			if _, err := b.take(t.Context(), mostHeldBySandbox); err != nil {
				t.Errorf("another sandbox: %v", err)
			}
		}
		last := budgets[len(budgets)-1]
		got := make(chan error)
		go func() {
			_, err := last.take(t.Context(), 1)
			got <- err
		}()
		synctest.Wait()
		if len(last.waiting) != 1 {
			t.Error("all sandboxes have more than there may be")
		}
		give()
		if err := <-got; err != nil || len(last.waiting) != 0 {
			t.Errorf("after the end of others: %v", err)
		}
	})
}

func TestWaitersOfOpenedTLSAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget()
		b.all = semaphore.NewWeighted(mostHeld)
		if _, err := b.take(t.Context(), mostHeldBySandbox); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		for range mostWaiting {
			go b.take(ctx, 1)
		}
		synctest.Wait()
		if _, err := b.take(t.Context(), 1); !errors.Is(err, errBusy) {
			t.Error(err)
		}
		cancel()
		if synctest.Wait(); len(b.waiting) > 0 {
			t.Errorf("%d wait for nothing", len(b.waiting))
		}
	})
}

// A sandbox that lets its answers lie has no more of them than its part, and a request after
// them waits until one ends.
func TestStreamsBeyondTheBudgetWait(t *testing.T) {
	o := newOpened(t, theSecret(t))
	begun := make(chan struct{}, 1000)
	o.host(t, theHost, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun <- struct{}{}
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	most := int(mostHeldBySandbox / requestCost(newMask(o.secrets.all)))
	client := o.client(t, true)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	answers := make([]io.Closer, most)
	for i := range answers {
		answer, err := client.Do(get(t, "https://"+theHost).WithContext(ctx))
		if err != nil {
			t.Fatal(err)
		}
		answers[i] = answer.Body
		<-begun
	}
	if n := len(o.clients); n < most/openStreams {
		t.Errorf("%d requests at once on %d connections", most, n)
	}
	done := make(chan error)
	go func() {
		answer, err := client.Do(get(t, "https://"+theHost).WithContext(ctx))
		if err == nil && answer.StatusCode != http.StatusOK {
			err = fmt.Errorf("the answer is %s", answer.Status)
		}
		done <- err
	}()
	for len(o.budget.waiting) == 0 { // until it waits
		select {
		case err := <-done:
			t.Fatalf("one more is served: %v", err)
		default:
			runtime.Gosched()
		}
	}
	answers[0].Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
