package proc

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// observed returns a screen that saw text in pieces of the given sizes, and then
// the rest at once.
func observed(text string, pieces ...int) *screen {
	s := newScreen()
	at := 0
	for _, n := range append(pieces, len(text)) {
		end := min(at+n, len(text))
		s.observe(int64(at), []byte(text[at:end]))
		at = end
	}
	return s
}

func TestScreenIsReplayedFromItsLastClear(t *testing.T) {
	lines := strings.Repeat("a line\r\n", 20)
	long := strings.Repeat("x", replayScreen/2)
	for name, c := range map[string]struct{ before, from, prelude string }{
		"nothing to clear":              {"", lines, ""},
		"clear":                         {lines, "\x1b[2Jtext", ""},
		"home and clear":                {lines, "\x1b[H\x1b[2J\x1b[3Jtext", ""},
		"home and erase below":          {lines, "\x1b[H\x1b[Jtext", ""},
		"erase below alone":             {"", lines + "\x1b[Jtext", ""},
		"home, and erase below later":   {"", lines + "\x1b[Hx\x1b[Jtext", ""},
		"reset":                         {lines + "\x1b[?1h", "\x1bctext", ""},
		"the last of two":               {lines + "\x1b[2J" + lines, "\x1b[2Jtext", ""},
		"alternate screen":              {lines, "\x1b[?1049h\x1b[?1hdrawn\x1b[Hagain", ""},
		"cleared alternate screen":      {lines, "\x1b[?1049hdrawn\x1b[2Jagain", ""},
		"entered too far back":          {lines + "\x1b[?1049h\x1b[?1h\x1b=" + long + long, "\x1b[2Jagain", "\x1b[?1049h\x1b[?1h\x1b="},
		"left the alternate screen":     {lines, "\x1b[2Jprompt\x1b[?1049hdrawn\x1b[2J\x1b[?1049lprompt", ""},
		"left it, cleared too far back": {lines + "\x1b[2J\x1b[?1049h" + long + long, "\x1b[?1049lprompt", ""},
		"modes set before":              {"\x1b[?2004h\x1b[?25l" + lines, "\x1b[2Jtext", "\x1b[?2004h\x1b[?25l"},
		"modes set and reset":           {"\x1b[?2004h\x1b[?25l" + lines + "\x1b[?25h\x1b[?2004l", "\x1b[2Jtext", ""},
		"modes set after":               {lines, "\x1b[2Jtext\x1b[?2004h", ""},
		"no clear in a long output":     {long + "\n" + long[1:] + "\x1b[2J" + long + "\n", long + "rest", ""},
		"one line":                      {long, long + long, ""},
		"in a title":                    {lines + "\x1b]0;title\x07", "\x1b[2Jtext", ""},
	} {
		text := c.before + c.from
		offset, prelude := observed(text).start(0, int64(len(text)))
		if text[offset:] != c.from || string(prelude) != c.prelude {
			t.Errorf("%s: begins at %d and not at %d, with prelude %q", name, offset, len(c.before), prelude)
		}
	}
}

// pieces are what random terminal output is made of.
var terminalPieces = []string{
	"\x1b[H", "\x1b[2J", "\x1b[3J", "\x1b[J", "\x1bc", "\x1b[?1049h", "\x1b[?1049l", "\x1b[?47h", "\x1b[?47l",
	"\x1b[?1h", "\x1b[?1l", "\x1b=", "\x1b>", "\x1b[?25l", "\x1b[?25h", "\x1b[?1002;1006h", "\x1b[?1002;1006l",
	"\x1b[?2004h", "\x1b[?2004l", "\x1b[31m", "\x1b]0;t\x07", "\x1b(B", "\x1b[", "\x1b", "\x18", "text", "line\r\n",
	strings.Repeat("y", 3000), strings.Repeat("z\n", 9000),
}

func randomOutput(r *rand.Rand) string {
	var b strings.Builder
	for range 1 + r.IntN(60) {
		b.WriteString(terminalPieces[r.IntN(len(terminalPieces))])
	}
	return b.String()
}

func TestScreenDoesNotDependOnHowOutputIsCut(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		text := randomOutput(r)
		var cuts []int
		for range r.IntN(20) {
			cuts = append(cuts, r.IntN(1+r.IntN(5000)))
		}
		checkCuts(t, text, cuts)
	}
}

func checkCuts(t *testing.T, text string, cuts []int) {
	t.Helper()
	end := int64(len(text))
	offset, prelude := observed(text).start(0, end)
	cutOffset, cutPrelude := observed(text, cuts...).start(0, end)
	if cutOffset != offset || !bytes.Equal(cutPrelude, prelude) {
		t.Errorf("in pieces of %v: %d %q, in one %d %q: %q", cuts, cutOffset, cutPrelude, offset, prelude, text)
	}
}

// A terminal that gets only the replay ends up in the same modes.
func TestReplayRestoresTheModes(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		checkReplay(t, randomOutput(r))
	}
}

func checkReplay(t *testing.T, text string) {
	t.Helper()
	whole := observed(text)
	offset, prelude := whole.start(0, int64(len(text)))
	if offset < int64(len(prelude)) || offset > int64(len(text)) || int64(len(text))-offset > replayScreen+maxSequence*4 {
		t.Fatalf("begins at %d of %d with %d bytes before: %q", offset, len(text), len(prelude), text)
	}
	replayed := observed(string(prelude) + text[offset:])
	if a, b := modesOf(whole), modesOf(replayed); !slices.Equal(a, b) {
		t.Errorf("from %d with %q: modes %v, not %v: %q", offset, prelude, b, a, text)
	}
}

func modesOf(s *screen) []int {
	var modes []int
	for _, m := range s.modes {
		modes = append(modes, m.number)
	}
	slices.Sort(modes)
	if s.keypad {
		modes = append(modes, -1)
	}
	if s.entered >= 0 {
		modes = append(modes, -2)
	}
	return modes
}

func FuzzScreen(f *testing.F) {
	f.Add("\x1b[?1049h\x1b[2Jtext", 3, 2)
	f.Add("a\nb\x1b[?25;1l\x1bc\x1b[?1l", 1, 4)
	f.Fuzz(func(t *testing.T, text string, a, b int) {
		checkCuts(t, text, []int{max(0, a%(len(text)+1)), max(0, b%(len(text)+1))})
		checkReplay(t, text)
	})
}
