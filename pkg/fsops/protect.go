package fsops

import (
	"fmt"
	"io/fs"
	"slices"
	"syscall"
)

// ErrProtected says that a path, or something below it, is protected: see
// [FS.Protect]. It matches fs.ErrPermission, too.
var ErrProtected error = protectedError{}

type protectedError struct{}

func (protectedError) Error() string { return "path is protected" }
func (protectedError) Unwrap() error { return fs.ErrPermission }

// Protect protects what the patterns match, and all that is below it: operations
// that would change it fail with [ErrProtected]. The patterns replace those that
// were set before. Without patterns nothing is protected.
//
// A pattern has doublestar's syntax. A relative one starts in the present workdir.
// A slash at its end means nothing. Symbolic links in front of the first wildcard
// are followed now, and by [FS.FollowProtected], and are protected themselves: neither a link nor the file that
// it leads to can be replaced. Everything else is compared with real paths. An
// invalid pattern is a [*PatternError]; so is one that can match nothing, since a
// part behind a wildcard is empty, "." or "..". More than 1024 patterns, each
// alternative in braces counted, are E2BIG.
//
// Writing, editing, making and removing a protected file are refused. So are
// changing its mode, renaming it, renaming, copying or extracting to it, and:
//
//   - the removal and the renaming of a directory that holds something protected.
//     If patterns have wildcards, the directory is searched first; one that cannot
//     be read whole is not renamed;
//   - the renaming of a directory whose content would be protected afterwards;
//   - a symbolic link through which a protected path would lead elsewhere.
//
// On Linux, other processes cannot lead an operation astray by changing links and
// directories meanwhile: the operation holds the directory, asks the kernel for its
// path, and changes the file through the descriptor. On other platforms there is a
// moment between the check and the change.
//
// Processes, such as the sandbox's own commands, are not held back. A file that has
// another name, by a hard link or a second mount, can be overwritten by that name.
// An operation that has begun goes on under the former patterns, but a Writer is
// checked again when it commits.
func (f *FS) Protect(patterns []string) error {
	p, err := newProtection(f.Workdir(), patterns)
	if err != nil {
		return err
	}
	f.protection.Store(p)
	return nil
}

// FollowProtected follows the symbolic links in front of the first wildcards again. It is for callers who have made
// files by themselves: links among them, and what these lead to, are protected from now on. What was protected when
// Protect was called stays so. If the links of a pattern lead nowhere, the error says so, and the other patterns are
// followed all the same.
func (f *FS) FollowProtected() error {
	for {
		before := f.protection.Load()
		if before == nil {
			return nil
		}
		now, err := before.follow()
		if f.protection.CompareAndSwap(before, now) {
			return err
		}
	}
}

// Protected returns the patterns that are set, as they were given.
func (f *FS) Protected() []string {
	if p := f.protection.Load(); p != nil {
		return append([]string(nil), p.given...)
	}
	return nil
}

// CheckProtected returns the error that [FS.Protect] has for invalid patterns. It
// does not look at the file system.
func CheckProtected(patterns []string) error {
	rules := 0
	for _, pattern := range patterns {
		alternatives, err := splitProtected(pattern)
		if err != nil {
			return err
		}
		if rules += len(alternatives); rules > maxProtectRules {
			return fmt.Errorf("more than %d patterns of protected paths: %w", maxProtectRules, syscall.E2BIG)
		}
	}
	return nil
}

// protection is a set of patterns that protect paths.
type protection struct {
	workdir string // in which relative patterns start
	given   []string
	// first are the rules by the links of the beginning; rules are these, and those by the links that are there now.
	first, rules []protectRule
}

// newProtection returns the protection by the patterns, nil if there are none.
func newProtection(workdir string, patterns []string) (*protection, error) {
	if err := CheckProtected(patterns); err != nil || len(patterns) == 0 {
		return nil, err
	}
	p := &protection{workdir: workdir, given: slices.Clone(patterns)}
	var err error
	if p.first, err = p.trace(); err != nil {
		return nil, err
	}
	p.rules = p.first
	return p, nil
}

// follow returns the protection by the links that are there now, too.
func (p *protection) follow() (*protection, error) {
	now, err := p.trace()
	rules := slices.Clone(p.first)
	for _, r := range now {
		if !slices.Contains(p.first, r) {
			rules = append(rules, r)
		}
	}
	return &protection{workdir: p.workdir, given: p.given, first: p.first, rules: rules}, err
}

// trace follows links, and returns the rules for all patterns. The error is the first one: that of a pattern does not
// keep the others from being followed.
func (p *protection) trace() (rules []protectRule, first error) {
	for _, pattern := range p.given {
		alternatives, err := splitProtected(pattern)
		for i := 0; i < len(alternatives) && err == nil; i++ {
			var more []protectRule
			more, err = rulesOf(p.workdir, pattern, alternatives[i])
			rules = append(rules, more...)
		}
		if err != nil && first == nil {
			first = &fs.PathError{Op: "protect", Path: pattern, Err: cause(err)}
		}
	}
	return rules, first
}

// rulesOf returns the rules for one alternative of a pattern.
func rulesOf(workdir, pattern string, a protectedGlob) (rules []protectRule, err error) {
	dir, links, err := traceLinks(workdir, a.dir)
	if err != nil {
		return nil, err
	}
	for _, link := range links {
		rules = append(rules, protectRule{pattern: pattern, dir: link, link: true})
	}
	return append(rules, protectRule{pattern: pattern, dir: dir, glob: a.glob}), nil
}

// refuse returns nil if the file at the real path may be changed.
func (p *protection) refuse(path string) error {
	for _, r := range p.rules {
		if r.matches(path) {
			return fmt.Errorf("%w: the pattern %q covers %q", ErrProtected, r.pattern, path)
		}
	}
	return nil
}

// refuseAs is refuse for making a file of this type at the path: a symbolic link must
// not lead protected paths elsewhere.
func (p *protection) refuseAs(path string, typ fs.FileMode) error {
	for _, r := range p.rules {
		if typ == fs.ModeSymlink && r.leadsThrough(path) {
			return fmt.Errorf("%w: a link at %q would lead elsewhere what the pattern %q covers", ErrProtected, path, r.pattern)
		}
	}
	return p.refuse(path)
}

// reaches reports whether something below the real path may be protected.
func (p *protection) reaches(path string) bool {
	for _, r := range p.rules {
		if r.reaches(path) {
			return true
		}
	}
	return false
}
