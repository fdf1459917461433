package agentsandbox

import (
	"errors"
	"io/fs"
	"net/http"
	"path"
	"syscall"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/gateway/internal/faces"
	"github.com/podagent/podagent/pkg/launcher"
)

// legacyEntry is an entry of a directory as the Python runtime has it.
type legacyEntry struct {
	Name    string  `json:"name"`
	Size    int64   `json:"size"`
	Type    string  `json:"type"`
	ModTime float64 `json:"mod_time"` // in seconds since 1970
}

// download answers with the content of a file.
func download(c *call) error {
	return c.onFile("/download/", func(s *launcher.Sandbox, name string) error {
		err := c.send(s, name)
		if errors.Is(err, syscall.EISDIR) {
			return gateway.Fail(http.StatusNotFound, "not_exist", "there is no such file")
		}
		return err
	})
}

// listLegacy lists a directory.
func listLegacy(c *call) error {
	return c.onFile("/list/", func(s *launcher.Sandbox, name string) error {
		all, err := entriesOf(c.r.Context(), s, name)
		switch {
		case errors.Is(err, syscall.ENOTDIR):
			return gateway.Fail(http.StatusNotFound, "not_exist", "the path is no directory")
		case err != nil:
			return err
		}
		list := make([]legacyEntry, len(all))
		for i, a := range all {
			list[i] = legacyEntry{faces.Text(path.Base(a.Path)), a.Size, typeOf(a), float64(a.ModTime.UnixNano()) / 1e9}
		}
		faces.WriteJSON(c.w, http.StatusOK, list)
		return nil
	})
}

// exists answers whether there is a file.
func exists(c *call) error {
	named, _ := c.name("/exists/")
	return c.onFile("/exists/", func(s *launcher.Sandbox, name string) error {
		_, err := s.Stat(c.r.Context(), name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			return err
		}
		faces.WriteJSON(c.w, http.StatusOK, struct {
			Path   string `json:"path"`
			Exists bool   `json:"exists"`
		}{faces.Text(named), err == nil})
		return nil
	})
}

// uploadLegacy writes the file of a form, by its file name, which may have directories.
func uploadLegacy(c *call) error {
	file, named, err := c.formFile()
	if err != nil {
		return err
	}
	if named == "" {
		return faces.BadRequest("the file of the form has no file name")
	}
	return c.on(gateway.Detail{Paths: []string{named}}, func(s *launcher.Sandbox) error {
		name, err := within(s.Workdir, named)
		if err != nil {
			return err
		}
		if err := c.write(s, name, file, fsops.WriteOptions{Parents: true}); err != nil {
			return err
		}
		faces.WriteJSON(c.w, http.StatusOK, struct {
			Message string `json:"message"`
		}{"File '" + faces.Text(named) + "' uploaded successfully."})
		return nil
	})
}
