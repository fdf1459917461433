package fsops

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/podagent/podagent/pkg/fsops/internal/globs"
)

// A protectRule is one alternative of a pattern, or a symbolic link on the way to a
// file that the pattern protects.
type protectRule struct {
	// pattern is the whole pattern, as the caller gave it.
	pattern string
	// dir is the part without wildcards, as a real path; the whole pattern if glob is
	// empty.
	dir string
	// glob is the rest.
	glob string
	// link says that dir is a symbolic link, with nothing below it.
	link bool
}

// matches reports whether the rule protects the real path.
func (r *protectRule) matches(path string) bool {
	rest, ok := under(r.dir, path)
	switch {
	case !ok:
		return false
	case r.link:
		return rest == ""
	case r.glob == "":
		return true
	case rest == "":
		// "a/**" matches a, too. Of other patterns doublestar would match "a/".
		return !slices.ContainsFunc(globs.Parts(r.glob), func(part string) bool { return part != "**" })
	}
	for i := range len(rest) + 1 {
		if (i == len(rest) || rest[i] == '/') && globs.Match(r.glob, rest[:i]) {
			return true
		}
	}
	return false
}

// reaches reports whether the rule may protect something below the real path.
func (r *protectRule) reaches(path string) bool {
	if rest, ok := under(path, r.dir); ok && rest != "" {
		return true
	}
	_, ok := under(r.dir, path)
	return ok && !r.link
}

// leadsThrough reports whether the part of the rule that has no wildcards leads
// through the real path.
func (r *protectRule) leadsThrough(path string) bool {
	rest, ok := under(path, r.dir)
	return ok && (rest != "" || r.glob != "")
}

// under returns the path below dir, and whether it is that or dir itself.
func under(dir, path string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(path, dir)
	switch {
	case !ok || rest == "":
		return "", ok
	case strings.HasSuffix(dir, string(filepath.Separator)): // the root
		return rest, true
	}
	return rest[1:], os.IsPathSeparator(rest[0])
}

// A protectedGlob is a pattern without braces: a directory without wildcards,
// as written, and the rest.
type protectedGlob struct{ dir, glob string }

// splitProtected returns the alternatives of a pattern of protected paths.
func splitProtected(pattern string) ([]protectedGlob, error) {
	if err := checkGlob(pattern); err != nil {
		return nil, err
	}
	alternatives, err := globs.Expand(pattern)
	if err != nil {
		return nil, globError(err)
	}
	var all []protectedGlob
	for _, a := range alternatives {
		trimmed, _ := cutSlash(a)
		if trimmed == "" && a != "" {
			trimmed = "/"
		}
		if trimmed == "" {
			return nil, &PatternError{Pattern: pattern, Offset: -1, Msg: "an alternative is empty"}
		}
		dir, glob := globs.Split(trimmed)
		if glob != "" && !canMatch(glob) {
			return nil, &PatternError{Pattern: pattern, Offset: -1, Msg: `a part behind a wildcard is empty, "." or "..", so that it would protect nothing`}
		}
		all = append(all, protectedGlob{dir, glob})
	}
	return all, nil
}

// canMatch reports whether a pattern without braces can match a real path.
func canMatch(glob string) bool {
	for _, part := range globs.Parts(glob) {
		switch strings.ReplaceAll(part, `\`, "") {
		case "", ".", "..":
			return false
		}
	}
	return true
}

// traceLinks returns the path without symbolic links, as far as it exists, and the
// links that it leads through. A relative path starts in workdir.
func traceLinks(workdir, path string) (real string, links []string, err error) {
	if !filepath.IsAbs(path) {
		path = workdir + string(filepath.Separator) + path
	}
	real, todo := rootOf(path)
	for todo != "" {
		var base string
		base, todo = nextPart(todo)
		next := filepath.Join(real, base)
		if base == "" || base == "." || base == ".." {
			real = next
			continue
		}
		info, err := os.Lstat(next)
		if err != nil || info.Mode().Type() != fs.ModeSymlink {
			real = next // even if it is not there, or cannot be looked at
			continue
		}
		if links = append(links, next); len(links) > maxSymlinks {
			return "", nil, syscall.ELOOP
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", nil, err
		}
		if filepath.IsAbs(target) {
			real, target = rootOf(target)
		}
		todo = target + string(filepath.Separator) + todo
	}
	return real, links, nil
}

// rootOf divides an absolute path into its root and the rest.
func rootOf(path string) (root, rest string) {
	volume := filepath.VolumeName(path)
	return volume + string(filepath.Separator), path[len(volume):]
}

// nextPart returns the first part of a path, and the rest.
func nextPart(path string) (first, rest string) {
	i := strings.IndexFunc(path, func(r rune) bool { return r < 0x80 && os.IsPathSeparator(byte(r)) })
	if i < 0 {
		return path, ""
	}
	return path[:i], path[i+1:]
}
