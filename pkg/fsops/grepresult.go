package fsops

// GrepOptions says what [FS.Grep] searches, and how.
type GrepOptions struct {
	// Paths are the files and directories to search; none means the workdir.
	// One that lies in another is searched once, by its own path.
	Paths []string
	// IgnoreCase matches letters whatever their case. SmartCase does so unless
	// the pattern has an upper-case letter, as "rg -S" does.
	IgnoreCase, SmartCase bool
	// Fixed takes the pattern as text, not as a regular expression.
	Fixed bool
	// Word finds only matches with no word character beside them.
	Word bool
	// Multiline lets a match span lines: \n in the pattern is a newline, and
	// [^a] and \s match it, while . does so with (?s) alone. Such a file is
	// searched whole, up to 16 MiB; a larger one is skipped.
	Multiline bool
	// Report says what to report of each file.
	Report GrepReport
	// Spans finds the matches within each line ([GrepResult].Spans), which
	// takes time.
	Spans bool
	// MaxLine is how many bytes of a line Text holds at most; 0 means 4 KiB,
	// and 1 MiB is the most.
	MaxLine int
	// Include and Exclude are globs in doublestar's syntax. One without a
	// slash is matched against the base name, others against the path below
	// the directory that is searched, for which one may begin with a slash. One
	// that ends with a slash matches directories, with all that is in them. With
	// Include only files that match one of them are searched; Exclude wins.
	Include, Exclude []string
	// Before and After are the numbers of context lines around each match, at
	// most 1000. Before times MaxLine is at most 8 MiB.
	Before, After int
	// MaxPerFile ends the search of a file after so many matching lines; 0
	// means no limit. Lines in the context after the last one are given even
	// so, as a GrepMatch if they match.
	MaxPerFile int
	// Limit ends the whole search after so many matching lines, or, with
	// GrepFiles and GrepCounts, after so many files; 0 means no limit.
	Limit int
	// Hidden searches files and directories whose name begins with a dot
	// too (but .git only with NoIgnore).
	Hidden bool
	// NoIgnore searches what .gitignore files and their like exclude, and
	// .git, too.
	NoIgnore bool
	// Follow searches what symbolic links name; a directory that holds the
	// link itself is skipped.
	Follow bool
	// Sort gives the files in the order of their paths' bytes; otherwise they
	// come as they are found, which is faster.
	Sort bool
	// Stats, unless nil, is set by the time the loop ends, however it ends.
	Stats *GrepStats
}

// GrepReport is what [FS.Grep] reports of a file that matches.
type GrepReport int

// The reports.
const (
	// GrepLines reports each line that matches, and its context.
	GrepLines GrepReport = iota
	// GrepFiles reports that a line matches ([GrepFile]): the search of a file
	// ends there.
	GrepFiles
	// GrepCounts reports how many lines match ([GrepFile] with a Count), for
	// files in which some do. With Multiline it counts the matches that a
	// GrepMatch would be given for.
	GrepCounts
)

// GrepKind tells the kinds of results of [FS.Grep] apart.
type GrepKind int

// The kinds of grep results.
const (
	// GrepMatch is a line that matches, or with Multiline the lines of a
	// match, and of further matches that begin in them.
	GrepMatch GrepKind = iota + 1
	// GrepContext is a line beside one that matches.
	GrepContext
	// GrepFile is a file that matches (GrepFiles, GrepCounts).
	GrepFile
)

// GrepResult is one result of [FS.Grep]. Results come file by file, lines in
// the order of their numbers.
type GrepResult struct {
	Kind GrepKind
	// Path is the file's path: relative where the searched path was.
	Path string
	// Line is the number of the line, or of the first one, from 1.
	Line int64
	// Offset is where the line begins in the file, in bytes; in UTF-16, where
	// it begins in the text as UTF-8 without the byte order mark. A match
	// begins at Offset + Span.Start, and its column is Span.Start + 1.
	Offset int64
	// Text is the line without its terminator, cut to MaxLine. The lines of a
	// Multiline match have newlines between them.
	Text []byte
	// Cut is how many bytes Text lacks.
	Cut int64
	// Spans are the matches within Text, where the options ask for them. One
	// that begins after the cut is left out.
	Spans []Span
	// Count is how many lines of the file match (GrepFile with GrepCounts).
	Count int64
}

// Span is a range of bytes, End excluded.
type Span struct{ Start, End int }

// GrepStats says what a search did. If it ended early, by Limit or because the loop
// ended, the numbers count what was done until then, which may be more than the loop
// got.
type GrepStats struct {
	// Files is how many files were searched, Matches how many lines matched
	// (with GrepFiles, how many files did).
	Files, Matches int64
	// Binary is how many files were left out because they are binary. One that
	// Paths names, or that becomes binary later than in its beginning, is skipped
	// instead ([SkippedError]).
	Binary int64
	// Shortened is how many files have further matches that MaxPerFile left out.
	Shortened int64
	// Truncated says that Limit ended the search while there was more.
	Truncated bool
}
