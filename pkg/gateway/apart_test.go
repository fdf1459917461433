package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/tools"
)

// finder is a local launcher with all that pods have, as far as asking for a sandbox goes.
type finder struct{ *sleeper }

func (l finder) Pause(ctx context.Context, id string) error {
	_, err := l.Find(ctx, id)
	return err
}

func (l finder) Resume(ctx context.Context, id string) (*launcher.Sandbox, error) {
	return l.Open(ctx, id)
}

func (l finder) Extend(ctx context.Context, id string, _ time.Duration) (time.Time, error) {
	return time.Time{}, l.Pause(ctx, id)
}

func (l finder) Expire(ctx context.Context, id string, _ time.Time) (time.Time, error) {
	return time.Time{}, l.Pause(ctx, id)
}

// intruder is a tenant who tries all verbs on another's sandbox.
type intruder struct {
	*door
	token, tenant  string
	others, victim string // the sandbox, and whose it is

	acts []string // how each try that was an act must have ended: OPERATION SANDBOX STATUS CLASS
}

func (in *intruder) act(operation, sandbox string, status int, class string) {
	in.acts = append(in.acts, fmt.Sprint(operation, " ", sandbox, " ", status, " ", class))
}

// Two tenants try each operation of REST, each call of podapi, each tool of the Model Context Protocol
// and a request to a server on the other's sandbox, by every way of naming it. Nothing finds it, and the
// other's audit log has no line of it: a tenant's log has its own acts alone.
func TestNoVerbFindsAnothersSandboxNorLeavesATraceInItsAuditLog(t *testing.T) {
	out, with := audited(t)
	d := newDoor(t, with, func(o *gateway.Options) { o.Launcher = finder{&sleeper{Local: launchertest.Local(t)}} })
	both := []*intruder{
		{door: d, token: "a", tenant: "acme", others: "job-o", victim: "other"},
		{door: d, token: "o", tenant: "other", others: "job-a", victim: "acme"},
	}
	for _, in := range both {
		own := "job-" + in.token
		if made := d.send(in.token, "POST", sandboxes, `{"id":"`+own+`"}`); made.StatusCode != 201 {
			t.Fatal(made.text)
		}
		in.act("create-sandbox", own, 201, "")
	}
	for _, in := range both {
		in.tryREST()
		in.tryRoutes()
		in.tryPodapi()
		in.tryTools()
	}
	for _, in := range both {
		slices.Sort(in.acts)
		var ended []string
		eventually(t, "the end of all acts", func() bool {
			ended = out.endsOf(t, in.tenant)
			return len(ended) >= len(in.acts)
		})
		if diff := cmp.Diff(in.acts, ended); diff != "" {
			t.Errorf("the log of %s is not what it did:\n%s", in.tenant, diff)
		}
		if got := d.send(in.token, "GET", sandboxes+"/job-"+in.token, ""); got.StatusCode != 200 || !strings.Contains(got.text, `"running"`) {
			t.Errorf("the sandbox of %s after all this: %d %s", in.tenant, got.StatusCode, got.text)
		}
	}
}

// endsOf says how the acts of a tenant ended, sorted. Each has begun in a line of the tenant, too.
func (a *auditText) endsOf(t *testing.T, tenant string) (ends []string) {
	t.Helper()
	begun := map[string]bool{}
	for _, text := range a.linesOf(t, tenant) {
		var line struct {
			Type, ID, Operation, Sandbox, Class string
			Status                              int
		}
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatal(err)
		}
		switch {
		case line.Type == "begin":
			begun[line.ID] = true
		case !begun[line.ID]:
			t.Errorf("it has not begun: %s", text)
		default:
			ends = append(ends, fmt.Sprint(line.Operation, " ", line.Sandbox, " ", line.Status, " ", line.Class))
			delete(begun, line.ID)
		}
	}
	slices.Sort(ends)
	return ends
}

func (in *intruder) tryREST() {
	in.Helper()
	for operation, s := range onASandbox(in.T, in.others) {
		got := in.send(in.token, s.method, s.path, s.body, s.headers...)
		if got.StatusCode != 404 || s.method != "HEAD" && !strings.Contains(got.text, `"class":"no_sandbox"`) {
			in.Errorf("%s by %s: %d %s", operation, in.tenant, got.StatusCode, got.text)
		}
		in.act(operation, in.others, 404, "no_sandbox")
	}
	for operation, s := range onASandbox(in.T, in.victim+"."+in.others) { // as the launcher knows it
		if got := in.send(in.token, s.method, s.path, s.body, s.headers...); got.StatusCode != 422 {
			in.Errorf("%s by %s: %d %s", operation, in.tenant, got.StatusCode, got.text)
		}
		in.act(operation, "", 422, "invalid")
	}
}

// tryRoutes calls the sandbox's servers. A request that names the other tenant never becomes an act.
func (in *intruder) tryRoutes() {
	in.Helper()
	for _, way := range []struct {
		headers []string
		status  int
		isAct   bool
	}{
		{[]string{"X-Sandbox-ID: " + in.others}, 404, true},
		{[]string{"X-Sandbox-ID: " + in.others, "X-Sandbox-Port: 3000"}, 404, true},
		{[]string{"X-Sandbox-ID: " + in.others, "X-Sandbox-Namespace: " + in.tenant}, 404, true},
		{[]string{"X-Sandbox-ID: " + in.others, "X-Sandbox-Namespace: " + in.victim}, 404, false},
		{[]string{"Host: 3000-" + in.others + ".sandboxes.test"}, 404, true},
		{[]string{"Host: 3000-" + in.others + "--" + in.victim + ".sandboxes.test"}, 404, false},
		{[]string{"Host: 3000-" + in.others + "--" + in.victim + ".sandboxes.test", "Authorization: ", "X-Sandbox-Token: " + in.token}, 404, false},
		{[]string{"Host: 3000-" + in.victim + "." + in.others + ".sandboxes.test"}, 404, false},
		{[]string{"X-Sandbox-ID: " + in.victim + "." + in.others}, 400, false},
	} {
		if got := in.send(in.token, "GET", "/tried", "", way.headers...); got.StatusCode != way.status {
			in.Errorf("%q by %s: %d %s", way.headers, in.tenant, got.StatusCode, got.text)
		}
		if way.isAct {
			in.act("route", in.others, way.status, "no_sandbox")
		}
	}
}

func (in *intruder) tryPodapi() {
	in.Helper()
	conn := in.grpc()
	for _, path := range append(methodsOf(in.T), healthpb.Health_Check_FullMethodName) {
		code, reason, status := codes.NotFound, "no_sandbox", 404
		switch path {
		case pb.Agent_Configure_FullMethodName, pb.Egress_Serve_FullMethodName, pb.Egress_Carry_FullMethodName: // no verbs of anybody's
			code, reason, status = codes.PermissionDenied, "permission", 403
		}
		call := func(sandbox string) (codes.Code, string) {
			got := in.invoke(conn, path, &emptypb.Empty{}, []string{"authorization", "Bearer " + in.token, "podagent-sandbox", sandbox})
			return got.Code(), reasonOf(got)
		}
		if gotCode, got := call(in.others); gotCode != code || got != reason {
			in.Errorf("%s by %s: %v %s", path, in.tenant, gotCode, got)
		}
		if gotCode, got := call(in.victim + "." + in.others); gotCode != codes.InvalidArgument {
			in.Errorf("%s by %s as the launcher knows it: %v %s", path, in.tenant, gotCode, got)
		}
		in.act(path[1:], in.others, status, reason)
		in.act(path[1:], "", 422, "invalid")
	}
}

// tryTools calls each tool, and reads a resource.
func (in *intruder) tryTools() {
	in.Helper()
	messages := map[string]string{"mcp/resources/read": `"method":"resources/read","params":{"uri":"file:///tried"}`}
	for _, tool := range tools.Coding() {
		name := tool.Spec().Name
		messages["mcp/"+name] = `"method":"tools/call","params":{"name":"` + name + `","arguments":{}}`
	}
	for operation, message := range messages {
		message = `{"jsonrpc":"2.0","id":1,` + message + `}`
		got := in.message(in.token, "?sandbox="+in.others, message)
		if !strings.Contains(got.text, `sandbox \"`+in.others+`\": no such sandbox`) {
			in.Errorf("%s by %s: %d %s", operation, in.tenant, got.StatusCode, got.text)
		}
		if got := in.message(in.token, "?sandbox="+in.victim+"."+in.others, message); got.StatusCode != 422 {
			in.Errorf("%s by %s as the launcher knows it: %d %s", operation, in.tenant, got.StatusCode, got.text)
		}
		in.act(operation, in.others, 200, "no_sandbox")
		in.act("mcp", "", 422, "invalid")
	}
}
