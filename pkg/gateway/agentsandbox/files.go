package agentsandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/gateway/internal/content"
	"github.com/podagent/podagent/pkg/gateway/internal/faces"
	"github.com/podagent/podagent/pkg/launcher"
)

// directory is a list of a directory as sandboxd has it.
type directory struct {
	Path    string  `json:"path"`
	Entries []entry `json:"entries"`
}

type entry struct {
	Name       string `json:"name"`
	Size       int64  `json:"size"`
	Type       string `json:"type"`
	ModifiedAt string `json:"modified_at"`
	Mode       string `json:"mode"`
}

// getFile answers with the content of a file, or a list of a directory.
func getFile(c *call) error {
	return c.onFile(filesPath, func(s *launcher.Sandbox, name string) error {
		err := c.send(s, name)
		if !errors.Is(err, syscall.EISDIR) {
			return err
		}
		all, err := entriesOf(c.r.Context(), s, name)
		if err != nil {
			return err
		}
		list := directory{"/" + faces.Text(strings.TrimPrefix(strings.TrimPrefix(name, path.Clean(s.Workdir)), "/")), make([]entry, len(all))}
		for i, a := range all {
			list.Entries[i] = entry{faces.Text(path.Base(a.Path)), a.Size, typeOf(a), a.ModTime.UTC().Format(time.RFC3339), fmt.Sprintf("%04o", a.Mode.Perm())}
		}
		faces.WriteJSON(c.w, http.StatusOK, list)
		return nil
	})
}

// send answers with the content of a file. The error of a directory is syscall.EISDIR.
func (c *call) send(s *launcher.Sandbox, name string) error {
	a, err := s.Stat(c.r.Context(), name)
	switch {
	case err != nil:
		return err
	case a.IsDir():
		return syscall.EISDIR
	}
	c.began, err = content.Serve(c.w, c.r, s.Client, name, func(h http.Header, a fsops.Attr) {
		h.Set("Content-Type", "application/octet-stream")
		h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": path.Base(name)}))
		h.Set("ETag", `"`+a.ETag+`"`)
	})
	return err
}

// entriesOf lists a directory, with what its symbolic links lead to in their place. Those that lead nowhere
// are left out.
func entriesOf(ctx context.Context, s *launcher.Sandbox, dir string) ([]fsops.Attr, error) {
	var all []fsops.Attr
	size := 0
	for a, err := range s.List(ctx, dir, fsops.ListOptions{}) {
		if err != nil {
			return nil, err
		}
		if size += entrySize + 6*len(path.Base(a.Path)); size > listLimit {
			return nil, gateway.Fail(http.StatusRequestEntityTooLarge, "too_large", "the directory has too many entries for one answer")
		}
		// What else it has, the answer has not.
		all = append(all, fsops.Attr{Path: strings.Clone(path.Base(a.Path)), Size: a.Size, Mode: a.Mode, ModTime: a.ModTime})
	}
	looks, ctx := errgroup.WithContext(ctx)
	looks.SetLimit(looksAtOnce)
	for i, a := range all {
		if a.Mode.Type() != fs.ModeSymlink {
			continue
		}
		looks.Go(func() error {
			to, err := s.Stat(ctx, path.Join(dir, a.Path))
			switch {
			case err == nil:
				all[i] = fsops.Attr{Path: a.Path, Size: to.Size, Mode: to.Mode, ModTime: to.ModTime}
			case !faces.IsAboutFile(err):
				return err
			}
			return nil
		})
	}
	err := looks.Wait()
	kept := all[:0]
	for _, a := range all {
		if a.Mode.Type() != fs.ModeSymlink {
			kept = append(kept, a)
		}
	}
	return kept, err
}

func typeOf(a fsops.Attr) string {
	if a.IsDir() {
		return "directory"
	}
	return "file"
}

// putFile writes a file: as a whole, or it stays as it was.
func putFile(c *call) error {
	mode, err := modeOf(c.r.URL.Query().Get("mode"))
	if err != nil {
		return err
	}
	file, err := c.content()
	if err != nil {
		return err
	}
	return c.onFile(filesPath, func(s *launcher.Sandbox, name string) error {
		if name == path.Clean(s.Workdir) {
			return faces.BadRequest("target path is a directory")
		}
		if err := c.write(s, name, file, fsops.WriteOptions{Parents: true, Perm: mode}); err != nil {
			return err
		}
		if mode != 0 { // an existing file keeps its own, and the umask applies to a new one
			if err := s.Chmod(c.r.Context(), name, mode); err != nil {
				return err
			}
		}
		c.w.WriteHeader(http.StatusNoContent)
		return nil
	})
}

// modeOf returns the permissions that a query asks for; 0 for none.
func modeOf(text string) (fs.FileMode, error) {
	if text == "" {
		return 0, nil
	}
	mode, err := strconv.ParseUint(text, 8, 12)
	if err != nil || len(text) != 4 || text[0] != '0' {
		return 0, faces.BadRequest("mode %.20q must match ^0[0-7]{3}$", text)
	}
	return fs.FileMode(mode), nil
}

// deleteFile removes a file or a directory. The root itself stays, and is emptied.
func deleteFile(c *call) error {
	recursive := false
	if text := c.r.URL.Query().Get("recursive"); text != "" {
		var err error
		if recursive, err = strconv.ParseBool(text); err != nil {
			return faces.BadRequest("recursive %.20q must be a boolean", text)
		}
	}
	return c.onFile(filesPath, func(s *launcher.Sandbox, name string) error {
		if _, err := s.Lstat(c.r.Context(), name); err != nil {
			return err
		}
		if err := remove(c.r.Context(), s, name, recursive); err != nil {
			return err
		}
		c.w.WriteHeader(http.StatusNoContent)
		return nil
	})
}

func remove(ctx context.Context, s *launcher.Sandbox, name string, recursive bool) error {
	switch isRoot := name == path.Clean(s.Workdir); {
	case isRoot && !recursive:
		return gateway.Fail(http.StatusConflict, "not_empty", "the root of the sandbox stays: recursive=true empties it")
	case isRoot:
		for {
			some, err := someIn(ctx, s, name)
			if len(some) == 0 || err != nil {
				return err
			}
			for _, inside := range some {
				if err := s.RemoveAll(ctx, inside); err != nil {
					return err
				}
			}
		}
	case recursive:
		return s.RemoveAll(ctx, name)
	}
	return s.Remove(ctx, name)
}

// someIn returns at most removedAtOnce entries of a directory, none if it is empty. What is half listed must
// not change, and what a sandbox lists has no end that one could rely on.
func someIn(ctx context.Context, s *launcher.Sandbox, dir string) (some []string, err error) {
	for a, err := range s.List(ctx, dir, fsops.ListOptions{}) {
		if err != nil {
			return nil, err
		}
		if some = append(some, a.Path); len(some) == removedAtOnce {
			break
		}
	}
	return some, nil
}
