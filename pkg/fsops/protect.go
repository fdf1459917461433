package fsops

import (
	"fmt"
	"io/fs"
	"syscall"
)

// ErrProtected says that a path, or what lies below it, is protected: see
// [FS.Protect]. It is an fs.ErrPermission, too.
var ErrProtected error = protectedError{}

type protectedError struct{}

func (protectedError) Error() string { return "path is protected" }
func (protectedError) Unwrap() error { return fs.ErrPermission }

// Protect has every operation that changes files refuse, with [ErrProtected],
// what the patterns match and all that is below it. They replace those that
// were set before; none at all protect nothing, and cost nothing.
//
// A pattern has doublestar's syntax. A relative one starts in the present
// workdir; a slash at its end means nothing. Symbolic links in the part in
// front of the first wildcard are followed now, and are protected themselves:
// neither they nor what they lead to can be replaced. Everything else is
// compared with real paths. A pattern that is invalid, or can match nothing
// since a part behind a wildcard is empty, "." or "..", is a [*PatternError];
// more than 1024 of them, alternatives in braces counted each, are E2BIG.
//
// Writing, editing, making, removing, changing modes, and being either end of a
// renaming or the target of a copy or an extraction is refused, as are
//
//   - the removal and the renaming of a directory with something protected in
//     it, for which the directory is searched where the patterns have wildcards;
//     what of it cannot be read keeps it from being renamed;
//   - the renaming of a directory whose content would be protected then;
//   - a symbolic link through which a protected path would lead elsewhere.
//
// On Linux links and directories that others change meanwhile lead no operation
// astray: it holds the directory that it changes, asks the kernel for its path,
// and reaches what it changes through the descriptor. On other platforms there
// is a moment between the two.
//
// It is no protection from processes, the sandbox's own commands among them,
// and not of a file that has another name, as a hard link or in a second mount,
// by which it can be overwritten. An operation that has begun is finished as it
// began, but a Writer's content is checked again when it is committed.
func (f *FS) Protect(patterns []string) error {
	p, err := newProtection(f.Workdir(), patterns)
	if err != nil {
		return err
	}
	f.protection.Store(p)
	return nil
}

// Protected returns the patterns that are set, as they were given.
func (f *FS) Protected() []string {
	if p := f.protection.Load(); p != nil {
		return append([]string(nil), p.given...)
	}
	return nil
}

// CheckProtected returns the error that [FS.Protect] would have for patterns
// that are not valid, on whatever machine it is.
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

// protection is what is protected.
type protection struct {
	given []string
	rules []protectRule
}

// newProtection returns the protection by the patterns, nil for none.
func newProtection(workdir string, patterns []string) (*protection, error) {
	if err := CheckProtected(patterns); err != nil || len(patterns) == 0 {
		return nil, err
	}
	p := &protection{given: append([]string(nil), patterns...)}
	for _, pattern := range patterns {
		alternatives, err := splitProtected(pattern)
		if err != nil {
			return nil, err
		}
		for _, a := range alternatives {
			if err := p.add(workdir, pattern, a); err != nil {
				return nil, &fs.PathError{Op: "protect", Path: pattern, Err: cause(err)}
			}
		}
	}
	return p, nil
}

// add adds the rules for one alternative of a pattern.
func (p *protection) add(workdir, pattern string, a protectedGlob) error {
	dir, links, err := traceLinks(workdir, a.dir)
	if err != nil {
		return err
	}
	for _, link := range links {
		p.rules = append(p.rules, protectRule{pattern: pattern, dir: link, link: true})
	}
	p.rules = append(p.rules, protectRule{pattern: pattern, dir: dir, glob: a.glob})
	return nil
}

// refuse returns why nothing may change at the real path; nil if it may.
func (p *protection) refuse(path string) error {
	for _, r := range p.rules {
		if r.matches(path) {
			return fmt.Errorf("%w: the pattern %q covers %q", ErrProtected, r.pattern, path)
		}
	}
	return nil
}

// refuseAs is refuse for what is made there: a symbolic link must not lead paths
// that are protected elsewhere.
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
