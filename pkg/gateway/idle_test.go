package gateway_test

import (
	"encoding/json"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
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
		step{"GET", "~?idle=perhaps", "", nil, 422, `idle`},
	)
	eventually(t, "two seconds without work, in spite of questions", func() bool { s := d.idle()["job-1"]; return s != nil && *s >= 2 })
	began := time.Now()
	d.walk(step{"POST", "~/exec", `{"script":"true"}`, nil, 200, `"code":0`})
	eventually(t, "its idle time after the command", func() bool { // an agent that is slow to answer tells none
		got := d.send("a", "GET", job+"?idle=true", "").text
		told := regexp.MustCompile(`"idle_for_seconds":([0-9]+)\}`).FindStringSubmatch(got)
		if told == nil {
			return false
		}
		if idle, err := strconv.Atoi(told[1]); err != nil || idle > int(time.Since(began).Seconds()) {
			t.Errorf("it was idle for longer than since the command: %s, %v", got, err)
		}
		return true
	})
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
	launchertest.Stop(t, agent)
	defer func() { _ = syscall.Kill(agent, syscall.SIGCONT) }()
	began := time.Now()
	eventually(t, "the other one in the list", func() bool { // it may be slow to answer, too
		idle := d.idle()
		if idle["job-1"] != nil {
			t.Errorf("%v", idle)
		}
		return idle["well"] != nil
	})
	if took := time.Since(began); took > hung {
		t.Errorf("it took %v", took)
	}
}
