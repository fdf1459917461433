package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// inputs checks what a model sends to one tool.
type inputs struct {
	tool     string
	schema   *jsonschema.Schema
	resolved *jsonschema.Resolved
	others   map[string]string // parameters by well-known other names
	// simple says that member checks all that the schema asks for, so that the
	// input need not be validated as a whole.
	simple bool
}

func newInputs(spec Spec, others map[string]string) (*inputs, error) {
	schema := &jsonschema.Schema{}
	if err := json.Unmarshal(spec.InputSchema, schema); err != nil {
		return nil, err
	}
	if schema.Type != "object" {
		return nil, errors.New(`its type is not "object"`)
	}
	resolved, err := schema.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
	if err != nil {
		return nil, err
	}
	return &inputs{spec.Name, schema, resolved, others, isSimple(schema)}, nil
}

// isSimple reports whether a schema is an object of plain values, with only
// constraints that member checks.
func isSimple(schema *jsonschema.Schema) bool {
	for _, p := range schema.Properties {
		if !isPlain(p) {
			return false
		}
	}
	rest := *schema
	rest.Type, rest.Title, rest.Description, rest.Schema = "", "", "", ""
	rest.Properties, rest.Required, rest.AdditionalProperties, rest.PropertyOrder = nil, nil, nil, nil
	return isEmpty(&rest)
}

// isPlain reports whether a schema is a single value or an array of single
// values, with only constraints that member checks.
func isPlain(schema *jsonschema.Schema) bool {
	if schema.Type == "object" || schema.Items != nil && (schema.Items.Type == "array" || !isPlain(schema.Items)) {
		return false
	}
	rest := *schema
	rest.Type, rest.Title, rest.Description, rest.Default, rest.Items = "", "", "", nil, nil
	rest.Minimum, rest.ExclusiveMinimum, rest.Maximum, rest.MinLength, rest.Enum = nil, nil, nil, nil, nil
	return isEmpty(&rest)
}

func isEmpty(schema *jsonschema.Schema) bool {
	data, err := json.Marshal(schema)
	return err == nil && (string(data) == "true" || string(data) == "{}")
}

// normalize returns the input for the tool, or a sentence that says what is wrong
// with it.
func (in *inputs) normalize(raw json.RawMessage) (input json.RawMessage, problem string) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		raw = json.RawMessage("{}")
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		if kind := kindOf(raw); kind != "object" && json.Valid(raw) {
			return nil, fmt.Sprintf("the input of %s must be a JSON object, not %s", in.tool, describe(raw))
		}
		return nil, fmt.Sprintf("the input of %s is not valid JSON: %v", in.tool, err)
	}
	changed := false
	for _, name := range slices.Sorted(maps.Keys(members)) {
		value, problem := in.member(name, members[name])
		if problem != "" {
			return nil, problem
		}
		changed = changed || !bytes.Equal(value, members[name])
		if members[name] = value; value == nil {
			delete(members, name)
		}
	}
	for _, name := range in.schema.Required {
		if members[name] == nil {
			return nil, fmt.Sprintf("the parameter %q of %s is missing; %s", name, in.tool, in.takes())
		}
	}
	if changed {
		raw, _ = json.Marshal(members) // it was just unmarshalled
	}
	return raw, in.validate(raw)
}

// member returns the value of a parameter, converted to the type in its schema;
// nil if the parameter is left out.
func (in *inputs) member(name string, value json.RawMessage) (json.RawMessage, string) {
	schema := in.schema.Properties[name]
	if schema == nil {
		if in.isOpen() {
			return value, ""
		}
		if ours := in.others[name]; ours != "" {
			return nil, fmt.Sprintf("unknown argument %q: this tool's is %q", name, ours)
		}
		return nil, fmt.Sprintf("%s has no parameter %s; %s", in.tool, quote(name), in.takes())
	}
	types := schema.Types
	if schema.Type != "" {
		types = []string{schema.Type}
	}
	if string(value) == "null" && !slices.Contains(types, "null") && !slices.Contains(in.schema.Required, name) {
		return nil, ""
	}
	as, ok := convert(value, types)
	if !ok {
		return nil, fmt.Sprintf("the parameter %q of %s must be %s, not %s", name, in.tool, article(types), describe(value))
	}
	problem := outOfRange(as, schema)
	if problem == "" && kindOf(as) == "array" {
		as, problem = in.items(as, schema.Items)
	}
	if problem != "" {
		return nil, fmt.Sprintf("the parameter %q of %s must %s", name, in.tool, problem)
	}
	return as, ""
}

// items returns an array with its items converted to the type in their schema, or
// says what the array must be.
func (in *inputs) items(value json.RawMessage, schema *jsonschema.Schema) (json.RawMessage, string) {
	if schema == nil || schema.Type == "" {
		return value, ""
	}
	var items []json.RawMessage
	if err := json.Unmarshal(value, &items); err != nil {
		return nil, "be a valid array"
	}
	for i, item := range items {
		as, ok := convert(item, []string{schema.Type})
		if !ok {
			return nil, fmt.Sprintf("be an array of %ss: its item %d is %s", schema.Type, i+1, describe(item))
		}
		if problem := outOfRange(as, schema); problem != "" {
			return nil, fmt.Sprintf("be an array of which item %d must %s", i+1, problem)
		}
		items[i] = as
	}
	value, _ = json.Marshal(items) // they were just unmarshalled
	return value, ""
}

// isOpen reports whether the schema allows parameters that it does not name.
func (in *inputs) isOpen() bool {
	more := in.schema.AdditionalProperties
	return len(in.schema.PatternProperties) > 0 || more != nil && more.Not == nil
}

// validate checks the input against the whole schema, unless member did.
func (in *inputs) validate(raw json.RawMessage) string {
	if in.simple {
		return ""
	}
	var value any
	err := json.Unmarshal(raw, &value)
	if err == nil {
		err = in.resolved.Validate(value)
	}
	if err != nil {
		return fmt.Sprintf("the input of %s does not fit its schema: %v", in.tool, err)
	}
	return ""
}

// takes lists the parameters.
func (in *inputs) takes() string {
	names := slices.Clone(in.schema.Required)
	for _, name := range slices.Sorted(maps.Keys(in.schema.Properties)) {
		if !slices.Contains(names, name) {
			names = append(names, name+" (optional)")
		}
	}
	if len(names) == 0 {
		return "it takes none"
	}
	return "it takes " + strings.Join(names, ", ")
}
