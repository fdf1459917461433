package e2b

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/test/contracts"
)

// methodCase is a call of filesystem.Filesystem, and what must come of it. {wd} is the working directory.
type methodCase struct {
	method, body string
	status       int
	want         string // a regular expression that the answer matches
}

func (d *envdDoor) calls(cases ...methodCase) {
	d.Helper()
	for _, c := range cases {
		got := d.call("filesystem.Filesystem/"+c.method, strings.ReplaceAll(c.body, "{wd}", d.dir))
		if want := strings.ReplaceAll(c.want, "{wd}", regexp.QuoteMeta(d.dir)); got.StatusCode != c.status || !regexp.MustCompile(want).MatchString(got.text) {
			d.Errorf("%s %s: %d %s\nwant %d %s", c.method, c.body, got.StatusCode, got.text, c.status, want)
		}
	}
}

func TestDirectoriesAreMade(t *testing.T) {
	d := newEnvdDoor(t)
	d.write("file", "x")
	d.calls(
		methodCase{"MakeDir", `{"path":"one"}`, 200, `"name":"one","type":"FILE_TYPE_DIRECTORY","path":"{wd}/one".*"permissions":"drwxr-xr-x"`},
		methodCase{"MakeDir", `{"path":"one"}`, 409, `"code":"already_exists"`},
		methodCase{"MakeDir", `{"path":"{wd}/a/b/../c/"}`, 200, `"path":"{wd}/a/c"`},
		methodCase{"MakeDir", `{"path":"file"}`, 400, `"code":"invalid_argument".*file is there, and no directory`},
		methodCase{"MakeDir", `{"path":"file/below"}`, 400, `"code":"(invalid_argument|failed_precondition)"`},
		methodCase{"MakeDir", `{"path":"~/one"}`, 400, `"code":"invalid_argument".*~ is not known here`},
	)
}

func TestFilesAreDescribed(t *testing.T) {
	contracts.Record(t, "e2b", "HTTP").Saw(contracts.Works, "files.getInfo, files.exists")
	d := newEnvdDoor(t)
	d.write("dir/file", "text")
	for name, target := range map[string]string{"to-file": "dir/file", "to-dir": d.path("dir"), "to-nothing": "nothing", "loop": "loop"} {
		if err := os.Symlink(target, d.path(name)); err != nil {
			t.Fatal(err)
		}
	}
	owner := userName(uint32(os.Getuid()))
	d.calls(
		methodCase{"Stat", `{"path":"dir/file"}`, 200, `^{"entry":{"name":"file","type":"FILE_TYPE_FILE","path":"{wd}/dir/file","size":"4","mode":420,"permissions":"-rw-r--r--","owner":"` + owner + `","group":"[a-z0-9]+","modifiedTime":"20[-0-9T:.]+Z"}}`},
		methodCase{"Stat", `{"path":"{wd}/dir/"}`, 200, `"name":"dir","type":"FILE_TYPE_DIRECTORY".*"mode":493,"permissions":"drwxr-xr-x"`},
		methodCase{"Stat", `{"path":"to-file"}`, 200, `"name":"to-file","type":"FILE_TYPE_FILE","path":"{wd}/to-file".*"mode":420,"permissions":"L.*"symlinkTarget":"{wd}/dir/file"`},
		methodCase{"Stat", `{"path":"to-dir"}`, 200, `"type":"FILE_TYPE_DIRECTORY".*"symlinkTarget":"{wd}/dir"`},
		methodCase{"Stat", `{"path":"to-nothing"}`, 200, `"type":"FILE_TYPE_SYMLINK".*"symlinkTarget":"{wd}/nothing"`},
		methodCase{"Stat", `{"path":"loop"}`, 200, `"type":"FILE_TYPE_SYMLINK"`},
		methodCase{"Stat", `{"path":"/dev/null"}`, 200, `"type":"FILE_TYPE_UNSPECIFIED"`},
		methodCase{"Stat", `{"path":""}`, 200, `"path":"{wd}"`},
		methodCase{"Stat", `{"path":"nothing"}`, 404, `"code":"not_found"`},
		methodCase{"Stat", `{"path":"dir/file/below"}`, 400, `"code":"(invalid_argument|failed_precondition)"`},
		methodCase{"Stat", `{"path":"a\u0000b"}`, 400, `"code":"invalid_argument"`},
		methodCase{"Stat", `{"path":7}`, 400, `"code":"invalid_argument"`},
	)
	e := plainEntry(fsops.Attr{Path: "x", ModTime: time.Date(12026, 1, 1, 0, 0, 0, 0, time.UTC)})
	if text, err := json.Marshal(e); err != nil || e.ModifiedTime != nil {
		t.Errorf("a time that no timestamp can have is told: %s, %v", text, err)
	}
}

func TestDirectoriesAreListed(t *testing.T) {
	contracts.Record(t, "e2b", "HTTP").Saw(contracts.Works, "files.list")
	d := newEnvdDoor(t)
	for _, name := range []string{"top/file1", "top/sub1/deep/file2", "top/sub2/\xff"} {
		d.write(name, "")
	}
	if err := os.Symlink("sub1", d.path("top/to-sub1")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("top", d.path("to-top")); err != nil {
		t.Fatal(err)
	}
	names := func(path string, depth int) string {
		t.Helper()
		got := d.call("filesystem.Filesystem/ListDir", fmt.Sprintf(`{"path":%q,"depth":%d}`, path, depth))
		found := regexp.MustCompile(`"path":"([^"]*)"`).FindAllStringSubmatch(got.text, -1)
		for i, f := range found {
			found[i] = []string{strings.TrimPrefix(f[1], d.dir+"/")}
		}
		return fmt.Sprint(found)
	}
	for _, c := range []struct {
		path  string
		depth int
		want  string
	}{
		{"top", 0, "[[top/file1] [top/sub1] [top/sub2] [top/to-sub1]]"},
		{"top", 1, "[[top/file1] [top/sub1] [top/sub2] [top/to-sub1]]"},
		{d.dir + "/top/", 2, "[[top/file1] [top/sub1] [top/sub1/deep] [top/sub2] [top/sub2/\uFFFD] [top/to-sub1]]"},
		{"top", 3, "[[top/file1] [top/sub1] [top/sub1/deep] [top/sub1/deep/file2] [top/sub2] [top/sub2/\uFFFD] [top/to-sub1]]"},
		{"top", 4_000_000_000, "[[top/file1] [top/sub1] [top/sub1/deep] [top/sub1/deep/file2] [top/sub2] [top/sub2/\uFFFD] [top/to-sub1]]"},
		{"to-top", 1, "[[to-top/file1] [to-top/sub1] [to-top/sub2] [to-top/to-sub1]]"},
		{"top/sub1/deep/../../sub2", 1, "[[top/sub2/\uFFFD]]"},
	} {
		if got := names(c.path, c.depth); got != c.want {
			t.Errorf("%s to a depth of %d has %s, want %s", c.path, c.depth, got, c.want)
		}
	}
	d.calls(
		methodCase{"ListDir", `{"path":"top"}`, 200, `"name":"to-sub1","type":"FILE_TYPE_DIRECTORY"`},
		methodCase{"ListDir", `{"path":"top/sub1/deep/file2"}`, 400, `"code":"invalid_argument".*file2 is no directory`},
		methodCase{"ListDir", `{"path":"nothing"}`, 404, `"code":"not_found"`},
		methodCase{"ListDir", `{"path":"top","depth":-1}`, 400, `"code":"invalid_argument"`},
		methodCase{"MakeDir", `{"path":"empty"}`, 200, ``},
		methodCase{"ListDir", `{"path":"empty"}`, 200, `^{}$`},
	)
}

func TestListingIsBounded(t *testing.T) {
	d := newEnvdDoor(t)
	deep := "top" + strings.Repeat("/"+strings.Repeat("d", 200), 12)
	for i := range listLimit / 2500 {
		d.write(fmt.Sprint(deep, "/", i), "")
	}
	d.calls(
		methodCase{"ListDir", `{"path":"top","depth":12}`, 200, `"entries"`},
		methodCase{"ListDir", `{"path":"top","depth":13}`, 400, `"code":"failed_precondition".*there are too many entries`},
	)
}

func TestListingReadsOneDirectoryAtATime(t *testing.T) {
	open, most := 0, 0
	read := func(_ context.Context, dir string, _ fsops.ListOptions) iter.Seq2[fsops.Attr, error] {
		return func(yield func(fsops.Attr, error) bool) {
			open++
			most = max(most, open)
			_ = yield(fsops.Attr{Path: dir + "/a", Mode: fs.ModeDir}, nil) && yield(fsops.Attr{Path: dir + "/b"}, nil)
			open--
		}
	}
	l := &lister{entries: read}
	if err := l.list(t.Context(), "", levelsLimit, 0); err != nil || len(l.found) != 2*levelsLimit || most != 1 {
		t.Errorf("of %d entries it read %d directories at once: %v", len(l.found), most, err)
	}
	if l.found[1].Path != "/a/a" || l.found[len(l.found)-1].Path != "/b" {
		t.Errorf("a directory is not before what is in it: %v", l.found)
	}
	if err := (&lister{entries: read}).list(t.Context(), "", levelsLimit+1, 0); err == nil || !strings.Contains(err.Error(), "more than 64 levels") {
		t.Errorf("of more levels: %v", err)
	}
}

func TestListingIsNotMuchLargerThanItsBound(t *testing.T) {
	for _, c := range []string{"<", "\x01", "x"} {
		a, all := fsops.Attr{Path: "/" + strings.Repeat(c, 2000)}, listResponse{}
		for i := 0; sizeOf(a)*i < listLimit; i++ {
			all.Entries = append(all.Entries, plainEntry(a))
		}
		if text, err := (jsonCodec{}).Marshal(&all); err != nil || len(text) > listLimit*5/4 {
			t.Errorf("of %q the answer has %d bytes: %v", c, len(text), err)
		}
	}
}

func TestFilesAreMovedAndRemoved(t *testing.T) {
	contracts.Record(t, "e2b", "HTTP").Saw(contracts.Works, "files.makeDir, files.rename, files.remove")
	d := newEnvdDoor(t)
	d.write("a", "1")
	d.write("tree/b", "2")
	d.write("c", "3")
	d.calls(
		methodCase{"Move", `{"source":"a","destination":"new/dir/a"}`, 200, `"name":"a","type":"FILE_TYPE_FILE","path":"{wd}/new/dir/a"`},
		methodCase{"Move", `{"source":"tree","destination":"{wd}/moved"}`, 200, `"type":"FILE_TYPE_DIRECTORY","path":"{wd}/moved"`},
		methodCase{"Move", `{"source":"c","destination":"moved/b"}`, 200, `"path":"{wd}/moved/b","size":"1"`},
		methodCase{"Move", `{"source":"nothing","destination":"new"}`, 404, `"code":"not_found"`},
		methodCase{"Move", `{"source":"nothing","destination":"newer/dir"}`, 404, `"code":"not_found"`},
		methodCase{"Remove", `{"path":"moved"}`, 200, `^{}$`},
		methodCase{"Remove", `{"path":"moved"}`, 200, `^{}$`},
		methodCase{"Remove", `{"path":"new/dir/a"}`, 200, `^{}$`},
	)
	for _, gone := range []string{"a", "tree", "c", "moved", "new/dir/a", "newer"} {
		if _, err := os.Lstat(d.path(gone)); err == nil {
			t.Errorf("%s is there", gone)
		}
	}
}

func TestRootIsNotSupportedWhereTheSandboxIsAnother(t *testing.T) {
	d := newEnvdDoor(t)
	d.write("file", "x")
	want := map[bool]int{true: 200, false: 501}[os.Getuid() == 0]
	for user, want := range map[string]int{"cm9vdDo=": want, "dXNlcjo=": 200, "YW55Ym9keTo=": 200} {
		if got := d.call("filesystem.Filesystem/Stat", `{"path":"file"}`, "Authorization: Basic "+user); got.StatusCode != want {
			t.Errorf("for %s: %d %s, want %d", user, got.StatusCode, got.text, want)
		}
	}
}

func TestChangesAreWatched(t *testing.T) {
	contracts.Record(t, "e2b", "HTTP").Saw(contracts.Works, "files.watchDir")
	d := newEnvdDoor(t)
	d.write("dir/old", "x")
	events := d.stream("filesystem.Filesystem/WatchDir", `{"path":"dir"}`)
	if before := d.expect(events, `{"start":{}}`); before != nil {
		t.Errorf("before the start came %q", before)
	}
	event := func(name, kind string) string {
		return fmt.Sprintf(`{"filesystem":{"name":%q,"type":"EVENT_TYPE_%s"}}`, name, kind)
	}
	upload := func(name string) {
		t.Helper()
		if got := d.send("POST", "/files?path="+name, "text", "Content-Type: application/octet-stream"); got.StatusCode != 200 {
			t.Fatal(got.text)
		}
	}
	upload("dir/new")
	if before := d.expect(events, event("new", "CREATE")); before != nil {
		t.Errorf("a new file makes %q", before)
	}
	d.expect(events, event("new", "WRITE"))
	upload("dir/old")
	for _, e := range d.expect(events, event("old", "WRITE")) {
		if e != event("old", "CREATE") {
			t.Errorf("a file that is written makes %s", e)
		}
	}
	d.calls(methodCase{"Move", `{"source":"dir/old","destination":"dir/older"}`, 200, ``})
	d.expect(events, event("old", "RENAME"))
	d.expect(events, event("older", "CREATE"))
	if err := os.Chmod(d.path("dir/older"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.expect(events, event("older", "CHMOD"))
	d.calls(methodCase{"Remove", `{"path":"dir/older"}`, 200, ``})
	d.expect(events, event("older", "REMOVE"))
	d.calls(methodCase{"MakeDir", `{"path":"dir/sub"}`, 200, ``})
	d.expect(events, event("sub", "CREATE"))
	d.write("dir/sub/below", "x")
	d.write("dir/last", "x")
	for _, e := range d.expect(events, event("last", "CREATE")) {
		if strings.Contains(e, "below") {
			t.Errorf("a watch that is not recursive tells of %s", e)
		}
	}

	tree := d.stream("filesystem.Filesystem/WatchDir", `{"path":"dir","recursive":true}`)
	d.expect(tree, `{"start":{}}`)
	upload("dir/sub/more/deep")
	d.expect(tree, event("sub/more", "CREATE"))
	d.expect(tree, event("sub/more/deep", "WRITE"))

	for path, want := range map[string]string{"nothing": "not_found", "dir/new": "invalid_argument"} {
		d.expect(d.stream("filesystem.Filesystem/WatchDir", fmt.Sprintf(`{"path":%q}`, path)), `"code":"`+want)
	}
}

func TestWatchIsKeptAliveAndEndsAtItsTimeout(t *testing.T) {
	d := newEnvdDoor(t)
	const watch, here = "filesystem.Filesystem/WatchDir", `{"path":"."}`
	d.expect(d.stream(watch, here, "Keepalive-Ping-Interval: 1"), `{"keepalive":{}}`)
	d.expect(d.stream(watch, here, "Connect-Timeout-Ms: 500"), `"code":"deadline_exceeded"`)
}

func TestWatchEndsWithItsGateway(t *testing.T) {
	d := newEnvdDoor(t)
	events := d.stream("filesystem.Filesystem/WatchDir", `{"path":"."}`)
	d.expect(events, `{"start":{}}`)
	go d.gateway.Close()
	d.expect(events, `"message":"this gateway ends: `)
}

func TestChangesAreAskedFor(t *testing.T) {
	contracts.Record(t, "e2b", "HTTP").Saw(contracts.Works, "watchDir of the SDK for Python without asyncio")
	d := newEnvdDoor(t)
	d.rest("POST", "/api/v1/sandboxes", `{"id":"other"}`)
	id := regexp.MustCompile(`"watcherId":"([a-z0-9]+)"`).FindStringSubmatch(d.call("filesystem.Filesystem/CreateWatcher", `{"path":"","recursive":true}`).text)
	if id == nil {
		t.Fatal("there is no watcher")
	}
	ask := fmt.Sprintf(`{"watcherId":%q}`, id[1])
	d.calls(methodCase{"GetWatcherEvents", ask, 200, `^{}$`})
	d.write("a/b", "x")
	seen, begun := "", time.Now()
	for !strings.Contains(seen, `{"name":"a/b","type":"EVENT_TYPE_CREATE"}`) {
		if seen += d.call("filesystem.Filesystem/GetWatcherEvents", ask).text; time.Since(begun) > hung {
			t.Fatalf("the event does not come: %s", seen)
		}
	}
	other := d.rest("GET", "/token/other", "")
	if got := d.call("filesystem.Filesystem/GetWatcherEvents", ask, "X-Access-Token: "+other, headerSandbox+": "+idOf("acme", "other")); got.StatusCode != 404 {
		t.Errorf("another sandbox's watcher: %d %s", got.StatusCode, got.text)
	}
	d.calls(
		methodCase{"RemoveWatcher", ask, 200, `^{}$`},
		methodCase{"RemoveWatcher", ask, 404, `"code":"not_found","message":"this gateway has no such watcher`},
		methodCase{"GetWatcherEvents", ask, 404, `"code":"not_found"`},
		methodCase{"CreateWatcher", `{"path":"nothing"}`, 404, `"code":"not_found"`},
		methodCase{"CreateWatcher", `{"path":"a/b"}`, 400, `"code":"invalid_argument"`},
	)
	for range watchersOfSandbox {
		d.calls(methodCase{"CreateWatcher", `{"path":""}`, 200, `watcherId`})
	}
	d.calls(methodCase{"CreateWatcher", `{"path":""}`, 429, `"code":"resource_exhausted".*remove some`})
}

func TestWatchersOfASandboxLeaveRoomForOthers(t *testing.T) {
	ws, stopped := &watchers{}, 0
	add := func(tenant, sandbox string, w *watcher) error {
		w.stop = func() { stopped++ }
		return ws.add(watcherKey{tenant, sandbox, fmt.Sprint(len(ws.byID), stopped)}, w)
	}
	fill := func(sandbox string, n int) {
		t.Helper()
		for range n {
			if err := add("acme", sandbox, &watcher{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	fill("one", watchersOfSandbox)
	if err := add("acme", "one", &watcher{}); err == nil {
		t.Error("a sandbox has too many")
	}
	fill("two", watchersOfSandbox-1)
	if err := add("acme", "two", &watcher{ended: true}); err != nil {
		t.Error(err)
	}
	fill("two", 1) // in place of the one that has ended
	if err := add("acme", "two", &watcher{}); err == nil || stopped != 1 {
		t.Errorf("of those that go on %d were ended: %v", stopped-1, err)
	}
	for i := range watchersLimit/watchersOfSandbox - 2 {
		fill(fmt.Sprint(i), watchersOfSandbox)
	}
	if err := add("acme", "three", &watcher{}); err == nil {
		t.Error("a tenant has too many")
	}
	if err := add("other", "one", &watcher{}); err != nil {
		t.Errorf("another tenant: %v", err)
	}
	ws.removeOf("acme", "one")
	if stopped != 1+watchersOfSandbox {
		t.Errorf("%d were ended", stopped)
	}
	fill("three", watchersOfSandbox)
}

// Envd keeps such a watcher until it is removed. Here it is kept no longer than there is room.
func TestWatcherOfADirectoryThatIsGoneSaysNothingMoreAndMakesRoom(t *testing.T) {
	d := newEnvdDoor(t)
	create := func(path string) (int, string) {
		got := d.call("filesystem.Filesystem/CreateWatcher", fmt.Sprintf(`{"path":%q}`, path))
		return got.StatusCode, got.text
	}
	d.calls(methodCase{"MakeDir", `{"path":"dir"}`, 200, ""})
	_, made := create("dir")
	for range watchersOfSandbox - 1 {
		if code, text := create(""); code != 200 {
			t.Fatal(code, text)
		}
	}
	d.calls(methodCase{"Remove", `{"path":"dir"}`, 200, ""})
	removed := false
	eventually(t, "the last event", func() bool {
		got := d.call("filesystem.Filesystem/GetWatcherEvents", made)
		removed = removed || strings.Contains(got.text, eventRemove)
		return removed && got.StatusCode == 200 && got.text == "{}"
	})
	eventually(t, "room for another", func() bool {
		code, _ := create("")
		return code == 200
	})
	d.calls(
		methodCase{"CreateWatcher", `{"path":""}`, 429, ""},
		methodCase{"GetWatcherEvents", made, 404, "not_found"},
	)
}

func TestWatchersEndWithTheirSandbox(t *testing.T) {
	d := newEnvdDoor(t)
	id := regexp.MustCompile(`"watcherId":"([a-z0-9]+)"`).FindStringSubmatch(d.call("filesystem.Filesystem/CreateWatcher", `{"path":""}`).text)
	if got := d.send("DELETE", "/sandboxes/"+d.id, "", "X-API-Key: a", headerSandbox+": ", "X-Access-Token: "); got.StatusCode != 204 {
		t.Fatal(got.StatusCode, got.text)
	}
	if got := d.call("filesystem.Filesystem/GetWatcherEvents", fmt.Sprintf(`{"watcherId":%q}`, id[1])); got.StatusCode != 404 {
		t.Errorf("a watcher of a sandbox that is gone: %d %s", got.StatusCode, got.text)
	}
}

func TestWatcherThatNobodyAsksEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		ws, key := &watchers{}, watcherKey{"acme", "job", "1"}
		if err := ws.add(key, &watcher{stop: stop}); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			time.Sleep(watcherIdle - time.Second)
			if _, err := ws.events(key); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(watcherIdle + time.Second)
		if _, err := ws.events(key); err != errNoWatcher || ctx.Err() == nil {
			t.Errorf("%v, and its watch goes on", err)
		}
	})
}

func TestTooManyChangesEndAWatcher(t *testing.T) {
	w, told := &watcher{}, 0
	for e := (&fileEvent{Name: strings.Repeat("x", 1000)}); ; told++ {
		if err := w.tell(e); err != nil {
			w.end(err)
			break
		}
	}
	events, err := w.take()
	if len(events) != told || told < 900 || err != nil {
		t.Errorf("%d of %d events, %v", len(events), told, err)
	}
	if _, err := w.take(); err != errLost {
		t.Errorf("the loss is not told: %v", err)
	}
}
