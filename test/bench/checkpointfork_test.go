package bench

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/podagent/podagent/pkg/fsops/checkpoint"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi"
)

const (
	// forkTransfer is how long a fork may take, in transfers of the bytes that its sandbox lacks.
	forkTransfer = 1.3
	forksAtOnce  = 4
	forkRounds   = 3
)

// BenchmarkCheckpointFork measures forks into other pods, without the launch of these: how long a checkpoint takes to get
// there, with and without the files that are made of it, beside the same number of bytes on the same two ways, which end in
// one file. All bytes pass through this program. What was written is on the disk before each call.
func BenchmarkCheckpointFork(b *testing.B) {
	planted := filepath.Join(b.TempDir(), "tree")
	if err := plantTree(planted, *groveFiles); err != nil {
		b.Fatal(err)
	}
	f := newFork(b, planted)
	into := fmt.Sprintf("fork of %s into ", groveName())
	one := f.raw(1)
	compare(b, "checkpoints", into+"a pod", forkRounds, f.side(1, podapi.CopyOptions{Populate: true}), one).want(one.name, 1/forkTransfer)
	compare(b, "checkpoints", into+"a pod, but for its files", forkRounds, f.side(1, podapi.CopyOptions{}), one).want(one.name, 1/forkTransfer)
	all := f.raw(forksAtOnce)
	compare(b, "checkpoints", into+"four pods at once", forkRounds, f.side(forksAtOnce, podapi.CopyOptions{Populate: true}), all).want(all.name, 1/forkTransfer)
}

// A fork is a sandbox in a pod with a checkpoint, and the pods beside it that raw bytes go to.
type fork struct {
	*pod
	b        *testing.B
	id       checkpoint.ID
	lacks    int64 // bytes that a new sandbox lacks of it
	ways     [forksAtOnce]rawWay
	launched int
}

// A rawWay leads from one pod to another, by this program.
type rawWay struct{ from, to *rawStream }

func newFork(b *testing.B, planted string) *fork {
	c := launchertest.NewCluster(b, launcher.Restricted)
	f := &fork{pod: launchBy(b, c, launcher.ByPortForward), b: b}
	if _, err := f.Push(b.Context(), planted, f.Workdir, podapi.TransferOptions{}); err != nil {
		b.Fatal(err)
	}
	made, err := f.Checkpoint(b.Context(), checkpoint.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	f.id = made.ID
	to, err := f.launch(1)
	if err != nil {
		b.Fatal(err)
	}
	copied, err := f.CopyCheckpoint(b.Context(), f.id, to[0].Client, podapi.CopyOptions{})
	if err = errors.Join(err, f.end(to)); err != nil {
		b.Fatal(err)
	}
	f.lacks = copied.Sent
	port := f.startEcho(b)
	for i := range f.ways {
		target := f.another()
		f.ways[i] = rawWay{f.forwardRaw(b, port), target.forwardRaw(b, target.startEcho(b))}
	}
	return f
}

// launch launches sandboxes, without files.
func (f *fork) launch(n int) ([]*launcher.Sandbox, error) {
	made := make([]*launcher.Sandbox, n)
	var group errgroup.Group
	for i := range made {
		f.launched++
		spec := f.c.Spec("fork-" + strconv.Itoa(f.launched))
		group.Go(func() (err error) {
			made[i], err = f.c.Launcher().Launch(f.b.Context(), spec)
			return err
		})
	}
	err := group.Wait()
	syscall.Sync()
	return made, err
}

// another launches a sandbox that stays.
func (f *fork) another() *pod {
	made, err := f.launch(1)
	if err != nil {
		f.b.Fatal(err)
	}
	f.b.Cleanup(func() { made[0].Close() })
	return &pod{made[0], f.c}
}

// end ends sandboxes.
func (f *fork) end(made []*launcher.Sandbox) error {
	var errs []error
	for _, s := range made {
		errs = append(errs, s.Terminate(f.b.Context()), s.Close())
	}
	return errors.Join(errs...)
}

// side is the copy of the checkpoint to new sandboxes at once.
func (f *fork) side(n int, opts podapi.CopyOptions) side {
	return side{name: "podagent", timed: func() (took time.Duration, err error) {
		made, err := f.launch(n)
		if err != nil {
			return 0, err
		}
		var group errgroup.Group
		begun := time.Now()
		for _, to := range made {
			group.Go(func() error {
				_, err := f.CopyCheckpoint(f.b.Context(), f.id, to.Client, opts)
				return err
			})
		}
		err = group.Wait()
		took = time.Since(begun)
		return took, errors.Join(err, f.end(made))
	}}
}

// raw is the transfer of as many bytes by port-forwards of the stock client, to a file in each pod.
func (f *fork) raw(n int) side {
	return side{name: "raw port-forwards to a file", do: func() error {
		var group errgroup.Group
		for _, way := range f.ways[:n] {
			group.Go(func() error { return way.carry(f.lacks) })
		}
		return group.Wait()
	}, after: func() error {
		var group errgroup.Group
		for _, way := range f.ways[:n] {
			group.Go(way.to.remove)
		}
		err := group.Wait()
		syscall.Sync()
		return err
	}}
}

// carry carries this many bytes, and returns once the other end has written them.
func (w rawWay) carry(size int64) error {
	if err := errors.Join(w.from.request('r', size), w.to.request('f', size)); err != nil {
		return err
	}
	if _, err := io.CopyBuffer(struct{ io.Writer }{w.to}, io.LimitReader(w.from, size), make([]byte, tcpBuffer)); err != nil {
		return err
	}
	_, err := io.ReadFull(w.to, w.to.buf[:1])
	return err
}
