// Package globs compiles and matches patterns that select files, in doublestar's
// syntax. It looks at names alone, and never at the file system.
//
// A [Matcher] goes through a tree name by name: it says which directories can hold
// a match, so that a search reads no others. A [Set] selects files as the lines of
// a .gitignore file do. [Split], [Expand] and [Parts] take a pattern apart.
//
// What matches is always what doublestar's Match says, with one exception: each
// byte that is no valid UTF-8 counts as a character of its own. Every pattern is
// checked first ([Check]); that bounds the time that matching one name takes.
package globs
