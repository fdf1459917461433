package gateway

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"reflect"
	"syscall"

	"github.com/danielgtaylor/huma/v2"

	"github.com/podagent/podagent/pkg/gateway/internal/stdin"
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
	now, err := c.lookAtStdin()
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, stdinOf(now))
}

func stdinOf(now stdin.State) Stdin { return Stdin{now.Taken, now.Open} }

func (c *rawCall) lookAtStdin() (stdin.State, error) {
	return stdin.Look(c, c.sandbox.Client, c.r.PathValue("exec_id"))
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
	in, err := stdin.At(c, c.sandbox.Client, c.r.PathValue("exec_id"), offset)
	if errors.Is(err, syscall.EINVAL) {
		return c.refuseGap(offset)
	}
	if err != nil {
		return err
	}
	defer in.Leave()
	now, err := in.Put(data)
	if err == nil && end && now.Open {
		now, err = endStdin(in, now.Taken, offset+int64(len(data)))
	}
	switch {
	case errors.Is(err, stdin.ErrClosed):
		return stdinRefused("stdin_closed", fmt.Sprintf("the command takes no more input: it took %d bytes", now.Taken), now.Taken)
	case err != nil:
		return err
	}
	return c.json(http.StatusOK, stdinOf(now))
}

// endStdin ends input at an offset, where it must be.
func endStdin(in *stdin.Input, taken, at int64) (stdin.State, error) {
	if taken > at {
		return stdin.State{}, stdinRefused("conflict", fmt.Sprintf("the input cannot end at offset %d: %d bytes were taken", at, taken), taken)
	}
	if err := in.Close(); err != nil {
		return stdin.State{}, err
	}
	return in.Closed()
}

// stdinOffset returns where the input of a request begins.
func (c *rawCall) stdinOffset() (int64, error) {
	if c.queries.Has("offset") {
		return c.number("offset", math.MaxInt64-stdinLimit)
	}
	now, err := c.lookAtStdin()
	return now.Taken, err
}

func (c *rawCall) refuseGap(offset int64) error {
	now, err := c.lookAtStdin()
	if err != nil {
		return err
	}
	return stdinGap(uint64(offset), now.Taken)
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
