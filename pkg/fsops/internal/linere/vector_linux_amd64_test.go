//go:build goexperiment.simd

package linere

import (
	"bytes"
	"os"
	"simd/archsimd"
	"strings"
	"syscall"
	"testing"
)

// needVectors skips a test on a processor without the instructions that it tests.
// Such a processor searches as all others do.
func needVectors(t testing.TB) {
	t.Helper()
	if !archsimd.X86.AVX2() {
		t.Skip("the processor has no AVX2")
	}
}

// guardedPage returns a page of memory. A read beyond its end crashes.
func guardedPage(t testing.TB) []byte {
	t.Helper()
	page := os.Getpagesize()
	all, err := syscall.Mmap(-1, 0, 3*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Munmap(all); err != nil {
			t.Error(err)
		}
	})
	for _, guard := range [][]byte{all[:page], all[2*page:]} {
		if err := syscall.Mprotect(guard, syscall.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	return all[page : 2*page]
}

// checkVectors compares the result of a vector search with the text itself, from
// every start. The text is placed at both ends of a page, and in the middle among
// copies of itself.
func checkVectors(t testing.TB, page []byte, list []literal, text []byte, offset int) {
	t.Helper()
	v := vectorsFor(list)
	fill := bytes.Repeat(append([]byte("\n"), text...), len(page)/(len(text)+1)+1)
	copy(page, fill)
	for _, at := range []int{0, len(page) - len(text), offset} {
		placed := page[at : at+copy(page[at:], text)]
		for from := range len(placed) + 1 {
			got, exact := v.find(placed, from)
			switch first := firstLiteral(list, placed[from:]); {
			case first < 0 && got < 0:
			case first < 0 || got < from+first || bytes.IndexByte(placed[from+first:got], '\n') >= 0:
				t.Fatalf("%+v in %q at %d of the page, from %d: %d, want %d", list, text, at, from, got, from+first)
			case !beginsWith(list, placed[got:], exact):
				t.Fatalf("%+v in %q at %d of the page, from %d: none begins at %d that is exact: %t", list, text, at, from, got, exact)
			}
		}
	}
}

// vectorsFor returns the vector search for the literals, even where it does not
// pay.
func vectorsFor(list []literal) vectorSearch {
	if len(list) == 1 && len(list[0].text) > 1 {
		return newVectorPair(list[0])
	}
	return newTeddy(list)
}

// firstLiteral returns the position of the first literal in a text.
func firstLiteral(list []literal, text []byte) int {
	for at := range text {
		if beginsWith(list, text[at:], true) || beginsWith(list, text[at:], false) {
			return at
		}
	}
	return -1
}

func beginsWith(list []literal, text []byte, exact bool) bool {
	for _, l := range list {
		if len(l.text) > len(text) || l.exact != exact {
			continue
		}
		if part := string(text[:len(l.text)]); part == l.text || l.fold && lower(part) == l.text {
			return true
		}
	}
	return false
}

// literals returns one or several literals.
func (g generator) literals() []literal {
	list := make([]literal, 1+g.IntN(2)*g.IntN(20))
	for i := range list {
		l := literal{text: g.of(g.letter(), g.word(), g.word()+g.letter(), strings.Repeat(g.word(), 10)), fold: g.IntN(2) == 0, exact: g.IntN(2) == 0}
		if l.fold && isASCII(l.text) {
			l.text = lower(l.text)
		} else {
			l.fold = false
		}
		list[i] = l
	}
	return list
}

func isASCII(s string) bool { return strings.IndexFunc(s, func(r rune) bool { return r > 0x7f }) < 0 }

func TestVectorsFindLiteralsAtEveryPlaceAndWithinTheText(t *testing.T) {
	needVectors(t)
	g, page := newGenerator(9), guardedPage(t)
	for range 200 {
		list := g.literals()
		for range 4 {
			text := []byte(strings.Repeat(g.piece(), g.IntN(40)) + g.text() + strings.Repeat("\n", g.IntN(70)) + g.piece())
			checkVectors(t, page, list, text, 1+g.IntN(500))
		}
	}
}

// TestVectorsFindLiteralsAtEachDistance puts a literal at each position in texts of
// each length.
func TestVectorsFindLiteralsAtEachDistance(t *testing.T) {
	needVectors(t)
	page := guardedPage(t)
	for _, words := range []string{"k", "kz", "foobar", "foobar quux", "é a kiss b1 c2 d3 e4 f5 g6 h7 i8"} {
		var list []literal
		for _, word := range strings.Fields(words) {
			list = append(list, literal{text: word, fold: isASCII(word)})
		}
		v := vectorsFor(list)
		for length := range 150 {
			for at := range length {
				text := bytes.Repeat([]byte{'.'}, length)
				copy(text[at:], list[at%len(list)].text)
				for _, placed := range [][]byte{page[:length], page[len(page)-length:]} {
					copy(placed, text)
					if got, _ := v.find(placed, 0); got != firstLiteral(list, text) {
						t.Fatalf("%q in %q: %d", words, text, got)
					}
				}
			}
		}
	}
}

func FuzzVectorsAgainstPlainSearch(f *testing.F) {
	needVectors(f)
	f.Add("foo", []byte("a foo b\nbar"), uint16(1), false)
	f.Add("foo|bar|k", []byte("straße\n a b_c\nKISS"), uint16(70), true)
	page := guardedPage(f)
	f.Fuzz(func(t *testing.T, words string, text []byte, offset uint16, fold bool) {
		var list []literal
		for i, word := range strings.Split(words, "|") {
			if word != "" && len(word) <= maxLiteral && strings.IndexByte(word, '\n') < 0 && len(list) < maxAlternatives {
				list = append(list, literal{text: word, fold: fold, exact: i%2 == 0})
			}
		}
		if fold {
			for i := range list {
				if !isASCII(list[i].text) {
					return // lower would change invalid UTF-8
				}
				list[i].text = lower(list[i].text)
			}
		}
		if len(list) == 0 || len(text) > 500 || int(offset) > len(page)-len(text) {
			return
		}
		checkVectors(t, page, list, text, int(offset))
	})
}
