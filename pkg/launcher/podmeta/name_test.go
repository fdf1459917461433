package podmeta_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

func TestNamesOfIDsAreValidAndTheirOwn(t *testing.T) {
	ids := []string{
		"a", "A", "a/b", "a-b", "A/B", "a--b", "-a", "a-", "!!!", "???", "🙂", "🙃", "ü", "123", " ", "  ", "\x00", "\xff", "s",
		strings.Repeat("x", 300), strings.Repeat("x", 299) + "y", strings.Repeat("a-", 40), strings.Repeat("x", 63), strings.Repeat("🙂", 64),
	}
	of := map[string]string{}
	for _, id := range ids {
		name := podmeta.NameOf(id)
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 || name != podmeta.NameOf(id) {
			t.Errorf("%q has the name %q: %q", id, name, problems)
		}
		if other, taken := of[name]; taken {
			t.Errorf("%q and %q have the name %s", id, other, name)
		}
		of[name] = id
		if problems := validation.IsValidLabelValue(podmeta.LabelOf(id)); len(problems) > 0 {
			t.Errorf("%q has the label %q: %q", id, podmeta.LabelOf(id), problems)
		}
	}
}
