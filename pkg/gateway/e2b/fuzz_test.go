package e2b

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"slices"
	"strings"
	"testing"
)

// FuzzControl has requests to the control plane that are nearly right.
func FuzzControl(f *testing.F) {
	p := newProbe(f)
	for i, op := range controlOperations {
		f.Add(uint8(i), "job", "", uint8(0), "", []byte(`{"timeout":60,"metadata":{"a":"b c"}}`))
		f.Add(uint8(i), "x"+idSeparator+"acme", "timeout=1&memory=false", uint8(1), "text/plain", []byte(`{}`))
		f.Add(uint8(i), theirID, "metadata=mark%3Dx", uint8(0), "", []byte(`{"timeout":60}`))
		f.Add(uint8(i), "theirs", "limit=1&nextToken="+tokenOf(&described{ID: "x"}), uint8(0), "", []byte(`{"timeout":-1}`))
		if !strings.HasPrefix(op.pattern, "GET") {
			f.Add(uint8(i), probedID, "", uint8(0), "", []byte(`{"timeout":null,"memory":0}`))
			f.Add(uint8(i), probedID, "", uint8(2), "gzip", []byte("[[[["))
			f.Add(uint8(i), probedID, "", uint8(3), "00", []byte("\xff"))
		}
	}
	for _, of := range []string{probedID, theirID} {
		snapshot := of + snapshotSeparator + strings.Repeat("0", 64)
		f.Add(uint8(1), "", "", uint8(0), "", []byte(`{"templateID":"`+snapshot+`"}`))
		f.Add(uint8(len(controlOperations)-1), snapshot, "", uint8(0), "", []byte(nil))
		f.Add(uint8(len(controlOperations)-2), "", "limit=1&name=x&sandboxID="+of, uint8(0), "", []byte(nil))
	}
	f.Add(uint8(0), "", "", uint8(0), "", []byte(`{"templateID":"x","envVars":{"A":"\u0000"},"autoPause":true,"autoResume":{"enabled":true},"network":{"rules":null},"volumeMounts":[null]}`))
	f.Add(uint8(2), "", "metadata=a%253Db&state=running,paused&limit=2&order=asc&startedAfter=2000-01-01T00:00:00Z", uint8(0), "", []byte(nil))
	headers := []string{"X-None", "Content-Type", "Content-Encoding", headerKey, "Authorization", "Range", "Origin"}
	f.Fuzz(func(t *testing.T, number uint8, id, query string, header uint8, value string, body []byte) {
		method, target, _ := strings.Cut(controlOperations[int(number)%len(controlOperations)].pattern, " ")
		r := httptest.NewRequest(method, "/", bytes.NewReader(body))
		setTarget(r, strings.NewReplacer("{id}", url.PathEscape(id), "{template}", url.PathEscape(id)).Replace(target)+"?"+query)
		r.Header = http.Header{headerKey: {"a"}, "Content-Type": {"application/json"}}
		r.Header.Set(headers[int(header)%len(headers)], value)
		if r.URL.Path == "/" || !isControl(r.URL.Path) {
			t.Skip("it is not the control plane's")
		}
		got := p.call(r)
		p.check(t, r, string(body), got)
		if stranger := r.Header.Get(headerKey) != "a"; stranger && got.Code != http.StatusUnauthorized && got.Code != http.StatusTooManyRequests { // after many
			t.Errorf("%s %s: a stranger gets %d %s", method, r.RequestURI, got.Code, got.Body)
		}
		var made struct{ SandboxID string }
		switch {
		case method == "DELETE" && got.Code < 300:
			p.ready()
		case got.Code == http.StatusCreated && json.Unmarshal(got.Body.Bytes(), &made) == nil:
			p.call(p.rest("a", "DELETE", "/api/v1/sandboxes/"+strings.TrimSuffix(made.SandboxID, idSeparator+"acme"), ""))
		}
	})
}

// connectMethods are those of envd's services, with a request that each takes.
var connectMethods = []struct {
	path   string
	stream bool
	body   string
}{
	{"/process.Process/List", false, `{}`},
	{"/process.Process/Start", true, `{"process":{"cmd":"x","args":["a"],"envs":{"A":"b"},"cwd":"."},"pty":{"size":{"cols":80,"rows":24}},"tag":"t","stdin":false}`},
	{"/process.Process/Connect", true, `{"process":{"pid":PID}}`},
	{"/process.Process/Update", false, `{"process":{"pid":PID},"pty":{"size":{"cols":1,"rows":1}}}`},
	{"/process.Process/SendInput", false, `{"process":{"pid":PID},"input":{"stdin":"eA=="}}`},
	{"/process.Process/SendSignal", false, `{"process":{"pid":PID},"signal":"SIGNAL_SIGTERM"}`},
	{"/process.Process/CloseStdin", false, `{"process":{"pid":PID}}`},
	{"/process.Process/StreamInput", true, `{"start":{"process":{"pid":PID}},"data":{"input":{"stdin":"eA=="}},"keepalive":{}}`},
	{"/filesystem.Filesystem/Stat", false, `{"path":"x"}`},
	{"/filesystem.Filesystem/MakeDir", false, `{"path":"d/e"}`},
	{"/filesystem.Filesystem/Move", false, `{"source":"y","destination":"z"}`},
	{"/filesystem.Filesystem/ListDir", false, `{"path":".","depth":2}`},
	{"/filesystem.Filesystem/Remove", false, `{"path":"d"}`},
	{"/filesystem.Filesystem/WatchDir", true, `{"path":".","recursive":true}`},
	{"/filesystem.Filesystem/CreateWatcher", false, `{"path":"."}`},
	{"/filesystem.Filesystem/GetWatcherEvents", false, `{"watcherId":"x"}`},
	{"/filesystem.Filesystem/RemoveWatcher", false, `{"watcherId":"x"}`},
}

// FuzzCalls has calls of envd's services whose messages and envelopes are nearly right.
func FuzzCalls(f *testing.F) {
	p := newProbe(f)
	for i, m := range connectMethods {
		for shape := range shapes {
			if slices.Contains([]string{"Start", "StreamInput", "Stat"}, path.Base(m.path)) || shape == 0 {
				f.Add(uint8(i), uint8(shape), uint8(0), "", []byte(m.body))
			}
		}
		f.Add(uint8(i), uint8(0), uint8(1), "-1", []byte(`{"process":{"pid":-1,"tag":""},"path":"\u0000","signal":65,"depth":4294967296}`))
		f.Add(uint8(i), uint8(0), uint8(2), "0", []byte("{\"path\":\"\xff\"}"))
		f.Add(uint8(i), uint8(0), uint8(4), theirID, []byte(m.body))
	}
	f.Add(uint8(0), uint8(0), uint8(5), "wrong", []byte(`{}`))
	f.Add(uint8(8), uint8(0), uint8(3), "Basic Og==", []byte(`{"path":"../..","depth":1e99}`))
	f.Add(uint8(4), uint8(0), uint8(1), "1", []byte(`{"process":{"pid":1e99},"input":{"stdin":"!"}}`))
	headers := []string{
		"X-None", timeoutHeader, "Keepalive-Ping-Interval", "Authorization", headerSandbox, headerAccessToken, "Content-Type",
		"Content-Encoding", "Connect-Content-Encoding", "Connect-Accept-Encoding", "Accept-Encoding", "Connect-Protocol-Version", "Origin",
	}
	f.Fuzz(func(t *testing.T, number, shape, header uint8, value string, message []byte) {
		m, change := connectMethods[int(number)%len(connectMethods)], shapes[int(shape)%len(shapes)]
		kind, coding := unaryType, "Content-Encoding"
		if m.stream {
			kind, coding = streamType, "Connect-Content-Encoding"
		}
		body, zipped := change(p.harmless(message), m.stream)
		r := p.envd(m.path, kind, body)
		if zipped {
			r.Header.Set(coding, "gzip")
		}
		r.Header.Set(headers[int(header)%len(headers)], value)
		if p.mayUnpack(r, body) || r.Header.Get(headerSandbox) == "" {
			t.Skip("it would not be harmless, or is not the face's")
		}
		got := p.call(r)
		p.check(t, r, body, got)
		if stranger := r.Header.Get(headerAccessToken) != p.token || r.Header.Get(headerSandbox) != probedID; stranger && got != nil && got.Code < 400 && faultOf(got.Body.Bytes()) == nil {
			t.Errorf("%s %q: a stranger gets %d %s", r.RequestURI, r.Header, got.Code, got.Body)
		}
		if slices.Contains([]string{"SendSignal", "CloseStdin"}, path.Base(m.path)) {
			p.ready()
		}
	})
}

// mayUnpack reports whether a body might be something else, unpacked, than what was kept harmless.
func (p *probe) mayUnpack(r *http.Request, body string) bool {
	said := r.Header.Get("Content-Encoding") + r.Header.Get("Connect-Content-Encoding")
	return strings.Contains(body, "\x1f\x8b") && said != "gzip"
}

// shapes are what can be made of a message: the body of a call, and whether it is said to be gzip.
var shapes = []func(message string, stream bool) (string, bool){
	func(m string, stream bool) (string, bool) { return enveloped(0, m, stream), false },
	func(m string, stream bool) (string, bool) { return enveloped(1, gzipped(m), stream), true },
	func(m string, stream bool) (string, bool) { return enveloped(1, gzipped(m)[:12], stream), true },
	func(m string, stream bool) (string, bool) { return enveloped(0, m, stream), true },
	func(m string, stream bool) (string, bool) { return enveloped(1, m, stream), false },
	func(m string, stream bool) (string, bool) { return enveloped(2, m, stream), false },
	func(m string, stream bool) (string, bool) { return enveloped(0xff, m, stream), false },
	func(m string, stream bool) (string, bool) { return enveloped(0, m, !stream), false },
	func(m string, stream bool) (string, bool) {
		return enveloped(0, m, stream) + enveloped(0, m, stream), false
	},
	func(m string, stream bool) (string, bool) {
		return enveloped(0, m, stream) + enveloped(2, m, stream), false
	},
	func(m string, stream bool) (string, bool) { return enveloped(0, m, stream) + "\x00", false },
	func(m string, stream bool) (string, bool) { return enveloped(0, m+" ", stream)[:len(m)], false },
	func(m string, _ bool) (string, bool) { return "\x00\xff\xff\xff\xff" + m, false },
	func(m string, _ bool) (string, bool) { return "\x00\x00\x00\x00\x00" + m, false },
}

func enveloped(flags byte, message string, stream bool) string {
	if stream {
		return envelope(flags, message)
	}
	return message
}

// FuzzFiles has reads and writes of files, and signed URLs, that are nearly right.
func FuzzFiles(f *testing.F) {
	p := newProbe(f)
	const boundary = "multipart/form-data; boundary=x"
	part := func(head, text string) string {
		return "--x\r\nContent-Disposition: form-data; " + head + "\r\n\r\n" + text + "\r\n"
	}
	whole := part(`name="file"; filename="a"`, "text") + "--x--\r\n"
	signed := "path=f/x&signature=" + url.QueryEscape(signer("f/x", signedRead, "", "")(p.token))
	for _, s := range []struct {
		method, zip   uint8
		query, kind   string
		header        uint8
		value, upload string
	}{
		{0, 0, "path=x", "", 0, "", ""},
		{0, 0, "path=x&username=root", "", 1, "bytes=0-,-1", ""},
		{0, 0, "path=missing&path=x", "", 2, "gzip", ""},
		{0, 0, "path=%00", "", 2, "gzip;q=0, identity;q=0", ""},
		{0, 0, signed, "", 3, "", ""},
		{0, 0, signed + "&username=a", "", 3, "", ""},
		{0, 0, signed + "&signature_expiration=1", "", 3, "", ""},
		{0, 0, "path=x&signature=v1_", "", 3, "", ""},
		{0, 0, "path=x", "", 4, theirID, ""},
		{1, 0, "path=x&signature=x", "", 5, "*", ""},
		{2, 0, "path=w", "application/octet-stream", 0, "", "text"},
		{2, 1, "path=w", "application/octet-stream", 0, "", "text"},
		{2, 2, "path=w", "application/octet-stream", 0, "", "text"},
		{2, 3, "path=w", "application/octet-stream", 0, "", "text"},
		{2, 0, "path=w", "application/octet-stream", 6, "br", "text"},
		{2, 0, "path=w", "application/octet-stream", 7, "v", "text"},
		{2, 0, "", boundary, 0, "", whole},
		{2, 1, "", boundary, 0, "", whole},
		{2, 2, "", boundary, 0, "", whole},
		{2, 0, "", boundary, 0, "", part(`name="file"; filename="a"`, "1") + part(`name="file"; filename=".."`, "2") + "--x--"},
		{2, 0, "", boundary, 0, "", part(`name="file"; filename*=utf-8''a`, "1") + part("name=x", "2") + whole},
		{2, 0, "", boundary, 0, "", part(`name="file"; filename="`, "1") + "--x"},
		{2, 0, "", boundary, 0, "", part("name=file\r\nContent-Transfer-Encoding: base64", "!") + "--x--"},
		{2, 0, "", "multipart/form-data", 0, "", whole},
		{2, 0, "", `multipart/form-data; boundary="x`, 0, "", whole},
		{2, 0, "", "multipart/form-data; boundary=y; boundary=x", 0, "", whole},
		{2, 0, "", "multipart/form-data; boundary=" + strings.Repeat("x", 100), 0, "", whole},
		{2, 0, "path=w", "multipart/mixed; boundary=x", 0, "", whole},
		{2, 0, "path=w", "", 0, "", whole},
	} {
		f.Add(s.method, s.zip, s.query, s.kind, s.header, s.value, []byte(s.upload))
	}
	headers := []string{"X-None", "Range", "Accept-Encoding", headerAccessToken, headerSandbox, "If-None-Match", "Content-Encoding", "X-Metadata-A", "Origin", "Authorization"}
	f.Fuzz(func(t *testing.T, method, zip uint8, query, kind string, header uint8, value string, upload []byte) {
		values, err := url.ParseQuery(query)
		if err != nil {
			values = url.Values{"path": {"x"}}
		}
		byURL := values.Get("signature") != "" // what is signed is the path as it is
		if paths := values["path"]; !byURL || method%3 == 2 {
			for i, name := range paths {
				paths[i] = below(name)
			}
		}
		body := strings.NewReplacer("/", "_", "%", "_", "\x1f\x8b", "_").Replace(string(upload)) // no file name leads elsewhere
		r := p.envd("/files?"+values.Encode(), kind, "")
		r.Method = []string{"GET", "HEAD", "POST"}[method%3]
		r.Header.Set(headers[int(header)%len(headers)], value)
		if zip := zip % 4; zip > 0 {
			r.Header.Set("Content-Encoding", "gzip")
			body = []string{gzipped(body), gzipped(body)[:12], body}[zip-1]
		}
		r.Body = io.NopCloser(strings.NewReader(body))
		if r.Header.Get(headerSandbox) == "" {
			t.Skip("it is not the face's")
		}
		got := p.call(r)
		p.check(t, r, body, got)
		token, id := r.Header.Get(headerAccessToken), r.Header.Get(headerSandbox)
		op := cmp.Or(map[string]string{"POST": signedWrite}[r.Method], signedRead)
		may := id == probedID && (token == p.token || token == "" && isSigned(values, op, p.token))
		if got != nil && got.Code < 400 && !may {
			t.Errorf("%s %s %q: a stranger gets %d %s", r.Method, r.RequestURI, r.Header, got.Code, got.Body)
		}
	})
}

// isSigned reports whether a URL's query is signed with a token.
func isSigned(values url.Values, op, token string) bool {
	made := signedBy(values, op)
	return made != nil && made(token)
}
