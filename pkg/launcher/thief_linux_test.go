//go:build linux && !race

package launcher_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/pkg/podapi/isolation"
)

// In these tests a thief runs in a sandbox, with the user of the agent and of all
// commands. It looks into every process of this user that it sees, as often as it can,
// while an orchestrator of the same user hands passwords over. The orchestrator is a
// process of its own, since root, as whom tests may run, could look into everything.

// ordinaryUser is a user that no system knows.
const ordinaryUser = 12345

// roleVariable makes this test program the orchestrator, the thief, or one of others.
const roleVariable = "LAUNCHER_TEST_ROLE"

// preyVariable is how many processes the thief has to see.
const preyVariable = "LAUNCHER_TEST_PREY"

// playRole plays the role that this process has, if it has one.
func playRole() bool {
	play, ok := map[string]func() error{"orchestrator": orchestrate, "thief": steal, "errand": playErrand}[os.Getenv(roleVariable)]
	if !ok {
		return false
	}
	if err := play(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

// Every bait begins with this. The thief finds the control in the input of commands,
// which are no place for a secret.
const (
	bait    = "bait-of-the-thief-"
	control = bait + "control"
)

// A heist is what the orchestrator does.
type heist struct {
	Dir         string // of the agent, this program and all else
	URL, Secret string
	// Rounds are how often it hands the password over at least. It goes on until the thief
	// has seen a tenth as many processes.
	Rounds int
	// Main makes the thief the command beside the agent. Otherwise it is a command of a
	// sandbox that is adopted in each round.
	Main bool
	// NoGit has a git that ends at once, for more rounds in less time.
	NoGit bool
}

// loot is what the thief has seen: how many processes, and which baits where.
type loot struct {
	Processes int
	Baits     map[string]string
}

// manyRounds are as many hand-overs as the thief gets a chance at, which take some seconds.
const manyRounds = 2000

func TestThiefInTheSandboxNeverSeesTheGitPassword(t *testing.T) {
	for name, h := range map[string]heist{
		"at adoption":                 {Rounds: manyRounds, NoGit: true},
		"at adoption with git itself": {Rounds: 20},
		"beside Main":                 {Rounds: manyRounds, NoGit: true, Main: true},
		"beside Main with git itself": {Rounds: 20, Main: true},
	} {
		t.Run(name, func(t *testing.T) {
			h.Secret = bait + rand.Text()
			var got atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if _, password, _ := r.BasicAuth(); password == h.Secret {
					got.Add(1)
				}
				http.Error(w, "no", http.StatusForbidden)
			}))
			defer server.Close()
			h.Dir, h.URL = stage(t), server.URL+"/a.git"
			l := commit(t, h)
			t.Logf("the thief saw %d processes", l.Processes)
			if where, ok := l.Baits[h.Secret]; ok {
				t.Errorf("it found the password in %s", where)
			}
			if l.Baits[control] == "" {
				t.Error("it is blind: it did not see the control")
			}
			if !h.NoGit && got.Load() < int32(h.Rounds) {
				t.Errorf("the server got the password %d times", got.Load())
			}
		})
	}
}

// heistTime is how long a heist may take.
const heistTime = 10 * time.Minute

// stage returns a directory with the agent and this program that an ordinary user can
// write.
func stage(t *testing.T) string { return stageFor(t, ordinaryUser) }

func stageFor(t *testing.T, user int) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "thief-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	copied := map[string]string{"podagent": launchertest.Local(t).Agent}
	if os.Link(os.Args[0], filepath.Join(dir, "program")) != nil { // it is large, and no test changes it
		copied["program"] = os.Args[0]
	}
	for name, from := range copied {
		data, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		writeProgram(t, filepath.Join(dir, name), data)
	}
	for _, name := range []string{"bin", "tmp", "work"} {
		if err := errors.Join(os.Mkdir(filepath.Join(dir, name), 0o755), os.Chown(filepath.Join(dir, name), user, user)); err != nil {
			t.Fatal(err)
		}
	}
	writeProgram(t, filepath.Join(dir, "bin/git"), []byte("#!/bin/sh\nexit 1\n"))
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chown(dir, user, user)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// commit has the orchestrator do it, and returns what the thief got.
func commit(t *testing.T, h heist) (l loot) {
	t.Helper()
	text, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), heistTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(h.Dir, "program"))
	cmd.Dir, cmd.Stdin = h.Dir, bytes.NewReader(text)
	cmd.Env = []string{roleVariable + "=orchestrator", "PATH=/usr/bin:/bin", "HOME=" + h.Dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinaryUser, Gid: ordinaryUser}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	data, err := os.ReadFile(filepath.Join(h.Dir, "loot"))
	if err == nil {
		err = json.Unmarshal(data, &l)
	}
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// orchestrate hands the password over, round after round. It hides itself before it has
// it, as no thief runs yet.
func orchestrate() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return err
	}
	var h heist
	if err := json.NewDecoder(os.Stdin).Decode(&h); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), heistTime)
	defer cancel()
	do := h.adopt
	if h.Main {
		do = h.besideMain
	}
	return do(ctx)
}

func (h heist) env() []string {
	path := "PATH=/usr/bin:/bin"
	if h.NoGit {
		path = "PATH=" + filepath.Join(h.Dir, "bin") + ":/usr/bin:/bin"
	}
	return []string{path, "TMPDIR=" + filepath.Join(h.Dir, "tmp")}
}

// thief is the environment of the thief.
func (h heist) thief() []string {
	return append(h.env(), roleVariable+"=thief", fmt.Sprint(preyVariable, "=", h.Rounds/10))
}

// adopt launches a sandbox again and again in which the thief runs.
func (h heist) adopt(ctx context.Context) error {
	l := &launcher.Local{StateDir: filepath.Join(h.Dir, "state"), Agent: filepath.Join(h.Dir, "podagent"), Isolation: isolation.Off}
	spec := launcher.Spec{ID: "a", Env: h.env()}
	s, err := l.Launch(ctx, spec)
	if err != nil {
		return err
	}
	defer l.Terminate(context.Background(), "a")
	defer s.Close()
	thief := s.Command(ctx, filepath.Join(h.Dir, "program"))
	thief.Dir, thief.Env = h.Dir, h.thief()
	if err := thief.Start(); err != nil {
		return err
	}
	spec.Git = &launcher.Git{URL: h.URL, Password: h.Secret}
	return h.rounds(ctx, s.Client, func() error {
		_, err := l.Launch(ctx, spec)
		if !errors.As(err, new(*launcher.GitError)) {
			return fmt.Errorf("a checkout without git or rights: %w", err)
		}
		return nil
	})
}

// besideMain starts an agent with the thief as its command.
func (h heist) besideMain(ctx context.Context) error {
	socket := filepath.Join(h.Dir, "s")
	agent := exec.CommandContext(ctx, filepath.Join(h.Dir, "podagent"), "serve", "--listen", "unix:"+socket, "--workdir", filepath.Join(h.Dir, "work"), "--", filepath.Join(h.Dir, "program"))
	agent.Dir, agent.Env, agent.Stderr = h.Dir, h.thief(), os.Stderr
	if err := agent.Start(); err != nil {
		return err
	}
	defer agent.Wait()
	defer agent.Process.Signal(unix.SIGTERM)
	c, err := podapi.Dial(podapi.DialOptions{Dial: func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}})
	if err != nil {
		return err
	}
	defer c.Close()
	return h.rounds(ctx, c, func() error {
		_, err := c.Checkout(ctx, podapi.Checkout{Dir: ".", URL: h.URL, Username: "me", Password: h.Secret})
		if failed, ok := errors.AsType[*os.PathError](err); !ok || failed.Op != "checkout" {
			return fmt.Errorf("a checkout without git or rights: %w", err)
		}
		return nil
	})
}

// rounds hands over while the thief works, until that has seen enough. Then it feeds
// commands with the control until the thief has found it.
func (h heist) rounds(ctx context.Context, c *podapi.Client, handOver func() error) error {
	if err := h.await(ctx, "ready"); err != nil {
		return err
	}
	for i := 0; i < h.Rounds || !h.has("seen") && ctx.Err() == nil; i++ {
		if err := handOver(); err != nil {
			return fmt.Errorf("in round %d: %w", i, err)
		}
	}
	for !h.has("lured") && ctx.Err() == nil {
		lure := c.Command(ctx, "sh", "-c", "sleep 0.01; cat")
		lure.Env, lure.Stdin = []string{roleVariable + "="}, strings.NewReader(control)
		if err := lure.Run(); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(h.Dir, "stop"), nil, 0o644); err != nil {
		return err
	}
	return h.await(ctx, "loot")
}

// has reports whether the thief has made a file.
func (h heist) has(name string) bool {
	_, err := os.Stat(filepath.Join(h.Dir, name))
	return err == nil
}

// await waits for a file of the thief.
func (h heist) await(ctx context.Context, name string) error {
	for ctx.Err() == nil {
		if h.has(name) {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
	return fmt.Errorf("the thief is not %s: %w", name, ctx.Err())
}

// A thief looks for baits.
type thief struct {
	loot
	seen  map[int]int // how often it looked into a process; less than 0 if it is another user's
	pipes []int       // copies of other processes' pipes
	tee   [2]int      // what it copied out of them
	buf   []byte
}

// steal is what the thief does, beside the files ready and stop.
func steal() error {
	dir, err := filepath.Abs(filepath.Dir(os.Args[0]))
	prey, notSaid := strconv.Atoi(os.Getenv(preyVariable))
	if err := errors.Join(err, notSaid); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "ready"), nil, 0o644); err != nil {
		return err
	}
	t := &thief{loot: loot{Baits: map[string]string{}}, seen: map[int]int{}, buf: make([]byte, 1<<20)}
	if err := unix.Pipe2(t.tee[:], unix.O_NONBLOCK|unix.O_CLOEXEC); err != nil {
		return err
	}
	for end := time.Now().Add(heistTime); time.Now().Before(end); {
		t.round()
		for name, reached := range map[string]bool{"seen": t.Processes >= prey, "lured": t.Baits[control] != ""} {
			if reached {
				_ = os.WriteFile(filepath.Join(dir, name), nil, 0o644) // the orchestrator waits
			}
		}
		if _, err := os.Stat(filepath.Join(dir, "stop")); err == nil {
			break
		}
	}
	data, err := json.Marshal(t.loot)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "loot.part"), data, 0o644); err != nil {
		return err
	}
	return os.Rename(filepath.Join(dir, "loot.part"), filepath.Join(dir, "loot"))
}

// round looks once into each process, the newest first, and into the files that git
// works with.
func (t *thief) round() {
	proc, err := os.Open("/proc")
	if err != nil {
		return
	}
	names, _ := proc.Readdirnames(-1)
	proc.Close()
	for i := len(names) - 1; i >= 0; i-- {
		if pid, err := strconv.Atoi(names[i]); err == nil && pid != os.Getpid() && t.isPrey(pid) {
			t.look(pid)
		}
	}
	for _, pipe := range t.pipes {
		t.copyPipe(pipe)
	}
	configs, _ := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), "*", ".gitconfig"))
	for _, name := range configs {
		t.readFile(name)
	}
}

// isPrey reports whether to look into a process: it is of the thief's user, whoever owns
// its files.
func (t *thief) isPrey(pid int) bool {
	if _, known := t.seen[pid]; !known {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		t.seen[pid] = -1
		if bytes.Contains(status, fmt.Appendf(nil, "\nUid:\t%d\t", ordinaryUser)) {
			t.seen[pid] = 0
			t.Processes++
		}
	}
	return t.seen[pid] >= 0 && t.seen[pid] < 100
}

// look looks into a process.
func (t *thief) look(pid int) {
	dir := fmt.Sprintf("/proc/%d/", pid)
	t.readFile(dir + "cmdline")
	for fd := range 10 {
		t.open(fmt.Sprintf("%sfd/%d", dir, fd))
	}
	t.readFile(dir + "environ")
	if t.readMemory(dir) {
		t.seen[pid]++
	}
}

// open opens what another process has open. It keeps a pipe, into which something may be
// written later.
func (t *thief) open(name string) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return
	}
	var st unix.Stat_t
	if unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFIFO {
		t.copyPipe(fd)
		if t.pipes = append(t.pipes, fd); len(t.pipes) > 64 {
			unix.Close(t.pipes[0])
			t.pipes = t.pipes[1:]
		}
		return
	}
	if st.Mode&unix.S_IFMT == unix.S_IFREG {
		n, _ := unix.Pread(fd, t.buf, 0)
		t.search(t.buf[:max(n, 0)], name)
	}
	unix.Close(fd)
}

// copyPipe copies what is in a pipe, and leaves it there.
func (t *thief) copyPipe(fd int) {
	if n, err := unix.Tee(fd, t.tee[1], 64<<10, unix.SPLICE_F_NONBLOCK); err != nil || n <= 0 {
		return
	}
	n, _ := unix.Read(t.tee[0], t.buf)
	t.search(t.buf[:max(n, 0)], "a pipe")
}

func (t *thief) readFile(name string) {
	file, err := os.Open(name)
	if err != nil {
		return
	}
	defer file.Close()
	n, _ := io.ReadFull(file, t.buf[:64<<10])
	t.search(t.buf[:n], name)
}

// readMemory searches what a process can write, up to some megabytes. It reports whether
// it may.
func (t *thief) readMemory(dir string) bool {
	mem, err := os.Open(dir + "mem")
	if err != nil {
		return false
	}
	defer mem.Close()
	maps, _ := os.ReadFile(dir + "maps")
	left := 8 << 20
	for line := range strings.Lines(string(maps)) {
		var from, to int64
		var mode string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &mode); err != nil || !strings.HasPrefix(mode, "rw") {
			continue
		}
		for at := from; at < to && left > 0; at += int64(len(t.buf)) {
			n, _ := mem.ReadAt(t.buf[:min(int64(len(t.buf)), to-at)], at)
			left -= max(n, 1)
			t.search(t.buf[:n], dir+"mem")
		}
	}
	return true
}

// search notes the baits in what was found.
func (t *thief) search(data []byte, where string) {
	for {
		i := bytes.Index(data, []byte(bait))
		if i < 0 {
			return
		}
		data = data[i:]
		n := len(bait)
		for n < len(data) && (data[n] >= 'A' && data[n] <= 'Z' || data[n] >= 'a' && data[n] <= 'z' || data[n] >= '0' && data[n] <= '9') {
			n++
		}
		t.Baits[string(data[:n])] = where
		data = data[n:]
	}
}
