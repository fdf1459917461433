package gateway

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

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
	// Domain, if not empty, makes PORT-NAME.Domain the host of a server in a sandbox.
	Domain string
	// Log gets what the caller is not told; nil discards it.
	Log *slog.Logger
}

// Gateway is the handler of all that a gateway serves. Close it when it serves no more.
type Gateway struct {
	Options
	held *held
	api  huma.API
	mux  *http.ServeMux
}

// New returns a gateway.
func New(o Options) *Gateway {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	g := &Gateway{Options: o, held: newHeld(o.Launcher), mux: http.NewServeMux()}
	config := huma.DefaultConfig("podagent", "v1")
	config.DocsPath, config.SchemasPath, config.CreateHooks = "", "", nil
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{"token": {Type: "http", Scheme: "bearer"}}
	config.Security = []map[string][]string{{"token": {}}}
	g.api = humago.New(g.mux, config)
	g.api.UseMiddleware(g.identify)
	g.sandboxOperations()
	g.fileOperations()
	g.fileInfoOperations()
	g.treeOperations()
	g.searchOperations()
	g.watchOperations()
	g.execOperations()
	g.processOperations()
	g.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	return g
}

// ServeHTTP implements [http.Handler].
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch t, err := g.targetOf(r); {
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	case t != nil:
		g.route(w, r, t)
	default:
		g.mux.ServeHTTP(w, r)
	}
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

// Close closes the connections to sandboxes. The sandboxes stay.
func (g *Gateway) Close() error { return g.held.close() }
