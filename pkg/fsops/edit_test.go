//go:build unix

package fsops

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	udiff "github.com/aymanbagabas/go-udiff"
	"github.com/google/go-cmp/cmp"
)

func edit(old, text string) Edit    { return Edit{Old: []byte(old), New: []byte(text)} }
func editAll(old, text string) Edit { return Edit{Old: []byte(old), New: []byte(text), All: true} }

func TestEdit(t *testing.T) {
	for _, c := range []struct {
		name, before string
		edits        []Edit
		after        string
		counts       []int
		diff         string
	}{
		{
			"one", "a\nb\nc\nd\ne\nf\ng\n",
			[]Edit{edit("e", "E\nE2")},
			"a\nb\nc\nd\nE\nE2\nf\ng\n",
			[]int{1},
			"@@ -2,6 +2,7 @@\n b\n c\n d\n-e\n+E\n+E2\n f\n g\n",
		},
		{
			"all", "x x\ny\nx\n",
			[]Edit{editAll("x", "z")},
			"z z\ny\nz\n",
			[]int{3},
			"@@ -1,3 +1,3 @@\n-x x\n+z z\n y\n-x\n+z\n",
		},
		{
			"all without overlaps", "aaaaa",
			[]Edit{editAll("aa", "b")},
			"bba",
			[]int{2},
			"@@ -1 +1 @@\n-aaaaa\n\\ No newline at end of file\n+bba\n\\ No newline at end of file\n",
		},
		{
			"one after the other", "a\nb\n",
			[]Edit{edit("a", "b2"), editAll("b", "c"), edit("c2\n", "")},
			"c\n",
			[]int{1, 2, 1},
			"@@ -1,2 +1 @@\n-a\n-b\n+c\n",
		},
		{
			"line ends and all", "a\r\nb\r\n",
			[]Edit{edit("b\r\n", "")},
			"a\r\n",
			[]int{1},
			"@@ -1,2 +1 @@\n a\r\n-b\r\n",
		},
		{
			"binary", "\x00\xff\nx\xfe",
			[]Edit{edit("\xff", "\xfd\x00")},
			"\x00\xfd\x00\nx\xfe",
			[]int{1},
			"@@ -1,2 +1,2 @@\n-\x00\xff\n+\x00\xfd\x00\n x\xfe\n\\ No newline at end of file\n",
		},
		{
			"context in the edit", "a\nb\nc\n",
			[]Edit{edit("a\nb\nc\n", "a\nB\nc\n")},
			"a\nB\nc\n",
			[]int{1},
			"@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n",
		},
		{
			"undone", "a\n",
			[]Edit{edit("a", "b"), edit("b", "a")},
			"a\n",
			[]int{1, 1},
			"",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newTestFS(t)
			put(t, f, "file", c.before)
			must(t, f.Chmod("file", 0o751))
			res, err := f.Edit(t.Context(), "file", c.edits, EditOptions{})
			must(t, err)
			wantContent(t, f, "file", c.after)
			if c.diff != "" {
				c.diff = "--- a/file\n+++ b/file\n" + c.diff
			}
			if diff := cmp.Diff(c.diff, string(res.Diff)); diff != "" || res.DiffTruncated {
				t.Errorf("truncated %v, difference:\n%s", res.DiffTruncated, diff)
			}
			if diff := cmp.Diff(c.counts, res.Occurrences); diff != "" {
				t.Error(diff)
			}
			attr, err := f.Stat("file")
			must(t, err)
			if attr.Mode != 0o751 || cmp.Diff(attr, res.Write.Attr) != "" || res.Write.Created {
				t.Errorf("the file is %+v, the result %+v", attr, res.Write)
			}
			wantNames(t, f.Workdir(), "file")
		})
	}
}

func TestEditThatDoesNotApplyChangesNothing(t *testing.T) {
	const before = "one\n\ttwo two\nthree\n  four()\n  five()\naaa\n"
	for _, c := range []struct {
		name  string
		edits []Edit
		want  EditError
	}{
		{"never", []Edit{edit("six", "x")}, EditError{}},
		{"never of all", []Edit{editAll("six", "x")}, EditError{}},
		{"twice", []Edit{edit("two", "x")}, EditError{Count: 2}},
		{"overlapping", []Edit{edit("aa", "x")}, EditError{Count: 2}},
		{"the second", []Edit{edit("one", "x"), edit("one", "y")}, EditError{Index: 1}},
		{"made ambiguous", []Edit{edit("one", "three"), edit("three", "y")}, EditError{Index: 1, Count: 2}},
		{"other white space", []Edit{edit("four()\n\tfive()", "x")}, EditError{Hint: "only white space differs from line 4"}},
		{"spaces for a tab", []Edit{edit("    two two\n", "x")}, EditError{Hint: "only white space differs from line 2"}},
		{"other second line", []Edit{edit("\n  four()\n  six()\n", "x")}, EditError{Hint: "its first line is found on line 4, but not what follows it"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newTestFS(t)
			put(t, f, "file", before)
			tag, err := f.Stat("file")
			must(t, err)
			_, err = f.Edit(t.Context(), "file", c.edits, EditOptions{})
			var pe *fs.PathError
			var got *EditError
			if !errors.As(err, &pe) || pe.Op != "edit" || pe.Path != "file" || !errors.As(err, &got) {
				t.Fatalf("error is %v", err)
			}
			if diff := cmp.Diff(c.want, *got); diff != "" {
				t.Error(diff)
			}
			wantContent(t, f, "file", before)
			if after, err := f.Stat("file"); err != nil || after.ETag != tag.ETag {
				t.Errorf("the file was touched (%v)", err)
			}
		})
	}
}

func TestEditHintsAtLineEnds(t *testing.T) {
	f := newTestFS(t)
	put(t, f, "file", "a\r\nb\r\n")
	_, err := f.Edit(t.Context(), "file", []Edit{edit("a\nb\n", "x")}, EditOptions{})
	if err == nil || !strings.Contains(err.Error(), "CRLF") {
		t.Errorf("error is %v", err)
	}
}

func TestEditErrors(t *testing.T) {
	f := newTestFS(t)
	put(t, f, "file", "text")
	must(t, f.Mkdir("dir", MkdirOptions{}))
	must(t, os.WriteFile(at(f, "large"), nil, 0o644))
	must(t, os.Truncate(at(f, "large"), MaxEditSize+1))
	must(t, os.WriteFile(at(f, "wide"), bytes.Repeat([]byte("x"), 1<<12), 0o644))
	for _, c := range []struct {
		name  string
		edits []Edit
		class error
	}{
		{"absent", []Edit{edit("a", "b")}, fs.ErrNotExist},
		{"dir", []Edit{edit("a", "b")}, syscall.EISDIR},
		{"large", []Edit{edit("a", "b")}, syscall.EFBIG},
		{"wide", []Edit{editAll("x", strings.Repeat("y", 1<<12+1))}, syscall.EFBIG},
		{"file", nil, syscall.EINVAL},
		{"file", []Edit{edit("", "b")}, syscall.EINVAL},
		{"file", []Edit{edit("text", "text")}, syscall.EINVAL},
		{"", []Edit{edit("a", "b")}, syscall.EINVAL},
	} {
		_, err := f.Edit(t.Context(), c.name, c.edits, EditOptions{})
		wantPathError(t, err, "edit", c.name, c.class)
	}
	wantContent(t, f, "file", "text")
}

func TestEditIfMatch(t *testing.T) {
	f := newTestFS(t)
	put(t, f, "file", "a")
	attr, err := f.Stat("file")
	must(t, err)
	_, err = f.Edit(t.Context(), "file", []Edit{edit("a", "b")}, EditOptions{IfMatch: attr.ETag})
	must(t, err)
	_, err = f.Edit(t.Context(), "file", []Edit{edit("b", "c")}, EditOptions{IfMatch: attr.ETag})
	wantPathError(t, err, "edit", "file", ErrChanged)
	wantContent(t, f, "file", "b")
}

func TestEditThroughASymlink(t *testing.T) {
	f := newTestFS(t)
	put(t, f, "file", "a")
	must(t, f.Symlink("file", "link"))
	res, err := f.Edit(t.Context(), "link", []Edit{edit("a", "b")}, EditOptions{})
	must(t, err)
	if !strings.HasPrefix(string(res.Diff), "--- a/link\n+++ b/link\n") {
		t.Errorf("diff is %q", res.Diff)
	}
	wantContent(t, f, "file", "b")
	wantNames(t, f.Workdir(), "file", "link")
}

func TestConcurrentEditsAreAllKept(t *testing.T) {
	const editors = 64
	f := newTestFS(t)
	must(t, f.Symlink("file", "link"))
	must(t, f.Symlink(".", "self"))
	var before, after strings.Builder
	for i := range editors {
		fmt.Fprintf(&before, "<%d>\n", i)
		fmt.Fprintf(&after, "[%d]\n", i)
	}
	put(t, f, "file", before.String())
	names := []string{"file", "link", "self/file", at(f, "file")}
	var all sync.WaitGroup
	for i := range editors {
		all.Go(func() {
			e := edit(fmt.Sprintf("<%d>", i), fmt.Sprintf("[%d]", i))
			if _, err := f.Edit(t.Context(), names[i%len(names)], []Edit{e}, EditOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	wantContent(t, f, "file", after.String())
	wantNames(t, f.Workdir(), "file", "link", "self")
}

// Two FS do not share locks, just as an agent and another program do not.
func TestEditNoticesOtherWriters(t *testing.T) {
	f := newTestFS(t)
	put(t, f, "file", "a")
	before, tag, err := f.readWhole(at(f, "file"))
	must(t, err)
	if string(before) != "a" {
		t.Fatalf("read %q", before)
	}
	mustWrite(t, New(f.Workdir()), "file", "other", WriteOptions{})
	_, err = f.rewrite(t.Context(), at(f, "file"), "file", []byte("b"), tag)
	if !errors.Is(err, ErrChanged) {
		t.Errorf("error is %v", err)
	}
	wantContent(t, f, "file", "other")
}

func TestEditOfLargeFilesIsBounded(t *testing.T) {
	f := newTestFS(t)
	content := bytes.Repeat([]byte("a\nb\n"), MaxEditSize/4)
	must(t, os.WriteFile(at(f, "file"), content, 0o644))
	res, err := f.Edit(t.Context(), "file", []Edit{editAll("a\n", "c\n")}, EditOptions{})
	must(t, err)
	if res.Occurrences[0] != MaxEditSize/4 || !res.DiffTruncated || len(res.Diff) > maxEditDiff {
		t.Errorf("%d occurrences, %d bytes of diff, truncated %v", res.Occurrences[0], len(res.Diff), res.DiffTruncated)
	}
	if !bytes.HasPrefix(res.Diff, []byte("--- a/file\n+++ b/file\n@@ ")) || !bytes.HasSuffix(res.Diff, []byte("\n")) {
		t.Errorf("the diff is %q … %q", res.Diff[:100], res.Diff[len(res.Diff)-20:])
	}
	wantContent(t, f, "file", strings.Repeat("c\nb\n", MaxEditSize/4))

	_, err = f.Edit(t.Context(), "file", []Edit{edit("b\nc\n", ""), edit("b\n", "")}, EditOptions{})
	var ee *EditError
	if !errors.As(err, &ee) || ee.Count != MaxEditSize/4-1 {
		t.Errorf("error is %v", err)
	}
	half := strings.Repeat("c\nb\n", MaxEditSize/8)
	_, err = f.Edit(t.Context(), "file", []Edit{edit(half, "x")}, EditOptions{})
	if !errors.As(err, &ee) || ee.Count != MaxEditSize/8+1 {
		t.Errorf("error is %v", err)
	}
}

// However often a text occurs, an edit takes memory in proportion to the contents,
// not to the number of places.
func TestEditOfMillionsOfPlacesTakesMemoryForTheContents(t *testing.T) {
	for _, size := range []int{64 << 10, 1 << 20, MaxEditSize} {
		f := newTestFS(t)
		must(t, os.WriteFile(at(f, "file"), bytes.Repeat([]byte("a\n"), size/2), 0o644))
		took := allocatedBy(func() {
			_, err := f.Edit(t.Context(), "file", []Edit{editAll("a", "b")}, EditOptions{})
			must(t, err)
		})
		// The memory for the diff does not grow with the file.
		if bound := uint64(4*size + 16*maxEditDiff); took > bound {
			t.Errorf("an edit of %d bytes allocated %d, more than %d", size, took, bound)
		}
	}
}

// A diff made from the surroundings of the changes equals the diff of the whole.
func TestDiffOfPlacesIsThatOfTheWhole(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 0))
		var content strings.Builder
		for range random.IntN(400) {
			content.WriteString("aaaaaaaaaaaaaabc\n\n\n"[random.IntN(19):][:1])
			content.WriteString("\nx"[random.IntN(2):][:1])
		}
		texts := []string{"", "y", "\n", "z\ny", "z\n", "\n\n\ny\n"}
		edits := []Edit{editAll("b", texts[random.IntN(len(texts))]), editAll("c\n", texts[random.IntN(len(texts))])}
		p, current := newPieces(content.Len(), 1000), []byte(content.String())
		for _, e := range edits {
			p.edit(current, e)
			current = bytes.ReplaceAll(current, e.Old, e.New)
		}
		changes, _ := shownChanges([]byte(content.String()), p)
		want, err := udiff.ToUnified("a/f", "b/f", content.String(), changes, diffContext)
		must(t, err)
		got, truncated := unifiedDiff("f", []byte(content.String()), p)
		// udiff numbers the lines of the new content wrongly.
		numbers := regexp.MustCompile(`(?m)^(@@ \S+ )\S+ @@$`)
		if diff := cmp.Diff(numbers.ReplaceAllString(want, "$1"), numbers.ReplaceAllString(string(got), "$1")); diff != "" || truncated {
			t.Fatalf("seed %d: truncated %v, difference:\n%s", seed, truncated, diff)
		}
		checkNewLineNumbers(t, string(got))
	}
}

// checkNewLineNumbers checks that the start of each hunk in the new content is
// shifted by the number of lines that the earlier hunks added.
func checkNewLineNumbers(t *testing.T, diff string) {
	t.Helper()
	grown := 0
	for i, line := range strings.Split(diff, "\n") {
		switch {
		case i < 2 || line == "" || strings.Contains(line, "0,0"): // a header, or a hunk of an empty file
		case line[0] == '@':
			if number(line, "+") != number(line, "-")+grown {
				t.Fatalf("%q comes after %d more lines:\n%s", line, grown, diff)
			}
		case line[0] == '+':
			grown++
		case line[0] == '-':
			grown--
		}
	}
}

// number returns the number after the sign in a hunk's header.
func number(header, sign string) (n int) {
	_, rest, _ := strings.Cut(header, " "+sign)
	_, _ = fmt.Sscanf(rest, "%d", &n)
	return n
}

func TestDiffLabel(t *testing.T) {
	for name, want := range map[string]string{
		"x/y z": "a/x/y z", "/x/y": "a/x/y", "\xff": "a/\xff", "x\ny": `"a/x\ny"`,
	} {
		if got := diffLabel("a/", name); got != want {
			t.Errorf("the label of %q is %s, want %s", name, got, want)
		}
	}
}

func FuzzEdit(f *testing.F) {
	f.Add("a\nb\nc\n", "b", "x\ny", "c", "", false)
	f.Add("aaaa", "aa", "a", "a", "\xff\n", true)
	f.Add("a\r\n\x00\n", "\n", "", "\r", "\n", true)
	f.Fuzz(func(t *testing.T, content, old1, new1, old2, new2 string, all bool) {
		edits := []Edit{edit(old1, new1), edit(old2, new2)}
		edits[0].All, edits[1].All = all, all
		if checkEdits(edits) != nil {
			return
		}
		for n := 1; n <= len(edits); n++ {
			checkAgainstOracle(t, content, edits[:n])
		}
	})
}

func checkAgainstOracle(t *testing.T, content string, edits []Edit) {
	want, counts, wantErr := editOracle(content, edits)
	got, err := applyEdits(t.Context(), []byte(content), edits)
	if wantErr != nil {
		var ee *EditError
		if !errors.As(err, &ee) || ee.Index != wantErr.Index || ee.Count != wantErr.Count {
			t.Fatalf("error is %v, want %v", err, wantErr)
		}
		return
	}
	if err != nil || string(got.content) != want || cmp.Diff(counts, got.counts) != "" {
		t.Fatalf("got %q %v %v, want %q %v", got.content, got.counts, err, want, counts)
	}
	diff, truncated := unifiedDiff("f", []byte(content), got.pieces)
	if truncated {
		t.Fatal("truncated the diff of a small file")
	}
	checkPartialPieces(t, []byte(content), edits, got.pieces.changes())
	if patched := patchOracle(content, string(diff)); patched != want {
		t.Fatalf("the diff makes %q of %q, want %q:\n%s", patched, content, want, diff)
	}
}

// checkPartialPieces checks that pieces with a limited number of changes have the
// same first changes as unlimited ones.
func checkPartialPieces(t *testing.T, content []byte, edits []Edit, all []udiff.Edit) {
	p := newPieces(len(content), 2)
	for _, e := range edits {
		p.edit(content, e)
		content = bytes.ReplaceAll(content, e.Old, e.New)
	}
	some := p.changes()
	if len(some) > len(all) || len(some) < len(all) && !p.partial || !slices.Equal(all[:len(some)], some) {
		t.Fatalf("some changes are %v, all are %v", some, all)
	}
}

func editOracle(content string, edits []Edit) (string, []int, *EditError) {
	var counts []int
	for i, e := range edits {
		old, text := string(e.Old), string(e.New)
		count := strings.Count(content, old)
		if !e.All {
			count = 0
			for at := range len(content) {
				if strings.HasPrefix(content[at:], old) {
					count++
				}
			}
		}
		if count == 0 || count > 1 && !e.All {
			return "", nil, &EditError{Index: i, Count: count}
		}
		content = strings.ReplaceAll(content, old, text)
		counts = append(counts, count)
	}
	return content, counts, nil
}

// patchOracle applies a unified diff as patch(1) would.
func patchOracle(content, diff string) string {
	lines := strings.SplitAfter(content, "\n")
	var out strings.Builder
	next := 0
	rest := strings.SplitAfter(diff, "\n")
	for i := 2; i < len(rest); i++ {
		line := rest[i]
		var from int
		if n, _ := fmt.Sscanf(line, "@@ -%d", &from); n == 1 {
			for ; next < from-1; next++ {
				out.WriteString(lines[next])
			}
			continue
		}
		if line == "" || line[0] == '\\' {
			continue
		}
		text := line[1:]
		if i+1 < len(rest) && strings.HasPrefix(rest[i+1], "\\") {
			text = strings.TrimSuffix(text, "\n")
		}
		if line[0] != '+' {
			next++
		}
		if line[0] != '-' {
			out.WriteString(text)
		}
	}
	return out.String() + strings.Join(lines[min(next, len(lines)):], "")
}
