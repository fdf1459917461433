package gateway

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"reflect"
	"sync"
	"syscall"

	"github.com/danielgtaylor/huma/v2"

	"github.com/podagent/podagent/pkg/podapi"
)

func (g *Gateway) stdinOperations() {
	const path = sandboxRoot + "/processes/{exec_id}/stdin"
	execID := param("path", "exec_id", huma.TypeString, "the command's exec id")
	execID.Required = true
	state := map[string]*huma.Response{"200": {Description: "what it has taken", Content: bodyOf(jsonType, g.schema(reflect.TypeFor[Stdin]()))}}
	g.raw(huma.Operation{
		OperationID: "get-stdin", Method: http.MethodGet, Path: path, Summary: "Tell how much of its standard input a command has taken",
		Parameters: []*huma.Param{execID}, Responses: map[string]*huma.Response{"200": state["200"]},
	}, (*rawCall).readStdin)
	g.raw(huma.Operation{
		OperationID: "write-stdin", Method: http.MethodPut, Path: path, Summary: "Send standard input to a command",
		Description: "The answer comes when the command has taken all of it. What it has taken already, by offset, is left out, so that a " +
			"request may be repeated. An offset beyond what was taken is 409, stdin_gap; a command that takes no more is 409, stdin_closed: " +
			"the offset of either problem is how much was taken.",
		Parameters: []*huma.Param{
			execID,
			param("query", "offset", huma.TypeInteger, "where the input begins, in bytes; without it, after what was taken, and the request must not be repeated"),
			param("query", "end", huma.TypeBoolean, "end the input after it"),
		},
		RequestBody: &huma.RequestBody{Content: bodyOf("application/octet-stream", binarySchema), Description: fmt.Sprintf("up to %d bytes", stdinLimit)},
		Responses:   state,
	}, (*rawCall).writeStdin)
}

// Stdin is how much of its standard input a command has taken.
type Stdin struct {
	Offset int64 `json:"offset" doc:"how many bytes it has taken: where the next input begins"`
	Open   bool  `json:"open" doc:"it takes more"`
}

// stdinRefused says why input was refused, and how much was taken.
func stdinRefused(class, detail string, taken int64) error {
	p := newProblem(http.StatusConflict, class, detail)
	p.Offset = &taken
	return p
}

func stdinGap(offset uint64, taken int64) error {
	return stdinRefused("stdin_gap", fmt.Sprintf("the input begins at offset %d, and %d bytes were taken before", offset, taken), taken)
}

func (c *rawCall) readStdin() error {
	p, err := c.look(c.r.PathValue("exec_id"))
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, c.stdinOf(p))
}

// look attaches to a process for a moment, to see how it is.
func (c *rawCall) look(id string) (*podapi.Process, error) {
	p, err := c.sandbox.Attach(c, id, podapi.AttachOptions{NoFollow: true, NoOutput: true})
	if err == nil {
		_ = p.Wait() // it was left at once, or has ended
	}
	return p, err
}

// stdinOf returns what a process had taken when it was attached to.
func (c *rawCall) stdinOf(p *podapi.Process) Stdin {
	taken, _ := p.StdinTaken(c, -1)
	return Stdin{taken, p.HasStdin() && p.Status() == nil}
}

func (c *rawCall) writeStdin() error {
	end, err := c.flag("end")
	if err != nil {
		return err
	}
	offset, err := c.stdinOffset()
	if err != nil {
		return err
	}
	data, err := c.bytes(stdinLimit)
	if err != nil {
		return err
	}
	in := newOpenInput(data)
	p, err := c.sandbox.Attach(c, c.r.PathValue("exec_id"), podapi.AttachOptions{Stdin: in, StdinOffset: &offset, NoOutput: true})
	if errors.Is(err, syscall.EINVAL) {
		return c.refuseGap(offset)
	}
	if err != nil {
		return err
	}
	defer in.end() // the run has ended then: nobody takes it for the end of the input
	defer func() { _ = p.Detach() }()
	return c.awaitTaken(p, offset+int64(len(data)), end, in)
}

// stdinOffset returns where the input of a request begins.
func (c *rawCall) stdinOffset() (int64, error) {
	if c.queries.Has("offset") {
		return c.number("offset", math.MaxInt64-stdinLimit)
	}
	p, err := c.look(c.r.PathValue("exec_id"))
	if err != nil {
		return 0, err
	}
	return c.stdinOf(p).Offset, nil
}

func (c *rawCall) refuseGap(offset int64) error {
	p, err := c.look(c.r.PathValue("exec_id"))
	if err != nil {
		return err
	}
	return stdinGap(uint64(offset), c.stdinOf(p).Offset)
}

// awaitTaken answers when the process has taken its input up to an offset.
func (c *rawCall) awaitTaken(p *podapi.Process, until int64, end bool, in *openInput) error {
	taken, err := p.StdinTaken(c, until-1)
	switch {
	case errors.Is(err, podapi.ErrStdinClosed):
		return c.afterClose(until)
	case err != nil:
		return err
	case !end || !p.HasStdin():
		return c.json(http.StatusOK, Stdin{taken, p.HasStdin()})
	case taken > until:
		return stdinRefused("conflict", fmt.Sprintf("the input cannot end at offset %d: %d bytes were taken", until, taken), taken)
	}
	in.end()
	if _, err = p.StdinTaken(c, math.MaxInt64); !errors.Is(err, podapi.ErrStdinClosed) {
		return err
	}
	return c.afterClose(until)
}

// afterClose answers when a process takes no more. What it had taken was perhaps not said.
func (c *rawCall) afterClose(until int64) error {
	p, err := c.look(c.r.PathValue("exec_id"))
	if err != nil {
		return err
	}
	switch now := c.stdinOf(p); {
	case now.Open: // the connection to the sandbox was lost
		return podapi.ErrUnavailable
	case now.Offset < until:
		return stdinRefused("stdin_closed", fmt.Sprintf("the command takes no more input: it took %d bytes", now.Offset), now.Offset)
	default:
		return c.json(http.StatusOK, now)
	}
}

// bytes reads a body of up to limit bytes.
func (c *rawCall) bytes(limit int64) ([]byte, error) {
	data, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, limit))
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		return nil, huma.NewError(http.StatusRequestEntityTooLarge, fmt.Sprintf("the body has more than %d bytes", limit))
	case err != nil:
		return nil, invalid("the body: %v", err)
	}
	return data, nil
}

// openInput is input that stays open after its bytes until end is called.
type openInput struct {
	data  []byte
	ended chan struct{}
	end   func()
}

func newOpenInput(data []byte) *openInput {
	in := &openInput{data: data, ended: make(chan struct{})}
	in.end = sync.OnceFunc(func() { close(in.ended) })
	return in
}

func (in *openInput) Read(p []byte) (int, error) {
	if len(in.data) == 0 {
		<-in.ended
		return 0, io.EOF
	}
	n := copy(p, in.data)
	in.data = in.data[n:]
	return n, nil
}
