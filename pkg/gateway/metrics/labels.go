package metrics

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// other stands for what is no value of a label.
const other = "other"

// known are the values of a label that there are. Sandboxes answer with classes, too, so what does not
// look like one, or is one too many, is another.
type known struct {
	mu     sync.RWMutex
	values map[string]string
}

// value returns a label's value for a text; "" stands for itself.
func (k *known) value(text string) string {
	if text == "" {
		return ""
	}
	k.mu.RLock()
	value, ok := k.values[text]
	k.mu.RUnlock()
	if ok {
		return value
	}
	if len(text) > labelLength || !words.MatchString(text) {
		return other
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.values) >= labelValues {
		return other
	}
	if k.values == nil {
		k.values = map[string]string{}
	}
	k.values[text] = text
	return text
}

// words are what operations and classes look like. A class that podapi does not know is a number.
var words = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._/-]*$`)

// operationOf returns the label for an operation.
func (m *Metrics) operationOf(operation string) string {
	if value := m.operations.value(operation); value != "" {
		return value
	}
	return other
}

// codeOf returns the label for a status of HTTP. A server in a sandbox may answer with any number.
func codeOf(status int) string {
	switch {
	case status == 0:
		return "none"
	case http.StatusText(status) != "":
		return strconv.Itoa(status)
	}
	return strconv.Itoa(status/100) + "xx"
}

// missReasons tell why a launch got no pod of its pool, by words in what the launcher says.
var missReasons = []struct{ words, reason string }{
	{"the pool has no pods", "empty"},
	{"had no Sandbox that was ready", "empty"},
	{"other launches took", "taken"},
	{"no pod of the pool fits", "unfit"},
	{"no pod of the pool can be taken", "refused"},
	{"no pod of the pool could be used", "unusable"},
	{"are too large for a pod that runs already", "own"},
	{"are its own", "own"},
	{"its files are there already", "own"},
}

// missReason returns the label for why there was no pod.
func missReason(why string) string {
	for _, r := range missReasons {
		if strings.Contains(why, r.words) {
			return r.reason
		}
	}
	return other
}
