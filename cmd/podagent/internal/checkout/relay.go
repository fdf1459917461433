package checkout

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"golang.org/x/net/http/httpproxy"

	"github.com/podagent/podagent/pkg/fsops"
)

// relay takes git's requests on the loopback and passes them on to the server with the
// credentials. So the credentials are in no environment, argument or file that other
// processes of the user could read, nor in those processes, and a redirect cannot take
// them to another host. A process that finds the relay, and reads its token from git's
// configuration, can only fetch this one repository.
type relay struct {
	url    string // that git gets
	token  string // that git must send
	user   *url.Userinfo
	client *http.Client
	ctx    context.Context // of the checkout

	mu         sync.Mutex
	repository *url.URL // where redirects have led to
	err        error    // why a request failed, in more detail than git knows
}

// tokenHeader has the token that keeps other users of the machine out.
const tokenHeader = "Podagent-Relay"

// startRelay starts a relay, if there are credentials, until stop.
func (r *run) startRelay(ctx context.Context) (stop func(), err error) {
	if r.Username == "" && r.Password == "" {
		return func() {}, nil
	}
	life, end := context.WithCancel(ctx)
	defer func() {
		if err != nil {
			end()
		}
	}()
	relay, err := r.newRelay(life)
	if err != nil {
		return nil, err
	}
	address, err := r.Relays.Listen()
	if err != nil {
		return nil, err
	}
	relay.url = "http://" + address.String() + "/repository"
	r.relay = relay
	forget := r.Relays.serve(relay)
	return func() {
		forget()
		end()
		relay.client.CloseIdleConnections()
	}, nil
}

func (r *run) newRelay(ctx context.Context) (*relay, error) {
	repository, err := url.Parse(r.URL)
	if err != nil || repository.Host == "" || repository.Scheme != "https" && repository.Scheme != "http" {
		return nil, errors.New("a username and a password are for the protocols https and http only")
	}
	repository.Path = strings.TrimRight(repository.Path, "/")
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableCompression = true // bodies pass as they are
	transport.MaxResponseHeaderBytes = maxServerHeader
	transport.Proxy = r.proxy()
	if transport.TLSClientConfig, err = r.tlsConfig(ctx); err != nil {
		return nil, err
	}
	return &relay{
		ctx: ctx, token: rand.Text(), user: url.UserPassword(r.Username, r.Password), repository: repository,
		client: &http.Client{Transport: transport, CheckRedirect: checkRedirect},
	}, nil
}

// proxy finds the proxies of the sandbox's environment, which need not be the agent's.
func (o *Options) proxy() func(*http.Request) (*url.URL, error) {
	either := func(name string) string {
		return cmp.Or(variable(o.Env, name), variable(o.Env, strings.ToLower(name)))
	}
	find := (&httpproxy.Config{
		HTTPProxy: either("HTTP_PROXY"), HTTPSProxy: either("HTTPS_PROXY"), NoProxy: either("NO_PROXY"),
	}).ProxyFunc()
	return func(req *http.Request) (*url.URL, error) { return find(req.URL) }
}

// tlsConfig trusts the authorities that git would trust in the sandbox's environment.
func (r *run) tlsConfig(ctx context.Context) (*tls.Config, error) {
	for _, name := range []string{"GIT_SSL_CAINFO", "SSL_CERT_FILE"} {
		path := variable(r.Env, name)
		if path == "" {
			continue
		}
		var data bytes.Buffer
		if _, err := r.files.Read(ctx, path, &data, fsops.ReadOptions{Length: maxAuthorities}); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(data.Bytes())
		return &tls.Config{RootCAs: pool}, nil
	}
	return nil, nil
}

// checkRedirect follows redirects within the same server. Forges send them for renamed
// repositories.
func checkRedirect(req *http.Request, via []*http.Request) error {
	first := via[0].URL
	switch {
	case len(via) > maxRedirects:
		return errors.New("the server redirects too often")
	case req.URL.Scheme != first.Scheme || req.URL.Host != first.Host:
		return fmt.Errorf("the server redirects to %s://%s, which does not get the credentials: use that URL instead", req.URL.Scheme, req.URL.Host)
	}
	return nil
}

func (y *relay) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	switch {
	case req.Method == http.MethodGet && req.URL.Path == "/repository/info/refs" && req.URL.RawQuery == "service=git-upload-pack":
		y.pass(w, req, "/info/refs")
	case req.Method == http.MethodPost && req.URL.Path == "/repository/git-upload-pack" && req.URL.RawQuery == "":
		y.pass(w, req, "/git-upload-pack")
	default:
		y.fail(errors.New("the server does not speak git's smart HTTP protocol, which credentials need"))
		http.NotFound(w, req)
	}
}

// pass passes a request on, and its response back.
func (y *relay) pass(w http.ResponseWriter, req *http.Request, path string) {
	out, err := y.request(req, path)
	if err != nil {
		y.fail(err)
		http.Error(w, "", http.StatusBadGateway)
		return
	}
	resp, err := y.client.Do(out)
	if err != nil {
		y.fail(unwrapURL(err))
		http.Error(w, "", http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	status := resp.StatusCode
	if status == http.StatusUnauthorized {
		y.fail(errors.New("the server does not accept the username and password (401 Unauthorized)"))
		status = http.StatusForbidden // git would ask for others
	}
	y.follow(resp, path)
	if status != http.StatusOK {
		y.refuse(w, resp, status)
		return
	}
	for _, name := range []string{"Content-Type", "Content-Encoding", "Content-Length"} {
		if v := resp.Header.Get(name); v != "" {
			w.Header().Set(name, v)
		}
	}
	w.WriteHeader(status)
	if _, err := io.Copy(flusher{w}, resp.Body); err != nil {
		y.fail(fmt.Errorf("the server's answer broke off: %w", err)) // git notices, too
	}
}

// refuse passes a refusal back, of which git prints the text: some servers repeat the
// request in it. A text that is too long, or packed, does not pass.
func (y *relay) refuse(w http.ResponseWriter, resp *http.Response, status int) {
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal+1))
	if err != nil || len(text) > maxRefusal || resp.Header.Get("Content-Encoding") != "" {
		text = nil
	}
	w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
	w.WriteHeader(status)
	io.WriteString(w, y.redact(string(text))) // git does not need it
}

// redact takes the password out of a text, in each form that it may have taken on its
// way to the server and back.
func (y *relay) redact(text string) string {
	password, _ := y.user.Password()
	if password == "" {
		return text
	}
	pair := y.user.Username() + ":" + password
	for _, secret := range []string{
		base64.StdEncoding.EncodeToString([]byte(pair)),
		base64.RawStdEncoding.EncodeToString([]byte(pair)),
		base64.StdEncoding.EncodeToString([]byte(password)),
		base64.RawStdEncoding.EncodeToString([]byte(password)),
		password, url.QueryEscape(password), url.PathEscape(password),
	} {
		text = strings.ReplaceAll(text, secret, "[REDACTED]")
	}
	return text
}

// request makes the server's request out of git's.
func (y *relay) request(req *http.Request, path string) (*http.Request, error) {
	y.mu.Lock()
	to := *y.repository
	y.mu.Unlock()
	to.Path, to.RawPath, to.RawQuery = to.Path+path, "", req.URL.RawQuery
	out, err := http.NewRequestWithContext(req.Context(), req.Method, to.String(), req.Body)
	if err != nil {
		return nil, err
	}
	out.ContentLength = req.ContentLength
	for _, name := range []string{"Accept", "Accept-Encoding", "Accept-Language", "Content-Type", "Content-Encoding", "Git-Protocol", "User-Agent"} {
		if v := req.Header.Get(name); v != "" {
			out.Header.Set(name, v)
		}
	}
	password, _ := y.user.Password()
	out.SetBasicAuth(y.user.Username(), password)
	return out, nil
}

// follow remembers where a redirect led, as git does: later requests do not work at the
// old URL.
func (y *relay) follow(resp *http.Response, path string) {
	at := resp.Request.URL
	if resp.StatusCode != http.StatusOK || !strings.HasSuffix(at.Path, path) {
		return
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	y.repository = &url.URL{Scheme: at.Scheme, Host: at.Host, Path: strings.TrimSuffix(at.Path, path)}
}

// fail remembers why a request failed; nil forgets it.
func (y *relay) fail(err error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.err = err
}

// failed reports whether the relay knows why a request failed.
func (y *relay) failed() bool {
	if y == nil {
		return false
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.err != nil
}

// explain returns the relay's error in place of git's, if it has one, and otherwise
// git's with the server's URL in place of the relay's.
func (r *run) explain(err error) error {
	failed, ok := errors.AsType[*gitError](err)
	if r.relay == nil || !ok {
		return err
	}
	r.relay.mu.Lock()
	defer r.relay.mu.Unlock()
	msg := strings.ReplaceAll(failed.msg, r.relay.url, r.URL)
	if r.relay.err != nil {
		msg = r.relay.err.Error()
	}
	return &gitError{r.relay.redact(msg)}
}

// unwrapURL takes the URL out of an error of net/http: the reader knows it.
func unwrapURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// flusher sends each part on at once, because it may be a message of progress.
type flusher struct{ http.ResponseWriter }

func (f flusher) Write(p []byte) (int, error) {
	n, err := f.ResponseWriter.Write(p)
	if flush, ok := f.ResponseWriter.(http.Flusher); ok {
		flush.Flush()
	}
	return n, err
}
