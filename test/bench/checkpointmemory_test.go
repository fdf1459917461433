package bench

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/fsops/checkpoint"
)

// BenchmarkCheckpointMemory measures the memory of an agent that makes the first checkpoint of a tree: the most that it
// has, beside git and restic, and what it has ten seconds later, when it has given back what it can.
func BenchmarkCheckpointMemory(b *testing.B) {
	a := podagentAgent(b)
	tree := filepath.Join(filepath.Dir(a.socket), "tree")
	if err := plantTree(tree, *groveFiles); err != nil {
		b.Fatal(err)
	}
	a.start(b)
	time.Sleep(time.Second) // for everything that began with it to end
	idle := a.memory(b)
	if _, err := dialSocket(b, a.socket).Checkpoint(b.Context(), checkpoint.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	most := a.mostMemory(b)
	time.Sleep(10 * time.Second)
	later := a.memory(b)
	peers := newRepositories(b, tree)
	publish(b, newRow("checkpoints", "memory (RSS) at most, for a first checkpoint of "+groveName(), "MiB", once("podagent", most)).
		beside(peers.memoryOf("git", peers.firstCommit)).beside(peers.memoryOf("restic", peers.firstBackup)))
	publish(b, newRow("checkpoints", "memory (PSS), ten seconds after that", "MiB", once("podagent", later)).beside(once("before it", idle)))
}

// memoryOf returns the most memory of a program that makes its first backup.
func (r *repositories) memoryOf(name string, first func() (time.Duration, error)) figure {
	r.b.Helper()
	if _, err := first(); err != nil {
		r.b.Fatal(err)
	}
	return once(name, r.memory)
}
