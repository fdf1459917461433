package audit_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/gateway/audit"
)

func newKey(t testing.TB) ed25519.PrivateKey {
	t.Helper()
	path := filepath.Join(t.TempDir(), "new", "audit.pem")
	must(t, audit.MakeKey(path))
	key, err := audit.LoadKey(path)
	must(t, err)
	return key
}

func public(keys ...ed25519.PrivateKey) (all []ed25519.PublicKey) {
	for _, key := range keys {
		all = append(all, key.Public().(ed25519.PublicKey))
	}
	return all
}

func begin(t testing.TB, o audit.Options) *audit.Log {
	t.Helper()
	log, err := audit.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

func act(id string) gateway.Act {
	return gateway.Act{
		ID: id, Caller: gateway.Caller{Tenant: "acme", Key: "ci"}, Operation: "exec", Sandbox: "job-1",
		Detail: gateway.Detail{Args: []string{"sh", "-c", "a < b"}}, At: time.Now(),
	}
}

// do begins an act, and ends it.
func do(log *audit.Log, id string) error {
	if err := log.Begin(context.Background(), act(id)); err != nil {
		return err
	}
	log.End(context.Background(), act(id), gateway.Outcome{Status: 200, In: 1, Out: 2, Took: time.Millisecond})
	return nil
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// written returns a log with an act that has ended, and one that has not.
func written(t testing.TB, key ed25519.PrivateKey) string {
	t.Helper()
	var out bytes.Buffer
	log := begin(t, audit.Options{Out: &out, Key: key})
	must(t, do(log, "one"))
	must(t, log.Begin(t.Context(), act("two")))
	must(t, log.Close())
	return out.String()
}

func filesIn(t testing.TB, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"+audit.Suffix))
	if err != nil || len(files) == 0 {
		t.Fatalf("the files are %q: %v", files, err)
	}
	return files
}

// verify returns what there is to say about a log.
func verify(t testing.TB, keys []ed25519.PublicKey, files ...string) []string {
	t.Helper()
	chains, err := audit.Verify(keys, files)
	must(t, err)
	return tell(chains)
}

func verifyText(t testing.TB, keys []ed25519.PublicKey, text string) []string {
	t.Helper()
	v := &audit.Verifier{Keys: keys}
	must(t, v.Read("log", strings.NewReader(text)))
	return tell(v.Chains())
}

func tell(chains []*audit.Chain) (all []string) {
	for _, c := range chains {
		text := fmt.Sprintf("%s %d/%d", c.State, c.Signed, c.Lines)
		for _, o := range c.Open {
			text += " open " + o.ID
		}
		if c.Torn > 0 {
			text += fmt.Sprint(" torn ", c.Torn)
		}
		if c.Problem != "" {
			text += ": " + c.Problem
		}
		all = append(all, text)
	}
	return all
}

func want(t testing.TB, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q\nwant %q", what, got, want)
	}
}

func TestALogHasALineBeforeAnActAndOneAfterIt(t *testing.T) {
	key := newKey(t)
	text := written(t, key)
	var types []string
	for _, text := range strings.Split(strings.TrimSpace(text), "\n") {
		var line map[string]any
		must(t, json.Unmarshal([]byte(text), &line))
		types = append(types, strings.TrimSpace(fmt.Sprintln(line["seq"], line["type"], line["id"], line["tenant"], line["key"], line["operation"], line["sandbox"], line["args"], line["status"], line["in_bytes"], line["out_bytes"], line["ms"])))
	}
	want(t, "the lines", types,
		"0 start <nil> <nil> <nil> <nil> <nil> <nil> <nil> <nil> <nil> <nil>",
		"1 begin one acme ci exec job-1 [sh -c a < b] <nil> <nil> <nil> <nil>",
		"2 end one acme ci exec job-1 <nil> 200 1 2 1",
		"3 begin two acme ci exec job-1 [sh -c a < b] <nil> <nil> <nil> <nil>",
		"4 close <nil> <nil> <nil> <nil> <nil> <nil> <nil> <nil> <nil> <nil>",
	)
	want(t, "the log", verifyText(t, public(newKey(t), key), text), "closed 5/5 open two")
}

func TestChangesOfALogShow(t *testing.T) {
	key, other := newKey(t), newKey(t)
	keys, text, another := public(key), written(t, key), written(t, key)
	lines, others, foreign := strings.SplitAfter(text, "\n"), strings.SplitAfter(another, "\n"), strings.SplitAfter(written(t, other), "\n")
	edit := func(change func([]string) []string) string { return strings.Join(change(slices.Clone(lines)), "") }
	var forged bytes.Buffer
	must(t, begin(t, audit.Options{Out: &forged, Key: other}).Close())
	for name, tt := range map[string]struct{ text, want string }{
		"a changed line":                    {strings.Replace(text, "a < b", "a < c", 1), "running 1/2 open one: log:3: line 1 is not the one that was written there, or this one is not"},
		"a removed line":                    {edit(func(l []string) []string { return slices.Delete(l, 2, 3) }), "running 1/2 open one: log:3: lines 2 to 2 are missing"},
		"lines in another order":            {edit(func(l []string) []string { l[1], l[2] = l[2], l[1]; return l }), "running 1/1: log:2: lines 1 to 1 are missing"},
		"a line that is there twice":        {edit(func(l []string) []string { return slices.Insert(l, 2, l[1]) }), "running 1/2 open one: log:3: line 1 comes again: a file was given twice, or lines were moved"},
		"a line of another log":             {edit(func(l []string) []string { l[3] = others[3]; return l }), "running 1/3: log:4: line 2 is not the one that was written there, or this one is not"},
		"a damaged line":                    {edit(func(l []string) []string { l[2] = l[2][:20] + "\n"; return l }), "running 1/2 open one torn 1: log:4: the line before it is damaged"},
		"lines that are missing at the end": {edit(func(l []string) []string { return l[:4] }), "running 1/4 open two"},
		"a start of another key":            {edit(func(l []string) []string { l[0] = foreign[0]; return l }), "running 0/0: log:1: a start is not signed by a key that was given"},
		"an end by another key":             {edit(func(l []string) []string { l[4] = resealed(l[4], foreign[4]); return l }), "running 1/4 open two: log:5: the signature is not right"},
		"no signature":                      {strings.Join(lines, "")[:strings.Index(lines[0], `,"sig"`)] + "}\n" + strings.Join(lines[1:], ""), "running 0/0: log:1: a start is not signed by a key that was given"},
		"no start":                          {strings.Join(lines[1:], ""), "running 0/0: log:1: a line comes before the first of its chain, which the end of another file may have"},
		"a line after the end":              {text + lines[4], "closed 5/5 open two: log:6: a line comes after the last of its chain"},
		"something before it":               {"x\n" + text, "closed 5/5 open two torn 1"},
		"another file":                      {"a: b\nc: d\n", "running 0/0: log:3: there is no chain in the file"},
	} {
		want(t, name, verifyText(t, keys, tt.text), tt.want)
	}
	want(t, "a log that was made up", verifyText(t, keys, forged.String()), "running 0/0: log:1: a start is not signed by a key that was given")
	want(t, "two logs in a file", verifyText(t, keys, text+another), "closed 5/5 open two", "closed 5/5 open two")
	want(t, "the empty file of a process that was killed early", verifyText(t, keys, ""))
	want(t, "a log twice", verifyText(t, keys, text+text), "closed 5/5 open two: log:6: a line comes after the last of its chain")
}

// resealed returns a line with the signature of another.
func resealed(line, other string) string {
	return line[:strings.Index(line, `,"sig"`)] + other[strings.Index(other, `,"sig"`):]
}

func TestManyActsAtOnceAreInOneChain(t *testing.T) {
	key, dir := newKey(t), t.TempDir()
	log := begin(t, audit.Options{Dir: dir, Key: key})
	const actors, acts = 20, 50
	var all sync.WaitGroup
	for i := range actors {
		all.Go(func() {
			for j := range acts {
				if err := do(log, fmt.Sprint(i, "-", j)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	must(t, log.Close())
	want(t, "the log", verify(t, public(key), filesIn(t, dir)...), fmt.Sprintf("closed %d/%[1]d", 2+2*actors*acts))
	if err := log.Begin(t.Context(), act("late")); err == nil {
		t.Error("an act begins after the end of the log")
	}
}

func TestALogGoesOnInOtherFiles(t *testing.T) {
	key, dir := newKey(t), t.TempDir()
	log := begin(t, audit.Options{Dir: dir, Key: key})
	log.SetLimit(2000)
	for i := range 50 {
		must(t, do(log, fmt.Sprint(i)))
	}
	must(t, log.Close())
	files := filesIn(t, dir)
	if len(files) < 5 {
		t.Fatalf("the files are %q", files)
	}
	slices.Reverse(files)
	lines := 102 + 2*(len(files)-1) // each other file is announced, and begins
	want(t, "the log", verify(t, public(key), files...), fmt.Sprintf("closed %d/%[1]d", lines))
	without := slices.Delete(slices.Clone(files), 1, 2)
	if got := verify(t, public(key), without...); len(got) != 1 || !strings.Contains(got[0], "are missing") {
		t.Errorf("a log without one of its files: %q", got)
	}
	if got := verify(t, public(key), files[:1]...); len(got) != 1 || !strings.Contains(got[0], "the file before it is missing") {
		t.Errorf("a log's last file: %q", got)
	}
	if got := verify(t, public(key), files[1:]...); len(got) != 1 || !strings.HasPrefix(got[0], "running ") || strings.Contains(got[0], ":") {
		t.Errorf("a log without its last file: %q", got)
	}
	if got := verify(t, public(key), append(files, files[0])...); len(got) != 1 || !strings.Contains(got[0], "comes") {
		t.Errorf("a log with a file twice: %q", got)
	}
}

// text is a log that is read while it is written.
type text struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (t *text) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all.Write(p)
}

func (t *text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all.String()
}

func TestALogIsSignedEachMinuteInWhichThereIsSomething(t *testing.T) {
	key := newKey(t)
	synctest.Test(t, func(t *testing.T) {
		var out text
		log := begin(t, audit.Options{Out: &out, Key: key})
		state := func() []string {
			synctest.Wait() // for what is being signed
			return verifyText(t, public(key), out.String())
		}
		time.Sleep(5 * time.Minute)
		want(t, "a log without acts", state(), "running 1/1")
		must(t, do(log, "one"))
		want(t, "a log with an act", state(), "running 1/3")
		time.Sleep(time.Minute + time.Second)
		want(t, "a log that is signed again", state(), "running 4/4")
		must(t, log.Begin(t.Context(), act("two")))
		before := out.String()
		time.Sleep(3 * time.Minute)
		want(t, "a log that is not signed again", verifyText(t, public(key), before), "killed 4/5 open two")
		want(t, "a log that is", state(), "running 6/6 open two")
		must(t, log.Close())
	})
}

// A disk that is full takes a part of what is written, and then nothing.
type disk struct {
	bytes.Buffer
	room int
}

func (d *disk) Write(p []byte) (int, error) {
	n := min(len(p), d.room)
	d.room -= n
	d.Buffer.Write(p[:n])
	if n < len(p) {
		return n, errors.New("no space left on device")
	}
	return n, nil
}

// Wherever the room ends, the log goes on when there is room again, nothing begins meanwhile, and no
// end of what had begun is lost.
func TestALogGoesOnAfterAFullDisk(t *testing.T) {
	key := newKey(t)
	const room = 100_000
	for left := range 900 {
		d := &disk{room: room}
		log := begin(t, audit.Options{Out: d, Key: key})
		must(t, log.Begin(t.Context(), act("one")))
		d.room = left
		begun := do(log, "two") == nil
		log.End(t.Context(), act("one"), gateway.Outcome{Status: 200})
		d.room = min(d.room, 10)
		if log.Begin(t.Context(), act("three")) == nil {
			t.Fatal("an act begins without room")
		}
		log.End(t.Context(), act("three"), gateway.Outcome{Status: 503})
		d.room = room
		must(t, do(log, "four"))
		must(t, log.Close())
		got := verifyText(t, public(key), d.String())
		if len(got) != 1 || !strings.HasPrefix(got[0], "closed ") || strings.Contains(got[0], "open") || strings.Contains(got[0], ":") {
			t.Fatalf("a disk that was full after %d bytes: %q\n%s", left, got, d.String())
		}
		for id, there := range map[string]bool{"one": true, "two": begun, "three": false, "four": true} {
			if n := linesOf(d.String(), id); n > 0 != there || n > 2 {
				t.Fatalf("a disk that was full after %d bytes has %d lines of %s\n%s", left, n, id, d.String())
			}
		}
	}
}

// linesOf counts the whole lines of an act.
func linesOf(text, id string) (n int) {
	for line := range strings.Lines(text) {
		if strings.Contains(line, `"id":"`+id+`"`) && json.Valid([]byte(line)) {
			n++
		}
	}
	return n
}

func TestALogOfADeviceThatIsFullRefusesActs(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	must(t, err)
	defer full.Close()
	if log, err := audit.New(audit.Options{Out: full, Key: newKey(t)}); err == nil {
		t.Errorf("a log begins: %v", log)
	}
}

func TestKeyOfALogIsMadeOnceAndReadIfItIsPrivate(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "audit.pem")
	if _, err := audit.LoadKey(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a key that is not there: %v", err)
	}
	must(t, audit.MakeKey(path))
	first, err := audit.LoadKey(path)
	must(t, err)
	must(t, audit.MakeKey(path))
	again, err := audit.LoadKey(path)
	must(t, err)
	if !first.Equal(again) {
		t.Error("the key is another the second time")
	}
	parsed, err := audit.ParsePublicKey(audit.FormatPublicKey(public(first)[0]))
	must(t, err)
	if !parsed.Equal(first.Public()) {
		t.Error("the public half is another as text")
	}
	must(t, os.Chmod(path, 0o644))
	if _, err := audit.LoadKey(path); err == nil || !strings.Contains(err.Error(), "not yours alone") {
		t.Errorf("a key that everybody may read: %v", err)
	}
	must(t, os.WriteFile(filepath.Join(dir, "none"), []byte("x"), 0o600))
	if _, err := audit.LoadKey(filepath.Join(dir, "none")); err == nil || !strings.Contains(err.Error(), "no PEM block") {
		t.Errorf("a file without a key: %v", err)
	}
	if _, err := audit.ParsePublicKey("x"); err == nil {
		t.Error("x is a public key")
	}
}

// Whatever is in a file, it is told what is wrong with it, and nothing that is not signed counts as
// signed.
func FuzzVerify(f *testing.F) {
	key := newKey(f)
	whole := written(f, key)
	f.Add(0, 0, "")
	f.Add(300, 1, "x")
	f.Add(900, 0, "\n")
	f.Add(0, 0, "{\n")
	f.Add(0, 10_000, `{"seq":0,"prev":"","type":"start","chain":"x"}`)
	f.Fuzz(func(t *testing.T, at, remove int, insert string) {
		at = min(max(at, 0), len(whole))
		remove = min(max(remove, 0), len(whole)-at)
		text := whole[:at] + insert + whole[at+remove:]
		v := &audit.Verifier{Keys: public(key)}
		must(t, v.Read("log", strings.NewReader(text)))
		good := len(v.Chains()) == 1 && v.Chains()[0].Problem == "" && v.Chains()[0].State == audit.Closed
		// A line in part may be there: the chain is as it was written all the same.
		if good && strings.TrimSpace(text) != strings.TrimSpace(whole) && v.Chains()[0].Torn == 0 {
			t.Errorf("what was changed at %d is good: %q", at, text)
		}
	})
}
