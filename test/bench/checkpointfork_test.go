package bench

import (
	"errors"
	"fmt"
	"io"
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

// measureForks measures forks into other pods, without the launch of these: how long a checkpoint takes to get there, with
// and without the files that are made of it. Beside it are raw transfers on the same two ways, which end in one file: of
// the bytes that the pod lacks, and of those that are sent, which are compressed. All bytes pass through this program.
func measureForks(b *testing.B, planted string) {
	f := newFork(b, planted)
	into := fmt.Sprintf("fork of %s into ", groveName())
	for _, row := range []struct {
		what      string
		n, rounds int
		opts      podapi.CopyOptions
	}{
		{"a pod", 1, forkRounds, podapi.CopyOptions{Populate: true}},
		{"a pod, but for its files", 1, forkRounds, podapi.CopyOptions{}},
		{"four pods at once", forksAtOnce, 1, podapi.CopyOptions{Populate: true}},
	} {
		missing := f.raw(row.n, "raw transfer of the files' bytes", f.size)
		sent := f.raw(row.n, "raw transfer of the bytes sent", f.sent)
		compare(b, "checkpoints", into+row.what, row.rounds, f.side(row.n, row.opts), missing, sent).
			want(missing.name, 1/forkTransfer).want(sent.name, 1/forkTransfer)
	}
}

// A fork is a sandbox in a pod with a checkpoint, and the pods beside it that raw bytes go to.
type fork struct {
	*pod
	b        *testing.B
	id       checkpoint.ID
	size     int64 // bytes of the files in it
	sent     int64 // bytes that a new sandbox gets of it
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
	f.id, f.size = made.ID, made.Bytes
	to, err := f.launch(1)
	if err != nil {
		b.Fatal(err)
	}
	copied, err := f.CopyCheckpoint(b.Context(), f.id, to[0].Client, podapi.CopyOptions{})
	if err != nil {
		b.Fatal(err)
	}
	f.sent = copied.Sent
	port := f.startEcho(b)
	for i := range f.ways {
		target := f.another()
		f.ways[i] = rawWay{f.forwardRaw(b, port), target.forwardRaw(b, target.startEcho(b))}
	}
	return f
}

// launch launches sandboxes, without files. They stay until the end.
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
	for _, s := range made {
		if s != nil {
			f.b.Cleanup(func() { s.Close() })
		}
	}
	syscall.Sync()
	return made, err
}

// another launches a sandbox that stays.
func (f *fork) another() *pod {
	made, err := f.launch(1)
	if err != nil {
		f.b.Fatal(err)
	}
	return &pod{made[0], f.c}
}

// empty gives the room of the sandboxes' files back.
func (f *fork) empty(made []*launcher.Sandbox) error {
	var errs []error
	for _, s := range made {
		errs = append(errs, s.Command(f.b.Context(), "sh", "-c", emptying, s.Workdir).Run())
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
		return took, errors.Join(err, f.empty(made))
	}}
}

// raw is the transfer of this many bytes by port-forwards of the stock client, to a file in each pod.
func (f *fork) raw(n int, name string, size int64) side {
	return side{name: name, do: func() error {
		var group errgroup.Group
		for _, way := range f.ways[:n] {
			group.Go(func() error { return way.carry(size) })
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
