package podapi

import (
	"errors"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/podapi/wire"
)

func TestVersionsAMinorApartWorkTogetherAndOthersSayWhomToUpdate(t *testing.T) {
	for _, test := range []struct {
		major, minor int
		want         string // in the error; empty if they work together
	}{
		{wire.ProtocolMajor, wire.ProtocolMinor, ""},
		{wire.ProtocolMajor, wire.ProtocolMinor + 1, ""},
		{wire.ProtocolMajor, wire.ProtocolMinor - 1, ""},
		{wire.ProtocolMajor, wire.ProtocolMinor + 2, "update this client"},
		{wire.ProtocolMajor, wire.ProtocolMinor - 2, "update the agent's image"},
		{wire.ProtocolMajor + 1, 0, "update this client"},
		{wire.ProtocolMajor - 1, 9, "update the agent's image"},
	} {
		err := checkVersion(test.major, test.minor)
		if test.want == "" && err != nil || test.want != "" && (!errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("protocol %d.%d: %v, want %q", test.major, test.minor, err, test.want)
		}
	}
}
