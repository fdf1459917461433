//go:build linux && !race

package runtime_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// image is an image unpacked from an archive.
type image struct {
	root   string // the directory of its file system
	names  []string
	config config
}

// config has the parts of an image's configuration that the tests use.
type config struct {
	User, WorkingDir     string
	Entrypoint, Cmd, Env []string
}

// defaultPath is where containerd searches if an image names no PATH.
const defaultPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// unpack unpacks a docker-archive of one image.
func unpack(t *testing.T, archive string) image {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("only root can unpack an image with its owners and change into it: run this as root")
	}
	dir := t.TempDir()
	extract(t, archive, dir)
	var manifest []struct {
		Config           string
		RepoTags, Layers []string
	}
	decode(t, filepath.Join(dir, "manifest.json"), &manifest)
	if len(manifest) != 1 {
		t.Fatalf("%s has %d images, want 1", archive, len(manifest))
	}
	var file struct{ Config config }
	decode(t, filepath.Join(dir, manifest[0].Config), &file)
	root := t.TempDir()
	for _, layer := range manifest[0].Layers {
		extract(t, filepath.Join(dir, layer), root)
	}
	// This stands for the device that a runtime gives to each container.
	null := filepath.Join(root, "dev/null")
	if err := errors.Join(os.MkdirAll(filepath.Dir(null), 0o755), os.WriteFile(null, nil, 0o644), os.Chmod(null, 0o666)); err != nil {
		t.Fatal(err)
	}
	return image{root: root, names: manifest[0].RepoTags, config: file.Config}
}

func extract(t *testing.T, archive, dir string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "tar", "--extract", "--numeric-owner", "--preserve-permissions", "--file", archive, "--directory", dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v: %s", cmd, err, out)
	}
}

func decode(t *testing.T, name string, v any) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// command returns a command that runs in the image as a user, with the image's
// environment.
func (i image) command(uid uint32, argv ...string) *exec.Cmd {
	env := append([]string{defaultPath}, i.config.Env...)
	return &exec.Cmd{
		Path: i.find(argv[0], env),
		Args: argv,
		Dir:  "/",
		Env:  append(env, "HOME=/"),
		SysProcAttr: &syscall.SysProcAttr{
			Chroot:     i.root,
			Credential: &syscall.Credential{Uid: uid, Gid: uid},
		},
	}
}

// find returns the path of a program in the image, or its name if it is not found.
func (i image) find(name string, env []string) string {
	dirs := ""
	for _, v := range env {
		if path, ok := strings.CutPrefix(v, "PATH="); ok {
			dirs = path
		}
	}
	for _, dir := range filepath.SplitList(dirs) {
		if _, err := os.Lstat(filepath.Join(i.root, dir, name)); err == nil {
			return filepath.Join(dir, name)
		}
	}
	return name
}

// awaitLine reads up to a line with a text, or to the end, and returns what it
// read.
func awaitLine(r *bufio.Reader, text string) string {
	var read strings.Builder
	for {
		line, err := r.ReadString('\n')
		read.WriteString(line)
		if err != nil || text != "" && strings.Contains(line, text) {
			return read.String()
		}
	}
}
