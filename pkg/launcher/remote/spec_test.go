package remote_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/remote"
	"github.com/podagent/podagent/pkg/podapi/wayout"
)

// What becomes of a field of a Spec: JSON of a create, or nothing of a gateway's.
const (
	refused = "refused"
	here    = "here"
)

// fields has each field of a Spec with a value, and what becomes of that.
var fields = map[string]struct {
	set  func(*launcher.Spec)
	want string
}{
	"ID":           {func(s *launcher.Spec) { s.ID = "job-1" }, `{"id":"job-1"}`},
	"Workdir":      {func(s *launcher.Spec) { s.Workdir = "/x" }, refused},
	"Env":          {func(s *launcher.Spec) { s.Env = []string{"A=b"} }, `{"env":["A=b"]}`},
	"Protected":    {func(s *launcher.Spec) { s.Protected = []string{"x"} }, refused},
	"Labels":       {func(s *launcher.Spec) { s.Labels = map[string]string{"a": "b"} }, `{"labels":{"a":"b"}}`},
	"OnClose":      {func(s *launcher.Spec) { s.OnClose = launcher.CloseDelete }, here},
	"Git.URL":      {func(s *launcher.Spec) { s.Git = &launcher.Git{URL: "https://h/r"} }, `{"git":{"url":"https://h/r"}}`},
	"Git.Ref":      {func(s *launcher.Spec) { s.Git = &launcher.Git{URL: "https://h/r", Ref: "v1"} }, `{"git":{"url":"https://h/r","ref":"v1"}}`},
	"Git.Username": {func(s *launcher.Spec) { s.Git = &launcher.Git{URL: "https://h/r", Username: "u", Password: "p"} }, `{"git":{"url":"https://h/r","username":"u","password":"p"}}`},
	"Git.Password": {func(s *launcher.Spec) { s.Git = &launcher.Git{URL: "https://h/r", Password: "p"} }, `{"git":{"url":"https://h/r","password":"p"}}`},
	"Git.Before": {func(s *launcher.Spec) {
		s.Git = &launcher.Git{URL: "https://h/r", Before: func(context.Context, *launcher.Sandbox) error { return nil }}
	}, refused},
	"Git.Timeout":         {func(s *launcher.Spec) { s.Git = &launcher.Git{URL: "https://h/r", Timeout: 1} }, refused},
	"Egress":              {func(s *launcher.Spec) { s.Egress.Mode = wayout.Auto }, refused},
	"Pod.Image":           {func(s *launcher.Spec) { s.Pod.Image = "i" }, `{"image":"i"}`},
	"Pod.AgentImage":      {func(s *launcher.Spec) { s.Pod.AgentImage = "i" }, refused},
	"Pod.Main":            {func(s *launcher.Spec) { s.Pod.Main = []string{"x"} }, refused},
	"Pod.Labels":          {func(s *launcher.Spec) { s.Pod.Labels = map[string]string{"a": "b"} }, refused},
	"Pod.Annotations":     {func(s *launcher.Spec) { s.Pod.Annotations = map[string]string{"a": "b"} }, refused},
	"Pod.Resources":       {func(s *launcher.Spec) { s.Pod.Resources = limits("cpu", "500m") }, `{"cpu":"500m"}`},
	"Pod.ServiceAccount":  {func(s *launcher.Spec) { s.Pod.ServiceAccount = "x" }, refused},
	"Pod.Profile":         {func(s *launcher.Spec) { s.Pod.Profile = launcher.Restricted }, refused},
	"Pod.Confine":         {func(s *launcher.Spec) { s.Pod.Confine = "filter" }, refused},
	"Pod.ReadOnlyRoot":    {func(s *launcher.Spec) { s.Pod.ReadOnlyRoot = true }, refused},
	"Pod.UserNamespace":   {func(s *launcher.Spec) { s.Pod.UserNamespace = launcher.Require }, refused},
	"Pod.RequireAppArmor": {func(s *launcher.Spec) { s.Pod.RequireAppArmor = true }, refused},
	"Pod.RuntimeClass":    {func(s *launcher.Spec) { s.Pod.RuntimeClass = "x" }, refused},
	"Pod.PriorityClass":   {func(s *launcher.Spec) { s.Pod.PriorityClass = "x" }, refused},
	"Pod.PullSecrets":     {func(s *launcher.Spec) { s.Pod.PullSecrets = []string{"x"} }, refused},
	"Pod.NodeSelector":    {func(s *launcher.Spec) { s.Pod.NodeSelector = map[string]string{"a": "b"} }, refused},
	"Pod.Tolerations":     {func(s *launcher.Spec) { s.Pod.Tolerations = []corev1.Toleration{{Key: "x"}} }, refused},
	"Pod.Patch":           {func(s *launcher.Spec) { s.Pod.Patch = []byte("{}") }, refused},
	"Pod.Volumes": {func(s *launcher.Spec) {
		s.Pod.Volumes = []launcher.Volume{{Claim: "work", SubPath: "w1", Path: "/code", ReadOnly: true}}
	}, `{"volumes":[{"name":"work","path":"w1","mount":"/code","read_only":true}]}`},
	"Pod.Workspace":           {func(s *launcher.Spec) { s.Pod.Workspace.StorageClass = "x" }, refused},
	"Pod.ReadOnly":            {func(s *launcher.Spec) { s.Pod.ReadOnly = []launcher.ReadOnlyDir{{Path: "/x"}} }, refused},
	"Pod.ActiveDeadline":      {func(s *launcher.Spec) { s.Pod.ActiveDeadline = time.Hour }, refused},
	"Pod.Lifetime":            {func(s *launcher.Spec) { s.Pod.Lifetime = 5*time.Second + 1 }, `{"lifetime_seconds":6}`},
	"Pod.IdleTimeout":         {func(s *launcher.Spec) { s.Pod.IdleTimeout = time.Minute }, `{"idle_seconds":60}`},
	"Pod.IdleIgnoresCommands": {func(s *launcher.Spec) { s.Pod.IdleIgnoresCommands = true }, `{"idle":"calls"}`},
	"Take.OnStale":            {func(s *launcher.Spec) { s.Take.OnStale = launcher.StaleRecreate }, refused},
	"Take.OnDrift":            {func(s *launcher.Spec) { s.Take.OnDrift = launcher.DriftError }, refused},
	"Take.Pool":               {func(s *launcher.Spec) { s.Take.Pool = "p" }, `{"pool":"p"}`},
	"Take.Exclusive":          {func(s *launcher.Spec) { s.Take.Exclusive = true }, refused},
	"Take.ReadyTimeout":       {func(s *launcher.Spec) { s.Take.ReadyTimeout = time.Minute }, here},
	"Take.Heartbeat":          {func(s *launcher.Spec) { s.Take.Heartbeat = time.Minute }, refused},
}

// recorder serves what records the bodies of creates, and makes nothing.
func recorder(t *testing.T) (l *remote.Launcher, bodies *[]string) {
	bodies = new([]string)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body map[string]any
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		if len(body["id"].(string)) == len("sandbox-abcdefghijkl") {
			delete(body, "id") // it was made up
		}
		text, err := json.Marshal(body)
		if err != nil {
			t.Error(err)
		}
		*bodies = append(*bodies, string(text))
		http.Error(w, "no", http.StatusTeapot)
	}))
	t.Cleanup(server.Close)
	return &remote.Launcher{URL: server.URL, Token: token}, bodies
}

func TestEachFieldOfASpecIsAskedForOrRefused(t *testing.T) {
	for name, f := range fields {
		t.Run(name, func(t *testing.T) {
			var spec launcher.Spec
			f.set(&spec)
			before := spec
			l, bodies := recorder(t)
			_, err := l.Launch(t.Context(), spec)
			wrong, isWrong := errors.AsType[*launcher.SpecError](err)
			switch {
			case f.want == refused:
				if !isWrong || wrong.Field != name || len(*bodies) > 0 {
					t.Errorf("%v, %q", err, *bodies)
				}
				return
			case isWrong || len(*bodies) != 1:
				t.Fatalf("%v, %q", err, *bodies)
			}
			want := map[string]any{}
			if f.want != here {
				_ = json.Unmarshal([]byte(f.want), &want)
			}
			got := map[string]any{}
			if err := json.Unmarshal([]byte((*bodies)[0]), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if !reflect.DeepEqual(before, spec) {
				t.Error("the Spec was changed")
			}
		})
	}
}

// A new field of a Spec must be thought of.
func TestEachFieldOfASpecIsTested(t *testing.T) {
	var names []string
	for _, of := range []struct {
		prefix string
		t      reflect.Type
	}{{"", reflect.TypeFor[launcher.Spec]()}, {"Git.", reflect.TypeFor[launcher.Git]()}, {"Pod.", reflect.TypeFor[launcher.Pod]()}, {"Take.", reflect.TypeFor[launcher.Take]()}} {
		for f := range of.t.Fields() {
			if name := of.prefix + f.Name; f.IsExported() && name != "Git" && name != "Pod" && name != "Take" {
				names = append(names, name)
			}
		}
	}
	if diff := cmp.Diff(slices.Sorted(slices.Values(names)), slices.Sorted(maps.Keys(fields))); diff != "" {
		t.Error(diff)
	}
}

func TestValuesThatAGatewayCannotBeAskedFor(t *testing.T) {
	unbounded := launcher.Spec{}
	unbounded.Pod.Workspace.Size = resource.MustParse("-1")
	late := launcher.Spec{}
	late.Take.ReadyTimeout = -1
	for name, test := range map[string]struct {
		spec  launcher.Spec
		field string
	}{
		"an id with other letters": {launcher.Spec{ID: "Job"}, "ID"},
		"an id that is a path":     {launcher.Spec{ID: "../x"}, "ID"},
		"a long id":                {launcher.Spec{ID: "a123456789012345678901234567890123456"}, "ID"},
		"no limit":                 {launcher.Spec{Pod: launcher.Pod{Resources: limits("cpu", "0")}}, "Pod.Resources"},
		"another limit":            {launcher.Spec{Pod: launcher.Pod{Resources: limits("ephemeral-storage", "1Gi")}}, "Pod.Resources"},
		"a request":                {launcher.Spec{Pod: launcher.Pod{Resources: corev1.ResourceRequirements{Requests: limits("cpu", "1").Limits}}}, "Pod.Resources"},
		"a workspace without end":  {unbounded, "Pod.Workspace"},
		"less than no time":        {late, "Take.ReadyTimeout"},
	} {
		t.Run(name, func(t *testing.T) {
			l, bodies := recorder(t)
			_, err := l.Launch(t.Context(), test.spec)
			if wrong, ok := errors.AsType[*launcher.SpecError](err); !ok || wrong.Field != test.field || len(*bodies) > 0 {
				t.Errorf("%v, %q", err, *bodies)
			}
		})
	}
}
