package tools

import (
	"path"

	"github.com/podagent/podagent/pkg/fsops"
)

// skillHead is the first lines of a skill's file, or why they could not be read.
type skillHead struct {
	lines  []string
	unread string
}

// skillHeads are the heads of skills' files.
type skillHeads struct {
	byDir map[string]*skillHead
	// binary says that some of the files are binary, and so have no head.
	binary bool
}

// at returns the head of the file with this path.
func (h *skillHeads) at(file string) *skillHead {
	dir := path.Base(path.Dir(file))
	if h.byDir == nil {
		h.byDir = map[string]*skillHead{}
	}
	if h.byDir[dir] == nil {
		h.byDir[dir] = &skillHead{}
	}
	return h.byDir[dir]
}

// of returns the head of the skill in a directory of this name.
func (h *skillHeads) of(dir string) skillHead {
	if head := h.byDir[dir]; head != nil {
		return *head
	}
	if h.binary {
		return skillHead{unread: "it is empty or binary"}
	}
	return skillHead{}
}

// addSkipped adds why files could not be read.
func (h *skillHeads) addSkipped(skipped *fsops.SkippedError) {
	for _, err := range skipped.Errs {
		h.at(skippedName(err)).unread = "it could not be read: " + reason(err)
	}
}
