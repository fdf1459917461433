package gateway_test

import (
	"regexp"
	"slices"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/podagent/podagent/pkg/gateway"
)

func TestMCPOffersTheToolsOfCheckpointsIfTheURLAsksForThem(t *testing.T) {
	w := &witness{}
	d := newDoor(t, func(o *gateway.Options) { o.Observers = []gateway.Observer{w} })
	d.send("a", "POST", sandboxes, `{"id":"job-1"}`)
	for query, want := range map[string]bool{"": false, "&checkpoint_tools=false": false, "&checkpoint_tools=true": true, "&checkpoint_tools=1&dialect=claude-code": true} {
		list, err := d.mcp("a", "?sandbox=job-1"+query).ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"Checkpoint", "Checkpoints", "Diff", "Restore"} {
			if got := slices.ContainsFunc(list.Tools, func(tool *mcp.Tool) bool { return tool.Name == name }); got != want {
				t.Errorf("with %q it has %s: %t", query, name, got)
			}
		}
	}
	c := d.mcp("a", "?sandbox=job-1&checkpoint_tools=true")
	c.must("^Wrote f", "Write", map[string]any{"path": "f", "content": "one"})
	text, _, err := c.do("Checkpoint", map[string]any{"name": "the first"})
	id := regexp.MustCompile("[0-9a-f]{16}").FindString(text)
	if id == "" {
		t.Fatal(text, err)
	}
	c.must("", "Bash", bash("echo two > f"))
	c.must("M f", "Diff", map[string]any{"from": id})
	c.must(id, "Checkpoints", nil)
	c.must("^Restored", "Restore", map[string]any{"id": id, "paths": []string{"f"}})
	c.must("one", "Read", map[string]any{"path": "f"})
	for _, want := range []string{
		`^acme mcp/Checkpoint job-1 \["the first"\] \[\] 200 `, `^acme mcp/Diff job-1 \["` + id + `"\] \[\] 200 `,
		`^acme mcp/Restore job-1 \["` + id + `"\] \["f"\] 200 `,
	} {
		eventually(t, "the act "+want, func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return slices.ContainsFunc(w.lines, regexp.MustCompile(want).MatchString)
		})
	}
	var acts []string // without those that only look
	for _, r := range d.records("a", "job-1", "").Records {
		acts = append(acts, r.Operation)
	}
	if want := []string{"mcp/Restore", "mcp/Bash", "mcp/Checkpoint", "mcp/Write", "create-sandbox"}; !slices.Equal(acts, want) {
		t.Errorf("the acts are %q, want %q", acts, want)
	}
}
