package admission

import (
	"errors"
	"net"
	"time"
)

// acceptPause is how long a patient listener waits after an error. It is short for callers, and long for the processor.
const acceptPause = 50 * time.Millisecond

// Patient returns a listener whose Accept fails only when l is closed. After any other error it tries again, after a
// pause: servers end at what they take for lasting, such as ENOSPC. Linux counts for all processes of a user together
// what accepting takes, so other programs of the user can use it up, and give it back.
func Patient(l net.Listener) net.Listener { return patient{l} }

type patient struct{ net.Listener }

func (p patient) Accept() (net.Conn, error) {
	for {
		conn, err := p.Listener.Accept()
		if err == nil || errors.Is(err, net.ErrClosed) {
			return conn, err
		}
		time.Sleep(acceptPause)
	}
}
