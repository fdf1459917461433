//go:build linux && !race

package escapes_test

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// stage is what is there outside of the sandboxes that are tried.
type stage struct {
	Dir    string // of the user, with all else
	Run    string // the like below /run
	Temp   string // a file in /tmp
	Secret string
	// RootKey is a file that only root can read. For ordinary users it is in what they let the sandbox read.
	RootKey string
	// SetID is a program that runs as another user, SetIDAs is who it says that it is. Capable is one with the
	// right to read everything.
	SetID, SetIDAs, Capable string
}

func (s *stage) home() string          { return filepath.Join(s.Dir, "home") }
func (s *stage) key() string           { return filepath.Join(s.home(), ".ssh", "id") }
func (s *stage) readable() string      { return filepath.Join(s.Dir, "readable") }
func (s *stage) path(of string) string { return filepath.Join(s.Dir, of) }

func (s *stage) digest() string {
	sum := sha256.Sum256([]byte(s.Secret))
	return hex.EncodeToString(sum[:])
}

// makeStage makes what belongs to a user outside of the sandboxes.
func makeStage(t *testing.T, user account) *stage {
	t.Helper()
	s := &stage{Dir: placeOf(t, "/var/tmp"), Run: placeOf(t, "/run"), Secret: "podagent-secret-" + rand.Text()}
	s.Temp = filepath.Join(placeOf(t, "/tmp"), "f")
	s.RootKey, s.SetIDAs = s.path("rootkey"), fmt.Sprint(user.other)
	s.SetID, s.Capable = filepath.Join(s.readable(), "id"), filepath.Join(s.readable(), "cat")
	if user.id != 0 {
		s.RootKey = filepath.Join(s.readable(), "rootkey")
	}
	err := errors.Join(s.makeHome(), s.makePrograms(t))
	for _, dir := range []string{s.Dir, s.Run, filepath.Dir(s.Temp)} {
		err = errors.Join(err, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
			return errors.Join(err, os.Lchown(path, int(user.id), int(user.id)))
		}))
	}
	if err := errors.Join(err, s.lend(user)); err != nil {
		t.Fatal(err)
	}
	return s
}

// placeOf makes a directory that all can enter.
func placeOf(t *testing.T, parent string) string {
	t.Helper()
	dir, err := os.MkdirTemp(parent, "podagent-escape-") // the kernel takes paths of sockets of 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func (s *stage) makeHome() error {
	var err error
	for _, dir := range []string{"home/.ssh", "home/bin", "home/victims", "work", "readable"} {
		err = errors.Join(err, os.MkdirAll(s.path(dir), 0o755))
	}
	for path, text := range map[string]string{
		s.key(): s.Secret, s.Temp: s.Secret, filepath.Join(s.Run, "f"): s.Secret, s.path("home/secret"): s.Secret, s.path("readable/f"): "",
		s.path("home/bin/tool"): "#!/bin/sh\necho " + s.Secret,
	} {
		err = errors.Join(err, os.WriteFile(path, []byte(text), 0o700))
	}
	return errors.Join(err, unix.Mkfifo(s.path("readable/pipe"), 0o600), os.Symlink(".ssh/id", s.path("home/link")), unix.Setxattr(s.key(), "user.secret", []byte(s.Secret), 0))
}

// makePrograms copies programs to where the user can run them.
func (s *stage) makePrograms(t *testing.T) error {
	t.Helper()
	programs := map[string]string{"podagent": launchertest.Local(t).Agent, "program": os.Args[0]}
	for name, program := range map[string]string{"readable/id": "id", "readable/cat": "cat", "home/bin/cat": "cat"} {
		path, err := exec.LookPath(program)
		if err != nil {
			return err
		}
		programs[name] = path
	}
	for name, from := range programs {
		data, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(s.path(name), data, 0o755)
		}
		if err != nil {
			return err
		}
	}
	return os.CopyFS(s.path("escape"), os.DirFS("testdata"))
}

// lend makes programs that lend rights to who runs them, and what can be read by these.
func (s *stage) lend(user account) error {
	// As in capabilities(7): version 2, effective, CAP_DAC_READ_SEARCH.
	var right []byte
	for _, word := range []uint32{0x02000001, 1 << unix.CAP_DAC_READ_SEARCH, 0, 0, 0} {
		right = binary.LittleEndian.AppendUint32(right, word)
	}
	return errors.Join(
		os.WriteFile(s.RootKey, []byte(s.Secret), 0o600),
		os.Chown(s.SetID, int(user.other), int(user.other)), os.Chmod(s.SetID, 0o755|os.ModeSetuid),
		os.Chown(s.Capable, 0, 0), unix.Setxattr(s.Capable, "security.capability", right, 0),
	)
}
