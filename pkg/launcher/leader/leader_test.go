package leader_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podagent/podagent/pkg/launcher/leader"
)

func TestAnotherLeadsWhenTheOneThatLedEnds(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made")
	synctest.Test(t, func(t *testing.T) {
		var leading, terms atomic.Int32
		var all sync.WaitGroup
		ends := make([]context.CancelFunc, 3)
		last := -1
		for i := range ends {
			ctx, end := context.WithCancel(t.Context())
			ends[i] = end
			f := &leader.File{Path: filepath.Join(dir, "leader.lock")}
			all.Go(func() {
				f.Lead(ctx, func(ctx context.Context) {
					if leading.Add(1) > 1 {
						t.Error("two lead at once")
					}
					last = i
					terms.Add(1)
					<-ctx.Done()
					leading.Add(-1)
				})
			})
		}
		for want := range int32(len(ends)) {
			time.Sleep(time.Minute)
			if terms.Load() != want+1 || leading.Load() != 1 {
				t.Errorf("%d lead, and there were %d, want %d", leading.Load(), terms.Load(), want+1)
			}
			ends[last]()
		}
		all.Wait()
	})
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left are %v: %v", left, err)
	}
}

func TestOneThatNeverLedEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		f := &leader.File{Path: filepath.Join(t.TempDir(), "leader.lock")}
		var all sync.WaitGroup
		all.Go(func() { f.Lead(ctx, func(ctx context.Context) { <-ctx.Done() }) })
		synctest.Wait()
		waiting, leave := context.WithCancel(t.Context())
		other := make(chan struct{})
		go func() {
			defer close(other)
			f.Lead(waiting, func(context.Context) { t.Error("it leads") })
		}()
		time.Sleep(time.Minute)
		leave()
		<-other
		end()
		all.Wait()
	})
}
