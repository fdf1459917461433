package proc

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podagent/podagent/cmd/podagent/internal/proc/journal"
)

// counted prints the decimal numbers from 1 on, cut to 100 MB.
const counted = "seq 1 20000000 | head -c 100000000"

func sumOf(t *testing.T, script string) [sha256.Size]byte {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, err := os.StartProcess("/bin/sh", []string{"sh", "-c", script}, &os.ProcAttr{Files: []*os.File{nil, w, nil}})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Wait()
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		t.Fatal(err)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

func TestLargeOutputIsCompleteWithASlowReader(t *testing.T) {
	m := newManager(t)
	p := start(t, m, shell(t, counted))
	h := sha256.New()
	var n int64
	var st *Status
	for ev, err := range p.Attach(testContext(t), AttachOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Status != nil {
			st = ev.Status
			break
		}
		if ev.Offset != n || ev.Omitted != 0 {
			t.Fatalf("offset %d, omitted %d after %d bytes", ev.Offset, ev.Omitted, n)
		}
		h.Write(ev.Data)
		n += int64(len(ev.Data))
		if n > 99_000_000 {
			// The process has ended, but its last bytes are still unread.
			time.Sleep(20 * time.Millisecond)
		}
	}
	if st == nil || st.Code != 0 || st.Stdout != 100_000_000 || n != 100_000_000 || st.OutputOpen {
		t.Fatalf("got %d bytes, %+v", n, st)
	}
	if [sha256.Size]byte(h.Sum(nil)) != sumOf(t, counted) {
		t.Error("the output differs")
	}
}

// TestLastBytesOutliveTheDrain attaches a reader long after the drain of a process
// whose output filled the journal and the pipe.
func TestLastBytesOutliveTheDrain(t *testing.T) {
	m := newManager(t, func(l *limits) { l.drain = time.Millisecond })
	// This is more than a journal takes ahead of its readers, but the rest fits
	// into the pipe. A descendant keeps the pipe open, so no end will come.
	size := m.lim.Memory.Process + pipeSize/2
	begin, gate := fifo(t), fifo(t)
	p := start(t, m, shell(t, fmt.Sprintf("read x < %s; head -c %d /dev/zero; (read x < %s) & exit 0", begin, size, gate)))
	// The manager enlarges a pipe only if it finds it full, which may not happen
	// here.
	pipe, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/1", p.PID()), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	enlarge(pipe)
	pipe.Close()
	send(t, begin)
	<-p.gone
	time.Sleep(20 * time.Millisecond)
	r := finish(t, p)
	if r.stdout.Len() != size || r.status.Stdout != int64(size) || !r.status.OutputOpen {
		t.Errorf("got %d bytes, %+v", r.stdout.Len(), r.status)
	}
	send(t, gate)
}

// On a busy machine, the drain may be over before the agent has seen that the output has ended.
func TestOutputThatHasEndedIsNotOpen(t *testing.T) {
	m := newManager(t)
	for name, open := range map[string]bool{"ended": false, "held by a descendant": true} {
		t.Run(name, func(t *testing.T) {
			theirs, ours, err := openPipe(0)
			if err != nil {
				t.Fatal(err)
			}
			held := os.NewFile(uintptr(theirs), "the process's end")
			defer held.Close()
			out := newOutputs(m.budget, &m.lim, &stdio{outputs: [2]*source{{fd: ours}}}, nil)
			p := out.pumps[0]
			p.watch()
			if _, err := held.WriteString("last"); err != nil {
				t.Fatal(err)
			}
			if !open {
				held.Close()
			}
			p.processEnded(time.Now().Add(-hung))
			go p.run()
			eventually(t, "the whole output", p.isComplete)
			if n, _, got := out.sizes(); n != 4 || got != open {
				t.Errorf("%d bytes, open: %v", n, got)
			}
		})
	}
}

func TestOrphanHoldingOutputDoesNotHoldTheCall(t *testing.T) {
	m := newManager(t)
	gate, done := fifo(t), fifo(t)
	// SIGPIPE is not ignored, so a write to a closed pipe would end the process.
	spec := shell(t, `(read x < $GATE; head -c 300000 /dev/zero; echo late; echo survived > $DONE) & echo early`)
	spec.Env = append(spec.Env, "GATE="+gate, "DONE="+done)
	p := start(t, m, spec)
	r := finish(t, p)
	if r.stdout.String() != "early\n" || r.status.Code != 0 || r.status.Reason != Exited || !r.status.OutputOpen {
		t.Errorf("got %q, %+v", &r.stdout, r.status)
	}
	if err := m.Forget(p.ID()); err != nil {
		t.Fatal(err)
	}
	send(t, gate)
	if got := receive(t, done); got != "survived" {
		t.Errorf("got %q", got)
	}
	if r := finish(t, p); r.status.Stdout != 6 || r.stdout.Len() > 6 {
		t.Errorf("later output was added: %q", &r.stdout)
	}
}

func TestOrphanThatNeverStopsWritingDoesNotHoldTheCall(t *testing.T) {
	m := newManager(t, func(l *limits) { l.drain = 20 * time.Millisecond })
	path := fifo(t)
	p := start(t, m, shell(t, `sh -c 'echo $$ > `+path+`; exec yes' & read x < /proc/self/environ; exit 2`))
	pid := receivePID(t, path)
	var st *Status
	for ev, err := range p.Attach(testContext(t), AttachOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		// This is so slow that the drain's time hardly runs.
		time.Sleep(time.Millisecond)
		st = ev.Status
	}
	if st.Code != 2 || !st.OutputOpen {
		t.Errorf("got %+v", st)
	}
	if !isAlive(pid) {
		t.Error("the descendant was killed")
	}
	syscall.Kill(pid, syscall.SIGKILL)
}

func TestOutputWithinTheDrainBelongsToTheProcess(t *testing.T) {
	m := newManager(t, func(l *limits) { l.drain = hung })
	gate := fifo(t)
	p := start(t, m, shell(t, `(read x < `+gate+`; echo late) & echo early`))
	<-p.gone
	send(t, gate)
	r := finish(t, p)
	if r.stdout.String() != "early\nlate\n" || r.status.OutputOpen {
		t.Errorf("got %q, %+v", &r.stdout, r.status)
	}
}

func TestAttachFromAnOffset(t *testing.T) {
	m := newManager(t)
	p := start(t, m, shell(t, "printf 0123456789; printf abcdef >&2"))
	finish(t, p)
	r, err := collect(testContext(t), p, 4, 6)
	if err != nil || r.stdout.String() != "456789" || r.stderr.Len() != 0 || r.status.Reason != Exited {
		t.Errorf("got %q, %q, %+v, %v", &r.stdout, &r.stderr, r.status, err)
	}
	for _, at := range [][2]int64{{-1, 0}, {0, -1}, {11, 0}, {0, 7}} {
		if _, err := collect(testContext(t), p, at[0], at[1]); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("offsets %v: got %v", at, err)
		}
	}
}

func TestReaderResumesWhereItsConnectionDropped(t *testing.T) {
	m := newManager(t)
	p := start(t, m, shell(t, "seq 1 1000000"))
	var got bytes.Buffer
	for connections := 0; ; connections++ {
		ctx, cut := context.WithCancel(testContext(t))
		r := readUntilCut(t, ctx, cut, p, &got, 300_000)
		cut()
		if r != nil {
			if connections < 5 {
				t.Errorf("only %d connections", connections)
			}
			break
		}
	}
	want := new(bytes.Buffer)
	for i := 1; i <= 1000000; i++ {
		want.Write(append(appendInt(nil, i), '\n'))
	}
	if !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Errorf("got %d bytes, want %d", got.Len(), want.Len())
	}
}

// readUntilCut continues after the bytes in got. After some more, it loses a chunk
// and the connection. It returns the status if it gets that far.
func readUntilCut(t *testing.T, ctx context.Context, cut func(), p *Process, got *bytes.Buffer, some int) *Status {
	t.Helper()
	begun := got.Len()
	for ev, err := range p.Attach(ctx, AttachOptions{Stdout: int64(begun)}) {
		switch {
		case errors.Is(err, context.Canceled):
			return nil
		case err != nil:
			t.Fatal(err)
		case ev.Status != nil:
			return ev.Status
		case ev.Omitted > 0:
			t.Fatalf("%d bytes omitted", ev.Omitted)
		case got.Len()-begun > some:
			cut()
		default:
			got.Write(ev.Data)
		}
	}
	return nil
}

func appendInt(b []byte, i int) []byte {
	if i >= 10 {
		b = appendInt(b, i/10)
	}
	return append(b, byte('0'+i%10))
}

func TestSeveralReadersGetEverything(t *testing.T) {
	m, gate := newManager(t), fifo(t)
	p := start(t, m, shell(t, "read line < "+gate+"; seq 1 1000000; seq 1 1000000 >&2"))
	type answer struct {
		*result
		err error
	}
	answers := make(chan answer)
	for range 4 {
		go func() {
			r, err := collect(testContext(t), p, 0, 0)
			answers <- answer{r, err}
		}()
	}
	eventually(t, "that all read", func() bool { return countReaders(p) == 4 })
	send(t, gate)
	for range 4 {
		a := <-answers
		if a.err != nil || a.omitted != [2]int64{} || a.stdout.Len() != 6888896 || !bytes.Equal(a.stdout.Bytes(), a.stderr.Bytes()) {
			t.Errorf("got %d and %d bytes, omitted %v, %v", a.stdout.Len(), a.stderr.Len(), a.omitted, a.err)
		}
	}
}

func countReaders(p *Process) int {
	return p.out.State().Readers
}

func TestNobodyReadingDoesNotBlockTheProcess(t *testing.T) {
	m := newManager(t, func(l *limits) { l.AttachGrace = 0 })
	const size = 20_000_000
	p := start(t, m, shell(t, "head -c 20000000 /dev/zero | tr '\\0' x; printf end >&2"))
	st, err := p.Wait(testContext(t))
	if err != nil || st.Stdout != size || st.Code != 0 {
		t.Fatalf("got %+v, %v", st, err)
	}
	r := finish(t, p)
	if r.omitted[0]+int64(r.stdout.Len()) != size || r.stdout.Len() > m.lim.Memory.Process || r.stdout.Len() < m.lim.Memory.Process-2*journal.ChunkSize {
		t.Errorf("omitted %v, got %d bytes", r.omitted, r.stdout.Len())
	}
	if r.omitted[1] != 0 || r.stderr.String() != "end" {
		t.Errorf("stderr: omitted %v, got %q", r.omitted, &r.stderr)
	}
	if strings.Trim(r.stdout.String(), "x") != "" {
		t.Error("the bytes are not those of the output")
	}
}

func isWaiting(p *Process) bool {
	return p.out.State().Waiting[0]
}

func TestProcessWaitsForItsFirstReader(t *testing.T) {
	m := newManager(t)
	marker := filepath.Join(t.TempDir(), "done")
	p := start(t, m, shell(t, "head -c 5000000 /dev/zero; touch "+marker))
	eventually(t, "a full journal", func() bool { return isWaiting(p) })
	if _, err := os.Stat(marker); err == nil {
		t.Error("the process went on with a full journal")
	}
	if r := finish(t, p); r.stdout.Len() != 5000000 || r.omitted[0] != 0 {
		t.Errorf("got %d bytes, omitted %v", r.stdout.Len(), r.omitted)
	}
}

func TestDroppedReaderKeepsItsPlaceForAWhile(t *testing.T) {
	m := newManager(t, func(l *limits) { l.AttachGrace = 300 * time.Millisecond })
	p := start(t, m, shell(t, "head -c 5000000 /dev/zero"))
	for range p.Attach(testContext(t), AttachOptions{}) {
		break // the connection is lost
	}
	// It does not come back, so the process is held up only for a while.
	st, err := p.Wait(testContext(t))
	if err != nil || st.Stdout != 5000000 || st.Wall < 200*time.Millisecond {
		t.Errorf("got %+v, %v", st, err)
	}
}

func TestSlowReaderIsNotDetachedWhileNobodyWaits(t *testing.T) {
	m := newManager(t, func(l *limits) { l.Stall = time.Nanosecond })
	p := start(t, m, shell(t, "echo hello"))
	n := 0
	for ev, err := range p.Attach(testContext(t), AttachOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Status == nil {
			p.Wait(testContext(t))
		}
		n += len(ev.Data)
	}
	if n != 6 {
		t.Errorf("got %d bytes", n)
	}
}

func TestReaderLeavesWithItsContext(t *testing.T) {
	m := newManager(t)
	p := start(t, m, Spec{ID: newID(t), Argv: []string{"cat"}, Dir: "/", Env: []string{testPath}, Stdin: true})
	ctx, cancel := context.WithCancel(testContext(t))
	cancel()
	if _, err := collect(ctx, p, 0, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("Attach: got %v", err)
	}
	if _, err := p.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait: got %v", err)
	}
	if m.Running() != 1 {
		t.Error("the process went with its reader")
	}
	p.CloseStdin()
	finish(t, p)
}
