package audit_test

import (
	"fmt"
	"testing"

	"github.com/podagent/podagent/pkg/gateway/audit"
)

// BenchmarkAct measures what an act costs that is logged.
func BenchmarkAct(b *testing.B) {
	for _, actors := range []int{1, 16} {
		b.Run(fmt.Sprint(actors, " at once"), func(b *testing.B) {
			log := begin(b, audit.Options{Dir: b.TempDir(), Key: newKey(b)})
			b.SetParallelism(actors)
			b.ReportAllocs()
			b.RunParallel(func(p *testing.PB) {
				for i := 0; p.Next(); i++ {
					if err := do(log, fmt.Sprintf("%p-%d", p, i)); err != nil {
						b.Error(err)
					}
				}
			})
			must(b, log.Close())
		})
	}
}
