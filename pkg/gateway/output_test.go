package gateway_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/gateway"
)

func TestOutputBeginsWhereTheSandboxStillHasIt(t *testing.T) {
	d := newDoor(t)
	d.sandbox()
	const size = 100 << 20 // more than is kept
	var ran gateway.Result
	text := d.send("a", "POST", job+"/exec", `{"script":"printf abcdef >&2; exec head -c 100M /dev/zero"}`).text
	if err := json.Unmarshal([]byte(text), &ran); err != nil {
		t.Fatal(err)
	}
	out := d.send("a", "GET", job+"/processes/"+ran.ExecID+"/output?stderr_offset=4", "").text
	next := map[string]int64{"stderr": 4}
	for text := range strings.Lines(out) {
		var line gateway.OutputLine
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatal(err)
		}
		if line.Offset == nil {
			continue
		}
		at, begun := next[line.Type]
		if begun && *line.Offset != at || !begun && *line.Offset == 0 {
			t.Errorf("%s goes on at %d in place of %d", line.Type, *line.Offset, at)
		}
		next[line.Type] = *line.Offset + int64(len(line.Data))
	}
	if next["stdout"] != size || next["stderr"] != 6 || !strings.Contains(out, `"offset":4,"data":"ef"`) {
		t.Errorf("the outputs end at %v", next)
	}
}
