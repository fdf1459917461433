package gateway

import (
	"net/http"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/podagent/podagent/pkg/fsops"
)

func (g *Gateway) treeOperations() {
	const path = sandboxRoot + "/tree"
	tar := bodyOf("application/x-tar", binarySchema)
	g.raw(huma.Operation{
		OperationID: "read-tree", Method: http.MethodGet, Path: path, Summary: "Read a directory with all that is in it, as a tar archive",
		Parameters: []*huma.Param{
			pathParam,
			param("query", "ignore", huma.TypeBoolean, "leave out what .gitignore files and their like exclude"),
			param("query", "exclude", huma.TypeString, "leave out what matches one of these globs, with commas between"),
		},
		Responses: map[string]*huma.Response{"200": {Description: "the archive", Content: tar}},
	}, (*rawCall).readTree)
	g.raw(huma.Operation{
		OperationID: "write-tree", Method: http.MethodPut, Path: path, Summary: "Unpack a tar archive into a directory",
		Parameters: []*huma.Param{
			pathParam,
			param("query", "keep_modes", huma.TypeBoolean, "set the modes as the archive has them"),
			param("query", "outside_links", huma.TypeBoolean, "allow symbolic links that lead out of the directory"),
		},
		RequestBody: &huma.RequestBody{Required: true, Content: tar},
		Responses:   map[string]*huma.Response{"200": {Description: "it is unpacked", Content: bodyOf(jsonType, g.schema(reflect.TypeFor[TreeCount]()))}},
	}, (*rawCall).writeTree)
}

// TreeCount says what an archive had.
type TreeCount struct {
	Entries int64 `json:"entries" doc:"files, directories and links"`
	Bytes   int64 `json:"bytes" doc:"the sum of the files' sizes"`
	Skipped int64 `json:"skipped" doc:"devices, FIFOs and sockets, which were left out"`
}

func (c *rawCall) readTree() error {
	o := fsops.ArchiveOptions{}
	if c.query("exclude") != "" {
		o.Exclude = strings.Split(c.query("exclude"), ",")
	}
	if err := c.flags(map[string]*bool{"ignore": &o.Ignore}); err != nil {
		return err
	}
	c.w.Header().Set("Content-Type", "application/x-tar")
	_, err := c.sandbox.PullTar(c, c.query("path"), firstWrite{c}, o)
	return err
}

// firstWrite notes that an answer has begun.
type firstWrite struct{ *rawCall }

func (w firstWrite) Write(p []byte) (int, error) {
	w.began = true
	return w.w.Write(p)
}

func (c *rawCall) writeTree() error {
	o := fsops.ExtractOptions{}
	if err := c.flags(map[string]*bool{"keep_modes": &o.KeepModes, "outside_links": &o.OutsideLinks}); err != nil {
		return err
	}
	stats, err := c.sandbox.PushTar(c, c.r.Body, c.query("path"), o)
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, TreeCount(stats))
}
