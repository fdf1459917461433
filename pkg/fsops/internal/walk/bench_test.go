package walk

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/fsops/internal/ignore"
)

// BenchmarkTree walks Go's own source.
func BenchmarkTree(b *testing.B) {
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	must(b, err)
	root := filepath.Join(strings.TrimSpace(string(goroot)), "src")
	rules, err := ignore.Open(root, root)
	must(b, err)
	for _, workers := range []int{1, 2, 4} {
		for name, rules := range map[string]*ignore.Dir{"all": nil, "ignoring": rules} {
			b.Run(fmt.Sprintf("%s/workers=%d", name, workers), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					must(b, Tree(b.Context(), root, Options{Workers: workers, Ignore: rules}, func(int, *Entry) error { return nil }))
				}
			})
		}
	}
}
