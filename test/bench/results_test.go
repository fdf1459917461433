package bench

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// sample returns a report with a peer of each kind.
func sample() *report {
	r := &report{Machine: "a machine"}
	r.Rows = append(r.Rows,
		newRow("calls", "stat <x>", "ms", figureOf("podagent", []time.Duration{4e6, 1e6, 2e6, 3e6})).
			beside(figure{"raw", 1.5, 1, 2, 4}).beside(figure{"slow", 30, 20, 40, 4}).want("raw", 1).want("slow", 5),
		newRow("cost", "memory", "MiB", once("podagent", 10)).beside(once("other", 20)).limit("limit", 15),
	)
	return r
}

func TestRatiosAndTargets(t *testing.T) {
	r := sample()
	if f := r.Rows[0].Podagent; f.Median != 2.5 || f.Low != 2 || f.High != 3 || f.Count != 4 {
		t.Errorf("the figure of 1 to 4 ms is %+v", f)
	}
	for i, want := range []struct {
		better  float64
		verdict string
	}{{0.6, "missed"}, {12, "met"}} {
		if p := r.Rows[0].Peers[i]; p.Better != want.better || p.verdict() != want.verdict {
			t.Errorf("%s is %+v, %s, want %+v", p.Name, p, p.verdict(), want)
		}
	}
	if p := r.Rows[1].Peers[1]; p.Better != 1.5 || p.Target != 1 || p.verdict() != "met" || r.Rows[1].Peers[0].verdict() != "" {
		t.Errorf("the limit is %+v", p)
	}
	if missed := r.missed(); !slices.Equal(missed, []string{"calls, stat <x>: 0.60× better than raw, target 1×"}) {
		t.Errorf("missed: %q", missed)
	}
}

func TestTables(t *testing.T) {
	var text strings.Builder
	if err := sample().writeTable(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"a machine", "raw", "0.60×", "1× missed", "5× met", "15 MiB"} {
		if got := strings.Join(strings.Fields(text.String()), " "); !strings.Contains(got, want) {
			t.Errorf("the table lacks %q:\n%s", want, &text)
		}
	}
	if short, all := sample().markdown(targeted), sample().markdown(everything); strings.Contains(short, "| other |") || !strings.Contains(all, "| other |") || !strings.Contains(short, "**0.60×**") {
		t.Errorf("the tables for a page are\n%s\n%s", short, all)
	}
}

func TestPictureIsXMLWithEachProgram(t *testing.T) {
	var picture bytes.Buffer
	if err := sample().writePicture(&picture); err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	d := xml.NewDecoder(bytes.NewReader(picture.Bytes()))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, &picture)
		}
		if start, ok := token.(xml.StartElement); ok {
			count[start.Name.Local]++
		}
	}
	if count["rect"] != 3 || count["line"] != 2+1 {
		t.Errorf("the picture contains %v", count)
	}
}

// published returns the results in the repository.
func published(t *testing.T) *report {
	t.Helper()
	r, err := readResults()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestRowsTakeTheirPlacesInPublishedResults checks that a run of some groups changes only its own rows.
func TestRowsTakeTheirPlacesInPublishedResults(t *testing.T) {
	old, now := sample(), sample()
	old.Rows = append(old.Rows, newRow("tools", "gone", "ms", once("podagent", 1)).beside(once("peer", 1)))
	now.Machine, now.Rows = "another", []*row{
		newRow("calls", "stat <x>", "ms", once("podagent", 3)).beside(once("raw", 1)),
		newRow("calls", "new", "ms", once("podagent", 4)).beside(once("raw", 1)),
		newRow("scale", "new", "ms", once("podagent", 5)).beside(once("raw", 1)),
	}
	merged := now.over(old)
	var got []string
	for _, row := range merged.Rows {
		got = append(got, fmt.Sprint(row.Group, ",", row.What, ",", row.Podagent.Median, ",", row.Machine))
	}
	want := []string{"calls,stat <x>,3,another", "calls,new,4,another", "cost,memory,10,", "tools,gone,1,", "scale,new,5,another"}
	if !slices.Equal(got, want) || merged.Machine != "a machine" {
		t.Errorf("on %s it has\n%q, want\n%q", merged.Machine, got, want)
	}
	if text := merged.markdown(everything); !strings.Contains(text, "On another machine, another: calls, scale.") {
		t.Errorf("the table does not say which rows are of the other machine:\n%s", text)
	}
	merged.Unmeasured = merged.unmeasured()
	if page := merged.page(); !strings.Contains(page, "Not measured yet: checkpoints, console, many, search, start, streams.") {
		t.Errorf("the page does not say what it lacks:\n%s", page)
	}
	if again := sample().over(sample()); again.Rows[0].Machine != "" || len(again.Rows) != 2 {
		t.Errorf("the same machine is named: %+v", again.Rows[0])
	}
}

// TestPublishedResultsAreTheSame checks that all pages and the picture in the repository show the published measurements,
// and that these say which groups they lack.
func TestPublishedResultsAreTheSame(t *testing.T) {
	r := published(t)
	groups := slices.Sorted(slices.Values(append(r.groups(), r.Unmeasured...)))
	if !slices.Equal(groups, allGroups) {
		t.Errorf("the results are of the groups %q, without %q, want %q in all", r.groups(), r.Unmeasured, allGroups)
	}
	var picture strings.Builder
	if err := r.writePicture(&picture); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"results.svg": picture.String(),
		"results.md":  r.page(),
		filepath.Join("..", "..", "docs", "benchmarks.md"): tableBegin + "\n" + r.markdown(targeted) + "\n" + tableEnd,
		filepath.Join("..", "..", "README.md"):             tableBegin + "\n" + r.markdown(headline) + "\n" + tableEnd,
	} {
		if text, err := os.ReadFile(path); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s does not show results.json (%v): publish them again", path, err)
		}
	}
}

// TestHeadlinesAreMeasured checks that README.md has a row for each headline.
func TestHeadlinesAreMeasured(t *testing.T) {
	r := published(t)
	want := 0
	for _, peers := range headlines {
		want += len(peers)
	}
	if got := strings.Count(r.markdown(headline), "\n| "); got != want {
		t.Errorf("the table of headlines has %d rows, want %d:\n%s", got, want, r.markdown(headline))
	}
}

func TestPageWithoutAPlaceForTheTable(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page")
	if err := os.WriteFile(page, []byte("a page\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := replaceTable(page, "table\n"); err == nil {
		t.Error("a page without marks was changed")
	}
	text := "before\n" + tableBegin + "old\n" + tableEnd + "after\n"
	if err := os.WriteFile(page, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := replaceTable(page, "new\n"); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(page)
	if want := "before\n" + tableBegin + "\nnew\n\n" + tableEnd + "after\n"; err != nil || string(got) != want {
		t.Errorf("the page is %q, want %q (%v)", got, want, err)
	}
}
