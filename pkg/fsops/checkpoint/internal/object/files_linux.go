package object

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// OpenRegular opens a file that whoever can write to the store may have replaced: it waits for nobody, and follows
// no link. What is no regular file is [ErrCorrupt].
func OpenRegular(path string) (*os.File, int64, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, unix.ELOOP):
		err = fmt.Errorf("%w: %s is a link", ErrCorrupt, filepath.Base(path))
	case errors.Is(err, unix.ENXIO):
		err = fmt.Errorf("%w: %s is a socket", ErrCorrupt, filepath.Base(path))
	}
	if err != nil {
		return nil, 0, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%w: %s is no file", ErrCorrupt, filepath.Base(path))
	}
	if err != nil {
		file.Close()
		return nil, 0, err
	}
	return file, info.Size(), nil
}

// NamesIn returns the names in a directory of the store. Whoever can write to the store may have made more of them than
// memory holds: more than limit of them are [ErrTooLarge].
func NamesIn(path string, limit int) ([]string, error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(limit + 1)
	switch {
	case err == io.EOF:
		return nil, nil
	case err == nil && len(names) > limit:
		return nil, fmt.Errorf("%w: the store has more than %d %s", ErrTooLarge, limit, filepath.Base(path))
	}
	return names, err
}

// RemoveAny removes a file, or nothing if there is none.
func RemoveAny(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// RemoveTree removes whatever has a path, with all that is in it. Unlike [os.RemoveAll], it takes two descriptors however deep
// that is, which whoever can write to the store decides: it lifts what is in directories to the top.
func RemoveTree(path string) error {
	err := RemoveAny(path)
	if !errors.Is(err, fs.ErrExist) { // which is that it is not empty
		return err
	}
	err = eachIn(path, func(name string) error {
		inner := filepath.Join(path, name)
		err := RemoveAny(inner)
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		err = eachIn(inner, func(name string) error {
			return os.Rename(filepath.Join(inner, name), filepath.Join(path, rand.Text()))
		})
		return errors.Join(err, RemoveAny(inner))
	})
	return errors.Join(err, RemoveAny(path))
}

// eachIn calls take with the names in a directory, until it is empty. take removes or moves what has the name.
func eachIn(path string, take func(name string) error) error {
	for {
		dir, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		if err != nil {
			return err
		}
		names, err := dir.Readdirnames(namesAtOnce)
		dir.Close()
		if err == io.EOF {
			return nil
		}
		for _, name := range names {
			err = errors.Join(err, take(name))
		}
		if err != nil {
			return err
		}
	}
}

// namesAtOnce is how many names of a directory are in memory.
const namesAtOnce = 1000
