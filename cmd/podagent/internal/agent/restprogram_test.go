package agent

import (
	"slices"
	"strings"
	"testing"
)

func TestProgramMappingsAreThoseOfFilesThatNobodyHasChanged(t *testing.T) {
	const smaps = `00400000-00a8e000 r-xp 00000000 fe:00 1234                       /bin/podagent
Rss:                1088 kB
Anonymous:             0 kB
Swap:                  0 kB
VmFlags: rd ex mr mw me
00a8e000-011f6000 r--p 0068e000 fe:00 1234                       /bin/podagent (deleted)
Anonymous:             0 kB
Swap:                  0 kB
011f6000-0127b000 r--p 0068e000 fe:00 1234                       /bin/podagent
Anonymous:             4 kB
Swap:                  0 kB
0127b000-032c0000 rw-p 00df6000 fe:00 1234                       /bin/podagent
Anonymous:             0 kB
Swap:                  0 kB
7f001000-7f002000 r--p 00000000 fe:00 1235                       /lib/relocated
Anonymous:             0 kB
Swap:                  8 kB
c000000000-c000400000 r--p 00000000 00:00 0
Anonymous:             0 kB
Swap:                  0 kB
7ffd1000-7ffd2000 r-xp 00000000 00:00 0                          [vdso]
Anonymous:             0 kB
Swap:                  0 kB
zzz-7ffd2000 r-xp 00000000 00:00 0                               /odd
Anonymous:             0 kB
Swap:                  0 kB
`
	want := []mapping{{0x400000, 0xa8e000}, {0xa8e000, 0x11f6000}}
	if got := programMappings(strings.NewReader(smaps)); !slices.Equal(got, want) {
		t.Errorf("%x", got)
	}
}
