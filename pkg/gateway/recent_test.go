package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/launcher"
)

type decisionList struct {
	gateway.Recent
	WayOut    string `json:"way_out"`
	Decisions []gateway.EgressDecision
}

// of returns the decision on a host, with its verdict.
func (l decisionList) of(verdict, host string) (found gateway.EgressDecision) {
	for _, d := range l.Decisions {
		if d.Verdict == verdict && d.Host == host {
			found = d
		}
	}
	return found
}

// lists answers a list of what happened in a sandbox.
func (d *door) lists(token, path string, to any) {
	d.Helper()
	got := d.send(token, "GET", "/api/v1/sandboxes/"+path, "")
	if err := json.Unmarshal([]byte(got.text), to); err != nil || got.StatusCode != http.StatusOK {
		d.Fatalf("%s: %d %s", path, got.StatusCode, got.text)
	}
}

func (d *door) decisions(token, name string) (l decisionList) {
	d.Helper()
	d.lists(token, name+"/egress/decisions?limit=1000", &l)
	return l
}

type recordList struct {
	gateway.Recent
	Records []gateway.AuditRecord
}

func (d *door) records(token, name, query string) (l recordList) {
	d.Helper()
	d.lists(token, name+"/audit"+query, &l)
	return l
}

// A tenant sees what its sandboxes try to reach, and nothing of another's.
func TestDecisionsOnTriesAreSeenByTheirTenantAlone(t *testing.T) {
	port := site(t)
	d := newDoor(t)
	d.waysOut(pinned("a.test", port), pinned("o.test", port))
	d.makes("a", `{"id":"job-1"}`)
	d.makes("o", `{"id":"job-2"}`)
	d.run("a", "job-1", get("a.test", port)+";"+get("b.test", port)+";"+get("b.test", port))
	l := d.decisions("a", "job-1")
	if got := l.of("allowed", "a.test"); got.Count != 1 || got.Port != port || got.Rule != fmt.Sprintf("a.test:%d", port) {
		t.Errorf("what was allowed is %+v, without the address", got)
	}
	if got := l.of("denied", "b.test"); got.Count != 2 || got.Reason != "no rule allows b.test" || got.Allow != fmt.Sprintf("b.test:%d", port) || got.First.After(got.Last) {
		t.Errorf("what was denied is %+v", got)
	}
	if l.WayOut != "here" || l.Omitted != 0 || l.Gateway == "" || len(l.Decisions) != 2 || l.Decisions[0].Host != "b.test" {
		t.Errorf("the list is %+v", l)
	}
	if l := d.decisions("o", "job-2"); l.WayOut != "here" || len(l.Decisions) != 0 {
		t.Errorf("that of a sandbox that tried nothing: %+v", l)
	}
	for _, path := range []string{"/egress/decisions", "/audit"} {
		if got := d.send("o", "GET", "/api/v1/sandboxes/job-1"+path, ""); got.StatusCode != http.StatusNotFound {
			t.Errorf("another tenant's %s: %d %s", path, got.StatusCode, got.text)
		}
		if got := d.send("x", "GET", "/api/v1/sandboxes/job-1"+path, ""); got.StatusCode != http.StatusUnauthorized {
			t.Errorf("nobody's %s: %d %s", path, got.StatusCode, got.text)
		}
	}
}

// Code in a sandbox that tries hosts in a loop takes up what there is for what is denied it, and no more.
func TestFloodOfTriesStaysBoundedAndHidesNoOtherVerdict(t *testing.T) {
	port := site(t)
	d := newDoor(t)
	d.waysOut(pinned("a.test", port), "none")
	d.makes("a", `{"id":"job-1"}`)
	d.run("a", "job-1", get("a.test", port))
	const many = 400
	d.run("a", "job-1", fmt.Sprintf("curl -s -o /dev/null 'http://many-[1-%d].%s.test/'", many, strings.Repeat("long.", 30)+"name"))
	l := d.decisions("a", "job-1")
	denied := int64(0)
	for _, one := range l.Decisions {
		if one.Verdict == "denied" {
			denied++
		}
	}
	if size := denied * (256 + 3*150); denied == 0 || l.Omitted == 0 || denied+l.Omitted != many || size > 32<<10 {
		t.Errorf("there are %d denials, and %d omitted", denied, l.Omitted)
	}
	if l.of("allowed", "a.test").Count != 1 || !strings.HasPrefix(l.Decisions[0].Host, fmt.Sprintf("many-%d.", many)) {
		t.Errorf("the first is %+v; of the site there is %+v", l.Decisions[0], l.of("allowed", "a.test"))
	}
	var few decisionList
	if d.lists("a", "job-1/egress/decisions?limit=3", &few); len(few.Decisions) != 3 {
		t.Errorf("there are %d of 3", len(few.Decisions))
	}
}

// Another gateway says that it does not let the sandbox out, rather than that nothing happened.
func TestDecisionsOfAnotherGatewaySayWhoHasThem(t *testing.T) {
	port := site(t)
	d := newDoor(t)
	d.waysOut(pinned("a.test", port), "none")
	d.makes("a", `{"id":"job-1"}`)
	other := newDoor(t, func(o *gateway.Options) {
		o.Launcher = &launcher.Local{StateDir: d.state}
		o.Tenants = tenantsWithoutLists{&gateway.Keys{Path: d.keys}}
	})
	d.run("a", "job-1", get("b.test", port))
	here, there := d.decisions("a", "job-1"), other.decisions("a", "job-1")
	if here.WayOut != "here" || there.WayOut != "elsewhere" || len(there.Decisions) != 0 || here.Gateway == there.Gateway {
		t.Errorf("here %+v, there %+v", here, there)
	}
	d.makes("o", `{"id":"job-3"}`)
	if l := d.decisions("o", "job-3"); l.WayOut != "none" {
		t.Errorf("of a tenant without egress: %+v", l)
	}
}

// tenantsWithoutLists have an egress, of which a gateway is not told at its start, and so keeps no far end.
type tenantsWithoutLists struct{ *gateway.Keys }

func (tenantsWithoutLists) HasEgress() bool { return false }

// A tenant sees what its callers did with a sandbox, with secrets and bodies left out.
func TestAuditRecordsOfASandboxAreItsTenantsOwn(t *testing.T) {
	d := newDoor(t)
	d.makes("o", `{"id":"job-1","env":["A=hunter2hunter2"]}`)
	d.walk(
		step{"POST", "/api/v1/sandboxes", `{"id":"job-1","env":["A=hunter2hunter2"]}`, nil, 201, ""},
		step{"POST", "~/exec", `{"args":["sh","-c","exit 3","--password","hunter2hunter2"],"stdin":"aHVudGVyMmh1bnRlcjI=","env":["A=hunter2hunter2"]}`, nil, 200, ""},
		step{"PUT", "~/files?path=a", "hunter2hunter2", nil, 201, ""},
		step{"GET", "~/files?path=b", "", nil, 404, ""},
	)
	var l recordList
	eventually(t, "the end of the calls", func() bool {
		l = d.records("a", "job-1", "")
		return len(l.Records) == 3 && !l.Records[0].Open
	})
	var all []string
	for _, r := range l.Records {
		all = append(all, fmt.Sprintf("%s %v %v %d", r.Operation, r.Args, r.Paths, r.Status))
	}
	want := "write-file [] [a] 201; exec [sh -c exit 3 --password ***] [] 200; create-sandbox [] [] 201"
	if got := strings.Join(all, "; "); got != want || *l.Records[1].Exit != 3 || l.Since.IsZero() {
		t.Errorf("the records are %s", got)
	}
	l = d.records("a", "job-1", "?looks=true")
	text, _ := json.Marshal(l)
	if !strings.Contains(string(text), `"operation":"read-file","paths":["b"],"status":404,"class":"not_exist"`) || strings.Contains(string(text), "hunter2") || strings.Contains(string(text), "aHVudGVy") {
		t.Errorf("all are %s", text)
	}
	if l := d.records("o", "job-1", "?looks=true"); len(l.Records) < 1 || len(l.Records) > 2 || l.Records[len(l.Records)-1].Operation != "create-sandbox" {
		t.Errorf("the other tenant's are %+v", l.Records)
	}
}

// Looking at a sandbox again and again, as a page does, hides nothing that was done to it; and what was done to
// one of this name before is not what was done to it.
func TestAuditRecordsAreBoundedAndEndWithTheirSandbox(t *testing.T) {
	d := newDoor(t)
	d.makes("a", `{"id":"job-1"}`)
	for range 600 {
		d.send("a", "GET", "/api/v1/sandboxes/job-1", "")
	}
	l := d.records("a", "job-1", "?looks=true&limit=1000")
	if n := len(l.Records); n < 100 || n > 300 || l.Omitted < 300 || l.Records[n-1].Operation != "create-sandbox" {
		t.Errorf("there are %d records, and %d omitted", n, l.Omitted)
	}
	d.walk(step{"DELETE", "/api/v1/sandboxes/job-1", "", nil, 204, ""}, step{"GET", "/api/v1/sandboxes/job-1/audit", "", nil, 404, ""})
	d.makes("a", `{"id":"job-1"}`)
	if l := d.records("a", "job-1", "?looks=true"); len(l.Records) > 4 {
		t.Errorf("there are %d records of another sandbox", len(l.Records))
	}
}
