package console

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// A SignalError is a signal as the cause of a context's end.
type SignalError struct{ Signal syscall.Signal }

func (e *SignalError) Error() string { return e.Signal.String() }

// ExitStatus returns the exit status of a program that this signal ended, as in
// shells.
func ExitStatus(s syscall.Signal) int { return 128 + int(s) }

// catch returns a channel of the signals that ask the program to end, which then no
// longer end it. The channel buffers this many.
func catch(held int) chan os.Signal {
	signals := make(chan os.Signal, held)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		// A signal that nohup, or a shell with background jobs, made the program ignore
		// stays ignored.
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	return signals
}

// DelaySecond keeps a second signal from ending the program. release allows it again,
// and ends the program if there was one. What goes on meanwhile has to end within a time
// of its own.
func DelaySecond() (release func()) {
	signals := catch(2)
	return func() {
		signal.Stop(signals)
		if len(signals) == 2 {
			os.Exit(ExitStatus((<-signals).(syscall.Signal)))
		}
	}
}

// UntilSignal returns a context that ends when a signal asks the program to end: SIGINT,
// SIGTERM, SIGHUP or SIGQUIT. Its cause then is a [*SignalError]. A second signal ends
// the program at once, or as soon as no [Console] is lent and nothing delays it
// ([DelaySecond]).
func UntilSignal(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := catch(1)
	// With SIGPIPE handled, writing to a closed pipe returns an error, and then the
	// command in the sandbox is ended. Ignoring SIGPIPE would be inherited by child
	// processes.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	go func() {
		select {
		case s := <-signals:
			signal.Stop(signals)
			cancel(&SignalError{s.(syscall.Signal)})
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(context.Canceled) }
}
