// Package trust makes programs in a sandbox trust the CA of a far end, beside the roots that they
// trust anyway, and gives them the placeholders of its credentials: by variables of commands, and by
// files. It puts no secret into the sandbox: hostile code that changes what it writes harms only itself.
package trust

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

	"github.com/podagent/podagent/pkg/egress/internal/authority"
	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/podapi"
)

const (
	// timeLimit bounds the preparation of a sandbox. keytool takes seconds on a busy node.
	timeLimit = 30 * time.Second
	// removeLimit bounds what is done for tidiness alone, at the end.
	removeLimit = 2 * time.Second
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

// dirs are where the bundle can be, besides TMPDIR. A sandbox whose image is read-only has a /tmp.
var dirs = []string{"/tmp", "/var/tmp", "/dev/shm"}

// bundleVariables are the variables that name all roots, additionVariables those that only add some.
var (
	bundleVariables = []string{
		"SSL_CERT_FILE",      // OpenSSL, Go, Python, Ruby, curl by OpenSSL, uv
		"REQUESTS_CA_BUNDLE", // Python's requests
		"CURL_CA_BUNDLE",     // curl by other libraries
		"GIT_SSL_CAINFO",
		"PIP_CERT",
		"CARGO_HTTP_CAINFO",
		"AWS_CA_BUNDLE",
	}
	additionVariables = []string{"NODE_EXTRA_CA_CERTS", "DENO_CERT"}
)

// Variables returns the names of the variables that this package sets.
func Variables() []string {
	return slices.Concat(bundleVariables, additionVariables, []string{"JAVA_TOOL_OPTIONS"})
}

// Placeholder is what a program has in place of a credential.
type Placeholder struct {
	Name string // the credential's
	Env  string // the variable of commands that has it; "" without one
	File string // the file of the sandbox that has it; "" without one
	Text string
}

// Trust is what a far end has put into a sandbox.
type Trust struct {
	client       *podapi.Client
	ca           *authority.CA
	placeholders []Placeholder
	dir          string
	roots        []byte // of the image, with the CA
	java         javaStore
	shared       bool        // others may have the same CA
	writes       sync.Mutex  // held by who writes or removes the files
	asked        atomic.Bool // somebody waits to write them again
}

// Install writes the files of a CA into a sandbox; those of the placeholders come by
// [Trust.Begin]. If other far ends share the CA, the files stay when this one ends.
func Install(ctx context.Context, client *podapi.Client, ca *authority.CA, placeholders []Placeholder, shared bool) (*Trust, error) {
	ctx, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()
	info, err := client.Info(ctx)
	if err != nil {
		return nil, err
	}
	// One directory for each sandbox: local ones share this machine's /tmp.
	of := sha256.Sum256([]byte(info.PodUID + "\n" + info.Workdir))
	t := &Trust{client: client, ca: ca, placeholders: placeholders, shared: shared, dir: "podagent-egress-" + hex.EncodeToString(of[:8])}
	seen := t.look(ctx)
	t.roots = append(slices.Concat(t.readRoots(ctx, seen.roots), []byte("\n")), ca.PEM()...)
	if err := t.place(ctx, seen.temp); err != nil {
		t.Remove(ctx)
		return nil, err
	}
	t.java = t.makeJavaStore(ctx, seen)
	return t, nil
}

// place writes the files, in the first directory where that can be done.
func (t *Trust) place(ctx context.Context, temp string) error {
	parents := dirs
	if temp != "" {
		parents = slices.Concat([]string{temp}, dirs)
	}
	var errs []error
	for _, parent := range parents {
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

// Renew writes all files again, unless that is about to begin. It does not wait for the end of it:
// failed is called with an error.
func (t *Trust) Renew(ctx context.Context, failed func(error)) {
	if !t.asked.CompareAndSwap(false, true) {
		return
	}
	go func() {
		if err := t.again(ctx); err != nil && ctx.Err() == nil {
			failed(err)
		}
	}()
}

// again writes the files once more: an agent that started again may have lost them.
func (t *Trust) again(ctx context.Context) error {
	t.writes.Lock()
	defer t.writes.Unlock()
	t.asked.Store(false)
	ctx, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()
	if err := t.write(ctx, t.dir); err != nil {
		return err
	}
	if t.java.from != "" {
		if _, err := t.client.Stat(ctx, t.javaFile()); err != nil {
			_ = t.importIntoJava(ctx, t.java.from) // Java does without it
		}
	}
	return t.begin(ctx)
}

// Begin is for a far end that begins to serve: it removes files of those who served before, and writes the
// placeholders.
func (t *Trust) Begin(ctx context.Context) error {
	t.writes.Lock()
	defer t.writes.Unlock()
	return t.begin(ctx)
}

func (t *Trust) begin(ctx context.Context) error {
	t.removeStale(ctx)
	return t.writePlaceholders(ctx)
}

// file returns the name of a file of this CA. Those of another far end have other names:
// it may serve while this one stands by.
func (t *Trust) file(name string) string { return path.Join(t.dir, t.ca.ID()+"-"+name) }

func (t *Trust) bundleFile() string { return t.file("bundle.pem") }
func (t *Trust) caFile() string     { return t.file("ca.pem") }

func (t *Trust) write(ctx context.Context, dir string) error {
	for name, content := range map[string][]byte{"bundle.pem": t.roots, "ca.pem": t.ca.PEM()} {
		file := path.Join(dir, t.ca.ID()+"-"+name)
		if _, err := t.client.Write(ctx, file, bytes.NewReader(content), fsops.WriteOptions{Perm: 0o644, Parents: true}); err != nil {
			return err
		}
	}
	return nil
}

// Remove removes the files, unless other far ends share them.
func (t *Trust) Remove(ctx context.Context) {
	if t.shared {
		return
	}
	t.writes.Lock()
	defer t.writes.Unlock()
	ctx, cancel := context.WithTimeout(ctx, removeLimit)
	defer cancel()
	t.removePlaceholders(ctx)
	for _, name := range []string{t.bundleFile(), t.caFile(), t.javaFile(), t.dir} { // what can't be removed stays
		_ = t.client.Remove(ctx, name)
	}
}

// removeStale removes files of far ends that served before, by other CAs.
func (t *Trust) removeStale(ctx context.Context) {
	var stale []string
	for attr, err := range t.client.List(ctx, t.dir, fsops.ListOptions{}) {
		if err != nil || len(stale) == maxStale {
			break
		}
		if name := path.Base(attr.Path); !strings.HasPrefix(name, t.ca.ID()) {
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
func (t *Trust) readRoots(ctx context.Context, named string) []byte {
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

// Env returns the variables for commands, as NAME=VALUE: the placeholders, and what has programs trust
// the CA. Those that only add to the roots get the CA alone, since they read it at each
// start.
func (t *Trust) Env() []string {
	var env []string
	for _, p := range t.placeholders {
		if p.Env != "" {
			env = append(env, p.Env+"="+p.Text)
		}
	}
	slices.Sort(env)
	for _, name := range bundleVariables {
		env = append(env, name+"="+t.bundleFile())
	}
	for _, name := range additionVariables {
		env = append(env, name+"="+t.caFile())
	}
	if options := t.java.options; options != "" {
		env = append(env, "JAVA_TOOL_OPTIONS="+options)
	}
	return env
}
