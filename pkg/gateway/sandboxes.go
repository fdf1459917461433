package gateway

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/podagent/podagent/pkg/fsops/checkpoint"
	"github.com/podagent/podagent/pkg/launcher"
)

// root is where the operations are, and sandboxRoot where those on one sandbox are.
const (
	root        = "/api/v1/sandboxes"
	sandboxRoot = root + "/{id}"
)

// sandboxPath names a sandbox in a path. What names are like is added to all operations: see complete.
type sandboxPath struct {
	ID string `path:"id" doc:"the sandbox's name"`
}

// Sandbox is what a caller sees of a sandbox.
type Sandbox struct {
	ID        string    `json:"id" doc:"the sandbox's name, unique among the tenant's" example:"job-1"`
	State     string    `json:"state" enum:"running,stopped,pending,ended,paused,terminating" doc:"what it does"`
	Workdir   string    `json:"workdir,omitempty" doc:"where relative paths start and commands run"`
	CreatedAt time.Time `json:"created_at,omitzero" doc:"missing in the answer that made it"`

	Owner *Owner `json:"owner,omitempty" doc:"who made it; missing in the answers of create and resume, and of those that no gateway made, or an older one"`
	Pool  string `json:"pool,omitempty" doc:"the pool that its pod was taken out of; missing in the answers of create and resume"`

	Labels map[string]string `json:"labels,omitempty" doc:"those that it was made with; missing in the answers of create and resume"`

	PublicPorts []int `json:"public_ports,omitempty" doc:"the ports that anybody may call; missing in the answers of create and resume"`
	AllPublic   bool  `json:"all_public,omitempty" doc:"anybody may call any port; missing in the answers of create and resume"`

	AutoPause bool `json:"auto_pause,omitempty" doc:"it pauses when it is idle, and a call that works in it resumes it; missing in the answers of create and resume"`

	AllowHosts *[]string `json:"allow_hosts,omitempty" doc:"the hosts that it may reach of those that the tenant's sandboxes may, if it was made with them; missing in the answers of create and resume"`

	Isolation string `json:"isolation,omitempty" enum:"namespaces,landlock,none" doc:"what keeps it from the gateway's machine, if that runs it; missing for pods, and in the answers of create and resume"`

	ExpiresAt time.Time `json:"expires_at,omitzero" doc:"when it ends itself, if it does so by a time"`

	IdleFor *int64 `json:"idle_for_seconds,omitempty" doc:"how long it has been idle, by its agent, if the request asks with idle=true; missing if the agent does not run, or does not answer soon"`
}

func sandboxOf(name string, s launcher.Summary) Sandbox {
	return Sandbox{
		ID: name, State: string(stateOf(s)), Workdir: s.Workdir, CreatedAt: s.CreatedAt, Owner: ownerOf(s), Pool: s.Pool,
		Labels: withoutOwn(s.Labels), PublicPorts: publicPorts(s), AllPublic: allPublic(s), ExpiresAt: s.Expires, AutoPause: s.Labels[labelAutoPause] != "",
		AllowHosts: allowHosts(s), Isolation: string(s.Isolation),
	}
}

func (g *Gateway) sandboxOperations() {
	register(g, http.MethodPost, root, "create-sandbox", "Make a sandbox, or get the one that has the id", g.create)
	made := g.api.OpenAPI().Paths[root].Post.Responses
	made["200"].Description = "there is one with the id"
	made["201"] = &huma.Response{Description: "it was made", Content: made["200"].Content}
	register(g, http.MethodGet, root, "list-sandboxes", "List the sandboxes", g.list)
	register(g, http.MethodGet, sandboxRoot, "get-sandbox", "Describe a sandbox", g.get)
	register(g, http.MethodDelete, sandboxRoot, "delete-sandbox", "End a sandbox, and remove it with its files", g.remove)
	register(g, http.MethodPost, sandboxRoot+"/pause", "pause-sandbox", "End a sandbox's pod, and keep its files", g.pause)
	register(g, http.MethodPost, sandboxRoot+"/resume", "resume-sandbox", "Give a paused sandbox a pod", g.resume)
	register(g, http.MethodPost, sandboxRoot+"/extend", "extend-sandbox", "Let a sandbox live longer", g.extend)
	register(g, http.MethodPut, sandboxRoot+"/expires", "expire-sandbox", "Set when a sandbox ends itself, also sooner than planned", g.expire)
}

// register adds an operation. What its handler returns as an error becomes a problem.
func register[I, O any](g *Gateway, method, path, id, summary string, handle func(context.Context, *I) (*O, error)) {
	op := huma.Operation{
		OperationID: id, Method: method, Path: path, Summary: summary,
		BodyReadTimeout: -1, // see patientBody
		Responses:       map[string]*huma.Response{"default": g.problems()},
	}
	huma.Register(g.api, op, func(ctx context.Context, in *I) (out *O, err error) {
		if err = begin(ctx, detailIn(ctx, in)); err == nil {
			out, err = handle(ctx, in)
		}
		if err != nil {
			return nil, g.problem(ctx, err)
		}
		return out, nil
	})
}

// detailed is the input of an operation that has more to tell than the sandbox's name.
type detailed interface {
	detail(ctx context.Context) Detail
}

func detailIn(ctx context.Context, in any) Detail {
	if in, ok := in.(detailed); ok {
		return in.detail(ctx)
	}
	return Detail{}
}

type createInput struct {
	Key  string `header:"Idempotency-Key" maxLength:"255" doc:"a repeated request with this key has the same answer"`
	Body NewSandbox
}

type sandboxOutput struct {
	Status int
	Body   Sandbox
}

// detail names the sandbox, if the caller does not.
func (in *createInput) detail(ctx context.Context) Detail {
	if in.Body.ID == "" {
		in.Body.ID = newName(tenantOf(ctx), in.Key)
	}
	actOf(ctx).is("", in.Body.ID)
	if from := in.Body.From; from != nil {
		return Detail{Args: []string{from.Sandbox, from.Checkpoint}}
	}
	return Detail{}
}

func (g *Gateway) create(ctx context.Context, in *createInput) (*sandboxOutput, error) {
	tenant, name := tenantOf(ctx), in.Body.ID
	if err := CheckName(name); err != nil {
		return nil, invalid("%v", err)
	}
	policy, err := g.policy(ctx)
	if err != nil {
		return nil, err
	}
	spec, err := specOf(g.Base, tenant, policy, in.Body)
	if err != nil {
		return nil, err
	}
	if err := g.repeats(ctx, in.Key, launcherID(tenant, name), &in.Body); err != nil {
		return nil, err
	}
	var point checkpoint.ID
	if in.Body.From != nil {
		if spec, point, err = g.specFrom(ctx, in, policy); err != nil {
			return nil, err
		}
	}
	spec.ID, spec.Labels = launcherID(tenant, name), g.withSeedKey(withOwn(spec.Labels, callerOf(ctx), in.Key, &in.Body))
	s, err := g.launchWithin(ctx, g.wantedFor(&spec), func(ctx context.Context) (*launcher.Sandbox, error) { return g.Launcher.Launch(ctx, spec) })
	if err == nil && point != "" {
		err = g.fill(ctx, in, s, spec.Labels[labelIdentity], point)
	}
	if err != nil {
		return nil, err
	}
	g.held.put(spec.ID, s)
	g.forgetLookups(spec.ID)
	g.waysOut.letOut(ctx, spec.ID)
	out := &sandboxOutput{http.StatusOK, Sandbox{ID: name, State: string(launcher.Running), Workdir: s.Workdir}}
	if s.Created {
		out.Status = http.StatusCreated
		return out, nil
	}
	return out, g.repeats(ctx, in.Key, spec.ID, &in.Body) // of two at once, one finds the other's
}

type listInput struct {
	State string   `query:"state" enum:"running,stopped,pending,ended,paused,terminating" doc:"only those in this state"`
	Label []string `query:"label,explode" doc:"only those with this label, as NAME=VALUE; several, repeated or with commas between them, must all match"`
	Idle  bool     `query:"idle" doc:"say how long each has been idle, too, as far as the agents answer soon"`
	Limit int      `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"how many at most"`
	After string   `query:"after" doc:"only those whose names come after this one: next of the page before"`
}

type listOutput struct {
	Body struct {
		Sandboxes []Sandbox `json:"sandboxes" nullable:"false"`
		Next      string    `json:"next,omitempty" doc:"after of the next page; missing on the last one"`
	}
}

func (g *Gateway) list(ctx context.Context, in *listInput) (*listOutput, error) {
	all, err := g.Launcher.List(ctx)
	if err != nil {
		return nil, &ofAll{err}
	}
	want, err := labelTerms(in.Label)
	if err != nil {
		return nil, err
	}
	out := &listOutput{}
	out.Body.Sandboxes = []Sandbox{}
	for _, s := range all {
		name, ours := nameOf(tenantOf(ctx), s.ID)
		switch {
		case !ours || name <= in.After || in.State != "" && in.State != string(stateOf(s)) || !hasLabels(s, want):
		case len(out.Body.Sandboxes) == in.Limit:
			out.Body.Next = out.Body.Sandboxes[in.Limit-1].ID
			return out, g.addIdle(ctx, in.Idle, out.Body.Sandboxes)
		default:
			out.Body.Sandboxes = append(out.Body.Sandboxes, sandboxOf(name, s))
		}
	}
	return out, g.addIdle(ctx, in.Idle, out.Body.Sandboxes)
}

type getInput struct {
	ID   string `path:"id" doc:"the sandbox's name"`
	Idle bool   `query:"idle" doc:"say how long it has been idle, too, if its agent answers soon"`
}

func (g *Gateway) get(ctx context.Context, in *getInput) (*sandboxOutput, error) {
	s, err := g.find(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	one := []Sandbox{sandboxOf(in.ID, s)}
	err = g.addIdle(ctx, in.Idle, one)
	return &sandboxOutput{http.StatusOK, one[0]}, err
}

// find describes the caller's sandbox of this name.
func (g *Gateway) find(ctx context.Context, name string) (launcher.Summary, error) {
	return g.Launcher.Find(ctx, launcherID(tenantOf(ctx), name))
}

func (g *Gateway) remove(ctx context.Context, in *sandboxPath) (*struct{}, error) {
	if _, err := g.find(ctx, in.ID); err != nil {
		return nil, err
	}
	id := launcherID(tenantOf(ctx), in.ID)
	g.held.forget(id)
	g.waysOut.forget(id)
	defer g.forgetLookups(id)
	if err := g.Launcher.Terminate(ctx, id); err != nil {
		return nil, err
	}
	g.giveBack(ctx, id)
	g.recently.pages.Forget(tenantOf(ctx), in.ID)
	return nil, nil
}

// pauser is a launcher whose sandboxes can be paused.
type pauser interface {
	Pause(ctx context.Context, id string) error
	Resume(ctx context.Context, id string) (*launcher.Sandbox, error)
	Extend(ctx context.Context, id string, d time.Duration) (time.Time, error)
	Expire(ctx context.Context, id string, at time.Time) (time.Time, error)
}

func (g *Gateway) pauser() (pauser, error) {
	p, ok := g.Launcher.(pauser)
	if !ok {
		return nil, huma.Error501NotImplemented("sandboxes of this backend cannot be paused, nor do they end by themselves")
	}
	return p, nil
}

func (g *Gateway) pause(ctx context.Context, in *sandboxPath) (*struct{}, error) {
	p, err := g.pauser()
	if err != nil {
		return nil, err
	}
	id := launcherID(tenantOf(ctx), in.ID)
	g.held.forget(id)
	g.waysOut.forget(id)
	if err := p.Pause(ctx, id); err != nil {
		return nil, err
	}
	g.giveBack(ctx, id)
	return nil, nil
}

func (g *Gateway) resume(ctx context.Context, in *sandboxPath) (*sandboxOutput, error) {
	p, err := g.pauser()
	if err != nil {
		return nil, err
	}
	id := launcherID(tenantOf(ctx), in.ID)
	s, err := g.launchWithin(ctx, g.wantedAgain(id), func(ctx context.Context) (*launcher.Sandbox, error) { return p.Resume(ctx, id) })
	if err != nil {
		return nil, err
	}
	out := &sandboxOutput{http.StatusOK, Sandbox{ID: in.ID, State: string(launcher.Running), Workdir: s.Workdir}}
	g.held.put(id, s)
	g.waysOut.letOut(ctx, id)
	return out, nil
}

type extendInput struct {
	ID   string `path:"id" doc:"the sandbox's name"`
	Body struct {
		Seconds int64 `json:"additional_seconds" minimum:"1" maximum:"1000000000" doc:"how much longer"`
	}
}

type extendOutput struct {
	Body struct {
		ExpiresAt time.Time `json:"expires_at" doc:"when it ends itself"`
	}
}

func (g *Gateway) extend(ctx context.Context, in *extendInput) (*extendOutput, error) {
	p, err := g.pauser()
	if err != nil {
		return nil, err
	}
	longer := seconds(in.Body.Seconds)
	if err := g.mayLast(ctx, "additional_seconds", longer); err != nil {
		return nil, err
	}
	out := &extendOutput{}
	id := launcherID(tenantOf(ctx), in.ID)
	out.Body.ExpiresAt, err = g.endWithin(ctx, id, time.Now().Add(longer), func() (time.Time, error) { return p.Extend(ctx, id, longer) })
	return out, err
}
