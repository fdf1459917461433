// Package bench measures podagent side by side with its peers: kubectl and
// client-go, sandboxd, raw port-forwards and connections, ripgrep, fd, GNU grep
// and find, and what the machine itself takes. All programs of a
// row take turns in one run, so that disturbances meet all alike. The result is the
// peer's median divided by podagent's.
//
// "make bench" in the project's root runs all groups, and each is a benchmark:
// BenchmarkCalls, BenchmarkStreams, BenchmarkSearch, BenchmarkStart,
// BenchmarkMany, BenchmarkCost and BenchmarkTools. At the end a table has all
// that was measured. "make bench-check" fails when a ratio is worse than it is
// to be.
//
// The package has tests alone, because what makes sandboxes for tests makes them
// here, too. It is a module of its own, so that its peers are no dependency of
// podagent.
package bench
