package audit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/podagent/podagent/pkg/fsops"
)

// Suffix ends the names of the files of logs.
const Suffix = ".jsonl"

// nextFile makes another file.
func (l *Log) nextFile() (*os.File, error) {
	if err := os.MkdirAll(l.options.Dir, 0o700); err != nil {
		return nil, err
	}
	name := fmt.Sprintf("%s-%s-%04d%s", l.since.Format("20060102T150405Z"), l.id[:8], l.files+1, Suffix)
	f, err := os.OpenFile(filepath.Join(l.options.Dir, name), os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if err := fsops.SyncDir(l.options.Dir); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	l.files++
	return f, nil
}

// rotate goes on in another file if the last one is large. It leaves that one signed.
func (l *Log) rotate() error {
	old := l.file()
	if old == nil || l.size < l.limit {
		return nil
	}
	if l.chain.unsigned > 0 {
		if _, err := l.write([]*entry{entryOf(line{Type: sign, Time: time.Now().UTC()})}); err != nil {
			return err
		}
	}
	next, err := l.nextFile()
	if err != nil {
		return err
	}
	l.out, l.size, l.anew, l.torn = next, 0, true, false
	l.signing.Go(func() {
		if err := errors.Join(syncFile(old), old.Close()); err != nil {
			l.options.Log.Error("a file of the audit log may not be on the disk", "error", err)
		}
	})
	return nil
}

// file returns the file that is written; nil if there is none.
func (l *Log) file() *os.File {
	if l.options.Out != nil {
		return nil
	}
	return l.out.(*os.File)
}

func (l *Log) closeFile() error {
	if f := l.file(); f != nil {
		return f.Close()
	}
	return nil
}

// syncFile brings a file to the disk, unless there is none, or it was followed by another, which has
// brought it there.
func syncFile(f *os.File) error {
	if f == nil {
		return nil
	}
	if err := f.Sync(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}
