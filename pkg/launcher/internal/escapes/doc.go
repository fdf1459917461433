// Package escapes has only tests: its tries lead out of a local sandbox, unless something isolates it.
//
// A try is a command (testdata) or a call of the API that reads, changes or reaches something outside of its
// sandbox. What a level does not stop, docs/isolation.md must say. The tests need root, to be an ordinary user, too.
package escapes
