package gateway

import (
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// The document is for generators of clients as much as for people: what they cannot see in the
// types of the handlers is added here.

const about = "Sandboxes over HTTP: their life, and the files, searches and commands in them. " +
	"A sandbox's name is its tenant's own. A token says whose the caller is."

// tags are the groups of operations, by what follows a sandbox's name in their paths.
var tags = []*huma.Tag{
	{Name: "sandboxes", Description: "the life of sandboxes"},
	{Name: "files", Description: "files, directories and whole trees, and states of the workdir"},
	{Name: "search", Description: "files by their names and their content"},
	{Name: "commands", Description: "commands, their input and output, and terminals"},
	{Name: callerTag, Description: "who calls"},
}

// callerTag is the group of what is about no sandbox.
const callerTag = "caller"

var tagOf = map[string]string{
	"files": "files", "tree": "files", "watch": "files", "checkpoints": "files", "glob": "search", "grep": "search", "exec": "commands", "processes": "commands", "terminal": "commands",
}

// complete puts an operation into its group, and says what a sandbox's name is like.
func complete(doc *huma.OpenAPI, op *huma.Operation) {
	delete(doc.Components.Schemas.Map(), reflect.TypeFor[huma.ErrorModel]().Name()) // no answer is of it
	for _, p := range op.Parameters {
		if limit := nameLimit; p.In == "path" && p.Name == "id" {
			p.Schema.Pattern, p.Schema.PatternDescription, p.Schema.MaxLength = namePattern, "lowercase letters, digits and single hyphens", &limit
			p.Schema.PrecomputeMessages()
			p.Schema.PatternDescription = "" // the messages have it, and OpenAPI does not
		}
	}
	part, _, _ := strings.Cut(strings.TrimPrefix(op.Path, sandboxRoot+"/"), "/")
	if op.Tags == nil {
		if name := tagOf[part]; name != "" {
			op.Tags = []string{name}
		} else {
			op.Tags = []string{"sandboxes"}
		}
	}
}

// describe adds to an empty document what is true of the whole.
func describe(doc *huma.OpenAPI) {
	doc.Info.Description, doc.Tags = about, tags
	doc.Servers = []*huma.Server{{URL: "/", Description: "the gateway that serves this document"}}
	doc.Info.License = &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"}
	doc.Components.SecuritySchemes = map[string]*huma.SecurityScheme{"token": {Type: "http", Scheme: "bearer"}}
	doc.Security = []map[string][]string{{"token": {}}}
	doc.OnAddOperation = append(doc.OnAddOperation, complete)
}

// binarySchema is the schema of bytes.
var binarySchema = &huma.Schema{Type: huma.TypeString, Format: "binary"}

// etagHeader describes the header of an answer with an etag.
var etagHeader = map[string]*huma.Param{
	"ETag": {Description: "the file's etag, for If-Match", Schema: &huma.Schema{Type: huma.TypeString}},
}
