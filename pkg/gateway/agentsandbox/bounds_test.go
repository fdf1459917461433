package agentsandbox

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/podagent/podagent/pkg/gateway"
)

func TestOutputOfExecuteCountsAsItIsInJSON(t *testing.T) {
	for _, output := range []string{"", "plain", "a\n\"b\"\\\t\r", "\x00\x01\x1f\x7f", "\xff\xfe\xc3", "é\u2028\u2029\ufffd😀", "<&>\b\f"} {
		var b bytes.Buffer
		to := json.NewEncoder(&b)
		to.SetEscapeHTML(false)
		if err := to.Encode(output); err != nil {
			t.Fatal(err)
		}
		took := b.Len() - len("\"\"\n")
		if counted := jsonSize([]byte(output)); counted < took || counted > 6*len(output) {
			t.Errorf("%q takes %d bytes, and counts for %d", output, took, counted)
		}
	}
}

func TestStatusOfGRPCHasABoundedText(t *testing.T) {
	s := grpcStatus(gateway.Failure{Status: http.StatusNotFound, Text: "a" + strings.Repeat("é", statusText)})
	if text := s.Message(); len(text) < statusText || len(text) > statusText+2 || !utf8.ValidString(text) {
		t.Errorf("%d bytes: %.20q", len(text), text)
	}
}
