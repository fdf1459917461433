// Package linere finds the lines of a text that match a regular expression.
//
// Syntax and meaning are those of Go's regexp (RE2): the text is UTF-8, each
// invalid byte counts as U+FFFD, and \w, \d, \s and \b know ASCII alone. But each
// line is matched by itself: ^, $, \A and \z are its ends, and nothing matches its
// newline. A carriage return at the end of a line is not part of the matched text,
// unless the pattern names it, so $ matches before it.
//
// Most of a text does not match, and the speed of the package is that of finding
// this out. It looks for a literal that every match contains, by the byte of it
// that is the rarest in source code (see literal.go and probe.go), or else for a
// run of bytes of a small set (see run.go). A program that is built with
// GOEXPERIMENT=simd looks for literals with vector instructions instead, where they
// are faster and the processor has them (see vector.go). A deterministic automaton,
// which is built while it runs, decides on the lines that have one, or on all lines if
// the pattern has neither (see states.go). The standard library's regexp finds the
// matches within a line, and steps in for an automaton that grows too large. Time
// is linear in the text; memory is bounded by the constants in limits.go.
package linere

import (
	"context"
	"regexp"
	"regexp/syntax"
	"sync"
)

// Options say how a pattern is read. The zero value is a regular expression
// that distinguishes upper from lower case.
type Options struct {
	// IgnoreCase matches letters whatever their case, as (?i) does.
	IgnoreCase bool
	// SmartCase is IgnoreCase for a pattern that has a literal character, and none
	// in upper case. Escapes such as \S or \pL are no literals.
	SmartCase bool
	// Fixed takes the pattern as text.
	Fixed bool
	// Word demands that there is no word character (\w) directly before a
	// match, and none directly after it.
	Word bool
	// Multiline matches the text as a whole: ^ and $ are the ends of lines, \A and
	// \z those of the text, and the pattern may name newlines. A text without any
	// of the pattern's literals is passed over; others are searched at the speed of
	// the standard library.
	Multiline bool
}

// A Span is a range of bytes, End excluded.
type Span struct{ Start, End int }

// A Regexp is a compiled pattern. It may be used concurrently.
type Regexp struct {
	multiline bool
	word      bool
	// keepCR says that the pattern names a carriage return, so that the one
	// at the end of a line counts as a part of its text.
	keepCR bool
	// first finds the first match, and more the first match after the character in
	// front of it. The match is the group m.
	first *regexp.Regexp
	more  func() (*regexp.Regexp, error)
	group int
	// needles find the literals of which every match has one. If there are none, run
	// is a run that every match has, or nil. prefiltered says that there are needles
	// or a run.
	needles     []needle
	run         *run
	prefiltered bool
	// vector does the work of the needles, if the processor can.
	vector vectorSearch
	// prog matches a line; it is nil with multiline.
	prog *program
	// literal, if not empty, is the only text that matches.
	literal []byte
	// prefix is the text that all matches begin with.
	prefix []byte
	// beginText says that the pattern names the beginning of the text.
	beginText bool
	// shortest is the least length of a match.
	shortest int
	// atOnce is the longest text that the standard library searches without checking
	// whether the search has ended.
	atOnce int
}

// Compile compiles a pattern. The error is a *[syntax.Error]; it is of the code
// [syntax.ErrLarge] also for patterns that would take too much memory.
func Compile(pattern string, opts Options) (*Regexp, error) {
	src, tree, err := parse(pattern, opts)
	if err != nil {
		return nil, err
	}
	re := &Regexp{
		multiline: opts.Multiline, word: opts.Word, keepCR: namesCR(tree), beginText: hasBeginText(tree),
		shortest: shortest(tree), atOnce: maxSteps / max(insts(tree, maxInsts), 1),
	}
	if opts.Multiline {
		if !re.keepCR && contains(tree, isEndLine) {
			tree = endsBeforeCR(tree)
			src.text = tree.String()
		}
		re.prefilter(tree)
		return re, re.compileStandard(src)
	}
	tree = withinLines(tree)
	re.prefilter(tree)
	if re.prog, err = compileProgram(tree, re.word, re.keepCR); err != nil {
		return nil, err
	}
	return re, re.compileStandard(src)
}

// prefilter prepares the search for literals.
func (re *Regexp) prefilter(tree *syntax.Regexp) {
	list := requiredLiterals(tree, re.keepCR)
	if re.word {
		list = inexact(list)
	}
	if re.vector = newVectorSearch(list); re.vector == nil && len(list) > maxNeedles {
		list = nil
	}
	re.needles, re.prefiltered = newNeedles(list), list != nil
	if list == nil {
		re.run = requiredRun(tree)
		re.prefiltered = re.run != nil
	}
}

// compileStandard prepares the standard library's matching.
func (re *Regexp) compileStandard(src source) (err error) {
	before, after := "", ""
	beforeMore, afterMore := "(?s:.)(", ")"
	if re.word {
		re.group = 1
		before, after = `(?m:^|\W)(`, `)(?m:\W|$)`
		beforeMore, afterMore = `\W(`, after
	}
	if re.first, err = src.compile(before, after); err != nil {
		return err
	}
	prefix, whole := re.first.LiteralPrefix()
	re.prefix = []byte(prefix)
	if whole {
		re.literal = re.prefix
	}
	re.more = sync.OnceValues(func() (*regexp.Regexp, error) { return src.compile(beforeMore, afterMore) })
	if re.word || re.multiline {
		_, err = re.more()
	}
	return err
}

// Searcher returns a new searcher. Once ctx has ended, it finds nothing more: a
// search then ends within milliseconds, for every text and pattern.
func (re *Regexp) Searcher(ctx context.Context) *Searcher { return &Searcher{re: re, ctx: ctx} }
