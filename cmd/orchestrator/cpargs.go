package main

import (
	"fmt"
	"path"
	"strings"
)

// An end is one of the two ends of a copy.
type end struct {
	// inSandbox tells a path in the sandbox with this id from a local path.
	inSandbox bool
	id        string
	path      string
}

// parseEnds parses the source and the target of cp. The id is for ends that begin
// with a colon.
func parseEnds(source, target, id string) (from, to end, err error) {
	from, to = parseEnd(source, id), parseEnd(target, id)
	switch {
	case from.inSandbox && to.inSandbox:
		return from, to, usagef("cp copies into a sandbox or out of one, but both %q and %q name one: copy to a local file in between", source, target)
	case !from.inSandbox && !to.inSandbox:
		return from, to, usagef("neither %q nor %q names a sandbox: write ID:PATH for a path in the sandbox with that id", source, target)
	case from.inSandbox && from.id == "" || to.inSandbox && to.id == "":
		return from, to, usagef("a path that begins with a colon needs the id of its sandbox: write ID:PATH, or give --id ID")
	case source == "" || target == "":
		return from, to, usagef("a path must not be empty")
	}
	return from, to, nil
}

// parseEnd parses ID:PATH, :PATH, or a local path. An id ends with the first
// colon. A colon after a slash belongs to a local path, as does the one of a
// drive letter.
func parseEnd(s, id string) end {
	colon := strings.IndexAny(s, ":/")
	if colon < 0 || s[colon] == '/' || colon == 1 && strings.HasPrefix(s[colon:], `:\`) {
		return end{path: s}
	}
	if colon > 0 {
		id = s[:colon]
	}
	inside := s[colon+1:]
	if inside == "" {
		inside = "."
	}
	return end{inSandbox: true, id: id, path: inside}
}

// A destination is where a copy goes.
type destination struct {
	path       string
	there, dir bool
}

// landing returns the path that the source gets, as with cp -r: its own name in an
// existing directory, otherwise the target's.
func (d destination) landing(source string, sourceIsDir bool) (string, error) {
	switch {
	case d.there && d.dir:
		return nameIn(d.path, source), nil
	case d.there && sourceIsDir:
		return "", fmt.Errorf("cannot copy the directory %s: %s is a file", quote(source), quote(d.path))
	case !sourceIsDir && strings.HasSuffix(d.path, "/"):
		return "", fmt.Errorf("cannot copy %s: there is no directory %s", quote(source), quote(d.path))
	}
	return d.path, nil
}

// nameIn returns the path of the source's copy in dir. A source without a name of its
// own, such as "." or "src/..", stands for its content.
func nameIn(dir, source string) string {
	switch name := path.Base(source); name {
	case ".", "..", "/":
		return dir
	default:
		return path.Join(dir, name)
	}
}
