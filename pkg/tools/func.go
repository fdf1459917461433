package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"
)

// Func returns a tool that calls a function with the model's input, unmarshalled.
// If spec has no InputSchema, the schema is made from In, a struct. A field is
// required unless its json tag says omitempty or omitzero; its jsonschema tag is
// its description. If no schema can be made from In, all calls of the session
// fail.
//
//	weather := tools.Func(tools.Spec{Name: "weather", Description: "Tells the weather."},
//		func(ctx context.Context, env *tools.Env, in struct {
//			City string `json:"city" jsonschema:"the city's name"`
//		}) (tools.Result, error) {
//			return tools.Text("22 °C in " + in.City), nil
//		})
func Func[In any](spec Spec, call func(ctx context.Context, env *Env, in In) (Result, error)) Tool {
	f := function[In]{spec: spec, call: call}
	if spec.InputSchema == nil {
		f.spec.InputSchema, f.err = schemaOf[In]()
	}
	if call == nil {
		f.err = errors.New("there is no function")
	}
	return f
}

func schemaOf[In any]() (json.RawMessage, error) {
	schema, err := jsonschema.For[In](nil)
	if err != nil {
		return nil, fmt.Errorf("cannot make a schema of its input: %w", err)
	}
	return json.Marshal(schema)
}

type function[In any] struct {
	spec Spec
	call func(context.Context, *Env, In) (Result, error)
	err  error
}

func (f function[In]) Spec() Spec { return f.spec }

func (f function[In]) check() error {
	if f.err != nil {
		return fmt.Errorf("tool %q: %w", f.spec.Name, f.err)
	}
	return nil
}

func (f function[In]) Call(ctx context.Context, env *Env, input json.RawMessage) (Result, error) {
	in, problem := decode[In](f.spec.Name, input)
	if problem != nil {
		return *problem, nil
	}
	return f.call(ctx, env, in)
}

// decode unmarshals an input that fits the schema of a tool, or returns a result
// that says why it cannot.
func decode[In any](tool string, input json.RawMessage) (in In, problem *Result) {
	if err := json.Unmarshal(input, &in); err != nil {
		result := Errorf("cannot decode the input of %s: %v", tool, err)
		return in, &result
	}
	return in, nil
}
