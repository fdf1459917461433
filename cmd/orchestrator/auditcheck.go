package main

import (
	"crypto/ed25519"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/podagent/podagent/pkg/gateway/audit"
	"github.com/podagent/podagent/pkg/launcher"
)

// checkLog says whether there is a place for the audit log. It leaves nothing behind.
func (f *auditFlags) checkLog() launcher.Finding {
	switch f.to {
	case "":
		return unchecked("without --audit there is none")
	case toStdout:
		return passes("it goes to standard output")
	}
	if err := takesFile(f.to); err != nil {
		return fails(err, "Give a directory in which this user may make files, on a disk with room: no call is made that cannot be logged.")
	}
	return passes("%s takes files", f.to)
}

// checkKey says whether the log can be signed. A key that is not there is made when a gateway starts.
func (f *auditFlags) checkKey() launcher.Finding {
	const advice = "Give a file with an Ed25519 key in PEM that no other user may read, or one that is not there yet."
	if f.to == "" {
		return unchecked("without --audit there is none")
	}
	path, err := auditKeyPath(f.key)
	if err != nil {
		return fails(err, "Give --audit-key-file.")
	}
	key, err := audit.LoadKey(path)
	switch {
	case err == nil:
		return passes("its public half is %s", audit.FormatPublicKey(key.Public().(ed25519.PublicKey)))
	case !errors.Is(err, fs.ErrNotExist):
		return fails(err, advice)
	}
	if err := takesFile(filepath.Dir(path)); err != nil {
		return fails(err, advice)
	}
	return passes("it will be made in %s", path)
}

// takesFile reports why a file cannot be made in a directory, or, if there is no such directory, in the
// one above it in which it would be made.
func takesFile(dir string) error {
	for {
		_, err := os.Stat(dir)
		if parent := filepath.Dir(dir); !errors.Is(err, fs.ErrNotExist) || parent == dir {
			break
		}
		dir = filepath.Dir(dir)
	}
	f, err := os.CreateTemp(dir, ".podagent-check-")
	if err != nil {
		return err
	}
	_, err = f.WriteString("\n")
	return errors.Join(err, f.Sync(), f.Close(), os.Remove(f.Name()))
}
