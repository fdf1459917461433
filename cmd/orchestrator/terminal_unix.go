//go:build unix

package main

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

// rawOutput has a terminal take output as it is; restore ends this. Raw mode
// does that here.
func rawOutput(*os.File) (restore func()) { return func() {} }
