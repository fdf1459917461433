package gateway

import (
	"io/fs"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/podagent/podagent/pkg/fsops"
)

// File describes a file.
type File struct {
	Path      string    `json:"path,omitempty" doc:"as the caller named it, or below the directory that was listed"`
	PathOther []byte    `json:"path_base64,omitempty" doc:"in place of path, if that is not UTF-8"`
	Type      string    `json:"type" enum:"file,directory,symlink,fifo,socket,device"`
	Size      int64     `json:"size" doc:"in bytes"`
	Mode      string    `json:"mode" doc:"the permissions, in octal" example:"0644"`
	ModTime   time.Time `json:"mtime"`
	UID       uint32    `json:"uid"`
	GID       uint32    `json:"gid"`
	Target    string    `json:"target,omitempty" doc:"what a symbolic link names"`
	ETag      string    `json:"etag,omitempty" doc:"of the content, as the header ETag has it"`
}

func fileOf(a fsops.Attr) File {
	f := File{
		Type: fsops.TypeName(a.Mode), Size: a.Size, Mode: fsops.OctalMode(a.Mode), ModTime: a.ModTime,
		UID: a.UID, GID: a.GID, Target: a.Target, ETag: quoted(a.ETag),
	}
	f.Path, f.PathOther = split(a.Path)
	return f
}

// quoted returns an etag as a header has it (RFC 9110).
func quoted(etag string) string {
	if etag == "" {
		return ""
	}
	return `"` + etag + `"`
}

// unquoted returns the etag of a header's value, which must be one alone; "" for none.
func unquoted(value string) (string, error) {
	if value == "" {
		return "", nil
	}
	if n := len(value); n > 2 && value[0] == '"' && value[n-1] == '"' {
		return value[1 : n-1], nil
	}
	return "", invalid("If-Match: there must be one etag, in double quotes")
}

func (g *Gateway) fileOperations() {
	const files = sandboxRoot + "/files"
	content := bodyOf("application/octet-stream", binarySchema)
	ranges := map[string]*huma.MediaType{"application/octet-stream": {Schema: binarySchema}, "multipart/byteranges": {Schema: binarySchema}}
	get := huma.Operation{
		OperationID: "read-file", Method: http.MethodGet, Path: files, Summary: "Read a file, or a range of it",
		Parameters: []*huma.Param{
			pathParam,
			param("header", "Range", huma.TypeString, "the part to read, such as bytes=0-99"),
			param("header", "If-Range", huma.TypeString, "the etag that the file must have for Range to count"),
			param("header", "If-Match", huma.TypeString, "the etag that the file must have"),
			param("header", "If-None-Match", huma.TypeString, "the etag that the caller has"),
		},
		Responses: map[string]*huma.Response{
			"200": {Description: "the content", Content: content, Headers: etagHeader},
			"206": {Description: "the range, or the ranges", Content: ranges, Headers: etagHeader},
			"304": {Description: "it is unchanged, as If-None-Match or If-Modified-Since asks"},
		},
	}
	g.raw(get, (*rawCall).readFile)
	head := get
	head.OperationID, head.Method, head.Summary = "head-file", http.MethodHead, "Describe a file's content by headers"
	head.Responses = map[string]*huma.Response{"200": {Description: "as read-file answers", Headers: etagHeader}, "206": {Description: "the same"}, "304": {Description: "the same"}}
	g.raw(head, (*rawCall).readFile)
	g.raw(huma.Operation{
		OperationID: "write-file", Method: http.MethodPut, Path: files, Summary: "Make or replace a file, as a whole or not at all",
		Parameters: []*huma.Param{
			pathParam,
			param("header", "If-Match", huma.TypeString, "the etag that the file must have"),
			param("header", "If-None-Match", huma.TypeString, "with *, there must be no such file"),
			param("query", "mode", huma.TypeString, "the permissions of a new file, in octal; those of an old one stay"),
			param("query", "parents", huma.TypeBoolean, "make the directories that are missing"),
		},
		RequestBody: &huma.RequestBody{Required: true, Content: content},
		Responses:   map[string]*huma.Response{"200": {Description: "it was replaced", Headers: etagHeader}, "201": {Description: "it was made", Headers: etagHeader}},
	}, (*rawCall).writeFile)
	g.raw(huma.Operation{
		OperationID: "delete-file", Method: http.MethodDelete, Path: files, Summary: "Remove a file, or a directory",
		Parameters: []*huma.Param{pathParam, param("query", "recursive", huma.TypeBoolean, "remove a directory with all that is in it")},
		Responses:  map[string]*huma.Response{"204": {Description: "it is gone"}},
	}, (*rawCall).removeFile)
}

func (c *rawCall) writeFile() error {
	options, err := c.writeOptions()
	if err != nil {
		return err
	}
	done, err := c.sandbox.Write(c, c.query("path"), c.r.Body, options)
	if err != nil {
		return err
	}
	c.w.Header().Set("ETag", quoted(done.Attr.ETag))
	if done.Created {
		c.w.WriteHeader(http.StatusCreated)
	}
	return nil
}

func (c *rawCall) writeOptions() (o fsops.WriteOptions, err error) {
	if o.IfMatch, err = unquoted(c.r.Header.Get("If-Match")); err != nil {
		return o, err
	}
	switch c.r.Header.Get("If-None-Match") {
	case "":
	case "*":
		o.Exclusive = true
	default:
		return o, invalid("If-None-Match can only be *")
	}
	if o.Perm, err = modeOf(c.query("mode")); err != nil {
		return o, err
	}
	o.Parents, err = c.flag("parents")
	return o, err
}

// modeOf returns the permissions that a text names in octal; 0 for none.
func modeOf(octal string) (fs.FileMode, error) {
	if octal == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(octal, 8, 32)
	if err != nil || n > 0o777 {
		return 0, invalid("mode: %q is not permissions in octal, such as 0644", octal)
	}
	return fs.FileMode(n), nil
}

func (c *rawCall) removeFile() error {
	all, err := c.flag("recursive")
	if err != nil {
		return err
	}
	remove := c.sandbox.Remove
	if all {
		remove = c.sandbox.RemoveAll
	}
	if err := remove(c, c.query("path")); err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}
