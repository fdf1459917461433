//go:build unix

package console

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// onResize calls changed now, and when the terminal's size may have changed,
// until ctx ends.
func onResize(ctx context.Context, changed func()) {
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)
	for {
		changed()
		select {
		case <-resized:
		case <-ctx.Done():
			return
		}
	}
}

// rawOutput lets a terminal take output unchanged, until restore. On unix, raw mode
// has already done so.
func rawOutput(*os.File) (restore func()) { return func() {} }
