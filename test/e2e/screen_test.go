package e2e

import (
	"bytes"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// screen shows the output of a terminal as a user sees it. It supports as much of
// xterm as full-screen programs use, without colours. Characters are one cell wide.
//
// A maintained emulator, charmbracelet/x/vt, shows the same after each byte of vim,
// less and tmux. But these tests are in the module that hosts import, so it would
// add sixteen modules to their list. One of them, ultraviolet, has no release yet,
// and a host with its own terminal interface (bubbletea) would have to use the
// version that the tests need.
type screen struct {
	mu         sync.Mutex
	rows, cols int
	cells      [][]rune
	row, col   int // col may be cols: then the next character goes to the next line
	top, last  int // the lines that scroll
	main       [][]rune
	alternate  bool   // the screen that a full-screen program uses
	rest       []byte // an incomplete sequence
}

func newScreen(rows, cols int) *screen {
	s := &screen{}
	s.resize(rows, cols)
	return s
}

// resize clears the screen. Programs then redraw it.
func (s *screen) resize(rows, cols int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows, s.cols, s.row, s.col, s.top, s.last = rows, cols, 0, 0, 0, rows-1
	s.cells, s.main = blank(rows, cols), blank(rows, cols)
}

func blank(rows, cols int) [][]rune {
	lines := make([][]rune, rows)
	for i := range lines {
		lines[i] = []rune(strings.Repeat(" ", cols))
	}
	return lines
}

// text returns the lines without trailing blanks, and whether they are those of the
// alternate screen.
func (s *screen) text() (lines []string, alternate bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, line := range s.cells {
		lines = append(lines, strings.TrimRight(string(line), " "))
	}
	return lines, s.alternate
}

var (
	// controlSequence matches CSI with its private mark, its numbers and its name.
	controlSequence = regexp.MustCompile(`^\x1b\[([<-?]?)([0-9;:]*)[ -/]*([@-~])`)
	// controlString matches sequences that terminals do not show: titles, queries.
	controlString = regexp.MustCompile(`^\x1b[\]P^_X](?s:.*?)(\x07|\x1b\\)`)
	// shortSequence matches all others.
	shortSequence = regexp.MustCompile("^\x1b[ -/]*([0-OQ-WYZ`-~\\\\])")
)

// Write receives output.
func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rest = append(s.rest, p...)
	for {
		n := s.next(s.rest)
		if n == 0 {
			return len(p), nil
		}
		s.rest = s.rest[n:]
	}
}

// next shows one character or executes one sequence, and returns its length. The
// length is 0 if the rest is still missing.
func (s *screen) next(b []byte) int {
	if !bytes.HasPrefix(b, []byte("\x1b")) {
		if !utf8.FullRune(b) {
			return 0
		}
		r, n := utf8.DecodeRune(b)
		s.character(r)
		return n
	}
	if m := controlSequence.FindSubmatch(b); m != nil {
		s.control(string(m[1]), numbers(string(m[2])), m[3][0])
		return len(m[0])
	}
	if m := controlString.Find(b); m != nil {
		return len(m)
	}
	m := shortSequence.FindSubmatch(b)
	if m == nil {
		return 0
	}
	if m[1][0] == 'M' && len(m[0]) == 2 {
		s.backUp()
	}
	return len(m[0])
}

func numbers(text string) []int {
	var list []int
	for _, n := range strings.Split(text, ";") {
		i, _ := strconv.Atoi(n) // an empty number is 0
		list = append(list, i)
	}
	return list
}

func (s *screen) character(r rune) {
	switch {
	case r == '\r':
		s.col = 0
	case r == '\n':
		s.feed()
	case r == '\b':
		s.col = max(0, min(s.col, s.cols-1)-1)
	case r == '\t':
		s.col = min(s.col/8*8+8, s.cols-1)
	case r >= ' ':
		if s.col == s.cols {
			s.col = 0
			s.feed()
		}
		s.cells[s.row][s.col] = r
		s.col++
	}
}

// feed moves to the next line, and backUp to the previous one.
func (s *screen) feed() {
	if s.row == s.last {
		s.scroll(s.top, 1)
	} else {
		s.row = min(s.row+1, s.rows-1)
	}
}

func (s *screen) backUp() {
	if s.row == s.top {
		s.scroll(s.top, -1)
	} else {
		s.row = max(s.row-1, 0)
	}
}

// scroll moves the lines from one on up, or down if n is negative.
func (s *screen) scroll(from, n int) {
	part := s.cells[from : s.last+1]
	lines := blank(len(part), s.cols)
	for i := range lines {
		if j := i + n; j >= 0 && j < len(part) {
			lines[i] = part[j]
		}
	}
	copy(part, lines)
}

// control executes a control sequence: see "XTerm Control Sequences".
func (s *screen) control(mark string, list []int, name byte) {
	n := max(1, list[0])
	switch {
	case mark == "?" && (name == 'h' || name == 'l'):
		s.mode(list, name == 'h')
	case mark != "":
	case strings.IndexByte("HfABCDGd", name) >= 0:
		s.move(list, n, name)
	case name == 'J' || name == 'K':
		s.erase(list[0], name == 'J')
	case name == 'L' || name == 'M':
		if s.row >= s.top && s.row <= s.last {
			s.scroll(s.row, map[byte]int{'L': -n, 'M': n}[name])
		}
	case name == 'S' || name == 'T':
		s.scroll(s.top, map[byte]int{'S': n, 'T': -n}[name])
	case strings.IndexByte("P@X", name) >= 0 && s.col < s.cols:
		s.shift(min(n, s.cols-s.col), name)
	case name == 'r':
		s.top, s.last, s.row, s.col = n-1, s.rows-1, 0, 0
		if len(list) > 1 && list[1] > 0 {
			s.last = min(list[1], s.rows) - 1
		}
	}
}

// mode switches to the alternate screen and back.
func (s *screen) mode(list []int, on bool) {
	for _, n := range list {
		if (n == 1049 || n == 1047 || n == 47) && on != s.alternate {
			s.alternate = on
			s.cells, s.main = s.main, s.cells
			if on {
				s.cells = blank(s.rows, s.cols)
			}
		}
	}
}

func (s *screen) move(list []int, n int, name byte) {
	s.col = min(s.col, s.cols-1)
	switch name {
	case 'H', 'f':
		s.row, s.col = n-1, 0
		if len(list) > 1 {
			s.col = max(1, list[1]) - 1
		}
	case 'A':
		s.row -= n
	case 'B':
		s.row += n
	case 'C':
		s.col += n
	case 'D':
		s.col -= n
	case 'G':
		s.col = n - 1
	case 'd':
		s.row = n - 1
	}
	s.row, s.col = min(max(s.row, 0), s.rows-1), min(max(s.col, 0), s.cols-1)
}

// erase clears the line or the screen: from the cursor on (0), up to the cursor
// (1), or all of it.
func (s *screen) erase(part int, all bool) {
	for i, line := range s.cells {
		for j := range line {
			here := i == s.row
			after, before := here && j >= s.col, here && j <= s.col
			if all {
				after, before = after || i > s.row, before || i < s.row
			}
			if part == 0 && after || part == 1 && before || part == 2 && (all || here) {
				line[j] = ' '
			}
		}
	}
}

// shift deletes characters at the cursor, inserts blanks, or overwrites with
// blanks.
func (s *screen) shift(n int, name byte) {
	line := s.cells[s.row]
	blanks := []rune(strings.Repeat(" ", n))
	switch name {
	case 'P':
		line = slices.Concat(line[:s.col], line[s.col+n:], blanks)
	case '@':
		line = slices.Concat(line[:s.col], blanks, line[s.col:s.cols-n])
	case 'X':
		copy(line[s.col:], blanks)
	}
	s.cells[s.row] = line
}
