package gateway

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/netip"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"golang.org/x/time/rate"

	"github.com/podagent/podagent/pkg/launcher"
)

// Options configure a [Gateway].
type Options struct {
	// Launcher makes and finds the sandboxes.
	Launcher launcher.Launcher
	// Tenants knows who may call.
	Tenants Tenants
	// Base is what a new sandbox is like, as far as its creator may not or does not say. Its ID
	// must be empty.
	Base launcher.Spec
	// Ledger is where gateways agree on what tenants with a quota, and keys with a budget, have. It
	// must be the same for all over the same sandboxes. Without it these can make none.
	Ledger Ledger
	// Domain, if not empty, makes PORT-NAME--TENANT.Domain the host of a server in a sandbox, and
	// PORT-NAME.Domain for callers with a token. It may end in the port of links, such as :8443.
	// Nothing of the gateway's own is served there.
	Domain string
	// TLS says that callers come by HTTPS without a proxy between them and the gateway. Links are
	// HTTPS in any case, but for those of localhost without it.
	TLS bool
	// LinkKeys sign links to servers. With nil only this gateway's own are valid, while it lasts.
	LinkKeys *LinkKeys
	// EgressPrivate has ranges of addresses that no sandbox reaches by the gateways unless a rule of its
	// tenant's [Egress] names them, beside those that are private everywhere: the pods and services of a
	// cluster, say.
	EgressPrivate []netip.Prefix
	// EgressRoots verify the hosts that get credentials; nil means the roots of this machine.
	EgressRoots *x509.CertPool
	// Observers are told of what callers do, in this order.
	Observers []Observer
	// Faces serve callers in the words of other APIs. A request is the first one's that claims it.
	Faces []Face
	// Leader chooses the gateway that sweeps (sweep.go), among all over the same sandboxes. Without it
	// this one does not.
	Leader Leader
	// Swept, unless nil, is told of each sandbox of which this gateway has removed something: "paused"
	// if it sleeps, "expired" if its lifetime is over, otherwise "ended".
	Swept func(reason string)
	// SSH is where callers are told that they find SSH; nil for nowhere. It may be set until the gateway serves.
	SSH *SSH
	// Log gets what the caller is not told; nil discards it.
	Log *slog.Logger
}

// Gateway is the handler of all that a gateway serves. Close it when it serves no more.
type Gateway struct {
	Options
	domain domain
	api    huma.API
	mux    *http.ServeMux
	names  map[string]string  // of the operations, by their patterns in mux
	end    context.CancelFunc // of lookups

	calls        *calls
	loads        loads
	visits       visits
	failures     *failures
	books        books
	held         *held
	waysOut      *waysOut
	recently     *recently
	lookups      *lookups // for strangers
	linked       *lookups // for those with a link
	streams      *openStreams
	reach        reach
	mcp          *mcpSessions
	eventReaders chan struct{}      // slots: the cluster looks through the events of all for each
	sweeper      sync.WaitGroup     // while this gateway may lead
	endSweep     context.CancelFunc // of the sweeper

	quiet     *log.Logger     // of what hostile servers do
	sometimes *rate.Sometimes // logs that callers cannot be told
	failing   *rate.Sometimes // logs that acts cannot be recorded
	silence   time.Duration   // after which a stream gives a sign of life, and the caller of a terminal is asked for one
	handover  time.Duration   // for which a watch goes on whose caller is to watch elsewhere
}

// New returns a gateway.
func New(o Options) *Gateway {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.LinkKeys == nil {
		o.LinkKeys = madeUpKeys()
	}
	life, end := context.WithCancel(context.Background())
	g := &Gateway{
		Options: o, domain: parseDomain(o.Domain, o.TLS), mux: http.NewServeMux(), end: end,
		calls: newCalls(o.Tenants), loads: loads{byTenant: map[string]*load{}}, failures: newFailures(), streams: newOpenStreams(),
		quiet: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug), sometimes: newSometimes(), failing: newSometimes(), silence: silence, handover: handover,
		eventReaders: make(chan struct{}, eventsAtOnce),
	}
	g.recently = newRecently()
	g.Observers = append(slices.Clip(g.Observers), g.recently)
	g.reach.ask = g.askLauncher
	find := func(ctx context.Context, id string) (launcher.Summary, error) { return o.Launcher.Find(ctx, id) }
	g.lookups, g.linked = newLookups(life, find), newLookups(life, find)
	g.held = &held{open: g.openSandbox, patience: patience, log: o.Log, byID: map[string]*heldSandbox{}}
	g.waysOut = newWaysOut(g)
	g.held.opened = g.waysOut.await
	g.api = humago.New(g.mux, apiConfig())
	g.api.UseMiddleware(g.readJSON)
	g.addOperations()
	g.recently.learn(g.api.OpenAPI())
	g.mcp = newMCPSessions(g)
	g.mux.Handle(mcpPath, g.mcp)
	if g.isLocal() {
		go g.mcp.removeIdle(life, g.mcp.idle)
	}
	g.names = operationNames(g.api.OpenAPI())
	g.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", jsonType)
		_, _ = io.WriteString(w, `{"status":"ok"}`) // which balancers before agent-sandbox's router look for
	})
	sweeping, endSweep := context.WithCancel(life)
	g.endSweep = endSweep
	g.startSweeper(sweeping)
	return g
}

// apiConfig configures huma: what it decodes and encodes, and how it answers errors.
func apiConfig() huma.Config {
	config := huma.DefaultConfig("podagent", "v1")
	config.DocsPath, config.SchemasPath, config.CreateHooks = "", "", nil
	asJSON := huma.Format{Marshal: huma.DefaultJSONFormat.Marshal, Unmarshal: unmarshalJSON}
	config.Formats = map[string]huma.Format{jsonType: asJSON, "json": asJSON} // the latter for problem+json
	config.Transformers = []huma.Transformer{asProblem}
	config.RejectUnknownQueryParameters = true
	describe(config.OpenAPI)
	return config
}

func (g *Gateway) addOperations() {
	g.callerOperations()
	g.sandboxOperations()
	g.fileOperations()
	g.fileInfoOperations()
	g.treeOperations()
	g.checkpointOperations()
	g.searchOperations()
	g.watchOperations()
	g.execOperations()
	g.processOperations()
	g.stdinOperations()
	g.terminalOperations()
	g.linkOperations()
	g.portListOperations()
	g.statsOperations()
	g.eventOperations()
	g.recentOperations()
}

// ServeHTTP implements [http.Handler].
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r, done := g.streams.begin(w, r)
	defer done()
	w = &patientWriter{ResponseWriter: w}
	if f, shown := g.headerFaceOf(r); f != nil {
		g.serveFace(w, r, f, nil, shown)
		return
	}
	t, err := g.targetOf(r)
	if err != nil {
		g.refuse(w, r, err)
		return
	}
	switch f, shown := g.faceOf(r, t); {
	case f != nil:
		g.serveFace(w, r, f, t, shown)
	case t != nil:
		g.route(w, r, t)
	case isGRPC(r):
		guard(w.Header())
		g.servePodapi(w, r)
	default:
		guard(w.Header())
		g.identified(w, r, http.HandlerFunc(g.operate))
	}
}

// guard keeps what the gateway itself answers out of the pages of others: none may frame it or
// take it for a script, and content of a sandbox's files is no page of the gateway's.
func guard(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; sandbox")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// operate passes a request to its operation.
func (g *Gateway) operate(w http.ResponseWriter, r *http.Request) {
	h, pattern := g.mux.Handler(r)
	if path.Clean(r.URL.Path) != r.URL.Path || r.URL.Path[0] != '/' {
		h, pattern = http.NotFoundHandler(), "" // the mux would send the caller to another path
	}
	if pattern == "" {
		nowhere(w, r, h)
		return
	}
	a := actOf(r.Context())
	a.by(pattern)
	a.is(g.names[pattern], sandboxIn(r.URL.Path))
	patient(w, r, g.mux)
}

// operationNames returns the ids of operations by their methods and paths.
func operationNames(api *huma.OpenAPI) map[string]string {
	names := map[string]string{}
	for path, item := range api.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Head, item.Put, item.Post, item.Delete} {
			if op != nil {
				names[op.Method+" "+path] = op.OperationID
			}
		}
	}
	return names
}

// sandboxIn returns the name of the sandbox that an operation's path is of; "" if there is none that
// there could be.
func sandboxIn(path string) string {
	rest, _ := strings.CutPrefix(path, root+"/")
	name, _, _ := strings.Cut(rest, "/")
	if CheckName(name) != nil {
		return ""
	}
	return name
}

// OpenAPI returns the description of the operations by OpenAPI 3.1, in JSON.
func OpenAPI() ([]byte, error) {
	text, err := New(Options{}).api.OpenAPI().MarshalJSON()
	if err != nil {
		return nil, err
	}
	var indented bytes.Buffer
	err = json.Indent(&indented, text, "", "  ")
	return append(indented.Bytes(), '\n'), err
}
