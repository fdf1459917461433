package linere

import (
	"bytes"
	"context"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"
)

// hung is how long a test waits for a search that takes seconds.
const hung = 2 * time.Minute

// manyLines returns lines of random characters.
func manyLines(alphabet string, size int) []byte {
	r := rand.New(rand.NewPCG(4, 4))
	text := make([]byte, size)
	for i := range text {
		text[i] = alphabet[r.IntN(len(alphabet))]
	}
	for i := 200; i < size; i += 200 {
		text[i] = '\n'
	}
	return text
}

// hugePatterns are large, or make an automaton explode.
func hugePatterns() []hugePattern {
	r := rand.New(rand.NewPCG(5, 5))
	var words []string
	for range 1000 {
		word := make([]byte, 9)
		for i := range word {
			word[i] = "abcdef01"[r.IntN(8)]
		}
		words = append(words, string(word))
	}
	return []hugePattern{
		{"exponential", "(a|b)*a(a|b){20}$|x", "ab"},
		{"exponential suffix", "[01]*1[01]{16}$", "01"},
		{"counted", `(?:[a-f]{3,50}[0-9]){10}$`, "abcdef01"},
		{"10 KB of words", strings.Join(words, "|"), "abcdef01"},
		{"10 KB of text", strings.Repeat("abcdefghi ", 1024), "abcdefghi "},
		{"10 KB of classes", strings.Repeat(`\pL\w[^a]`, 1024), "abcdef01"},
		{"10 KB of questions", strings.Repeat("a?", 2500) + strings.Repeat("a", 2500), "a"},
		{"as many as may be", strings.Repeat(`[a-f01]{1000}`, 30) + "x", "abcdef01"},
	}
}

type hugePattern struct{ name, pattern, alphabet string }

func TestHugePatternsAreBoundedInMemoryAndTime(t *testing.T) {
	for _, huge := range hugePatterns() {
		t.Run(huge.name, func(t *testing.T) {
			text := manyLines(huge.alphabet, 256<<10)
			before := heap()
			started := time.Now()
			re, err := Compile(huge.pattern, Options{})
			if err != nil {
				t.Fatal(err)
			}
			s := re.Searcher(context.Background())
			for from := 0; time.Since(started) < hung; {
				_, end, ok := s.Next(text, from)
				if !ok {
					break
				}
				from = end + 1
			}
			if grown := heap() - before; grown > 16<<20 {
				t.Errorf("holds %d MiB", grown>>20)
			}
			t.Logf("took %v, gave up %d times", time.Since(started), s.giveUps)
			if time.Since(started) > hung {
				t.Errorf("took more than %v for 256 KiB", hung)
			}
			runtime.KeepAlive(s)
		})
	}
}

// heap returns the bytes in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestCacheIsBounded(t *testing.T) {
	re, err := Compile("[ab]*a[ab]{14}c|x", Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := newDFA(context.Background(), re.prog)
	text := manyLines("ab", 256<<10)
	flushed := false
	for at, out := 0, none; at < len(text); {
		size := d.size
		if at, out = d.search(text, at); out == found {
			t.Fatal("matches")
		}
		if d.size > maxCache || 4*len(d.trans) > maxCache {
			t.Fatalf("the cache has %d bytes", d.size)
		}
		flushed = flushed || d.size < size || out == gaveUp
	}
	if !flushed {
		t.Error("the cache was never full, so this test shows nothing")
	}
}

func TestManyMatchesInOneLineAreNotQuadratic(t *testing.T) {
	text := bytes.Repeat([]byte("abc "), 1<<20)
	re, err := Compile("abc", Options{Multiline: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), hung) // this takes a fraction of a second
	defer cancel()
	if _, end, _ := re.Searcher(ctx).Next(text, 0); end != len(text) || ctx.Err() != nil {
		t.Errorf("the line ends at %d, want %d: %v", end, len(text), ctx.Err())
	}
}

func TestAutomatonGoesOverEachByteOnce(t *testing.T) {
	re, err := Compile("[ab]{3}c", Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := newDFA(context.Background(), re.prog)
	text := manyLines("ab01", 1<<20+100)
	if _, out := d.search(text, 0); out != none || d.fed != len(text) {
		t.Errorf("%d bytes were searched, outcome %v; there are %d", d.fed, out, len(text))
	}
}

func TestAutomatonThatIsEmptiedIsStillRight(t *testing.T) {
	pattern, text := `(?:[ab]*a[ab]{12}b|[01]*1[01]{13})$`, manyLines("ab01", 64<<10)
	checkLines(t, pattern, Options{}, string(text), string(manyLines("ab", 128<<10)), string(manyLines("01", 128<<10)))
}

func TestManyNeedlesInDenseTextAreNotQuadratic(t *testing.T) {
	text := []byte(strings.Repeat("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab\n", 30000))
	started := time.Now()
	for _, pattern := range []string{
		strings.Repeat("a", 64), strings.Repeat("a", 34) + "c", "(?i)" + strings.Repeat("a", 33) + "c",
		"aab|QQQQ|zzzz|%%%%", "aa[^b]{40}|b{3}", `aa\w+c`,
	} {
		re, err := Compile(pattern, Options{})
		if err != nil {
			t.Fatal(err)
		}
		countLines(re.Searcher(context.Background()), text)
		long := []byte(strings.Repeat("a", len(text)))
		countLines(re.Searcher(context.Background()), long)
	}
	if took := time.Since(started); took > hung {
		t.Errorf("took %v", took)
	}
}
