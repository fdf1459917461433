package gateway

import (
	"errors"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/podagent/podagent/pkg/fsops/checkpoint"
	"github.com/podagent/podagent/pkg/podapi"
)

// checkpointFileOperations are those that carry a checkpoint out of a sandbox, and into one. Neither holds more
// of it than some messages.
func (g *Gateway) checkpointFileOperations() {
	const checkpoints = sandboxRoot + "/checkpoints"
	file := bodyOf("application/zstd", binarySchema)
	g.rawWith(huma.Operation{
		OperationID: "export-checkpoint", Method: http.MethodGet, Path: checkpoints + "/{checkpoint}/export", Summary: "Read a checkpoint as one file",
		Description: "import-checkpoint takes it, and compares it with its hashes. An export that fails after its first byte is cut off.",
		Parameters:  []*huma.Param{checkpointParam()},
		Responses:   map[string]*huma.Response{"200": {Description: "the file", Content: file}},
	}, (*rawCall).readCheckpoint, (*rawCall).exportCheckpoint)
	g.raw(huma.Operation{
		OperationID: "import-checkpoint", Method: http.MethodPost, Path: checkpoints + "/import", Summary: "Give a sandbox the checkpoint in a file",
		Description: "The file is one of export-checkpoint. The files in the workdir stay as they are until restore-checkpoint. " +
			"A file that is cut off or was changed is refused as a whole. Another import of it changes nothing.",
		RequestBody: &huma.RequestBody{Required: true, Content: file},
		Responses:   map[string]*huma.Response{"200": {Description: "the sandbox has it", Content: bodyOf(jsonType, g.schema(reflect.TypeFor[Checkpoint]()))}},
	}, (*rawCall).importCheckpoint)
}

// checkpointParam is the id in a path, for operations that answer by themselves.
func checkpointParam() *huma.Param {
	id := param("path", "checkpoint", huma.TypeString, checkpointDoc)
	id.Required, id.Schema.Pattern = true, checkpointPattern
	return id
}

func (c *rawCall) readCheckpoint() (Detail, error) {
	id, err := checkpointID(c.r.PathValue("checkpoint"))
	return Detail{Args: []string{string(id)}}, err
}

func (c *rawCall) exportCheckpoint() error {
	c.w.Header().Set("Content-Type", "application/zstd")
	id := checkpoint.ID(c.r.PathValue("checkpoint")) // readCheckpoint has checked it
	return noCheckpoints(c.sandbox.ExportCheckpoint(c, id, firstWrite{c}, checkpoint.FileOptions{Unverified: true}))
}

func (c *rawCall) importCheckpoint() error {
	got, err := c.sandbox.ImportCheckpoint(c, c.r.Body, podapi.CopyOptions{})
	if errors.Is(err, checkpoint.ErrNoFile) {
		return invalid("the body: %v", err)
	}
	if err != nil {
		return noCheckpoints(err)
	}
	return c.json(http.StatusOK, checkpointOf(got.Checkpoint))
}
