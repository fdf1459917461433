// Package bench measures podagent side by side with its peers: kubectl and
// client-go, sandboxd, raw port-forwards and connections, ripgrep, fd, GNU grep and
// find, and the machine itself. All programs of a row take turns in one run, so
// that other load affects all of them. The result is the peer's median divided by
// podagent's.
//
// "make bench" in the project's root runs all groups. Each group is a benchmark:
// BenchmarkCalls, BenchmarkStreams, BenchmarkSearch, BenchmarkStart, BenchmarkMany,
// BenchmarkCost, BenchmarkTools, BenchmarkScale, BenchmarkCheckpoint, and those whose names begin with
// BenchmarkEgress, BenchmarkGateway, BenchmarkIsolation and BenchmarkSSH. At the end it prints a table of
// all measurements. "make bench-check" fails if a ratio misses its target.
//
// The package consists of tests, because it uses the tests' own way to make
// sandboxes. It is its own module, so that its peers do not become dependencies of
// podagent.
package bench
