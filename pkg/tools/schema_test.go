package tools_test

import (
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/podagent/podagent/pkg/tools"
)

// metaSchema returns the meta-schema of JSON Schema 2020-12, which comes with
// the validator.
func metaSchema(t *testing.T) *jsonschema.Resolved {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/google/jsonschema-go").Output()
	if err != nil {
		t.Fatal(err)
	}
	load := func(uri *url.URL) (*jsonschema.Schema, error) {
		name := strings.TrimPrefix(uri.Path, "/draft/2020-12/") + ".json"
		data, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "jsonschema/meta-schemas/draft2020-12", name))
		if err != nil {
			return nil, err
		}
		var schema jsonschema.Schema
		return &schema, json.Unmarshal(data, &schema)
	}
	schema, err := load(&url.URL{Path: "/draft/2020-12/schema"})
	if err != nil {
		t.Fatal(err)
	}
	resolved, err := schema.Resolve(&jsonschema.ResolveOptions{Loader: load})
	if err != nil {
		t.Fatal(err)
	}
	return resolved
}

func TestSchemasFitTheMetaSchema(t *testing.T) {
	meta := metaSchema(t)
	for _, spec := range tools.New(nil, tools.Options{}, every()...).Specs() {
		var schema any
		if err := json.Unmarshal(spec.InputSchema, &schema); err != nil {
			t.Fatal(err)
		}
		if err := meta.Validate(schema); err != nil {
			t.Errorf("%s: %v", spec.Name, err)
		}
	}
	if meta.Validate(map[string]any{"type": "objekt"}) == nil {
		t.Error("the meta-schema takes everything")
	}
}
