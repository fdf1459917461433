package agentsandbox

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/podagent/podagent/pkg/gateway"
)

// witness is an observer that remembers what it is told of agent-sandbox's operations.
type witness struct {
	mu    sync.Mutex
	lines []string
}

func (w *witness) Begin(_ context.Context, a gateway.Act) error {
	w.add("begin", a, "")
	return nil
}

func (w *witness) End(_ context.Context, a gateway.Act, o gateway.Outcome) { w.add("end", a, o.Class) }

func (w *witness) add(when string, a gateway.Act, class string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if strings.HasPrefix(a.Operation, operationPrefix) {
		w.lines = append(w.lines, strings.Join([]string{when, a.Operation, a.Sandbox, strings.Join(append(a.Args, a.Paths...), " "), class}, "|"))
	}
}

func TestObserversAreToldWhatIsDone(t *testing.T) {
	w := &witness{}
	b := newBox(t, func(o *gateway.Options) { o.Observers = append(o.Observers, w) })
	for _, s := range []struct {
		do   func()
		want []string
	}{
		{func() { b.call("POST", "/execute", `{"command":"echo 'a b'"}`) }, []string{"begin|agent-sandbox.execute|job-1|echo a b|", "end|agent-sandbox.execute|job-1|echo a b|"}},
		{func() { b.call("POST", "/execute", `{`) }, []string{"begin|agent-sandbox.execute|job-1||", "end|agent-sandbox.execute|job-1||invalid"}},
		{func() { b.call("PUT", "/v1/files/a%2Fb", "x") }, []string{"begin|agent-sandbox.files/Put|job-1|a/b|", "end|agent-sandbox.files/Put|job-1|a/b|"}},
		{func() { b.call("GET", "/v1/files/none", "") }, []string{"begin|agent-sandbox.files/Get|job-1|none|", "end|agent-sandbox.files/Get|job-1|none|not_exist"}},
		{func() { b.call("GET", "/none", "") }, []string{"begin|agent-sandbox.none|job-1||", "end|agent-sandbox.none|job-1||unsupported"}},
		{func() { b.call("GET", "/", "", "X-Sandbox-Port: 0") }, []string{"begin|agent-sandbox.none|job-1||", "end|agent-sandbox.none|job-1||invalid"}},
		{func() { b.call("GET", "/", "", "X-Sandbox-ID: Job") }, []string{"begin|agent-sandbox.none|||", "end|agent-sandbox.none|||invalid"}},
		{func() { b.call("GET", "/", "", "Authorization: Bearer x") }, nil}, // nobody was let in
		{func() { _ = b.unary(processes+"Execute", bytesField(1, bytesField(1, []byte("true")))) }, []string{"begin|agent-sandbox.process/Execute|job-1|true|", "end|agent-sandbox.process/Execute|job-1|true|"}},
		{func() { _ = b.unary(processes+"SendSignal", nil) }, []string{"begin|agent-sandbox.process/SendSignal|job-1||", "end|agent-sandbox.process/SendSignal|job-1||invalid"}},
	} {
		s.do()
		b.eventually(strings.Join(s.want, ", "), func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			if len(w.lines) < len(s.want) {
				return false // an act ends when its answer has
			}
			if !slices.Equal(w.lines, s.want) {
				t.Errorf("%q, want %q", w.lines, s.want)
			}
			w.lines = nil
			return true
		})
	}
}
