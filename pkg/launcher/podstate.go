package launcher

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// podState is the latest state of a pod that a watch has seen, and the failed tries
// to connect in that state.
type podState struct {
	mu      sync.Mutex
	pod     *corev1.Pod   // nil while there is no watch
	changed chan struct{} // closed when pod changes
	tried   chan struct{} // the value of changed when the latest try began
	tries   int           // how many failed since then
	opened  time.Time     // when the pod was opened
	network time.Duration // how long after that its network was seen; 0 before
	failure error         // why the latest try failed
}

// saw notes a state that the watch has seen; nil ends the watch.
func (s *podState) saw(pod *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pod = pod
	close(s.changed)
	s.changed = make(chan struct{})
}

// latest returns what the watch has seen last; nil if there is no watch.
func (s *podState) latest() *corev1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pod
}

// begin begins a try to connect. It returns the latest state, and a channel that
// closes at the next state.
func (s *podState) begin() (*corev1.Pod, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tried != s.changed {
		s.tried, s.tries = s.changed, 0
	}
	return s.pod, s.changed
}

// hasNetwork notes that the pod has its network.
func (s *podState) hasNetwork() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.network == 0 {
		s.network = time.Since(s.opened)
	}
}

// networkTime returns how long the pod's network took; 0 before it was seen.
func (s *podState) networkTime() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.network
}

// failed counts a failed try. It returns how many failed in this state, at most try,
// and a channel that closes at the next state, which may have come during the try.
func (s *podState) failed(try int, err error) (int, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failure = err
	s.tries = min(s.tries+1, try)
	return s.tries, s.tried
}

// lastFailure returns why the latest try failed; nil if none has.
func (s *podState) lastFailure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failure
}

// access is whether the API server lets the caller connect.
type access struct {
	mu      sync.Mutex
	granted bool      // it has let the caller in
	refused time.Time // since when it refuses
}

// grant notes that the API server has let the caller connect.
func (a *access) grant() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.granted, a.refused = true, time.Time{}
}

// refuse notes err, which says that a permission is missing. It returns err, or nil
// as long as the API server may only be starting.
func (a *access) refuse(err error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.refused.IsZero() {
		a.refused = time.Now()
	}
	if a.granted && time.Since(a.refused) < refusalPatience {
		return nil
	}
	return err
}

// isRefused reports whether a permission for the connection is missing. Then the
// pod itself may be well.
func (a *access) isRefused() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.refused.IsZero()
}
