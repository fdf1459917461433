package fsops

// GrepOptions says what [FS.Grep] searches, and how.
type GrepOptions struct {
	// Paths are the files and directories to search; none means the workdir.
	Paths []string
	// IgnoreCase matches letters whatever their case.
	IgnoreCase bool
	// Include and Exclude are globs in doublestar's syntax. One without a
	// slash is matched against the base name, others against the path below
	// the directory that is searched. With Include only files that match one
	// of them are searched; Exclude wins.
	Include, Exclude []string
	// Before and After are the numbers of context lines around each match.
	Before, After int
	// MaxPerFile ends the search of a file after so many matching lines; 0
	// means no limit.
	MaxPerFile int
	// Limit ends the whole search after so many matching lines; 0 means no
	// limit.
	Limit int
	// Hidden searches files and directories whose name begins with a dot
	// too (but .git only with NoIgnore).
	Hidden bool
	// NoIgnore searches what .gitignore files exclude, and .git, too.
	NoIgnore bool
}

// GrepKind tells the kinds of results of [FS.Grep] apart.
type GrepKind int

// The kinds of grep results.
const (
	// GrepMatch is a line that matches.
	GrepMatch GrepKind = iota + 1
	// GrepContext is a line beside one that matches.
	GrepContext
	// GrepFileError is a file or directory that could not be searched (Err);
	// the search goes on.
	GrepFileError
	// GrepBinary is a file that was left out because it holds NUL bytes.
	GrepBinary
	// GrepFileTruncated is a file whose further matches MaxPerFile left out.
	GrepFileTruncated
	// GrepDone is the last result of every search that was not cancelled; it
	// carries Stats.
	GrepDone
)

// GrepResult is one result of [FS.Grep]. Results come file by file, files in
// the order of their paths' bytes, lines in the order of their numbers.
type GrepResult struct {
	Kind GrepKind
	// Path is the file's path: relative where the searched path was.
	Path string
	// Line is the line's number, from 1.
	Line int64
	// Offset is where the line begins in the file, in bytes.
	Offset int64
	// Text is the line without its terminator, cut to 4 KiB.
	Text []byte
	// Cut is how many bytes of the line Text lacks.
	Cut int64
	// Spans are the matches within Text.
	Spans []Span
	// Err says why a file could not be searched (GrepFileError).
	Err error
	// Stats says what the search did (GrepDone).
	Stats GrepStats
}

// Span is a range of bytes, End excluded.
type Span struct{ Start, End int }

// GrepStats says what a search did.
type GrepStats struct {
	// Files is how many files were searched, Matches how many lines matched.
	Files, Matches int64
	// Truncated says that Limit ended the search while there was more.
	Truncated bool
}
