package sshserver

import "time"

// ForgetAfter has open files that nobody reads keep nothing after this time, in place of the one that holds elsewhere.
func (s *Server) ForgetAfter(d time.Duration) { s.idle = d }
