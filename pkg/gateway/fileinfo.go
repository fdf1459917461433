package gateway

import (
	"context"
	"net/http"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher"
)

// fileInfoOperations are those on files that do not carry their content.
func (g *Gateway) fileInfoOperations() {
	const files = sandboxRoot + "/files"
	register(g, http.MethodGet, files+"/stat", "stat-file", "Describe a file", g.stat)
	register(g, http.MethodGet, files+"/list", "list-files", "List a directory", g.listFiles)
	register(g, http.MethodPost, files+"/mkdir", "make-directory", "Make a directory", g.mkdir)
	register(g, http.MethodPost, files+"/move", "move-file", "Rename a file or a directory", g.move)
	register(g, http.MethodPost, files+"/edit", "edit-file", "Replace texts in a file, all or none", g.edit)
}

type statInput struct {
	ID     string `path:"id" doc:"the sandbox's name"`
	Path   string `query:"path" required:"true" doc:"the file's path"`
	Follow bool   `query:"follow" default:"true" doc:"describe what a symbolic link leads to"`
}

func (in *statInput) detail(context.Context) Detail { return Detail{Paths: []string{in.Path}} }

type fileOutput struct{ Body File }

func (g *Gateway) stat(ctx context.Context, in *statInput) (*fileOutput, error) {
	out := &fileOutput{}
	return out, g.on(ctx, in.ID, func(s *launcher.Sandbox) error {
		stat := s.Lstat
		if in.Follow {
			stat = s.Stat
		}
		a, err := stat(ctx, in.Path)
		out.Body = fileOf(a)
		return err
	})
}

type listFilesInput struct {
	ID        string `path:"id" doc:"the sandbox's name"`
	Path      string `query:"path" required:"true" doc:"the directory's path"`
	Recursive bool   `query:"recursive" doc:"list the whole tree below it"`
	Limit     int    `query:"limit" minimum:"1" maximum:"10000" default:"10000" doc:"how many entries at most"`
}

func (in *listFilesInput) detail(context.Context) Detail { return Detail{Paths: []string{in.Path}} }

type listFilesOutput struct {
	Body struct {
		Entries   []File `json:"entries" nullable:"false"`
		Truncated bool   `json:"truncated" doc:"there are more: as many as limit says are listed, or as fit"`
	}
}

func (g *Gateway) listFiles(ctx context.Context, in *listFilesInput) (*listFilesOutput, error) {
	out := &listFilesOutput{}
	out.Body.Entries = []File{}
	return out, g.on(ctx, in.ID, func(s *launcher.Sandbox) error {
		size := 0
		for a, err := range s.List(ctx, in.Path, fsops.ListOptions{Recursive: in.Recursive}) {
			if err != nil {
				return err
			}
			size += len(a.Path) + len(a.Target) + len(a.ETag)
			if len(out.Body.Entries) == min(in.Limit, listLimit) || size > listSize {
				out.Body.Truncated = true
				return nil
			}
			out.Body.Entries = append(out.Body.Entries, fileOf(a))
		}
		return nil
	})
}

type mkdirInput struct {
	ID   string `path:"id" doc:"the sandbox's name"`
	Body struct {
		Path    string `json:"path" doc:"the directory's path"`
		Mode    string `json:"mode,omitempty" doc:"its permissions, in octal" example:"0755"`
		Parents bool   `json:"parents,omitempty" doc:"make the directories above it that are missing; it may be there"`
	}
}

func (in *mkdirInput) detail(context.Context) Detail { return Detail{Paths: []string{in.Body.Path}} }

func (g *Gateway) mkdir(ctx context.Context, in *mkdirInput) (*struct{}, error) {
	mode, err := modeOf(in.Body.Mode)
	if err != nil {
		return nil, err
	}
	if mode == 0 {
		mode = 0o777
	}
	return nil, g.on(ctx, in.ID, func(s *launcher.Sandbox) error {
		if in.Body.Parents {
			return s.MkdirAll(ctx, in.Body.Path, mode)
		}
		return s.Mkdir(ctx, in.Body.Path, mode)
	})
}

type moveInput struct {
	ID   string `path:"id" doc:"the sandbox's name"`
	Body struct {
		From    string `json:"from"`
		To      string `json:"to" doc:"its new path, not the directory that it comes into"`
		Replace bool   `json:"replace,omitempty" doc:"replace a file, or an empty directory, that is there"`
	}
}

func (in *moveInput) detail(context.Context) Detail {
	return Detail{Paths: []string{in.Body.From, in.Body.To}}
}

func (g *Gateway) move(ctx context.Context, in *moveInput) (*struct{}, error) {
	return nil, g.on(ctx, in.ID, func(s *launcher.Sandbox) error {
		if in.Body.Replace {
			return s.Rename(ctx, in.Body.From, in.Body.To)
		}
		return s.RenameNoReplace(ctx, in.Body.From, in.Body.To)
	})
}

type editInput struct {
	ID      string `path:"id" doc:"the sandbox's name"`
	IfMatch string `header:"If-Match" doc:"the etag that the file must have"`
	Body    struct {
		Path  string `json:"path"`
		Edits []struct {
			Old string `json:"old" minLength:"1" doc:"the text, which is in the file exactly once"`
			New string `json:"new" doc:"what replaces it"`
			All bool   `json:"all,omitempty" doc:"replace it wherever it is"`
		} `json:"edits" minItems:"1" nullable:"false" doc:"the later ones see what the earlier ones made"`
	}
}

func (in *editInput) detail(context.Context) Detail { return Detail{Paths: []string{in.Body.Path}} }

type editOutput struct {
	ETag string `header:"ETag"`
	Body struct {
		Occurrences   []int  `json:"occurrences" nullable:"false" doc:"how often each edit replaced its text"`
		Diff          string `json:"diff,omitempty" doc:"the whole change, as a unified diff"`
		DiffOther     []byte `json:"diff_base64,omitempty" doc:"in place of diff, if that is not UTF-8"`
		DiffTruncated bool   `json:"diff_truncated,omitempty" doc:"diff is only the beginning"`
	}
}

func (g *Gateway) edit(ctx context.Context, in *editInput) (*editOutput, error) {
	match, err := unquoted(in.IfMatch)
	if err != nil {
		return nil, err
	}
	edits := make([]fsops.Edit, len(in.Body.Edits))
	for i, e := range in.Body.Edits {
		edits[i] = fsops.Edit{Old: []byte(e.Old), New: []byte(e.New), All: e.All}
	}
	out := &editOutput{}
	return out, g.on(ctx, in.ID, func(s *launcher.Sandbox) error {
		done, err := s.Edit(ctx, in.Body.Path, edits, fsops.EditOptions{IfMatch: match})
		if err != nil {
			return err
		}
		out.ETag = quoted(done.Write.Attr.ETag)
		out.Body.Occurrences, out.Body.DiffTruncated = done.Occurrences, done.DiffTruncated
		out.Body.Diff, out.Body.DiffOther = split(string(done.Diff))
		return nil
	})
}
