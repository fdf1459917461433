package e2b

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/test/contracts"
)

func TestCommandsEndAsTheyDo(t *testing.T) {
	contracts.Record(t, "e2b", "HTTP").Saw(contracts.Works, "commands.run", "onStdout, onStderr, wait")
	b := newBox(t)
	if err := b.sandbox.Mkdir(t.Context(), "sub", 0); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, request  string
		stdout, stderr string
		end            endEvent
	}{
		{"well", script("echo out; echo err >&2"), "out\n", "err\n", endEvent{0, true, "exit status 0", ""}},
		{"with a code", script("exit 7"), "", "", endEvent{7, true, "exit status 7", "exit status 7"}},
		{"by a signal", script("kill -9 $$"), "", "", endEvent{-1, false, "signal: killed", "signal: killed"}},
		{"with bytes", script(`printf 'a\0\377'`), "a\x00\xff", "", endEvent{0, true, "exit status 0", ""}},
		{"without a shell", `{"process":{"cmd":"printf","args":["%s.","a b","$c"]},"stdin":false}`, "a b.$c.", "", endEvent{0, true, "exit status 0", ""}},
		{"in a directory", `{"process":{"cmd":"sh","args":["-c","basename $PWD"],"cwd":"sub"},"stdin":false}`, "sub\n", "", endEvent{0, true, "exit status 0", ""}},
		{"with an environment", `{"process":{"cmd":"sh","args":["-c","echo $A"],"envs":{"A":"b=c"}},"stdin":false}`, "b=c\n", "", endEvent{0, true, "exit status 0", ""}},
		{"without input", `{"process":{"cmd":"cat"},"stdin":false}`, "", "", endEvent{0, true, "exit status 0", ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := b.start(c.request).rest()
			if got.stdout != c.stdout || got.stderr != c.stderr || got.end == nil || *got.end != c.end || got.ended != "{}" {
				t.Errorf("%+v %+v", got, got.end)
			}
		})
	}
}

func TestCommandsThatCannotStart(t *testing.T) {
	b := newBox(t)
	for _, c := range []struct {
		name, request string
		headers       []string
		want          string
	}{
		{"not there", `{"process":{"cmd":"/no/such"}}`, nil, `"code":"invalid_argument","message":"exec /no/such`},
		{"in no directory", `{"process":{"cmd":"/bin/bash","cwd":"/no/such"}}`, nil, `"code":"invalid_argument","message":"chdir /no/such`},
		{"no program", `{"process":{"cmd":"/etc/passwd"}}`, nil, `"code":"invalid_argument","message":"exec /etc/passwd`},
		{"nameless", `{"process":{"cmd":""}}`, nil, `"code":"invalid_argument","message":"there is no command`},
		{"none", `{}`, nil, `"code":"invalid_argument","message":"there is no command`},
		{"with a NUL", `{"process":{"cmd":"echo","args":["\u0000"]}}`, nil, `"code":"invalid_argument"`},
		{"with a variable without a name", `{"process":{"cmd":"echo","envs":{"":"x"}}}`, nil, `"code":"invalid_argument"`},
		{"with a variable of two", `{"process":{"cmd":"echo","envs":{"a=b":"x"}}}`, nil, `"code":"invalid_argument"`},
		{"with a long tag", `{"process":{"cmd":"echo"},"tag":"` + strings.Repeat("t", tagLimit+1) + `"}`, nil, `"code":"invalid_argument"`},
		{"in a terminal of no size", `{"process":{"cmd":"echo"},"pty":{"size":{"cols":-1,"rows":70000}}}`, nil, `"code":"invalid_argument"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, ended := b.open("Start", c.request, c.headers...).next()
			if e.Start != nil || !strings.Contains(ended, c.want) {
				t.Errorf("%+v %s, want %s", e, ended, c.want)
			}
		})
	}
	if all := b.running(); len(all) != 0 {
		t.Errorf("there run %v", all)
	}
}

func TestUserIsThePodsOwn(t *testing.T) {
	b := newBox(t)
	info, err := b.sandbox.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for user, header := range map[string]string{"user": "Basic dXNlcjo=", "root": "Basic cm9vdDo=", "nobody": "Bearer x"} {
		s := b.open("Start", script("id -u"), "Authorization: "+header)
		if _, ended := s.next(); (ended != "") != (user == "root" && info.UID != 0) {
			t.Errorf("as %s: %s", user, ended)
		} else if ended != "" && !strings.Contains(ended, `"code":"unimplemented"`) {
			t.Errorf("as %s: %s", user, ended)
		}
	}
}

// other is a face whose envd has other processes.
type other struct {
	Face
	envd *http.ServeMux
}

func (f *other) Serve(w http.ResponseWriter, r *http.Request, c *gateway.Call) {
	if !strings.HasPrefix(r.URL.Path, "/process.Process/") {
		f.Face.Serve(w, r, c)
		return
	}
	f.envd.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), envdCallKey{}, &envdCall{Call: c})))
}

func TestShellThatIsMissingIsReplaced(t *testing.T) {
	mux := http.NewServeMux()
	(&processes{standIns: map[string][]string{"/no/shell": {"no-shell", "sh"}}}).addTo(mux)
	b := newBox(t, func(o *gateway.Options) { o.Faces = []gateway.Face{&other{envd: mux}} })
	got := b.start(`{"process":{"cmd":"/no/shell","args":["-l","-c","echo $0"]},"stdin":false}`).rest()
	if got.stdout != "sh\n" || got.end == nil || got.end.ExitCode != 0 {
		t.Errorf("%+v", got)
	}
	if _, ended := b.open("Start", `{"process":{"cmd":"/no/other"}}`).next(); !strings.Contains(ended, `invalid_argument`) {
		t.Errorf("another command was replaced: %s", ended)
	}
	if _, ended := b.open("Start", `{"process":{"cmd":"/no/shell","cwd":"/no/dir"}}`).next(); !strings.Contains(ended, `chdir /no/dir`) {
		t.Errorf("in no directory: %s", ended)
	}
	if got := newProcesses().standIns["/bin/bash"]; !slices.Equal(got, []string{"bash", "sh"}) {
		t.Errorf("in place of bash there is %q", got)
	}
}
