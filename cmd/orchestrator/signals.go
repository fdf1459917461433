package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// A signalError is a signal as the cause of a context's end.
type signalError struct{ signal syscall.Signal }

func (e *signalError) Error() string { return e.signal.String() }

// catch returns a channel of the signals that ask to end, which no longer end
// the program then. It holds as many as come before they are received.
func catch(held int) chan os.Signal {
	signals := make(chan os.Signal, held)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		// What nohup, or a shell for its background jobs, had ignored stays so.
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	return signals
}

// delaySecond keeps a second signal from ending the program until release,
// which then ends it if one has come.
func delaySecond() (release func()) {
	signals := catch(2)
	return func() {
		signal.Stop(signals)
		if len(signals) == 2 {
			os.Exit(exitSignal + int((<-signals).(syscall.Signal)))
		}
	}
}

// untilSignal returns a context that a signal which asks to end ends, with a
// *signalError as its cause. A second signal ends the program at once.
func untilSignal(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := catch(1)
	// Handled, a closed pipe is an error of the write, after which the command
	// in the sandbox is ended. Ignored, it would be so in child processes, too.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	go func() {
		select {
		case s := <-signals:
			signal.Stop(signals)
			cancel(&signalError{s.(syscall.Signal)})
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(context.Canceled) }
}
