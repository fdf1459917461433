package launcher_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os/exec"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/fsops/checkpoint"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi"
)

// plant makes a tree with everything that a checkpoint has.
const plant = `
umask 022
mkdir -p src/deep/er 'odd
name' && printf x > "$(printf 'src/not\377utf8')" && echo two > 'odd
name/-dash'
for i in $(seq 300); do echo $i > src/deep/f$i; done
head -c 3000000 /dev/urandom > large && ln large src/hard && ln -s /etc/passwd src/link
truncate -s 5M holes && printf end >> holes
mkfifo pipe && chmod 2750 src/deep && chmod 0400 src/deep/f1 && touch -d 2001-02-03 src/deep/f2
`

// survey describes all that is in the workdir.
const survey = `find . -mindepth 1 -printf '%P %y %m %n %s %T@ %l\n' | grep -v ' d ' | sort && find . -mindepth 1 -type d -printf '%P %m %T@\n' | sort && find . -type f -print0 | sort -z | xargs -0 sha256sum && du -k holes | cut -f1`

func shell(t *testing.T, s *launcher.Sandbox, script string) string {
	t.Helper()
	out, err := s.Shell(t.Context(), script).Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

func taken(t *testing.T, s *launcher.Sandbox) checkpoint.ID {
	t.Helper()
	c, err := s.Checkpoint(t.Context(), checkpoint.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return c.ID
}

func TestForksAreEqualFourAtOnce(t *testing.T) {
	l := launchertest.Local(t)
	from := launch(t, l, launcher.Spec{ID: "from", Env: []string{"COLOR=blue"}, Protected: []string{"src/deep/f3"}})
	shell(t, from, plant)
	want, id := shell(t, from, survey), taken(t, from)
	shell(t, from, "rm -rf src; echo later > large")
	like, err := launcher.SpecOf(t.Context(), l, "from")
	if err != nil {
		t.Fatal(err)
	}
	var specs []launcher.Spec
	for _, name := range []string{"a", "b", "c", "d"} {
		spec := like
		spec.ID = name
		specs = append(specs, spec)
	}
	forks, err := launcher.Fork(t.Context(), l, from, id, specs...)
	if err != nil {
		t.Fatal(err)
	}
	for _, fork := range forks {
		defer fork.Close()
		if got := shell(t, fork, survey); got != want {
			t.Errorf("%s has\n%s\nnot\n%s", fork.ID, got, want)
		}
		if color := shell(t, fork, "echo $COLOR"); color != "blue\n" {
			t.Errorf("its COLOR is %q", color)
		}
		if err := fork.WriteFile(t.Context(), "src/deep/f3", nil, 0o644); !errors.Is(err, fsops.ErrProtected) {
			t.Errorf("writing what is protected: %v", err)
		}
	}
}

func TestForkSendsOnlyWhatIsMissing(t *testing.T) {
	l := launchertest.Local(t)
	from, to := launch(t, l, launcher.Spec{ID: "from"}), launch(t, l, launcher.Spec{ID: "to"})
	shell(t, from, plant)
	first, err := from.CopyCheckpoint(t.Context(), taken(t, from), to.Client, podapi.CopyOptions{})
	if err != nil || first.Objects < 300 || first.Sent < 3000000 {
		t.Fatalf("%+v, %v", first, err)
	}
	again, err := from.CopyCheckpoint(t.Context(), first.ID, to.Client, podapi.CopyOptions{})
	if err != nil || again.Objects != 0 || again.Sent != 0 {
		t.Errorf("the second time: %+v, %v", again, err)
	}
	shell(t, from, "echo new > src/deep/f7")
	later, err := from.CopyCheckpoint(t.Context(), taken(t, from), to.Client, podapi.CopyOptions{})
	if err != nil || later.Objects != 4 { // the file, and the directories from the root to it
		t.Errorf("after a change: %+v, %v", later, err)
	}
}

func TestForkThatFailsLeavesNothing(t *testing.T) {
	l := launchertest.Local(t)
	from, there := launch(t, l, launcher.Spec{ID: "from"}), launch(t, l, launcher.Spec{ID: "there"})
	shell(t, from, "echo 1 > f")
	shell(t, there, "echo 2 > f")
	none := checkpoint.ID(strings.Repeat("0", 64))
	if forks, err := launcher.Fork(t.Context(), l, from, none, launcher.Spec{ID: "new"}); !errors.Is(err, fs.ErrNotExist) || forks[0] != nil {
		t.Errorf("of no checkpoint: %v, %v", forks, err)
	}
	if _, err := l.Find(t.Context(), "new"); !errors.Is(err, launcher.ErrNotFound) {
		t.Errorf("it is there: %v", err)
	}
	forks, err := launcher.Fork(t.Context(), l, from, taken(t, from), launcher.Spec{ID: "there"}, launcher.Spec{ID: "other"})
	if !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), `"there"`) || forks[0] != nil || forks[1] == nil {
		t.Errorf("into one that is there: %v, %v", forks, err)
	}
	if f := shell(t, there, "cat f"); f != "2\n" {
		t.Errorf("it has %q", f)
	}
	if forks[1] != nil {
		defer forks[1].Close()
		if f := shell(t, forks[1], "cat f"); f != "1\n" {
			t.Errorf("the other one has %q", f)
		}
	}
}

func TestExportedCheckpointComesInElsewhere(t *testing.T) {
	l := launchertest.Local(t)
	from, to := launch(t, l, launcher.Spec{ID: "from"}), launch(t, l, launcher.Spec{ID: "to"})
	shell(t, from, plant)
	want, id := shell(t, from, survey), taken(t, from)
	var file bytes.Buffer
	if err := from.ExportCheckpoint(t.Context(), id, &file, checkpoint.FileOptions{}); err != nil {
		t.Fatal(err)
	}
	test := exec.Command("zstd", "-t")
	test.Stdin = bytes.NewReader(file.Bytes())
	if out, err := test.CombinedOutput(); err != nil {
		t.Errorf("zstd says %v: %s", err, out)
	}
	whole := file.Bytes()
	middle := bytes.Clone(whole)
	middle[len(middle)/2] ^= 1
	for name, test := range map[string]struct {
		file []byte
		want error
	}{
		"cut off":         {whole[:len(whole)/2], fsops.ErrChecksum},
		"without its end": {whole[:len(whole)-1], fsops.ErrChecksum},
		"with more":       {append(bytes.Clone(whole), 1), fsops.ErrChecksum},
		"changed":         {middle, fsops.ErrChecksum},
		"empty":           {nil, fs.ErrInvalid},
		"another":         {[]byte("\x1f\x8b something else"), fs.ErrInvalid},
	} {
		if _, err := to.ImportCheckpoint(t.Context(), bytes.NewReader(test.file), podapi.CopyOptions{}); !errors.Is(err, test.want) {
			t.Errorf("of a file that is %s: %v", name, err)
		}
	}
	if list, err := to.Checkpoints(t.Context()); err != nil || len(list) > 0 {
		t.Errorf("there are %v, %v", list, err)
	}
	got, err := to.ImportCheckpoint(t.Context(), bytes.NewReader(whole), podapi.CopyOptions{})
	if err != nil || got.ID != id {
		t.Fatalf("%+v, %v", got, err)
	}
	if _, err := to.Restore(t.Context(), id, checkpoint.RestoreOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := shell(t, to, survey); got != want {
		t.Errorf("it has\n%s\nnot\n%s", got, want)
	}
}
