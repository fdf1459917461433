package agentsandbox

import (
	"bytes"
	"io"
	"mime/multipart"
	"strings"
	"testing"

	"github.com/podagent/podagent/test/contracts"
)

// form returns the body of a form with these fields, NAME or NAME/FILENAME and their content, and its type.
func form(fields ...[2]string) (body, kind string) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for _, field := range fields {
		name, file, isFile := strings.Cut(field[0], "/")
		make := func() (io.Writer, error) { return w.CreateFormField(name) }
		if isFile {
			make = func() (io.Writer, error) { return w.CreateFormFile(name, file) }
		}
		part, _ := make()
		_, _ = part.Write([]byte(field[1]))
	}
	_ = w.Close()
	return b.String(), "Content-Type: " + w.FormDataContentType()
}

func TestVerbsOfThePythonRuntime(t *testing.T) {
	b := newBox(t)
	b.saw(contracts.Works, "Run", "Write", "Read", "List", "Exists")
	body, kind := form([2]string{"note", "x"}, [2]string{"file/a b.txt", "content"})
	deep, deepKind := form([2]string{"file/dir/deep.txt", "deep"})
	json := []string{"Content-Type: application/json"}
	b.steps([]step{
		{"GET", "/", "", nil, 200, []string{`"status":"ok"`}},
		{"POST", "/execute", `{"command":"sh -c 'printf \"%s out\\n\" \"$0\"; echo err >&2; exit 3' \"a  b\""}`, json, 200, []string{`"stdout":"a  b out\n"`, `"stderr":"err\n"`, `"exit_code":3`}},
		{"POST", "/execute", `{"command":"echo a && b"}`, json, 200, []string{`"stdout":"a && b\n"`}},
		{"POST", "/execute", `{"command":"sh -c 'kill -9 $$'"}`, json, 200, []string{`"exit_code":-9`}},
		{"POST", "/execute", `{"command":"no-such-command"}`, json, 200, []string{`"exit_code":1`, `Failed to execute command`}},
		{"POST", "/execute", `{"command":"echo 'a"}`, json, 200, []string{`"exit_code":1`, `not closed`}},
		{"POST", "/execute", `{"command":"  "}`, json, 200, []string{`"exit_code":1`, `there is no command`}},
		{"POST", "/execute", `{"command":"pwd"}`, json, 200, []string{b.sandbox.Workdir}},
		{"POST", "/upload", body, []string{kind}, 200, []string{`"message"`, `a b.txt`}},
		{"POST", "/upload", deep, []string{deepKind}, 200, nil},
		{"GET", "/download/a%20b.txt", "", nil, 200, []string{"content"}},
		{"GET", "/download/dir%2Fdeep.txt", "", nil, 200, []string{"deep"}},
		{"GET", "/download/%2Fdir%2Fdeep.txt", "", nil, 200, []string{"deep"}},
		{"GET", "/download/none", "", nil, 404, []string{`{"detail":`}},
		{"GET", "/download/dir", "", nil, 404, []string{`{"detail":`}},
		{"GET", "/download/..%2F..%2Fetc%2Fpasswd", "", nil, 403, []string{`{"detail":`}},
		{"GET", "/list/%2E", "", nil, 200, []string{`"name":"a b.txt","size":7,"type":"file","mod_time":1`, `"name":"dir"`, `"type":"directory"`}},
		{"GET", "/list/none", "", nil, 404, []string{`{"detail":`}},
		{"GET", "/list/dir%2Fdeep.txt", "", nil, 404, []string{`{"detail":`}},
		{"GET", "/exists/dir%2Fdeep.txt", "", nil, 200, []string{`{"path":"dir/deep.txt","exists":true}`}},
		{"GET", "/exists/dir", "", nil, 200, []string{`"exists":true`}},
		{"GET", "/exists/none%2Fnone", "", nil, 200, []string{`"exists":false`}},
		{"GET", "/exists/dir%2Fdeep.txt%2Fx", "", nil, 200, []string{`"exists":false`}},
		{"GET", "/exists/%2E%2E", "", nil, 403, []string{`{"detail":`}},
	})
}

func TestWrongRequestsToThePythonRuntime(t *testing.T) {
	b := newBox(t)
	nameless, namelessKind := form([2]string{"note", "x"})
	large, largeKind := form([2]string{"note", strings.Repeat("x", partLimit+1)}, [2]string{"file/a", "x"})
	cut, cutKind := form([2]string{"file/cut", "content"})
	json := []string{"Content-Type: application/json"}
	b.steps([]step{
		{"POST", "/execute", `{`, json, 400, []string{`{"detail":`}},
		{"POST", "/execute", `{}`, json, 400, []string{`the body lacks command`}},
		{"POST", "/execute", `{"command":["a"]}`, json, 400, []string{`{"detail":`}},
		{"POST", "/execute", `{"command":"` + strings.Repeat("x", bodyLimit) + `"}`, json, 413, []string{`{"detail":`}},
		{"POST", "/execute", `{"command":"head -c 9000000 /dev/zero"}`, json, 413, []string{`larger than an answer may be`}},
		{"POST", "/upload", "x", nil, 400, []string{`multipart/form-data`}},
		{"POST", "/upload", "x", []string{"Content-Type: multipart/form-data"}, 400, []string{`boundary`}},
		{"POST", "/upload", "x", []string{"Content-Type: multipart/form-data; boundary=x"}, 400, []string{`{"detail":`}},
		{"POST", "/upload", nameless, []string{namelessKind}, 400, []string{`lacks the field`}},
		{"POST", "/upload", large, []string{largeKind}, 413, []string{`too much beside`}},
		{"POST", "/upload", cut[:len(cut)-20], []string{cutKind}, 400, []string{`{"detail":`}},
		{"GET", "/exists/cut", "", nil, 200, []string{`"exists":false`}},
		{"GET", "/execute", "", nil, 405, []string{`{"detail":`}},
		{"POST", "/list/x", "", nil, 405, []string{`{"detail":`}},
		{"GET", "/none", "", nil, 404, []string{`{"detail":`}},
	})
}
