package e2b

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"io/fs"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/test/contracts"
)

const octets = "Content-Type: application/octet-stream"

// field is a field of a form.
type field struct{ name, file, text string }

// form returns the body of a form, and its content type as a header.
func form(t *testing.T, fields ...field) (body, kind string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for _, f := range fields {
		part, err := w.CreateFormFile(f.name, f.file)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(part, f.text)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String(), "Content-Type: " + w.FormDataContentType()
}

// uploads sends the body to /files with the query, and checks the answer; {wd} is the working directory.
func (d *envdDoor) uploads(query, body string, status int, want string, headers ...string) {
	d.Helper()
	got := d.send("POST", "/files"+query, body, headers...)
	if want := strings.ReplaceAll(want, "{wd}", regexp.QuoteMeta(d.dir)); got.StatusCode != status || !regexp.MustCompile(want).MatchString(got.text) {
		d.Errorf("POST /files%s: %d %s\nwant %d %s", query, got.StatusCode, got.text, status, want)
	}
}

func TestFilesAreUploaded(t *testing.T) {
	contracts.Record(t, "e2b", "HTTP").Saw(contracts.Works, "files.write of text, bytes, streams", "files.write of several")
	d := newEnvdDoor(t)
	d.uploads("?path=a/b/octets", "one", 200, `^\[{"path":"{wd}/a/b/octets","name":"octets","type":"file"}\]`, octets)
	d.uploads("?path=a/b/octets&username=user", "two", 200, ``, octets+"; charset=x")
	d.uploads("?path="+url.QueryEscape(d.path("gzip")), gzipped("three"), 200, `"name":"gzip"`, octets, "Content-Encoding: gzip")
	d.uploads("?path=empty", "", 200, `"name":"empty"`, octets)
	body, kind := form(t, field{"file", "ignored", "four"})
	d.uploads("?path=form", body, 200, `"path":"{wd}/form"`, kind)
	d.uploads("?path=form-gzip", gzipped(body), 200, ``, kind, "Content-Encoding: gzip")
	body, kind = form(t, field{"file", "many/é 1", "1"}, field{"other", "x", "x"}, field{"file", d.path("many/2"), ""}, field{"file", "3", "3"})
	d.uploads("", body, 200, `^\[{"path":"{wd}/many/é 1",.*},{"path":"{wd}/many/2","name":"2","type":"file"},{"path":"{wd}/3"`, kind)
	for name, want := range map[string]string{"a/b/octets": "two", "gzip": "three", "empty": "", "form": "four", "form-gzip": "four", "many/é 1": "1", "many/2": "", "3": "3"} {
		if got := d.content(name); got != want {
			t.Errorf("%s has %q, want %q", name, got, want)
		}
	}
	if entries, err := os.ReadDir(d.path("many")); err != nil || len(entries) != 2 {
		t.Errorf("there is more than was sent: %v", entries)
	}
}

func TestManyLargeFilesAreUploaded(t *testing.T) {
	d := newEnvdDoor(t)
	var fields []field
	for i := range 100 {
		fields = append(fields, field{"file", fmt.Sprint("many/", i), strings.Repeat("x", 50_000)})
	}
	body, kind := form(t, fields...)
	d.uploads("", body, 200, `"name":"99"`, kind)
	if got := len(d.content("many/99")); got != 50_000 {
		t.Errorf("the last one has %d bytes", got)
	}
}

func TestUploadsOfWrongShapesChangeNothing(t *testing.T) {
	contracts.Record(t, "e2b", "HTTP").Saw(contracts.NotServed, "files.write with metadata")
	d := newEnvdDoor(t)
	d.write("there", "old")
	d.write("dir/x", "")
	whole, kind := form(t, field{"file", "", "new"})
	other, otherKind := form(t, field{"data", "there", "new"})
	large, largeKind := form(t, field{"data", "", strings.Repeat("x", 2*otherPartLimit)}, field{"file", "there", "new"})
	twice, twiceKind := form(t, field{"file", "first", "1"}, field{"file", "./first", "2"})
	for _, c := range []struct {
		name, query, body string
		status            int
		want              string
		headers           []string
	}{
		{"without a type", "?path=there", "new", 400, "the Content-Type must be", []string{"Content-Type: "}},
		{"of JSON", "?path=there", "{}", 400, "the Content-Type must be", []string{"Content-Type: application/json"}},
		{"of a form without a boundary", "?path=there", whole, 400, "the Content-Type must be", []string{"Content-Type: multipart/form-data"}},
		{"of another multipart", "?path=there", whole, 400, "the Content-Type must be", []string{strings.Replace(kind, "form-data", "mixed", 1)}},
		{"without a path", "", "new", 400, "the query lacks path", []string{octets}},
		{"without any name", "", strings.Replace(whole, `filename=""`, `x="y"`, 1), 400, "no file name", []string{kind}},
		{"without a file", "?path=there", other, 400, "the form has no file", []string{otherKind}},
		{"with too much beside the file", "?path=there", large, 400, "too much beside its files", []string{largeKind}},
		{"with too much before the file", "?path=there", strings.Repeat("\r\n", otherPartLimit) + whole, 400, "too much beside its files", []string{kind}},
		{"with too much before the file, in gzip", "?path=there", gzipped(strings.Repeat("\n", 2*otherPartLimit) + whole), 400, "too much beside its files", []string{kind, "Content-Encoding: gzip"}},
		{"of nothing", "?path=there", "", 400, "the form", []string{kind}},
		{"that is cut off", "?path=there", whole[:len(whole)-len(whole)/3], 400, "", []string{kind}},
		{"whose header is none", "?path=there", strings.Replace(whole, "Content-Disposition:", "Content-Disposition", 1), 400, "", []string{kind}},
		{"with a wrong boundary", "?path=there", whole, 400, "the form", []string{"Content-Type: multipart/form-data; boundary=x"}},
		{"that is not gzip", "?path=there", "new", 400, "not gzip", []string{octets, "Content-Encoding: gzip"}},
		{"whose gzip is cut off", "?path=there", gzipped("new content")[:20], 400, "the body", []string{octets, "Content-Encoding: gzip"}},
		{"whose gzip is damaged", "?path=there", gzipped("new content")[:30] + "damage", 400, "the body", []string{octets, "Content-Encoding: gzip"}},
		{"whose compressed form is cut off", "?path=there", gzipped(whole)[:60], 400, "", []string{kind, "Content-Encoding: gzip"}},
		{"of another coding", "?path=there", "new", 400, "is not supported", []string{octets, "Content-Encoding: br"}},
		{"with metadata", "?path=there", "new", 501, "metadata of files is not supported", []string{octets, "X-Metadata-A: b"}},
		{"onto a directory", "?path=dir", "new", 400, "directory", []string{octets}},
		{"below a file", "?path=there/x", "new", 400, "directory", []string{octets}},
		{"at home", "?path=~/x", "new", 400, "~ is not known here", []string{octets}},
		{"of a name that is too long", "?path=" + strings.Repeat("x", 256), "new", 400, "name too long", []string{octets}},
		{"of a name with a NUL", "?path=a%00b", "new", 400, "invalid", []string{octets}},
		{"twice", "", twice, 400, "first is in the request twice: the first one was written", []string{twiceKind}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := d.send("POST", "/files"+c.query, c.body, c.headers...)
			if got.StatusCode != c.status || !strings.Contains(got.text, c.want) || !strings.HasPrefix(got.text, fmt.Sprintf(`{"code":%d,"message":"`, c.status)) {
				t.Errorf("%d %s, want %d and %s", got.StatusCode, got.text, c.status, c.want)
			}
			if got := d.content("there"); got != "old" {
				t.Fatalf("the file was changed to %q", got)
			}
		})
	}
	if got := d.content("first"); got != "1" {
		t.Errorf("the first one of two files of a name has %q", got)
	}
}

// fullDisk is a face of a sandbox whose disk is full.
type fullDisk struct{ Face }

func (f *fullDisk) Serve(w http.ResponseWriter, r *http.Request, c *gateway.Call) {
	r = r.WithContext(context.WithValue(r.Context(), envdCallKey{}, &envdCall{Call: c, face: &f.Face}))
	rest(func(*restCall) error { return &fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC} }).ServeHTTP(w, r)
}

func TestFullDiskIsToldAsSuch(t *testing.T) {
	d := newEnvdDoor(t, func(o *gateway.Options) { o.Faces[1] = &fullDisk{} })
	d.uploads("?path=x", "text", 507, `{"code":507,"message":".*no space left on device"}`, octets)
}

func TestFilesAreDownloaded(t *testing.T) {
	contracts.Record(t, "e2b", "HTTP").Saw(contracts.Works, "files.read as text, bytes, blob, stream")
	d := newEnvdDoor(t)
	text := strings.Repeat("Some text. ", 100_000)
	d.write("file", text)
	d.write("empty", "")
	d.write("quo\"te é", "x")
	for _, c := range []struct {
		query, headers string
		status         int
		want           string
	}{
		{"path=file", "", 200, text},
		{"path=" + d.path("file") + "&username=user", "", 200, text},
		{"path=file", "Range: bytes=5-8", 206, "text"},
		{"path=file", "Range: bytes=9999999-", 416, "the range is not in the file"},
		{"path=file", "Accept-Encoding: gzip, deflate, br", 200, text},
		{"path=empty", "", 200, ""},
		{"path=empty", "Accept-Encoding: gzip", 200, ""},
		{"path=" + url.QueryEscape("quo\"te é"), "", 200, "x"},
		{"path=nothing", "", 404, `{"code":404,"message":"`},
		{"path=nothing", "Accept-Encoding: gzip", 404, `{"code":404,"message":"`},
		{"path=.", "", 400, `{"code":400,"message":"`},
		{"path=file/x", "", 400, `{"code":400,"message":"`},
		{"path=~", "", 400, `~ is not known here`},
		{"", "", 400, `{"code":400,"message":"`},
	} {
		got := d.send("GET", "/files?"+c.query, "", "Accept-Encoding: identity", c.headers)
		if got.StatusCode != c.status || c.status < 300 && got.text != c.want || !strings.Contains(got.text, c.want) {
			t.Errorf("%s %s: %d %.200s, want %d %.100s", c.query, c.headers, got.StatusCode, got.text, c.status, c.want)
		}
		if got.StatusCode >= 300 && got.Header.Get("Content-Disposition")+got.Header.Get("ETag") != "" {
			t.Errorf("%s: an error is described as the file: %v", c.query, got.Header)
		}
		if want := strconv.Itoa(len(c.want)); c.status == 200 && got.Header.Get("Content-Length") != want {
			t.Errorf("%s has the length %q, want %s", c.query, got.Header.Get("Content-Length"), want)
		}
		if kind := got.Header.Get("Content-Type"); c.status == 200 && (kind != "application/octet-stream" || !strings.HasPrefix(got.Header.Get("Content-Disposition"), "attachment;")) {
			t.Errorf("%s is of type %s, %s", c.query, kind, got.Header.Get("Content-Disposition"))
		}
	}
	etag := d.send("GET", "/files?path=file", "", "Accept-Encoding: identity").Header.Get("ETag")
	if got := d.send("GET", "/files?path=file", "", "If-None-Match: "+etag); got.StatusCode != 304 || len(etag) < 5 {
		t.Errorf("unchanged since %s: %d", etag, got.StatusCode)
	}
	got := d.send("GET", "/files?path=file", "", "Accept-Encoding: gzip")
	z, err := gzip.NewReader(strings.NewReader(got.text))
	if err != nil || got.Header.Get("Content-Encoding") != "gzip" {
		t.Fatal(got.Header, err)
	}
	if plain, err := io.ReadAll(z); err != nil || string(plain) != text {
		t.Errorf("decompressed it has %d bytes, %v", len(plain), err)
	}
	if got := d.send("GET", "/files?path=file", "", "Accept-Encoding: gzip", "Range: bytes=0-3"); got.text != "Some" {
		t.Errorf("a range of it, compressed: %d %q", got.StatusCode, got.text)
	}
}

func TestWhoAsksForGzipGetsIt(t *testing.T) {
	for header, want := range map[string]bool{
		"gzip": true, "GZIP;q=0.5": true, "gzip, identity;q=0": true, "gzip;q=1, *;q=0": true,
		"": false, "gzip, deflate": false, "gzip;q=0": false, "identity": false, "br": false, "gzip;q=x": true, "*": false, ", ,": false,
	} {
		if got := wantsGzip(http.Header{"Accept-Encoding": {header}}); got != want {
			t.Errorf("%q: %t", header, got)
		}
	}
}

// in returns a time as signatures have it.
func in(seconds int64) string { return strconv.FormatInt(time.Now().Unix()+seconds, 10) }

// signed returns a query that is signed for an operation.
func (d *envdDoor) signed(path, op, user, expiration string) string {
	q := url.Values{"path": {path}, "signature": {signer(path, op, user, expiration)(d.token)}}
	if user != "" {
		q.Set("username", user)
	}
	if expiration != "" {
		q.Set("signature_expiration", expiration)
	}
	return q.Encode()
}

func TestSignedURLsOpenAFileEach(t *testing.T) {
	contracts.Record(t, "e2b", "HTTP").Saw(contracts.Works, "downloadUrl, uploadUrl")
	d := newEnvdDoor(t)
	d.write("file", "text")
	d.rest("POST", "/api/v1/sandboxes", `{"id":"other"}`)
	get := func(id, query string) reply {
		return d.send("GET", "/files?"+query, "", "X-Access-Token: ", headerSandbox+": "+id)
	}
	query := d.signed
	soon := in(1000)
	for _, c := range []struct {
		name, id, query string
		status          int
		want            string
	}{
		{"for ever", d.id, query("file", "read", "", ""), 200, "text"},
		{"for a while", d.id, query("file", "read", "", soon), 200, "text"},
		{"for a user", d.id, query("file", "read", "user", soon), 200, "text"},
		{"for a file that is missing", d.id, query("nothing", "read", "", soon), 404, `{"code":404`},
		{"until before", d.id, query("file", "read", "", in(-10)), 401, `{"code":401,"message":"signature is already expired"}`},
		{"until no time", d.id, query("file", "read", "", "later"), 401, `{"code":401`},
		{"for another operation", d.id, query("file", "write", "", soon), 401, `{"code":401`},
		{"for another path", d.id, strings.Replace(query("file", "read", "", soon), "path=file", "path=other", 1), 401, `{"code":401`},
		{"for another user", d.id, strings.Replace(query("file", "read", "user", soon), "username=user", "username=root", 1), 401, `{"code":401`},
		{"for longer", d.id, strings.Replace(query("file", "read", "", soon), "expiration="+soon, "expiration="+in(2000), 1), 401, `{"code":401`},
		{"without its end", d.id, strings.Replace(query("file", "read", "", soon), "&signature_expiration="+soon, "", 1), 401, `{"code":401`},
		{"for another sandbox", idOf("acme", "other"), query("file", "read", "", soon), 401, `{"code":401`},
		{"for no signature", d.id, "path=file", 401, `{"code":401`},
		{"with a part of the path as user", d.id, query("x:read:file", "read", "a:b", soon), 401, `{"code":401`},
	} {
		if got := get(c.id, c.query); got.StatusCode != c.status || !strings.Contains(got.text, c.want) {
			t.Errorf("signed %s: %d %s, want %d %s", c.name, got.StatusCode, got.text, c.status, c.want)
		}
	}
	host := []string{headerSandbox + ": ", "X-Access-Token: ", "Host: 49983-job--acme.sandboxes.test"}
	if got := d.send("GET", "/files?"+query("file", "read", "", soon), "", host...); got.StatusCode != 200 || got.text != "text" {
		t.Errorf("by its host: %d %s", got.StatusCode, got.text)
	}
	if got := d.send("GET", "/files?"+query("file", "write", "", soon), "", host...); got.StatusCode != 401 {
		t.Errorf("by its host, for another operation: %d %s", got.StatusCode, got.text)
	}
	if got := d.send("GET", "/files?"+query("file", "read", "", soon), "", host[:2]...); got.StatusCode != 400 || !strings.Contains(got.text, "the URL names no sandbox") {
		t.Errorf("without any: %d %s", got.StatusCode, got.text)
	}
	if got := d.call("filesystem.Filesystem/Stat?"+query("file", "read", "", soon), `{"path":"file"}`, "X-Access-Token: "); got.StatusCode != 401 {
		t.Errorf("a signature opens more than files: %d %s", got.StatusCode, got.text)
	}
}

func TestSignedURLsTakeFiles(t *testing.T) {
	contracts.Record(t, "e2b", "HTTP").Saw(contracts.Works, "downloadUrl, uploadUrl")
	d := newEnvdDoor(t)
	query, soon := d.signed, in(1000)
	d.uploads("?"+query("new", "write", "", soon), "text", 200, `"name":"new"`, octets, "X-Access-Token: ")
	d.uploads("?"+query("new", "read", "", soon), "text", 401, `"code":401`, octets, "X-Access-Token: ")
	d.uploads("?"+query("new", "write", "", in(-10)), "no form", 401, `signature is already expired`, "Content-Type: multipart/form-data; boundary=x", "X-Access-Token: ")
	body, kind := form(t, field{"file", "by-name", "text"})
	d.uploads("?"+query("", "write", "", soon), body, 200, `"name":"by-name"`, kind, "X-Access-Token: ")
}

func TestHealthTellsWhetherASandboxRuns(t *testing.T) {
	contracts.Record(t, "e2b", "HTTP").Saw(contracts.Works, "isRunning")
	d := newEnvdDoor(t)
	if got := d.send("GET", "/health", ""); got.StatusCode != 204 || got.text != "" {
		t.Errorf("%d %s", got.StatusCode, got.text)
	}
	d.rest("DELETE", "/api/v1/sandboxes/job", "")
	for _, path := range []string{"/health", "/files?path=x", "/metrics", "/envs"} {
		if got := d.send("GET", path, ""); got.StatusCode != 502 {
			t.Errorf("%s of a sandbox that is gone: %d %s", path, got.StatusCode, got.text)
		}
	}
	if got := d.call("filesystem.Filesystem/Stat", `{"path":"file"}`); got.StatusCode != 502 {
		t.Errorf("a call in a sandbox that is gone: %d %s", got.StatusCode, got.text)
	}
	if got := d.send("GET", "/health", "", "X-Access-Token: x"); got.StatusCode != 401 {
		t.Errorf("with another token: %d %s", got.StatusCode, got.text)
	}
}

func TestUseAndEnvironmentAreTold(t *testing.T) {
	contracts.Record(t, "e2b", "HTTP").Saw(contracts.Works, "use and environment")
	d := newEnvdDoor(t)
	if got := d.send("GET", "/metrics", ""); got.StatusCode != 200 || !regexp.MustCompile(`^{"ts":1\d{9},"cpu_count":\d+,.*"disk_total":[1-9]`).MatchString(got.text) {
		t.Errorf("%d %s", got.StatusCode, got.text)
	}
	if got := d.send("GET", "/envs", ""); got.StatusCode != 200 || !regexp.MustCompile(`^{.*"PATH":"/`).MatchString(got.text) {
		t.Errorf("%d %s", got.StatusCode, got.text)
	}
}

func TestPagesMayCallEnvd(t *testing.T) {
	d := newEnvdDoor(t)
	got := d.send("OPTIONS", "/files?path=x", "", "X-Access-Token: ", headerSandbox+": ", "Origin: https://page.test",
		"Access-Control-Request-Method: POST", "Access-Control-Request-Headers: content-type, E2b-Sandbox-Id,x-access-token")
	if h := got.Header; got.StatusCode != 204 || h.Get("Access-Control-Allow-Origin") != "*" || !strings.Contains(h.Get("Access-Control-Allow-Headers"), "x-access-token") {
		t.Errorf("a page may not send: %d %v", got.StatusCode, got.Header)
	}
	for path, status := range map[string]int{"/health": 204, "/files?path=nothing": 404} {
		if got := d.send("GET", path, "", "Origin: https://page.test"); got.StatusCode != status || got.Header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("a page cannot read the answer: %d %v", got.StatusCode, got.Header)
		}
	}
	if got := d.send("OPTIONS", "/v2/sandboxes", "", "X-Access-Token: ", headerSandbox+": ", "Access-Control-Request-Method: POST", "Access-Control-Request-Headers: x-api-key"); got.Header.Get("Access-Control-Allow-Headers") != "" {
		t.Errorf("a page may send to the control plane: %v", got.Header)
	}
}

// FuzzUpload has bodies of any shape: each is refused, or has files with names.
func FuzzUpload(f *testing.F) {
	const kind = "multipart/form-data; boundary=x"
	f.Add(kind, "", "", []byte("--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\ntext\r\n--x--\r\n"))
	f.Add(kind, "gzip", "a", []byte(gzipped("--x\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n\r\n--x--")))
	f.Add("application/octet-stream", "", "a", []byte("text"))
	f.Fuzz(func(t *testing.T, kind, coding, path string, body []byte) {
		r, err := http.NewRequest("POST", "/files", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Content-Type": {kind}, "Content-Encoding": {coding}}
		c := &restCall{r: r, query: url.Values{"path": {path}}}
		u, err := c.upload()
		for files := 0; err == nil; files++ {
			if err = u.next(); err != nil {
				break
			}
			if u.name == "" || files > len(body) {
				t.Fatalf("file %d has the name %q", files, u.name)
			}
			if _, err = io.Copy(io.Discard, u.content); err != nil && u.explain(err) == err {
				t.Fatalf("%v is not told as the caller's", err)
			}
		}
	})
}

// TestURLThatCannotBeSignedIsNotHashed has URLs that anybody may send.
func TestURLThatCannotBeSignedIsNotHashed(t *testing.T) {
	path, good := strings.Repeat("x", signedLimit), signer("", signedRead, "", "")("token")
	for _, q := range []url.Values{
		{"path": {"file"}},
		{"path": {"file"}, "signature": {"v1_x"}},
		{"path": {"file"}, "signature": {strings.Replace(good, "v1", "v2", 1)}},
		{"path": {"file"}, "signature": {good + "A"}},
		{"path": {path + "x"}, "signature": {good}},
		{"path": {path}, "username": {"x"}, "signature": {good}},
		{"path": {"file"}, "signature": {good}, "signature_expiration": {path}},
	} {
		if signedBy(q, signedRead) != nil {
			t.Errorf("%.200q is hashed", q)
		}
	}
	if signedBy(url.Values{"path": {path}, "signature": {good}}, signedRead) == nil {
		t.Error("a path as long as there can be is not hashed")
	}
}

// FuzzSignature has URLs of any shape: one that is signed is not good for another.
func FuzzSignature(f *testing.F) {
	f.Add("a", "", "", "b", "", "1")
	f.Add("a:read:b", "", "", "a", "b:read:", "")
	f.Fuzz(func(t *testing.T, path, user, expiration, otherPath, otherUser, otherExpiration string) {
		if strings.Contains(user, ":") {
			user = ""
		}
		signature := signer(path, "read", user, expiration)("token")
		good := func(path, op, user, expiration string) bool {
			made := signedBy(url.Values{"path": {path}, "username": {user}, "signature": {signature}, "signature_expiration": {expiration}}, op)
			return made != nil && made("token")
		}
		if short := len(path)+len(user) <= signedLimit && len(expiration) <= expirationLimit; good(path, "read", user, expiration) != short {
			t.Errorf("it is good for what was signed: %t", !short)
		}
		if good(otherPath, "write", otherUser, otherExpiration) {
			t.Error("it is good for another operation")
		}
		same := otherPath == path && otherUser == user && otherExpiration == expiration
		if !same && good(otherPath, "read", otherUser, otherExpiration) {
			t.Error("it is good for another file")
		}
	})
}

func TestHeadOfAFileHasNoBody(t *testing.T) {
	d := newEnvdDoor(t)
	d.write("file", strings.Repeat("x", 100_000))
	got := d.send("HEAD", "/files?path=file", "", "Accept-Encoding: gzip")
	if got.StatusCode != 200 || got.Header.Get("Content-Length") != "100000" || got.Header.Get("Content-Encoding") != "" {
		t.Errorf("%d %v", got.StatusCode, got.Header)
	}
}
