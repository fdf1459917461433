package gateway_test

import (
	"encoding/json"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/gateway"
)

const allIdle = "/api/v1/sandboxes?idle=true"

// idle returns how long the sandboxes of a list have been idle, by their names.
func (d *door) idle() map[string]*int64 {
	d.Helper()
	got := d.send("a", "GET", allIdle, "")
	var list struct{ Sandboxes []gateway.Sandbox }
	if err := json.Unmarshal([]byte(got.text), &list); err != nil || got.StatusCode != 200 {
		d.Fatalf("%d %s", got.StatusCode, got.text)
	}
	idle := map[string]*int64{}
	for _, s := range list.Sandboxes {
		idle[s.ID] = s.IdleFor
	}
	return idle
}

func TestIdleTimeIsToldAndNotEnded(t *testing.T) {
	d := newDoor(t)
	d.sandbox()
	d.walk(
		step{"GET", "~", "", nil, 200, `"isolation":"[a-z]+"\}`},
		step{"GET", "~?idle=true", "", nil, 200, `"idle_for_seconds":[0-9]+\}`},
		step{"GET", "~?idle=perhaps", "", nil, 422, `idle`},
	)
	eventually(t, "two seconds without work, in spite of questions", func() bool { s := d.idle()["job-1"]; return s != nil && *s >= 2 })
	d.walk(
		step{"POST", "~/exec", `{"script":"true"}`, nil, 200, `"code":0`},
		step{"GET", "~?idle=true", "", nil, 200, `"idle_for_seconds":[01]\}`},
	)
}

func TestAgentThatDoesNotAnswerKeepsNoList(t *testing.T) {
	d := newDoor(t)
	d.sandbox()
	d.send("a", "POST", "/api/v1/sandboxes", `{"id":"well"}`)
	var out struct{ Stdout string }
	if err := json.Unmarshal([]byte(d.send("a", "POST", job+"/exec", `{"script":"printf %s $PPID"}`).text), &out); err != nil {
		t.Fatal(err)
	}
	agent, err := strconv.Atoi(out.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(agent, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(agent, syscall.SIGCONT) }()
	began := time.Now()
	if idle := d.idle(); idle["job-1"] != nil || idle["well"] == nil {
		t.Errorf("%v", idle)
	}
	if took := time.Since(began); took > 25*time.Second { // as long as callers wait for a sandbox, in half
		t.Errorf("it took %v", took)
	}
}
