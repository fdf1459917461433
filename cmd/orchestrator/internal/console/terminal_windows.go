package console

import (
	"context"
	"os"
	"time"

	"golang.org/x/sys/windows"
)

// resizePoll is how often a console is asked for its size, because no signal
// announces a change. docker's client asks as often.
const resizePoll = 250 * time.Millisecond

// onResize calls changed now, and when the terminal's size may have changed,
// until ctx ends.
func onResize(ctx context.Context, changed func()) {
	tick := time.NewTicker(resizePoll)
	defer tick.Stop()
	for {
		changed()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// rawOutput lets a console understand escape sequences, until restore.
func rawOutput(out *os.File) (restore func()) {
	handle := windows.Handle(out.Fd())
	var mode uint32
	if windows.GetConsoleMode(handle, &mode) != nil {
		return func() {} // it is not a console
	}
	const raw = windows.ENABLE_PROCESSED_OUTPUT | windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING | windows.DISABLE_NEWLINE_AUTO_RETURN
	if windows.SetConsoleMode(handle, mode|raw) != nil {
		return func() {} // it is too old
	}
	return func() { _ = windows.SetConsoleMode(handle, mode) } // it may have been closed
}
