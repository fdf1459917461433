package gateway

import (
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
)

func TestOwnersNameIsKeptWhateverItIs(t *testing.T) {
	account := "system/" + strings.Repeat("a", 253)
	for name, want := range map[string]string{
		"": "", "ci": "ci", "-": "-", "Ann's laptop, 2nd": "Ann's laptop, 2nd", account: account,
		strings.Repeat("n", 1000):       strings.Repeat("n", ownerLimit),
		strings.Repeat("é", ownerLimit): strings.Repeat("é", ownerLimit/2),
		"not\xfftext":                   "nottext",
	} {
		labels := withOwn(nil, Caller{Tenant: "acme", Key: name}, "", &NewSandbox{})
		spec := launcher.Spec{Labels: labels}
		if err := spec.Validate(); err != nil {
			t.Errorf("%.20q: %v", name, err)
		}
		if got := ownerOf(launcher.Summary{ID: "acme.job-1", Labels: labels}); got == nil || *got != (Owner{"acme", want}) {
			t.Errorf("%.20q is %.20q", name, got)
		}
		if seen := withoutOwn(labels); len(seen) > 0 {
			t.Errorf("callers see %v", seen)
		}
	}
}

func TestOwnerIsNotGuessed(t *testing.T) {
	for name, s := range map[string]launcher.Summary{
		"made before":      {ID: "acme.job-1", Labels: map[string]string{labelMaker: "00"}},
		"changed":          {ID: "acme.job-1", Labels: map[string]string{labelOwner + "00": "ci"}},
		"without its edge": {ID: "acme.job-1", Labels: map[string]string{labelOwner + "00": "x"}},
		"no base64":        {ID: "acme.job-1", Labels: map[string]string{labelOwner + "00": "x.x"}},
		"a part is gone":   {ID: "acme.job-1", Labels: map[string]string{labelOwner + "01": "xx"}},
		"of no gateway":    {ID: "job-1", Labels: map[string]string{labelOwner + "00": "xx"}},
	} {
		if got := ownerOf(s); got != nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
