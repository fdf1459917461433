//go:build !linux

package fsops

import (
	"errors"
	"io/fs"
	"os"
)

// openUnnamed fails, since this platform has no files without names.
func openUnnamed(string, fs.FileMode) (*os.File, error) { return nil, errors.ErrUnsupported }

// openUnnamedIn fails as openUnnamed does.
func openUnnamedIn(*os.Root, fs.FileMode) (*os.File, error) { return nil, errors.ErrUnsupported }

// linkUnnamed fails, since there is nothing to link.
func linkUnnamed(*os.File, string) error { return errors.ErrUnsupported }

// linkUnnamedIn fails as linkUnnamed does.
func linkUnnamedIn(*os.File, *os.File, string) error { return errors.ErrUnsupported }

// descriptorPath returns a path that leads to the open file.
func descriptorPath(file *os.File) string { return file.Name() }
