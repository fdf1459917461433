package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/podagent/podagent/pkg/launcher"
)

// rawCall is a call whose request or answer is bytes, or comes bit by bit.
type rawCall struct {
	context.Context
	w       http.ResponseWriter
	r       *http.Request
	op      *huma.Operation
	schemas huma.Registry
	queries url.Values
	sandbox *launcher.Sandbox
	streams *openStreams
	command *Command     // of exec
	grepped *GrepRequest // of grep
	stays   bool         // it wakes no sandbox that sleeps
	differs *comparison  // of diff-checkpoint
	began   bool         // the answer has, so that an error can change nothing of it
	started func()       // what to call when the command that the call runs has started: see starting
	ends    bool         // the command that the call runs ends when the caller leaves
	silence time.Duration
	lining  sync.Mutex    // of the lines of an answer
	said    chan struct{} // gets something after lines: see keepLines
}

// raw adds an operation on a sandbox that reads its request, and writes its answer, by itself.
func (g *Gateway) raw(op huma.Operation, handle func(*rawCall) error) {
	g.rawWith(op, (*rawCall).detail, handle)
}

// rawWith is raw for an operation that reads what it is to do before there is a sandbox to do it in.
func (g *Gateway) rawWith(op huma.Operation, read func(*rawCall) (Detail, error), handle func(*rawCall) error) {
	id := param("path", "id", huma.TypeString, "the sandbox's name")
	id.Required = true
	op.Parameters = append([]*huma.Param{id}, op.Parameters...)
	op.Responses["default"] = g.problems()
	if op.MaxBodyBytes == 0 {
		op.MaxBodyBytes = bodyLimit
	}
	g.api.OpenAPI().AddOperation(&op)
	g.api.Adapter().Handle(&op, g.api.Middlewares().Handler(func(ctx huma.Context) {
		r, w := humago.Unwrap(ctx)
		c := &rawCall{Context: ctx.Context(), w: w, r: r, op: &op, schemas: g.api.OpenAPI().Components.Schemas, streams: g.streams, silence: g.silence}
		detail, err := c.readWith(read)
		if err == nil {
			err = begin(c, detail)
		}
		if err == nil {
			err = g.use(c, r.PathValue("id"), !c.stays, func(s *launcher.Sandbox) error {
				c.sandbox = s
				return handle(c)
			})
		}
		if b, ok := r.Body.(*patientBody); ok && err != nil && b.failed != nil {
			err = b.failed // what became of the call follows from it
		}
		if err != nil {
			c.fail(g.problem(c, err))
		}
	}))
}

// readWith checks the query, and reads what the call is to do.
func (c *rawCall) readWith(read func(*rawCall) (Detail, error)) (Detail, error) {
	if err := c.checkQuery(); err != nil {
		return Detail{}, err
	}
	if c.queries.Has("wake") {
		wake, err := c.flag("wake")
		if err != nil {
			return Detail{}, err
		}
		c.stays = !wake
	}
	return read(c)
}

// detail returns what the query and the path say.
func (c *rawCall) detail() (Detail, error) {
	d := Detail{Paths: slices.Concat(c.queries["path"], c.queries["paths"]), Args: c.queries["args"], ExecID: cmp.Or(c.r.PathValue("exec_id"), c.query("exec_id"))}
	if script := c.query("script"); script != "" {
		d.Args = []string{script}
	}
	return d, nil
}

// problems describes the answer to a call that failed.
func (g *Gateway) problems() *huma.Response {
	return &huma.Response{Description: "Error", Content: bodyOf(problemJSON, g.schema(problemType))}
}

// on calls do with the caller's open sandbox of this name, which it wakes if it sleeps.
func (g *Gateway) on(ctx context.Context, name string, do func(*launcher.Sandbox) error) error {
	return g.use(ctx, name, true, do)
}

// lookAt is on for operations that do not work in the sandbox: they do not wake it.
func (g *Gateway) lookAt(ctx context.Context, name string, do func(*launcher.Sandbox) error) error {
	return g.use(ctx, name, false, do)
}

func (g *Gateway) use(ctx context.Context, name string, wake bool, do func(*launcher.Sandbox) error) error {
	if err := CheckName(name); err != nil {
		return invalid("%v", err)
	}
	return g.held.use(ctx, launcherID(tenantOf(ctx), name), wake, do)
}

// schema returns the schema of a type, and has it in the document.
func (g *Gateway) schema(t reflect.Type) *huma.Schema {
	return g.api.OpenAPI().Components.Schemas.Schema(t, true, t.Name())
}

// lineOf is the content of an answer in JSON lines of this type.
func (g *Gateway) lineOf(line reflect.Type) map[string]*huma.MediaType {
	return bodyOf(linesType, g.schema(line))
}

const (
	linesType  = "application/jsonl"
	eventsType = "text/event-stream"
)

func bodyOf(contentType string, schema *huma.Schema) map[string]*huma.MediaType {
	return map[string]*huma.MediaType{contentType: {Schema: schema}}
}

// param describes a parameter that may be missing.
func param(in, name, kind, doc string) *huma.Param {
	return &huma.Param{Name: name, In: in, Description: doc, Schema: &huma.Schema{Type: kind}}
}

var pathParam = &huma.Param{
	Name: "path", In: "query", Required: true, Schema: &huma.Schema{Type: huma.TypeString},
	Description: "the file's path: any bytes, percent-encoded; relative to the workdir unless it begins with a slash",
}

// wakeParam is of operations that go on over another connection when one breaks: see rawCall.stays.
var wakeParam = param("query", "wake", huma.TypeBoolean, "false to be refused by a sandbox that sleeps, rather than wake it")

// checkQuery refuses queries that the operation does not have, and those of which it has but one.
func (c *rawCall) checkQuery() (err error) {
	if c.queries, err = url.ParseQuery(c.r.URL.RawQuery); err != nil {
		return invalid("the query: %v", err)
	}
	known, many := map[string]bool{}, map[string]bool{}
	for _, p := range c.op.Parameters {
		if p.In != "query" {
			continue
		}
		known[p.Name], many[p.Name] = true, p.Schema.Type == huma.TypeArray
		if p.Required && !c.queries.Has(p.Name) {
			return invalid("the query lacks %s", p.Name)
		}
	}
	for name, values := range c.queries {
		if !known[name] || len(values) > 1 && !many[name] {
			return invalid("the query has %q too often, or should not have it", name)
		}
	}
	return nil
}

// query returns a value of the query; "" if there is none.
func (c *rawCall) query(name string) string { return c.queries.Get(name) }

func (c *rawCall) flag(name string) (bool, error) {
	if !c.queries.Has(name) {
		return false, nil
	}
	b, err := strconv.ParseBool(c.query(name))
	if err != nil {
		return false, invalid("%s must be true or false", name)
	}
	return b, nil
}

// flags sets each of the named flags of the query.
func (c *rawCall) flags(flags map[string]*bool) (err error) {
	for name, to := range flags {
		if *to, err = c.flag(name); err != nil {
			return err
		}
	}
	return nil
}

// number returns a number of the query, from 0 to limit; 0 if there is none.
func (c *rawCall) number(name string, limit int64) (int64, error) {
	if !c.queries.Has(name) {
		return 0, nil
	}
	n, err := strconv.ParseInt(c.query(name), 10, 64)
	if err != nil || n < 0 || n > limit {
		return 0, invalid("%s must be a number from 0 to %d", name, limit)
	}
	return n, nil
}

// fail answers with a problem. An answer that has begun is cut off instead, so that nobody takes
// it for whole.
func (c *rawCall) fail(err error) {
	if c.began {
		panic(http.ErrAbortHandler)
	}
	for _, name := range []string{"ETag", "Last-Modified"} {
		c.w.Header().Del(name)
	}
	writeProblem(c.w, err)
}

// begin begins an answer that comes bit by bit.
func (c *rawCall) begin(contentType string) {
	c.began = true
	c.w.Header().Set("Content-Type", contentType)
	c.w.Header().Set("Cache-Control", "no-store")
	c.w.WriteHeader(http.StatusOK)
}

// line adds a line to an answer, which begins with the first. It is on its way when line returns
// if it is to be so at once.
func (c *rawCall) line(v any, atOnce bool) error {
	if err := c.Err(); err != nil {
		return err // the caller has left, or is told no more
	}
	c.lining.Lock()
	defer c.lining.Unlock()
	if !c.began {
		c.begin(linesType)
	}
	select {
	case c.said <- struct{}{}:
	default:
	}
	if err := json.NewEncoder(c.w).Encode(v); err != nil || !atOnce {
		return err
	}
	return http.NewResponseController(c.w).Flush()
}

// json answers with v.
func (c *rawCall) json(status int, v any) error {
	c.w.Header().Set("Content-Type", jsonType)
	c.w.WriteHeader(status)
	c.began = true
	return json.NewEncoder(c.w).Encode(v)
}
