package egress

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/podagent/podagent/pkg/egress/farend"
	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/podapi"
)

const (
	// trustTime bounds the preparation of a sandbox. keytool takes seconds on a busy node.
	trustTime = 30 * time.Second
	// removeTime bounds what is done for tidiness alone, at the end.
	removeTime = 2 * time.Second
	// maxRoots bounds the bundle of an image. Those of distributions have about 230 KiB.
	maxRoots = 4 << 20
	// maxStale bounds how many files of former far ends are removed at once.
	maxStale = 16
)

// rootFiles are where images keep the roots that their programs trust, in the order in
// which crypto/x509 looks for them.
var rootFiles = []string{
	"/etc/ssl/certs/ca-certificates.crt",                // Debian, Ubuntu, Alpine, Arch
	"/etc/pki/tls/certs/ca-bundle.crt",                  // Fedora, RHEL 6
	"/etc/ssl/ca-bundle.pem",                            // openSUSE
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // RHEL
	"/etc/ssl/cert.pem",                                 // Alpine, macOS
}

// trustDirs are where the bundle can be. A sandbox whose image is read-only has a /tmp.
var trustDirs = []string{"/tmp", "/var/tmp", "/dev/shm"}

// trustBundle are the variables that name all roots, trustAddition those that only add some.
var (
	trustBundle = []string{
		"SSL_CERT_FILE",      // OpenSSL, Go, Python, Ruby, curl by OpenSSL, uv
		"REQUESTS_CA_BUNDLE", // Python's requests
		"CURL_CA_BUNDLE",     // curl by other libraries
		"GIT_SSL_CAINFO",
		"PIP_CERT",
		"CARGO_HTTP_CAINFO",
		"AWS_CA_BUNDLE",
	}
	trustAddition = []string{"NODE_EXTRA_CA_CERTS", "DENO_CERT"}
)

// trust makes programs in a sandbox trust the session's CA, beside the roots that they
// trust anyway. It holds no secret: hostile code that changes it harms only itself.
type trust struct {
	client  *podapi.Client
	ca      *sessionCA
	secrets *secretSet
	dir     string
	roots   []byte // of the image, with the CA
	java    javaStore
	// removes says that the files go with the far end: nobody else has the same CA.
	removes bool
	writes  sync.Mutex  // held by who writes or removes them
	asked   atomic.Bool // somebody waits to write them again
}

// install prepares a sandbox for the secrets, and returns what does it again.
func (o *tlsOpener) install(ctx context.Context, client *podapi.Client) (*trust, error) {
	ctx, cancel := context.WithTimeout(ctx, trustTime)
	defer cancel()
	info, err := client.Info(ctx)
	if err != nil {
		return nil, err
	}
	// One directory for each sandbox: local ones share this machine's /tmp.
	of := sha256.Sum256([]byte(info.PodUID + "\n" + info.Workdir))
	t := &trust{client: client, ca: o.ca, secrets: o.secrets, dir: "podagent-egress-" + hex.EncodeToString(of[:8])}
	t.removes = !o.shared
	seen := t.look(ctx)
	t.roots = append(slices.Concat(t.readRoots(ctx, seen.roots), []byte("\n")), o.ca.pem()...)
	if err := t.place(ctx); err != nil {
		t.remove(ctx)
		return nil, err
	}
	t.java = t.makeJavaStore(ctx, seen)
	return t, nil
}

// place writes the files, in the first directory where that can be done.
func (t *trust) place(ctx context.Context) error {
	var errs []error
	for _, parent := range trustDirs {
		dir := path.Join(parent, path.Base(t.dir))
		if err := t.write(ctx, dir); err != nil {
			errs = append(errs, err)
			continue
		}
		t.dir = dir
		return nil
	}
	return fmt.Errorf("the certificates for the hosts of secrets cannot be written in the sandbox: %w", errors.Join(errs...))
}

// keep returns what writes the files again whenever the far end begins to serve, and then
// tells the owner of the options of the change.
func (t *trust) keep(ctx context.Context, opts Options) func(farend.State) {
	return func(s farend.State) {
		if s.Serving && t.asked.CompareAndSwap(false, true) {
			go func() { // the agent's next word must not wait for it
				if err := t.again(ctx); err != nil && ctx.Err() == nil && opts.Log != nil {
					opts.Log(Decision{Time: time.Now(), Verdict: Failed, Reason: err.Error()})
				}
			}()
		}
		if opts.Changed != nil {
			opts.Changed(s)
		}
	}
}

// again writes the files once more: an agent that started again may have lost them.
func (t *trust) again(ctx context.Context) error {
	t.writes.Lock()
	defer t.writes.Unlock()
	t.asked.Store(false)
	ctx, cancel := context.WithTimeout(ctx, trustTime)
	defer cancel()
	if err := t.write(ctx, t.dir); err != nil {
		return err
	}
	t.removeStale(ctx)
	if t.java.from != "" {
		if _, err := t.client.Stat(ctx, t.javaFile()); err != nil {
			_ = t.importIntoJava(ctx, t.java.from) // Java does without it
		}
	}
	return t.writePlaceholders(ctx)
}

// file returns the name of a file of this CA. Those of another far end have other names:
// it may serve while this one stands by.
func (t *trust) file(name string) string { return path.Join(t.dir, t.ca.id()+"-"+name) }

func (t *trust) bundleFile() string { return t.file("bundle.pem") }
func (t *trust) caFile() string     { return t.file("ca.pem") }

func (t *trust) write(ctx context.Context, dir string) error {
	for name, content := range map[string][]byte{"bundle.pem": t.roots, "ca.pem": t.ca.pem()} {
		file := path.Join(dir, t.ca.id()+"-"+name)
		if _, err := t.client.Write(ctx, file, bytes.NewReader(content), fsops.WriteOptions{Perm: 0o644, Parents: true}); err != nil {
			return err
		}
	}
	return nil
}

// remove removes the files, if they are to go with the far end.
func (t *trust) remove(ctx context.Context) {
	if !t.removes {
		return
	}
	t.writes.Lock()
	defer t.writes.Unlock()
	ctx, cancel := context.WithTimeout(ctx, removeTime)
	defer cancel()
	t.removePlaceholders(ctx)
	for _, name := range []string{t.bundleFile(), t.caFile(), t.javaFile(), t.dir} { // what can't be removed stays
		_ = t.client.Remove(ctx, name)
	}
}

// removeStale removes files of far ends that served before, by other CAs.
func (t *trust) removeStale(ctx context.Context) {
	var stale []string
	for attr, err := range t.client.List(ctx, t.dir, fsops.ListOptions{}) {
		if err != nil || len(stale) == maxStale {
			break
		}
		if name := path.Base(attr.Path); !strings.HasPrefix(name, t.ca.id()) {
			stale = append(stale, name)
		}
	}
	for _, name := range stale {
		_ = t.client.Remove(ctx, path.Join(t.dir, name)) // else it stays
	}
}

// readRoots returns the roots of the image: those of the file that its environment names,
// or of a usual one. An image without any, whose programs may bring their own, gets this
// machine's: the variables make programs forget theirs.
func (t *trust) readRoots(ctx context.Context, named string) []byte {
	files := rootFiles
	if named != "" {
		files = slices.Concat([]string{named}, rootFiles)
	}
	for _, name := range files {
		var content bytes.Buffer
		r, err := t.client.Read(ctx, name, &content, fsops.ReadOptions{Length: maxRoots, Opened: isRegular})
		if err == nil && r.Attr.Size <= maxRoots && content.Len() > 0 {
			return content.Bytes()
		}
	}
	for _, name := range rootFiles {
		if content, err := os.ReadFile(name); err == nil {
			return content
		}
	}
	return nil
}

func isRegular(attr fsops.Attr) error {
	if !attr.Mode.IsRegular() {
		return fs.ErrInvalid
	}
	return nil
}

// env returns the variables for commands: the placeholders, and what has programs trust
// the CA. Those that only add to the roots get the CA alone, since they read it at each
// start.
func (t *trust) env() []string {
	env := t.secrets.env()
	for _, name := range trustBundle {
		env = append(env, name+"="+t.bundleFile())
	}
	for _, name := range trustAddition {
		env = append(env, name+"="+t.caFile())
	}
	if options := t.java.options; options != "" {
		env = append(env, "JAVA_TOOL_OPTIONS="+options)
	}
	return env
}
