package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// ownPrograms are the folders of this module's programs for clusters.
var ownPrograms = []string{"./pause", "./policies"}

// build builds the programs if the module has changed since the last build, and
// reports whether it did.
func (c *cluster) build(ctx context.Context) (bool, error) {
	want, err := stamp()
	if err != nil {
		return false, err
	}
	path := filepath.Join(c.Bin, "stamp")
	if is, err := os.ReadFile(path); err == nil && string(is) == want {
		return false, nil
	}
	unlock, err := c.lock(ctx, filepath.Join(c.Bin, "lock"))
	if err != nil {
		return false, err
	}
	defer unlock()
	if is, err := os.ReadFile(path); err == nil && string(is) == want {
		return true, nil // another cluster built them while this one waited
	}
	c.say("building Kubernetes, etcd and gVisor from their modules: once, 5 to 10 minutes on two cores")
	if err := c.buildAll(ctx); err != nil {
		return false, err
	}
	return true, writeFile(path, []byte(want))
}

// stamp changes when the programs must be built again.
func stamp() (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, release(runtime.Version()), runtime.GOARCH)
	for _, name := range append(sources(), "go.mod", "go.sum", gVisor+"/go.mod", gVisor+"/go.sum") {
		data, err := os.ReadFile(name)
		if err != nil {
			return "", fmt.Errorf("cannot find the module of this program: run it in its folder: %w", err)
		}
		sum.Write(data)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// release is a version of Go without the experiments of this program, such as simd in
// go1.26.8-X:simd (before Go 1.26: go1.25.8 X:simd). With the race detector a program may
// have others.
func release(version string) string {
	version, _, _ = strings.Cut(version, " ")
	version, _, _ = strings.Cut(version, "-X:")
	return version
}

// sources lists the files of this module's programs for clusters.
func sources() (files []string) {
	for _, program := range append([]string{filepath.Join(gVisor, shim)}, ownPrograms...) {
		in, _ := filepath.Glob(filepath.Join(program, "*.go"))
		files = append(files, slices.DeleteFunc(in, func(name string) bool { return strings.HasSuffix(name, "_test.go") })...)
	}
	return files
}

// buildAll builds the module's tools, its own programs and gVisor, and puts them in place
// when all are ready.
func (c *cluster) buildAll(ctx context.Context) error {
	scratch := filepath.Join(c.Bin, "new")
	if err := errors.Join(os.RemoveAll(scratch), os.MkdirAll(scratch, 0o755)); err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	if err := c.compile(ctx, scratch); err != nil {
		return err
	}
	// etcd's main package is the root of its module, and Go would name it server.
	if err := os.Rename(scratch+"/server", scratch+"/etcd"); err != nil {
		return err
	}
	built, err := os.ReadDir(scratch)
	for _, program := range built {
		err = errors.Join(err, os.Rename(filepath.Join(scratch, program.Name()), filepath.Join(c.Bin, program.Name())))
	}
	return err
}

// compile builds the programs into a directory and reports its progress.
func (c *cluster) compile(ctx context.Context, dir string) error {
	p := &progress{rest: os.Stderr, done: dir}
	defer c.report(reportEvery, p.String)()
	version, err := goCommand(ctx, p, "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
	if err != nil {
		return err
	}
	list, err := goCommand(ctx, p, append([]string{"list", "-deps", "-f", "{{.Name}} {{.ImportPath}}", "tool"}, ownPrograms...)...)
	if err != nil {
		return err
	}
	gVisors, err := goCommand(ctx, p, "list", "-C", gVisor, "-deps", "-f", "{{.Name}} {{.ImportPath}}", "tool", shim)
	if err != nil {
		return err
	}
	p.expect(list + "\n" + gVisors)
	if _, err := goCommand(ctx, p, "build", "-v", "-ldflags", versionFlags(version), "-o", dir+"/", "tool"); err != nil {
		return err
	}
	own := []string{"build", "-v", "-ldflags", "-s -w", "-o", dir + "/"}
	if _, err := goCommand(ctx, p, append(own, ownPrograms...)...); err != nil {
		return err
	}
	_, err = goCommand(ctx, p, "build", "-C", gVisor, "-v", "-ldflags", "-s -w", "-o", dir+"/", "tool", shim)
	return err
}

// versionFlags tell Kubernetes its version. Without them, clients would see v0.0.0.
func versionFlags(version string) string {
	const pkg = "k8s.io/component-base/version"
	parts := strings.Split(strings.TrimPrefix(version, "v"), ".")
	if len(parts) < 2 {
		parts = []string{"", ""}
	}
	return fmt.Sprintf("-s -w -X %s.gitVersion=%s -X %s.gitMajor=%s -X %s.gitMinor=%s",
		pkg, version, pkg, parts[0], pkg, parts[1])
}

// goCommand runs the go command in this module and returns its output. Its messages
// go to log.
func goCommand(ctx context.Context, log io.Writer, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, buildTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-mod=readonly -trimpath", "GOEXPERIMENT=", "GOOS=", "GOARCH=")
	cmd.Stderr = log
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("cannot build: go %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}
