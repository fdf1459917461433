package tools_test

import (
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/pkg/tools"
)

func TestProtectedPathsAreSaidToBe(t *testing.T) {
	h := newHost(t, tools.Options{})
	h.put(".policies/rules", "be kind\n")
	if err := h.sandbox.Configure(t.Context(), podapi.Config{Protected: []string{".policies"}}); err != nil {
		t.Fatal(err)
	}
	h.text("Read", `{"path": ".policies/rules"}`)
	for tool, input := range map[string]string{
		"Write": `{"path": ".policies/rules", "content": "be quick"}`,
		"Edit":  `{"path": ".policies/rules", "old_text": "kind", "new_text": "quick"}`,
	} {
		if got := h.refused(tool, input); !strings.Contains(got, "it is protected, and must not be changed") {
			t.Errorf("%s: %q", tool, got)
		}
	}
}
