package checkout

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
)

// relay takes git's requests on the loopback and passes them on to the server with the
// credentials. So the credentials are in no environment, argument or file that other
// processes of the user could read, and a redirect cannot take them to another host. A
// process that finds the relay can only fetch this one repository.
type relay struct {
	url    string // what git is told
	token  string // what git must show
	user   *url.Userinfo
	client *http.Client

	mu     sync.Mutex
	target *url.URL // the repository, where redirects have led to
	err    error    // why a request failed, better than git knows
}

// tokenHeader has the token that keeps other users of the machine out.
const tokenHeader = "Podagent-Relay"

// startRelay starts the relay, if there are credentials, until stop.
func (r *run) startRelay(ctx context.Context) (stop func(), err error) {
	if r.Username == "" && r.Password == "" {
		return func() {}, nil
	}
	relay, err := newRelay(r.Options)
	if err != nil {
		return nil, err
	}
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	relay.url = "http://" + listener.Addr().String() + "/repository"
	config := fmt.Sprintf("[http]\n\textraHeader = %s: %s\n", tokenHeader, relay.token)
	if err := appendFile(r.git.globalConfig(), config); err != nil {
		listener.Close()
		return nil, err
	}
	server := &http.Server{
		Handler: relay, ReadHeaderTimeout: headerTimeout,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	go server.Serve(listener)
	r.relay = relay
	return func() { server.Close() }, nil
}

func newRelay(o Options) (*relay, error) {
	target, err := url.Parse(o.URL)
	if err != nil || target.Host == "" || target.Scheme != "https" && target.Scheme != "http" {
		return nil, errors.New("a username and a password are for the protocols https and http only")
	}
	target.User = nil
	target.Path = strings.TrimRight(target.Path, "/")
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableCompression = true // bodies pass as they are
	if transport.TLSClientConfig, err = tlsConfig(); err != nil {
		return nil, err
	}
	relay := &relay{token: rand.Text(), user: url.UserPassword(o.Username, o.Password), target: target}
	relay.client = &http.Client{Transport: transport, CheckRedirect: checkRedirect}
	return relay, nil
}

// tlsConfig trusts the authorities that git would trust in this environment.
func tlsConfig() (*tls.Config, error) {
	file := os.Getenv("GIT_SSL_CAINFO")
	if file == "" {
		return nil, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("GIT_SSL_CAINFO: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(data)
	return &tls.Config{RootCAs: pool}, nil
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
	if subtle.ConstantTimeCompare([]byte(req.Header.Get(tokenHeader)), []byte(y.token)) != 1 {
		http.Error(w, "this is not for you", http.StatusForbidden)
		return
	}
	switch {
	case req.Method == http.MethodGet && req.URL.Path == "/repository/info/refs" && req.URL.RawQuery == "service=git-upload-pack":
		y.pass(w, req, "/info/refs")
	case req.Method == http.MethodPost && req.URL.Path == "/repository/git-upload-pack":
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

// request makes the server's request out of git's.
func (y *relay) request(req *http.Request, path string) (*http.Request, error) {
	y.mu.Lock()
	to := *y.target
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

// follow remembers the target of a redirect, as git does: later requests do not work at
// the old place.
func (y *relay) follow(resp *http.Response, path string) {
	at := resp.Request.URL
	if resp.StatusCode != http.StatusOK || !strings.HasSuffix(at.Path, path) {
		return
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	y.target = &url.URL{Scheme: at.Scheme, Host: at.Host, Path: strings.TrimSuffix(at.Path, path)}
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

// explain replaces an error of git's, which names the relay and not the server, by what
// the relay knows of it.
func (r *run) explain(err error) error {
	failed, ok := errors.AsType[*gitError](err)
	if r.relay == nil || !ok {
		return err
	}
	r.relay.mu.Lock()
	defer r.relay.mu.Unlock()
	if r.relay.err != nil {
		return r.relay.err
	}
	return &gitError{strings.ReplaceAll(failed.msg, r.relay.url, r.URL)}
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

func appendFile(path, text string) error {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}
