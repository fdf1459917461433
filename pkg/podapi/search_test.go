package podapi_test

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// searchSandbox returns a sandbox with files to search.
func searchSandbox(t *testing.T) *launcher.Sandbox {
	t.Helper()
	s := launchertest.Sandbox(t)
	out, err := s.Shell(t.Context(), `
		mkdir sub .git
		printf 'Foo\nbar foo\nfoobar\nf.o\nend\n' >a.txt
		printf 'foo\n' >sub/b.txt
		printf 'foo\n' >.hidden
		printf 'foo\n' >ignored
		echo ignored >.gitignore
		mkdir out && printf 'linked\n' >out/file && ln -s out/file link
		touch -d 2001-01-01 a.txt && touch -d 2002-01-01 sub/b.txt && touch -d 2003-01-01 out/file`).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return s
}

// grepText is what a search finds, a line for each result.
func grepText(t *testing.T, s *launcher.Sandbox, pattern string, opts fsops.GrepOptions) string {
	t.Helper()
	var out strings.Builder
	for r, err := range s.Grep(t.Context(), pattern, opts) {
		if err != nil {
			t.Fatal(err)
		}
		switch r.Kind {
		case fsops.GrepMatch, fsops.GrepContext:
			fmt.Fprintf(&out, "%s:%d:%s", r.Path, r.Line, r.Text)
			if r.Cut > 0 {
				fmt.Fprintf(&out, " cut %d", r.Cut)
			}
			for _, span := range r.Spans {
				fmt.Fprintf(&out, " [%d %d]", span.Start, span.End)
			}
			out.WriteByte('\n')
		case fsops.GrepFile:
			fmt.Fprintf(&out, "%s counts %d\n", r.Path, r.Count)
		case fsops.GrepFileTruncated:
			fmt.Fprintf(&out, "%s truncated\n", r.Path)
		case fsops.GrepDone:
			if r.Stats.Truncated {
				out.WriteString("truncated\n")
			}
		}
	}
	return out.String()
}

func TestGrepOptionsTravel(t *testing.T) {
	s := searchSandbox(t)
	for _, tt := range []struct {
		name, pattern string
		opts          fsops.GrepOptions
		want          string
	}{
		{"Sort", "foo", fsops.GrepOptions{Sort: true}, "a.txt:2:bar foo\na.txt:3:foobar\nsub/b.txt:1:foo\n"},
		{"IgnoreCase", "foo", fsops.GrepOptions{IgnoreCase: true, Paths: []string{"a.txt"}}, "a.txt:1:Foo\na.txt:2:bar foo\na.txt:3:foobar\n"},
		{"SmartCase", "foo$", fsops.GrepOptions{SmartCase: true, Paths: []string{"a.txt"}}, "a.txt:1:Foo\na.txt:2:bar foo\n"},
		{"SmartCase of capitals", "Foo", fsops.GrepOptions{SmartCase: true, Paths: []string{"a.txt"}}, "a.txt:1:Foo\n"},
		{"Fixed", "f.o", fsops.GrepOptions{Fixed: true}, "a.txt:4:f.o\n"},
		{"Word", "foo", fsops.GrepOptions{Word: true, Paths: []string{"a.txt"}}, "a.txt:2:bar foo\n"},
		{"Multiline", `o\nend`, fsops.GrepOptions{Multiline: true}, "a.txt:4:f.o\nend\n"},
		{"Report of files", "foo", fsops.GrepOptions{Report: fsops.GrepFiles, Sort: true}, "a.txt counts 0\nsub/b.txt counts 0\n"},
		{"Report of counts", "foo", fsops.GrepOptions{Report: fsops.GrepCounts, Sort: true}, "a.txt counts 2\nsub/b.txt counts 1\n"},
		{"Spans", "o", fsops.GrepOptions{Spans: true, Paths: []string{"sub"}}, "sub/b.txt:1:foo [1 2] [2 3]\n"},
		{"MaxLine", "foobar", fsops.GrepOptions{MaxLine: 4}, "a.txt:3:foob cut 2\n"},
		{"Include", "foo", fsops.GrepOptions{Include: []string{"b.*"}}, "sub/b.txt:1:foo\n"},
		{"Exclude", "foo", fsops.GrepOptions{Exclude: []string{"a.*"}}, "sub/b.txt:1:foo\n"},
		{"Before", "foobar", fsops.GrepOptions{Before: 1}, "a.txt:2:bar foo\na.txt:3:foobar\n"},
		{"After", "foobar", fsops.GrepOptions{After: 1}, "a.txt:3:foobar\na.txt:4:f.o\n"},
		{"MaxPerFile", "foo", fsops.GrepOptions{MaxPerFile: 1, Sort: true}, "a.txt:2:bar foo\na.txt truncated\nsub/b.txt:1:foo\n"},
		{"Limit", "foo", fsops.GrepOptions{Limit: 1, Sort: true}, "a.txt:2:bar foo\ntruncated\n"},
		{"Hidden", "foo", fsops.GrepOptions{Hidden: true, Include: []string{".*"}}, ".hidden:1:foo\n"},
		{"NoIgnore", "foo", fsops.GrepOptions{NoIgnore: true, Include: []string{"ignored"}}, "ignored:1:foo\n"},
		{"Follow", "linked", fsops.GrepOptions{Follow: true, Include: []string{"link"}}, "link:1:linked\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, grepText(t, s, tt.pattern, tt.opts)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestGlobOptionsTravel(t *testing.T) {
	s := searchSandbox(t)
	for _, tt := range []struct {
		name, pattern string
		opts          fsops.GlobOptions
		want          []string
	}{
		{"Sort by name", "**/*.txt", fsops.GlobOptions{Sort: fsops.GlobByName}, []string{"a.txt", "sub/b.txt"}},
		{"Sort by time", "{*,*/*}{.txt,file}", fsops.GlobOptions{Sort: fsops.GlobByTime}, []string{"out/file", "sub/b.txt", "a.txt"}},
		{"Dir", "*", fsops.GlobOptions{Dir: "sub"}, []string{"b.txt"}},
		{"Limit", "*.txt", fsops.GlobOptions{Limit: 1}, []string{"a.txt"}},
		{"NoHidden", "*d*", fsops.GlobOptions{NoHidden: true, Sort: fsops.GlobByName}, []string{"ignored"}},
		{"Ignore", "{ignored,a.txt}", fsops.GlobOptions{Ignore: true}, []string{"a.txt"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for m, err := range s.Glob(t.Context(), tt.pattern, tt.opts) {
				if err != nil {
					t.Fatal(err)
				}
				if !m.Truncated {
					got = append(got, m.Path)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A value that the agent does not know is refused, lest it be taken for what
// the caller did not mean.
func TestUnknownSearchOptionsAreRefused(t *testing.T) {
	s := launchertest.Sandbox(t)
	for _, err := range s.Grep(t.Context(), "x", fsops.GrepOptions{Report: 99}) {
		if !errors.Is(err, syscall.EINVAL) {
			t.Errorf("grep: error %v, want %v", err, syscall.EINVAL)
		}
	}
	for _, err := range s.Glob(t.Context(), "x", fsops.GlobOptions{Sort: 99}) {
		if !errors.Is(err, syscall.EINVAL) {
			t.Errorf("glob: error %v, want %v", err, syscall.EINVAL)
		}
	}
}

// One that is slow to come does not hold up the first.
func TestGrepSendsTheFirstMatchAtOnce(t *testing.T) {
	s := launchertest.Sandbox(t)
	// By a thousand names of one file there are 60 GB to search after the match.
	const long = `echo found >a; mkdir z; yes not here | head -c 60M >z/0; for i in $(seq 1000); do ln z/0 z/$i; done`
	if out, err := s.Shell(t.Context(), long).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	began := time.Now()
	for r, err := range s.Grep(t.Context(), "found", fsops.GrepOptions{Paths: []string{"a", "z"}, NoIgnore: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Kind == fsops.GrepMatch {
			if took := time.Since(began); took > hung {
				t.Errorf("the first match took %v", took)
			}
			return
		}
	}
	t.Error("there is no match")
}

func TestWatchOptionsTravel(t *testing.T) {
	s := searchSandbox(t)
	began := time.Now()
	ready := func() {
		out, err := s.Shell(t.Context(), `echo more >>ignored; echo more >>.git/x; mv a.txt sub/c.txt`).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	for e, err := range s.Watch(t.Context(), ".", fsops.WatchOptions{Recursive: true, Ignore: true, Ready: ready}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Op == fsops.WatchRename && e.From == "./a.txt" && e.Path == "./sub/c.txt" && e.Time.After(began.Add(-time.Minute)) {
			return
		}
		t.Fatalf("the event is %+v", e)
	}
}

// Thousands of events come in few messages, and all of them.
func TestWatchOfThousandsOfFiles(t *testing.T) {
	s := launchertest.Sandbox(t)
	const files = 3000
	left := map[string]bool{}
	for i := range files {
		left[fmt.Sprintf("./%d", i)] = true
	}
	made := make(chan error, 1)
	ready := func() {
		go func() {
			made <- s.Shell(t.Context(), fmt.Sprintf("for ((i = 0; i < %d; i++)); do echo x >$i; done", files)).Run()
		}()
	}
	for e, err := range s.Watch(t.Context(), ".", fsops.WatchOptions{Recursive: true, Ready: ready}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Op == fsops.WatchCreate && !left[e.Path] {
			t.Errorf("%s was made twice", e.Path)
		}
		if delete(left, e.Path); len(left) == 0 {
			break
		}
	}
	if err := <-made; err != nil {
		t.Error(err)
	}
}
