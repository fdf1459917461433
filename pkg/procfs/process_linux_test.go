package procfs

import "testing"

func TestStatWithParenthesesAndSpacesInTheName(t *testing.T) {
	text := "42 (a) S 1 (b) R) S 7 40 41 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 98765 0 0\n"
	s, ok := parseStat([]byte(text))
	if want := (Stat{State: 'S', Parent: 7, Group: 40, Session: 41, Threads: 1, Start: 98765}); !ok || s != want {
		t.Errorf("got %+v, %v", s, ok)
	}
	for _, bad := range []string{"", "42", "42 (a)", "42 (a) S 1 2", "42 (a) S x 2 3 0 -1 0 1 0 0 0 0 0 0 0 20 0 1 0 98765 0"} {
		if _, ok := parseStat([]byte(bad)); ok {
			t.Errorf("accepted %q", bad)
		}
	}
}
