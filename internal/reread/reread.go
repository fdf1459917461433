// Package reread reads files that others change: in place, by a rename, or, as a mounted Secret, by a
// link in the path.
package reread

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// File is a file that is read again and again. Its zero value is one that was not read yet. It must
// not be used concurrently.
type File struct {
	seen os.FileInfo // nil if there was none
	at   time.Time   // when it was read
	data []byte
	err  error
}

// Read returns the content, of up to limit bytes, and whether it is another than the last time, which
// it is the first time and after an error. The file is not opened if it was read within this time, and
// looks as it did then: a file that is written in place may look the same with another content.
func (f *File) Read(path string, limit int64, within time.Duration) (data []byte, changed bool, err error) {
	now, err := os.Stat(path)
	if err == nil && f.seen != nil && time.Since(f.at) < within && same(f.seen, now) {
		return f.data, false, f.err
	}
	if err == nil && !now.Mode().IsRegular() {
		err = errors.New(path + " is not a regular file") // a pipe could be read once
	}
	if err == nil {
		data, err = read(path, limit)
	}
	changed = err == nil && (f.err != nil || f.at.IsZero() || !bytes.Equal(data, f.data))
	f.seen, f.at, f.data, f.err = now, time.Now(), data, err
	return data, changed, err
}

// same reports whether a file looks as it did.
func same(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

func read(path string, limit int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, limit+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(data)) > limit:
		return nil, fmt.Errorf("%s is larger than %d bytes", path, limit)
	}
	return data, nil
}
