package e2b

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/gateway/internal/faces"
)

// createRequest is the body of a create, as far as it means something here. What asks for something that
// there is not is kept as it came.
type createRequest struct {
	Template   string            `json:"templateID"`
	Timeout    *int64            `json:"timeout"` // in seconds
	Metadata   map[string]string `json:"metadata"`
	Env        map[string]string `json:"envVars"`
	AutoPause  bool              `json:"autoPause"`
	AutoResume struct {
		Enabled bool `json:"enabled"`
	} `json:"autoResume"`
	Internet *bool             `json:"allow_internet_access"`
	Network  *networkRequest   `json:"network"`
	IAM      json.RawMessage   `json:"iam"`
	MCP      json.RawMessage   `json:"mcp"`
	Volumes  []json.RawMessage `json:"volumeMounts"`
}

// asked reports whether there is something in what was kept as it came.
func asked(text json.RawMessage) bool { return len(text) > 0 && string(text) != "null" }

// check refuses what this gateway does not serve, so that nobody relies on it.
func (in *createRequest) check() error {
	what := in.Network.unserved()
	switch {
	case what != "":
	case asked(in.IAM):
		what = "iam"
	case asked(in.MCP):
		what = "mcp"
	case len(in.Volumes) > 0:
		what = "volumeMounts"
	default:
		return nil
	}
	return gateway.Fail(http.StatusNotImplemented, "unsupported", what+" is not supported by this gateway")
}

// created is a sandbox with what its maker needs.
type created struct {
	ID           string `json:"sandboxID"`
	Template     string `json:"templateID"`
	Client       string `json:"clientID"`
	EnvdVersion  string `json:"envdVersion"`
	Token        string `json:"envdAccessToken"`
	TrafficToken string `json:"trafficAccessToken"`
	Domain       string `json:"domain,omitempty"`
}

// clientID stands where E2B has the cluster that a sandbox is in.
const clientID = "podagent"

func (c *control) created(name, template string, t sandboxTokens) created {
	return created{idOf(c.Tenant(), name), template, clientID, envdVersion, t.all, t.ports, c.Domain()}
}

// sandboxTokens are those of a sandbox.
type sandboxTokens struct{ all, ports string }

func (c *control) tokens(name string) (t sandboxTokens, err error) {
	if t.all, err = c.SandboxToken(name, scopeEnvd); err == nil {
		t.ports, err = c.SandboxToken(name, scopePorts)
	}
	return t, err
}

// create makes a sandbox, which lives for as long as usual unless the request says otherwise.
func (c *control) create(usual time.Duration) error {
	ctx, name, in := c.r.Context(), c.NewName(), createRequest{}
	wrong := c.body(&in)
	from, _ := c.snapshotOf(in.Template)
	if err := c.begin("create", name, from.args()...); err != nil {
		return err
	}
	if wrong != nil {
		return wrong
	}
	if err := in.check(); err != nil {
		return err
	}
	opened, err := c.tokens(name)
	if err != nil {
		return err
	}
	order, err := c.order(&in, usual)
	if err != nil {
		return err
	}
	order.ID = name
	if _, _, err := c.Create(ctx, order); err != nil {
		return err
	}
	faces.WriteJSON(c.w, http.StatusCreated, c.created(name, in.Template, opened))
	return nil
}

// order returns what a create asks of the gateway.
func (c *control) order(in *createRequest, usual time.Duration) (o gateway.NewSandbox, err error) {
	in.Template = cmp.Or(in.Template, BaseTemplate)
	if o, err = c.templateOrder(in.Template); err != nil {
		return o, err
	}
	life, err := timeoutOf(in.Timeout, usual)
	if err != nil {
		return o, err
	}
	o.AllPublic = in.Network != nil && in.Network.Public != nil && *in.Network.Public
	if o.Env, err = envOf(in.Env); err != nil {
		return o, err
	}
	if err = c.narrow(&o, in); err != nil {
		return o, err
	}
	r := record{Internet: in.Internet, Template: in.Template, Started: time.Now().UTC(), Pauses: in.AutoPause, Resumes: in.AutoResume.Enabled}
	o.Labels, err = r.labels(in.Metadata)
	c.setLife(&o, &r, life)
	return o, err
}

// templateOrder returns what the template says of an order: a name of the operator's, or a snapshot.
func (c *control) templateOrder(name string) (gateway.NewSandbox, error) {
	if from, ok := c.snapshotOf(name); ok {
		return c.snapshotOrder(from)
	}
	template, ok := c.face.Templates[name]
	switch {
	case ok || name == BaseTemplate:
		return gateway.NewSandbox{Image: template.Image, Pool: template.Pool}, nil
	case strings.HasPrefix(name, interpreterTemplate):
		return gateway.NewSandbox{}, errInterpreter
	}
	return gateway.NewSandbox{}, gateway.Fail(http.StatusNotFound, "no_template", fmt.Sprintf("there is no template %.100q: there are %s", name, strings.Join(c.face.templateNames(), ", ")))
}

// setLife has a new sandbox end, or pause, as its record says.
func (c *control) setLife(o *gateway.NewSandbox, r *record, life time.Duration) {
	seconds := int64(max(leastTimeout, life) / time.Second)
	o.Keep = r.Pauses
	switch {
	case r.isIdle():
		o.AutoPause, o.Idle = true, seconds
	case !c.IsLocal() || r.Pauses:
		o.Lifetime = seconds
	}
}

func (f *Face) templateNames() []string {
	names := slices.Collect(maps.Keys(f.Templates))
	if _, ok := f.Templates[BaseTemplate]; !ok {
		names = append(names, BaseTemplate)
	}
	slices.Sort(names)
	return names
}

// timeoutOf returns a timeout of a request, which has it in seconds.
func timeoutOf(asked *int64, usual time.Duration) (time.Duration, error) {
	switch {
	case asked == nil:
		return usual, nil
	case *asked < 1 || *asked > mostTimeout:
		return 0, faces.BadRequest("timeout: %d is not from 1 to %d seconds", *asked, mostTimeout)
	}
	return time.Duration(*asked) * time.Second, nil
}

// envOf returns an environment as NAME=VALUE.
func envOf(vars map[string]string) (env []string, err error) {
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(vars[name], "\x00") {
			return nil, faces.BadRequest("envVars: %.100q cannot be set", name)
		}
		env = append(env, name+"="+vars[name])
	}
	return env, nil
}
