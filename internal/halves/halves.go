// Package halves ends connections in one direction, or by a reset, through whatever wraps them.
package halves

import "net"

// CloseWrite ends the direction to the other side of a connection. One that can't is closed.
func CloseWrite(conn net.Conn) error {
	if c, ok := conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return conn.Close()
}

// SetLinger sets what Close does, as that of a [net.TCPConn]. It does nothing to a connection that has
// no such choice.
func SetLinger(conn net.Conn, sec int) error {
	if c, ok := conn.(interface{ SetLinger(sec int) error }); ok {
		return c.SetLinger(sec)
	}
	return nil
}

// Reset closes a connection so that the other side gets an error, and not an end.
func Reset(conn net.Conn) {
	_ = SetLinger(conn, 0) // without it the other side sees an end
	conn.Close()
}
